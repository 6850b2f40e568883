//go:build unix

package rundir

import (
	"strings"
	"testing"
)

// Two processes on one sweep would each write over what the other knows. An open
// file of its own is to flock what a process of its own is.
func TestSweepIsLocked(t *testing.T) {
	first, err := CreateSweep(t.TempDir(), "abc", SweepMeta{Kind: SweepKind})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ResumeSweep(first.Dir); err == nil || !strings.Contains(err.Error(), "still at work") {
		t.Fatalf("a second one went on: %v", err)
	}
	if _, err := OpenSweep(first.Dir); err != nil {
		t.Errorf("reading needs no lock: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := ResumeSweep(first.Dir)
	if err != nil {
		t.Fatalf("the lock outlived its holder: %v", err)
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestResumeOfNoSweep(t *testing.T) {
	if _, err := ResumeSweep(t.TempDir()); err == nil || !strings.Contains(err.Error(), "is not the directory of a sweep") {
		t.Fatalf("got %v", err)
	}
}

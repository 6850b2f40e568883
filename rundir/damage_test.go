package rundir

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/assay-bench/assay/record"
)

// TestDamage: a complete run that lost whole records afterwards is found out.
func TestDamage(t *testing.T) {
	w, err := Create(t.TempDir(), "abcdef", Meta{})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"a", "b", "c"} {
		if err := w.Append(&record.Attempt{ID: id, Outcome: record.Completed}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(true, ""); err != nil {
		t.Fatal(err)
	}
	if d := damage(t, w.Dir()); d != "" {
		t.Errorf("a whole run is damaged: %s", d)
	}
	path := filepath.Join(w.Dir(), recordsFile)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(b, []byte("\n"))
	if err := os.WriteFile(path, bytes.Join(lines[:2], nil), 0o644); err != nil {
		t.Fatal(err)
	}
	if d := damage(t, w.Dir()); d != "its files are damaged: records.jsonl has 2 of the 3 attempts that run.json tells of" {
		t.Errorf("damage %q", d)
	}
}

func damage(t *testing.T, dir string) string {
	t.Helper()
	r, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for range r.Records {
	}
	if r.Err() != nil {
		t.Fatal(r.Err())
	}
	return r.Damage()
}

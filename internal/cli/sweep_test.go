//go:build unix

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/assay-bench/assay/result"
	"github.com/assay-bench/assay/rundir"
)

const sweepSecret = "s3cret-of-a-sweep"

// smallSweep is a sweep of four short runs of the built-in engine.
func smallSweep(more ...string) []string {
	return append([]string{
		"sweep", "--concurrency", "1,2", "--repeats", "2", "--requests", "8", "--warmup", "none", "--prompt-tokens", "20",
		"--output-tokens", "4", "--no-check", "--no-stop", "--fail-on", "none", "--header", "X-Secret: " + sweepSecret,
	}, more...)
}

// sweepDir is the one directory below runs, and what is in its sweep.json.
func sweepDir(t *testing.T, dir string) (path string, m rundir.SweepMeta) {
	t.Helper()
	dirs, _ := filepath.Glob(dir + "/runs/*")
	if len(dirs) != 1 {
		return "", m
	}
	b, err := os.ReadFile(filepath.Join(dirs[0], "sweep.json"))
	if err != nil {
		return "", m
	}
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatalf("sweep.json is not whole: %v", err)
	}
	return dirs[0], m
}

func states(m *rundir.SweepMeta) map[string]int {
	n := make(map[string]int)
	for _, c := range m.Cells {
		n[c.State]++
	}
	return n
}

// startSweep begins a sweep, and returns while its second run is under way.
func startSweep(t *testing.T, dir string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	cmd := command(t, context.Background(), dir, smallSweep()...)
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	if !until(func() bool {
		_, m := sweepDir(t, dir)
		n := states(&m)
		return n[result.CellDone] >= 1 && n[result.CellRunning] == 1
	}) {
		t.Fatal("the second run never began")
	}
	return cmd, &out
}

// TestSweepKilled: a sweep that is killed loses the run that was under way, and goes
// on from there.
func TestSweepKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd, _ := startSweep(t, dir)
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	path, before := sweepDir(t, dir)
	n := states(&before)
	if n[result.CellDone] < 1 || n[result.CellDone]+n[result.CellRunning]+n[result.CellPlanned] != 4 {
		t.Fatalf("states after the kill: %v", n)
	}
	if out, err := command(t, context.Background(), dir, "report", path).CombinedOutput(); err != nil || !bytes.Contains(out, []byte("PARTIAL")) {
		t.Errorf("the report of what is there: %v\n%s", err, out)
	}

	// The values of headers are stored nowhere: without them it does not go on.
	out, err := command(t, context.Background(), dir, "sweep", "--resume", path, "-q").CombinedOutput()
	if err == nil || !bytes.Contains(out, []byte("X-Secret")) {
		t.Errorf("resumed without the header: %v\n%s", err, out)
	}
	out, err = command(t, context.Background(), dir, "sweep", "--resume", path, "-q", "--fail-on", "none", "--header", "X-Secret: "+sweepSecret).CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("4 of 4 runs done")) {
		t.Errorf("resumed: %v\n%s", err, out)
	}
	_, after := sweepDir(t, dir)
	if !after.Complete || states(&after)[result.CellDone] != 4 {
		t.Errorf("after going on: complete %v, %v", after.Complete, states(&after))
	}
	for i, c := range before.Cells {
		if c.State == result.CellDone && after.Cells[i].Run != c.Run {
			t.Errorf("%s, repeat %d was run again: %s, before %s", c.Stage, c.Repeat, after.Cells[i].Run, c.Run)
		}
	}
	noSecret(t, path)
}

// noSecret looks into every file.
func noSecret(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte(sweepSecret)) {
			t.Errorf("%s holds the secret", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestSweepInterrupted: Ctrl-C ends it in order, with a report of what there is.
func TestSweepInterrupted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd, out := startSweep(t, dir)
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exitInterrupted {
		t.Errorf("exit code %d, want %d", code, exitInterrupted)
	}
	if !strings.Contains(out.String(), "PARTIAL") || !strings.Contains(out.String(), "assay sweep --resume") {
		t.Errorf("the report:\n%s", out)
	}
	_, m := sweepDir(t, dir)
	if n := states(&m); m.Complete || m.Ended != "interrupted" || n[result.CellRunning] != 0 || n[result.CellDone] < 1 {
		t.Errorf("complete %v, ended %q, %v", m.Complete, m.Ended, n)
	}
}

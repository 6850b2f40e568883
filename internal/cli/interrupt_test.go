//go:build unix

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/assay-bench/assay/result"
)

// long is a run of the built-in engine that ends only when it is ended.
func long(more ...string) []string {
	return append([]string{"run", "--duration", "5m", "--concurrency", "4", "--prompt-tokens", "20", "--output-tokens", "6", "--fail-on", "none"}, more...)
}

// running is a run in another process.
type running struct {
	cmd            *exec.Cmd
	dir            string
	stdout, stderr bytes.Buffer
}

// start begins a run, and returns when it has stored n records.
func start(t *testing.T, n int, args ...string) *running {
	t.Helper()
	r := &running{dir: t.TempDir()}
	r.cmd = command(t, context.Background(), r.dir, args...)
	r.cmd.Stdout, r.cmd.Stderr = &r.stdout, &r.stderr
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.cmd.Process.Kill() })
	if !until(func() bool { return len(r.records()) >= n }) {
		t.Fatal("the run stores nothing")
	}
	return r
}

func (r *running) records() []string {
	b, err := os.ReadFile(filepath.Join(r.runDir(), "records.jsonl"))
	if err != nil || len(b) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}

func (r *running) runDir() string {
	dirs, _ := filepath.Glob(r.dir + "/runs/*")
	if len(dirs) == 0 {
		return "none"
	}
	return dirs[0]
}

func (r *running) end(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := r.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		_ = r.cmd.Wait()
		close(done)
	}()
	if !until(func() bool {
		select {
		case <-done:
			return true
		default:
			return false
		}
	}) {
		t.Fatalf("the run does not end on %v", s)
	}
}

func (r *running) meta(t *testing.T) (m struct {
	Complete bool
	Ended    string
	Stages   []result.StageInfo
	Target   result.Target
}) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(r.runDir(), "run.json"))
	if err == nil {
		err = json.Unmarshal(b, &m)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// engineGone waits until nothing listens any more where the engine did.
func (r *running) engineGone(t *testing.T) {
	t.Helper()
	url := r.meta(t).Target.URL
	if !until(func() bool {
		o := assay(t, t.TempDir(), nil, "run", url, "--timeout-connect", "1s")
		return strings.Contains(o.stderr, "connection refused")
	}) {
		t.Errorf("the built-in engine lives on at %s", url)
	}
}

// TestInterrupt: Ctrl-C keeps what there is, and says that it is not all.
func TestInterrupt(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		sig  syscall.Signal
		want string // what closed the window
	}{
		{"in the window", []string{"--warmup", "none"}, syscall.SIGINT, "interrupted"},
		// Two cohorts must end before this warm-up can, and each takes a second.
		{"in the warm-up", []string{"--concurrency", "30", "--output-tokens", "200"}, syscall.SIGINT, "interrupted"},
		{"by SIGTERM", []string{"--warmup", "none", "--rate", "50"}, syscall.SIGTERM, "interrupted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			args := long(c.args...)
			if strings.Contains(c.name, "SIGTERM") {
				args = append([]string{"run", "--duration", "5m", "--prompt-tokens", "20", "--output-tokens", "6", "--fail-on", "none"}, c.args...)
			}
			r := start(t, 1, args...)
			r.end(t, c.sig)
			if code := r.cmd.ProcessState.ExitCode(); code != exitInterrupted {
				t.Errorf("exit code %d, want %d: %s", code, exitInterrupted, &r.stderr)
			}
			if !strings.HasSuffix(r.stderr.String(), "assay: interrupted\n") {
				t.Errorf("standard error:\n%s", &r.stderr)
			}
			m := r.meta(t)
			if m.Complete || m.Ended != "interrupted" || len(m.Stages) != 1 || m.Stages[0].WindowClosed != c.want {
				t.Errorf("run.json: %+v", m)
			}
			if warm := m.Stages[0].Warmup; (warm.Capped == "interrupted") != (c.name == "in the warm-up") {
				t.Errorf("warm-up: %+v", warm)
			}
			if w := m.Stages[0].Window; w.Length() > 20*time.Second {
				t.Errorf("the window is %v long, longer than the run", w.Length())
			}
			o := assay(t, r.dir, nil, "report", filepath.Join("runs", filepath.Base(r.runDir())))
			if o.code != exitOK || !strings.Contains(o.stdout, "PARTIAL") || o.stdout != r.stdout.String() {
				t.Errorf("the report again (exit code %d) differs from the first one:\n%s\n--- first:\n%s", o.code, o.stdout, &r.stdout)
			}
			r.engineGone(t)
		})
	}
}

// TestKill: SIGKILL leaves a directory that can be read and that says that it is
// partial, and no engine.
func TestKill(t *testing.T) {
	for _, warmup := range []string{"none", "median"} {
		t.Run("warmup "+warmup, func(t *testing.T) {
			t.Parallel()
			r := start(t, 20, long("--warmup", warmup)...)
			r.end(t, syscall.SIGKILL)
			if m := r.meta(t); m.Complete || len(m.Stages) != 1 {
				t.Errorf("run.json: %+v", m)
			}
			o := assay(t, r.dir, nil, "report", "--json", r.runDir())
			run := parseRun(t, o)
			if run.Complete || len(run.Stages) != 1 {
				t.Fatalf("complete %v, %d stages", run.Complete, len(run.Stages))
			}
			// Half a record may stand at the end.
			s := run.Stages[0]
			if n, all := s.LedgerRun.Attempts, len(r.records()); n < all-1 || n > all || n < 20 {
				t.Errorf("%d attempts in the report, %d lines on disk", n, all)
			}
			if warmup == "none" && (s.WindowClosed != "the run died" || s.Ledger.Completed < 10 || s.Window.Length() <= 0) {
				t.Errorf("window %v, closed %q, %d completed in it", s.Window, s.WindowClosed, s.Ledger.Completed)
			}
			if o := assay(t, r.dir, nil, "report", r.runDir()); o.code != exitOK || !strings.Contains(o.stdout, "PARTIAL") {
				t.Errorf("exit code %d:\n%s%s", o.code, o.stdout, o.stderr)
			}
			r.engineGone(t)
		})
	}
}

// TestInterruptBeforeTheLoad: while the target is still being probed there is
// nothing to keep.
func TestInterruptBeforeTheLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	accepted := make(chan struct{}, 1)
	ln := listen(t)
	go func() {
		c, err := ln.Accept()
		if err == nil {
			accepted <- struct{}{}
			defer c.Close()
		}
		_, _ = ln.Accept() // until the test ends
	}()
	r := &running{dir: dir, cmd: command(t, context.Background(), dir, "run", "http://"+ln.Addr().String())}
	r.cmd.Stdout, r.cmd.Stderr = &r.stdout, &r.stderr
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.cmd.Process.Kill() })
	<-accepted
	r.end(t, syscall.SIGINT)
	if code := r.cmd.ProcessState.ExitCode(); code != exitInterrupted || r.stderr.String() != "assay: interrupted\n" {
		t.Errorf("exit code %d, standard error %q", code, &r.stderr)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("%s was left behind", left[0].Name())
	}
}

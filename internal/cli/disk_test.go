//go:build linux

package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestFullDisk: a disk that takes no more ends the run with one line that says
// why and where the rest is; what was written can be reported, as partial.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	target := (&fake{}).start(t)
	dir := t.TempDir()
	cmd := command(t, t.Context(), dir, append([]string{"run", target, "-q", "--think-time", "100ms"}, long()[1:]...)...)
	// No file may grow beyond 64 blocks of 512 or 1024 bytes.
	limited := exec.Command(sh, append([]string{"-c", `ulimit -f 64; exec -a assay "$0" "$@"`, cmd.Path}, cmd.Args[1:]...)...)
	if strings.Contains(realName(sh), "dash") {
		// dash has no exec -a: a link has the name.
		link := filepath.Join(t.TempDir(), "assay")
		if err := os.Symlink(cmd.Path, link); err != nil {
			t.Fatal(err)
		}
		limited.Args[2], limited.Args[3] = `ulimit -f 64; exec "$0" "$@"`, link
	}
	var stdout, stderr strings.Builder
	limited.Dir, limited.Env, limited.Stdout, limited.Stderr = dir, cmd.Env, &stdout, &stderr
	if err := limited.Run(); err == nil {
		t.Fatalf("the run knows nothing of a full disk:\n%s", stdout.String())
	}
	if !regexp.MustCompile(`^assay: writing [a-z.]+: .*file too large; what was written is in runs/\S+\n$`).MatchString(stderr.String()) {
		t.Errorf("standard error:\n%s", stderr.String())
	}
	dirs, _ := filepath.Glob(dir + "/runs/*")
	if len(dirs) != 1 {
		t.Fatalf("%d run directories", len(dirs))
	}
	r := parseRun(t, assay(t, dir, nil, "report", "--json", dirs[0]))
	if r.Complete || !strings.Contains(r.Ended, "file too large") || len(r.Stages) != 1 || r.Stages[0].LedgerRun.Completed == 0 {
		t.Errorf("complete %v, ended %q, %d stages", r.Complete, r.Ended, len(r.Stages))
	}
}

func realName(path string) string {
	if to, err := filepath.EvalSymlinks(path); err == nil {
		return to
	}
	return path
}

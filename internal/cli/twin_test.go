package cli

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/rundir"
)

// planOf runs a command and says what it asked of the engine, request by request,
// and when after the first.
func planOf(t *testing.T, args ...string) map[int64][3]int64 {
	t.Helper()
	out := t.TempDir()
	var stdout, stderr bytes.Buffer
	args = append(args, "--rate", "60", "--requests", "40", "--prompt-tokens", "16..64", "--output-tokens", "2..8",
		"--seed", "5", "--warmup", "none", "--fail-on", "none", "-q", "--out", out)
	if code := Main(args, strings.NewReader(""), &stdout, &stderr); code != 0 {
		t.Fatalf("exit code %d: %s", code, &stderr)
	}
	dirs, err := filepath.Glob(filepath.Join(out, "*"))
	if err != nil || len(dirs) != 1 {
		t.Fatal(dirs, err)
	}
	r, err := rundir.Open(dirs[0])
	if err != nil {
		t.Fatal(err)
	}
	plan := make(map[int64][3]int64)
	first := record.Stamp(0)
	r.Records(func(a *record.Attempt, _ []record.Event) bool {
		if a.Request == 0 {
			first = a.Scheduled
		}
		plan[a.Request] = [3]int64{int64(a.PromptTokensAsked), int64(a.MaxTokens), int64(a.Scheduled)}
		return true
	})
	if r.Err() != nil || len(plan) < 40 {
		t.Fatalf("%d requests, %v", len(plan), r.Err())
	}
	for i, p := range plan {
		if p[2] -= int64(first); i >= 40 { // how many follow is up to the drain
			delete(plan, i)
			continue
		}
		plan[i] = p
	}
	return plan
}

// A run in wall-clock time and one in virtual time have one plan: the same
// lengths, due at the same times, to the nanosecond.
func TestTwinPlans(t *testing.T) {
	if diff := cmp.Diff(planOf(t, "sim", "--virtual"), planOf(t, "run")); diff != "" {
		t.Errorf("-virtual +real:\n%s", diff)
	}
}

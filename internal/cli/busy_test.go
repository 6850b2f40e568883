package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/assay-bench/assay/result"
)

// TestBusyProcess keeps our own process busy during a whole run: its verdict on
// itself must be INVALID, by whatever of it suffers first.
func TestBusyProcess(t *testing.T) {
	out := filepath.Join(t.TempDir(), "runs")
	var done atomic.Bool
	defer done.Store(true)
	for range 4 * runtime.GOMAXPROCS(0) {
		go func() {
			for n := 0; !done.Load(); n++ {
			}
		}()
	}
	var stdout, stderr bytes.Buffer
	code := Main([]string{"run", "--duration", "2s", "--warmup", "none", "--concurrency", "8", "--prompt-tokens", "32", "--output-tokens", "32", "--out", out, "-q"},
		strings.NewReader(""), &stdout, &stderr)
	done.Store(true)
	if code != exitGate || !strings.Contains(stderr.String(), "invalid-client") {
		t.Errorf("exit code %d, %s", code, &stderr)
	}
	reports, _ := filepath.Glob(filepath.Join(out, "*", "report.json"))
	if len(reports) != 1 {
		t.Fatalf("%d reports; %s", len(reports), &stderr)
	}
	b, err := os.ReadFile(reports[0])
	if err != nil {
		t.Fatal(err)
	}
	var run result.Run
	if err := json.Unmarshal(b, &run); err != nil {
		t.Fatal(err)
	}
	if v := run.Stages[0].Client; v.Verdict != result.Invalid || v.Cause == "" {
		t.Errorf("%s: %s", v.Verdict, v.Cause)
	}
	t.Log(run.Stages[0].Client.Cause)
}

package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/assay-bench/assay/result"
)

// virtualJSON runs a command in virtual time, in this process, and reads its report.
func virtualJSON(t *testing.T, into any, args ...string) {
	t.Helper()
	var out, complaints bytes.Buffer
	args = append(args, "--virtual", "--max-num-seqs", "16", "--output-tokens", "32", "--fail-on", "none", "--out", t.TempDir(), "--json", "-q")
	if code := Main(args, strings.NewReader(""), &out, &complaints); code != exitOK {
		t.Fatalf("%v: exit code %d: %s", args, code, &complaints)
	}
	if err := json.Unmarshal(out.Bytes(), into); err != nil {
		t.Fatal(err)
	}
}

// TestCapacityIsTheSaturationRate: requests that come like clockwork wait for
// nothing below the rate at which a server that never rests completes them, and for
// ever above. bench/capacity is the same with random arrivals, against long runs.
func TestCapacityIsTheSaturationRate(t *testing.T) {
	t.Parallel()
	var busy result.Run
	virtualJSON(t, &busy, "sim", "--concurrency", "64", "--duration", "1m")
	var truth float64
	for _, x := range busy.Stages[0].Throughput {
		if x.Name == "rps" {
			truth = x.Value
		}
	}
	var found result.Capacity
	virtualJSON(t, &found, "capacity", "--arrival", "constant", "--slo", "ttft=1s", "--duration", "20s", "--window-max", "40s", "--seeds-max", "3", "--start", "40")
	if found.Pass == nil || found.Fail == nil {
		t.Fatal(found.Text)
	}
	if p, f := *found.Pass, *found.Fail; p < 0.95*truth || p > 1.02*truth || f < truth || f > 1.08*truth {
		t.Errorf("from %v to %v: a server that never rests completes %v requests/s", p, f, truth)
	}
}

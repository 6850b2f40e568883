package cli

import (
	"strings"
	"testing"

	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
)

// TestLedgerGate: no run of ours has attempts that are in no row, so that the gate
// is held against a result that says so.
func TestLedgerGate(t *testing.T) {
	balanced := record.Ledger{Requests: 2, Attempts: 2, Completed: 2, Rows: map[record.Outcome]int{record.Completed: 2}}
	lost := balanced
	lost.Attempts = 3
	for name, c := range map[string]struct {
		failOn string
		ledger record.Ledger
		fails  bool
	}{
		"balanced":      {"ledger", balanced, false},
		"one lost":      {"ledger", lost, true},
		"not asked for": {"slo", lost, false},
	} {
		t.Run(name, func(t *testing.T) {
			g, err := parseGates([]string{c.failOn})
			if err != nil {
				t.Fatal(err)
			}
			err = g.check(&result.Run{Stages: []result.Stage{{Ledger: c.ledger}}}, 0.99)
			if (err != nil) != c.fails || err != nil && !strings.Contains(err.Error(), "ledger: attempts and rows differ") {
				t.Errorf("%v", err)
			}
		})
	}
}

package real

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/assay-bench/assay/record"
)

// TestRest: slots whose target cannot be reached rest longer and longer; any
// other outcome ends that, and an open loop never rests.
func TestRest(t *testing.T) {
	type step struct {
		outcome record.Outcome
		want    time.Duration
	}
	const ms = time.Millisecond
	for name, tc := range map[string]struct {
		slots int
		steps []step
	}{
		"no reason": {2, []step{{record.Completed, 0}, {record.StreamReset, 0}, {record.Truncated, 0}, {record.TimeoutConnect, 0}}},
		"grows with all slots": {2, []step{
			{record.ConnectTCP, 100 * ms}, {record.ConnectTCP, 100 * ms}, {record.ConnectDNS, 200 * ms}, {record.ConnectTLS, 200 * ms}, {record.ConnectTCP, 300 * ms}}},
		"ends": {1, []step{{record.ConnectTCP, 100 * ms}, {record.ConnectTCP, 200 * ms}, {record.Completed, 0}, {record.ConnectTCP, 100 * ms}}},
		"most": {1, []step{{record.ConnectTCP, 100 * ms}, {record.ConnectTCP, 200 * ms}, {record.ConnectTCP, 300 * ms}, {record.ConnectTCP, 400 * ms},
			{record.ConnectTCP, 500 * ms}, {record.ConnectTCP, 600 * ms}, {record.ConnectTCP, 700 * ms}, {record.ConnectTCP, 800 * ms},
			{record.ConnectTCP, 900 * ms}, {record.ConnectTCP, time.Second}, {record.ConnectTCP, time.Second}}},
		"open loop": {0, []step{{record.ConnectTCP, 0}, {record.ConnectTCP, 0}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &Runner{slots: tc.slots}
				for i, s := range tc.steps {
					start := time.Now()
					r.rest(t.Context(), s.outcome)
					if got := time.Since(start); got != s.want {
						t.Errorf("step %d, %s: rested %v, want %v", i, s.outcome, got, s.want)
					}
				}
			})
		})
	}
	t.Run("cut", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 30*ms)
			defer cancel()
			start := time.Now()
			(&Runner{slots: 1}).rest(ctx, record.ConnectTCP)
			if got := time.Since(start); got != 30*ms {
				t.Errorf("rested %v after the cut", got)
			}
		})
	})
}

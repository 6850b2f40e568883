package experiment

import (
	"testing"

	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
)

// TestCompareResolution: a counter that the server prints rounded agrees with
// the client as far as the rounding allows, and no further.
func TestCompareResolution(t *testing.T) {
	for name, tc := range map[string]struct {
		delta, resolution float64
		agrees            bool
		text              string
	}{
		"equal":             {35240, 10, true, "agrees"},
		"within":            {35232, 10, true, "agrees within 10, the resolution at which the server prints it"},
		"beyond":            {35229, 10, false, "the server counts 11 less: a second engine or replica behind this address, or a counter that is behind"},
		"exact, and off":    {35241, 0, false, "the server counts 1 more: other traffic, or a second client"},
		"exact, and equal":  {35240, 0, true, "agrees"},
		"within, the other": {35250, 10, true, "agrees within 10, the resolution at which the server prints it"},
	} {
		t.Run(name, func(t *testing.T) {
			var c clientSums
			c.add(&record.Attempt{Outcome: record.Completed, Usage: &record.Usage{PromptTokens: 40000, CachedTokens: 4760}})
			got := c.compare(&result.ServerAccount{Counters: []result.Counter{
				{Quantity: result.TokensInComputed, Delta: &tc.delta, Resolution: tc.resolution}}}).Counters[0]
			if got.Client != 35240 || got.Agrees != tc.agrees || got.Text != tc.text {
				t.Errorf("%+v", got)
			}
		})
	}
}

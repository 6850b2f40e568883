package metric

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/assay-bench/assay/stat"
)

// The forms of TPOT that SLOs and strata can use. Both are always measured;
// they are never mixed.
const (
	TPOTSeed = "seed"
	TPOTPair = "paired"
)

// Options choose among the definitions. The zero value is the contract's
// default.
type Options struct {
	// QuantileType is the Hyndman-Fan type, 1 to 9; 0 means 7.
	QuantileType int
	// Percentiles beyond p50, p95 and p99, in percent: 90, 99.9.
	Percentiles []float64
	// SLO of goodput; empty for no goodput.
	SLO SLO
	// TPOT is the form behind the SLO and the strata, TPOTSeed ("" too) or TPOTPair.
	TPOT string
	// FromSchedule judges TTFT from scheduled instead of from sent.
	FromSchedule bool
	// Planned says that scheduled stamps are a plan (open loop), so that a late
	// send is the client's fault and send lateness exists.
	Planned bool
	// CoalescedLimit is the share of text events that may have shared a read with
	// the one before; above it every gap figure is withheld. 0 means 0.05.
	CoalescedLimit float64
	// Bootstrap makes intervals by circular block bootstrap with Seed instead of
	// by order statistics at the effective sample size.
	Bootstrap bool
	Seed      uint64
}

const defaultCoalescedLimit = 0.05

// Validate names the first option that has no meaning.
func (o Options) Validate() error {
	switch {
	case o.QuantileType < 0 || o.QuantileType > 9:
		return fmt.Errorf("quantile type %d: Hyndman-Fan types are 1 to 9", o.QuantileType)
	case o.TPOT != "" && o.TPOT != TPOTSeed && o.TPOT != TPOTPair:
		return fmt.Errorf("tpot %q: want %q or %q", o.TPOT, TPOTSeed, TPOTPair)
	case !(o.CoalescedLimit >= 0 && o.CoalescedLimit <= 1):
		return fmt.Errorf("coalesced limit %v: want a share from 0 to 1", o.CoalescedLimit)
	}
	bad := func(p float64) bool { return !(p > 0 && p < 100) }
	if i := slices.IndexFunc(o.Percentiles, bad); i >= 0 {
		return fmt.Errorf("percentile %v: want percent above 0 and below 100", o.Percentiles[i])
	}
	return nil
}

func (o Options) withDefaults() Options {
	if o.QuantileType == 0 {
		o.QuantileType = int(stat.Type7)
	}
	if o.TPOT == "" {
		o.TPOT = TPOTSeed
	}
	if o.CoalescedLimit == 0 {
		o.CoalescedLimit = defaultCoalescedLimit
	}
	return o
}

// percentileName is "p99.9" for 99.9.
func percentileName(percent float64) string {
	return "p" + strconv.FormatFloat(percent, 'f', -1, 64)
}

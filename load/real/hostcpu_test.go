package real

import (
	"testing"
	"time"
)

func TestParseThrottled(t *testing.T) {
	for _, tt := range []struct {
		name, stat string
		want       time.Duration
		ok         bool
	}{
		{"v2", "usage_usec 12\nnr_periods 3\nnr_throttled 2\nthrottled_usec 1500\n", 1500 * time.Microsecond, true},
		{"v1", "nr_periods 3\nnr_throttled 2\nthrottled_time 2500\n", 2500, true},
		{"no limit", "usage_usec 12\n", 0, false},
		{"garbage", "throttled_usec soon\n", 0, false},
	} {
		if got, ok := parseThrottled(tt.stat); got != tt.want || ok != tt.ok {
			t.Errorf("%s: %v %v", tt.name, got, ok)
		}
	}
}

func TestCores(t *testing.T) {
	for _, tt := range []struct {
		quota, period string
		want          float64
	}{{"max", "100000", 0}, {"-1", "100000", 0}, {"150000", "100000", 1.5}, {"x", "1", 0}, {"1", "0", 0}} {
		if got := cores(tt.quota, tt.period); got != tt.want {
			t.Errorf("%s %s: %v, want %v", tt.quota, tt.period, got, tt.want)
		}
	}
}

func TestStolen(t *testing.T) {
	from := parseHostCPU("cpu  100 0 100 700 50 0 40 10 0 0\ncpu0 1 2\n")
	to := parseHostCPU("cpu  150 0 120 740 50 0 40 100 9 9\n")
	if got := to.stolenSince(from); got == nil || *got != 0.45 { // 90 of 200 ticks
		t.Errorf("stolen %v", got)
	}
	if from.stolenSince(to) != nil || parseHostCPU("cpu x").stolenSince(from) != nil || to.stolenSince(hostCPU{}) != nil {
		t.Error("a share of nothing that is known")
	}
}

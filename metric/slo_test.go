package metric_test

import (
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/metric"
)

func TestParseSLO(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       metric.SLO
		err        string
	}{
		{"all three", "ttft=1s,tpot=150ms,e2e=5s", metric.SLO{TTFT: time.Second, TPOT: 150 * time.Millisecond, E2E: 5 * time.Second}, ""},
		{"one, with spaces", " e2e = 1.5s ", metric.SLO{E2E: 1500 * time.Millisecond}, ""},
		{"any order", "tpot=1ms, ttft=2ms", metric.SLO{TTFT: 2 * time.Millisecond, TPOT: time.Millisecond}, ""},
		{"preset", "seed", metric.SeedSLO(), ""},
		{"empty", "", metric.SLO{}, "empty limit"},
		{"trailing comma", "ttft=1s,", metric.SLO{}, "empty limit"},
		{"unknown", "itl=1s", metric.SLO{}, `unknown limit "itl": want ttft, tpot or e2e`},
		{"no value", "ttft", metric.SLO{}, "ttft has no value"},
		{"a preset of MLPerf", "mlperf-llama2-70b", metric.SLO{TTFT: 2 * time.Second, TPOT: 200 * time.Millisecond}, ""},
		{"interactive", "mlperf-deepseek-r1-interactive", metric.SLO{TTFT: 1500 * time.Millisecond, TPOT: 15 * time.Millisecond}, ""},
		{"a wrong name lists the right ones", "mlperf-llama", metric.SLO{}, "one of seed, mlperf-llama2-70b, mlperf-llama2-70b-interactive"},
		{"no unit", "ttft=100", metric.SLO{}, `"100" is no duration`},
		{"zero", "ttft=0s", metric.SLO{}, "0s is not above 0"},
		{"negative", "e2e=-1s", metric.SLO{}, "-1s is not above 0"},
		{"twice", "ttft=1s,ttft=2s", metric.SLO{}, "ttft is given twice"},
		{"overflow", "ttft=9999999999h", metric.SLO{}, "is no duration"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := metric.ParseSLO(c.text)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("error %v, want one that says %q", err, c.err)
				}
				return
			}
			if err != nil || got != c.want {
				t.Fatalf("got %+v, %v", got, err)
			}
		})
	}
}

func FuzzParseSLO(f *testing.F) {
	for _, text := range []string{"ttft=1s,tpot=150ms,e2e=5s", "seed", "", "ttft=", "=,=", "e2e=1e9s", "ttft=1s,ttft=1s"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := metric.ParseSLO(text)
		if err != nil {
			return
		}
		if s.IsZero() || s.TTFT < 0 || s.TPOT < 0 || s.E2E < 0 {
			t.Fatalf("%q became %+v", text, s)
		}
		if again, err := metric.ParseSLO(s.String()); err != nil || again != s {
			t.Fatalf("%q became %+v, then %+v (%v)", text, s, again, err)
		}
	})
}

func TestOptionsValidate(t *testing.T) {
	if err := (metric.Options{}).Validate(); err != nil {
		t.Errorf("the zero value: %v", err)
	}
	for want, o := range map[string]metric.Options{
		"quantile type 10": {QuantileType: 10},
		`tpot "mean"`:      {TPOT: "mean"},
		"percentile 100":   {Percentiles: []float64{90, 100}},
		"coalesced limit":  {CoalescedLimit: 1.5},
	} {
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want one that says %q", o, err, want)
		}
	}
}

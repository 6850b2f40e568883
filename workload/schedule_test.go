package workload

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gonum.org/v1/gonum/stat"

	"github.com/assay-bench/assay/arrival"
	"github.com/assay-bench/assay/record"
)

// arrivals are valid ones of every process but the trace.
func arrivals() []Arrival {
	return []Arrival{
		{Process: Constant, Rate: 50},
		{Process: Poisson, Rate: 50},
		{Process: Poisson, Rate: 50, ExactCount: 100},
		{Process: Gamma, Rate: 50, CV: 2.5},
		{Process: Gamma, Rate: 50, CV: 2.5, ExactCount: 1000},
		{Process: Weibull, Rate: 50, CV: 2},
		{Process: Pareto, Rate: 50, CV: 2},
		{Process: Lomax, Rate: 50, CV: 2},
		{Process: Hyperexponential, Rate: 50, CV: 2},
		{Process: OnOff, Rate: 50, Peak: 4, Trough: 0.2, On: 2 * time.Second},
		{Process: Hawkes, Rate: 50, Branching: 0.5, Decay: time.Second},
		{Process: Sinusoid, Rate: 50, Amplitude: 0.8, Period: time.Minute, Phase: 1},
		{Process: Diurnal, Rate: 50, Amplitude: 0.8},
		{Process: Ramp, From: 1, To: 80, Over: time.Minute},
		{Process: ExpRamp, From: 1, To: 80, Over: time.Minute},
		{Process: StepRates, Steps: []arrival.Step{{Rate: 10, For: time.Minute}, {Rate: 80, For: time.Minute}}, Repeat: true},
		{Process: Burst, Size: 100, Every: time.Second},
	}
}

func schedule(t testing.TB, s Spec, seed uint64, n int) (r []record.Request, g []time.Duration) {
	t.Helper()
	p, err := NewPlan(s, seed)
	if err != nil {
		t.Fatal(err)
	}
	a := p.Arrivals()
	for range n {
		q, ok := p.Next()
		if !ok {
			t.Fatal("the plan is over")
		}
		r = append(r, q)
		if a != nil {
			g = append(g, a.Next())
		}
	}
	return r, g
}

// Common random numbers: one seed gives one schedule whatever the lengths, and
// one series of lengths whatever the arrivals; of two distributions the lengths
// have the same ranks.
func TestCommonRandomNumbers(t *testing.T) {
	const n = 300
	var first []record.Request
	for _, a := range arrivals() {
		short := with(func(s *Spec) { s.Arrival = a })
		long := short
		long.PromptTokens = Length{Dist: LogNormal, Mean: 500, CV: 1, Max: 9000}
		long.OutputTokens = Length{Dist: Gamma, Mean: 500, CV: 1, Max: 9000}
		_, g := schedule(t, short, 4, n)
		r, g2 := schedule(t, long, 4, n)
		if !slices.Equal(g, g2) {
			t.Errorf("%s: other lengths moved the arrivals", a.Name())
		}
		if _, g3 := schedule(t, short, 5, n); slices.Equal(g, g3) && a.Process != Constant && a.Process != Burst {
			t.Errorf("%s: two seeds gave one schedule", a.Name())
		}
		if first == nil {
			first = r
		}
		if !cmp.Equal(first, r) {
			t.Errorf("%s: other arrivals changed the lengths", a.Name())
		}
	}
	shorter := with(func(s *Spec) { s.PromptTokens = Length{Dist: Gamma, Mean: 50, CV: 1, Max: 900} })
	r, _ := schedule(t, shorter, 4, n)
	for i := range r {
		for k := range i {
			if first[k].PromptTokens < first[i].PromptTokens && r[k].PromptTokens > r[i].PromptTokens {
				t.Fatalf("requests %d and %d changed ranks", k, i)
			}
		}
	}
}

// The realised rate of a schedule is the rate asked for: the trip from the file's
// words to the process.
func TestScheduleRate(t *testing.T) {
	for _, a := range arrivals() {
		switch a.Process {
		case Diurnal, Ramp, ExpRamp, StepRates, Burst, Pareto:
			continue // no mean in so short a time, or a slow one
		}
		const n = 60_000
		_, g := schedule(t, with(func(s *Spec) { s.Arrival = a }), 8, n)
		sum := time.Duration(0)
		for _, x := range g {
			sum += x
		}
		// The burstiest of them has an index of dispersion of about 130.
		if rate := n / sum.Seconds(); math.Abs(rate/50-1) > 3.29*math.Sqrt(130.0/n) {
			t.Errorf("%s: rate %v", a.describe(), rate)
		}
	}
}

func TestArrivalValidate(t *testing.T) {
	for want, a := range map[string]Arrival{
		"arrival.cv: poisson takes none; it takes rate, exact_count":                         {Process: Poisson, Rate: 1, CV: 2},
		"arrival.cv: CV 0 is not above 0":                                                    {Process: Gamma, Rate: 1},
		"arrival.cv: CV 0.5 is not above 1":                                                  {Process: Lomax, Rate: 1, CV: 0.5},
		"arrival.rate: rate 0 is not above 0":                                                {Process: OnOff, Peak: 2, On: 1},
		"arrival: peak 0 is not above 1 and up to 1e6: it is the ON rate over the mean rate": {Process: OnOff, Rate: 1, On: 1},
		"arrival.rate: ramp takes none; it takes from, to, over":                             {Process: Ramp, Rate: 1, From: 1, To: 2, Over: 1},
		"arrival: over 0s is not above 0":                                                    {Process: Ramp, From: 1, To: 2},
		"arrival: no steps":                                                                  {Process: StepRates},
		"arrival.size: closed takes none":                                                    {Size: 4},
		"arrival: exact count: 20000000 arrivals a block are not within 1 and 10000000":      {Process: Poisson, Rate: 1, ExactCount: 20_000_000},
		"trace.file: the workload follows a trace, and none is named":                        {Process: ByTrace},
	} {
		err := with(func(s *Spec) { s.Arrival = a }).Validate()
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	for want, change := range map[string]func(*Spec){
		"length_correlation: 2 is not within -1 and 1":                                         func(s *Spec) { s.LengthCorrelation = 2 },
		"length_correlation: mixtures and traces take none":                                    func(s *Spec) { s.LengthCorrelation = 0.1; s.PromptTokens = lengths()[15] },
		"length_pairs: pair 2: output: 0 is below 1":                                           func(s *Spec) { s.LengthPairs = []LengthPair{{1, 1}, {1, 0}} },
		"trace: neither the arrivals (process: trace) nor the lengths (dist: trace) follow it": func(s *Spec) { s.Trace = &Trace{File: "x"} },
	} {
		if err := with(change).Validate(); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// Pairs stay pairs, each as often.
func TestLengthPairs(t *testing.T) {
	const n = 30_000
	pairs := []LengthPair{{10, 900}, {500, 20}, {7, 7}}
	r, _ := schedule(t, with(func(s *Spec) { s.LengthPairs = pairs }), 2, n)
	got := map[LengthPair]float64{}
	for _, q := range r {
		got[LengthPair{q.PromptTokens, q.MaxTokens}]++
	}
	if len(got) != len(pairs) {
		t.Fatalf("pairs %v", got)
	}
	for _, p := range pairs {
		if z := (got[p] - n/3.0) / math.Sqrt(n*2/9.0); math.Abs(z) > 3.2905 {
			t.Errorf("pair %v came %v times", p, got[p])
		}
	}
	p, err := NewPlan(with(func(s *Spec) { s.LengthPairs = pairs }), 1)
	if err != nil {
		t.Fatal(err)
	}
	if low, high := p.PromptBounds(); low != 7 || high != 500 {
		t.Errorf("bounds %d %d", low, high)
	}
}

// The ranks correlate as asked, and each length keeps its distribution.
func TestLengthCorrelation(t *testing.T) {
	const n = 20_000
	for _, want := range []float64{-0.6, 0.3, 0.9} {
		s := with(func(s *Spec) {
			s.PromptTokens = Length{Dist: LogNormal, Mean: 5000, CV: 1, Max: 100_000}
			s.OutputTokens = Length{Dist: Gamma, Mean: 3000, CV: 1, Max: 50_000}
			s.LengthCorrelation = want
		})
		r, _ := schedule(t, s, 6, n)
		var x, y []float64
		for _, q := range r {
			x, y = append(x, float64(q.PromptTokens)), append(y, float64(q.MaxTokens))
		}
		// The standard error of a rank correlation is at most about 1.1/√n.
		if got := stat.Correlation(ranks(x), ranks(y), nil); math.Abs(got-want) > 3.29*1.1/math.Sqrt(n) {
			t.Errorf("rank correlation %v, want %v", got, want)
		}
		for i, v := range [][]float64{x, y} {
			l := []Length{s.PromptTokens, s.OutputTokens}[i]
			mean, sd := stat.MeanStdDev(v, nil)
			if z := (mean - l.ExpectedTokens()) / (sd / math.Sqrt(n)); math.Abs(z) > 3.2905 {
				t.Errorf("%v: mean %v is %v standard errors off", l, mean, z)
			}
		}
	}
}

func ranks(x []float64) []float64 {
	order := make([]int, len(x))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(x[a] - x[b]) })
	out := make([]float64, len(x))
	for r, i := range order {
		out[i] = float64(r)
	}
	return out
}

func TestBurstEnds(t *testing.T) {
	p, err := NewPlan(with(func(s *Spec) { s.Arrival = Arrival{Process: Burst, Size: 3} }), 1)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, ok := p.Next(); ok; _, ok = p.Next() {
		n++
	}
	if n != 3 {
		t.Errorf("%d requests", n)
	}
}

// listed are rows in memory.
type listed struct {
	rows []traceRow
	fail error // after the last
}

func (l *listed) Next() (time.Duration, int, int, bool, error) {
	if len(l.rows) == 0 {
		return 0, 0, 0, false, l.fail
	}
	r := l.rows[0]
	l.rows = l.rows[1:]
	return r.at, r.prompt, r.output, true, nil
}

func TestTracePlan(t *testing.T) {
	rows := []traceRow{{5 * time.Second, 10, 20}, {5 * time.Second, 0, 4}, {6 * time.Second, 11, 0}, {7 * time.Second, 30, 40}, {7 * time.Second, 31, 41}}
	open := func() (Rows, error) { return &listed{rows: rows}, nil }
	s := with(func(s *Spec) {
		s.Arrival, s.Trace = Arrival{Process: ByTrace}, &Trace{File: "x.csv"}
		s.PromptTokens = Length{Dist: FromTrace}
	})
	p, err := NewTracePlan(s, 1, open)
	if err != nil {
		t.Fatal(err)
	}
	a := p.Arrivals()
	var got []traceRow
	at := time.Duration(0)
	for r, ok := p.Next(); ok; r, ok = p.Next() {
		at += a.Next()
		got = append(got, traceRow{at, r.PromptTokens, r.MaxTokens})
	}
	// Rows that failed are no requests; the lengths of outputs are the spec's own.
	want := []traceRow{{0, 10, 128}, {2 * time.Second, 30, 128}, {2 * time.Second, 31, 128}}
	if !slices.Equal(got, want) || p.Err() != nil || a.Next() != arrival.Never {
		t.Errorf("got %v, %v", got, p.Err())
	}
	if want := (TraceSummary{Rows: 3, Failed: 2, Span: 2 * time.Second, ShortestPrompt: 10, LongestPrompt: 31, ShortestOutput: 20, LongestOutput: 41}); p.Trace() != want {
		t.Errorf("summary %+v", p.Trace())
	}
	if p.Trace().Rate() != 1 {
		t.Errorf("rate %v", p.Trace().Rate())
	}
	if low, high := p.PromptBounds(); low != 10 || high != 31 {
		t.Errorf("bounds %d %d", low, high)
	}
	if _, err := NewPlan(s, 1); err == nil || !strings.Contains(err.Error(), "which was not opened") {
		t.Errorf("NewPlan: %v", err)
	}
}

func TestTraceRefusals(t *testing.T) {
	broken := errors.New("x.csv:3: broken")
	s := with(func(s *Spec) { s.Arrival, s.Trace = Arrival{Process: ByTrace}, &Trace{File: "x.csv"} })
	for want, l := range map[string]listed{
		"it has no request with both lengths":                       {rows: []traceRow{{0, 0, 1}}},
		"request 2 arrives at 1s, before the one ahead of it at 2s": {rows: []traceRow{{2 * time.Second, 1, 1}, {time.Second, 1, 1}}},
		"more than 10000000":                                        {rows: []traceRow{{0, 10_000_001, 1}}},
		"x.csv:3: broken":                                           {rows: []traceRow{{0, 1, 1}}, fail: broken},
	} {
		if _, err := NewTracePlan(s, 1, func() (Rows, error) { return &l, nil }); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// BenchmarkSchedule draws 1,000,000 requests with their times per operation, for
// each process and each distribution of lengths.
func BenchmarkSchedule(b *testing.B) {
	run := func(name string, s Spec) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p, err := NewPlan(s, 1)
				if err != nil {
					b.Fatal(err)
				}
				a := p.Arrivals()
				for range 1_000_000 {
					p.Next()
					if a != nil {
						a.Next()
					}
				}
			}
		})
	}
	for _, a := range arrivals() {
		run(a.Process, with(func(s *Spec) { s.Arrival = a }))
	}
	for _, l := range lengths() {
		run(l.Dist, with(func(s *Spec) { s.PromptTokens, s.OutputTokens, s.Arrival.Rate = l, l, 50 }))
	}
	run("prefixes", with(func(s *Spec) {
		s.Prefix = &Prefix{Tokens: UniformLength(16, 256), Pools: 10_000, Share: 0.8, Pick: PickZipf}
	}))
	run("correlated", with(func(s *Spec) {
		s.PromptTokens = Length{Dist: Gamma, Mean: 500, CV: 1, Max: 9000}
		s.OutputTokens, s.LengthCorrelation = s.PromptTokens, 0.5
	}))
}

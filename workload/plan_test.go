package workload_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/workload"
)

func uniform() workload.Spec {
	s := workload.Default()
	s.PromptTokens, s.OutputTokens = workload.UniformLength(100, 200), workload.UniformLength(1, 8)
	s.Arrival.Rate = 10
	return s
}

func draw(t *testing.T, s workload.Spec, seed uint64, n int) (requests []record.Request, gaps []time.Duration) {
	t.Helper()
	p, err := workload.NewPlan(s, seed)
	if err != nil {
		t.Fatal(err)
	}
	a := p.Arrivals()
	for range n {
		r, ok := p.Next()
		if !ok {
			t.Fatal("the plan is over")
		}
		requests = append(requests, r)
		gaps = append(gaps, a.Next())
	}
	return requests, gaps
}

func TestPlanIsPinned(t *testing.T) {
	r, g := draw(t, uniform(), 1, 3)
	got := ""
	for i := range r {
		got += fmt.Sprintln(r[i].Index, r[i].PromptTokens, r[i].MaxTokens, r[i].ExactOutput, g[i])
	}
	want := "0 128 6 true 142.827531ms\n1 148 3 true 93.377636ms\n2 127 3 true 123.373045ms\n"
	if got != want {
		t.Errorf("the plan of a seed changed:\n%swas\n%s", got, want)
	}
}

func TestStreamsAreSeparate(t *testing.T) {
	r, g := draw(t, uniform(), 1, 200)
	r2, g2 := draw(t, uniform(), 1, 200)
	if diff := cmp.Diff(r, r2) + cmp.Diff(g, g2); diff != "" {
		t.Errorf("one seed gave two plans:\n%s", diff)
	}
	s := uniform()
	s.OutputTokens = workload.UniformLength(5, 500)
	r3, g3 := draw(t, s, 1, 200)
	for i := range r {
		if r[i].PromptTokens != r3[i].PromptTokens || g[i] != g3[i] {
			t.Fatalf("other output lengths moved request %d", i)
		}
	}
	r4, g4 := draw(t, uniform(), 2, 200)
	if cmp.Equal(r, r4) || cmp.Equal(g, g4) {
		t.Error("two seeds gave one plan")
	}
}

// Each value of a uniform length is as likely: chi-squared over 101 values,
// 100 degrees of freedom, critical value 149.4 at alpha 0.001.
func TestUniformIsUniform(t *testing.T) {
	const n = 101_000
	p, err := workload.NewPlan(uniform(), 7)
	if err != nil {
		t.Fatal(err)
	}
	var prompts [101]float64
	var same float64 // requests whose two lengths are both in the lower half
	for range n {
		r, _ := p.Next()
		prompts[r.PromptTokens-100]++
		if r.PromptTokens < 150 && r.MaxTokens <= 4 {
			same++
		}
	}
	chi := 0.0
	for _, c := range prompts {
		chi += (c - n/101) * (c - n/101) / (n / 101)
	}
	if chi > 149.4 {
		t.Errorf("chi-squared %v", chi)
	}
	// The two lengths are independent: 50/101 × 1/2 of the requests.
	p0 := 50.0 / 101 / 2
	if z := (same - n*p0) / math.Sqrt(n*p0*(1-p0)); math.Abs(z) > 3.29 {
		t.Errorf("lengths depend on each other: %v standard errors", z)
	}
}

func TestClosedLoopHasNoArrivals(t *testing.T) {
	s := workload.Default()
	s.ThinkTime = workload.FixedThink(time.Second)
	p, err := workload.NewPlan(s, 1)
	if err != nil {
		t.Fatal(err)
	}
	if p.Arrivals() != nil || p.ThinkTime() != time.Second || p.Spec().Open() || p.Spec().Concurrency != 1 {
		t.Errorf("plan of a closed loop: %+v", p.Spec())
	}
}

func ExamplePlan() {
	spec := workload.Default()
	spec.Arrival = workload.Arrival{Process: workload.Constant, Rate: 8}
	plan, err := workload.NewPlan(spec, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(spec.Describe())
	r, _ := plan.Next()
	fmt.Println(r.PromptTokens, r.MaxTokens, plan.Arrivals().Next())
	// Output:
	// open loop, constant 8 requests/s; prompts 512 tokens, outputs exactly 128 tokens
	// 512 128 125ms
}

// BenchmarkPlan is the cost of one request of the schedule.
func BenchmarkPlan(b *testing.B) {
	p, err := workload.NewPlan(uniform(), 1)
	if err != nil {
		b.Fatal(err)
	}
	a := p.Arrivals()
	b.ReportAllocs()
	for b.Loop() {
		p.Next()
		a.Next()
	}
}

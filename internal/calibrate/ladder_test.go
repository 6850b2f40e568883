package calibrate

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// client is a client that breaks beyond some load.
type client struct {
	events  float64
	streams int
	server  float64 // the server's own limit
	flaky   map[int]bool
	calls   int
}

func (c *client) run(_ context.Context, _ Drive, l Load) (*Figures, error) {
	c.calls++
	f := &Figures{Load: l, Planned: l.Rate(), Rate: l.Rate(), Stamp: Quantiles{P99: 20}}
	if c.server > 0 {
		f.Rate = min(f.Rate, c.server)
	}
	if f.Rate > c.events || l.Streams > c.streams || c.flaky[l.Streams] {
		f.Stamp.P99 = 1001
		delete(c.flaky, l.Streams)
	}
	return f, nil
}

func rate(streams int, every time.Duration) float64 {
	l := DefaultLadder()
	return NewLoad(streams, every, l.Duration, false).Rate()
}

func TestClimb(t *testing.T) {
	tests := map[string]struct {
		client  client
		limit   int // of connections
		events  float64
		streams int
		why     [2]string
	}{
		"breaks by events":  {client{events: 30_000, streams: 1 << 20}, 0, rate(5000, wideEvery), 5000, [2]string{"stamp error", "stamp error"}},
		"breaks by streams": {client{events: 1e9, streams: 400}, 0, rate(250, busyEvery), 250, [2]string{"stamp error", "stamp error"}},
		"breaks at once":    {client{}, 0, 0, 0, [2]string{"stamp error", "stamp error"}},
		"server's limit":    {client{events: 1e9, streams: 1 << 20, server: 20_000}, 0, rate(2500, wideEvery), 2500, [2]string{Server, Server}},
		"few descriptors":   {client{events: 1e9, streams: 1 << 20}, 1000, rate(1000, busyEvery), 1000, [2]string{"end of the ladder", "end of the ladder"}},
		"one bad moment":    {client{events: 1e9, streams: 300, flaky: map[int]bool{100: true}}, 0, rate(250, busyEvery), 250, [2]string{"stamp error", "stamp error"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			l := DefaultLadder()
			l.Limit(tt.limit)
			told := 0
			r, err := l.Climb(t.Context(), tt.client.run, func(Step) { told++ })
			if err != nil {
				t.Fatal(err)
			}
			if r.MaxEvents != tt.events || r.MaxStreams != tt.streams || r.EventsLimit != tt.why[0] || r.StreamsLimit != tt.why[1] {
				t.Errorf("%.0f events/s (%s), %d streams (%s); want %.0f, %d, %v", r.MaxEvents, r.EventsLimit, r.MaxStreams, r.StreamsLimit, tt.events, tt.streams, tt.why)
			}
			if r.Bare != nil && r.Bare.Load.Rate() < tt.events {
				t.Errorf("the bare loop was given %v", r.Bare.Load)
			}
			if told != len(r.Steps) || (r.Bare != nil) != (r.MaxEvents > 0) {
				t.Errorf("told of %d steps of %d; bare %v", told, len(r.Steps), r.Bare)
			}
		})
	}
	failing := func(context.Context, Drive, Load) (*Figures, error) { return nil, errors.New("no") }
	l := DefaultLadder()
	if _, err := l.Climb(t.Context(), failing, func(Step) {}); err == nil {
		t.Error("a step that could not be measured is no error")
	}
}

func TestLimit(t *testing.T) {
	for n, want := range map[int]Ladder{
		0:   {Busy: []int{10, 100}, Wide: []int{500, 1000}},
		10:  {Busy: []int{10}, Wide: []int{10}},
		5:   {Busy: []int{5}, Wide: []int{5}},
		700: {Busy: []int{10, 100}, Wide: []int{500, 700}},
		2e3: {Busy: []int{10, 100}, Wide: []int{500, 1000}},
	} {
		l := Ladder{Busy: []int{10, 100}, Wide: []int{500, 1000}}
		l.Limit(n)
		if !cmp.Equal(l, want) {
			t.Errorf("%d: %+v, want %+v", n, l, want)
		}
	}
}

func TestJudge(t *testing.T) {
	good := Figures{Rate: 99, Planned: 100, Stamp: Quantiles{P99: 1000}, TTFT: Quantiles{P99: 1000}, Coalesced: 0.01}
	for want, change := range map[string]func(*Figures){
		OK:                func(*Figures) {},
		"stamp error":     func(f *Figures) { f.Stamp.P99 = 1000.1 },
		"TTFT error":      func(f *Figures) { f.TTFT.P99 = 1000.1 },
		"coalesced":       func(f *Figures) { f.Coalesced = 0.0101 },
		Server:            func(f *Figures) { f.Rate = 96 },
		"3 events missed": func(f *Figures) { f.Missing = 3 },
	} {
		f := good
		change(&f)
		if got := judge(&f); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestPlannedIsUnderAMinute(t *testing.T) {
	l := DefaultLadder()
	if d := l.Planned(); d > time.Minute {
		t.Errorf("planned %v", d)
	}
}

func TestExceeds(t *testing.T) {
	r := &Result{MaxEvents: 1000, MaxStreams: 100}
	for _, tt := range []struct {
		events  float64
		streams int
		want    string
	}{{700, 70, ""}, {701, 70, "701 events/s"}, {700, 71, "71 streams"}, {0, 0, ""}} {
		if got := r.Exceeds(tt.events, tt.streams); tt.want == "" && got != "" || !strings.HasPrefix(got, tt.want) {
			t.Errorf("%v, %d: %q, want %q", tt.events, tt.streams, got, tt.want)
		}
	}
}

func TestStored(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "calibration.json")
	h := Host{OS: "linux", Arch: "amd64", CPU: "fast", CPUs: 2, Kernel: "6.1", Go: "go1"}
	if r, err := Read(path); r != nil || err != nil {
		t.Errorf("without a file: %v, %v", r, err)
	}
	want := &Result{Format: format, Time: time.Unix(1e9, 0).UTC(), Host: h, MaxEvents: 5, MaxStreams: 6, Steps: []Step{{Verdict: OK, Tries: 1}}}
	for range 2 { // a second one replaces the first
		if err := want.Save(path); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Read(path)
	if err != nil || !cmp.Equal(got, want) {
		t.Errorf("%v %s", err, cmp.Diff(want, got))
	}
	if err := os.WriteFile(path, []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path); err == nil {
		t.Error("a damaged file is no error")
	}
	left, _ := os.ReadDir(filepath.Dir(path))
	if len(left) != 1 {
		t.Errorf("files left: %v", left)
	}
}

func TestStale(t *testing.T) {
	h := Host{OS: "linux", Arch: "amd64", CPU: "fast", CPUs: 2, Kernel: "6.1", Go: "go1"}
	for _, tt := range []struct {
		name   string
		change func(*Result)
		want   string
	}{
		{"same", func(*Result) {}, ""},
		{"another Go", func(r *Result) { r.Host.Go = "go2" }, ""},
		{"older format", func(r *Result) { r.Format = 1 }, "format was 1 and is 2"},
		{"another system", func(r *Result) { r.Host.Arch = "arm64" }, "system was linux/arm64 and is linux/amd64"},
		{"another CPU", func(r *Result) { r.Host.CPU = "" }, "CPU was not known and is fast"},
		{"more CPUs", func(r *Result) { r.Host.CPUs = 64 }, "CPUs was 64 and is 2"},
		{"another kernel", func(r *Result) { r.Host.Kernel = "5.4" }, "kernel was 5.4 and is 6.1"},
		{"another version", func(r *Result) { r.Tool = "v0.1" }, "assay was v0.1 and is v1"},
	} {
		r := &Result{Format: format, Tool: "v1", Host: h}
		tt.change(r)
		if got := r.Stale(h, "v1"); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestDisturbed: a step that fails while others run gets more tries, and one that
// fails by itself does not.
func TestDisturbed(t *testing.T) {
	for foreign, want := range map[float64]int{0: maxTries, 0.5: maxDisturbedTries} {
		calls := 0
		l := Ladder{}
		s, err := l.step(t.Context(), NewLoad(10, busyEvery, time.Second, false), func(context.Context, Drive, Load) (*Figures, error) {
			calls++
			return &Figures{Foreign: foreign, Coalesced: 0.5}, nil
		})
		if err != nil || calls != want || s.Tries != want || s.Verdict != "coalesced" || s.Disturbed() != (foreign > 0) {
			t.Errorf("foreign %v: %d calls, %+v, %v", foreign, calls, s, err)
		}
	}
}

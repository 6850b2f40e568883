package real

import (
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/internal/clock"
	"github.com/assay-bench/assay/record"
)

func TestSplitPage(t *testing.T) {
	for raw, want := range map[string][2]string{
		"http://h:8000":                 {"http://h:8000", "/metrics"},
		"h:8000/":                       {"http://h:8000", "/metrics"},
		"https://h/pod/0/metrics":       {"https://h", "/pod/0/metrics"},
		"http://h:1/m?format=x&t=a%20b": {"http://h:1?format=x&t=a%20b", "/m?format=x&t=a%20b"},
		"http://me:pw@h/m":              {"http://me:pw@h", "/m"},
	} {
		host, path, err := SplitPage(raw)
		if host != want[0] || path != want[1] || err != nil {
			t.Errorf("%s: %q, %q, %v", raw, host, path, err)
		}
	}
	for _, raw := range []string{"ftp://h/m", "http://", "http://me:sesame@h:bad port/m", ":"} {
		if _, _, err := SplitPage(raw); err == nil || strings.Contains(err.Error(), "sesame") {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

// TestSamplerAims: the sampler is called at once when the window begins, rests
// for its interval inside it, and wakes in time for one scrape before its end.
func TestSamplerAims(t *testing.T) {
	k := clock.Start()
	s := NewSampler(nil, k, 10*time.Second, nil)
	poked := func() bool {
		select {
		case <-s.poke:
			return true
		default:
			return false
		}
	}
	s.Aim(record.Window{})
	if poked() || s.wait() != 10*time.Second {
		t.Error("aimed at a window that has not begun")
	}
	now := record.Stamp(k.Now())
	w := record.Window{Start: now, End: now.Add(time.Hour)}
	s.Aim(w)
	if !poked() {
		t.Error("not called at the start")
	}
	s.Aim(w)
	if poked() {
		t.Error("called twice")
	}
	if s.wait() != 10*time.Second {
		t.Error("the end is far, and it does not rest for the interval")
	}
	s.slowest = 100 * time.Millisecond
	s.window.End = record.Stamp(k.Now()).Add(5 * time.Second)
	if d := s.wait(); d > 4780*time.Millisecond || d < time.Second || !s.aimed {
		t.Errorf("5 s before the end it rests for %v", d)
	}
	if s.wait() != 10*time.Second {
		t.Error("it aims twice")
	}
	s.aimed = false
	s.window.End = 1
	if d := s.wait(); d != 0 {
		t.Errorf("after the end it rests for %v before the last scrape", d)
	}
	// A window without a declared end: the start alone is aimed at.
	open := NewSampler(nil, k, time.Second, nil)
	open.Aim(record.Window{Start: 1})
	if len(open.poke) != 1 || open.wait() != time.Second {
		t.Error("a window that N requests close")
	}
}

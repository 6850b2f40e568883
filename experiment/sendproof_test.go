package experiment

import (
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
)

// TestSendProof holds the kernel's transmit stamps against Sent, and says when
// they do not bear it out.
func TestSendProof(t *testing.T) {
	const µs = time.Microsecond
	after := func(d time.Duration) func(int, *record.Attempt) {
		return func(i int, a *record.Attempt) {
			if i%4 == 0 { // a sample
				a.SentKernel = a.Sent.Add(d)
			}
		}
	}
	for _, c := range []struct {
		name    string
		change  func(int, *record.Attempt)
		asked   *int
		n       int
		before  int
		warning string
		text    string
	}{
		{"not wanted", after(2 * µs), nil, 0, 0, "", ""},
		{"as it says", after(2 * µs), new(30), 25, 0, "", "the network driver had the first bytes 2 us after sent"},
		{"at the limit", after(100 * µs), new(30), 25, 0, "", "100 us after"},
		{"late", after(101 * µs), new(30), 25, 0, "verify-send", "101 us after"},
		{"before", after(-2 * µs), new(30), 25, 25, "verify-send", "25 of them before it"},
		{"no stamps", nil, new(1), 0, 0, "verify-send", "the device on the way gives none"},
		{"never asked", nil, new(0), 0, 0, "verify-send", "no request was asked"},
	} {
		t.Run(c.name, func(t *testing.T) {
			st := concludeHundred(c.change, result.ClientHealth{Cores: 2, SendsAsked: c.asked}, result.Target{}, 0)
			if codes(st.Warnings) != c.warning {
				t.Errorf("warnings %q, want %q", codes(st.Warnings), c.warning)
			}
			p := st.Client.SendProof
			if p == nil {
				if c.asked != nil {
					t.Error("no proof")
				}
				return
			}
			if c.asked == nil || p.Asked != *c.asked || p.N != c.n || p.Before != c.before || p.After != c.n-c.before || !strings.Contains(p.Text, c.text) {
				t.Errorf("%+v", p)
			}
			if st.Client.Verdict != result.Valid {
				t.Errorf("%s: %s", st.Client.Verdict, st.Client.Cause)
			}
		})
	}
}

// TestClockStep: a run whose wall clock was set says so.
func TestClockStep(t *testing.T) {
	for steps, want := range map[int]string{0: "", 2: "clock-step"} {
		h := result.ClientHealth{Cores: 2, ClockSteps: steps, ClockStep: 3 * time.Millisecond}
		st := concludeHundred(nil, h, result.Target{}, 0)
		if codes(st.Warnings) != want {
			t.Errorf("%d steps: warnings %q", steps, codes(st.Warnings))
		}
		if steps > 0 && !strings.Contains(st.Warnings[0].Text, "times: 2, by up to 3 ms") {
			t.Error(st.Warnings[0].Text)
		}
	}
}

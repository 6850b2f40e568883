package calibrate

import (
	"context"
	"errors"
	"net"
	"runtime"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/assay-bench/assay/internal/clock"
	"github.com/assay-bench/assay/internal/metronome"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve runs a truth server in this process: good enough to see that everything
// is counted, not to judge a client.
func serve(t *testing.T) string {
	t.Helper()
	srv, err := metronome.New()
	if errors.Is(err, metronome.ErrNoSharedClock) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return ln.Addr().String()
}

func TestSession(t *testing.T) {
	drives := map[string]Drive{"assay": Assay}
	if runtime.GOOS == "linux" {
		drives["bare"], drives["loop"] = Bare, Loop
	}
	for name, drive := range drives {
		for _, burst := range []bool{false, true} {
			l := NewLoad(20, 10*time.Millisecond, 200*time.Millisecond, burst)
			l.Events, l.Replies = 6, 3
			t.Run(name+", "+l.String(), func(t *testing.T) {
				s, err := NewSession(serve(t), 0, l, clock.Start())
				if err != nil {
					t.Fatal(err)
				}
				f, err := s.Run(t.Context(), drive)
				if err != nil {
					t.Fatal(err)
				}
				all := l.Streams * l.Events * l.Replies
				if f.Events != all || f.Missing != 0 || f.Stamp.N != all || f.TTFT.N != l.Streams*l.Replies || f.ITL.N != all-f.TTFT.N {
					t.Errorf("%d events, %d missing, samples %d, %d, %d; want %d events", f.Events, f.Missing, f.Stamp.N, f.TTFT.N, f.ITL.N, all)
				}
				// What no load can do: a stamp well before the write, a plan that ran early.
				if f.Stamp.P50 < -50 || f.TTFT.P50 < -50 || f.Slip.P50 < 0 {
					t.Errorf("stamps before the truth: %+v", f)
				}
				if f.Rate <= 0 || f.Coalesced < 0 || f.Coalesced > 1 {
					t.Errorf("%+v", f)
				}
			})
		}
	}
}

// A server that is not there is an error, at once.
func TestNoServer(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	ln.Close()
	for name, drive := range map[string]Drive{"assay": Assay, "bare": Bare, "loop": Loop} {
		s, err := NewSession(addr, 0, NewLoad(2, 10*time.Millisecond, 10*time.Millisecond, false), clock.Start())
		if errors.Is(err, metronome.ErrNoSharedClock) {
			t.Skip(err)
		}
		if _, err := s.Run(t.Context(), drive); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// The comparison on made-up figures: every error where it belongs.
func TestCompare(t *testing.T) {
	l := Load{Streams: 1, Every: time.Millisecond, Events: 3, Replies: 1}
	s := &Session{Load: l, Zero: 1000, seen: []reply{{sent: 50, events: 2, coalesced: 1}}, at: []int64{10_000, 20_000, -1}, lag: []int32{100, 300, -1}}
	f := s.compare([]metronome.Truth{
		{ID: 0, Arrival: 1150, At: 5_000, Every: time.Microsecond, Asked: 3, Began: []int64{8_000, 19_500, 30_000}, Took: make([]uint32, 3)},
		{ID: 77, Asked: 1, Began: []int64{1}, Took: make([]uint32, 1)}, // somebody else's
	})
	// Stamps 11 000 and 21 000 against 8 000 and 19 500.
	if f.Stamp.N != 2 || f.Stamp.Max != 3 || f.Stamp.P50 != 2.25 {
		t.Errorf("stamp %+v", f.Stamp)
	}
	// 9 950 as seen, 6 850 in truth.
	if f.TTFT.N != 1 || f.TTFT.P50 != 3.1 {
		t.Errorf("TTFT %+v", f.TTFT)
	}
	// 10 000 as seen, 11 500 in truth.
	if f.ITL.N != 1 || f.ITL.P50 != 1.5 {
		t.Errorf("ITL %+v", f.ITL)
	}
	if f.Events != 3 || f.Missing != 1 || f.Coalesced != 1.0/3 || f.Lag.P50 != 0.2 || f.Slip.N != 3 || f.Slip.Max != 23 {
		t.Errorf("%+v", f)
	}
}

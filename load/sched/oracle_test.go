package sched

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/assay-bench/assay/record"
)

// sent is one request as a simulated runner sent it.
type sent struct {
	Action
	At record.Stamp // when it was given out
}

// simulate runs a scheduler that has an end, on exact wakes, with request i
// taking service[i%len] ns. Ends come before wakes at the same time, and among
// themselves in the order of slots.
func simulate(s *Scheduler, start record.Stamp, service []int64) []sent {
	var all []sent
	ends := map[int]record.Stamp{}
	give := func(now record.Stamp, actions []Action) {
		for _, a := range actions {
			all = append(all, sent{a, now})
			ends[a.Slot] = now + record.Stamp(service[a.Request.Index%int64(len(service))])
		}
	}
	give(start, s.Start(start, nil))
	for {
		first := -1
		for slot, at := range ends {
			if first < 0 || at < ends[first] || at == ends[first] && slot < first {
				first = slot
			}
		}
		wake, ok := s.NextWake()
		switch {
		case first >= 0 && (!ok || ends[first] <= wake):
			now := ends[first]
			delete(ends, first)
			give(now, s.Ended(now, first, nil))
		case ok:
			give(wake, s.Wake(wake, nil))
		default:
			return all
		}
	}
}

// TestOpenLoopAgainstOracle: an arrival goes out at the first moment at which it
// is due, its predecessor is out and fewer than cap are in flight. Found by trying
// every moment at which anything changes.
func TestOpenLoopAgainstOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gaps := rapid.SliceOfN(rapid.Int64Range(0, 20), 1, 10).Draw(t, "gaps")
		service := rapid.SliceOfN(rapid.Int64Range(1, 60), 1, 10).Draw(t, "service")
		limit := rapid.IntRange(0, 4).Draw(t, "cap")
		n := rapid.IntRange(1, 40).Draw(t, "n")
		s, err := New(Config{Gap: cycle(gaps), MaxInFlight: limit, MaxRequests: int64(n)}, &counter{left: -1})
		if err != nil {
			t.Fatal(err)
		}

		const start = 5
		var out, end []int64
		scheduled, held, capped, cappedTo := int64(start), int64(0), int64(0), int64(0)
		for i := range n {
			scheduled += gaps[i%len(gaps)]
			at := scheduled
			if i > 0 {
				at = max(at, out[i-1])
			}
			for limit > 0 && running(out, end, at) >= limit {
				at++
			}
			out, end = append(out, at), append(end, at+service[i%len(service)])
			if at > scheduled {
				held++
				capped += at - max(scheduled, cappedTo)
				cappedTo = at
			}
		}

		got := simulate(s, start, service)
		if len(got) != n {
			t.Fatalf("%d requests of %d", len(got), n)
		}
		for i, g := range got {
			if int64(g.At) != out[i] {
				t.Fatalf("arrival %d went out at %d; oracle %d", i, g.At, out[i])
			}
		}
		if ns, h := s.Capped(); ns != capped || h != held {
			t.Fatalf("capped for %d ns, %d held; oracle %d, %d", ns, h, capped, held)
		}
	})
}

// running counts those that are out and not over at the moment.
func running(out, end []int64, at int64) int {
	n := 0
	for i := range out {
		if out[i] <= at && at < end[i] {
			n++
		}
	}
	return n
}

// TestClosedLoopAgainstOracle walks nanosecond by nanosecond over slots that each
// have the time of their next change.
func TestClosedLoopAgainstOracle(t *testing.T) {
	type user struct {
		busy bool
		at   int64 // of the end if busy, else of the next request
	}
	rapid.Check(t, func(t *rapid.T) {
		users := make([]user, rapid.IntRange(1, 5).Draw(t, "concurrency"))
		ramp := rapid.Int64Range(0, 40).Draw(t, "ramp")
		thinks := rapid.SliceOfN(rapid.Int64Range(0, 20), 1, 10).Draw(t, "think")
		service := rapid.SliceOfN(rapid.Int64Range(1, 60), 1, 10).Draw(t, "service")
		n := rapid.IntRange(1, 40).Draw(t, "n")
		s, err := New(Config{Concurrency: len(users), Ramp: ramp, Think: cycle(thinks), MaxRequests: int64(n)}, &counter{left: -1})
		if err != nil {
			t.Fatal(err)
		}

		const start = 5
		for k := range users {
			users[k].at = start + ramp*int64(k)/int64(len(users))
		}
		var want []sent
		think := cycle(thinks)
		send := func(now int64, k int) {
			a := Action{Request: record.Request{Index: int64(len(want))}, Scheduled: record.Stamp(now), Slot: k}
			want = append(want, sent{a, record.Stamp(now)})
			users[k] = user{busy: true, at: now + service[a.Request.Index%int64(len(service))]}
		}
		for now := int64(start); len(want) < n; now++ {
			for k, u := range users {
				if !u.busy || u.at != now {
					continue
				}
				users[k] = user{at: now + think()}
				// What is due at the moment of an end goes out with that end.
				for j := range users {
					if !users[j].busy && users[j].at <= now && len(want) < n {
						send(now, j)
					}
				}
			}
			for k := range users {
				if !users[k].busy && users[k].at == now && len(want) < n {
					send(now, k)
				}
			}
		}

		if diff := cmp.Diff(want, simulate(s, start, service)); diff != "" {
			t.Fatalf("(- oracle, + scheduler)\n%s", diff)
		}
	})
}

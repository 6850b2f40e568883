package sched

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/assay-bench/assay/record"
)

// talk is a session as the oracle plays it.
type talk struct {
	slot, turn int
	busy       bool
	at         int64 // of the end if busy, else of the next turn
	over       bool
}

// simulateTalks is simulate for sessions; the turns named in fails fail.
func simulateTalks(s *Scheduler, start record.Stamp, service []int64, fails func(*record.Request) bool) []sent {
	var all []sent
	type flight struct {
		at record.Stamp
		r  record.Request
	}
	ends := map[int]flight{}
	give := func(now record.Stamp, actions []Action) {
		for _, a := range actions {
			all = append(all, sent{a, now})
			ends[a.Slot] = flight{now + record.Stamp(serviceOf(service, &a.Request)), a.Request}
		}
	}
	give(start, s.Start(start, nil))
	for {
		first := -1
		for slot, f := range ends {
			if first < 0 || f.at < ends[first].at || f.at == ends[first].at && slot < first {
				first = slot
			}
		}
		wake, ok := s.NextWake()
		switch {
		case first >= 0 && (!ok || ends[first].at <= wake):
			f := ends[first]
			delete(ends, first)
			if fails(&f.r) {
				give(f.at, s.Abandoned(f.at, first, nil))
			} else {
				give(f.at, s.Ended(f.at, first, nil))
			}
		case ok:
			give(wake, s.Wake(wake, nil))
		default:
			return all
		}
	}
}

func serviceOf(service []int64, r *record.Request) int64 {
	return service[(r.Session*3+int64(r.Turn))%int64(len(service))]
}

// TestSessionsAgainstOracle: whatever the loop, the j-th turn of a session goes out
// when the one before has ended and its delay has passed, the first when its
// session is due and there is room. The oracle walks nanosecond by nanosecond.
func TestSessionsAgainstOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := talks{
			turns:  rapid.SliceOfN(rapid.Int64Range(1, 4), 1, 5).Draw(t, "turns"),
			delays: rapid.SliceOfN(rapid.Int64Range(0, 20), 1, 5).Draw(t, "delays"),
		}
		service := rapid.SliceOfN(rapid.Int64Range(1, 40), 1, 7).Draw(t, "service")
		failing := rapid.Int64Range(2, 9).Draw(t, "failing")
		fails := func(r *record.Request) bool { return (r.Session*5+int64(r.Turn))%failing == 0 }
		n := rapid.Int64Range(1, 12).Draw(t, "sessions")
		cfg := Config{After: k.after}
		var gaps []int64
		slots := rapid.IntRange(1, 4).Draw(t, "slots")
		open := rapid.Bool().Draw(t, "open")
		if open {
			gaps = rapid.SliceOfN(rapid.Int64Range(0, 20), 1, 6).Draw(t, "gaps")
			cfg.Gap, cfg.MaxInFlight = cycle(gaps), slots
		} else {
			cfg.Concurrency = slots
		}
		s, err := New(cfg, k.firsts(&counter{left: n}))
		if err != nil {
			t.Fatal(err)
		}
		const start = 5
		got := simulateTalks(s, start, service, fails)
		want := playTalks(&k, start, n, slots, gaps, service, fails)
		if diff := cmp.Diff(want, turnsOf(got)); diff != "" {
			t.Fatalf("(- oracle, + scheduler)\n%s", diff)
		}
		if !s.Idle() || s.Sessions() != 0 {
			t.Fatalf("over with %d sessions in progress", s.Sessions())
		}
	})
}

// turnTime is when a turn was scheduled and when it went out.
type turnTime struct{ Session, Turn, Scheduled, At int64 }

func turnsOf(all []sent) []turnTime {
	var out []turnTime
	for _, g := range all {
		out = append(out, turnTime{g.Request.Session, int64(g.Request.Turn), int64(g.Scheduled), int64(g.At)})
	}
	return sorted(out)
}

func sorted(all []turnTime) []turnTime {
	slices.SortFunc(all, func(a, b turnTime) int {
		if a.Session != b.Session {
			return int(a.Session - b.Session)
		}
		return int(a.Turn - b.Turn)
	})
	return all
}

func playTalks(k *talks, start, n int64, slots int, gaps, service []int64, fails func(*record.Request) bool) []turnTime {
	var all []turnTime
	var running []*talk
	index := int64(0) // of the next session
	due := start
	if gaps != nil {
		due += gaps[0]
	}
	request := func(s int64, turn int) *record.Request {
		return &record.Request{Session: s, Turn: turn, Turns: int(k.turns[s%int64(len(k.turns))])}
	}
	freedAt := make([]int64, slots)
	for i := range freedAt {
		freedAt[i] = start
	}
	active := func() (n int) {
		for _, x := range running {
			if !x.over {
				n++
			}
		}
		return n
	}
	for now := start; index < n || active() > 0; now++ {
		for changed := true; changed; {
			changed = false
			for i, x := range running {
				switch r := request(int64(i), x.turn); {
				case x.over || x.at > now:
				case x.busy && (fails(r) || x.turn == r.Turns):
					x.over, changed = true, true
					freedAt[x.slot] = now
				case x.busy:
					x.turn++
					x.busy, x.at, changed = false, now+k.delay(request(int64(i), x.turn)), true
				default:
					all = append(all, turnTime{int64(i), int64(x.turn), x.at, now})
					x.busy, x.at, changed = true, now+serviceOf(service, r), true
				}
			}
			if index < n && active() < slots && (gaps == nil || due <= now) {
				scheduled := due
				slot := index % int64(slots)
				if gaps == nil {
					slot = freeSlot(running, freedAt)
					scheduled = freedAt[slot]
				}
				all = append(all, turnTime{index, 1, scheduled, now})
				x := &talk{slot: int(slot), turn: 1, busy: true, at: now + serviceOf(service, request(index, 1))}
				running, changed = append(running, x), true
				index++
				if gaps != nil {
					due += gaps[index%int64(len(gaps))]
				}
			}
		}
	}
	return sorted(all)
}

// freeSlot is the one that was freed first.
func freeSlot(running []*talk, freedAt []int64) int64 {
	best := -1
	for slot := range freedAt {
		if slices.ContainsFunc(running, func(x *talk) bool { return !x.over && x.slot == slot }) {
			continue
		}
		if best < 0 || freedAt[slot] < freedAt[best] {
			best = slot
		}
	}
	return int64(best)
}

// TestSessionInvariants drives a scheduler in any order of steps, with late wakes
// and failures: a turn never starts before its parent has ended and the delay has
// passed, sessions never exceed their number, and every planned turn is accounted
// for: sent, given back, behind a failure, or of a session that the stop cut.
func TestSessionInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := talks{
			turns:  rapid.SliceOfN(rapid.Int64Range(1, 4), 1, 5).Draw(t, "turns"),
			delays: rapid.SliceOfN(rapid.Int64Range(0, 20), 1, 5).Draw(t, "delays"),
		}
		most := rapid.IntRange(1, 4).Draw(t, "most")
		cfg := Config{After: k.after, Concurrency: most}
		if rapid.Bool().Draw(t, "open") {
			cfg = Config{After: k.after, Gap: cycle([]int64{7, 0, 13}), MaxInFlight: most}
		}
		s, err := New(cfg, k.firsts(&counter{left: rapid.Int64Range(0, 15).Draw(t, "source")}))
		if err != nil {
			t.Fatal(err)
		}
		now := record.Stamp(1)
		busy := map[int]record.Request{}
		ended := map[int64]record.Stamp{} // by session: of the turn before
		turn := map[int64]int{}           // by session: the latest that was given out
		planned, accounted := map[int64]int{}, map[int64]int{}
		see := func(actions []Action) {
			for _, a := range actions {
				r := a.Request
				if r.Turn != turn[r.Session]+1 {
					t.Fatalf("turn %d of session %d after turn %d", r.Turn, r.Session, turn[r.Session])
				}
				if r.Turn > 1 && a.Scheduled != ended[r.Session]+record.Stamp(k.delay(&r)) {
					t.Fatalf("turn %d of session %d scheduled at %d; its parent ended at %d, the delay is %d",
						r.Turn, r.Session, a.Scheduled, ended[r.Session], k.delay(&r))
				}
				if a.Scheduled > now {
					t.Fatalf("scheduled at %d, given out at %d", a.Scheduled, now)
				}
				turn[r.Session] = r.Turn
				planned[r.Session] = r.Turns
				accounted[r.Session]++
				if a.Slot == NoSlot {
					accounted[r.Session] += r.Turns - r.Turn
					continue
				}
				if _, taken := busy[a.Slot]; taken {
					t.Fatalf("slot %d was busy", a.Slot)
				}
				busy[a.Slot] = r
			}
			if s.Sessions() > most || s.InFlight() != len(busy) || s.InFlight() > s.Sessions() {
				t.Fatalf("%d sessions of at most %d, %d requests in flight; seen %d", s.Sessions(), most, s.InFlight(), len(busy))
			}
		}
		end := func(slot int, fail bool) {
			r := busy[slot]
			delete(busy, slot)
			ended[r.Session] = now
			if fail {
				accounted[r.Session] += r.Turns - r.Turn
				see(s.Abandoned(now, slot, nil))
				return
			}
			see(s.Ended(now, slot, nil))
		}
		pick := func() int {
			slots := make([]int, 0, len(busy))
			for slot := range busy {
				slots = append(slots, slot)
			}
			slices.Sort(slots)
			return rapid.SampledFrom(slots).Draw(t, "slot")
		}
		see(s.Start(now, nil))
		for range rapid.IntRange(0, 80).Draw(t, "steps") {
			now += record.Stamp(rapid.IntRange(0, 15).Draw(t, "later"))
			if len(busy) == 0 || rapid.Bool().Draw(t, "wake") {
				see(s.Wake(now, nil))
				continue
			}
			end(pick(), rapid.IntRange(0, 5).Draw(t, "fate") == 0)
		}
		for session, n := range turn { // those that the stop cuts between two turns
			if n < planned[session] && accounted[session] < planned[session] {
				accounted[session] += planned[session] - n
			}
		}
		for _, a := range s.Stop(now, nil) {
			if r := a.Request; r.Turn == 1 {
				planned[r.Session], accounted[r.Session] = r.Turns, r.Turns
			} else if a.Scheduled != ended[r.Session]+record.Stamp(k.delay(&r)) {
				t.Fatalf("given back: turn %d of session %d scheduled at %d", r.Turn, r.Session, a.Scheduled)
			}
		}
		for len(busy) > 0 {
			slot := pick()
			delete(busy, slot)
			if got := s.Ended(now, slot, nil); len(got) > 0 {
				t.Fatalf("%d requests after the stop", len(got))
			}
		}
		if !s.Idle() || s.Sessions() != 0 {
			t.Fatalf("%d sessions are left", s.Sessions())
		}
		for session, n := range planned {
			if accounted[session] != n {
				t.Fatalf("session %d of %d turns: %d accounted for", session, n, accounted[session])
			}
		}
	})
}

// TestDue: whoever asks is told of every request that is given out or given back,
// once and in the order of what is sent; later turns too.
func TestDue(t *testing.T) {
	var told []int64
	n := int64(0)
	next := SourceFunc(func() (record.Request, bool) { n++; return record.Request{Index: n, Session: n, Turn: 1}, true })
	s, err := New(Config{
		Gap: func() int64 { return 10 }, MaxInFlight: 1,
		After: func(r *record.Request, _, ended record.Stamp) (record.Request, record.Stamp, bool) {
			return record.Request{Index: 100 + r.Index, Session: r.Session, Turn: 2}, ended, r.Turn == 1
		},
		Due: func(r *record.Request) { told = append(told, r.Index) },
	}, next)
	if err != nil {
		t.Fatal(err)
	}
	out := s.Start(1, nil)
	out = s.Wake(11, out)
	out = s.Wake(25, out) // held back
	out = s.Ended(26, out[0].Slot, out)
	out = s.Ended(27, out[1].Slot, out)
	out = s.Stop(45, out)
	var given []int64
	for _, a := range out {
		given = append(given, a.Request.Index)
	}
	if want := []int64{1, 101, 2, 3, 4}; !slices.Equal(told, want) || !slices.Equal(given, want) {
		t.Errorf("told of %v, given %v, want %v", told, given, want)
	}
}

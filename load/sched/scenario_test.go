package sched

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-bench/assay/record"
)

var update = flag.Bool("update", false, "write what the scenarios in testdata give now")

// TestScenarios plays each file of testdata: commands, a line "----", and what
// the scheduler answers. Comments begin with #. The commands are
//
//	new [concurrency=N] [think=NS,NS…] [ramp=NS] [gaps=NS,NS…] [cap=N] [max=N] [source=N] [turns=N,N…] [delays=NS,NS…] [clock=NS]
//	start T | wake T | ended T SLOT | abandoned T SLOT | stop T | oldest T | capped
//
// Lists are used in turn, again from the front when they end. source is how many
// requests there are; unset it never ends. turns makes sessions: as many turns each,
// with a delay before each but the first, or turn k due (k-1)·clock after the first. Requests are then named SESSION.TURN.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios (%v)", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(text))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(text), got); diff != "" {
				t.Errorf("%s (- file, + now):\n%s", file, diff)
			}
		})
	}
}

// play returns the text with its answers replaced by those that are given now.
func play(t *testing.T, text string) string {
	var out bytes.Buffer
	var s *Scheduler
	answer := false // inside an old answer
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case line == "":
			answer = false
			fmt.Fprintln(&out)
		case answer || line == "----":
			answer = true
		case strings.HasPrefix(line, "#"):
			fmt.Fprintln(&out, line)
		default:
			fmt.Fprintf(&out, "%s\n----\n", line)
			s = command(t, s, strings.Fields(line), &out)
		}
	}
	return out.String()
}

func command(t *testing.T, s *Scheduler, words []string, out *bytes.Buffer) *Scheduler {
	arg := func(i int) int64 {
		if i >= len(words) {
			t.Fatalf("%v: an argument is missing", words)
		}
		n, err := strconv.ParseInt(words[i], 10, 64)
		if err != nil {
			t.Fatalf("%v: %v", words, err)
		}
		return n
	}
	if words[0] == "new" {
		made, err := newFromWords(t, words[1:])
		if err != nil {
			fmt.Fprintln(out, err)
			return nil
		}
		fmt.Fprintln(out, "ok")
		return made
	}
	var actions []Action
	switch words[0] {
	case "start":
		actions = s.Start(record.Stamp(arg(1)), nil)
	case "wake":
		actions = s.Wake(record.Stamp(arg(1)), nil)
	case "ended":
		actions = s.Ended(record.Stamp(arg(1)), int(arg(2)), nil)
	case "abandoned":
		actions = s.Abandoned(record.Stamp(arg(1)), int(arg(2)), nil)
	case "stop":
		actions = s.Stop(record.Stamp(arg(1)), nil)
	case "oldest":
		at, ok := s.Oldest(record.Stamp(arg(1)))
		fmt.Fprintln(out, at, ok)
		return s
	case "capped":
		ns, held := s.Capped()
		fmt.Fprintf(out, "%d ns, %d held\n", ns, held)
		return s
	default:
		t.Fatalf("unknown command %q", words[0])
	}
	for _, a := range actions {
		verb := "send"
		if a.Slot == NoSlot {
			verb = "unsent"
		}
		name := fmt.Sprint(a.Request.Index)
		if a.Request.Turn > 0 {
			name = fmt.Sprintf("%d.%d", a.Request.Session, a.Request.Turn)
		}
		fmt.Fprintf(out, "%s %s scheduled=%d slot=%d\n", verb, name, a.Scheduled, a.Slot)
	}
	next := "none"
	if at, ok := s.NextWake(); ok {
		next = fmt.Sprint(at)
	}
	fmt.Fprintf(out, "in flight %d, scheduled %d, next wake %s", s.InFlight(), s.Scheduled(), next)
	if s.cfg.After != nil {
		fmt.Fprintf(out, ", sessions %d", s.Sessions())
	}
	if s.Idle() {
		fmt.Fprint(out, ", idle")
	}
	fmt.Fprintln(out)
	return s
}

func newFromWords(t *testing.T, words []string) (*Scheduler, error) {
	var cfg Config
	var talks talks
	requests := int64(-1)
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		var list []int64
		for _, v := range strings.Split(value, ",") {
			n, err := strconv.ParseInt(v, 10, 64)
			if err != nil {
				t.Fatalf("%s: %v", w, err)
			}
			list = append(list, n)
		}
		switch key {
		case "concurrency":
			cfg.Concurrency = int(list[0])
		case "think":
			cfg.Think = cycle(list)
		case "ramp":
			cfg.Ramp = list[0]
		case "gaps":
			cfg.Gap = cycle(list)
		case "cap":
			cfg.MaxInFlight = int(list[0])
		case "max":
			cfg.MaxRequests = list[0]
		case "source":
			requests = list[0]
		case "turns":
			talks.turns = list
		case "clock":
			talks.clock = list[0]
		case "delays":
			talks.delays = list
		default:
			t.Fatalf("unknown setting %q", w)
		}
	}
	if talks.turns != nil {
		cfg.After = talks.after
		return New(cfg, talks.firsts(&counter{left: requests}))
	}
	return New(cfg, &counter{left: requests})
}

// talks are sessions whose numbers of turns, and delays of each, come from lists
// by the session's and the turn's number.
type talks struct {
	turns, delays []int64
	clock         int64
}

func (k *talks) firsts(c *counter) Source {
	return SourceFunc(func() (record.Request, bool) {
		r, ok := c.Next()
		r.Session, r.Turn, r.Turns = r.Index, 1, int(k.turns[r.Index%int64(len(k.turns))])
		return r, ok
	})
}

func (k *talks) after(r *record.Request, first, ended record.Stamp) (record.Request, record.Stamp, bool) {
	if r.Turn == r.Turns {
		return record.Request{}, 0, false
	}
	next := *r
	next.Turn++
	if k.clock != 0 { // by the session's own clock
		return next, first + record.Stamp(int64(r.Turn)*k.clock), true
	}
	return next, ended + record.Stamp(k.delay(&next)), true
}

// delay before a turn.
func (k *talks) delay(r *record.Request) int64 {
	if len(k.delays) == 0 {
		return 0
	}
	return k.delays[(r.Session+int64(r.Turn)-2)%int64(len(k.delays))]
}

// cycle gives the values in turn, for ever.
func cycle(values []int64) func() int64 {
	i := 0
	return func() int64 {
		v := values[i%len(values)]
		i++
		return v
	}
}

// counter is a source of requests that are only numbered; left < 0 is no end.
type counter struct{ given, left int64 }

func (c *counter) Next() (record.Request, bool) {
	if c.left == 0 {
		return record.Request{}, false
	}
	c.left--
	c.given++
	return record.Request{Index: c.given - 1}, true
}

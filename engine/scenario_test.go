package engine

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write what the scenarios yield into testdata")

// TestScenarios runs the files of testdata. A file is a sequence of
//
//	command arguments
//	----
//	what it prints
//
// with an empty line after each, and # comments. Commands:
//
//	engine seqs=N budget=N blocks=N size=N [long=N] [off=chunked,caching,reserve] [on=priority]
//	add NAME prompt=N output=N [priority=N] [stop] [hash=a,b,...]
//	step [N]      one line a step:
//	              batch NAME:tokens@context, then outputs NAME+tokens with
//	              ! for finished, then running/waiting, held blocks, and
//	              preemptions and prefix hits if any
//	abort NAME
//	drain         steps until idle
//	show NAME     what the engine filled in, times in steps
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := (&scenario{t: t}).run(string(text))
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != string(text) {
				t.Errorf("%s yields\n%s\nwant\n%s", file, got, text)
			}
		})
	}
}

type scenario struct {
	t        *testing.T
	e        *Engine
	requests map[string]*Request
	now      int64
	ends     []int64 // of the steps so far
}

// run executes the commands of a file and returns it with what they print.
func (s *scenario) run(text string) string {
	var out strings.Builder
	inOutput := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch {
		case inOutput:
			inOutput = line != ""
		case line == "----":
			inOutput = true
			continue
		case line == "":
		case strings.HasPrefix(line, "#"):
			fmt.Fprintln(&out, line)
		default:
			fmt.Fprintf(&out, "%s\n----\n%s\n", line, s.command(strings.Fields(line)))
		}
	}
	return out.String()
}

func (s *scenario) command(words []string) string {
	args := map[string]string{}
	for _, w := range words[1:] {
		key, value, _ := strings.Cut(w, "=")
		args[key] = value
	}
	switch words[0] {
	case "engine":
		return s.engine(args)
	case "add":
		return s.add(words[1], args)
	case "step":
		n := 1
		if len(words) > 1 {
			n = number(s.t, words[1])
		}
		out := ""
		for range n {
			out += s.step()
		}
		return out
	case "drain":
		out := ""
		for s.e.HasWork() {
			out += s.step()
		}
		return out
	case "abort":
		s.e.Abort(s.now, s.requests[words[1]])
		return s.state() + "\n"
	case "show":
		return s.show(words[1])
	}
	s.t.Fatalf("unknown command %q", words[0])
	return ""
}

func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (s *scenario) engine(args map[string]string) string {
	cfg := DefaultConfig()
	cfg.LogBatch = true
	cfg.MaxNumSeqs = number(s.t, args["seqs"])
	cfg.MaxNumBatchedTokens = number(s.t, args["budget"])
	cfg.KVBlocks = number(s.t, args["blocks"])
	cfg.BlockSize = number(s.t, args["size"])
	if long := args["long"]; long != "" {
		cfg.LongPrefillTokens = number(s.t, long)
	}
	off := strings.Split(args["off"], ",")
	cfg.ChunkedPrefill = !slices.Contains(off, "chunked")
	cfg.PrefixCaching = !slices.Contains(off, "caching")
	cfg.ReserveFullPrompt = !slices.Contains(off, "reserve")
	cfg.ByPriority = args["on"] == "priority"
	if !cfg.ChunkedPrefill {
		cfg.MaxModelLen = cfg.MaxNumBatchedTokens
	}
	e, err := New(cfg)
	if err != nil {
		return err.Error() + "\n"
	}
	s.e, s.requests, s.now, s.ends = e, map[string]*Request{}, 0, nil
	return fmt.Sprintf("at most %d tokens a request\n", e.Config().MaxModelLen)
}

func (s *scenario) add(name string, args map[string]string) string {
	r := &Request{
		PromptTokens: number(s.t, args["prompt"]),
		OutputTokens: number(s.t, args["output"]),
		Data:         name,
	}
	if p := args["priority"]; p != "" {
		r.Priority = number(s.t, p)
	}
	_, r.Stop = args["stop"]
	for h := range strings.SplitSeq(args["hash"], ",") {
		if h != "" {
			r.BlockHashes = append(r.BlockHashes, uint64(h[0]))
		}
	}
	if err := s.e.Add(s.now, r); err != nil {
		return err.Error() + "\n"
	}
	s.requests[name] = r
	return s.state() + "\n"
}

func (s *scenario) state() string {
	return fmt.Sprintf("%d running, %d waiting, %d blocks held",
		s.e.Running(), s.e.Waiting(), s.e.pool.usable()-s.e.pool.free)
}

func (s *scenario) step() string {
	st := s.e.Step(s.now)
	s.now = st.End
	s.ends = append(s.ends, st.End)
	checkInvariants(s.t, s.e)
	var out strings.Builder
	out.WriteString("batch")
	for _, b := range st.Batch {
		fmt.Fprintf(&out, " %s:%d@%d", b.Request.Data, b.Tokens, b.Context)
	}
	out.WriteString(" | out")
	for _, o := range st.Outputs {
		fmt.Fprintf(&out, " %s+%d", o.Request.Data, o.NewTokens)
		if o.First {
			out.WriteString("*")
		}
		if o.Finished {
			fmt.Fprintf(&out, "!%s", o.FinishReason)
		}
	}
	fmt.Fprintf(&out, " | %s", s.state())
	if st.Preempted > 0 {
		fmt.Fprintf(&out, ", %d preempted", st.Preempted)
	}
	if st.PrefixHits > 0 {
		fmt.Fprintf(&out, ", %d of %d tokens cached", st.PrefixHits, st.PrefixQueries)
	}
	return out.String() + "\n"
}

func (s *scenario) show(name string) string {
	r := s.requests[name]
	at := func(ns int64) int { return slices.Index(s.ends, ns) + 1 }
	return fmt.Sprintf("first scheduled after step %d, first token with step %d, last with step %d; %d cached, %d preemptions\n",
		at(r.FirstScheduled), at(r.FirstToken), at(r.LastToken), r.CachedTokens, r.Preemptions)
}

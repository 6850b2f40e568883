package engine

import "testing"

func mixture(t *testing.T, replicas int) *Group {
	t.Helper()
	tables := DefaultTables()
	g, err := NewGroup(ConfigFor(tables.GPUs["rtx-pro-6000"], tables.Models["qwen3-30b-a3b"], 1), replicas)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// runGroup serves perReplica[i] requests on replica i and returns the time
// it took and the steps.
func runGroup(t *testing.T, g *Group, perReplica ...int) (now int64, steps int) {
	t.Helper()
	tokens, want := 0, 0
	for i, n := range perReplica {
		for range n {
			if err := g.Engines()[i].Add(0, &Request{PromptTokens: 100, OutputTokens: 50}); err != nil {
				t.Fatal(err)
			}
			want += 50
		}
	}
	for g.HasWork() {
		all := g.Step(now)
		steps++
		for _, s := range all {
			if s.Start != now || s.End != all[0].End || s.End <= s.Start {
				t.Fatalf("steps at %d: %d to %d, and %d to %d", now, s.Start, s.End, all[0].Start, all[0].End)
			}
			for _, o := range s.Outputs {
				tokens += o.NewTokens
			}
		}
		now = all[0].End
	}
	for _, e := range g.Engines() {
		checkInvariants(t, e)
	}
	if tokens != want {
		t.Fatalf("%d tokens, want %d", tokens, want)
	}
	return now, steps
}

func TestGroupOfOneIsAnEngine(t *testing.T) {
	group, _ := runGroup(t, mixture(t, 1), 8)
	e := mixture(t, 1).Engines()[0]
	var requests []*Request
	for range 8 {
		requests = append(requests, &Request{PromptTokens: 100, OutputTokens: 50})
	}
	end := int64(0)
	drive(t, e, requests, func(s *Step) { end = s.End })
	if group != end {
		t.Errorf("as a group %d ns, alone %d ns", group, end)
	}
}

// With equal load on all, the guess of an engine alone is what happens.
func TestGroupAgreesWithEngineUnderEqualLoad(t *testing.T) {
	group, steps := runGroup(t, mixture(t, 2), 8, 8)
	e := mixture(t, 2).Engines()[0]
	var requests []*Request
	for range 8 {
		requests = append(requests, &Request{PromptTokens: 100, OutputTokens: 50})
	}
	end := int64(0)
	drive(t, e, requests, func(s *Step) { end = s.End })
	if diff := group - end; diff < -int64(steps) || diff > int64(steps) {
		t.Errorf("in a group %d ns, alone %d ns", group, end)
	}
}

// The load of one replica slows the other, whose experts serve it too.
func TestGroupSharesItsExperts(t *testing.T) {
	alone, _ := runGroup(t, mixture(t, 2), 1, 0)
	beside, _ := runGroup(t, mixture(t, 2), 1, 64)
	if beside < alone*3/2 {
		t.Errorf("beside a busy replica %d ns, beside an idle one %d ns", beside, alone)
	}
}

func TestNewGroupRefuses(t *testing.T) {
	if _, err := NewGroup(DefaultConfig(), 0); err == nil {
		t.Error("no replica accepted")
	}
	if _, err := NewGroup(DefaultConfig(), 2); err == nil {
		t.Error("a dense model has no experts to share, and was accepted")
	}
}

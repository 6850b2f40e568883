package report

import "github.com/assay-bench/assay/result"

// diagnosis is a hypothesis on each latency, with its evidence.
func (sh *sheet) diagnosis(d *result.Diagnosis) {
	if d == nil {
		return
	}
	sh.section("DIAGNOSIS", "a hypothesis, never more; figures of client and server stand side by side")
	for _, p := range []struct {
		name string
		part *result.DiagnosisPart
	}{{"TTFT", &d.TTFT}, {"E2E", &d.E2E}} {
		sh.row(p.name, hypothesis(p.part.Hypothesis))
		for _, text := range p.part.For {
			sh.row("  for", text)
		}
		for _, text := range p.part.Against {
			sh.row("  against", text)
		}
	}
	for i, text := range d.Next {
		label := ""
		if i == 0 {
			label = "next"
		}
		sh.row(label, text)
	}
}

// hypothesis in words.
func hypothesis(word string) string {
	switch word {
	case result.HypothesisQueue:
		return "waiting in the server's queue"
	case result.HypothesisPrefill:
		return "prefill on the server"
	case result.HypothesisDecode:
		return "decode"
	case result.HypothesisClient:
		return "our own client"
	case result.HypothesisNetwork:
		return "the network"
	}
	return "not decidable"
}

// sweepDiagnosis is a hypothesis on what grows with the load.
func (sh *sheet) sweepDiagnosis(d *result.SweepDiagnosis) {
	sh.section("DIAGNOSIS", d.Series, "a hypothesis on what grows with the load: "+hypothesis(d.Hypothesis))
	for _, text := range d.For {
		sh.row("  for", text)
	}
	for _, text := range d.Against {
		sh.row("  against", text)
	}
	for _, text := range d.Next {
		sh.row("next", text)
	}
}

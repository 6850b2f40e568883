package truth

import (
	"fmt"
	"iter"
	"slices"

	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
	"github.com/assay-bench/assay/stat"
)

// Clock relates the stamps of a run to the clock of the log.
type Clock struct {
	// Zero is the log's time at stamp 0. It means something only if Shared.
	Zero   int64
	Shared bool
}

// completed is the outcome of a request that the server finished.
const completed = "completed"

// Compare looks up the completed attempts of a stage's window in the log. The
// attempts are read once; events are not needed.
func Compare(log Log, clock Clock, attempts iter.Seq[*record.Attempt]) *result.Truth {
	out := &result.Truth{SameClock: clock.Shared}
	var d differences
	for a := range attempts {
		if a.Phase != record.Measured || a.Outcome != record.Completed {
			continue
		}
		out.Requests++
		row, ok := log[a.ID]
		if !ok || row.Outcome != completed {
			continue
		}
		out.Matched++
		if text := tokensDiffer(a, &row); text != "" {
			if out.TokensDiffer++; out.Differs == "" {
				out.Differs = text
			}
		}
		d.add(a, &row, clock)
	}
	out.Figures = d.figures()
	return out
}

func tokensDiffer(a *record.Attempt, row *Row) string {
	if a.Usage == nil {
		return ""
	}
	if a.Usage.PromptTokens == row.PromptTokens && a.Usage.CompletionTokens == row.OutputTokens {
		return ""
	}
	return fmt.Sprintf("%s: usage says %d prompt and %d output tokens, the engine had %d and %d",
		a.ID, a.Usage.PromptTokens, a.Usage.CompletionTokens, row.PromptTokens, row.OutputTokens)
}

// differences are samples in microseconds.
type differences struct {
	ttft, e2e         []float64
	sent, first, last []float64
	slip              []float64
}

func (d *differences) add(a *record.Attempt, row *Row, clock Clock) {
	us := func(ns int64) float64 { return float64(ns) / 1e3 }
	first, last := a.FirstText, a.LastText
	if !a.Streamed {
		first, last = 0, a.EOF
	}
	sent := int64(a.Sent)
	if first.Known() && row.First != 0 {
		d.ttft = append(d.ttft, us(int64(first)-sent-(row.First-row.Received)))
	}
	if last.Known() && row.Last != 0 {
		d.e2e = append(d.e2e, us(int64(last)-sent-(row.Last-row.Received)))
	}
	for _, slip := range row.slips {
		d.slip = append(d.slip, us(int64(slip)))
	}
	if !clock.Shared {
		return
	}
	d.sent = append(d.sent, us(row.Received-clock.Zero-sent))
	if first.Known() && row.First != 0 {
		d.first = append(d.first, us(int64(first)+clock.Zero-row.First))
	}
	if last.Known() && row.Last != 0 {
		d.last = append(d.last, us(int64(last)+clock.Zero-row.Last))
	}
}

func (d *differences) figures() []result.TruthFigure {
	var out []result.TruthFigure
	for _, f := range []struct {
		name, text string
		sample     []float64
	}{
		{"ttft", "TTFT, client - server", d.ttft},
		{"e2e", "E2E, client - server", d.e2e},
		{"arrival", "request: server read it - client's first byte sent", d.sent},
		{"first_text", "first text: client's stamp - server's write began", d.first},
		{"last_text", "last text: client's stamp - server's write began", d.last},
		{"write_slip", "server's own: write began - planned", d.slip},
	} {
		if len(f.sample) > 0 {
			out = append(out, figure(f.name, f.text, f.sample))
		}
	}
	return out
}

func figure(name, text string, x []float64) result.TruthFigure {
	slices.Sort(x)
	f := result.TruthFigure{Name: name, Text: text, N: len(x), Min: &x[0], Max: &x[len(x)-1]}
	f.P50, f.P99 = quantile(x, 0.5), quantile(x, 0.99)
	return f
}

func quantile(sorted []float64, p float64) *float64 {
	if !stat.Describable(len(sorted), p) {
		return nil
	}
	q := stat.Quantile(sorted, p, stat.Type7)
	return &q
}

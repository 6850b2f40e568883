package experiment

import (
	"fmt"
	"math"
	"slices"

	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
)

// clientSums is what the client counted over a whole stage, whatever the phase:
// the server's counters know no phases.
type clientSums struct {
	out, in, cached, completed int
	silent                     int // attempts that reached the server and told no usage
}

func (c *clientSums) add(a *record.Attempt) {
	if a.Outcome == record.Completed {
		c.completed++
	}
	if a.Usage != nil {
		c.out += a.Usage.CompletionTokens
		c.in += a.Usage.PromptTokens
		c.cached += a.Usage.CachedTokens
	} else if a.Headers.Known() && a.Status == 200 {
		c.silent++
	}
}

// compare puts the client's sums beside the server's deltas. The two are never
// combined, only compared.
func (c *clientSums) compare(s *result.ServerAccount) *result.ServerAccount {
	if s == nil {
		return nil
	}
	out := *s
	out.Counters = slices.Clone(s.Counters)
	for i := range out.Counters {
		k := &out.Counters[i]
		switch k.Quantity {
		case result.TokensOut:
			k.Client = float64(c.out)
		case result.TokensIn:
			k.Client = float64(c.in)
		case result.TokensInComputed:
			k.Client = float64(c.in - c.cached)
		case result.RequestsFinished:
			k.Client = float64(c.completed)
		}
		if k.Delta == nil {
			continue
		}
		k.Agrees = math.Abs(*k.Delta-k.Client) <= k.Resolution
		k.Text = c.explain(k)
	}
	return &out
}

// explain says what a difference is likely to be.
func (c *clientSums) explain(k *result.Counter) string {
	difference := *k.Delta - k.Client
	switch {
	case difference == 0:
		return "agrees"
	case k.Agrees:
		return fmt.Sprintf("agrees within %.0f, the resolution at which the server prints it", k.Resolution)
	case c.silent > 0:
		return fmt.Sprintf("differs by %+.0f: %d attempts reached the server and told no usage (errors in stream, cut off)", difference, c.silent)
	case difference > 0:
		return fmt.Sprintf("the server counts %.0f more: other traffic, or a second client", difference)
	}
	return fmt.Sprintf("the server counts %.0f less: a second engine or replica behind this address, or a counter that is behind", -difference)
}

package workload

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/assay-bench/assay/record"
)

// Indices of the texts that no single request has, far from all requests and from
// the samples of the calibration. Codes have 48 bits.
const (
	systemText = 1 << 46
	sharedText = systemText + 1
	userText   = 1 << 45
)

// opening is the system prompt and the first prompt of a session.
func (c *Content) opening(s *Session, spec *Sessions) (system, user string) {
	system = s.System
	if n := spec.SystemPromptTokens; n > 0 {
		system = c.text(systemText, max(1, c.bare(n)-c.systemUnits)) + prefixedBy(" ", s.System)
	}
	prefixes := []piece{
		{sharedText, c.bare(spec.SharedPrefixTokens)}, {prefixText + int64(s.PrefixPool), c.bare(s.PrefixTokens)}, {userText + s.User, c.bare(s.UserTokens)},
	}
	t := &s.Turns[0]
	var b strings.Builder
	b.WriteString(lead)
	put := 0
	for _, x := range prefixes {
		c.appendUnits(&b, x.index, x.units)
		put += x.units
	}
	switch {
	case t.Text != "" && put == 0:
		return system, t.Text
	case t.Text != "":
		return system, b.String() + " " + t.Text
	}
	n := t.PromptTokens - spec.SystemPromptTokens
	units := c.unitsFor(n)
	if !c.chat && system != "" {
		units = c.bare(n)
	}
	c.appendUnits(&b, s.First, max(1, units-put))
	return system, b.String()
}

// later is what the user says in a later turn. What a chat template puts around a
// message counts with it, as with a first one: a message there and the head of the
// reply, without the start of the text and with the end of the reply before.
func (c *Content) later(index int64, t *Turn) string {
	if t.Text != "" {
		return t.Text
	}
	if c.chat {
		return c.text(index, c.unitsFor(t.PromptTokens))
	}
	var b strings.Builder
	c.appendUnits(&b, index, max(1, c.bare(t.PromptTokens)))
	return b.String()
}

// bare is how many units have so many tokens with nothing around them.
func (c *Content) bare(tokens int) int {
	if tokens <= 0 {
		return 0
	}
	return max(1, int(math.Round(float64(tokens)/c.fit.slope)))
}

// appendUnits appends n units by the code and the draws of an index.
func (c *Content) appendUnits(b *strings.Builder, index int64, n int) {
	code, src := c.code(index), c.source(index)
	for i := range n {
		k := int(code % codeBase)
		code /= codeBase
		if i >= codeUnits {
			k = pick(&src, len(c.units))
		}
		b.WriteString(c.sep)
		b.WriteString(c.units[k])
	}
}

func prefixedBy(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

// FitSystem finds out, with one request, what a chat template puts around a message
// of the system, so that system prompts of so many tokens are. A server that takes
// no such message refuses here, before a run.
func (c *Content) FitSystem(ctx context.Context, p Prober, tokens int) error {
	if !c.chat || tokens < 1 {
		return nil
	}
	const user = 64 // tokens
	messages := []record.Message{
		{Role: "system", Content: c.text(systemText-1, c.bare(tokens))},
		{Role: "user", Content: c.text(-1, c.unitsFor(user))},
	}
	plain, err := p.PromptTokens(ctx, record.Prompt{Messages: messages[1:]})
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	var both int
	if err == nil {
		both, err = p.PromptTokens(ctx, record.Prompt{Messages: messages})
	}
	if err != nil {
		return fmt.Errorf("a system prompt of %d tokens: %w", tokens, err)
	}
	c.systemUnits = int(math.Round(float64(both-plain-tokens) / c.fit.slope))
	return nil
}

package workload

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"strings"

	"github.com/assay-bench/assay/record"
)

const (
	// codeUnits is how many units, of codeBase kinds, the code at the start of a
	// prompt has: 48 bits. With a start-of-text token and the lead it still lies
	// within the first 16 tokens.
	codeUnits = 12
	codeBase  = 16
	codeBits  = 48
)

// lead opens every text, so that the first varying word has a space before it
// as all others have.
const lead = "A"

// Content fills requests with prompts. Make one with [Calibrate]. It does not
// change afterwards and is safe for concurrent use.
type Content struct {
	chat   bool
	method string
	key    [2]uint64 // of the nonce

	// ids are the pool of token ids; nil for text.
	ids []int32
	// units of text, codeBase of them, each with sep before it.
	units []string
	sep   string
	// additive: each unit is one token wherever it stands.
	additive bool

	// fit maps an asked length to a number of units.
	fit   line
	known map[int]int // units of the lengths that were probed one by one

	checks []LengthCheck

	// systemUnits are taken off a system prompt for what its template has around it.
	systemUnits int
}

// line is tokens = overhead + slope × units.
type line struct{ overhead, slope float64 }

func (l line) units(tokens int) int {
	return max(1, int(math.Round((float64(tokens)-l.overhead)/l.slope)))
}

// LengthCheck is one length that was tried on the server before the run.
type LengthCheck struct {
	// Asked for and Achieved, in prompt tokens as the server counts them.
	Asked, Achieved int
}

// Checks are the lengths tried, the last trial of each. Where they differ, the
// server's template or tokenizer does not allow that length exactly.
func (c *Content) Checks() []LengthCheck { return append([]LengthCheck(nil), c.checks...) }

// Method says how prompts get their length.
func (c *Content) Method() string { return c.method }

// newContent has the key of a nonce and no units yet.
func newContent(o *CalibrateOptions) *Content {
	nonce := o.Nonce
	if o.Reuse {
		nonce = ""
	}
	sum := sha256.Sum256([]byte("assay content " + nonce))
	return &Content{
		chat:  o.Chat,
		key:   [2]uint64{binary.LittleEndian.Uint64(sum[:]), binary.LittleEndian.Uint64(sum[8:])},
		known: map[int]int{},
		fit:   line{slope: 1},
	}
}

// Fill sets r.Prompt to a prompt of r.PromptTokens tokens, and its salt. The
// prompt depends on the nonce, on r.Index, on that length and on the shared
// prefix alone.
func (c *Content) Fill(r *record.Request) {
	n := c.unitsFor(r.PromptTokens)
	shared := 0
	if r.PrefixPool > 0 {
		shared = min(c.bare(r.PrefixTokens), n)
	}
	r.Prompt = c.wrap(r.Index, int64(r.PrefixPool), shared, n)
	switch r.CacheSalt {
	case SaltRun:
		r.CacheSalt = fmt.Sprintf("%016x", c.key[0]^c.key[1])
	case SaltRequest:
		r.CacheSalt = fmt.Sprintf("%016x-%d", c.key[0]^c.key[1], r.Index)
	}
}

func (c *Content) unitsFor(tokens int) int {
	if n, ok := c.known[tokens]; ok {
		return n
	}
	return c.fit.units(tokens)
}

// prompt of n units.
func (c *Content) prompt(index int64, n int) record.Prompt { return c.wrap(index, 0, 0, n) }

// prefixText is the index of the first shared prefix; see systemText.
const prefixText = 1 << 44

// wrap makes a prompt of n units, the first of which are those of a pool.
func (c *Content) wrap(index, pool int64, shared, n int) record.Prompt {
	if c.ids != nil && shared == 0 {
		return record.Prompt{TokenIDs: c.tokens(index, n)}
	}
	if c.ids != nil {
		return record.Prompt{TokenIDs: append(c.tokens(prefixText+pool, shared), c.tokens(index, n-shared)...)}
	}
	var b strings.Builder
	b.Grow(len(lead) + n*(len(c.sep)+6))
	b.WriteString(lead)
	c.appendUnits(&b, prefixText+pool, shared)
	c.appendUnits(&b, index, n-shared)
	text := b.String()
	if c.chat {
		return record.Prompt{Messages: []record.Message{{Role: "user", Content: text}}}
	}
	return record.Prompt{Text: text}
}

// code is the place of an index among 2^48, shuffled by the nonce: a bijection
// (odd multiplications and xor-shifts modulo 2^48), so that no two indices of a
// run have one code.
func (c *Content) code(index int64) uint64 {
	const mask = 1<<codeBits - 1
	v := (uint64(index) ^ c.key[0]) & mask
	for _, k := range [...]uint64{c.key[1] | 1, bits.RotateLeft64(c.key[0], 17) | 1} {
		v = v * k & mask
		v ^= v >> 23
		v = v * 0x9e3779b97f4b & mask
		v ^= v >> 25
	}
	return v
}

// source draws what follows the code. Where units are not additive the rest is
// the same in all prompts of a run, or its length would not hold.
func (c *Content) source(index int64) rand.PCG {
	if c.ids == nil && !c.additive {
		index = 0
	}
	var p rand.PCG
	p.Seed(c.key[0]^uint64(index)*0x9e3779b97f4a7c15, c.key[1]+uint64(index))
	return p
}

func (c *Content) tokens(index int64, n int) []int32 {
	out := make([]int32, n)
	code, src := c.code(index), c.source(index)
	for i := range out {
		if i < codeUnits {
			out[i] = c.ids[code%codeBase]
			code /= codeBase
			continue
		}
		out[i] = c.ids[pick(&src, len(c.ids))]
	}
	return out
}

func (c *Content) text(index int64, n int) string {
	var b strings.Builder
	b.Grow(len(lead) + n*(len(c.sep)+6))
	b.WriteString(lead)
	c.appendUnits(&b, index, n)
	return b.String()
}

// pick draws from [0, n) without a division; the bias of n/2^32 is of no
// matter here.
func pick(src *rand.PCG, n int) int {
	return int(src.Uint64() >> 32 * uint64(n) >> 32)
}

// pairs is a text of units in which every ordered pair of them occurs: a
// de Bruijn sequence of order 2, closed by its first unit. Where each pair is
// two tokens, any sequence of units is as many tokens as units.
func pairs(units []string, sep string) (text string, order []int) {
	k := len(units)
	for i := range k {
		// The Lyndon words over k letters of length 1 and 2, in order.
		order = append(order, i)
		for j := i + 1; j < k; j++ {
			order = append(order, i, j)
		}
	}
	order = append(order, order[0])
	var b strings.Builder
	b.WriteString(lead)
	for _, i := range order {
		b.WriteString(sep)
		b.WriteString(units[i])
	}
	return b.String(), order
}

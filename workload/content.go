package workload

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
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

	reuse bool // own prompts stay as they are
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

// Exact reports whether each unit of a prompt is one token, so that prompts and
// parts of them, prefixes and blocks, are of exactly as many tokens as asked. Where
// it is not, [Content.Checks] shows by how much whole prompts are off.
func (c *Content) Exact() bool { return !c.noisy() }

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

// Own makes prompts of those that requests have already: each begins with a code of
// the run's nonce and the request's index, unless they are reused. Recorded bodies
// stay as they are.
func Own(o CalibrateOptions) *Content {
	c := Uncalibrated(o)
	c.method, c.reuse = methodOwn, o.Reuse
	return c
}

// own puts the code before a prompt of a file, whose length nobody asked for. It
// costs some 14 tokens.
func (c *Content) own(r *record.Request) {
	r.PromptTokens = 0
	p := &r.Prompt
	if p.Body != nil {
		return
	}
	head := ""
	if !c.reuse {
		head = c.text(r.Index, codeUnits) + "\n\n"
	}
	if p.Messages == nil {
		p.Text = head + p.Text
		return
	}
	p.Messages = slices.Clone(p.Messages)
	if c.chat {
		p.Messages[0].Content = head + p.Messages[0].Content
		return
	}
	// A completion has one text: a system prompt and what the user says.
	var all []string
	for _, m := range p.Messages {
		all = append(all, m.Content)
	}
	*p = record.Prompt{Text: head + strings.Join(all, "\n\n")}
}

// Fill sets r.Prompt to a prompt of r.PromptTokens tokens, and its salt. The
// prompt depends on the nonce, on r.Index, on that length and on the shared
// prefix alone.
func (c *Content) Fill(r *record.Request) {
	if r.Prompt.Text != "" || r.Prompt.Messages != nil || r.Prompt.Body != nil {
		c.own(r)
	} else {
		r.Prompt = c.wrap(c.pieces(r), c.unitsFor(r.PromptTokens))
		r.Blocks = nil // they are in the prompt now
	}
	c.salt(r)
}

// salt takes a salt for its scope.
func (c *Content) salt(r *record.Request) {
	key := c.key[0] ^ c.key[1]
	switch r.CacheSalt {
	case SaltRun:
		r.CacheSalt = fmt.Sprintf("%016x", key)
	case SaltSession:
		r.CacheSalt = fmt.Sprintf("%016x-s%d", key, r.Session)
	case SaltRequest:
		r.CacheSalt = fmt.Sprintf("%016x-%d", key, r.Index)
	}
}

func (c *Content) unitsFor(tokens int) int {
	if n, ok := c.known[tokens]; ok {
		return n
	}
	return c.fit.units(tokens)
}

// prompt of n units.
func (c *Content) prompt(index int64, n int) record.Prompt {
	return c.wrap([]piece{{index, n}}, n)
}

// piece is a part of a prompt: units by the code and the draws of an index.
type piece struct {
	index int64
	units int
}

// prefixText is the index of the first shared prefix; see systemText.
const prefixText = 1 << 44

// pieces are what the prompt of r is made of, at least as long as it. What stands
// around a prompt shortens its end, not its first block, so that what two requests
// share is not less than was recorded.
func (c *Content) pieces(r *record.Request) []piece {
	rest := piece{r.Index, math.MaxInt}
	switch {
	case r.PrefixPool > 0:
		return []piece{{prefixText + int64(r.PrefixPool), c.bare(r.PrefixTokens)}, rest}
	case len(r.Blocks) > 0:
		all := make([]piece, 0, len(r.Blocks)+1)
		for i, b := range r.Blocks {
			all = append(all, piece{int64(b), c.bare((i+1)*r.BlockTokens) - c.bare(i*r.BlockTokens)})
		}
		return append(all, rest)
	}
	return []piece{rest}
}

// wrap makes a prompt of the first n units of pieces.
func (c *Content) wrap(pieces []piece, n int) record.Prompt {
	if c.ids != nil {
		ids := make([]int32, 0, n)
		for _, p := range pieces {
			ids = c.appendTokens(ids, p.index, min(p.units, n-len(ids)))
		}
		return record.Prompt{TokenIDs: ids}
	}
	var b strings.Builder
	b.Grow(len(lead) + n*(len(c.sep)+6))
	b.WriteString(lead)
	for _, p := range pieces {
		units := min(p.units, n)
		c.appendUnits(&b, p.index, units)
		n -= units
	}
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

func (c *Content) appendTokens(out []int32, index int64, n int) []int32 {
	code, src := c.code(index), c.source(index)
	for i := range n {
		if i < codeUnits {
			out = append(out, c.ids[code%codeBase])
			code /= codeBase
			continue
		}
		out = append(out, c.ids[pick(&src, len(c.ids))])
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

package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/assay-bench/assay/record"
)

// Tokenizer says how a model cuts a text into tokens: the server's /tokenize (vLLM,
// SGLang, llama.cpp), or one of this side.
type Tokenizer interface {
	// Tokenize returns the token ids of a text, without those that stand around every
	// prompt. It returns [errors.ErrUnsupported] if the server has no such endpoint.
	Tokenize(ctx context.Context, text string) ([]int32, error)
}

// Prober asks the server about lengths, off the clock of any measurement.
type Prober interface {
	Tokenizer
	// PromptTokens sends p with at most one output token and returns the prompt
	// tokens of the reply's usage. It returns [errors.ErrUnsupported] if the
	// server tells no usage.
	PromptTokens(ctx context.Context, p record.Prompt) (int, error)
}

// CalibrateOptions say what prompts are wanted.
type CalibrateOptions struct {
	// Chat wants messages; else texts or ids.
	Chat bool
	// TokenIDs wants token ids where the server takes them. Chats take none.
	TokenIDs bool
	// Lengths that will be asked for, in tokens; for a range its ends will do.
	Lengths []int
	// Nonce of the run, which sets its prompts apart from those of other runs.
	// It must not be empty unless they are reused.
	Nonce string
	// Reuse leaves the nonce out: every run sends the same prompts.
	Reuse bool
	// Tokenizer to ask in place of the server's, where it has none or asking it costs
	// too much; nil is the server's. What the server counts still decides.
	Tokenizer Tokenizer
}

const (
	// maxProbes bounds the requests to the server for the first length, and
	// probesALength those for each further one.
	maxProbes     = 12
	probesALength = 4
	// probedLengths is how many lengths are tried one by one; the others follow
	// from the overhead that these have in common.
	probedLengths = 4
)

// Methods, as Content.Method says them.
const (
	methodIDs          = "token ids"
	methodTokenize     = "text, lengths by /tokenize"
	methodTokenizer    = "text, lengths by a tokenizer of this side"
	methodUsage        = "text, lengths by usage"
	methodUncalibrated = "text, uncalibrated"
	methodOwn          = "prompts of a file: lengths are observed, not asked for"
)

// Calibrate finds out, with a few requests, how to make prompts of exact length
// on a server: token ids if wanted and taken; else words of which each pair is
// two tokens, behind an overhead (start of text, chat template) that is
// measured. Where no such words are found, lengths are fitted as well as they
// can be and [Content.Checks] shows the rest. It fails only if the server
// refuses the prompts or ctx ends.
func Calibrate(ctx context.Context, p Prober, o CalibrateOptions) (*Content, error) {
	if len(o.Lengths) == 0 {
		return nil, errors.New("calibrating prompts: no lengths")
	}
	if o.Nonce == "" && !o.Reuse {
		return nil, errors.New("calibrating prompts: no nonce to set them apart from those of other runs")
	}
	lengths := spread(o.Lengths)
	k := &calibration{ctx: ctx, p: p, c: newContent(&o), t: p, left: maxProbes + probesALength*(len(lengths)-1)}
	if o.Tokenizer != nil {
		k.t, k.own = o.Tokenizer, true
	}
	if o.TokenIDs && !o.Chat && k.tokenIDs(lengths) {
		return k.c, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("calibrating prompts: %w", err)
	}
	k.c = newContent(&o)
	if err := k.text(lengths); err != nil {
		return nil, fmt.Errorf("calibrating prompts: %w", err)
	}
	return k.c, nil
}

// spread picks at most probedLengths of the distinct lengths, the ends among
// them, the longest first: it is the one that a server may refuse.
func spread(lengths []int) []int {
	s := slices.Clone(lengths)
	slices.Sort(s)
	s = slices.Compact(s)
	if len(s) > probedLengths {
		var out []int
		for i := range probedLengths {
			out = append(out, s[i*(len(s)-1)/(probedLengths-1)])
		}
		s = out
	}
	slices.Reverse(s)
	return s
}

// calibration is the talk with one server.
type calibration struct {
	ctx  context.Context
	p    Prober
	t    Tokenizer
	own  bool // t is not the server's
	c    *Content
	left int // requests that may still be sent
	// noTokenize and noUsage: the server said that it has none.
	noTokenize, noUsage bool
	sent                int64
}

var errBudget = errors.New("too many probes")

func (k *calibration) spend() error {
	if err := k.ctx.Err(); err != nil {
		return err
	}
	if k.left == 0 {
		return errBudget
	}
	k.left--
	return nil
}

func (k *calibration) tokenize(text string) ([]int32, error) {
	if k.noTokenize {
		return nil, errors.ErrUnsupported
	}
	if err := k.spend(); err != nil {
		return nil, err
	}
	ids, err := k.t.Tokenize(k.ctx, text)
	if err != nil || len(ids) == 0 {
		k.noTokenize = true
		return nil, errors.Join(errors.ErrUnsupported, err)
	}
	return ids, nil
}

func (k *calibration) promptTokens(p record.Prompt) (int, error) {
	if k.noUsage {
		return 0, errors.ErrUnsupported
	}
	if err := k.spend(); err != nil {
		return 0, err
	}
	n, err := k.p.PromptTokens(k.ctx, p)
	k.noUsage = errors.Is(err, errors.ErrUnsupported)
	return n, err
}

// sample is a prompt of n units with an index that no request has.
func (k *calibration) sample(n int) record.Prompt {
	k.sent++
	return k.c.prompt(-k.sent, n)
}

// tokenIDs makes c a content of token ids; false if the server takes none.
func (k *calibration) tokenIDs(lengths []int) bool {
	ids, err := k.tokenize(strings.Join(nouns[:], " "))
	if err != nil {
		return false
	}
	// The first may be a start-of-text token.
	pool := slices.Clone(ids[1:])
	slices.Sort(pool)
	pool = slices.Compact(pool)
	if len(pool) < codeBase {
		return false
	}
	k.c.ids, k.c.method = pool, methodIDs
	for _, n := range lengths {
		if err := k.refine(n, 2); err != nil {
			return errors.Is(err, errors.ErrUnsupported)
		}
	}
	return true
}

// refine tries length n, at most so many times, and moves the number of units
// by what is missing. It keeps the best.
func (k *calibration) refine(n, trials int) error {
	units := k.c.unitsFor(n)
	best, bestUnits := LengthCheck{}, 0
	tried := map[int]bool{}
	var overheads []float64
	for i := 0; i < trials && (!tried[units] || k.c.noisy()); i++ {
		tried[units] = true
		got, err := k.promptTokens(k.sample(units))
		if errors.Is(err, errBudget) && i > 0 {
			break
		}
		if err != nil {
			return fmt.Errorf("a prompt of %d tokens: %w", n, err)
		}
		if i == 0 || abs(got-n) < abs(best.Achieved-n) {
			best, bestUnits = LengthCheck{Asked: n, Achieved: got}, units
		}
		overheads = append(overheads, float64(got)-k.c.fit.slope*float64(units))
		if got == n && !k.c.noisy() {
			break
		}
		step := int(float64(n-got) / k.c.fit.slope)
		if step == 0 && !k.c.noisy() {
			step = sign(n - got)
		}
		units = max(1, units+step)
	}
	if k.c.noisy() && len(overheads) > 0 {
		// The samples differ by their codes: their mean is what to expect, and the
		// nearest of them may have been near by chance.
		k.c.fit.overhead = mean(overheads)
		k.c.known[n] = k.c.fit.units(n)
		k.c.checks = append(k.c.checks, best)
		return nil
	}
	k.c.known[n] = bestUnits
	k.c.checks = append(k.c.checks, best)
	k.c.fit.overhead = float64(best.Achieved) - k.c.fit.slope*float64(bestUnits)
	return nil
}

func abs(n int) int {
	if n < 0 {
		return -n
	}
	return n
}

func sign(n int) int {
	if n < 0 {
		return -1
	}
	return 1
}

// noisy reports whether prompts of as many units differ in tokens.
func (c *Content) noisy() bool { return c.ids == nil && !c.additive }

// text makes c a content of words.
func (k *calibration) text(lengths []int) error {
	tokenized, err := k.findUnits()
	if err != nil {
		return err
	}
	for _, n := range lengths {
		err := k.refine(n, probesALength)
		if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, errBudget) {
			break
		}
		if err != nil {
			return err
		}
	}
	switch {
	case tokenized && k.own:
		k.c.method = methodTokenizer
	case tokenized:
		k.c.method = methodTokenize
	case len(k.c.checks) > 0:
		k.c.method = methodUsage
	default:
		k.c.method = methodUncalibrated
	}
	return nil
}

func mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// Uncalibrated makes prompts as Calibrate does, without a server: a word is taken
// for a token, so lengths are about right and no more.
func Uncalibrated(o CalibrateOptions) *Content {
	c := newContent(&o)
	first := alphabets()[0]
	c.units, c.sep, c.additive, c.method = first.units, first.sep, true, methodUncalibrated
	return c
}

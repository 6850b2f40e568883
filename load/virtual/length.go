package virtual

import (
	"math"
	"math/rand/v2"

	"github.com/assay-bench/assay/engine"
	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/workload"
)

// lengthSigma is the log standard deviation of drawn lengths, near that of
// public chat traces and the same as simserver's.
const lengthSigma = 0.8

// DrawLengths is a Shape for requests without ExactOutput: the model ends a reply
// by itself at a lognormal length of that mean, in tokens, or is cut off at
// MaxTokens, if there is one. The draw depends on the seed and the request's index alone.
func DrawLengths(seed uint64, mean float64) func(*record.Request, *engine.Request) {
	mu := math.Log(mean) - lengthSigma*lengthSigma/2
	return func(r *record.Request, e *engine.Request) {
		if r.ExactOutput {
			return
		}
		source := rand.New(rand.NewPCG(seed, uint64(r.Index)))
		drawn := max(1, int(math.Round(min(math.Exp(mu+lengthSigma*source.NormFloat64()), 1e9))))
		if drawn <= r.MaxTokens || r.MaxTokens == 0 {
			e.OutputTokens, e.Stop = drawn, true
		}
	}
}

// ShareHistory is a Shape that gives each turn of a session the prefix-cache hashes
// of its history, after shape (nil for none) has settled the length of its reply. A
// server without a prefix cache does not look at them.
func ShareHistory(talks *workload.Conversations, blockSize int, shape func(*record.Request, *engine.Request)) func(*record.Request, *engine.Request) {
	return func(r *record.Request, e *engine.Request) {
		if shape != nil {
			shape(r, e)
		}
		if r.Turn > 0 {
			e.BlockHashes = talks.Hashes(r, e.OutputTokens, blockSize)
		}
	}
}

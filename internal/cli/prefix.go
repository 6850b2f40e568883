package cli

import (
	"github.com/assay-bench/assay/engine"
	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
	"github.com/assay-bench/assay/workload"
)

// sharePrefixes is a Shape that gives requests the hashes of their shared
// prefixes, after shape.
func sharePrefixes(blockSize int, shape func(*record.Request, *engine.Request)) func(*record.Request, *engine.Request) {
	return func(r *record.Request, e *engine.Request) {
		shape(r, e)
		e.BlockHashes = workload.PrefixHashes(r, blockSize)
	}
}

// planned is what a plan shares on purpose, for the report.
func planned(p *workload.Plan) *result.Sharing {
	s := p.Sharing()
	if s == nil {
		return nil
	}
	return &result.Sharing{PromptTokens: s.PromptTokens, HitTokens: s.HitTokens, BlockSize: s.BlockSize}
}

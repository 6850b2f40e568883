package cli

import (
	"github.com/assay-bench/assay/engine"
	"github.com/assay-bench/assay/record"
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

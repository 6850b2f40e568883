//go:build !(linux && (amd64 || arm64))

package wire

import (
	"context"
	"errors"

	"github.com/assay-bench/assay/record"
)

// Loop is the transport for many thousand streams; this system has none.
type Loop struct{}

// NewLoop always fails here: the loop needs epoll (Linux on amd64 or arm64).
func NewLoop(*Client, int) (*Loop, error) {
	return nil, errors.New("the epoll transport needs Linux on amd64 or arm64")
}

// Threads is how many threads read.
func (*Loop) Threads() int { return 0 }

// Close ends the threads.
func (*Loop) Close() {}

// Start is never called: there is no loop.
func (*Loop) Start(context.Context, *record.Attempt, *Request, Sink, func(error)) {}

// Prewarm is never called: there is no loop.
func (*Loop) Prewarm(context.Context, int) (int, error) { return 0, nil }

package cli

import (
	"context"

	"github.com/assay-bench/assay/result"
)

// account compares the server's own counters with ours over a run.
type account struct{}

func (r *run) startAccount(context.Context) *account { return &account{} }

func (a *account) finish(context.Context) *result.ServerAccount { return nil }

package cli

import (
	"errors"
	"fmt"

	"github.com/assay-bench/assay/load/real"
)

// Exit codes (DESIGN section 6).
const (
	exitOK          = 0
	exitGate        = 1
	exitUsage       = 2
	exitTarget      = 3
	exitInterrupted = 130
)

// usageError is a mistake in what we were given: flags, files, values.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// gateError is a gate that failed; the report was printed.
type gateError struct{ text string }

func (e gateError) Error() string { return e.text }

// errInterrupted says that the user ended a run; its results are kept.
var errInterrupted = errors.New("interrupted")

// exitCode maps an error to the command's exit code.
func exitCode(err error) int {
	var usage usageError
	var gate gateError
	var target *real.TargetError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &gate):
		return exitGate
	case errors.As(err, &target):
		return exitTarget
	case errors.Is(err, errInterrupted):
		return exitInterrupted
	}
	return exitUsage
}

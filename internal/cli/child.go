package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/assay-bench/assay/load/real"
	"github.com/assay-bench/assay/record"
)

// childGrace is how long a run that was interrupted may take to store what it has.
const childGrace = 30 * time.Second

// runChild makes a run by this binary in a process of its own, and waits for it.
// When ctx ends, the run is interrupted and ends in order. What it says of its
// progress goes to say; its last complaint becomes the error, by its exit code.
func runChild(ctx context.Context, args []string, stdin io.Reader, say func(string, ...any)) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding our own binary: %w", err)
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.SysProcAttr = childAttr()
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = childGrace
	cmd.Stdin = stdin
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return fmt.Errorf("starting a run: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting a run: %w", err)
	}
	complaint := heed(stderr, say)
	err = cmd.Wait()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return errInterrupted
	case err == nil:
		return nil
	case !errors.As(err, &exit):
		return fmt.Errorf("waiting for a run: %w", err)
	case complaint == "":
		return fmt.Errorf("the run's process ended: %s", exit)
	case exit.ExitCode() == exitTarget:
		return &real.TargetError{Text: complaint}
	}
	return errors.New(complaint)
}

// heed reads what a run says until it says no more, and returns its last
// complaint. A line too long for a line is left out.
func heed(stderr io.Reader, say func(string, ...any)) (complaint string) {
	phases := []string{string(record.Warmup), string(record.Measured), string(record.Cooldown)}
	for s := bufio.NewScanner(stderr); s.Scan(); {
		line := s.Text()
		first, _, _ := strings.Cut(line, " ")
		switch text, complains := strings.CutPrefix(line, "assay: "); {
		case complains:
			complaint = text
		case slices.Contains(phases, first) || strings.HasPrefix(line, "panic:"):
			say("  %s", line)
		}
	}
	_, _ = io.Copy(io.Discard, stderr) // of what the scanner gave up on
	return complaint
}

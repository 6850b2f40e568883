package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// listening begins the line with which assay sim tells its address.
const listening = "listening on "

// builtIn is the built-in engine in a process of its own, so that it does not
// share our scheduler. It ends when its standard input closes, which is when we
// end, however we end.
type builtIn struct {
	url   string
	cmd   *exec.Cmd
	stdin io.Closer
}

// startBuiltIn runs this binary again as assay sim on a free loopback port.
func startBuiltIn(ctx context.Context, args []string, stderr io.Writer) (*builtIn, error) {
	return startChild(ctx, "the built-in engine", append([]string{"sim", "--listen", "127.0.0.1:0", "--until-stdin-closes"}, args...), stderr)
}

// startChild runs this binary again as a server that tells its address. Name is
// what messages call it.
func startChild(ctx context.Context, name string, args []string, stderr io.Writer) (*builtIn, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding our own binary, to start %s: %w", name, err)
	}
	cmd := exec.Command(self, args...)
	cmd.Stderr = stderr
	cmd.SysProcAttr = childAttr()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	b := &builtIn{cmd: cmd, stdin: stdin}
	line := make(chan string, 1)
	go func() {
		s := bufio.NewScanner(stdout)
		s.Scan()
		line <- s.Text()
		_, _ = io.Copy(io.Discard, stdout)
	}()
	select {
	case l := <-line:
		var ok bool
		if b.url, ok = strings.CutPrefix(l, listening); !ok {
			b.stop()
			return nil, fmt.Errorf("%s did not start: %q", name, l)
		}
		return b, nil
	case <-ctx.Done():
		b.stop()
		return nil, errInterrupted
	}
}

// stop ends the engine and waits for it.
func (b *builtIn) stop() {
	_ = b.stdin.Close()
	_ = b.cmd.Wait() // its exit status is of no interest any more
}

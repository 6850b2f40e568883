package cli

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/assay-bench/assay/experiment"
)

// progress shows a run on standard error: one line that is redrawn twice a
// second on a terminal, a plain line every ten seconds elsewhere.
type progress struct {
	w     io.Writer
	tty   bool
	notes chan string
	quit  chan struct{}
	done  chan struct{}
}

// Rules of the live line: what is sure to be true at that moment, in the words
// of the report, and never wider than 100 columns.
func startProgress(w io.Writer, live func() experiment.Live) *progress {
	p := &progress{w: w, notes: make(chan string, 8), quit: make(chan struct{}), done: make(chan struct{})}
	every := 10 * time.Second
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.tty, every = true, 500*time.Millisecond
	}
	go p.loop(every, live)
	return p
}

func (p *progress) loop(every time.Duration, live func() experiment.Live) {
	defer close(p.done)
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case text := <-p.notes:
			p.line(text + "\n")
		case <-p.quit:
			for len(p.notes) > 0 {
				p.line(<-p.notes + "\n")
			}
			p.line("")
			return
		case <-t.C:
			p.show(live())
		}
	}
}

func (p *progress) show(l experiment.Live) {
	line := fmt.Sprintf("%-8s %6.1f s  in flight %d  completed %d  %.0f output tokens/s",
		l.Phase, l.Elapsed.Seconds(), l.InFlight, l.Completed, l.OutputTPS)
	switch {
	case l.Precision != "":
		line += "  " + l.Precision
	case l.TTFTp50 > 0:
		line += fmt.Sprintf("  TTFT p50 %.1f ms", float64(l.TTFTp50)/1e6)
	}
	if p.tty {
		fmt.Fprintf(p.w, "\r\x1b[K%s", line)
		return
	}
	fmt.Fprintln(p.w, line)
}

// line takes the place of the live line.
func (p *progress) line(text string) {
	if p.tty {
		text = "\r\x1b[K" + text
	}
	fmt.Fprint(p.w, text)
}

// note shows a line that stays; one too many is dropped rather than waited for.
func (p *progress) note(text string) {
	select {
	case p.notes <- text:
	default:
	}
}

func (p *progress) stop() {
	close(p.quit)
	<-p.done
}

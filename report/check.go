package report

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/assay-bench/assay/result"
)

// Check writes an instrument check for people: a line an item, its answer beside
// it, and below what follows from it.
func Check(w io.Writer, c *result.InstrumentCheck, o Options) error {
	if o.Width <= 0 {
		o.Width = defaultWidth
	}
	p := &page{o: o}
	p.o.Width = max(o.Width, leastWidth)
	p.put(p.label("TARGET", true), []string{p.clean(cmp.Or(c.Target.URL, none))})
	engine := strings.TrimSpace(c.Target.Engine + " " + c.Target.EngineVersion)
	p.put(p.label("", false), p.flow(p.room(), []string{"model " + cmp.Or(c.Target.Model, none), c.Target.Dialect, cmp.Or(engine, "engine not told")}))
	p.put(p.label("CHECK", true), p.flow(p.room(), []string{
		fmt.Sprintf("%d requests, one after the other, max_tokens %d", c.Requests, c.MaxTokens), seconds(c.Took), prefixed("metrics ", c.MetricsURL)}))
	p.lines = append(p.lines, "")
	name, word := 0, 0
	for _, i := range c.Items {
		name, word = max(name, len(i.Name)), max(word, len(i.Verdict))
	}
	for _, i := range c.Items {
		p.checkItem(&i, name+2, word+2)
	}
	for _, warning := range c.Warnings {
		p.put(p.label("note", false), p.wrap(warning.Text, p.room()))
	}
	p.lines = append(p.lines, "")
	if failed := c.Failed(); len(failed) > 0 {
		p.banner(banner{{fmt.Sprintf("FAILED: %s", strings.Join(failed, ", ")), result.Invalid}})
	} else {
		p.banner(banner{{"PASSED", result.Valid}})
	}
	if _, err := io.WriteString(w, strings.Join(p.lines, "\n")+"\n"); err != nil {
		return fmt.Errorf("writing the check: %w", err)
	}
	return nil
}

func (p *page) checkItem(i *result.CheckItem, name, word int) {
	tone := map[string]string{result.Pass: result.Valid, result.Fail: result.Invalid}[i.Verdict]
	head := pad(p.clean(i.Name), name) + p.tone(i.Verdict, cmp.Or(tone, result.Undecided)) + strings.Repeat(" ", max(1, word-len(i.Verdict)))
	room := max(p.o.Width-name-word, 20)
	for k, text := range []string{i.Finding, i.Cause} {
		if text == "" {
			continue
		}
		for _, line := range p.wrap(text, room-2*k) {
			p.lines = append(p.lines, strings.TrimRight(head+strings.Repeat("  ", k)+line, " "))
			head = strings.Repeat(" ", name+word)
		}
	}
}

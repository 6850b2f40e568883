package cli

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/assay-bench/assay/dataset"
	"github.com/assay-bench/assay/workload"
)

// print writes the description for people.
func (d *workloadLook) print(w io.Writer, title string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", title)
	if s := d.Trace; s != nil && s.Sessions > 0 {
		least := ""
		if s.SessionsCut {
			least = "at least "
		}
		fmt.Fprintf(&b, "sessions      %s%d", least, s.Sessions)
		if s.MaxTurn > 1 {
			fmt.Fprintf(&b, ", of up to %d turns", s.MaxTurn)
		}
		b.WriteByte('\n')
	}
	if s := d.Trace; s != nil && s.Blocks > 0 {
		fmt.Fprintf(&b, "prefixes      %.1f %% of %d blocks hit in an infinite cache\n", 100*s.Hits, s.Blocks)
		printFit(&b, &s.Fits)
	}
	if s := d.Sharing; s != nil && d.Profile.Sessions == nil {
		fmt.Fprintf(&b, "sharing       an infinite prefix cache finds %.1f %% of these prompt tokens, in blocks of %d\n", 100*s.HitRate(), s.BlockSize)
	}
	p := &d.Profile
	if s := p.Sessions; s != nil {
		fmt.Fprintf(&b, "replay        %d sessions; an infinite prefix cache would have %.1f %% of the prompt tokens, if all goes as planned\n", s.Sessions, 100*s.HitRate)
	}
	first := fmt.Sprintf("are the first %d requests", p.Requests)
	if p.Requests == 1 {
		first = "is the first request"
	}
	fmt.Fprintf(&b, "fingerprint   %s with seed %d; here %s\n\n", d.Fingerprint, d.Seed, first)
	fmt.Fprintf(&b, "%-14s%10s%8s%9s%9s%9s%9s%9s\n", "", "mean", "CV", "min", "p50", "p95", "p99", "max")
	for _, l := range []struct {
		name string
		l    *workload.LengthProfile
	}{{"prompt tokens", p.Prompt}, {"output tokens", p.Output}} {
		if l.l != nil {
			fmt.Fprintf(&b, "%-14s%10.1f%8.2f%9d%9d%9d%9d%9d\n", l.name, l.l.Mean, l.l.CV, l.l.Min, l.l.P50, l.l.P95, l.l.P99, l.l.Max)
		}
	}
	if s := p.Sessions; s != nil {
		t := s.Turns
		fmt.Fprintf(&b, "%-14s%10.1f%8.2f%9d%9d%9d%9d%9d\n", "turns", t.Mean, t.CV, t.Min, t.P50, t.P95, t.P99, t.Max)
	}
	if p.Correlation != nil {
		fmt.Fprintf(&b, "their ranks correlate by %.2f\n", *p.Correlation)
	}
	printArrivals(&b, p.Arrivals)
	printFits(&b, d.Fits)
	printLengths(&b, "prompt tokens", p.Prompt)
	printLengths(&b, "output tokens", p.Output)
	if p.Sessions != nil {
		printLengths(&b, "turns of a session", p.Sessions.Turns)
	}
	if a := p.Arrivals; a != nil && len(a.Over) > 0 {
		b.WriteString("\nrate over time\n")
		over, most := merged(a), 0.0
		for _, i := range over {
			most = max(most, i.Rate)
		}
		for _, i := range over {
			fmt.Fprintf(&b, "%18s  %-*s %.4g/s\n", coarse(i.From), barWidth, bar(i.Rate, most), i.Rate)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// leastShown is how many arrivals an interval has on average at least: of fewer, the
// bars would show single ones.
const leastShown = 5

// merged are the intervals of the rate, taken together where there are few arrivals.
func merged(a *workload.ArrivalProfile) []workload.Interval {
	n := len(a.Over)
	each := 1
	for each < n && (n%each != 0 || a.Rate*a.Span.Seconds()*float64(each) < leastShown*float64(n)) {
		each++
	}
	var out []workload.Interval
	for part := range slices.Chunk(a.Over, each) {
		all := workload.Interval{From: part[0].From}
		for _, i := range part {
			all.Rate += i.Rate / float64(len(part))
		}
		out = append(out, all)
	}
	return out
}

// printFit says where the number of hash ids does not fit the length of prompts.
func printFit(b *strings.Builder, f *dataset.BlockFit) {
	if f.BlockSize == 0 && f.Suggested > 0 {
		fmt.Fprintf(b, "note: the file does not say how many tokens a hash id stands for; %d would fit all rows (trace.block_size_tokens)\n", f.Suggested)
		return
	}
	if f.Wrong == 0 {
		return
	}
	fmt.Fprintf(b, "note: in %d of %d rows the number of hash_ids does not fit the prompt in blocks of %d tokens", f.Wrong, f.Wrong+f.Up+f.Down+f.Exact, f.BlockSize)
	if f.Suggested > 0 {
		fmt.Fprintf(b, "; blocks of %d would fit all (trace.block_size_tokens)", f.Suggested)
	}
	b.WriteByte('\n')
}

func printArrivals(b *strings.Builder, a *workload.ArrivalProfile) {
	if a == nil {
		return
	}
	what := ""
	if a.OfSessions {
		what = "of sessions "
	}
	fmt.Fprintf(b, "\narrivals      %s%.4g/s over %s", what, a.Rate, coarse(a.Span))
	if a.CV != nil {
		fmt.Fprintf(b, ", CV of the gaps %.3g", *a.CV)
	}
	b.WriteString("\n")
	var parts []string
	for _, d := range a.Dispersion {
		parts = append(parts, fmt.Sprintf("%.3g in %v", d.Index, coarse(d.Window)))
	}
	if parts != nil {
		fmt.Fprintf(b, "dispersion    %s (variance over mean of counts; 1 is Poisson)\n", strings.Join(parts, ", "))
	}
}

func printFits(b *strings.Builder, f *workload.Fits) {
	if f == nil {
		return
	}
	b.WriteString("\nnearest simple forms (Kolmogorov-Smirnov distance, of 1)\n")
	for _, l := range []struct {
		name string
		fits []workload.LengthFit
	}{{"prompt tokens", f.Prompt}, {"output tokens", f.Output}} {
		simple := 0
		for i, x := range l.fits {
			// Tables come near to anything: one is enough, and only if it is nearest.
			if x.IsTable() {
				if i == 0 {
					fmt.Fprintf(b, "%-14s%.3f  %s\n", l.name, x.Distance, x.Text())
				}
				continue
			}
			if simple++; simple <= 2 {
				fmt.Fprintf(b, "%-14s%.3f  %s\n", l.name, x.Distance, x.Text())
			}
		}
	}
	for i, x := range f.Arrivals {
		if i < 2 {
			fmt.Fprintf(b, "%-14s%.3f  %s\n", "gaps", x.Distance, x.Text())
		}
	}
	for _, x := range f.Rates {
		if f.Changes() {
			fmt.Fprintf(b, "%-14s%.3f  %s\n", "changing rate", x.Distance, x.Text())
		}
	}
	for _, n := range f.Warnings() {
		fmt.Fprintf(b, "note: %s\n", n)
	}
}

func printLengths(b *strings.Builder, name string, l *workload.LengthProfile) {
	if l == nil || l.Min == l.Max {
		return
	}
	fmt.Fprintf(b, "\n%s\n", name)
	most, all := 0, 0
	for _, c := range l.Histogram {
		most, all = max(most, c.N), all+c.N
	}
	for _, c := range l.Histogram {
		fmt.Fprintf(b, "%8d .. %-8d %-*s %.1f %%\n", c.Low, c.High, barWidth, bar(float64(c.N), float64(most)), 100*float64(c.N)/float64(all))
	}
}

// barWidth in characters, of the longest bar.
const barWidth = 48

// bar is as long as the share of most, to an eighth of a character; of # where the
// terminal may not show others.
func bar(x, most float64) string {
	if most <= 0 {
		return ""
	}
	if !blockGlyphs(os.Getenv) {
		return strings.Repeat("#", int(x/most*barWidth+0.5))
	}
	eighths := int(x/most*barWidth*8 + 0.5)
	text := strings.Repeat("█", eighths/8)
	if rest := eighths % 8; rest > 0 {
		text += string([]rune("▏▎▍▌▋▊▉")[rest-1])
	}
	return text
}

// blockGlyphs reports whether bars may be of block characters: not on a dumb
// terminal, and not in a locale that is said to be other than UTF-8. The first
// variable that is set decides (POSIX); none set says nothing against them.
func blockGlyphs(env func(string) string) bool {
	if env("TERM") == "dumb" {
		return false
	}
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := strings.ToLower(env(name)); v != "" {
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return true
}

// coarse is a time for a table: three digits of it matter.
func coarse(d time.Duration) string {
	switch {
	case d >= time.Hour:
		d = d.Round(time.Minute)
	case d >= time.Minute:
		d = d.Round(time.Second)
	case d >= time.Second:
		d = d.Round(100 * time.Millisecond)
	default:
		d = d.Round(time.Microsecond)
	}
	text := d.String()
	for _, tail := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, tail) {
			text = strings.TrimSuffix(text, tail[1:])
		}
	}
	return text
}

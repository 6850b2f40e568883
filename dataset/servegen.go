package dataset

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// ServeGen's files do not list requests: a trace has the rate and the fitted gap
// distribution of windows of a client's time, a dataset the distributions of
// lengths. The reader draws the requests from them, by the seed: renewal gaps of
// the fitted family and shape whose mean is 1/rate, started anew in each window
// at an age that is drawn uniformly in a gap.

// window of a client's time.
type window struct {
	start  float64 // s
	rate   float64 // requests/s; 0 is idle
	cv     float64
	family string
	shape  float64
}

// lengthTable is a distribution of lengths, by cumulative weight.
type lengthTable struct {
	tokens []int
	sum    []float64
}

// lengths of a client from a time on.
type lengths struct {
	start          float64
	prompt, output lengthTable
}

// serveGenClient draws the requests of one client.
type serveGenClient struct {
	name    string
	file    string
	skip    func(error) // what is wrong with a window, which is idle then; nil ends the rows
	in      *input
	fields  [][]byte
	lengths []lengths
	rnd     *rand.Rand

	line    int64
	now     window // being drawn from
	after   window // the one behind it
	hasNext bool
	lastLen float64 // s, of the window before the last
	at      float64 // s, of the next request in the window
	done    bool
}

// lastWindow is the length in seconds of a window that none follows, in a file
// with one.
const lastWindow = 600

func newServeGenFile(in *input, name string, o Options, skip func(error)) (*serveGenClient, error) {
	path := o.Dataset
	if path == "" {
		base, ok := strings.CutSuffix(name, "-trace.csv")
		if !ok {
			return nil, errors.New("the file with the lengths (chunk-N-dataset.json) is not known: name it")
		}
		path = base + "-dataset.json"
	}
	lengths, err := readLengths(path)
	if err != nil {
		return nil, fmt.Errorf("lengths of the client: %w", err)
	}
	return newServeGenClient(in, name, lengths, o.Seed, skip)
}

func newServeGenClient(in *input, file string, lengths []lengths, seed uint64, skip func(error)) (*serveGenClient, error) {
	client, _, _ := strings.Cut(filepath.Base(file), "-trace")
	c := &serveGenClient{name: client, file: file, skip: skip, in: in, lengths: lengths, lastLen: lastWindow}
	c.rnd = rand.New(rand.NewPCG(mix(seed), hashString(client)))
	c.after.start = -lastWindow
	var err error
	if c.after, err = c.readWindow(); err != nil {
		return nil, located(file, c.line, err)
	}
	c.hasNext = true
	if err := c.advance(); err != nil {
		return nil, located(file, c.line, err)
	}
	return c, nil
}

// readWindow reads the next window. One that is wrong is idle, from its start if that
// is not what is wrong, if such may be skipped.
func (c *serveGenClient) readWindow() (window, error) {
	var b []byte
	var err error
	for len(b) == 0 && err == nil {
		b, c.line, err = c.in.readLine()
	}
	if err != nil {
		return window{}, err
	}
	w, err := c.parseWindow(b)
	if err == nil && w.start <= c.after.start {
		err = fatalError{&fieldError{column: "start", value: bytes.Clone(c.fields[0]), col: 1, err: errors.New("is not after the window before")}}
	}
	if err == nil || c.skip == nil {
		return w, err
	}
	c.skip(located(c.file, c.line, err))
	if w.start <= c.after.start {
		w.start = c.after.start + lastWindow
	}
	return window{start: w.start}, nil
}

// parseWindow reads a line: start, rate, cv, family, shape, scale. Without a family the
// client is idle.
func (c *serveGenClient) parseWindow(b []byte) (w window, err error) {
	if c.fields, _, err = splitFields(b, ',', c.fields[:0]); err != nil {
		return window{}, err
	}
	if len(c.fields) != 6 {
		return window{}, fmt.Errorf("has %s, a ServeGen window 6: start, rate, cv, family, shape, scale", fieldCount(len(c.fields)))
	}
	w.family = string(c.fields[3])
	for i, v := range []struct {
		name string
		to   *float64
	}{{"start", &w.start}, {"rate", &w.rate}, {"cv", &w.cv}, {}, {"shape", &w.shape}} {
		if v.to == nil || i > 0 && w.family == "" {
			continue
		}
		f, err := strconv.ParseFloat(string(c.fields[i]), 64)
		if err != nil || !(f >= 0) || f > 1e9 {
			return w, fatalError{&fieldError{column: v.name, value: c.fields[i], col: cap(b) - cap(c.fields[i]) + 1,
				err: errors.New("is not a number of at least 0")}}
		}
		*v.to = f
	}
	switch w.family {
	case "":
		w.rate = 0
	case "Gamma", "Weibull":
		if w.rate > 0 && w.shape <= 0 {
			return w, fatalError{&fieldError{column: "shape", value: c.fields[4], err: errors.New("is not more than 0")}}
		}
	default:
		return w, fatalError{&fieldError{column: "family", value: c.fields[3], err: errors.New("is neither Gamma nor Weibull")}}
	}
	return w, nil
}

// advance goes to the next window in which the client sends.
func (c *serveGenClient) advance() error {
	for {
		if !c.hasNext {
			c.done = true
			return nil
		}
		before := c.now
		c.now = c.after
		next, err := c.readWindow()
		switch {
		case errors.Is(err, io.EOF) && !errors.As(err, new(fatalError)):
			c.hasNext = false
			if before.start < c.now.start {
				c.lastLen = c.now.start - before.start
			}
		case err != nil:
			return err
		default:
			c.after = next
		}
		if c.now.rate == 0 {
			continue
		}
		c.at = c.now.start + c.gap()*c.rnd.Float64()
		if c.at < c.end() {
			return nil
		}
	}
}

// end of the present window.
func (c *serveGenClient) end() float64 {
	if c.hasNext {
		return c.after.start
	}
	return c.now.start + c.lastLen
}

// gap draws the time between two requests.
func (c *serveGenClient) gap() float64 {
	w := c.now
	// A Weibull gap of so small a shape has practically all its mass at 0; the
	// Gamma of the recorded CV stands in.
	if w.family == "Weibull" && w.shape >= 0.2 {
		return math.Pow(c.rnd.ExpFloat64(), 1/w.shape) / math.Gamma(1+1/w.shape) / w.rate
	}
	shape := w.shape
	if w.family == "Weibull" {
		shape = 1 / max(w.cv*w.cv, 1e-6)
	}
	return gamma(c.rnd, shape) / shape / w.rate
}

// gamma draws from the Gamma distribution of scale 1 (Marsaglia and Tsang 2000).
func gamma(r *rand.Rand, shape float64) float64 {
	if shape < 1 {
		return gamma(r, shape+1) * math.Pow(1-r.Float64(), 1/shape)
	}
	d := shape - 1.0/3
	k := 1 / math.Sqrt(9*d)
	for {
		x := r.NormFloat64()
		v := 1 + k*x
		if v <= 0 {
			continue
		}
		v = v * v * v
		u := 1 - r.Float64()
		if math.Log(u) < x*x/2+d-d*v+d*math.Log(v) {
			return d * v
		}
	}
}

// next is that of a rowSource.
func (c *serveGenClient) next(row *Row) error {
	row.Line = c.line
	if c.done {
		return io.EOF
	}
	row.stamp, row.Timed, row.Client = int64(c.at*1e9), true, c.name
	for i := range slices.Backward(c.lengths) {
		l := &c.lengths[i]
		if l.start > c.now.start && i > 0 {
			continue
		}
		row.PromptTokens, row.OutputTokens = l.prompt.draw(c.rnd), l.output.draw(c.rnd)
		break
	}
	if c.at += c.gap(); c.at >= c.end() {
		return c.advance()
	}
	return nil
}

func (c *serveGenClient) nextStamp() float64 { return c.at }

func (t *lengthTable) draw(r *rand.Rand) int {
	u := r.Float64() * t.sum[len(t.sum)-1]
	i, _ := slices.BinarySearch(t.sum, u)
	return t.tokens[min(i, len(t.tokens)-1)]
}

// readLengths reads chunk-N-dataset.json: by time, the distributions of a
// client's lengths, each a Python dict in a string.
func readLengths(path string) ([]lengths, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	rd, release, err := unpack(f)
	if err != nil {
		return nil, err
	}
	defer release()
	return parseLengths(rd, path)
}

func parseLengths(rd io.Reader, name string) ([]lengths, error) {
	var file map[string]map[string]string
	if err := json.NewDecoder(io.LimitReader(rd, 1<<30)).Decode(&file); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var out []lengths
	for start, fields := range file {
		s, err := strconv.ParseFloat(start, 64)
		if err != nil || !(s >= 0) {
			return nil, fmt.Errorf("%s: key %q is not a time in seconds", name, shorten([]byte(start)))
		}
		l := lengths{start: s}
		for _, t := range []struct {
			name string
			to   *lengthTable
		}{{"input_tokens", &l.prompt}, {"output_tokens", &l.output}} {
			if *t.to, err = parseTable(fields[t.name]); err != nil {
				return nil, fmt.Errorf("%s: %s: %s: %w", name, start, t.name, err)
			}
		}
		// Windows without requests have empty tables: the ones before hold on.
		if len(l.prompt.tokens) > 0 && len(l.output.tokens) > 0 {
			out = append(out, l)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s: it has no lengths", name)
	}
	slices.SortFunc(out, func(a, b lengths) int { return int(math.Copysign(1, a.start-b.start)) })
	return out, nil
}

// parseTable reads a Python dict of lengths and weights: {100: 0.5, 200: 0.5}.
func parseTable(s string) (lengthTable, error) {
	var t lengthTable
	body := strings.TrimSpace(s)
	if body == "" {
		return t, nil
	}
	body, ok1 := strings.CutPrefix(body, "{")
	body, ok2 := strings.CutSuffix(body, "}")
	if !ok1 || !ok2 {
		return t, fmt.Errorf("%q is not a dict", shorten([]byte(s)))
	}
	total := 0.0
	for item := range strings.SplitSeq(body, ",") {
		if strings.TrimSpace(item) == "" {
			continue
		}
		k, v, _ := strings.Cut(item, ":")
		tokens, err1 := strconv.ParseFloat(strings.TrimSpace(k), 64)
		weight, err2 := strconv.ParseFloat(strings.TrimSpace(v), 64)
		if err1 != nil || err2 != nil || !(tokens >= 0 && tokens <= maxCount) || !(weight >= 0 && weight <= 1e12) {
			return t, fmt.Errorf("%q is not a length and a weight", shorten([]byte(strings.TrimSpace(item))))
		}
		if weight == 0 {
			continue
		}
		total += weight
		t.tokens = append(t.tokens, int(math.Round(tokens)))
		t.sum = append(t.sum, total)
	}
	return t, nil
}

// serveGen merges the clients of a directory by time.
type serveGen struct {
	clients []*serveGenClient // those that are not done, the earliest first
}

func openServeGen(dir string, o Options) (*Reader, error) {
	traces, err := filepath.Glob(filepath.Join(dir, "chunk-*-trace.csv"))
	if err != nil {
		return nil, err
	}
	if len(traces) == 0 {
		return nil, fmt.Errorf("%s: %w: a directory without ServeGen's chunk-N-trace.csv", dir, ErrFormat)
	}
	slices.Sort(traces)
	r := &Reader{name: dir, o: o, shape: shapeOf(ServeGen)}
	r.set = newSetter(r.shape, o)
	g := &serveGen{}
	for _, path := range traces {
		c, release, err := openClient(path, o.Seed, r.skipper())
		if err != nil {
			r.Close()
			return nil, err
		}
		r.release = append(r.release, release)
		if !c.done {
			g.push(c)
		}
	}
	r.src = g
	return r, nil
}

func openClient(path string, seed uint64, skip func(error)) (*serveGenClient, func(), error) {
	lengths, err := readLengths(strings.TrimSuffix(path, "-trace.csv") + "-dataset.json")
	if err != nil {
		return nil, nil, err
	}
	// A client's trace is small; the whole of it costs less than an open file.
	trace, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	c, err := newServeGenClient(&input{buf: trace, w: len(trace), line: 1, err: io.EOF, limit: defaultMaxRow}, path, lengths, seed, skip)
	return c, func() {}, err
}

func (g *serveGen) next(row *Row) error {
	if len(g.clients) == 0 {
		return io.EOF
	}
	c := g.clients[0]
	if err := c.next(row); err != nil {
		return located(c.file, c.line, err)
	}
	g.clients = slices.Delete(g.clients, 0, 1)
	if !c.done {
		g.push(c)
	}
	return nil
}

// push keeps the clients in order of their next request.
func (g *serveGen) push(c *serveGenClient) {
	i, _ := slices.BinarySearchFunc(g.clients, c, func(a, b *serveGenClient) int {
		switch {
		case a.nextStamp() < b.nextStamp():
			return -1
		case a.nextStamp() > b.nextStamp():
			return 1
		}
		return strings.Compare(a.name, b.name)
	})
	g.clients = slices.Insert(g.clients, i, c)
}

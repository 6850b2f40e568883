package rundir

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/assay-bench/assay/record"
)

// The files of raw scrapes, below server/: one line a scrape, and the bodies one
// behind the other, as they came.
const (
	scrapesFile = "scrapes.jsonl"
	bodiesFile  = "scrapes.bodies"
)

// When says where in a run a scrape was made.
type When string

// The places of a scrape in its run.
const (
	BeforeLoad When = "before"
	DuringLoad When = "during"
	AfterLoad  When = "after" // nothing was in flight any more
)

// Scrape is one attempt at reading a server's metrics: a line of
// server/scrapes.jsonl.
type Scrape struct {
	// URL of the metrics, without credentials and query.
	URL string `json:"url"`
	// Round counts from 0; all targets are scraped once in a round, together.
	Round int `json:"round"`
	// When says where in the run it is: before the load, during it, or after it
	// has drained.
	When When `json:"when"`
	// The server sampled its metrics somewhere between Before, when the request
	// was sent, and After, when its reply had been read.
	Before record.Stamp `json:"before_ns"`
	After  record.Stamp `json:"after_ns"`
	Status int          `json:"status,omitzero"`
	// The headers that matter: Content-Type names the format, Date is the
	// server's clock, Process names the process (Process-Start-Time-Unix).
	ContentType string `json:"content_type,omitempty"`
	Date        string `json:"date,omitempty"`
	Process     string `json:"process,omitempty"`
	// Offset and Length of the body in server/scrapes.bodies, in bytes.
	Offset int64 `json:"offset"`
	Length int64 `json:"length"`
	// Error says why there is no body.
	Error string `json:"error,omitempty"`
}

// OK reports whether the scrape has a body to parse.
func (s *Scrape) OK() bool { return s.Error == "" && s.Length > 0 }

// ScrapeWriter stores scrapes as they come. Unlike [Writer] it is safe for
// concurrent use: scrapes are fetched beside the load.
type ScrapeWriter struct {
	mu     sync.Mutex
	index  *os.File
	bodies *os.File
	offset int64
	err    error
}

// Scrapes makes server/ and the files of scrapes in it.
func (w *Writer) Scrapes() (*ScrapeWriter, error) {
	dir := filepath.Join(w.dir, serverDir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("storing scrapes: %w", err)
	}
	var fs [2]*os.File
	for i, name := range []string{scrapesFile, bodiesFile} {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if err != nil {
			if fs[0] != nil {
				_ = fs[0].Close()
			}
			return nil, fmt.Errorf("storing scrapes: %w", err)
		}
		fs[i] = f
	}
	return &ScrapeWriter{index: fs[0], bodies: fs[1]}, nil
}

// Append stores a scrape and its body, the body first. After an error, which
// [ScrapeWriter.Close] returns again, nothing more is stored.
func (w *ScrapeWriter) Append(s Scrape, body []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	s.Offset, s.Length = w.offset, int64(len(body))
	line, err := json.Marshal(s)
	if err == nil {
		_, err = w.bodies.Write(body)
	}
	if err == nil {
		_, err = w.index.Write(append(line, '\n'))
	}
	if err != nil {
		w.err = fmt.Errorf("storing a scrape: %w", err)
		return w.err
	}
	w.offset += s.Length
	return nil
}

// Close closes the files. It returns the first error of all, once.
func (w *ScrapeWriter) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := errors.Join(w.err, w.index.Close(), w.bodies.Close())
	w.err = errors.New("storing a scrape: the files are closed")
	return err
}

// Scrapes are those that a run stored.
type Scrapes struct {
	// Index in the order in which they ended.
	Index  []Scrape
	bodies *os.File
}

// Scrapes opens the stored scrapes; nil if the run stored none. A line that is
// cut off at the end is left out.
func (r *Run) Scrapes() (*Scrapes, error) {
	dir := filepath.Join(r.Dir, serverDir)
	f, err := os.Open(filepath.Join(dir, scrapesFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading scrapes: %w", err)
	}
	defer f.Close()
	out := new(Scrapes)
	lines := bufio.NewReader(f)
	for n := 1; ; n++ {
		line, err := readLine(lines)
		if err == io.EOF {
			break // a line without its end was not written to its end
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", scrapesFile, err)
		}
		var s Scrape
		if err := json.Unmarshal(line, &s); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", filepath.Join(dir, scrapesFile), n, err)
		}
		out.Index = append(out.Index, s)
	}
	if out.bodies, err = os.Open(filepath.Join(dir, bodiesFile)); err != nil {
		return nil, fmt.Errorf("reading scrapes: %w", err)
	}
	return out, nil
}

// maxScrape is the longest body that is read back.
const maxScrape = 64 << 20

// Body of a scrape of the index.
func (s *Scrapes) Body(of Scrape) ([]byte, error) {
	if of.Length < 0 || of.Length > maxScrape || of.Offset < 0 {
		return nil, fmt.Errorf("reading a scrape: its length of %d bytes at %d cannot be", of.Length, of.Offset)
	}
	b := make([]byte, of.Length)
	if _, err := s.bodies.ReadAt(b, of.Offset); err != nil {
		return nil, fmt.Errorf("reading a scrape at byte %d of %s: %w", of.Offset, bodiesFile, err)
	}
	return b, nil
}

// Close closes the file of bodies.
func (s *Scrapes) Close() error {
	if s == nil {
		return nil
	}
	return s.bodies.Close()
}

package rundir

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
)

// Run is a run directory that is read.
type Run struct {
	Dir  string
	Meta Meta

	err      error
	seen     int64 // records that the last Records read to the end of the file
	warnings []result.Warning
}

// Open reads run.json of a run directory. The error says in one line what is
// wrong with it.
func Open(dir string) (*Run, error) {
	path := filepath.Join(dir, metaFile)
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s is not a run directory: it has no %s", dir, metaFile)
	}
	if err != nil {
		return nil, fmt.Errorf("reading a run: %w", err)
	}
	r := &Run{Dir: dir}
	if err := json.Unmarshal(b, &r.Meta); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if r.Meta.SchemaVersion > result.SchemaVersion {
		r.warn("newer-schema", fmt.Sprintf("%s has schema version %d, this version knows %d: fields may be missing",
			metaFile, r.Meta.SchemaVersion, result.SchemaVersion))
	}
	return r, nil
}

// Records yields every attempt with its events in order of completion; both are
// valid only until the next one. A record that is cut off at the end of the file
// is left out with a warning. Ask [Run.Err] afterwards.
func (r *Run) Records(yield func(*record.Attempt, []record.Event) bool) {
	r.err = r.read(yield)
}

// Err is what stopped the last [Run.Records], nil at a proper end.
func (r *Run) Err() error { return r.err }

// Damage says what is missing of a run that was complete, after a
// [Run.Records] that went to the end; "" if nothing is.
func (r *Run) Damage() string {
	if !r.Meta.Complete || r.seen >= r.Meta.Attempts {
		return ""
	}
	return fmt.Sprintf("its files are damaged: %s has %d of the %d attempts that %s tells of", recordsFile, r.seen, r.Meta.Attempts, metaFile)
}

// Warnings about the files, such as a cut last line.
func (r *Run) Warnings() []result.Warning { return r.warnings }

func (r *Run) warn(code, text string) {
	for _, w := range r.warnings {
		if w.Code == code {
			return
		}
	}
	r.warnings = append(r.warnings, result.Warning{Code: code, Text: text})
}

func (r *Run) read(yield func(*record.Attempt, []record.Event) bool) error {
	f, err := os.Open(filepath.Join(r.Dir, recordsFile))
	if err != nil {
		return fmt.Errorf("reading a run: %w", err)
	}
	defer f.Close()
	events, closeEvents := r.openEvents()
	defer closeEvents()

	r.seen = 0
	lines := bufio.NewReaderSize(f, 1<<18)
	var codec record.Decoder
	var a record.Attempt
	for n := 1; ; n++ {
		line, err := readLine(lines)
		if err == io.EOF && len(line) == 0 {
			return nil
		}
		if err != nil && err != io.EOF {
			return fmt.Errorf("reading %s: %w", recordsFile, err)
		}
		if jerr := codec.Decode(line, &a); jerr != nil {
			if err == io.EOF {
				why := "the run died while it was written"
				if r.Meta.Complete {
					why = "the file was damaged after the run"
				}
				r.warn("cut-record", fmt.Sprintf("%s:%d is cut short and was left out: %s", recordsFile, n, why))
				return nil
			}
			return fmt.Errorf("%s:%d: %w", filepath.Join(r.Dir, recordsFile), n, jerr)
		}
		r.seen++
		if !yield(&a, r.eventsOf(events, &a)) {
			return nil
		}
	}
}

func (r *Run) openEvents() (*segmentReader, func()) {
	f, err := os.Open(filepath.Join(r.Dir, eventsFile))
	if err != nil {
		r.warn("no-events", "no events: "+err.Error())
		return nil, func() {}
	}
	s, err := newSegmentReader(f)
	if err != nil {
		r.warn("no-events", err.Error())
		s = nil
	}
	return s, func() { f.Close() }
}

// eventsOf returns the events of a. They are in the same order as the records;
// events without a record (the run died between the two) are passed over.
func (r *Run) eventsOf(s *segmentReader, a *record.Attempt) []record.Event {
	if s == nil || s.done {
		return nil
	}
	for {
		id, events, err := s.next()
		if err != nil {
			s.done = true
			r.warn("events-cut", fmt.Sprintf("events end before attempt %s (%v): gaps and token times after it are unknown", a.ID, err))
			return nil
		}
		if string(id) == a.ID {
			return events
		}
	}
}

// readLine returns one line without its end; io.EOF with what came before it if
// the last one has no end.
func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		long := bytes.Clone(line)
		rest, rerr := r.ReadBytes('\n')
		line, err = append(long, rest...), rerr
	}
	return bytes.TrimSuffix(line, []byte{'\n'}), err
}

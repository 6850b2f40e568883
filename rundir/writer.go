package rundir

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/assay-bench/assay/record"
)

// The files of a run directory.
const (
	metaFile     = "run.json"
	recordsFile  = "records.jsonl"
	eventsFile   = "events.seg"
	requestsFile = "requests.csv"
	clockFile    = "clock.csv"
	reportFile   = "report.json"
	serverDir    = "server"
)

// csvHeader is the five-column format of requests.csv.
const csvHeader = "request_id,prompt_tokens,completion_tokens,TTFT_ms,E2E_ms\n"

// clockHeader is that of clock.csv, in nanoseconds.
const clockHeader = "stamp_ns,wall_ns,window_ns\n"

// Writer streams one run to its directory. It is not safe for concurrent use.
type Writer struct {
	dir     string
	meta    Meta
	records *bufio.Writer
	csv     *bufio.Writer
	clock   *bufio.Writer // nil until there is something to write
	seg     *segmentWriter
	files   []*os.File
	line    []byte
	dirty   bool
	count   int64
}

// Create makes parent/<UTC time of the epoch>-<short id> and the files in it, with
// a run.json that says the run is not complete. The id is the directory's name.
func Create(parent, shortID string, m Meta) (w *Writer, err error) {
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return nil, fmt.Errorf("making the output folder: %w", err)
	}
	m.ID = m.Epoch.UTC().Format("20060102T150405Z") + "-" + shortID
	dir := filepath.Join(parent, m.ID)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, fmt.Errorf("making the run directory: %w", err)
	}
	w = &Writer{dir: dir, meta: m.versioned()}
	defer func() {
		if err != nil {
			w.closeFiles()
		}
	}()
	if err := w.writeJSON(metaFile, w.meta); err != nil {
		return nil, err
	}
	var fs [3]*os.File
	for i, name := range []string{recordsFile, eventsFile, requestsFile} {
		if fs[i], err = os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644); err != nil {
			return nil, fmt.Errorf("making the run directory: %w", err)
		}
		w.files = append(w.files, fs[i])
	}
	w.records, w.csv = bufio.NewWriterSize(fs[0], 1<<18), bufio.NewWriterSize(fs[2], 1<<16)
	if w.seg, err = newSegmentWriter(fs[1]); err != nil {
		return nil, fmt.Errorf("writing %s: %w", eventsFile, err)
	}
	if _, err := w.csv.WriteString(csvHeader); err != nil {
		return nil, fmt.Errorf("writing %s: %w", requestsFile, err)
	}
	w.dirty = true
	return w, w.Flush()
}

// Dir is the run directory.
func (w *Writer) Dir() string { return w.dir }

// Meta is what run.json will say; the caller may change it until [Writer.Close].
func (w *Writer) Meta() *Meta { return &w.meta }

// Append adds one attempt and its events. They reach the disk at the next
// [Writer.Flush] or before.
func (w *Writer) Append(a *record.Attempt, events []record.Event) error {
	w.dirty = true
	if err := w.seg.append(a.ID, events); err != nil {
		return fmt.Errorf("writing %s: %w", eventsFile, err)
	}
	line, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("encoding attempt %s: %w", a.ID, err)
	}
	// A record may go to disk by itself when its buffer is full; its events must
	// be there first.
	if w.records.Available() < len(line)+1 {
		if err := w.seg.flush(); err != nil {
			return fmt.Errorf("writing %s: %w", eventsFile, err)
		}
	}
	if _, err := w.records.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("writing %s: %w", recordsFile, err)
	}
	w.count++
	return w.appendCSV(a)
}

func (w *Writer) appendCSV(a *record.Attempt) error {
	if a.Phase != record.Measured || a.Outcome != record.Completed || a.Usage == nil || a.Usage.CompletionTokens < 1 {
		return nil
	}
	b := append(w.line[:0], a.ID...)
	b = append(b, ',')
	b = strconv.AppendInt(b, int64(a.Usage.PromptTokens), 10)
	b = append(b, ',')
	b = strconv.AppendInt(b, int64(a.Usage.CompletionTokens), 10)
	b = append(b, ',')
	// Not streamed: no TTFT; the field stays empty rather than wrong.
	if d, ok := a.FirstText.Since(a.Sent); ok {
		b = appendMS(b, d)
	}
	b = append(b, ',')
	end := a.LastText
	if !a.Streamed {
		end = a.EOF
	}
	if d, ok := end.Since(a.Sent); ok {
		b = appendMS(b, d)
	}
	w.line = append(b, '\n')
	if _, err := w.csv.Write(w.line); err != nil {
		return fmt.Errorf("writing %s: %w", requestsFile, err)
	}
	return nil
}

// AppendClock adds estimates of the wall clock's offset. A run without any has no
// clock.csv.
func (w *Writer) AppendClock(offsets []record.ClockOffset) error {
	if len(offsets) == 0 {
		return nil
	}
	w.dirty = true
	if w.clock == nil {
		f, err := os.OpenFile(filepath.Join(w.dir, clockFile), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if err != nil {
			return fmt.Errorf("making %s: %w", clockFile, err)
		}
		w.files = append(w.files, f)
		w.clock = bufio.NewWriter(f)
		if _, err := w.clock.WriteString(clockHeader); err != nil {
			return fmt.Errorf("writing %s: %w", clockFile, err)
		}
	}
	for _, o := range offsets {
		if _, err := fmt.Fprintf(w.clock, "%d,%d,%d\n", o.At, o.Wall, o.Window.Nanoseconds()); err != nil {
			return fmt.Errorf("writing %s: %w", clockFile, err)
		}
	}
	return nil
}

// appendMS writes d in milliseconds with all its nanoseconds.
func appendMS(b []byte, d time.Duration) []byte {
	return strconv.AppendFloat(b, float64(d)/1e6, 'f', 6, 64)
}

// Flush puts everything appended so far on disk, events before their records.
func (w *Writer) Flush() error {
	if !w.dirty {
		return nil
	}
	w.dirty = false
	if err := w.seg.flush(); err != nil {
		return fmt.Errorf("writing %s: %w", eventsFile, err)
	}
	if err := w.records.Flush(); err != nil {
		return fmt.Errorf("writing %s: %w", recordsFile, err)
	}
	if err := w.csv.Flush(); err != nil {
		return fmt.Errorf("writing %s: %w", requestsFile, err)
	}
	if w.clock == nil {
		return nil
	}
	if err := w.clock.Flush(); err != nil {
		return fmt.Errorf("writing %s: %w", clockFile, err)
	}
	return nil
}

// SaveMeta replaces run.json with what is known so far.
func (w *Writer) SaveMeta() error { return w.writeJSON(metaFile, w.meta) }

// WriteServer stores what a server said of itself, under server/name.
func (w *Writer) WriteServer(name string, body []byte) error {
	dir := filepath.Join(w.dir, serverDir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("storing a scrape: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), body, 0o644); err != nil {
		return fmt.Errorf("storing a scrape: %w", err)
	}
	return nil
}

// Close flushes, and writes run.json for the last time. complete=true is written
// only if everything else reached the disk.
func (w *Writer) Close(complete bool, ended string) error {
	err := w.Flush()
	if cerr := w.closeFiles(); err == nil {
		err = cerr
	}
	w.meta.Complete, w.meta.Ended, w.meta.Attempts = complete && err == nil, ended, w.count
	if err != nil && ended == "" {
		w.meta.Ended = err.Error()
	}
	return errors.Join(err, w.SaveMeta())
}

func (w *Writer) closeFiles() error {
	var err error
	for _, f := range w.files {
		err = errors.Join(err, f.Close())
	}
	w.files = nil
	return err
}

// writeJSON replaces a file in one step, so that a reader sees the old one or
// the new one, and a full disk leaves the old one.
func (w *Writer) writeJSON(name string, v any) error { return WriteJSON(filepath.Join(w.dir, name), v) }

// WriteJSON writes v, indented, to path by way of a temporary file and a rename.
func WriteJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding %s: %w", filepath.Base(path), err)
	}
	return WriteFile(path, append(b, '\n'))
}

// WriteFile replaces a file whole or not at all, by way of a temporary one.
func WriteFile(path string, b []byte) error {
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, b, 0o644); err != nil {
		_ = os.Remove(tmp) // what is half-written must not stay
		return fmt.Errorf("writing %s: %w", filepath.Base(path), err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return fmt.Errorf("writing %s: %w", filepath.Base(path), err)
	}
	return nil
}

// SaveReport writes report.json beside the records.
func SaveReport(dir string, v any) error { return WriteJSON(filepath.Join(dir, reportFile), v) }

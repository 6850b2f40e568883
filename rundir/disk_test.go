package rundir

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/assay-bench/assay/record"
)

var errFull = errors.New("no space left on device")

// fullDisk takes n bytes, the last write in part, and then nothing more.
type fullDisk struct {
	w io.Writer
	n int
}

func (d *fullDisk) Write(b []byte) (int, error) {
	if len(b) <= d.n {
		d.n -= len(b)
		return d.w.Write(b)
	}
	n, err := d.w.Write(b[:d.n])
	d.n = 0
	return n, errors.Join(err, errFull)
}

// TestFullDisk lets each file run full at each of many sizes: the failure is
// told, run.json never says complete, and what reached the disk can be read.
func TestFullDisk(t *testing.T) {
	parent := t.TempDir()
	for _, name := range []string{recordsFile, eventsFile, requestsFile, clockFile} {
		for room := range 12 {
			t.Run(fmt.Sprint(name, " ", room), func(t *testing.T) {
				w, err := Create(parent, fmt.Sprint(name, room), Meta{Epoch: epoch()})
				if err != nil {
					t.Fatal(err)
				}
				if err := w.AppendClock(make([]record.ClockOffset, 1)); err != nil {
					t.Fatal(err)
				}
				disk := &fullDisk{n: room * 57}
				switch name {
				case recordsFile:
					disk.w = w.files[0]
					w.records = bufio.NewWriterSize(disk, 512)
				case eventsFile:
					disk.w = w.files[1]
					w.seg.w = disk
				case requestsFile:
					disk.w = w.files[2]
					w.csv = bufio.NewWriterSize(disk, 64)
				case clockFile:
					disk.w = w.files[3]
					w.clock = bufio.NewWriterSize(disk, 64)
				}
				for i := range 40 {
					s := fixed()[i%5]
					s.attempt.ID = fmt.Sprint("run-", i)
					err = errors.Join(err, w.Append(&s.attempt, s.events))
					err = errors.Join(err, w.AppendClock([]record.ClockOffset{{At: 1e9, Wall: 1e18, Window: 70}}))
					if i%10 == 0 {
						err = errors.Join(err, w.Flush())
					}
				}
				cerr := w.Close(true, "")
				if !errors.Is(errors.Join(err, cerr), errFull) {
					t.Fatalf("error %v at the end, %v before: want that the disk is full", cerr, err)
				}
				r, got := read(t, w.Dir())
				if r.Meta.Complete || r.Meta.Ended == "" {
					t.Errorf("complete %v, ended %q", r.Meta.Complete, r.Meta.Ended)
				}
				if r.Err() != nil {
					t.Errorf("reading it: %v", r.Err())
				}
				for i, s := range got {
					want := fixed()[i%5].events
					if s.attempt.ID != fmt.Sprint("run-", i) || len(s.events) > 0 && len(s.events) != len(want) {
						t.Fatalf("record %d is %s with %d events", i, s.attempt.ID, len(s.events))
					}
				}
			})
		}
	}
}

// TestEventsBeforeRecords: whatever is cut off when a process is killed, a record
// on disk has its events there.
func TestEventsBeforeRecords(t *testing.T) {
	w, err := Create(t.TempDir(), "x", Meta{Epoch: epoch()})
	if err != nil {
		t.Fatal(err)
	}
	disk := &order{t: t, of: w}
	w.records = bufio.NewWriterSize(disk, 512)
	disk.records = w.files[0]
	for i := range 60 {
		s := fixed()[4]
		s.attempt.ID = fmt.Sprint("run-", i)
		if err := w.Append(&s.attempt, s.events); err != nil {
			t.Fatal(err)
		}
		if i%17 == 0 {
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if disk.looked == 0 {
		t.Fatal("nothing was written")
	}
}

// order looks at the directory after each write of records, as somebody would
// who comes after a kill.
type order struct {
	t       *testing.T
	of      *Writer
	records io.Writer
	looked  int
}

func (o *order) Write(b []byte) (int, error) {
	n, err := o.records.Write(b)
	_, got := read(o.t, o.of.dir)
	for _, s := range got {
		if len(s.events) != len(fixed()[4].events) {
			o.t.Fatalf("attempt %s is on disk with %d events", s.attempt.ID, len(s.events))
		}
	}
	o.looked++
	return n, err
}

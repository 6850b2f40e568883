package metronome

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// magic begins every log. Then come the streams, little endian: id, arrival, at,
// every (int64 each), asked and written (uint32 each), and of every written event
// when its write began (int64) and how long it took (uint32).
const magic = "assay-metronome 1\n"

// Truth is what the server did for one request. Times are CLOCK_MONOTONIC
// nanoseconds.
type Truth struct {
	ID int64
	// Arrival is when the kernel received the request, or, where it does not
	// tell, when the server had read it.
	Arrival int64
	// At and Every are the plan: event k was due at At + k*Every.
	At    int64
	Every time.Duration
	// Asked is how many events were asked for. If fewer were written, the client
	// had gone away.
	Asked int
	// Began is when the write of each event began; Took is how long it took in
	// nanoseconds, at most 4.2 s.
	Began []int64
	Took  []uint32
}

// Slip is how much later than planned the write of event k began.
func (t *Truth) Slip(k int) time.Duration {
	return time.Duration(t.Began[k] - t.At - int64(k)*int64(t.Every))
}

func appendTruth(b []byte, t *Truth) []byte {
	for _, v := range []int64{t.ID, t.Arrival, t.At, int64(t.Every)} {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(t.Asked))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(t.Began)))
	for k, v := range t.Began {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
		b = binary.LittleEndian.AppendUint32(b, t.Took[k])
	}
	return b
}

const (
	streamHeader = 4*8 + 2*4
	eventSize    = 8 + 4
)

// ReadLog reads what POST /take returned.
func ReadLog(r io.Reader) ([]Truth, error) {
	br := bufio.NewReaderSize(r, 64<<10)
	head := make([]byte, len(magic))
	if _, err := io.ReadFull(br, head); err != nil || string(head) != magic {
		return nil, fmt.Errorf("not a log of the truth server: it begins with %q", head)
	}
	var all []Truth
	var header [streamHeader]byte
	var event [eventSize]byte
	for {
		if _, err := io.ReadFull(br, header[:]); err != nil {
			if errors.Is(err, io.EOF) {
				return all, nil
			}
			return nil, fmt.Errorf("the log is cut short in stream %d: %w", len(all), err)
		}
		i64 := func(i int) int64 { return int64(binary.LittleEndian.Uint64(header[i:])) }
		t := Truth{ID: i64(0), Arrival: i64(8), At: i64(16), Every: time.Duration(i64(24)), Asked: int(binary.LittleEndian.Uint32(header[32:]))}
		n := int(binary.LittleEndian.Uint32(header[36:]))
		if n > t.Asked || n > maxEvents {
			return nil, fmt.Errorf("the log is damaged: stream %d has %d events of %d", t.ID, n, t.Asked)
		}
		// Not by n at once: what a damaged log claims need not be there.
		for range n {
			if _, err := io.ReadFull(br, event[:]); err != nil {
				return nil, fmt.Errorf("the log is cut short in stream %d: %w", t.ID, err)
			}
			t.Began = append(t.Began, int64(binary.LittleEndian.Uint64(event[:])))
			t.Took = append(t.Took, binary.LittleEndian.Uint32(event[8:]))
		}
		t.Began, t.Took = slices.Clip(t.Began), slices.Clip(t.Took)
		all = append(all, t)
	}
}

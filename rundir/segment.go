package rundir

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/assay-bench/assay/record"
)

// events.seg, version 1: the 8 bytes of segmentMagic, then blocks. A block is
// its payload's length and CRC-32C (both uint32, little endian), then the
// payload: for each attempt
//
//	uvarint  length of the attempt's id, then its bytes
//	uvarint  number of events, then for each:
//	  varint   At - At of the event before (0 at first), ns
//	  varint   Read - At, ns
//	  varint   Tokens
//	  uvarint  TextBytes, AnswerBytes, WireBytes, Flags
//
// An attempt never spans two blocks. A block that is cut or fails its checksum
// ends the readable part.
const segmentMagic = "ASYEVT01"

// blockTarget is the payload size at which a block is closed.
const blockTarget = 256 << 10

// maxBlock bounds what a reader allocates on the word of a length field.
const maxBlock = 1 << 30

// ErrCut is returned by readers at a block that is cut short or damaged, which
// is how a run that died ends.
var ErrCut = errors.New("events.seg ends in a block that is cut short or damaged")

type segmentWriter struct {
	w       io.Writer
	payload []byte
	frame   []byte
}

func newSegmentWriter(w io.Writer) (*segmentWriter, error) {
	if _, err := io.WriteString(w, segmentMagic); err != nil {
		return nil, err
	}
	return &segmentWriter{w: w}, nil
}

func (s *segmentWriter) append(id string, events []record.Event) error {
	b := binary.AppendUvarint(s.payload, uint64(len(id)))
	b = append(b, id...)
	b = binary.AppendUvarint(b, uint64(len(events)))
	var last record.Stamp
	for _, e := range events {
		b = binary.AppendVarint(b, int64(e.At-last))
		b = binary.AppendVarint(b, int64(e.Read-e.At))
		b = binary.AppendVarint(b, int64(e.Tokens))
		b = binary.AppendUvarint(b, uint64(e.TextBytes))
		b = binary.AppendUvarint(b, uint64(e.AnswerBytes))
		b = binary.AppendUvarint(b, uint64(e.WireBytes))
		b = binary.AppendUvarint(b, uint64(e.Flags))
		last = e.At
	}
	s.payload = b
	if len(b) >= blockTarget {
		return s.flush()
	}
	return nil
}

func (s *segmentWriter) flush() error {
	if len(s.payload) == 0 {
		return nil
	}
	s.frame = binary.LittleEndian.AppendUint32(s.frame[:0], uint32(len(s.payload)))
	s.frame = binary.LittleEndian.AppendUint32(s.frame, crc32.Checksum(s.payload, castagnoli))
	s.frame = append(s.frame, s.payload...)
	s.payload = s.payload[:0]
	_, err := s.w.Write(s.frame)
	return err
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

type segmentReader struct {
	r      *bufio.Reader
	block  []byte
	rest   []byte
	done   bool
	events []record.Event
}

func newSegmentReader(r io.Reader) (*segmentReader, error) {
	s := &segmentReader{r: bufio.NewReaderSize(r, 1<<16)}
	magic := make([]byte, len(segmentMagic))
	if _, err := io.ReadFull(s.r, magic); err != nil {
		return nil, ErrCut
	}
	if string(magic) != segmentMagic {
		return nil, fmt.Errorf("events.seg: unknown format %q", magic)
	}
	return s, nil
}

// next returns the next attempt's id and events, valid until the next call;
// io.EOF at the end, ErrCut at a damaged block.
func (s *segmentReader) next() (id []byte, events []record.Event, err error) {
	if len(s.rest) == 0 {
		if err := s.readBlock(); err != nil {
			return nil, nil, err
		}
	}
	d := segmentDecoder{b: s.rest}
	id = d.bytes(d.uvarint())
	n := d.uvarint()
	if d.bad || n > uint64(len(d.b)) { // an event takes at least 7 bytes
		return nil, nil, ErrCut
	}
	s.events = s.events[:0]
	var last record.Stamp
	for range n {
		var e record.Event
		e.At = last + record.Stamp(d.varint())
		e.Read = e.At + record.Stamp(d.varint())
		e.Tokens = int32(d.varint())
		e.TextBytes = int32(d.uvarint())
		e.AnswerBytes = int32(d.uvarint())
		e.WireBytes = int32(d.uvarint())
		e.Flags = record.EventFlags(d.uvarint())
		last = e.At
		s.events = append(s.events, e)
	}
	if d.bad {
		return nil, nil, ErrCut
	}
	s.rest = d.b
	return id, s.events, nil
}

func (s *segmentReader) readBlock() error {
	var head [8]byte
	if _, err := io.ReadFull(s.r, head[:]); err != nil {
		if err == io.EOF {
			return io.EOF
		}
		return ErrCut
	}
	n, sum := binary.LittleEndian.Uint32(head[:]), binary.LittleEndian.Uint32(head[4:])
	if n == 0 || n > maxBlock {
		return ErrCut
	}
	// Copied, not allocated at the length's word: a damaged length costs nothing.
	var buf = bytes.NewBuffer(s.block[:0])
	if m, err := io.CopyN(buf, s.r, int64(n)); err != nil || m != int64(n) {
		return ErrCut
	}
	s.block = buf.Bytes()
	if crc32.Checksum(s.block, castagnoli) != sum {
		return ErrCut
	}
	s.rest = s.block
	return nil
}

// segmentDecoder takes varints off a payload; bad is set, and stays, when it
// runs out.
type segmentDecoder struct {
	b   []byte
	bad bool
}

func (d *segmentDecoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.bad = true
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *segmentDecoder) varint() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.bad = true
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *segmentDecoder) bytes(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.bad = true
		return nil
	}
	b := d.b[:n]
	d.b = d.b[n:]
	return b
}

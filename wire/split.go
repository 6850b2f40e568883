package wire

import "bytes"

// keepBuffer is how much of a buffer outlives the body that grew it, in bytes.
const keepBuffer = 64 << 10

// splitter is the state between two pieces of content.
type splitter struct {
	carry   []byte // an incomplete line
	skipLF  bool   // the last byte was a CR that ended a line
	started bool   // the first line is behind us
	lineEnd int64  // wire position after the last complete line

	// The event that is being built. A held value points into the bytes of the
	// current feed; it is copied only if the event outlives them.
	hasData, bare      bool
	heldData, heldName []byte
	data, name         []byte // copies
	hasName            bool
}

// reset forgets everything but the buffers.
func (s *splitter) reset() {
	*s = splitter{carry: recycle(s.carry), data: recycle(s.data), name: recycle(s.name)}
}

func recycle(b []byte) []byte {
	if cap(b) > keepBuffer {
		return nil
	}
	return b[:0]
}

// content splits one piece of content, which starts at wire position d.wire.
func (d *Decoder) content(p []byte) {
	d.body += int64(len(p))
	if d.framing == Whole {
		if len(d.split.data)+len(p) > d.limit {
			d.fail(ErrTooLarge)
		} else {
			d.split.data = append(d.split.data, p...)
		}
	} else {
		d.lines(p)
	}
	d.wire += int64(len(p))
}

// lines cuts p into lines. Every byte is looked at once for LF and once for CR,
// however the two are mixed.
func (d *Decoder) lines(p []byte) {
	s := &d.split
	lf := -1 // position of the next LF; len(p) if there is none
	for off := 0; off < len(p) && d.err == nil; {
		if s.skipLF {
			s.skipLF = false
			if p[off] == '\n' {
				off++
				s.lineEnd = d.wire + int64(off)
				continue
			}
		}
		if lf < off {
			if i := bytes.IndexByte(p[off:], '\n'); i >= 0 {
				lf = off + i
			} else {
				lf = len(p)
			}
		}
		end := lf
		if i := bytes.IndexByte(p[off:lf], '\r'); i >= 0 {
			end, s.skipLF = off+i, true
		}
		if end == len(p) {
			d.partial(p[off:])
			return
		}
		d.endLine(p[off:end], d.wire+int64(end)+1)
		off = end + 1
	}
}

// partial keeps the start of a line for the next piece.
func (d *Decoder) partial(p []byte) {
	d.flush(true)
	s := &d.split
	if len(s.carry)+s.size()+len(p) > d.limit {
		d.fail(ErrTooLarge)
		return
	}
	s.carry = append(s.carry, p...)
}

// size is how much data the event that is being built has so far.
func (s *splitter) size() int {
	if s.heldData != nil {
		return len(s.heldData)
	}
	if !s.hasData {
		return 0
	}
	return len(s.data)
}

// endLine completes a line with its last bytes; end is the wire position after
// its line end.
func (d *Decoder) endLine(line []byte, end int64) {
	s := &d.split
	owned := len(s.carry) > 0
	if owned {
		s.carry = append(s.carry, line...)
		line = s.carry
		// The content stays until the next append, which flushes first.
		s.carry = s.carry[:0]
	}
	if !s.started {
		s.started = true
		line = bytes.TrimPrefix(line, []byte("\xEF\xBB\xBF"))
	}
	if len(line)+s.size() > d.limit {
		d.fail(ErrTooLarge)
		return
	}
	if d.framing == NDJSON {
		d.jsonLine(line, end)
	} else {
		d.sseLine(line, owned, end)
	}
	s.lineEnd = end
}

func (d *Decoder) jsonLine(line []byte, end int64) {
	if len(bytes.TrimSpace(line)) == 0 {
		return
	}
	d.flush(true)
	d.complete(nil, line, end)
}

func (d *Decoder) sseLine(line []byte, owned bool, end int64) {
	s := &d.split
	if len(line) == 0 {
		d.dispatch(end)
		return
	}
	d.flush(true)
	if value, ok := field(line, "data"); ok {
		d.endBare()
		s.addData(value, owned)
		return
	}
	if value, ok := field(line, "event"); ok {
		d.endBare()
		s.setName(value, owned)
		return
	}
	switch {
	case s.bare:
		s.addData(line, owned)
		if line[0] == '}' {
			d.dispatch(end)
		}
	case line[0] == '{' && !s.hasData && !s.hasName:
		s.bare = true
		s.addData(line, owned)
		if trimmed := bytes.TrimRight(line, " \t"); trimmed[len(trimmed)-1] == '}' {
			d.dispatch(end)
		}
	}
	// Anything else is a comment, an id, a retry time or an unknown field.
}

// endBare ends bare JSON that a proper field has interrupted.
func (d *Decoder) endBare() {
	if !d.split.bare {
		return
	}
	d.dispatch(d.split.lineEnd)
	d.flush(true)
}

// field returns the value of a line "name:value", "name: value" or "name".
func field(line []byte, name string) (value []byte, ok bool) {
	if len(line) < len(name) || string(line[:len(name)]) != name {
		return nil, false
	}
	value = line[len(name):]
	switch {
	case len(value) == 0:
		return value, true
	case value[0] != ':':
		return nil, false
	case len(value) > 1 && value[1] == ' ':
		return value[2:], true
	}
	return value[1:], true
}

// addData adds a line to the data. Owned says that it lies in the carry buffer,
// which will be overwritten.
func (s *splitter) addData(value []byte, owned bool) {
	if !s.hasData && !owned {
		s.hasData, s.heldData = true, value
		return
	}
	s.settleData()
	if s.hasData {
		s.data = append(s.data, '\n')
	} else {
		s.data = s.data[:0]
	}
	s.hasData = true
	s.data = append(s.data, value...)
}

func (s *splitter) setName(value []byte, owned bool) {
	s.hasName, s.heldName = true, value
	if owned {
		s.name = append(s.name[:0], value...)
		s.heldName = nil
	}
}

func (s *splitter) settleData() {
	if s.heldData != nil {
		s.data = append(s.data[:0], s.heldData...)
		s.heldData = nil
	}
}

// settle copies what would outlive the bytes of this feed.
func (d *Decoder) settle() {
	s := &d.split
	s.settleData()
	if s.heldName != nil {
		s.name = append(s.name[:0], s.heldName...)
		s.heldName = nil
	}
}

// dispatch completes the event that is being built, if it has data.
func (d *Decoder) dispatch(end int64) {
	s := &d.split
	if s.hasData {
		data, name := s.heldData, s.heldName
		if data == nil {
			data = s.data
		}
		if name == nil && s.hasName {
			name = s.name
		}
		if len(name) == 0 {
			name = nil
		}
		d.complete(name, data, end)
	}
	s.hasData, s.hasName, s.bare = false, false, false
	s.heldData, s.heldName = nil, nil
}

// finish gives what the end of the body completes. Clean says that the body
// was not cut short.
func (d *Decoder) finish(clean bool) {
	s := &d.split
	if d.framing == Whole {
		d.complete(nil, s.data, d.wire)
		return
	}
	if clean && len(s.carry) > 0 {
		d.endLine(nil, d.wire)
	}
	if d.err == nil && d.framing == SSE && (clean || len(s.carry) == 0) {
		d.dispatch(d.wire)
	}
}

package dataset

import (
	"bytes"
	"errors"
	"strconv"
	"unicode/utf8"
)

// setter puts values into fields of a row. It is what all containers share.
type setter struct {
	time   clock
	delay  clock
	strict bool
	block  int
	model  last
	client last
}

// last keeps a string for values that repeat.
type last string

func (l *last) keep(v []byte) string {
	if string(v) != string(*l) {
		*l = last(v)
	}
	return string(*l)
}

func newSetter(s shape, o Options) *setter {
	set := &setter{strict: s.strict, block: s.block}
	set.time.known(o.Unit, FromUser)
	if o.Columns == nil {
		set.time.known(s.unit, FromFormat)
		set.delay.known(s.unit, FromFormat)
	}
	if o.BlockSize > 0 {
		set.block = o.BlockSize
	}
	return set
}

// columns learns units from the names of columns.
func (s *setter) columns(cols []columnOf) {
	for _, c := range cols {
		_, unit := unitOfName(normal(c.name))
		if normal(c.name) == "arrived_at" {
			unit = Seconds // Vidur's
		}
		switch c.field {
		case FieldTime:
			s.time.known(unit, FromName)
		case FieldDelay:
			s.delay.known(unit, FromName)
		}
	}
}

// text sets a field to a value that is written as text.
func (s *setter) text(row *Row, f Field, v []byte) error {
	var err error
	switch f {
	case FieldPrompt, FieldReply, FieldSystem:
	default:
		// "812, 97": what is no text has no spaces around it.
		if n := len(v); n > 0 && (v[0] <= ' ' || v[n-1] <= ' ') {
			v = bytes.TrimSpace(v)
		}
	}
	switch f {
	case FieldTime:
		if isNone(v) {
			if s.strict {
				return errEmpty
			}
			return nil
		}
		row.stamp, err = s.time.parse(v)
		row.Timed = err == nil
	case FieldPromptTokens:
		row.PromptTokens, err = s.count(v)
	case FieldOutputTokens:
		row.OutputTokens, err = s.count(v)
	case FieldPrompt, FieldReply, FieldSystem:
		if !utf8.Valid(v) {
			return errUTF8
		}
		*row.said(f) = string(v)
	case FieldID:
		row.ID = string(v)
	case FieldParent:
		if string(v) != "-1" {
			row.Parent = string(v)
		}
	case FieldSession:
		if !isNone(v) {
			row.SessionID = string(v)
		}
	case FieldTurn:
		row.Turn, err = parseCount(v)
		row.Turn = max(row.Turn, 0)
	case FieldDelay:
		err = s.setDelay(row, v)
	case FieldHashScope:
		switch string(v) {
		case "local":
			row.HashScope = Local
		case "global", "":
		default:
			err = errors.New("is neither local nor global")
		}
	case FieldBlockSize:
		row.BlockSize, err = parseCount(v)
		row.BlockSize = max(row.BlockSize, 0)
	case FieldModel:
		row.Model = s.model.keep(v)
	case FieldClient:
		row.Client = s.client.keep(v)
	case FieldImages:
		row.Images, err = parseCount(v)
		row.Images = max(row.Images, 0)
	case FieldStatus:
		var status int
		status, err = parseCount(v)
		row.Failed = row.Failed || status >= 400
	case FieldFailed:
		var failed bool
		if !isNone(v) {
			failed, err = strconv.ParseBool(string(v))
		}
		row.Failed = row.Failed || failed
	default:
		err = s.structured(row, f, v)
	}
	return err
}

// said is the text of a field; nil if that is none.
func (r *Row) said(f Field) *string {
	switch f {
	case FieldPrompt:
		return &r.Text
	case FieldReply:
		return &r.Reply
	case FieldSystem:
		return &r.System
	}
	return nil
}

func (s *setter) count(v []byte) (int, error) {
	if s.strict && isNone(v) {
		return Unknown, errEmpty
	}
	return parseCount(v)
}

// setDelay reads a delay. Without a unit of its own it has that of the stamps,
// or of seconds where these are dates.
func (s *setter) setDelay(row *Row, v []byte) error {
	if isNone(v) {
		return nil
	}
	unit := s.delay.unit.ns()
	if unit == 0 {
		unit = s.time.unit.ns()
	}
	if unit == 0 {
		unit = Seconds.ns()
	}
	ns, err := parseDecimal(v, unit)
	if err == nil && ns < 0 {
		err = errRange
	}
	row.Delay = duration(ns)
	return err
}

// structured sets the fields that are JSON, also where a CSV or Parquet has them
// as text.
func (s *setter) structured(row *Row, f Field, v []byte) error {
	if isNone(v) {
		return nil
	}
	end, ok := skipValue(v, skipSpace(v, 0), 0)
	if !ok || skipSpace(v, end) != len(v) {
		return errJSON
	}
	return s.json(row, f, v)
}

// json sets a field to a value that is JSON and has been scanned.
func (s *setter) json(row *Row, f Field, v []byte) error {
	var err error
	switch f {
	case FieldHashIDs:
		row.HashIDs, err = parseInts(row.HashIDs[:0], v)
		return err
	case FieldMessages:
		row.Messages, err = parseMessages(row.Messages[:0], v)
		return err
	case FieldBody:
		return setBody(row, v)
	case FieldPrompt:
		if v[0] == '-' || v[0] >= '0' && v[0] <= '9' {
			// Some call the number of tokens a prompt or an input.
			f = FieldPromptTokens
		}
	case FieldReply:
		if v[0] == '-' || v[0] >= '0' && v[0] <= '9' {
			f = FieldOutputTokens
		}
	}
	if said := row.said(f); said != nil && v[0] == '"' {
		// Texts may be long: they are copied once.
		if !utf8.Valid(v) {
			return errUTF8
		}
		*said = unquote(v)
		return nil
	}
	text, ok := bare(v)
	if !ok {
		return errors.New("is no text or number")
	}
	return s.text(row, f, text)
}

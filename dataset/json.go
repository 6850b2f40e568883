package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// jsonSource reads rows of JSON lines, of an array, or of objects one after the
// other.
type jsonSource struct {
	in     *input
	lines  bool // one object a line: a broken one costs no other
	format Format
	keys   map[string]columnOf
	paths  []pathColumn // keys within objects
	set    *setter
	extra  bool
	turns  *turnQueue // of records that are conversations
	roots  roots
}

// pathColumn is a column named a.b.c.
type pathColumn struct {
	path []string
	col  columnOf
}

func newJSON(in *input, sn sniff, set *setter, o Options, format Format) (*jsonSource, error) {
	s := &jsonSource{in: in, format: format, set: set, extra: o.KeepExtra, keys: map[string]columnOf{}, turns: newTurnQueue(nil)}
	head, err := in.peek(maxSniff)
	if err != nil {
		return nil, err
	}
	trimmed := bytes.TrimLeft(head, " \t\r\n")
	if bytes.HasPrefix(trimmed, []byte("[")) {
		if err := in.skipSpace(); err != nil {
			return nil, err
		}
		in.r++
	} else {
		s.lines = isLines(trimmed)
	}
	if err := s.resolve(sn.names, o.Columns); err != nil {
		return nil, err
	}
	if format == Mooncake && o.Columns == nil && o.Unit == "" {
		return s, mooncakeUnit(sn.names, trimmed)
	}
	return s, nil
}

// isLines reports whether the first line is a whole object, or a beginning that
// can only be one: a file that is laid out over lines has a short first line.
func isLines(head []byte) bool {
	line, _, more := bytes.Cut(head, []byte("\n"))
	if !more {
		return true
	}
	_, ok := skipValue(bytes.TrimRight(line, "\r"), 0, 0)
	if ok {
		return true
	}
	// A broken first row of JSON lines: the second line begins an object too.
	_, rest, _ := bytes.Cut(head, []byte("\n"))
	return len(rest) > 0 && rest[0] == '{'
}

// mooncakeUnit doubts that stamps with fractions are Mooncake's milliseconds,
// unless AIPerf's keys are there, which has such.
func mooncakeUnit(names []string, head []byte) error {
	for _, n := range []string{"session_id", "delay", "text_input", "messages", "payload", "type"} {
		if slices.Contains(names, n) {
			return nil
		}
	}
	for {
		i := bytes.IndexByte(head, '{')
		if i < 0 {
			return nil
		}
		o := objectScanner{b: head, i: i}
		for o.next() {
			if string(o.key) == "timestamp" && hasFraction(o.val) {
				return fmt.Errorf("%w: the columns are Mooncake's, whose stamps are whole milliseconds, but one is %s: say ms or s", ErrUnit, o.val)
			}
		}
		if o.err != nil {
			return nil // the end of what is looked at, or a row that will be found to be broken
		}
		head = head[o.i:]
	}
}

// hasFraction reports whether a number has digits other than 0 behind its point.
func hasFraction(v []byte) bool {
	_, part, _ := bytes.Cut(v, []byte("."))
	return len(bytes.Trim(part, "0")) > 0
}

// resolve says what each key means.
func (s *jsonSource) resolve(names []string, given map[Field]string) error {
	flat := make(map[Field]string, len(given))
	for f, name := range given {
		if strings.Contains(name, ".") && !slices.Contains(names, name) {
			if !knownField(f) {
				return errField(f)
			}
			c := columnOf{field: f, name: name, turn: -1}
			s.paths = append(s.paths, pathColumn{strings.Split(name, "."), c})
			continue
		}
		flat[f] = name
	}
	cols, err := resolve(names, flat)
	if err != nil {
		return err
	}
	cols = slices.DeleteFunc(cols, func(c columnOf) bool {
		return slices.ContainsFunc(s.paths, func(p pathColumn) bool { return p.col.field == c.field })
	})
	if s.format == Columns && len(cols) == 0 && len(s.paths) == 0 {
		return errNames("key", names)
	}
	for _, c := range cols {
		s.keys[c.name] = c
	}
	// What the formats call otherwise than people.
	rename := func(key string, f Field) { s.keys[key] = columnOf{field: f, name: key, turn: -1} }
	switch s.format {
	case Mooncake:
		for key, f := range map[string]Field{
			"timestamp": FieldTime, "input_length": FieldPromptTokens, "output_length": FieldOutputTokens,
			"hash_ids": FieldHashIDs, "text_input": FieldPrompt, "messages": FieldMessages, "payload": FieldBody,
			"session_id": FieldSession, "delay": FieldDelay, "model": FieldModel,
		} {
			rename(key, f)
		}
	case Bailian:
		for key, f := range map[string]Field{
			"chat_id": FieldID, "parent_chat_id": FieldParent, "timestamp": FieldTime, "input_length": FieldPromptTokens,
			"output_length": FieldOutputTokens, "turn": FieldTurn, "hash_ids": FieldHashIDs,
		} {
			rename(key, f)
		}
	}
	s.set.columns(cols)
	turns := slices.DeleteFunc(cols, func(c columnOf) bool { return c.turn < 0 })
	if len(turns) > 0 && s.format == Columns {
		s.turns = newTurnQueue(turns)
	}
	return nil
}

func (s *jsonSource) next(row *Row) error {
	if s.turns.pop(row) {
		return nil
	}
	raw, line, err := s.read()
	row.Line = line
	if err != nil {
		return err
	}
	s.turns.start()
	switch s.format {
	case ShareGPT:
		err = s.shareGPT(row, raw)
	case MultiTurn:
		err = s.multiTurn(row, raw)
	case SingleTurn:
		return placed(raw, s.singleTurn(row, raw))
	case Weka:
		err = s.weka(row, raw)
	case Bodies:
		if raw[0] == '"' {
			return errObject
		}
		return setBody(row, raw)
	default:
		return s.flat(row, raw)
	}
	if err != nil {
		s.turns.start()
		return placed(raw, err)
	}
	if !s.turns.pop(row) {
		return errNoRow
	}
	return nil
}

// read is the next record.
func (s *jsonSource) read() ([]byte, int64, error) {
	if !s.lines {
		return s.in.readValue()
	}
	for {
		b, line, err := s.in.readLine()
		if err != nil || skipSpace(b, 0) < len(b) {
			return b, line, err
		}
	}
}

// flat reads a record whose members are columns.
func (s *jsonSource) flat(row *Row, raw []byte) error {
	o := objectScanner{b: raw}
	many := false
	for o.next() {
		c, ok := s.keys[string(o.key)]
		if !ok {
			if s.extra {
				row.Extra = append(row.Extra, Column{string(o.key), string(o.val)})
			}
			if len(s.paths) > 0 {
				if err := s.inside(row, o.key, o.val, 0, o.at); err != nil {
					return err
				}
			}
			continue
		}
		if c.turn >= 0 && s.format == Columns {
			many = true
			continue
		}
		if err := s.set.json(row, c.field, o.val); err != nil {
			return within(c.name, o.val, o.at, err)
		}
	}
	if err := o.scanWhole(); err != nil {
		return err
	}
	switch {
	case s.format == Bailian:
		row.SessionID = s.roots.of(row.ID, row.Parent)
	case many:
		return s.flatTurns(row, raw)
	case s.format == Columns && isWhole(row.Messages):
		s.turns.conversation(row)
		if !s.turns.pop(row) {
			return errNoRow
		}
	}
	return nil
}

// inside looks for the paths that lead through a member.
func (s *jsonSource) inside(row *Row, key, val []byte, depth, at int) error {
	for _, p := range s.paths {
		if depth >= len(p.path) || p.path[depth] != string(key) {
			continue
		}
		if depth == len(p.path)-1 {
			if err := s.set.json(row, p.col.field, val); err != nil {
				return &fieldError{column: p.col.name, value: val, col: at + 1, err: err}
			}
			continue
		}
		if val[0] != '{' {
			continue
		}
		o := objectScanner{b: val}
		for o.next() {
			if p.path[depth+1] != string(o.key) {
				continue
			}
			one := jsonSource{set: s.set, paths: []pathColumn{p}}
			if err := one.inside(row, o.key, o.val, depth+1, at+o.at); err != nil {
				return err
			}
		}
	}
	return nil
}

// flatTurns makes rows of prompt_0, prompt_1 …
func (s *jsonSource) flatTurns(row *Row, raw []byte) error {
	type member struct {
		val []byte
		at  int
	}
	vals := make(map[string]member)
	o := objectScanner{b: raw}
	for o.next() {
		vals[string(o.key)] = member{o.val, o.at}
	}
	err := s.turns.push(row, func(row *Row, c columnOf) error {
		m, ok := vals[c.name]
		if !ok {
			return nil
		}
		if err := s.set.json(row, c.field, m.val); err != nil {
			return &fieldError{column: c.name, value: m.val, col: m.at + 1, err: err}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if !s.turns.pop(row) {
		return errNoRow
	}
	return nil
}

// roots finds the first chat of each conversation. It forgets the oldest when it
// has seen too many: their later turns begin a session of their own.
type roots struct {
	now, before generation
}

// generation has the number of the first chat of each, by hashes of their ids: a
// million of them are held.
type generation struct {
	root  map[uint64]uint32
	names []string
}

const maxRoots = 1 << 20

func (g *generation) find(id uint64) (string, bool) {
	n, ok := g.root[id]
	if !ok {
		return "", false
	}
	return g.names[n], true
}

// name is the number of a root, which is new unless its own chat is known.
func (g *generation) name(root string) uint32 {
	if n, ok := g.root[mix(hashString(root))]; ok && g.names[n] == root {
		return n
	}
	g.names = append(g.names, root)
	return uint32(len(g.names) - 1)
}

func (r *roots) of(id, parent string) string {
	root := id
	if parent != "" {
		h := mix(hashString(parent))
		var ok bool
		if root, ok = r.now.find(h); !ok {
			if root, ok = r.before.find(h); !ok {
				root = parent
			}
		}
	}
	if id == "" {
		return root
	}
	if len(r.now.root) >= maxRoots {
		r.now, r.before = generation{}, r.now
	}
	if r.now.root == nil {
		r.now.root = make(map[uint64]uint32)
	}
	r.now.root[mix(hashString(id))] = r.now.name(root)
	return root
}

var errObject = errors.New("is not an object")

// sessionName is the id of a conversation, or its line.
func sessionName(id string, line int64) string {
	if id != "" {
		return id
	}
	return "row " + strconv.FormatInt(line, 10)
}

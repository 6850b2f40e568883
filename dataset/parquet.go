//go:build parquet

package dataset

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"
)

// parquetSource reads rows of a Parquet file, column by column: only those that
// mean something, a page of each at a time.
type parquetSource struct {
	file  *parquet.File
	set   *setter
	group int // of rows, being read
	left  int64
	row   int64
	cols  []*cursor
	chats []*cursor // of cols: what messages are made of
	turns *turnQueue
	multi bool // prompt_0, prompt_1 …
}

// part of a message that a cursor reads.
type part uint8

const (
	noPart part = iota
	rolePart
	contentPart
)

// cursor goes over the values of one column.
type cursor struct {
	col    columnOf
	leaf   int
	path   string
	extra  bool
	list   bool // may have several values a row
	part   part
	unit   int64 // ns, of a column whose type is a time; 0 if not
	scale  int   // digits behind the point of a decimal; -1 if it is none
	pages  parquet.Pages
	page   parquet.Page
	values parquet.ValueReader
	buf    []parquet.Value
	i, n   int
	row    []parquet.Value // of a list
}

// pageValues are read at a time.
const pageValues = 1024

// sized is what a Parquet file must be.
type sized interface {
	io.ReaderAt
	io.Seeker
}

func newParquet(rd io.Reader, set *setter, o Options) (s *parquetSource, err error) {
	// The library panics on some broken files.
	defer recovered(&err)
	file, ok := rd.(sized)
	if !ok {
		return nil, errors.New("a Parquet file must be a file: it cannot be read from a pipe")
	}
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, fmt.Errorf("finding the size of the file: %w", err)
	}
	f, err := parquet.OpenFile(file, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, fmt.Errorf("not a Parquet file, or a packed one (unpack it first): %w", err)
	}
	s = &parquetSource{file: f, set: set, group: -1, turns: newTurnQueue(nil)}
	if err := s.resolve(o); err != nil {
		return nil, err
	}
	return s, nil
}

// recovered turns a panic of the library into an error that ends the reading.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fatalError{fmt.Errorf("broken Parquet: %v", p)}
	}
}

// leaves are the columns of a file in its order.
func leaves(c *parquet.Column, dst []*parquet.Column) []*parquet.Column {
	if c.Leaf() {
		return append(dst, c)
	}
	for _, child := range c.Columns() {
		dst = leaves(child, dst)
	}
	return dst
}

func (s *parquetSource) resolve(o Options) error {
	all := leaves(s.file.Root(), nil)
	// A list is known by the name before .list.element.
	names := make([]string, len(all))
	for i, c := range all {
		p := c.Path()
		names[i] = strings.Join(p, ".")
		if len(p) > 1 && c.MaxRepetitionLevel() == 1 && !isChat(p) && !ofList(p, all) {
			names[i] = p[0]
		}
	}
	cols, err := resolve(names, o.Columns)
	if err != nil {
		return err
	}
	meaning := make([]*columnOf, len(all))
	for i := range cols {
		meaning[cols[i].index] = &cols[i]
		s.multi = s.multi || cols[i].turn >= 0
	}
	for i, c := range all {
		cur := &cursor{leaf: c.Index(), path: names[i], list: c.MaxRepetitionLevel() > 0, unit: timeUnit(c.Type()), scale: decimals(c.Type())}
		p := c.Path()
		switch {
		case meaning[i] != nil && c.MaxRepetitionLevel() <= 1:
			cur.col = *meaning[i]
			if cur.col.field == FieldTime && cur.unit != 0 {
				s.set.time.known(Nanoseconds, FromType)
			}
		case isChat(p) && c.MaxRepetitionLevel() == 1 && meaning[i] == nil:
			cur.part = rolePart
			if last := p[len(p)-1]; last == "content" || last == "value" {
				cur.part = contentPart
			}
			s.chats = append(s.chats, cur)
		case o.KeepExtra && !cur.list:
			cur.extra = true
		default:
			continue
		}
		if err := s.readable(cur); err != nil {
			return err
		}
		cur.buf = make([]parquet.Value, pageValues)
		s.cols = append(s.cols, cur)
	}
	known := len(cols) + len(s.chats)
	if known == 0 {
		return errNames("column", names)
	}
	if s.multi {
		s.turns = newTurnQueue(cols)
	}
	s.set.columns(cols)
	return nil
}

// ofList reports whether a path is of a list whose elements have several columns: it
// is one of them, and not the list.
func ofList(p []string, all []*parquet.Column) bool {
	n := 0
	for _, c := range all {
		if c.Path()[0] == p[0] {
			n++
		}
	}
	return n > 1
}

// readable refuses what the library reads wrongly: of LZ4 pages that are packed to
// more than a third it returns what was in its buffer before.
func (s *parquetSource) readable(c *cursor) error {
	for _, g := range s.file.Metadata().RowGroups {
		if c.leaf < len(g.Columns) && g.Columns[c.leaf].MetaData.Codec == format.Lz4Raw {
			return fmt.Errorf("column %s is packed by LZ4, which is not read: write the file with snappy, gzip, zstd or none", c.path)
		}
	}
	return nil
}

// isChat reports whether a path is of messages: conversation.list.element.role.
func isChat(p []string) bool {
	if len(p) < 2 {
		return false
	}
	switch normal(p[0]) {
	case "conversation", "conversations", "messages":
	default:
		return false
	}
	switch p[len(p)-1] {
	case "role", "from", "content", "value":
		return true
	}
	return false
}

// timeUnit is the unit of a column whose type is a timestamp.
func timeUnit(t parquet.Type) int64 {
	if l := t.LogicalType(); l != nil {
		if _, ok := l.Value.(*format.DateType); ok {
			return int64(24 * time.Hour)
		}
		if ts, ok := l.Value.(*format.TimestampType); ok {
			switch ts.Unit.Value.(type) {
			case *format.MilliSeconds:
				return Milliseconds.ns()
			case *format.MicroSeconds:
				return Microseconds.ns()
			case *format.NanoSeconds:
				return Nanoseconds.ns()
			}
		}
	}
	if c := t.ConvertedType(); c != nil {
		switch *c {
		case deprecated.Date:
			return int64(24 * time.Hour)
		case deprecated.TimestampMillis:
			return Milliseconds.ns()
		case deprecated.TimestampMicros:
			return Microseconds.ns()
		}
	}
	if t.Kind() == parquet.Int96 {
		return Nanoseconds.ns()
	}
	return 0
}

// decimals are the digits behind the point of a type that is a decimal; -1 if it is none.
func decimals(t parquet.Type) int {
	if l := t.LogicalType(); l != nil {
		if d, ok := l.Value.(*format.DecimalType); ok {
			return int(d.Scale)
		}
	}
	return -1
}

// decimalText writes a decimal, whose digits are a whole number of any width.
func decimalText(v parquet.Value, scale int) string {
	var n big.Int
	switch v.Kind() {
	case parquet.Int32, parquet.Int64:
		n.SetInt64(v.Int64())
	default:
		b := v.ByteArray()
		n.SetBytes(b)
		if len(b) > 0 && b[0] >= 0x80 {
			n.Sub(&n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
		}
	}
	digits := n.Text(10)
	sign := ""
	if digits[0] == '-' {
		sign, digits = "-", digits[1:]
	}
	if pad := scale + 1 - len(digits); pad > 0 {
		digits = strings.Repeat("0", pad) + digits
	}
	if scale <= 0 {
		return sign + digits
	}
	return sign + digits[:len(digits)-scale] + "." + digits[len(digits)-scale:]
}

func (s *parquetSource) next(row *Row) (err error) {
	defer recovered(&err)
	if s.turns.pop(row) {
		return nil
	}
	for s.left == 0 {
		if err := s.nextGroup(); err != nil {
			return err
		}
	}
	s.left--
	s.row++
	row.Line = s.row
	var bad error
	for _, c := range s.cols {
		v, err := c.next()
		if err != nil {
			return fatalError{fmt.Errorf("column %s: %w", c.path, err)}
		}
		// All columns go on by one row, also where one is wrong.
		if bad == nil && !s.multi {
			bad = s.put(row, c, v)
		}
	}
	if bad != nil {
		return bad
	}
	if s.multi {
		return s.nextTurns(row)
	}
	if len(s.chats) > 0 {
		return s.chat(row)
	}
	if isWhole(row.Messages) {
		s.turns.conversation(row)
		return s.popped(row)
	}
	return nil
}

func (s *parquetSource) popped(row *Row) error {
	if !s.turns.pop(row) {
		return errNoRow
	}
	return nil
}

func (s *parquetSource) nextTurns(row *Row) error {
	byIndex := make(map[string]*cursor, len(s.cols))
	for _, c := range s.cols {
		byIndex[c.col.name] = c
	}
	err := s.turns.push(row, func(r *Row, col columnOf) error {
		c := byIndex[col.name]
		v := c.row
		if !c.list {
			v = c.buf[c.i-1 : c.i]
		}
		return s.put(r, c, v)
	})
	if err != nil {
		return err
	}
	return s.popped(row)
}

// nextGroup goes to the next group of rows.
func (s *parquetSource) nextGroup() error {
	s.group++
	groups := s.file.RowGroups()
	if s.group >= len(groups) {
		s.close()
		return io.EOF
	}
	g := groups[s.group]
	s.left = g.NumRows()
	chunks := g.ColumnChunks()
	for _, c := range s.cols {
		c.close()
		if c.leaf >= len(chunks) {
			return fatalError{fmt.Errorf("column %s is not in group %d", c.path, s.group)}
		}
		c.pages = chunks[c.leaf].Pages()
	}
	return nil
}

func (s *parquetSource) close() {
	for _, c := range s.cols {
		c.close()
	}
}

func (c *cursor) close() {
	parquet.Release(c.page)
	if c.pages != nil {
		c.pages.Close()
	}
	c.page, c.pages, c.values, c.i, c.n = nil, nil, nil, 0, 0
}

// peek makes sure that there is a value at i. It is false at the end of the
// group.
func (c *cursor) peek() (bool, error) {
	for c.i >= c.n {
		if c.values == nil {
			page, err := c.pages.ReadPage()
			if errors.Is(err, io.EOF) {
				return false, nil
			}
			if err != nil {
				return false, err
			}
			c.page, c.values = page, page.Values()
		}
		n, err := c.values.ReadValues(c.buf)
		c.i, c.n = 0, n
		if err != nil && !errors.Is(err, io.EOF) {
			return false, err
		}
		// The page is released once its last values have been used.
		if n == 0 {
			parquet.Release(c.page)
			c.page, c.values = nil, nil
		}
	}
	return true, nil
}

// next is the values of the next row: one, or those of a list. They are valid
// until the next call.
func (c *cursor) next() ([]parquet.Value, error) {
	ok, err := c.peek()
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, io.ErrUnexpectedEOF
	}
	if !c.list {
		c.i++
		return c.buf[c.i-1 : c.i], nil
	}
	c.row = c.row[:0]
	for first := true; ; first = false {
		ok, err := c.peek()
		if err != nil {
			return nil, err
		}
		if !ok || !first && c.buf[c.i].RepetitionLevel() == 0 {
			return c.row, nil
		}
		// Texts lie in the page, which may be released before the row is whole.
		v := c.buf[c.i]
		if k := v.Kind(); c.part != noPart && !v.IsNull() && (k == parquet.ByteArray || k == parquet.FixedLenByteArray) {
			v = v.Clone()
		}
		c.row = append(c.row, v)
		c.i++
	}
}

// put sets the field of a column to its values.
func (s *parquetSource) put(row *Row, c *cursor, vals []parquet.Value) error {
	if c.part != noPart {
		return nil
	}
	if c.extra {
		if !vals[0].IsNull() {
			row.Extra = append(row.Extra, Column{c.path, vals[0].String()})
		}
		return nil
	}
	if c.list {
		return s.putList(row, c, vals)
	}
	err := s.putValue(row, c, vals[0])
	if err == nil {
		return nil
	}
	value := vals[0].String()
	if c.scale >= 0 {
		value = decimalText(vals[0], c.scale)
	}
	return &fieldError{column: c.col.name, value: []byte(value), err: err}
}

func (s *parquetSource) putList(row *Row, c *cursor, vals []parquet.Value) error {
	for _, v := range vals {
		if v.IsNull() {
			continue
		}
		if c.col.field != FieldHashIDs {
			return &fieldError{column: c.col.name, err: errors.New("is a list")}
		}
		switch v.Kind() {
		case parquet.Int32:
			row.HashIDs = append(row.HashIDs, int64(v.Int32()))
		case parquet.Int64:
			row.HashIDs = append(row.HashIDs, v.Int64())
		default:
			return &fieldError{column: c.col.name, value: []byte(v.String()), err: errors.New("is not a whole number")}
		}
	}
	return nil
}

func (s *parquetSource) putValue(row *Row, c *cursor, v parquet.Value) error {
	if v.IsNull() {
		return nil
	}
	f := c.col.field
	if c.scale >= 0 {
		return s.set.text(row, f, []byte(decimalText(v, c.scale)))
	}
	switch v.Kind() {
	case parquet.ByteArray, parquet.FixedLenByteArray:
		return s.set.text(row, f, v.ByteArray())
	case parquet.Int32:
		return s.putInt(row, c, int64(v.Int32()))
	case parquet.Int64:
		return s.putInt(row, c, v.Int64())
	case parquet.Float:
		return s.putFloat(row, f, float64(v.Float()))
	case parquet.Double:
		return s.putFloat(row, f, v.Double())
	case parquet.Int96:
		if f != FieldTime {
			return errors.New("is a time")
		}
		i := v.Int96()
		row.stamp, row.Timed = (int64(i[2])-2_440_588)*86_400e9+int64(i[1])<<32+int64(i[0]), true
		return nil
	}
	return s.set.text(row, f, []byte(v.String()))
}

func (s *parquetSource) putInt(row *Row, c *cursor, n int64) error {
	switch f := c.col.field; f {
	case FieldTime:
		unit := c.unit
		if unit == 0 {
			if s.set.time.unit == "" {
				if err := s.set.time.guessNumber(n); err != nil {
					return err
				}
			}
			if unit = s.set.time.unit.ns(); unit == 0 {
				return errDate
			}
		}
		if n > math.MaxInt64/unit || n < -math.MaxInt64/unit {
			return errRange
		}
		row.stamp, row.Timed = n*unit, true
	case FieldPromptTokens, FieldPrompt:
		return putCount(&row.PromptTokens, n)
	case FieldOutputTokens, FieldReply:
		return putCount(&row.OutputTokens, n)
	default:
		return s.set.text(row, f, fmt.Append(nil, n))
	}
	return nil
}

func putCount(to *int, n int64) error {
	if n < 0 {
		return errCount
	}
	if n > maxCount {
		return errCountBy
	}
	*to = int(n)
	return nil
}

func (s *parquetSource) putFloat(row *Row, f Field, x float64) error {
	if math.IsNaN(x) {
		return nil
	}
	if f != FieldTime {
		return s.set.text(row, f, fmt.Appendf(nil, "%v", x))
	}
	if s.set.time.unit == "" {
		if !(math.Abs(x) < math.MaxInt64) {
			return errRange
		}
		if err := s.set.time.guessNumber(int64(x)); err != nil {
			return err
		}
	}
	unit := s.set.time.unit.ns()
	if unit == 0 {
		return errDate
	}
	ns, err := floatStamp(x, unit)
	row.stamp, row.Timed = ns, err == nil
	return err
}

// chat makes rows of a conversation whose roles and contents are columns.
func (s *parquetSource) chat(row *Row) error {
	var roles, contents []parquet.Value
	for _, c := range s.chats {
		if c.part == rolePart {
			roles = c.row
		} else {
			contents = c.row
		}
	}
	if len(roles) != len(contents) {
		return fmt.Errorf("has %d roles and %d contents", len(roles), len(contents))
	}
	row.Messages = row.Messages[:0]
	for i, r := range roles {
		if r.IsNull() || contents[i].IsNull() {
			continue
		}
		row.Messages = append(row.Messages, Message{Role: role(string(r.ByteArray())), Content: string(contents[i].ByteArray())})
	}
	if !isWhole(row.Messages) {
		if len(row.Messages) == 0 {
			return errNoRow
		}
		return nil
	}
	s.turns.conversation(row)
	return s.popped(row)
}

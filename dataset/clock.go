package dataset

import (
	"bytes"
	"fmt"
)

// UnitSource is where the unit of the stamps comes from.
type UnitSource string

// From the surest to the least sure.
const (
	FromUser      UnitSource = "as given"
	FromFormat    UnitSource = "by the format"
	FromName      UnitSource = "by the column's name"
	FromType      UnitSource = "by the column's type"
	FromDates     UnitSource = "they are dates"
	FromMagnitude UnitSource = "by the magnitude of epoch stamps"
)

// clock turns the stamps of one column into nanoseconds. Its unit may be open
// until the first stamp is seen.
type clock struct {
	unit Unit
	from UnitSource
	date dateReader
}

// known says the unit unless a surer source has said it.
func (c *clock) known(u Unit, from UnitSource) {
	if c.unit == "" && u != "" {
		c.unit, c.from = u, from
	}
}

func (c *clock) parse(v []byte) (int64, error) {
	if c.unit == "" {
		if err := c.guess(v); err != nil {
			return 0, err
		}
	}
	if c.unit != Date {
		ns, err := parseDecimal(v, c.unit.ns())
		if err != nil && c.from == FromUser && len(v) > 10 && v[4] == '-' {
			return 0, fatalError{fmt.Errorf("is a date; the unit was given as %s", c.unit)}
		}
		return ns, err
	}
	ns, err := c.date.parse(v)
	if err != nil && c.from == FromFormat && isNumber(v) {
		return 0, fatalError{fmt.Errorf("%w: %w, as the format has it", ErrUnit, err)}
	}
	return ns, err
}

// guess finds the unit by a value: a date, or a number that is a time between
// 2000 and 2100 in one unit only.
func (c *clock) guess(v []byte) error {
	if _, err := c.date.parse(v); err == nil {
		c.unit, c.from = Date, FromDates
		return nil
	}
	s, err := parseDecimal(v, 1)
	if err != nil {
		if len(v) >= 8 && bytes.ContainsAny(v[1:], "-/:") {
			return errDate
		}
		return errTime
	}
	return c.guessNumber(s)
}

func (c *clock) guessNumber(n int64) error {
	for _, u := range []Unit{Seconds, Milliseconds, Microseconds, Nanoseconds} {
		second := int64(1e9) / u.ns()
		if n >= 946_684_800*second && n <= 4_102_444_800*second {
			c.unit, c.from = u, FromMagnitude
			return nil
		}
	}
	return fatalError{fmt.Errorf("%w: say whether they are s, ms, us or ns", ErrUnit)}
}

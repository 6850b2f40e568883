package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
)

// maxCount bounds token counts: more is a wrong column.
const maxCount = 1 << 30

var (
	errEmpty   = errors.New("is empty")
	errMissing = errors.New("has no value")
	errCount   = errors.New("is not a whole number of at least 0")
	errCountBy = fmt.Errorf("is more than %d", maxCount)
	errTime    = errors.New("is not a time")
	errDate    = errors.New("is not a date and time (2006-01-02 15:04:05.999999999, with or without zone)")
	errRange   = errors.New("is out of range")
)

// isNone reports whether a value stands for nothing, as pandas and Python write it.
func isNone(v []byte) bool {
	switch len(v) {
	case 0:
		return true
	case 3:
		return bytes.EqualFold(v, []byte("nan"))
	case 4:
		return bytes.EqualFold(v, []byte("null")) || string(v) == "None"
	}
	return false
}

// isNumber reports whether a value is a decimal number.
func isNumber(v []byte) bool {
	_, err := strconv.ParseFloat(string(v), 64)
	return err == nil && !isNone(v)
}

// parseCount reads a count of tokens; "12.0" is 12, "1.2e3" is 1200, and nothing is
// Unknown.
func parseCount(v []byte) (int, error) {
	if isNone(v) {
		return Unknown, nil
	}
	n := 0
	for i, c := range v {
		if c == '.' && i > 0 {
			if len(bytes.Trim(v[i+1:], "0")) > 0 {
				return parseExponent(v)
			}
			return n, nil
		}
		if (c == 'e' || c == 'E') && i > 0 {
			return parseExponent(v)
		}
		if c < '0' || c > '9' {
			return 0, errCount
		}
		n = n*10 + int(c-'0')
		if n > maxCount {
			return 0, errCountBy
		}
	}
	return n, nil
}

// parseExponent is parseCount for numbers with an exponent.
func parseExponent(v []byte) (int, error) {
	x, err := strconv.ParseFloat(string(v), 64)
	switch {
	case err != nil || x < 0 || x != math.Trunc(x) || !bytes.ContainsAny(v, "eE"):
		return 0, errCount
	case x > maxCount:
		return 0, errCountBy
	}
	return int(x), nil
}

// parseInt reads a whole number of 64 bits; ids above the signed range wrap.
func parseInt(v []byte) (int64, error) {
	neg := len(v) > 1 && v[0] == '-'
	digits := v
	if neg {
		digits = v[1:]
	}
	if len(digits) == 0 || len(digits) > 20 {
		return 0, errors.New("is not a whole number")
	}
	if len(digits) > 18 {
		if u, err := strconv.ParseUint(string(v), 10, 64); err == nil {
			return int64(u), nil
		}
		n, err := strconv.ParseInt(string(v), 10, 64)
		if err != nil {
			return 0, errors.New("is not a whole number of 64 bits")
		}
		return n, nil
	}
	var n int64
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, errors.New("is not a whole number")
		}
		n = n*10 + int64(c-'0')
	}
	if neg {
		n = -n
	}
	return n, nil
}

// parseDecimal reads a number of units of so many nanoseconds, exactly: stamps
// of epoch seconds keep every digit. Digits below the nanosecond are cut.
func parseDecimal(v []byte, unit int64) (int64, error) {
	digits := v
	neg := len(v) > 1 && v[0] == '-'
	if neg {
		digits = v[1:]
	}
	var whole, part int64
	scale := unit // of the digit before
	seen, point := false, false
	for _, c := range digits {
		switch {
		case c == '.' && !point:
			point = true
		case c == 'e' || c == 'E' || c == '+':
			return parseFloat(v, unit)
		case c < '0' || c > '9':
			return 0, errTime
		case !point:
			seen = true
			if whole > (math.MaxInt64/unit-9)/10 {
				return 0, errRange
			}
			whole = whole*10 + int64(c-'0')
		default:
			seen = true
			scale /= 10
			part += int64(c-'0') * scale
		}
	}
	if !seen {
		return 0, errTime
	}
	ns := whole*unit + part
	if ns < 0 {
		return 0, errRange
	}
	if neg {
		ns = -ns
	}
	return ns, nil
}

// parseFloat is parseDecimal for numbers with an exponent.
func parseFloat(v []byte, unit int64) (int64, error) {
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil {
		return 0, errTime
	}
	return floatStamp(f, unit)
}

func floatStamp(f float64, unit int64) (int64, error) {
	// Whole and part apart: the product alone would round epoch seconds to 256 ns.
	whole, part := math.Modf(f)
	if !(math.Abs(whole) < float64(math.MaxInt64/unit-1)) {
		return 0, errRange
	}
	return int64(whole)*unit + int64(math.Round(part*float64(unit))), nil
}

// dateReader reads dates. It keeps the day of the last one.
type dateReader struct {
	day  [10]byte
	base int64 // ns of that day since 1970
}

// parse reads 2023-11-16 18:17:03.9799600, with T or a space in the middle, any
// number of fractional digits (below the nanosecond they are cut), and no zone
// (UTC), Z, UTC, +00:00 or +0000.
func (d *dateReader) parse(v []byte) (int64, error) {
	if len(v) < 19 || (v[10] != ' ' && v[10] != 'T' && v[10] != 't') || v[13] != ':' || v[16] != ':' {
		return 0, errDate
	}
	if [10]byte(v[:10]) != d.day || d.base == 0 {
		t, err := time.Parse(time.DateOnly, string(v[:10]))
		if err != nil {
			return 0, errDate
		}
		if t.Year() < 1970 || t.Year() > 2200 {
			return 0, errRange
		}
		d.day, d.base = [10]byte(v[:10]), t.UnixNano()
	}
	h, ok1 := two(v[11:])
	m, ok2 := two(v[14:])
	s, ok3 := two(v[17:])
	if !ok1 || !ok2 || !ok3 || h > 23 || m > 59 || s > 60 {
		return 0, errDate
	}
	ns := d.base + (h*3600+m*60+s)*1e9
	rest := v[19:]
	if len(rest) > 0 && rest[0] == '.' {
		i := 1
		for scale := int64(1e8); i < len(rest) && rest[i] >= '0' && rest[i] <= '9'; i++ {
			ns += int64(rest[i]-'0') * scale
			scale /= 10
		}
		if i == 1 {
			return 0, errDate
		}
		rest = rest[i:]
	}
	offset, ok := zone(rest)
	if !ok {
		return 0, errDate
	}
	return ns - offset, nil
}

// zone is the offset of a zone as dates end in it.
func zone(v []byte) (int64, bool) {
	switch string(v) {
	case "", "Z", "z", "+00:00", " UTC", " +0000 UTC":
		return 0, true
	}
	v = bytes.TrimPrefix(v, []byte(" "))
	if len(v) != 5 && len(v) != 6 || v[0] != '+' && v[0] != '-' || len(v) == 6 && v[3] != ':' {
		return 0, false
	}
	h, ok1 := two(v[1:])
	m, ok2 := two(v[len(v)-2:])
	if !ok1 || !ok2 || h > 23 || m > 59 {
		return 0, false
	}
	off := (h*3600 + m*60) * 1e9
	if v[0] == '-' {
		off = -off
	}
	return off, true
}

func two(v []byte) (int64, bool) {
	if v[0] < '0' || v[0] > '9' || v[1] < '0' || v[1] > '9' {
		return 0, false
	}
	return int64(v[0]-'0')*10 + int64(v[1]-'0'), true
}

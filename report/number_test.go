package report

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestNumber(t *testing.T) {
	for _, c := range []struct {
		x    float64
		want string
	}{
		{0, "0"}, {1, "1.000"}, {52.314, "52.31"}, {999.96, "1000.0"}, {1234.5, "1234"}, {1e9, "1000000000"},
		{0.00412, "0.004"}, {0.0000001, "0.000"}, {-0.0000001, "0.000"}, {-12.345, "-12.35"},
		{math.NaN(), none}, {math.Inf(1), none},
	} {
		if got := number(c.x); got != c.want {
			t.Errorf("number(%v) = %q, want %q", c.x, got, c.want)
		}
	}
	for _, c := range []struct {
		x        float64
		decimals int
		want     string
	}{
		{100, 2, "100"}, {59.765625, 2, "59.77"}, {0.001, 2, "0"}, {-0.001, 2, "0"}, {27.586206896, 3, "27.586"},
		{1e21, 2, "1000000000000000000000"}, {math.Inf(-1), 2, none},
	} {
		if got := short(c.x, c.decimals); got != c.want {
			t.Errorf("short(%v, %d) = %q, want %q", c.x, c.decimals, got, c.want)
		}
	}
	if got := count(new(512.0)) + " " + count(new(511.94)) + " " + count(nil); got != "512 511.9 "+none {
		t.Errorf("count: %q", got)
	}
}

// What is printed is never scientific, and never off by more than half of its
// last decimal.
func TestNumberIsNear(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Float64Range(-1e12, 1e12).Draw(t, "x")
		s := number(x)
		if strings.ContainsAny(s, "eE") {
			t.Fatalf("%v is printed as %q", x, s)
		}
		y, err := strconv.ParseFloat(s, 64)
		if err != nil {
			t.Fatal(err)
		}
		_, frac, _ := strings.Cut(s, ".")
		if half := 0.5 * math.Pow10(-len(frac)); math.Abs(x-y) > half*(1+1e-9)+math.Abs(x)*1e-15 {
			t.Fatalf("%v is printed as %q", x, s)
		}
	})
}

func TestWrapKeepsEveryCharacter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := escape(rapid.StringOf(rapid.SampledFrom([]rune("ab  =% ms模é-/x\u0301🔥"))).Draw(t, "text"))
		width := rapid.IntRange(2, 40).Draw(t, "width")
		lines := wrapClean(text, width)
		bare := func(s string) string { return strings.ReplaceAll(s, " ", "") }
		if got := bare(strings.Join(lines, "")); got != bare(text) {
			t.Fatalf("%q became %q", text, lines)
		}
		if w := widest(lines); w > width {
			t.Fatalf("%d columns, more than %d: %q", w, width, lines)
		}
	})
}

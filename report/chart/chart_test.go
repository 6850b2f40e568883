package chart

import (
	"encoding/xml"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestLinearTicks(t *testing.T) {
	for _, tt := range []struct {
		lo, hi float64
		want   []float64
	}{{0, 10, []float64{0, 2, 4, 6, 8, 10}}, {0, 1, []float64{0, 0.2, 0.4, 0.6, 0.8, 1}}, {-5, 11, []float64{-5, 0, 5, 10}}} {
		got, _ := linearTicks(tt.lo, tt.hi)
		if len(got) != len(tt.want) {
			t.Errorf("%v to %v: %v", tt.lo, tt.hi, got)
			continue
		}
		for i := range got {
			if math.Abs(got[i]-tt.want[i]) > 1e-9 {
				t.Errorf("%v to %v: %v", tt.lo, tt.hi, got)
			}
		}
	}
	if got := logTicks(3, 40); !slices.Equal(got, []float64{5, 10, 20}) {
		t.Errorf("logarithmic: %v", got)
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 1015: "1015", 20000: "20k", 1.5e6: "1.5M", 0.25: "0.25", 12.3456: "12.35", -3: "-3", 2e9: "2G"} {
		if got := Number(v); got != want {
			t.Errorf("%v is %q, want %q", v, got, want)
		}
	}
}

// wellFormed reads a picture as XML.
func wellFormed(t interface{ Fatalf(string, ...any) }, svg string) {
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		_, err := d.Token()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatalf("%v in %s", err, svg)
		}
	}
}

// Whatever is drawn, the picture is well-formed and has no coordinate that is
// not a number.
func TestAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.OneOf(rapid.Float64Range(-1e6, 1e6), rapid.SampledFrom([]float64{0, math.NaN(), math.Inf(1), 1e-300}))
		points := rapid.SliceOf(rapid.Custom(func(t *rapid.T) Point { return Point{value.Draw(t, "x"), value.Draw(t, "y")} })).Draw(t, "points")
		name := rapid.String().Draw(t, "name")
		p := &Plot{Title: name, X: Axis{Label: name, Log: rapid.Bool().Draw(t, "xlog")}, Y: Axis{Log: rapid.Bool().Draw(t, "ylog")}}
		p.Add(Series{Name: name, Class: "s0", Points: points, Step: rapid.Bool().Draw(t, "step"), Marks: rapid.Bool().Draw(t, "marks")})
		p.Rule(1, name, "mark")
		p.Cell(0, 1, 0, 1, 0.5, name, "heat")
		svg := p.SVG()
		if strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == '\uFFFD' || r > 0xfff0 }) {
			return // the caller makes foreign text visible; XML cannot hold it
		}
		wellFormed(t, svg)
		if strings.Contains(svg, `="NaN"`) || strings.Contains(svg, "NaN ") || strings.Contains(svg, "Inf") {
			t.Fatalf("no number in %s", svg)
		}
	})
}

func TestEscaped(t *testing.T) {
	p := &Plot{Title: `<script>"&`}
	p.Add(Series{Name: `"><b>`, Points: []Point{{1, 2}, {2, 3}}, Labels: []string{`'<i>`, ""}})
	if svg := p.SVG() + p.Legend(); strings.Contains(svg, "<script>") || strings.Contains(svg, "<b>") || strings.Contains(svg, "<i>") {
		t.Error(svg)
	}
	if (&Plot{}).SVG() != "" {
		t.Error("a plot of nothing is a picture")
	}
}

func TestStepAndBreak(t *testing.T) {
	p := &Plot{X: Axis{Min: 0, Max: 4}, Y: Axis{Min: 0, Max: 1}, Width: 470, Height: 268} // 400 by 200 to draw in
	p.Add(Series{Class: "s0", Step: true, Points: []Point{{0, 0}, {1, 1}, {2, math.NaN()}, {3, 0.5}}})
	if svg := p.SVG(); !strings.Contains(svg, `d="M56 226L156 226L156 26M356 126"`) {
		t.Error(svg)
	}
}

package metric

import (
	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
	"github.com/assay-bench/assay/stat"
)

// windowBins is what fell into each of equal parts of a window, from which the
// interval of a rate over the window is made. There are enough of them for the
// batches that the interval chooses.
type windowBins [200]float64

// add enters x at a moment inside the window.
func (b *windowBins) add(w record.Window, at record.Stamp, x float64) {
	b[int(int64(at-w.Start)*int64(len(b))/int64(w.End-w.Start))] += x
}

func (b *windowBins) merge(other *windowBins) {
	for i, x := range other {
		b[i] += x
	}
}

// interval of the rate per second at 95 %, from batch means of the parts; nil
// where there is none.
func (b *windowBins) interval(seconds float64) *result.Interval {
	v, ok := stat.MeanInterval(b[:], 0.95)
	if !ok {
		return nil
	}
	scale := float64(len(b)) / seconds
	return &result.Interval{v.Lo * scale, v.Hi * scale}
}

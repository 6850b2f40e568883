package scrape

import "math"

// Bound is what a histogram says of a percentile: an interval, never a point.
// The p-quantile here is the smallest sample with at least the share p of all
// samples at or below it: the one of rank ceil(p N) (type 1 of Hyndman and Fan).
type Bound struct {
	// Lo and Hi are the bounds of the bucket that holds the sample. Hi is +Inf
	// beyond the last bound.
	Lo, Hi float64
	// TightLo and TightHi are never wider: they use the sum of all samples too.
	TightLo, TightHi float64
	// ShareInBucket is the share of all samples that lie in the bucket.
	ShareInBucket float64
	// SumFits is false if no samples with these buckets can have this sum (the
	// server's scrape was not atomic, or samples were negative). TightLo and
	// TightHi are the bucket's then.
	SumFits bool
}

// Resolved reports whether the bucket tells something: it does not start at 0
// and is no wider than a factor of 2.
func (b Bound) Resolved() bool { return b.Lo > 0 && b.Hi <= 2*b.Lo }

// Quantile bounds the p-quantile of the window's samples. ok is false if there
// are none or p is not in (0, 1].
//
// The tightening: let the sample v of rank k lie in bucket (l, u]. Samples in
// other buckets are at least their lower bounds, those of rank below k in its
// own bucket at least l, and those from k on at least v; all of them together
// are the sum, so v cannot be large. With upper bounds, v cannot be small.
func (d HistogramDelta) Quantile(p float64) (b Bound, ok bool) {
	if d.Count == 0 || !(p > 0 && p <= 1) {
		return Bound{}, false
	}
	k := rank(p, d.Count)
	at, below := 0, uint64(0)
	for below+d.Buckets[at].Count < k {
		below += d.Buckets[at].Count
		at++
	}
	in := d.Buckets[at]
	b = Bound{Lo: in.Lo, Hi: in.Hi, TightLo: in.Lo, TightHi: in.Hi}
	b.ShareInBucket = float64(in.Count) / float64(d.Count)

	// least and most are what the samples of the other buckets sum to at the
	// least and at the most.
	least, most := 0.0, 0.0
	for i, o := range d.Buckets {
		if i != at && o.Count > 0 {
			least += o.Lo * float64(o.Count)
			most += o.Hi * float64(o.Count)
		}
	}
	slack := d.slack + 1e-12*(finite(least)+finite(most)+math.Abs(d.Sum))
	n := float64(in.Count)
	if d.Sum+slack < least+in.Lo*n || d.Sum-slack > most+in.Hi*n {
		return b, true
	}
	b.SumFits = true
	before, from := float64(k-1-below), float64(below+in.Count-k+1)
	upTo, after := float64(k-below), float64(below+in.Count-k)
	if hi := (d.Sum + slack - least - times(in.Lo, before)) / from; hi < b.TightHi {
		b.TightHi = max(hi, b.Lo)
	}
	if lo := (d.Sum - slack - most - times(in.Hi, after)) / upTo; lo > b.TightLo {
		b.TightLo = min(lo, b.Hi)
	}
	return b, true
}

// rank is ceil(p n), at least 1. A product that rounding put above a whole
// number is taken for that number: 0.07 of 100 is 7, not 8.
func rank(p float64, n uint64) uint64 {
	x := p * float64(n)
	if near := math.Round(x); math.Abs(x-near) <= x*0x1p-50 {
		x = near
	}
	return min(max(uint64(math.Ceil(x)), 1), n)
}

// times is x * n, where nothing times an infinity is nothing.
func times(x, n float64) float64 {
	if n == 0 {
		return 0
	}
	return x * n
}

// finite is the size of x, or 0 if it is infinite.
func finite(x float64) float64 {
	if math.IsInf(x, 0) {
		return 0
	}
	return math.Abs(x)
}

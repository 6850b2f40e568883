package metric

import (
	"encoding/binary"
	"math"
	"slices"
	"sort"
)

// durations is a multiset of time spans in nanoseconds. It keeps every one of
// them exactly, in about a byte each: spans are sorted two million at a time, and
// of each only the distance to the one before is kept. A run of 1,000,000 requests
// has more than a hundred million gaps between its tokens.
//
// An order statistic is found by bisection over the value, since how many spans
// are at most a value is quickly counted. The zero value is empty.
type durations struct {
	n, sum int64
	fresh  []uint32  // in no order
	runs   []spanRun // full, sorted
	odd    []int64   // below 0, or 4.29 s and more
	sorted bool      // odd is
}

// freshSpans is how many spans are sorted at a time.
const freshSpans = 1 << 21

func (d *durations) add(ns int64) {
	d.n++
	d.sum += ns
	if uint64(ns) > math.MaxUint32 {
		d.odd, d.sorted = append(d.odd, ns), false
		return
	}
	if len(d.fresh) == freshSpans {
		d.seal()
	}
	d.fresh = append(d.fresh, uint32(ns))
}

// addAll adds what is in o.
func (d *durations) addAll(o *durations) {
	n, sum := d.n+o.n, d.sum+o.sum
	for _, ns := range o.fresh {
		d.add(int64(ns))
	}
	for _, ns := range o.odd {
		d.add(ns)
	}
	d.runs = append(d.runs, o.runs...)
	d.n, d.sum = n, sum
}

// seal packs the fresh spans.
func (d *durations) seal() {
	if len(d.fresh) > 0 {
		d.runs = append(d.runs, packSpans(d.fresh))
		d.fresh = d.fresh[:0]
	}
	if !d.sorted {
		slices.Sort(d.odd)
		d.sorted = true
	}
}

// atMost counts the spans that are no longer than ns. The set is sealed.
func (d *durations) atMost(ns int64) int64 {
	n := int64(sort.Search(len(d.odd), func(i int) bool { return d.odd[i] > ns }))
	if ns < 0 {
		return n
	}
	limit := uint32(min(ns, math.MaxUint32))
	for i := range d.runs {
		n += d.runs[i].atMost(limit)
	}
	return n
}

// at is the span of that rank, from 0, of the n in the set, which is sealed.
func (d *durations) at(rank int64) int64 {
	lo, hi := int64(0), int64(math.MaxUint32)
	if n := len(d.odd); n > 0 {
		lo, hi = min(lo, d.odd[0]), max(hi, d.odd[n-1])
	}
	return bisect(lo, hi, func(ns int64) bool { return d.atMost(ns) > rank })
}

// bisect finds the least x in [lo, hi] for which ok holds; it holds for all that
// are above one for which it holds, and for hi.
func bisect(lo, hi int64, ok func(int64) bool) int64 {
	for lo < hi {
		middle := lo + (hi-lo)/2
		if ok(middle) {
			hi = middle
		} else {
			lo = middle + 1
		}
	}
	return lo
}

// ms is the span of a rank in milliseconds.
func (d *durations) ms(rank int) float64 { return float64(d.at(int64(rank))) / nsPerMS }

func (d *durations) meanMS() float64 { return float64(d.sum) / float64(d.n) / nsPerMS }

// madMS is the median absolute deviation from the median, in milliseconds. All is
// exact, in halves of a nanosecond: the median of an even number of spans may be
// one.
func (d *durations) madMS() float64 {
	below, above := (d.n-1)/2, d.n/2
	median := d.at(below) + d.at(above) // twice
	// within counts the spans whose distance to the median is at most half of x.
	within := func(x int64) int64 {
		return d.atMost(floorHalf(median+x)) - d.atMost(-floorHalf(x-median)-1)
	}
	widest := max(2*d.at(d.n-1)-median, median-2*d.at(0))
	deviation := func(rank int64) int64 { return bisect(0, widest, func(x int64) bool { return within(x) > rank }) }
	return float64(deviation(below)+deviation(above)) / 4 / nsPerMS
}

// floorHalf is x / 2, rounded down.
func floorHalf(x int64) int64 { return x >> 1 }

// spanRun is a sorted list: blocks of blockSpans, each of a first span and of the
// distances from one to the next as varints.
type spanRun struct {
	n     int
	heads []spanBlock
	data  []byte
}

type spanBlock struct {
	first uint32
	from  uint32 // in data
}

const blockSpans = 256

// packSpans sorts the spans in place.
func packSpans(spans []uint32) spanRun {
	radixSort(spans)
	r := spanRun{n: len(spans), heads: make([]spanBlock, 0, (len(spans)+blockSpans-1)/blockSpans)}
	buf := make([]byte, 0, len(spans)+len(spans)/4)
	var last uint32
	for i, ns := range spans {
		if i%blockSpans == 0 {
			r.heads = append(r.heads, spanBlock{first: ns, from: uint32(len(buf))})
		} else {
			buf = binary.AppendUvarint(buf, uint64(ns-last))
		}
		last = ns
	}
	r.data = slices.Clip(buf)
	return r
}

func (r *spanRun) atMost(limit uint32) int64 {
	// The last block that begins at or below the limit; those before it are within.
	block := sort.Search(len(r.heads), func(i int) bool { return r.heads[i].first > limit }) - 1
	if block < 0 {
		return 0
	}
	n := block*blockSpans + 1
	ns, rest := r.heads[block].first, r.data[r.heads[block].from:]
	for range min(blockSpans, r.n-block*blockSpans) - 1 {
		step, size := uint64(rest[0]), 1
		if step >= 0x80 {
			step, size = binary.Uvarint(rest)
		}
		ns += uint32(step)
		if ns > limit {
			break
		}
		rest = rest[size:]
		n++
	}
	return int64(n)
}

// radixSort sorts by eleven bits at a time, least first: several times as fast
// as comparing, over millions.
func radixSort(x []uint32) {
	if len(x) < 1<<12 {
		slices.Sort(x)
		return
	}
	const bits = 11
	from, to := x, make([]uint32, len(x))
	for shift := 0; shift < 32; shift += bits {
		var at [1 << bits]int
		for _, v := range from {
			at[v>>shift&(1<<bits-1)]++
		}
		sum := 0
		for i, n := range at {
			at[i], sum = sum, sum+n
		}
		for _, v := range from {
			digit := v >> shift & (1<<bits - 1)
			to[at[digit]] = v
			at[digit]++
		}
		from, to = to, from
	}
	copy(x, from) // three passes: the result is in the other
}

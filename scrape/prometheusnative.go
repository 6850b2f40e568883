package scrape

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
)

// apiHistogram is a sample of a native histogram in a reply of the API: [seconds,
// {count, sum, buckets}], each bucket [rule, "lo", "hi", "count"] with only those
// that have samples. Two such samples of one series list different buckets. They
// are made comparable as a classic histogram whose bounds are the ends of buckets
// that lie inside no bucket of any sample of the series: counts up to those are
// exact, whatever the schemas were.
type apiHistogram struct {
	at         int64 // ms
	count, sum string
	buckets    []apiBucket
}

type apiBucket struct{ lo, hi, count float64 }

// UnmarshalJSON reads the array form.
func (h *apiHistogram) UnmarshalJSON(b []byte) error {
	var pair [2]json.RawMessage
	if err := json.Unmarshal(b, &pair); err != nil {
		return err
	}
	var seconds float64
	if err := json.Unmarshal(pair[0], &seconds); err != nil {
		return err
	}
	if !(math.Abs(seconds) < 1e12) {
		return fmt.Errorf("a sample at %g s", seconds)
	}
	h.at = int64(math.Round(seconds * 1e3))
	var v struct {
		Count   string              `json:"count"`
		Sum     string              `json:"sum"`
		Buckets [][]json.RawMessage `json:"buckets"`
	}
	if err := json.Unmarshal(pair[1], &v); err != nil {
		return err
	}
	for _, text := range []string{v.Count, v.Sum} {
		if _, err := strconv.ParseFloat(text, 64); err != nil {
			return err
		}
	}
	h.count, h.sum = v.Count, v.Sum
	for _, raw := range v.Buckets {
		k, err := readBucket(raw)
		if err != nil {
			return err
		}
		h.buckets = append(h.buckets, k)
	}
	return nil
}

func readBucket(raw []json.RawMessage) (b apiBucket, err error) {
	if len(raw) != 4 {
		return b, fmt.Errorf("a bucket of %d parts, not of 4", len(raw))
	}
	for i, to := range []*float64{&b.lo, &b.hi, &b.count} {
		var text string
		if err := json.Unmarshal(raw[i+1], &text); err != nil {
			return b, err
		}
		if *to, err = strconv.ParseFloat(text, 64); err != nil {
			return b, err
		}
	}
	if !(b.lo <= b.hi) || !(b.count >= 0) {
		return b, fmt.Errorf("a bucket from %g to %g with %g samples", b.lo, b.hi, b.count)
	}
	return b, nil
}

// commonBounds are the bounds up to which all samples of a series can be counted
// exactly, ascending.
func commonBounds(samples []apiHistogram) []float64 {
	ends := make(map[float64]bool)
	for i := range samples {
		for _, b := range samples[i].buckets {
			ends[b.lo], ends[b.hi] = true, true
		}
	}
	maps.DeleteFunc(ends, func(x float64, _ bool) bool {
		return math.IsInf(x, 0) || slices.ContainsFunc(samples, func(h apiHistogram) bool {
			return slices.ContainsFunc(h.buckets, func(b apiBucket) bool { return b.lo < x && x < b.hi })
		})
	})
	return slices.Sorted(maps.Keys(ends))
}

// addHistogram writes a sample as the lines of a classic histogram.
func (p *stored) addHistogram(name string, labels map[string]string, h *apiHistogram, bounds []float64) {
	with := maps.Clone(labels)
	if with == nil {
		with = make(map[string]string)
	}
	for _, bound := range bounds {
		var n float64
		for _, b := range h.buckets {
			if b.hi <= bound {
				n += b.count
			}
		}
		with["le"] = strconv.FormatFloat(bound, 'g', -1, 64)
		p.add(name+"_bucket", with, strconv.FormatFloat(n, 'f', -1, 64))
	}
	with["le"] = "+Inf"
	p.add(name+"_bucket", with, h.count)
	p.add(name+"_sum", labels, h.sum)
	p.add(name+"_count", labels, h.count)
}

package scrape

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"pgregory.net/rapid"
)

// nativePage is what a Go server with a native histogram answers in protobuf.
func nativePage(t rapid.TB, h prometheus.Histogram) *Scrape {
	reg := prometheus.NewRegistry()
	reg.MustRegister(h)
	families, err := reg.Gather()
	if err != nil {
		t.Fatalf("%v", err)
	}
	var wire bytes.Buffer
	enc := expfmt.NewEncoder(&wire, expfmt.NewFormat(expfmt.TypeProtoDelim))
	for _, mf := range families {
		if err := enc.Encode(mf); err != nil {
			t.Fatalf("%v", err)
		}
	}
	s, err := Parse(wire.Bytes(), protoType)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return s
}

// Against the official client: buckets hold the samples, the quantile lies in
// its bucket, and a limit on buckets that coarsens the schema within the window
// (or widens the zero bucket) changes neither.
func TestNativeHoldsTheTruth(t *testing.T) {
	coarsened := false
	rapid.Check(t, func(t *rapid.T) {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:                            "h",
			NativeHistogramBucketFactor:     rapid.SampledFrom([]float64{1.01, 1.1, 2}).Draw(t, "factor"),
			NativeHistogramMaxBucketNumber:  8,
			NativeHistogramMaxZeroThreshold: rapid.SampledFrom([]float64{0, 0.01}).Draw(t, "zero"),
			Buckets:                         rapid.SampledFrom([][]float64{nil, {1, 2}}).Draw(t, "classic too"),
		})
		sample := rapid.OneOf(rapid.Float64Range(1e-4, 100), rapid.SampledFrom([]float64{0, 1, 2}))
		old := rapid.SliceOfN(sample, 0, 10).Draw(t, "old")
		samples := rapid.SliceOfN(sample, 1, 40).Draw(t, "samples")
		perMille := rapid.IntRange(1, 1000).Draw(t, "p")
		for _, v := range old {
			h.Observe(v)
		}
		a := nativePage(t, h)
		for _, v := range samples {
			h.Observe(v)
		}
		b := nativePage(t, h)
		schema := func(s *Scrape) int32 { return s.Families["h"].Metric[0].GetHistogram().GetSchema() }
		coarsened = coarsened || schema(a) != schema(b)
		d, problem := Between(a, b).Histogram("h", nil)
		if problem.Voids() && problem.Kind == Restarted {
			return // the client starts anew when it runs out of buckets for good
		}
		if problem != nil || d.Count != uint64(len(samples)) {
			t.Fatalf("%+v, %v", d, problem)
		}
		for _, bucket := range d.Buckets {
			n := uint64(0)
			for _, v := range samples {
				if v > bucket.Lo && v <= bucket.Hi || bucket.Lo == 0 && v == 0 {
					n++
				}
			}
			if n != bucket.Count {
				t.Fatalf("%+v holds %d samples", bucket, n)
			}
		}
		slices.Sort(samples)
		truth := samples[(perMille*len(samples)+999)/1000-1]
		q, ok := d.Quantile(float64(perMille) / 1000)
		if !ok || !q.SumFits || truth < q.Lo || truth > q.Hi || truth < q.TightLo || truth > q.TightHi {
			t.Fatalf("%g is not in %+v", truth, q)
		}
	})
	if !coarsened {
		t.Error("no case had the schema change inside its window")
	}
}

func TestNativeMirrorsNegativeSamples(t *testing.T) {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "h", NativeHistogramBucketFactor: 2})
	a := nativePage(t, h)
	for _, v := range []float64{-3, -3, 0, 5} {
		h.Observe(v)
	}
	d, problem := Between(a, nativePage(t, h)).Histogram("h", nil)
	if problem != nil || len(d.Buckets) != 3 || d.Buckets[0] != (Bucket{-4, -2, 2}) || d.Buckets[2] != (Bucket{4, 8, 1}) {
		t.Errorf("%+v, %v", d, problem)
	}
	if q, _ := d.Quantile(0.5); q.Lo != -4 || q.Hi != -2 || !q.SumFits {
		t.Errorf("%+v", q)
	}
}

func TestNativeRefuses(t *testing.T) {
	n := func(v int32) *int32 { return &v }
	u := func(v uint32) *uint32 { return &v }
	count := uint64(1)
	good := func() *dto.Histogram {
		return &dto.Histogram{Schema: n(0), SampleCount: &count, PositiveDelta: []int64{1},
			PositiveSpan: []*dto.BucketSpan{{Offset: n(0), Length: u(1)}}}
	}
	for name, spoil := range map[string]func(*dto.Histogram){
		"a custom schema":       func(h *dto.Histogram) { h.Schema = n(-53) },
		"a span too long":       func(h *dto.Histogram) { h.PositiveSpan[0].Length = u(math.MaxUint32) },
		"a span too short":      func(h *dto.Histogram) { h.PositiveDelta = []int64{1, 0} },
		"a negative bucket":     func(h *dto.Histogram) { h.PositiveDelta = []int64{-1} },
		"more counted than put": func(h *dto.Histogram) { h.PositiveDelta = []int64{0} },
	} {
		t.Run(name, func(t *testing.T) {
			bad := good()
			spoil(bad)
			if d, problem := seriesDelta("h", pair{b: &dto.Metric{Histogram: bad}}, true); problem == nil || problem.Kind != Inconsistent {
				t.Errorf("%+v, %v", d, problem)
			}
		})
	}
	if d, problem := seriesDelta("h", pair{b: &dto.Metric{Histogram: good()}}, true); problem != nil || d.Buckets[0] != (Bucket{0.5, 1, 1}) {
		t.Errorf("%+v, %v", d, problem)
	}
}

func TestAddRefusesMixedForms(t *testing.T) {
	native, _ := seriesDelta("h", pair{b: &dto.Metric{Histogram: &dto.Histogram{}}}, true)
	plain, _ := seriesDelta("h", pair{b: &dto.Metric{Histogram: &dto.Histogram{}}}, false)
	if _, ok := native.Add(plain); ok {
		t.Error("a native and a classic histogram were added")
	}
	if sum, ok := (HistogramDelta{}).Add(plain); !ok || sum.Series != 1 {
		t.Errorf("%+v, %v", sum, ok)
	}
}

// Bounds may be infinite, which JSON cannot say by itself.
func TestJSON(t *testing.T) {
	d := windowOf(t, []float64{1}, nil, []float64{0.5, 3})
	q, _ := d.Quantile(1)
	for name, check := range map[string]func() bool{
		"histogram": func() bool {
			var back HistogramDelta
			b, err := json.Marshal(d)
			return err == nil && json.Unmarshal(b, &back) == nil && slices.Equal(back.Buckets, d.Buckets)
		},
		"bound": func() bool {
			var back Bound
			b, err := json.Marshal(q)
			return err == nil && json.Unmarshal(b, &back) == nil && back == q
		},
	} {
		if !check() {
			t.Errorf("%s does not survive JSON", name)
		}
	}
}

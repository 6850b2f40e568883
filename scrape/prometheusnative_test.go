package scrape

import (
	"slices"
	"strings"
	"testing"
)

// nativeReply has two samples of one series, the second at half the resolution.
const nativeReply = `{"status":"success","data":{"resultType":"matrix","result":[{
 "metric":{"__name__":"vllm:time_to_first_token_seconds","instance":"i","job":"j","engine":"0"},
 "histograms":[
  [100,{"count":"3","sum":"4.5","buckets":[[0,"1","1.4142135623730951","2"],[0,"1.4142135623730951","2","1"]]}],
  [110,{"count":"8","sum":"20","buckets":[[0,"1","2","4"],[0,"4","8","4"]]}]]}]}}`

func TestNativeFromPrometheus(t *testing.T) {
	pages, err := FromPrometheus([]byte(nativeReply))
	if err != nil || len(pages) != 2 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	var read []*Scrape
	for _, p := range pages {
		s, err := Parse(p.Body, "")
		if err != nil {
			t.Fatalf("%v in\n%s", err, p.Body)
		}
		read = append(read, s)
	}
	d, problem := Between(read[0], read[1]).Histogram("vllm:time_to_first_token_seconds", nil)
	if problem.Voids() || d.Count != 5 || d.Sum != 15.5 {
		t.Fatalf("%+v, %v", d, problem)
	}
	// Of the five new samples one is in (1, 2], four are in (4, 8]; 1.41 lies inside
	// a bucket of the second sample and is no bound.
	if b, ok := d.Quantile(0.5); !ok || b.Lo != 4 || b.Hi != 8 {
		t.Errorf("median %+v %v", b, ok)
	}
	if b, ok := d.Quantile(0.1); !ok || b.Lo != 1 || b.Hi != 2 {
		t.Errorf("p10 %+v %v", b, ok)
	}
}

func TestCommonBounds(t *testing.T) {
	samples := []apiHistogram{
		{buckets: []apiBucket{{1, 1.5, 2}, {1.5, 2, 1}}},
		{buckets: []apiBucket{{1, 2, 4}, {-1, 1, 3}}},
	}
	if got := commonBounds(samples); !slices.Equal(got, []float64{-1, 1, 2}) {
		t.Errorf("bounds %v", got)
	}
}

func TestNativeFromPrometheusRefuses(t *testing.T) {
	for name, change := range map[string][2]string{
		"parts":    {`[0,"4","8","4"]`, `[0,"4","8"]`},
		"order":    {`[0,"4","8","4"]`, `[0,"8","4","4"]`},
		"negative": {`[0,"4","8","4"]`, `[0,"4","8","-4"]`},
		"count":    {`"count":"8"`, `"count":"many"`},
	} {
		if _, err := FromPrometheus([]byte(strings.Replace(nativeReply, change[0], change[1], 1))); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

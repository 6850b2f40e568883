package scrape

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
)

// reply makes an answer of Prometheus that holds two scrapes of a page.
func reply(t *testing.T, s *Scrape, times ...float64) []byte {
	t.Helper()
	var r apiReply
	r.Status, r.Data.ResultType = "success", "matrix"
	type series struct {
		Metric map[string]string `json:"metric"`
		Values [][2]any          `json:"values"`
	}
	var all []series
	add := func(name string, m *dto.Metric, le string, v float64) {
		labels := map[string]string{"__name__": name, "instance": "h:8000", "job": "vllm"}
		for _, l := range m.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		if le != "" {
			labels["le"] = le
		}
		one := series{Metric: labels}
		for _, at := range times {
			one.Values = append(one.Values, [2]any{at, fmt.Sprint(v)})
		}
		all = append(all, one)
	}
	for name, family := range s.Families {
		for _, m := range family.GetMetric() {
			h := m.GetHistogram()
			if h == nil {
				add(name, m, "", scalar(m))
				continue
			}
			for _, b := range h.GetBucket() {
				add(name+"_bucket", m, fmt.Sprint(b.GetUpperBound()), float64(b.GetCumulativeCount()))
			}
			add(name+"_sum", m, "", h.GetSampleSum())
			add(name+"_count", m, "", float64(h.GetSampleCount()))
		}
	}
	add(scrapeDuration, nil, "", 0.25)
	b, err := json.Marshal(map[string]any{"status": "success", "data": map[string]any{"resultType": "matrix", "result": all}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestFromPrometheus: what a page says directly, it says by way of Prometheus.
func TestFromPrometheus(t *testing.T) {
	body, err := os.ReadFile("testdata/vllm_0_32.txt")
	if err != nil {
		t.Fatal(err)
	}
	direct, err := Parse(body, "")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := FromPrometheus(reply(t, direct, 1000.25, 1015.25))
	if err != nil || len(pages) != 2 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	if p := pages[0]; p.Instance != "h:8000" || p.Job != "vllm" || !p.Time.Equal(time.UnixMilli(1000250)) || p.Took != 250*time.Millisecond {
		t.Errorf("%+v", p)
	}
	again, err := Parse(pages[1].Body, "text/plain; version=0.0.4")
	if err != nil {
		t.Fatal(err)
	}
	c, err := LoadCatalogue()
	if err != nil {
		t.Fatal(err)
	}
	if engine, _ := c.DetectEngine(again); engine != "vllm" {
		t.Errorf("engine %q", engine)
	}
	for name, family := range direct.Families {
		if !strings.HasPrefix(name, "vllm:") || family.GetType() != dto.MetricType_HISTOGRAM {
			continue
		}
		was, is := family.Metric[0].GetHistogram(), again.Families[name].GetMetric()[0].GetHistogram()
		if again.Families[name].GetType() != dto.MetricType_HISTOGRAM || was.GetSampleSum() != is.GetSampleSum() || was.GetSampleCount() != is.GetSampleCount() || len(was.Bucket) != len(is.Bucket) {
			t.Errorf("%s: %v, then %v", name, was, is)
		}
	}
	again.At.Before, again.At.After = 1, 2
	if _, _, problem := Between(again, again).Counter("vllm:generation_tokens_total", nil); problem.Voids() && problem.Kind != Overlap {
		t.Error(problem)
	}
}

func TestPrometheusQuery(t *testing.T) {
	c, err := LoadCatalogue()
	if err != nil {
		t.Fatal(err)
	}
	q := c.PrometheusQuery(`{namespace="x"}`, 90*time.Second)
	if !strings.HasPrefix(q, `{__name__=~"(vllm:|llamacpp:`) || !strings.HasSuffix(q, `).+|process_start_time_seconds|scrape_duration_seconds",namespace="x"}[90s]`) {
		t.Error(q)
	}
}

func TestFromPrometheusRefuses(t *testing.T) {
	for body, want := range map[string]string{
		`<html>`: "reading a reply",
		`{"status":"error","error":"parse error"}`:                                                                              "parse error",
		`{"status":"success","data":{"resultType":"vector","result":[]}}`:                                                       "not with a matrix",
		`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":"x"},"values":[[1e300,"1"]]}]}}`:     "a sample at",
		`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":"x"},"values":[[1,"no number"]]}]}}`: "invalid syntax",
	} {
		if _, err := FromPrometheus([]byte(body)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
	if pages, err := FromPrometheus([]byte(`{"status":"success","data":{"resultType":"matrix","result":[]}}`)); pages != nil || err != nil {
		t.Errorf("%v, %v", pages, err)
	}
}

// FuzzFromPrometheus: no reply breaks it, and its pages can be parsed or refused.
func FuzzFromPrometheus(f *testing.F) {
	f.Add([]byte(nativeReply))
	f.Add([]byte(`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":"vllm:x_bucket","le":"1"},"values":[[1,"1"],[2,"NaN"]]}]}}`))
	f.Add([]byte(`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":"a b","l\n":"\""},"values":[[1,"+Inf"]]}]}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		pages, err := FromPrometheus(body)
		if err != nil {
			return
		}
		for _, p := range pages {
			_, _ = Parse(p.Body, "text/plain; version=0.0.4")
		}
	})
}

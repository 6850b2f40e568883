package scrape

import (
	"slices"
	"testing"
)

const twoModels = `# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0",model_name="a"} 100
vllm:generation_tokens_total{engine="0",model_name="b"} 50
# TYPE process_start_time_seconds gauge
process_start_time_seconds 5
`

func TestKeepLabel(t *testing.T) {
	page := func(tokens string) *Scrape {
		s, err := Parse([]byte(twoModels+tokens), "text/plain; version=0.0.4")
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	a, b := page(""), page("")
	if label, models := a.Models(); label != "model_name" || !slices.Equal(models, []string{"a", "b"}) {
		t.Errorf("models %s %v", label, models)
	}
	a.KeepLabel("model_name", "b")
	b.KeepLabel("model_name", "b")
	if g, problem := a.Gauge("process_start_time_seconds", nil); problem != nil || g.Sum != 5 {
		t.Errorf("a series without the label is gone: %+v %v", g, problem)
	}
	delta, series, problem := Between(a, b).Counter("vllm:generation_tokens_total", nil)
	if problem.Voids() || series != 1 || delta != 0 {
		t.Errorf("%v over %d series, %v", delta, series, problem)
	}
	if _, models := page("").Models(); len(models) != 2 {
		t.Error("another page lost its series")
	}
	none, err := Parse([]byte("x 1\n"), "")
	if err != nil {
		t.Fatal(err)
	}
	if label, models := none.Models(); label != "" || models != nil {
		t.Errorf("models of none: %s %v", label, models)
	}
}

package environ

import (
	"context"
	"errors"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestReadClient(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	c := ReadClient(fstest.MapFS{
		"proc/cpuinfo":                      file("processor\t: 0\nmodel name\t: AMD EPYC 9354\nflags\t\t: fpu hypervisor avx\nprocessor\t: 1\nmodel name\t: AMD EPYC 9354\n"),
		"proc/meminfo":                      file("MemTotal:       65536 kB\nMemFree: 1 kB\n"),
		"proc/loadavg":                      file("0.75 0.5 0.25 1/200 99\n"),
		"proc/self/cgroup":                  file("0::/kube/pod\n"),
		"sys/fs/cgroup/kube/pod/cpu.max":    file("max 100000\n"),
		"sys/fs/cgroup/kube/cpu.max":        file("250000 100000\n"),
		"sys/fs/cgroup/kube/pod/memory.max": file("1073741824\n"),
		"sys/fs/cgroup/cpu.max":             file("max 100000\n"),
		"sys/devices/system/clocksource/clocksource0/current_clocksource": file("tsc\n"),
		"sys/devices/system/cpu/cpu0/cpufreq/scaling_governor":            file("performance\n"),
		"sys/devices/system/cpu/cpu1/cpufreq/scaling_governor":            file("powersave\n"),
		"sys/devices/system/cpu/cpu2/cpufreq/scaling_governor":            file("performance\n"),
	})
	if c.CPU != "AMD EPYC 9354" || !c.Virtual || c.CPULimit != 2.5 || c.MemoryLimit != 1<<30 || c.Memory != 64<<20 ||
		c.LoadAverage != 0.75 || c.ClockSource != "tsc" || !slices.Equal(c.Governors, []string{"performance", "powersave"}) || c.Go == "" || c.Cores < 1 {
		t.Errorf("%+v", c)
	}
	v1 := ReadClient(fstest.MapFS{"sys/fs/cgroup/cpu/cpu.cfs_quota_us": file("50000\n"), "sys/fs/cgroup/cpu/cpu.cfs_period_us": file("100000\n")})
	if v1.CPULimit != 0.5 || v1.CPU != "" || v1.Sync == nil != (c.Sync == nil) {
		t.Errorf("%+v", v1)
	}
	if unlimited := ReadClient(fstest.MapFS{"sys/fs/cgroup/cpu/cpu.cfs_quota_us": file("-1\n"), "sys/fs/cgroup/cpu/cpu.cfs_period_us": file("100000\n")}); unlimited.CPULimit != 0 {
		t.Errorf("%+v", unlimited)
	}
}

func TestSettle(t *testing.T) {
	l := Log{Facts: []Fact{
		{"precision", "bf16", Declared}, {"max_num_seqs", "256", Declared}, {"prefix_caching", "on", Declared}, {"gpu", "H100", Declared},
		{"precision", "torch.bfloat16", "/server_info"}, {"max_num_seqs", "128", "/server_info"}, {"prefix_caching", "True", "cache_config_info"},
		{"gpu", "NVIDIA H100 80GB HBM3", "nvidia-smi"}, {"kv_blocks", "1000", "cache_config_info"}, {"kv_blocks", "1000", "cache_config_info"},
	}}
	l.Settle()
	get := func(name string) Field {
		i := slices.IndexFunc(l.Fields, func(f Field) bool { return f.Name == name })
		return l.Fields[i]
	}
	if f := get("precision"); f.Value != "torch.bfloat16" || f.Source != "/server_info" {
		t.Errorf("%+v", f)
	}
	if f := get("gpu"); f.Value != "NVIDIA H100 80GB HBM3" {
		t.Errorf("%+v", f)
	}
	want := []string{`max_num_seqs: /server_info says "128", declared says "256"`}
	if d := cmp.Diff(want, l.Conflicts); d != "" {
		t.Error(d)
	}
	if len(l.Fields) != len(Required()) || len(l.NotRecorded) != len(Required())-4 || !slices.Contains(l.NotRecorded, "driver") {
		t.Errorf("%q", l.NotRecorded)
	}
	if o := l.Others(); len(o) != 1 || o[0].Name != "kv_blocks" {
		t.Errorf("%+v", o)
	}
	before := l.NotRecorded
	l.Settle()
	if d := cmp.Diff(before, l.NotRecorded); d != "" {
		t.Error(d)
	}
}

func TestFromDeclared(t *testing.T) {
	got, err := FromDeclared(map[string]string{"gpu": " H100 ", "CUDA": "12.4", "max_num_batched_tokens": "8192", "kv_cache_tokens": "100000"})
	want := []Fact{{"cuda", "12.4", Declared}, {"gpu", "H100", Declared}, {"kv_cache_tokens", "100000", Declared}, {"max_num_batched_tokens", "8192", Declared}}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Error(d, err)
	}
	for _, bad := range []map[string]string{
		{"api_key": "xyzzy"}, {"HF_TOKEN": "xyzzy"}, {"note": "Bearer xyzzy"}, {"note": "sk-xyzzy"}, {"note": "hf_xyzzy"}, {"url": "http://me:xyzzy@h"},
		{"db_password": "xyzzy"}, {"a b": "xyzzy"}, {"": "xyzzy"}, {"gpu": ""}, {"gpu": "xyzzy\nxyzzy"}, {"gpu": strings.Repeat("x", 201)},
	} {
		got, err := FromDeclared(bad)
		if err == nil || got != nil || strings.Contains(err.Error(), "xyzzy") {
			t.Errorf("%v: %v, %v", bad, got, err)
		}
	}
}

func TestFromServerInfo(t *testing.T) {
	for name, tc := range map[string]struct {
		page string
		want []Fact
	}{
		"vllm, JSON": {`{"vllm_config":{"model_config":{"dtype":"torch.bfloat16","hf_token":"hf_secret"},"scheduler_config":{"max_num_seqs":256,"max_num_batched_tokens":8192},
			"cache_config":{"block_size":16,"enable_prefix_caching":true,"cache_dtype":"auto"}},"vllm_env":{"VLLM_API_KEY":"secret"},"system_env":{"torch_version":"2.9.0","nvidia_driver_version":"570.1"}}`,
			[]Fact{{"driver", "570.1", "s"}, {"pytorch", "2.9.0", "s"}, {"kv_block_size", "16", "s"}, {"kv_cache_dtype", "auto", "s"}, {"prefix_caching", "true", "s"},
				{"precision", "torch.bfloat16", "s"}, {"max_num_batched_tokens", "8192", "s"}, {"max_num_seqs", "256", "s"}}},
		"vllm, text": {`{"vllm_config":"model='m', dtype=torch.float16, tensor_parallel_size=2, enable_prefix_caching=True, hf_token=hf_secret, quantization=None"}`,
			[]Fact{{"precision", "torch.float16", "s"}, {"tensor_parallel", "2", "s"}, {"prefix_caching", "True", "s"}}},
		"sglang":    {`{"disable_radix_cache":false,"api_key":"secret","page_size":1,"max_running_requests":128}`, []Fact{{"prefix_caching", "on", "s"}, {"max_num_seqs", "128", "s"}, {"kv_block_size", "1", "s"}}},
		"no JSON":   {`<html>`, nil},
		"too deep":  {strings.Repeat(`{"a":`, 20) + `{"dtype":"x"}` + strings.Repeat(`}`, 20), nil},
		"long text": {`{"dtype":"` + strings.Repeat("x", 1000) + `"}`, []Fact{{"precision", strings.Repeat("x", maxValue), "s"}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := FromServerInfo([]byte(tc.page), "s")
			less := func(a, b Fact) int { return strings.Compare(a.Name, b.Name) }
			slices.SortFunc(got, less)
			slices.SortFunc(tc.want, less)
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestProps reads the page of a real llama.cpp.
func TestProps(t *testing.T) {
	page, err := os.ReadFile("../../shared/data/captures/llamacpp/props.json")
	if err != nil {
		t.Skip("the captures are not here")
	}
	got := FromServerInfo(page, "/props")
	if !slices.Contains(got, Fact{"max_num_seqs", "4", "/props"}) {
		t.Errorf("%+v", got)
	}
}

func TestFromHeaders(t *testing.T) {
	h := http.Header{"Server": {"nginx"}, "Via": {strings.Repeat("v", 100)}, "Set-Cookie": {"session=secret"}, "Cf-Ray": {"8f"}}
	want := []Fact{{"header Server", "nginx", "reply headers"}, {"header Via", strings.Repeat("v", 80), "reply headers"}, {"header Cf-Ray", "8f", "reply headers"}}
	if d := cmp.Diff(want, FromHeaders(h)); d != "" {
		t.Error(d)
	}
}

func TestGPUTools(t *testing.T) {
	gone := errors.New("executable file not found")
	tool := func(answers map[string]string) Run {
		return func(_ context.Context, program string, args ...string) ([]byte, error) {
			if a, ok := answers[strings.Join(append([]string{program}, args[:min(1, len(args))]...), " ")]; ok {
				return []byte(a), nil
			}
			return nil, gone
		}
	}
	got := FromGPUTools(t.Context(), tool(map[string]string{
		"nvidia-smi --query-gpu=name,driver_version,memory.total,power.limit,clocks.max.sm,mig.mode.current": "NVIDIA H100, 570.1, 81559 MiB, 700.00 W, 1980 MHz, [N/A]\nNVIDIA H100, 570.1, 81559 MiB, 700.00 W, 1980 MHz, [N/A]\n",
		"nvidia-smi": "| NVIDIA-SMI 570.1   Driver Version: 570.1   CUDA Version: 12.8 |\n",
	}))
	want := []Fact{{"gpu", "NVIDIA H100", "nvidia-smi"}, {"driver", "570.1", "nvidia-smi"}, {"gpu_memory", "81559 MiB", "nvidia-smi"},
		{"gpu_power_limit", "700.00 W", "nvidia-smi"}, {"gpu_clock_max", "1980 MHz", "nvidia-smi"}, {"gpu_count", "2", "nvidia-smi"}, {"cuda", "12.8", "nvidia-smi"}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	got = FromGPUTools(t.Context(), tool(map[string]string{"rocm-smi --showproductname": `{"card0":{"Card Series":"MI300X"},"card1":{"Card Series":"MI300X"},"system":{"Driver version":"6.8"}}`}))
	want = []Fact{{"gpu", "MI300X", "rocm-smi"}, {"driver", "6.8", "rocm-smi"}, {"gpu_count", "2", "rocm-smi"}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if got := FromGPUTools(t.Context(), tool(nil)); got != nil {
		t.Error(got)
	}
}

// FuzzServerInfo: whatever a server says, only known names come out, and short.
func FuzzServerInfo(f *testing.F) {
	f.Add([]byte(`{"vllm_config":"dtype=x, max_num_seqs=3","a":[{"block_size":16}]}`))
	f.Add([]byte(`[[[[{"ftype":"Q4"}]]]]`))
	f.Add([]byte("\xff{"))
	known := map[string]bool{}
	for _, to := range canon {
		known[to] = true
	}
	f.Fuzz(func(t *testing.T, page []byte) {
		for _, fact := range FromServerInfo(page, "s") {
			if !known[fact.Name] || fact.Value == "" || len(fact.Value) > maxValue {
				t.Errorf("%+v", fact)
			}
		}
	})
}

package environ

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Run starts a program and returns its standard output. An error says that it
// is not there or failed.
type Run func(ctx context.Context, program string, args ...string) ([]byte, error)

// FromGPUTools asks nvidia-smi and rocm-smi of this machine. It is right only if
// the target is local. No tool, no facts.
func FromGPUTools(ctx context.Context, run Run) []Fact {
	if out, err := run(ctx, "nvidia-smi", "--query-gpu=name,driver_version,memory.total,power.limit,clocks.max.sm,mig.mode.current", "--format=csv,noheader"); err == nil {
		facts := nvidia(string(out))
		if head, err := run(ctx, "nvidia-smi"); err == nil {
			if m := cudaVersion.FindSubmatch(head); m != nil {
				facts = append(facts, Fact{"cuda", string(m[1]), "nvidia-smi"})
			}
		}
		return facts
	}
	if out, err := run(ctx, "rocm-smi", "--showproductname", "--showdriverversion", "--json"); err == nil {
		return rocm(out)
	}
	return nil
}

// cudaVersion is what the driver supports, in the head of nvidia-smi; the one that
// PyTorch was built for may be older.
var cudaVersion = regexp.MustCompile(`CUDA Version:\s*([0-9.]+)`)

// nvidia reads one line a GPU.
func nvidia(csv string) []Fact {
	var facts []Fact
	count := 0
	for line := range strings.Lines(csv) {
		cells := strings.Split(strings.TrimSpace(line), ", ")
		if len(cells) < 2 {
			continue
		}
		count++
		for i, name := range []string{"gpu", "driver", "gpu_memory", "gpu_power_limit", "gpu_clock_max", "gpu_mig"} {
			if i >= len(cells) || strings.HasPrefix(cells[i], "[") { // [N/A], [Not Supported]
				continue
			}
			if f := (Fact{name, cells[i], "nvidia-smi"}); !slices.Contains(facts, f) {
				facts = append(facts, f)
			}
		}
	}
	if count > 0 {
		facts = append(facts, Fact{"gpu_count", strconv.Itoa(count), "nvidia-smi"})
	}
	return facts
}

// rocm reads {"card0": {"Card Series": ...}, "system": {"Driver version": ...}}.
func rocm(body []byte) []Fact {
	var cards map[string]map[string]string
	if json.Unmarshal(body, &cards) != nil {
		return nil
	}
	var facts []Fact
	count := 0
	for _, card := range slices.Sorted(maps.Keys(cards)) {
		fields := cards[card]
		if strings.HasPrefix(card, "card") {
			count++
		}
		for key, name := range map[string]string{"Card Series": "gpu", "Driver version": "driver"} {
			if f := (Fact{name, fields[key], "rocm-smi"}); f.Value != "" && !slices.Contains(facts, f) {
				facts = append(facts, f)
			}
		}
	}
	if count > 0 {
		facts = append(facts, Fact{"gpu_count", fmt.Sprint(count), "rocm-smi"})
	}
	return facts
}

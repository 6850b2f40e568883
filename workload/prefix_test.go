package workload

import (
	"slices"
	"testing"
)

func TestPrefixSharing(t *testing.T) {
	spec := Default()
	spec.PromptTokens = Length{Dist: Uniform, Min: 40, Max: 300}
	plain, err := NewPlan(spec, 7)
	if err != nil {
		t.Fatal(err)
	}
	spec.Prefix = &Prefix{Tokens: FixedLength(100), Pools: 4, Share: 0.75, Pick: PickZipf}
	plan, err := NewPlan(spec, 7)
	if err != nil {
		t.Fatal(err)
	}
	content := Uncalibrated(CalibrateOptions{Nonce: "n"})
	content.ids = make([]int32, 200)
	for i := range content.ids {
		content.ids[i] = int32(1000 + i)
	}
	counter := NewSharingCounter(16)
	var hits, tokens int64
	seen := map[[16]int32]map[int]bool{} // an oracle: blocks by their own content and place
	prefixes := map[int][]int32{}
	shared := 0
	for range 2000 {
		r, _ := plan.Next()
		p, _ := plain.Next()
		if r.PromptTokens != p.PromptTokens || r.MaxTokens != p.MaxTokens {
			t.Fatalf("request %d: lengths moved with the prefix", r.Index)
		}
		counter.Add(&r)
		content.Fill(&r)
		ids := r.Prompt.TokenIDs
		if len(ids) != r.PromptTokens {
			t.Fatalf("request %d: %d ids, want %d", r.Index, len(ids), r.PromptTokens)
		}
		if r.PrefixPool > 0 {
			shared++
			n := min(r.PrefixTokens, len(prefixes[r.PrefixPool]))
			if n > 0 && !slices.Equal(ids[:n], prefixes[r.PrefixPool][:n]) {
				t.Fatalf("request %d: another prefix than that of pool %d", r.Index, r.PrefixPool)
			}
			if r.PrefixTokens > n {
				prefixes[r.PrefixPool] = slices.Clone(ids[:r.PrefixTokens])
			}
		}
		tokens += int64(len(ids))
		for i, live := 0, true; i+16 <= len(ids); i += 16 {
			b := [16]int32(ids[i:])
			if live = live && seen[b][i]; live && i+16 < len(ids) {
				hits += 16
			}
			if seen[b] == nil {
				seen[b] = map[int]bool{}
			}
			seen[b][i] = true
		}
	}
	if got := counter.Sharing(); got.HitTokens != hits || got.PromptTokens != tokens {
		t.Errorf("counted %+v, the prompts themselves have %d of %d", got, hits, tokens)
	}
	// Binomial, alpha = 0.001: 1500 ± 3.3 × 19.4.
	if shared < 1436 || shared > 1564 {
		t.Errorf("%d of 2000 have a prefix, want about 1500", shared)
	}
}

package workload

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
)

func with(change func(*Spec)) Spec {
	s := Default()
	change(&s)
	return s
}

func TestValidate(t *testing.T) {
	tests := []struct {
		name string
		spec Spec
		want string // "" is valid; else every line, in order
	}{
		{"default", Default(), ""},
		{"zero value", Spec{}, "prompt_tokens: 0 is below 1\noutput_tokens: 0 is below 1"},
		{"uniform", with(func(s *Spec) { s.PromptTokens = UniformLength(1, 10) }), ""},
		{"uniform, one value", with(func(s *Spec) { s.PromptTokens = UniformLength(5, 5) }), ""},
		{"uniform, reversed", with(func(s *Spec) { s.PromptTokens = UniformLength(10, 1) }), "prompt_tokens: min 10 is above max 1"},
		{"uniform from 0", with(func(s *Spec) { s.OutputTokens = UniformLength(0, 1) }), "output_tokens: min: 0 is below 1"},
		{"uniform with tokens", with(func(s *Spec) { s.PromptTokens = Length{Dist: Uniform, Tokens: 4} }), "prompt_tokens: a uniform length takes min and max, not tokens"},
		{"fixed with min", with(func(s *Spec) { s.PromptTokens = Length{Tokens: 4, Min: 1} }), "prompt_tokens: a fixed length takes tokens, not min and max"},
		{"unknown dist", with(func(s *Spec) { s.PromptTokens.Dist = "zif" }), `prompt_tokens: dist "zif" is none of fixed, uniform, normal, lognormal, gamma, pareto, zipf, quantiles, histogram, mixture, trace`},
		{"negative", with(func(s *Spec) { s.OutputTokens = FixedLength(-1) }), "output_tokens: -1 is below 1"},
		{"absurd prompt", with(func(s *Spec) { s.PromptTokens = FixedLength(10_000_001) }), "prompt_tokens: 10000001 is above 10000000"},
		{"negative concurrency", with(func(s *Spec) { s.Concurrency = -1 }), "concurrency: -1 is not within 1 and 1000000"},
		{"negative think time", with(func(s *Spec) { s.ThinkTime = FixedThink(-time.Second) }), "think_time: -1s is not within 0 and 24h0m0s"},
		{"absurd think time", with(func(s *Spec) { s.ThinkTime = FixedThink(25 * time.Hour) }), "think_time: 25h0m0s is not within 0 and 24h0m0s"},
		{"rate alone", with(func(s *Spec) { s.Arrival.Rate = 4 }), ""},
		{"negative rate", with(func(s *Spec) { s.Arrival.Rate = -4 }), "arrival.rate: rate -4 is not above 0"},
		{"NaN", with(func(s *Spec) { s.Arrival.Rate = math.NaN() }), "arrival.rate: rate NaN is not a finite number"},
		{"infinite", with(func(s *Spec) { s.Arrival = Arrival{Process: Constant, Rate: math.Inf(1)} }), "arrival.rate: rate +Inf is not a finite number"},
		{"open without a rate", with(func(s *Spec) { s.Arrival.Process = Poisson }), "arrival.rate: rate 0 is not above 0"},
		{"closed with a rate", with(func(s *Spec) { s.Arrival = Arrival{Process: Closed, Rate: 4} }), "arrival.rate: a closed loop has no rate; name an open process (poisson, constant)"},
		{"closed with a cap", with(func(s *Spec) { s.Arrival.MaxInFlight = 4 }), "arrival.max_in_flight: a closed loop is bounded by its concurrency"},
		{"open with concurrency and think time", with(func(s *Spec) { s.Arrival.Rate, s.Concurrency, s.ThinkTime = 4, 8, FixedThink(1) }), "concurrency: an open loop has none; bound it by arrival.max_in_flight\nthink_time: an open loop has none, but for the turns of sessions (sessions.turns)"},
		{"negative cap", with(func(s *Spec) { s.Arrival.Rate, s.Arrival.MaxInFlight = 4, -1 }), "arrival.max_in_flight: -1 is not within 0 and 1000000"},
		{"unknown process", with(func(s *Spec) { s.Arrival.Process = "bursty" }), `arrival.process: "bursty" is none of closed, constant, poisson, gamma, weibull, pareto, lomax, hyperexponential, on-off, hawkes, sinusoid, diurnal, ramp, exp-ramp, steps, burst, trace`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := ""
			if err := tt.spec.Validate(); err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
			if _, err := NewPlan(tt.spec, 1); (err == nil) != (tt.want == "") {
				t.Errorf("NewPlan: %v", err)
			}
		})
	}
}

func TestDescribe(t *testing.T) {
	for want, s := range map[string]Spec{
		"closed loop, concurrency 1, no think time; prompts 512 tokens, outputs exactly 128 tokens": Default(),
		"closed loop, concurrency 16, think time 1.5s; prompts 100 to 500 (uniform) tokens, outputs at most 128 tokens": with(func(s *Spec) {
			s.Concurrency, s.ThinkTime, s.PromptTokens, s.ExactOutput = 16, FixedThink(1500*time.Millisecond), UniformLength(100, 500), false
		}),
		"open loop, Poisson 4 requests/s; prompts 512 tokens, outputs exactly 128 tokens": with(func(s *Spec) { s.Arrival.Rate = 4 }),
		"open loop, constant 0.5 requests/s, at most 64 in flight; prompts 512 tokens, outputs exactly 128 tokens; prompts reused between runs": with(func(s *Spec) {
			s.Arrival = Arrival{Process: Constant, Rate: 0.5, MaxInFlight: 64}
			s.ReusePrompts = true
		}),
	} {
		if got := s.Describe(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestFingerprint(t *testing.T) {
	base := Default().Fingerprint(1)
	// Pinned: stored runs carry it.
	if want := "f1eff6f30938f38c"; base != want {
		t.Errorf("the fingerprint of the default changed: %s, was %s", base, want)
	}
	if got := with(func(s *Spec) { s.Arrival.Process, s.Concurrency = Closed, 1 }).Fingerprint(1); got != base {
		t.Error("what is filled in by default changes the fingerprint")
	}
	seen := map[string]int{base: -1, Default().Fingerprint(2): -2}
	for i, change := range []func(*Spec){
		func(s *Spec) { s.PromptTokens = FixedLength(513) },
		func(s *Spec) { s.OutputTokens = UniformLength(128, 129) },
		func(s *Spec) { s.ExactOutput = false },
		func(s *Spec) { s.Concurrency = 2 },
		func(s *Spec) { s.ThinkTime = FixedThink(1) },
		func(s *Spec) { s.ReusePrompts = true },
		func(s *Spec) { s.Arrival.Rate = 1 },
		func(s *Spec) { s.Arrival = Arrival{Process: Constant, Rate: 1} },
		func(s *Spec) { s.Arrival = Arrival{Process: Poisson, Rate: 1, MaxInFlight: 9} },
	} {
		f := with(change).Fingerprint(1)
		if j, dup := seen[f]; dup {
			t.Errorf("changes %d and %d have one fingerprint", i, j)
		}
		seen[f] = i
	}
}

func TestYAML(t *testing.T) {
	tests := []struct {
		name, text string
		want       Spec
		err        string
	}{
		{"nothing said", "{}", Default(), ""},
		{"numbers", "prompt_tokens: 100\noutput_tokens: 5\n", with(func(s *Spec) { s.PromptTokens, s.OutputTokens = FixedLength(100), FixedLength(5) }), ""},
		{"objects", "prompt_tokens: {dist: uniform, min: 3, max: 9}\noutput_tokens:\n  tokens: 5\n", with(func(s *Spec) { s.PromptTokens, s.OutputTokens = UniformLength(3, 9), FixedLength(5) }), ""},
		{"range", "prompt_tokens: 3..9\n", with(func(s *Spec) { s.PromptTokens = UniformLength(3, 9) }), ""},
		{"all else", "exact_output: false\narrival: {process: constant, rate: 2.5, max_in_flight: 7}\nthink_time: 250ms\nconcurrency: 3\nreuse_prompts: true\n",
			with(func(s *Spec) {
				s.ExactOutput, s.Arrival, s.ThinkTime, s.Concurrency, s.ReusePrompts = false, Arrival{Process: Constant, Rate: 2.5, MaxInFlight: 7}, FixedThink(250*time.Millisecond), 3, true
			}), ""},
		{"unknown key", "concurency: 3\n", Spec{}, `[1:1] unknown field "concurency"`},
		{"unknown key in a length", "exact_output: true\nprompt_tokens: {dist: uniform, low: 3}\n", Spec{}, `unknown field "low"`},
		{"not a length", "prompt_tokens: many\n", Spec{}, `[1:16] length "many" is neither a whole number`},
		{"a list", "prompt_tokens: [1, 2]\n", Spec{}, "prompt_tokens"},
		{"a fraction", "prompt_tokens: 1.5\n", Spec{}, `[1:16] length "1.5" is neither`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Default()
			err := yaml.NewDecoder(strings.NewReader(tt.text), yaml.Strict()).Decode(&got)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("err = %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What is written reads back the same.
func TestRoundTrip(t *testing.T) {
	for _, s := range []Spec{
		Default(),
		with(func(s *Spec) { s.PromptTokens, s.ThinkTime = UniformLength(3, 9), FixedThink(time.Minute) }),
		with(func(s *Spec) {
			s.Arrival = Arrival{Process: Constant, Rate: 0.1, MaxInFlight: 7}
			s.ExactOutput = false
			s.ReusePrompts = true
		}),
	} {
		y, err := yaml.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var fromYAML, fromJSON Spec
		if err := yaml.UnmarshalWithOptions(y, &fromYAML, yaml.Strict()); err != nil {
			t.Fatalf("%v in\n%s", err, y)
		}
		j, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(j, &fromJSON); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(s, fromYAML); diff != "" {
			t.Errorf("%s\n%s", y, diff)
		}
		if diff := cmp.Diff(s, fromJSON); diff != "" {
			t.Errorf("%s\n%s", j, diff)
		}
		var l Length
		if err := l.UnmarshalText([]byte(s.PromptTokens.String())); err != nil || !cmp.Equal(l, s.PromptTokens) {
			t.Errorf("%v became %v, %v", s.PromptTokens, l, err)
		}
	}
}

func FuzzLengthText(f *testing.F) {
	for _, s := range []string{"512", "1..2", "..", "-1", "1..2..3", "", "0x10", "99999999999999999999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var l, again Length
		if l.UnmarshalText([]byte(s)) != nil {
			return
		}
		if err := again.UnmarshalText([]byte(l.String())); err != nil || !cmp.Equal(again, l) {
			t.Fatalf("%q: %v became %v, %v", s, l, again, err)
		}
	})
}

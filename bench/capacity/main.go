// Command capacity holds the answers of assay capacity, in virtual time, against the
// truth: the rate at which the share of requests that meet the objective crosses
// the attainment in runs of many hours, found by bisection.
//
//	go run ./bench/capacity
//	go run ./bench/capacity -only cap -seeds 2 -hours 1
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/assay-bench/assay/internal/cli"
	"github.com/assay-bench/assay/result"
)

// problem is one server, workload and objective.
type problem struct {
	name string
	slo  string
	args []string
}

func problems() []problem {
	return []problem{
		{"a cap of 16 running requests, TTFT < 500 ms", "ttft=500ms,tpot=50ms", []string{"--max-num-seqs", "16"}},
		{"lognormal lengths, TTFT < 1 s and TPOT < 30 ms", "ttft=1s,tpot=30ms", []string{"--max-num-seqs", "32", "--prompt-tokens", "lognormal:mean=512,cv=1,max=4096", "--output-tokens", "lognormal:mean=128,cv=1,max=1024"}},
		{"bursty arrivals (gamma, CV 2), 90 %", "ttft=500ms,tpot=50ms", []string{"--max-num-seqs", "16", "--cv", "2", "--attainment", "0.9"}},
		{"TPOT alone limits", "tpot=12ms", nil},
	}
}

func main() {
	seeds := flag.Int("seeds", 3, "searches of each problem")
	hours := flag.Int("hours", 4, "virtual hours of every run behind the truth")
	only := flag.String("only", "", "the problems whose names hold this text")
	flag.Parse()
	if err := compare(*only, *seeds, *hours); err != nil {
		fmt.Fprintln(os.Stderr, "capacity:", err)
		os.Exit(1)
	}
}

func compare(only string, seeds, hours int) error {
	fmt.Println("| problem | seed | truth | passes | fails | answer off by | interval holds the truth | runs | virtual time |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|")
	for _, p := range problems() {
		if !strings.Contains(p.name, only) {
			continue
		}
		var found []result.Capacity
		for seed := 1; seed <= seeds; seed++ {
			var c result.Capacity
			if err := assay(&c, append([]string{"capacity", "--virtual", "--slo", p.slo, "--seed", strconv.Itoa(seed)}, p.args...)); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			if c.Pass == nil || c.Fail == nil {
				return fmt.Errorf("%s, seed %d: %s", p.name, seed, c.Text)
			}
			found = append(found, c)
		}
		truth, err := p.truth(*found[0].Pass, found[0].Attainment, hours)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		for _, c := range found {
			fmt.Printf("| %s | %d | %.2f | %g | %g | %+.1f %% | %v | %d | %.1f h |\n", p.name, c.Seed, truth, *c.Pass, *c.Fail,
				100*(*c.Pass/truth-1), *c.Pass <= truth && truth <= *c.Fail, c.Runs, c.Measured.Hours())
		}
	}
	return nil
}

// truth bisects the rate by the point estimates of two long runs, to 0.5 %.
func (p *problem) truth(near, attainment float64, hours int) (float64, error) {
	lo, hi := near/1.3, near*1.3
	for hi/lo > 1.005 {
		mid := math.Sqrt(lo * hi)
		share, err := p.share(mid, hours)
		if err != nil {
			return 0, err
		}
		if share >= attainment {
			lo = mid
		} else {
			hi = mid
		}
	}
	return math.Sqrt(lo * hi), nil
}

// share of requests that meet the objective at a rate.
func (p *problem) share(rate float64, hours int) (float64, error) {
	good, due := 0, 0
	for seed := 1001; seed <= 1002; seed++ {
		var r result.Run
		args := append([]string{
			"sim", "--virtual", "--slo", p.slo, "--seed", strconv.Itoa(seed), "--duration", fmt.Sprintf("%dh", hours),
			"--rate", strconv.FormatFloat(rate, 'f', 6, 64),
		}, p.args...)
		if err := assay(&r, args); err != nil {
			return 0, err
		}
		g := r.Stages[0].Goodput
		good, due = good+g.Good, due+g.Due
	}
	return float64(good) / float64(due), nil
}

// assay runs the command in this process and reads its report.
func assay(into any, args []string) error {
	dir, err := os.MkdirTemp("", "assay-capacity-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var out, complaints bytes.Buffer
	code := cli.Main(append(args, "--out", dir, "--json", "-q", "--fail-on", "none"), strings.NewReader(""), &out, &complaints)
	if code != 0 {
		return errors.New(strings.TrimSpace(complaints.String()))
	}
	return json.Unmarshal(out.Bytes(), into)
}

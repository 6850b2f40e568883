package replay_test

import (
	"fmt"
	"strings"

	"github.com/assay-bench/assay/engine"
	"github.com/assay-bench/assay/replay"
)

func Example() {
	recorded := `{"input_toks":512,"output_toks":101,"queued_ts":27.5,"first_token_ts":27.52,"last_token_ts":28.16}
{"input_toks":512,"output_toks":101,"queued_ts":30.1,"first_token_ts":30.12,"last_token_ts":30.76}`
	rows, err := replay.Read(strings.NewReader(recorded), "requests.jsonl", nil)
	if err != nil {
		panic(err)
	}
	v, err := replay.Run(engine.DefaultConfig(), rows)
	if err != nil {
		panic(err)
	}
	for _, f := range v.Figures {
		if f.Error != nil {
			fmt.Printf("%s: real %.1f ms, simulated %.1f ms\n", f.Name, f.Real.Mean, f.Simulated.Mean)
		}
	}
	// Output:
	// TTFT: real 20.0 ms, simulated 12.8 ms
	// TPOT: real 6.4 ms, simulated 6.6 ms
	// E2E: real 660.0 ms, simulated 668.2 ms
}

package dataset_test

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/assay-bench/assay/dataset"
)

func Example() {
	trace := `{"timestamp": 0, "input_length": 1100, "output_length": 64, "hash_ids": [5, 6, 901]}
{"timestamp": 3000, "input_length": 700, "output_length": 0, "hash_ids": [5, 77]}
`
	r, err := dataset.New(strings.NewReader(trace), "trace.jsonl", dataset.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	for {
		row, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(row.At, row.PromptTokens, row.OutputTokens, row.HashIDs, row.Failed)
	}
	// Output:
	// 0s 1100 64 [5 6 901] false
	// 3s 700 0 [5 77] true
}

func ExampleScan() {
	trace := "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n" +
		"12.0,GPT-4,310,42,352,API log\n14.0,GPT-4,77,0,77,API log\n22.0,GPT-4,100,20,120,API log\n"
	r, err := dataset.New(strings.NewReader(trace), "trace.csv", dataset.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := dataset.Scan(r)
	fmt.Println(s, err)
	// Output:
	// BurstGPT: 3 rows over 10s, 0.2/s (stamps in s, by the format); 1 failed; prompts mean 205, p50 100, p95 310, max 310 tokens; outputs mean 31, p50 20, p95 42, max 42 tokens <nil>
}

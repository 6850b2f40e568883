package report_test

import (
	"log"
	"os"
	"time"

	"github.com/assay-bench/assay/metric"
	"github.com/assay-bench/assay/report"
)

func ExampleTrace() {
	t, err := metric.NewTrace(0, []time.Duration{
		120 * time.Millisecond, 155 * time.Millisecond, 192 * time.Millisecond, 228 * time.Millisecond, 265 * time.Millisecond,
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := report.Trace(os.Stdout, &t, report.Options{ASCII: true}); err != nil {
		log.Fatal(err)
	}
	// Output:
	// REQUEST     5 tokens | milliseconds | one request: no sample, no percentiles
	// TTFT        120.0
	// ITL         [35 37 36 37]
	// TPOT        36.25 = (E2E - TTFT) / (n - 1), seed form
	// E2E         265.0 = TTFT + (n - 1) x TPOT = 120.0 + 4 x 36.25
	// user TPS    27.586 tokens/s = (n - 1) / (E2E - TTFT)
	// throughput  18.87 tokens/s = n / (T_last - T_first): output tokens, from sent to the last token
	//
	// CHECK       Databricks approximation TTFT + n x TPOT = 301.25, shown as a check only
	//             36.25 above the exact E2E, which is one TPOT: 20 % of n x TPOT (1/n), 25 % of the decode
	//             span (1/(n - 1)), 13.7 % of E2E
}

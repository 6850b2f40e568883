package stat_test

import (
	"fmt"
	"math"
	"slices"

	"github.com/assay-bench/assay/stat"
)

func ExampleQuantile() {
	sorted := []float64{120, 155, 192, 228, 265}
	fmt.Println(stat.Quantile(sorted, 0.9, stat.Type7), stat.Quantile(sorted, 0.9, stat.Type1))
	fmt.Println("p99 describable:", stat.Describable(len(sorted), 0.99))
	// Output:
	// 250.2 265
	// p99 describable: false
}

func ExampleOrderStatCI() {
	fmt.Println(stat.OrderStatCI(1000, 0.99, 0.95))
	fmt.Println(stat.OrderStatCI(367, 0.99, 0.95))
	// Output:
	// 983 997 true
	// 0 0 false
}

func ExampleQuantileInterval() {
	series := make([]float64, 200)
	for i := range series {
		series[i] = math.Mod(float64(i)*0.618034, 1)
	}
	sorted := slices.Sorted(slices.Values(series))
	v, ok := stat.QuantileInterval(series, sorted, 0.99, 0.95)
	fmt.Println(ok, v)
	// Output:
	// false no interval: the effective sample is too small for this quantile
}

func ExampleMinExactP() {
	p := stat.MinExactP(3, 3)
	fmt.Printf("3 against 3: p >= %.2f, hypotheses at 5 %%: %d\n", p, stat.HolmCapacity(0.05, p))
	// Output:
	// 3 against 3: p >= 0.10, hypotheses at 5 %: 0
}

package sched_test

import (
	"fmt"

	"github.com/assay-bench/assay/load/sched"
	"github.com/assay-bench/assay/record"
)

// An open loop of three requests, 10 ns apart, with one at most in flight.
func Example() {
	index := int64(0)
	requests := sched.SourceFunc(func() (record.Request, bool) {
		index++
		return record.Request{Index: index - 1}, true
	})
	s, err := sched.New(sched.Config{
		Gap:         func() int64 { return 10 },
		MaxInFlight: 1,
		MaxRequests: 3,
	}, requests)
	if err != nil {
		fmt.Println(err)
		return
	}
	show := func(now record.Stamp, actions []sched.Action) {
		for _, a := range actions {
			fmt.Printf("at %d: send request %d, scheduled %d\n", now, a.Request.Index, a.Scheduled)
		}
	}
	show(100, s.Start(100, nil))
	next, _ := s.NextWake()
	show(next, s.Wake(next, nil))
	show(127, s.Ended(127, 0, nil)) // 7 ns after the second was due
	show(131, s.Ended(131, 0, nil))
	ns, held := s.Capped()
	fmt.Printf("the cap held %d arrivals back, for %d ns\n", held, ns)
	// Output:
	// at 110: send request 0, scheduled 110
	// at 127: send request 1, scheduled 120
	// at 131: send request 2, scheduled 130
	// the cap held 2 arrivals back, for 8 ns
}

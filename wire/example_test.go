package wire_test

import (
	"fmt"

	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/wire"
)

// Two reads bring a chunked stream of three events; two of them share a read.
func ExampleDecoder() {
	var d wire.Decoder
	d.Reset(wire.SSE, wire.Transfer{Chunked: true}, 0, func(f wire.Frame) {
		fmt.Printf("%d %q coalesced=%v\n", f.At, f.Data, f.Flags.Has(record.FlagCoalesced))
	})
	feed := func(s string, at record.Stamp) {
		if err := d.Feed([]byte(s), wire.ReadStamp{At: at, Read: at}); err != nil {
			fmt.Println(err)
		}
	}
	feed("d\r\ndata: Hello\n\n\r\n", 100)
	feed("1b\r\ndata: world\n\ndata: [DONE]\n\n\r\n0\r\n\r\n", 200)
	fmt.Println("ended:", d.Ended())
	// Output:
	// 100 "Hello" coalesced=false
	// 200 "world" coalesced=true
	// 200 "[DONE]" coalesced=true
	// ended: true
}

package simserver_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/assay-bench/assay/simserver"
)

func Example() {
	srv, err := simserver.New(simserver.DefaultConfig()) // Llama-3.1-8B on one H100
	if err != nil {
		panic(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error)
	go func() { served <- srv.Serve(ctx, ln) }()

	body := `{"messages":[{"role":"user","content":"Hello"}],"max_tokens":3,"ignore_eos":true,"stream":true}`
	resp, err := http.Post("http://"+ln.Addr().String()+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	events, err := io.ReadAll(resp.Body)
	if err != nil {
		panic(err)
	}
	resp.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	stop()
	fmt.Println(strings.Count(string(events), "data: "), "events,", <-served)
	// Output: 5 events, <nil>
}

func ExampleParseFault() {
	fault, err := simserver.ParseFault("error-after=5; crlf")
	fmt.Println(fault.ErrorAfter, fault.CRLF, fault.TruncateAfter, err)
	_, err = simserver.ParseFault("giant=lots")
	fmt.Println(err)
	// Output:
	// 5 true -1 <nil>
	// fault "giant": "lots" is not a number from 1 to 268435456
}

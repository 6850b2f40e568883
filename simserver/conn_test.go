package simserver

import (
	"bytes"
	"context"
	"io"
	"net"
	"testing"
)

// FuzzConnection sends any bytes as a client that then leaves: the server
// neither panics nor hangs, and is well afterwards.
func FuzzConnection(f *testing.F) {
	f.Add([]byte("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\nGET /version HTTP/1.0\r\n\r\n"))
	f.Add([]byte("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 45\r\n\r\n{\"prompt\":\"x\",\"max_tokens\":3,\"stream\":true}  "))
	f.Add([]byte("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-Assay-Fault: crlf;merge=2\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n3b\r\n{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"max_tokens\":2}\r\n0\r\n\r\n"))
	f.Add([]byte("POST /tokenize HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 14\r\n\r\n{\"prompt\":\"x\"}"))
	f.Add([]byte("\r\n\r\nGET"))
	srv, err := New(fastConfig())
	if err != nil {
		f.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(context.Background(), ln) }()
	f.Cleanup(func() {
		ln.Close()
		if err := <-served; err == nil {
			f.Error("Serve returned no error though its listener was closed")
		}
	})
	f.Fuzz(func(t *testing.T, b []byte) {
		if bytes.Contains(b, []byte("drip")) || bytes.Contains(b, []byte("giant")) {
			return // right, but slow
		}
		client, server := net.Pipe()
		c := newConn(srv, server)
		done := make(chan struct{})
		go func() {
			defer close(done)
			c.serve()
		}()
		go io.Copy(io.Discard, client)
		client.Write(b)
		client.Close()
		<-done
	})
}

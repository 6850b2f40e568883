package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"

	"github.com/assay-bench/assay/internal/calibrate"
	"github.com/assay-bench/assay/internal/clock"
	"github.com/assay-bench/assay/internal/metronome"
)

// The roles of a child, its first argument.
const (
	roleServer = "-role=server"
	roleClient = "-role=client"
)

// job is what a client child is to do, its second argument.
type job struct {
	Client string
	Addr   string
	PID    int
	Load   calibrate.Load
	// Busy goroutines keep the client's own process busy.
	Busy int
}

// drives are the clients.
func drives() map[string]calibrate.Drive {
	return map[string]calibrate.Drive{
		"bare": calibrate.Bare, "assay": calibrate.Assay, "loop": calibrate.Loop, "scan": scanLines, "json": decodeJSON,
	}
}

// serve is the server child: it tells its address, and ends with its parent.
func serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	s, err := metronome.New()
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(ln.Addr())
	return s.Serve(ctx, ln)
}

// measure is the client child: it prints the figures.
func measure(ctx context.Context, text string) error {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	s, err := calibrate.NewSession(j.Addr, j.PID, j.Load, clock.Start())
	if err != nil {
		return err
	}
	for range j.Busy {
		go func() {
			for ctx.Err() == nil {
			}
		}()
	}
	f, err := s.Run(ctx, drives()[j.Client])
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(f)
}

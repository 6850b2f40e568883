package main

import (
	"context"
	"crypto/tls"
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
	TLS    bool
	PID    int
	Load   calibrate.Load
	// Midway asks for the memory in the middle of the load.
	Midway bool
	// Busy goroutines keep the client's own process busy.
	Busy int
}

// drives are the clients.
func drives() map[string]calibrate.Drive {
	return map[string]calibrate.Drive{
		"bare": calibrate.Bare, "assay": calibrate.Assay, "loop": calibrate.Loop, "scan": scanLines, "json": decodeJSON,
	}
}

// place is where the server child listens, its second argument.
type place struct {
	Listen string
	TLS    bool
}

// serve is the server child: it tells its address, and ends with its parent.
func serve(ctx context.Context, text string) error {
	var p place
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return err
	}
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
	if p.TLS {
		cert, err := metronome.Certificate()
		if err != nil {
			return err
		}
		s.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	}
	ln, err := net.Listen("tcp", p.Listen)
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
	s.TLS, s.Midway = j.TLS, j.Midway
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

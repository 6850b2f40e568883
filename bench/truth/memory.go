package main

import (
	"context"
	"fmt"
	"time"
	"unsafe"

	"github.com/assay-bench/assay/internal/calibrate"
	"github.com/assay-bench/assay/record"
)

// memoryStreams is the lower of the two concurrencies between which the memory of
// a stream is measured; the other is twice that.
const memoryStreams = 2000

// memoryLoad is slow: what counts are the streams, midway and silent.
func memoryLoad(streams int) calibrate.Load {
	l := calibrate.NewLoad(streams, time.Second, 0, false)
	l.Events, l.Replies = 4, 1
	return l
}

// memory measures what one more stream takes of the client's process: the
// difference between two concurrencies, after a collection, when every stream has
// had some of its events. What the process has anyway cancels out, and stored
// stamps are not counted.
func (b *bench) memory(ctx context.Context) error {
	fmt.Printf("\nMemory of a stream in KB: the difference between %d and %d streams; in use: heap and stacks; record: the part of it that is the attempt's record, which goes to disk; resident: pages of the process, with what the allocator keeps beside\n", memoryStreams, 2*memoryStreams)
	fmt.Printf("%-6s  %7s  %7s  %7s  %7s  %9s\n", "", "in use", "heap", "stacks", "record", "resident")
	for _, client := range b.clients {
		if client == "bare" {
			continue // it has next to none, and no collector that could say
		}
		var at [2]calibrate.Footprint
		for i := range at {
			f, err := b.childOf(ctx, job{Client: client, Load: memoryLoad(memoryStreams << i), Midway: true})
			if err != nil {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				return fmt.Errorf("memory: %w", err)
			}
			at[i] = f.Footprint
		}
		kb := func(from, to int64) float64 { return float64(to-from) / memoryStreams / 1024 }
		heap, stacks := kb(at[0].Heap, at[1].Heap), kb(at[0].Stacks, at[1].Stacks)
		kept := "·"
		if client == "assay" || client == "loop" {
			kept = fmt.Sprintf("%.2f", float64(unsafe.Sizeof(record.Attempt{}))/1024)
		}
		fmt.Printf("%-6s  %7.2f  %7.2f  %7.2f  %7s  %9.2f\n", client, heap+stacks, heap, stacks, kept, kb(at[0].Resident, at[1].Resident))
	}
	return nil
}

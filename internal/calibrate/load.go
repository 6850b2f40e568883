package calibrate

import (
	"fmt"
	"time"

	"github.com/assay-bench/assay/internal/metronome"
)

// Load is one steady load on a client.
type Load struct {
	// Streams at the same time, each with an event every Every.
	Streams int           `json:"streams"`
	Every   time.Duration `json:"every_ns"`
	// Events of one reply. When it has ended, its stream asks for the next one on
	// the same connection, Replies times in all.
	Events  int `json:"events"`
	Replies int `json:"replies"`
	// Size of an event in bytes on the wire.
	Size int `json:"size_bytes"`
	// Burst makes the events of all streams due at the same instant, as those of
	// a decode step are; else they are spread evenly.
	Burst bool `json:"burst,omitzero"`
}

// pause is how many intervals lie between the last event of a reply and the
// first of the next: one for the end of the reply, one for the new request.
const pause = 2

// NewLoad is about d of events for so many streams, in replies of about a second
// but at least ten events.
func NewLoad(streams int, every, d time.Duration, burst bool) Load {
	l := Load{Streams: streams, Every: every, Size: metronome.DefaultSize, Burst: burst}
	l.Events = max(10, int(time.Second/every))
	one := time.Duration(l.Events+pause) * every
	l.Replies = max(1, int((d+one/2)/one))
	return l
}

// Duration from the first event to the last, about.
func (l Load) Duration() time.Duration {
	return time.Duration(l.Replies*(l.Events+pause)-pause) * l.Every
}

// Rate is the events/s that are planned over the duration.
func (l Load) Rate() float64 {
	return float64(l.Streams*l.Events*l.Replies) / l.Duration().Seconds()
}

// String says the load in words.
func (l Load) String() string {
	how := "evenly spread"
	if l.Burst {
		how = "in bursts"
	}
	return fmt.Sprintf("%d streams, an event every %v, %s", l.Streams, l.Every, how)
}

// reply is what stream slot asks for as its nth reply. Start is when the held
// first replies start.
func (l Load) reply(slot, nth int, start int64) metronome.Load {
	at := int64(nth) * int64(l.Events+pause) * int64(l.Every)
	if !l.Burst {
		at += int64(slot) * int64(l.Every) / int64(l.Streams)
	}
	m := metronome.Load{ID: int64(l.index(slot, nth)), At: at, Events: l.Events, Every: l.Every, Size: l.Size, Held: nth == 0}
	if nth > 0 {
		m.At += start
	}
	return m
}

// index numbers the replies of all streams.
func (l Load) index(slot, nth int) int { return slot*l.Replies + nth }

package dataset

import (
	"encoding/json"
	"time"
)

// Unknown is the token count of a row that does not state it.
const Unknown = -1

// Row is one request of a trace: one turn of a conversation. Counts are Unknown
// and texts empty where the file does not have them.
type Row struct {
	// Line of the file where the row stands, from 1; of Parquet, the row's number.
	Line int64
	// At is the time since the first row, which may be negative where the file is
	// not in order of time. Timed says whether there is one at all.
	At    time.Duration
	Timed bool
	// Delay is how long after the end of the turn before this one is sent: think
	// time, or a tool's. 0 if not recorded.
	Delay time.Duration

	// PromptTokens is the whole prompt, history and system prompt included,
	// except in formats whose turns state their own text alone (guidellm's
	// columns, AIPerf's turns with the delta mode).
	PromptTokens int
	OutputTokens int
	// Images in the prompt.
	Images int

	// ID of the request, Parent of the one it follows; SessionID of the
	// conversation; Turn within it, from 1, 0 if the file does not number turns.
	ID, Parent, SessionID string
	Turn                  int
	// Client is who sent it, where that is recorded (ServeGen's chunks).
	Client string
	Model  string

	// HashIDs are the blocks of BlockSize tokens that the prompt is made of:
	// equal ids, equal tokens. With HashScope Local this holds within a session
	// only. See [Row.BlockSeed].
	HashIDs   []int64
	HashScope Scope
	BlockSize int

	// System prompt and Text of the user, or Messages if the row has the whole
	// conversation so far; Reply as recorded.
	System, Text, Reply string
	Messages            []Message
	// Body is the request as recorded, for OpenAI batch files and recorded bodies.
	Body json.RawMessage

	// Failed requests have a class of their own: no sample of a length.
	Failed bool
	// Copy tells apart the copies that [Superpose] laid over each other; ids and
	// hash ids mean something within a copy only.
	Copy int
	// Extra columns, with Options.KeepExtra. Values of JSON stand as written.
	Extra []Column

	stamp int64 // ns on the file's own clock
}

// Message of a conversation. Raw is the message as recorded, if that says more
// than role and text (images, tool calls); Content is then what text it has.
type Message struct {
	Role, Content string
	Raw           json.RawMessage
}

// Column is a name and a value that have no meaning here.
type Column struct{ Name, Value string }

// Scope is how far equal hash ids mean equal tokens.
type Scope uint8

const (
	// Global: in the whole file.
	Global Scope = iota
	// Local: within one session.
	Local
)

func (s Scope) String() string {
	if s == Local {
		return "local"
	}
	return "global"
}

// reset empties the row and keeps its memory.
func (r *Row) reset() {
	*r = Row{
		PromptTokens: Unknown,
		OutputTokens: Unknown,
		HashIDs:      r.HashIDs[:0],
		Messages:     r.Messages[:0],
		Extra:        r.Extra[:0],
	}
}

// BlockSeed is a number that stands for the tokens of block i under a seed: equal
// for equal blocks, on every machine and in every process. Ids of local scope are
// told apart by session, and all by copy.
func (r *Row) BlockSeed(seed uint64, i int) uint64 {
	h := mix(seed) ^ uint64(r.HashIDs[i])
	h = mix(h) ^ uint64(r.Copy)
	if r.HashScope == Local {
		h = mix(h) ^ hashString(r.SessionID)
	}
	return mix(h)
}

// mix is the finalizer of splitmix64 (Steele, Lea, Flood 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// hashString is FNV-1a, 64 bits.
func hashString[T string | []byte](s T) uint64 {
	h := uint64(0xcbf29ce484222325)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 0x100000001b3
	}
	return h
}

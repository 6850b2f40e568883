package dataset

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Options say how to read. The zero value finds out by itself what it can.
type Options struct {
	// Format, if it should not be detected.
	Format Format
	// Unit of the stamps, if format, names and values do not say it or are wrong.
	Unit Unit
	// Columns names the column, JSON key (a.b reaches into objects) or Parquet
	// column of a field; "#2" is the second column of a CSV. The file is then read
	// by columns, whatever its format; fields that are not named are looked for
	// under their usual names.
	Columns map[Field]string
	// BlockSize in tokens of a hash id, if the file does not say and the format
	// has another.
	BlockSize int
	// AnyBlocks delivers rows whose hash ids do not fit their input length.
	AnyBlocks bool
	// Require makes rows without these fields malformed, unless they failed: of time,
	// prompt_tokens and output_tokens.
	Require []Field
	// SkipBad skips malformed rows and counts them; see [Reader.Skipped].
	SkipBad bool
	// MaxSpan is the longest time between the first row and any other: 30 days if
	// 0, a year for BurstGPT. Negative: any.
	MaxSpan time.Duration
	// KeepExtra delivers columns that have no meaning here.
	KeepExtra bool
	// MaxRow is the size in bytes of the largest row: 64 MiB if 0.
	MaxRow int
	// Seed of the requests drawn from ServeGen's windows.
	Seed uint64
	// Dataset is the path of ServeGen's lengths: chunk-N-dataset.json beside
	// chunk-N-trace.csv if empty.
	Dataset string
}

const (
	defaultMaxRow  = 64 << 20
	defaultMaxSpan = 30 * 24 * time.Hour
)

// Unit of stamps.
type Unit string

// The units. Date is a date and a time of day, of UTC if it names no zone.
const (
	Seconds      Unit = "s"
	Milliseconds Unit = "ms"
	Microseconds Unit = "us"
	Nanoseconds  Unit = "ns"
	Date         Unit = "date"
)

// ns of one unit; 0 for Date and for what is none.
func (u Unit) ns() int64 {
	switch u {
	case Seconds:
		return 1e9
	case Milliseconds:
		return 1e6
	case Microseconds:
		return 1e3
	case Nanoseconds:
		return 1
	}
	return 0
}

// ParseUnit reads a unit.
func ParseUnit(s string) (Unit, error) {
	u := Unit(s)
	if u.ns() == 0 && u != Date {
		return "", fmt.Errorf("unit %q is none of s, ms, us, ns, date", s)
	}
	return u, nil
}

// Field is what a column can mean.
type Field string

// The fields.
const (
	FieldTime         Field = "time"
	FieldPromptTokens Field = "prompt_tokens"
	FieldOutputTokens Field = "output_tokens"
	FieldPrompt       Field = "prompt"
	FieldReply        Field = "reply"
	FieldSystem       Field = "system"
	FieldMessages     Field = "messages"
	FieldBody         Field = "body"
	FieldID           Field = "id"
	FieldParent       Field = "parent"
	FieldSession      Field = "session"
	FieldTurn         Field = "turn"
	FieldDelay        Field = "delay"
	FieldHashIDs      Field = "hash_ids"
	FieldHashScope    Field = "hash_scope"
	FieldBlockSize    Field = "block_size"
	FieldModel        Field = "model"
	FieldClient       Field = "client"
	FieldImages       Field = "images"
	FieldStatus       Field = "status" // of HTTP: 400 and more is a failure
	FieldFailed       Field = "failed" // true or 1
)

// usualNames of fields, as [normal] writes them, best first. Those of guidellm
// come from its column mapper, those of Vidur from its processed traces.
func usualNames() []struct {
	field Field
	names []string
} {
	return []struct {
		field Field
		names []string
	}{
		{FieldTime, []string{"timestamp", "time", "t", "ts", "arrived_at", "arrival_time", "arrival_timestamp",
			"arrival", "relative_timestamp", "created_at", "created", "request_time", "start_time", "datetime", "date"}},
		{FieldPromptTokens, []string{"prompt_tokens", "prompt_tokens_count", "input_tokens_count", "input_tokens",
			"contexttokens", "context_tokens", "request_tokens", "input_length", "prompt_length", "num_prefill_tokens",
			"num_prompt_tokens", "num_input_tokens", "prefill_tokens", "input_len", "prompt_len", "input_toks", "isl", "in"}},
		{FieldOutputTokens, []string{"output_tokens", "output_tokens_count", "completion_tokens_count", "completion_tokens",
			"generatedtokens", "generated_tokens", "response_tokens", "output_length", "response_length", "num_decode_tokens",
			"num_output_tokens", "decode_tokens", "output_len", "response_len", "output_toks", "osl", "out", "max_tokens"}},
		{FieldPrompt, []string{"prompt", "instruction", "question", "input", "context", "content", "text_input", "text"}},
		{FieldReply, []string{"response", "completion", "answer", "reply", "output"}},
		{FieldSystem, []string{"system_prompt", "system", "prefix"}},
		{FieldMessages, []string{"messages", "conversation", "conversations"}},
		{FieldBody, []string{"body", "payload", "request_body", "request"}},
		{FieldID, []string{"id", "custom_id", "request_id", "chat_id"}},
		{FieldParent, []string{"parent_chat_id", "parent_id", "parent"}},
		{FieldSession, []string{"session_id", "conversation_id", "conversation_hash", "session"}},
		{FieldTurn, []string{"turn", "turn_id", "turn_index"}},
		{FieldDelay, []string{"delay", "think_time"}},
		{FieldHashIDs, []string{"hash_ids", "block_hashes"}},
		{FieldHashScope, []string{"hash_id_scope"}},
		{FieldBlockSize, []string{"block_size", "hash_id_block_size"}},
		{FieldModel, []string{"model"}},
		{FieldClient, []string{"client", "client_id", "user", "user_id"}},
		{FieldImages, []string{"numimages", "num_images"}},
		{FieldStatus, []string{"status_code", "http_status"}},
		{FieldFailed, []string{"failed", "is_failed"}},
	}
}

// normal writes a column's name in lower case with one _ for all that is no letter
// or digit between others: "Request tokens" is request_tokens, "Time (ms)" time_ms.
func normal(name string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(name), func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r > 127)
	}), "_")
}

// unitOfName is the unit that a column's name ends in, and the rest of the name.
func unitOfName(name string) (string, Unit) {
	for _, end := range []struct {
		suffix string
		unit   Unit
	}{
		{"_ms", Milliseconds}, {"_us", Microseconds}, {"_ns", Nanoseconds},
		{"_s", Seconds}, {"_sec", Seconds}, {"_secs", Seconds}, {"_seconds", Seconds},
		{"_millis", Milliseconds}, {"_milliseconds", Milliseconds}, {"_micros", Microseconds}, {"_nanos", Nanoseconds},
	} {
		if rest, ok := strings.CutSuffix(name, end.suffix); ok {
			return rest, end.unit
		}
	}
	return name, ""
}

// columnOf is a column that is read: its place and what it means.
type columnOf struct {
	field Field
	index int
	name  string
	turn  int // k of prompt_k, from 0; -1 if the name has none
}

// resolve says what each named column means: by the user's map, else by its
// usual names. A column has one meaning, and a field one column (one a turn).
func resolve(names []string, given map[Field]string) ([]columnOf, error) {
	var out []columnOf
	used := make([]bool, len(names))
	for _, u := range usualNames() {
		name, ok := given[u.field]
		if !ok {
			continue
		}
		i, err := findColumn(names, name)
		if err != nil {
			return nil, fmt.Errorf("field %s: %w", u.field, err)
		}
		used[i] = true
		out = append(out, columnOf{u.field, i, names[i], -1})
	}
	for f := range given {
		if !knownField(f) {
			return nil, errField(f)
		}
	}
	for _, u := range usualNames() {
		if _, ok := given[u.field]; ok {
			continue
		}
		for _, c := range usual(names, u.field, u.names) {
			if !used[c.index] {
				used[c.index] = true
				out = append(out, c)
			}
		}
	}
	return out, nil
}

// usual finds the columns of a field: that of its best name, or of all its turns.
func usual(names []string, f Field, usual []string) []columnOf {
	for _, want := range usual {
		var turns []columnOf
		for i, name := range names {
			n := normal(name)
			if f == FieldTime || f == FieldDelay {
				if rest, unit := unitOfName(n); unit != "" {
					n = rest
				}
			}
			if n == want {
				return []columnOf{{f, i, name, -1}}
			}
			if k, ok := turnOf(n, want); ok {
				turns = append(turns, columnOf{f, i, name, k})
			}
		}
		if len(turns) > 0 {
			return turns
		}
	}
	return nil
}

// turnOf is k if name is want_k.
func turnOf(name, want string) (int, bool) {
	rest, ok := strings.CutPrefix(name, want+"_")
	if !ok || rest == "" || len(rest) > 4 {
		return 0, false
	}
	k := 0
	for _, c := range rest {
		if c < '0' || c > '9' {
			return 0, false
		}
		k = k*10 + int(c-'0')
	}
	return k, true
}

func errField(f Field) error {
	var names []string
	for _, u := range usualNames() {
		names = append(names, string(u.field))
	}
	return fmt.Errorf("there is no field %q: there are %s", f, strings.Join(names, ", "))
}

func knownField(f Field) bool {
	return slices.ContainsFunc(usualNames(), func(u struct {
		field Field
		names []string
	}) bool {
		return u.field == f
	})
}

// findColumn by exact name, by its normal form, or by number ("#2").
func findColumn(names []string, name string) (int, error) {
	if i := slices.Index(names, name); i >= 0 {
		return i, nil
	}
	for i, n := range names {
		if normal(n) == normal(name) {
			return i, nil
		}
	}
	var k int
	if _, err := fmt.Sscanf(name, "#%d", &k); err == nil && k >= 1 && k <= len(names) {
		return k - 1, nil
	}
	return 0, fmt.Errorf("there is no column %q (there are %s)", name, listed(names))
}

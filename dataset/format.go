package dataset

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Format of a file.
type Format string

// The formats. Columns is any CSV, JSON or Parquet that is read by the names of
// its columns: guidellm's, Vidur's processed traces, LMSYS, WildChat, and what
// [Options].Columns describes.
const (
	Azure       Format = "azure"        // Azure LLM 2023, 2024 and LMM 2025: CSV
	BurstGPT    Format = "burstgpt"     // v1 and v2, by the names of the header: CSV
	ServeGen    Format = "servegen"     // chunk-N-trace.csv and chunk-N-dataset.json
	Mooncake    Format = "mooncake"     // JSON lines, and AIPerf's extensions of it
	Bailian     Format = "bailian"      // Qwen-Bailian: JSON lines
	Weka        Format = "weka"         // one JSON object a session
	ShareGPT    Format = "sharegpt"     // a JSON array of conversations
	VLLMCustom  Format = "vllm-custom"  // JSON lines of prompt and output_tokens
	SingleTurn  Format = "aiperf-turn"  // AIPerf single_turn: JSON lines
	MultiTurn   Format = "aiperf-turns" // AIPerf multi_turn: JSON lines
	OpenAIBatch Format = "openai-batch" // JSON lines of custom_id, method, url, body
	Bodies      Format = "bodies"       // recorded request bodies: JSON lines
	Text        Format = "text"         // a prompt a line; only where it is named
	Columns     Format = "columns"
)

// container is what a format is written in.
type container string

const (
	inCSV     container = "CSV"
	inJSON    container = "JSON"
	inParquet container = "Parquet"
	inText    container = "text"
	inAny     container = "CSV, JSON or Parquet"
)

// shape is what is known of a format without looking into the file.
type shape struct {
	format  Format
	in      container
	title   string
	unit    Unit          // of its stamps, by its documentation
	block   int           // tokens a hash id
	maxSpan time.Duration // if longer than the default
	strict  bool          // its counts and stamps must not be empty
}

func shapes() []shape {
	const year = 366 * 24 * time.Hour
	return []shape{
		{format: Azure, in: inCSV, title: "Azure LLM inference trace", unit: Date, strict: true},
		{format: BurstGPT, in: inCSV, title: "BurstGPT", unit: Seconds, maxSpan: year},
		{format: ServeGen, in: inCSV, title: "ServeGen client", unit: Seconds, strict: true},
		{format: Mooncake, in: inJSON, title: "Mooncake trace", unit: Milliseconds, block: 512},
		{format: Bailian, in: inJSON, title: "Qwen-Bailian trace", unit: Seconds, block: 16, strict: true},
		{format: Weka, in: inJSON, title: "Weka coding sessions", unit: Seconds, block: 64},
		{format: ShareGPT, in: inJSON, title: "ShareGPT conversations"},
		{format: VLLMCustom, in: inJSON, title: "vLLM custom dataset"},
		{format: SingleTurn, in: inJSON, title: "AIPerf single_turn", unit: Milliseconds},
		{format: MultiTurn, in: inJSON, title: "AIPerf multi_turn", unit: Milliseconds},
		{format: OpenAIBatch, in: inJSON, title: "OpenAI batch file"},
		{format: Bodies, in: inJSON, title: "recorded request bodies"},
		{format: Text, in: inText, title: "prompts, one a line"},
		{format: Columns, in: inAny, title: "by column names"},
	}
}

func shapeOf(f Format) shape {
	for _, s := range shapes() {
		if s.format == f {
			return s
		}
	}
	return shape{}
}

// Title of the format, for people.
func (f Format) Title() string { return shapeOf(f).title }

// ParseFormat reads the name of a format, or one that people use for it; auto and
// the empty name are detection.
func ParseFormat(name string) (Format, error) {
	n := strings.ToLower(name)
	switch n {
	case "", "auto":
		return "", nil
	case "csv", "jsonl", "json", "parquet", "guidellm", "vidur":
		return Columns, nil
	case "azure2023", "azure2024", "azure2025", "azure-llm", "azure-lmm":
		return Azure, nil
	case "single_turn", "single-turn", "aiperf":
		return SingleTurn, nil
	case "multi_turn", "multi-turn":
		return MultiTurn, nil
	case "mooncake_trace", "mooncake-trace":
		return Mooncake, nil
	case "qwen-bailian", "bailian_trace":
		return Bailian, nil
	case "vllm", "vllm_custom":
		return VLLMCustom, nil
	case "batch":
		return OpenAIBatch, nil
	case "txt", "lines":
		return Text, nil
	}
	if shapeOf(Format(n)).format != "" {
		return Format(n), nil
	}
	var names []string
	for _, s := range shapes() {
		names = append(names, string(s.format))
	}
	return "", fmt.Errorf("%w %q: there are %s", ErrFormat, name, strings.Join(names, ", "))
}

// sniff is what the beginning of a file shows.
type sniff struct {
	in     container
	format Format
	comma  byte     // CSV
	header bool     // CSV: the first line is names
	names  []string // CSV: the header; JSON: the keys of the first objects
}

// maxSniff is how much of a file is looked at to find its format.
const maxSniff = 64 << 10

// look finds the container and the format of a file by its first bytes.
func look(head []byte) (sniff, error) {
	if bytes.HasPrefix(head, []byte("PAR1")) {
		return sniff{in: inParquet, format: Columns}, nil
	}
	text := bytes.TrimLeft(head, " \t\r\n")
	switch {
	case len(text) == 0:
		return sniff{}, fmt.Errorf("%w: the file is empty", ErrFormat)
	case isUTF16(head):
		return sniff{}, errUTF16
	case text[0] == '{' || text[0] == '[':
		return lookJSON(text), nil
	case bytes.IndexByte(head, 0) >= 0:
		return sniff{}, fmt.Errorf("%w: binary data that is neither Parquet nor gzip nor zstd", ErrFormat)
	case bytes.IndexByte(head, '\n') < 0 && bytes.IndexByte(bytes.TrimRight(head, "\r"), '\r') >= 0:
		return sniff{}, fmt.Errorf("%w: lines end in a carriage return alone (convert the file: tr '\\r' '\\n')", ErrFormat)
	case bytes.HasPrefix(head, []byte("version https://git-lfs.github.com/")):
		return sniff{}, fmt.Errorf("%w: this is a pointer of Git LFS, not the file itself (git lfs pull)", ErrFormat)
	}
	return lookCSV(head)
}

// isUTF16 reports whether text is in two bytes a character: it has the mark of it, or
// every other of its first bytes is 0.
func isUTF16(head []byte) bool {
	if bytes.HasPrefix(head, []byte("\xff\xfe")) || bytes.HasPrefix(head, []byte("\xfe\xff")) {
		return true
	}
	n := min(len(head), 64) &^ 1
	if n < 4 {
		return false
	}
	zero := [2]int{}
	for i, c := range head[:n] {
		if c == 0 {
			zero[i%2]++
		}
	}
	return zero[0]+zero[1] >= n/2-1 && (zero[0] == 0 || zero[1] == 0)
}

func lookCSV(head []byte) (sniff, error) {
	line, _, _ := bytes.Cut(bytes.TrimLeft(head, "\r\n"), []byte("\n"))
	line = bytes.TrimSuffix(line, []byte("\r"))
	s := sniff{in: inCSV, format: Columns, comma: ','}
	for _, c := range []byte{'\t', ';', '|'} {
		if bytes.IndexByte(line, s.comma) < 0 && bytes.IndexByte(line, c) >= 0 {
			s.comma = c
		}
	}
	fields, open, err := splitFields(line, s.comma, nil)
	if err != nil {
		return s, fmt.Errorf("%w: first line: %w", ErrFormat, err)
	}
	if open >= 0 {
		fields = append(fields, line[open:]) // it goes on, and is no number
	}
	numbers := 0
	for _, f := range fields {
		s.names = append(s.names, string(f))
		if isNumber(f) {
			numbers++
		}
	}
	s.header = numbers == 0
	if !s.header {
		if len(fields) == 6 && numbers >= 3 && slices.Contains([]string{"Gamma", "Weibull", ""}, s.names[3]) {
			s.format = ServeGen
			return s, nil
		}
		for i := range s.names {
			s.names[i] = fmt.Sprintf("#%d", i+1)
		}
		return s, nil
	}
	var names []string
	for _, n := range s.names {
		names = append(names, normal(n))
	}
	has := func(want ...string) bool { return containsAll(names, want) }
	switch {
	case has("timestamp", "contexttokens", "generatedtokens"):
		s.format = Azure
	case has("timestamp", "request_tokens", "response_tokens"):
		s.format = BurstGPT
	}
	return s, nil
}

// lookJSON collects the keys of the objects in the head and tells formats by them.
func lookJSON(text []byte) sniff {
	s := sniff{in: inJSON, format: Columns}
	kind := "" // AIPerf's type, where an object names it
	for n := 0; n < 100; n++ {
		start := bytes.IndexByte(text, '{')
		if start < 0 {
			break
		}
		o := objectScanner{b: text, i: start}
		for o.next() {
			key := string(o.key)
			if !slices.Contains(s.names, key) {
				s.names = append(s.names, key)
			}
			if n == 0 && key == "type" {
				kind = strings.Trim(string(o.val), `"`)
			}
		}
		if o.err != nil {
			// The head ends in the midst of an object, or the object is broken: the
			// key that was being read still counts.
			if len(o.key) > 0 && !slices.Contains(s.names, string(o.key)) {
				s.names = append(s.names, string(o.key))
			}
			nl := bytes.IndexByte(text[min(o.i, len(text)):], '\n')
			if nl < 0 {
				break
			}
			text = text[min(o.i, len(text))+nl:]
			continue
		}
		text = text[o.i:]
	}
	has := func(want ...string) bool { return containsAll(s.names, want) }
	switch {
	case kind == "single_turn":
		s.format = SingleTurn
	case kind == "multi_turn", has("turns"):
		s.format = MultiTurn
	case kind == "mooncake_trace":
		s.format = Mooncake
	case has("conversations"):
		s.format = ShareGPT
	case has("custom_id", "body"):
		s.format = OpenAIBatch
	case has("requests") && (has("block_size") || has("hash_id_scope") || has("models")):
		s.format = Weka
	case has("chat_id", "timestamp", "input_length"):
		s.format = Bailian
	case has("input_length") || has("text_input") || has("messages", "output_length") || has("payload"):
		s.format = Mooncake
	case has("model") && (has("messages") || has("prompt") || has("input") || has("contents")):
		s.format = Bodies
	case has("texts") || has("text") && !has("prompt") && (has("delay") || has("timestamp") || has("output_length") || has("role")):
		s.format = SingleTurn
	case has("prompt", "output_tokens"):
		s.format = VLLMCustom
	}
	return s
}

func containsAll(names, want []string) bool {
	for _, w := range want {
		if !slices.Contains(names, w) {
			return false
		}
	}
	return true
}

package rundir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"
)

// PeerFile is what the result file of another tool says of single requests.
type PeerFile struct {
	// Tool that wrote it, and Part the name of one of several benchmarks in a file.
	Tool, Part string
	Rows       []PeerRow
	// Failed requests that the file names; they have no row.
	Failed int
	// Notes say what the tool's figures mean, and which of its known faults show.
	Notes []string
}

// PeerRow is one completed request.
type PeerRow struct {
	RequestRow
	// Start since an unknown moment, the same for all rows; 0 is not known.
	Start time.Duration
}

// errNotPeer says that the bytes are of no tool that is known.
var errNotPeer = errors.New("neither a CSV with a known header nor the result file of a known tool " +
	"(vllm bench serve --save-detailed, AIPerf profile_export.jsonl, GuideLLM, inference-perf per_request_lifecycle_metrics.json, llmperf individual responses)")

// IsPeer reports whether a file begins as JSON does.
func IsPeer(head []byte) bool {
	head = bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")), " \t\r\n")
	return len(head) > 0 && (head[0] == '{' || head[0] == '[')
}

// ReadPeer reads a result file of another tool, known by its keys. Errors name
// the file, and the line where there are lines.
func ReadPeer(r io.Reader, name string) ([]PeerFile, error) {
	b, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	b = bytes.TrimSpace(bytes.TrimPrefix(b, []byte("\xef\xbb\xbf")))
	files, err := peerOf(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for i := range files {
		f := &files[i]
		if len(f.Rows) == 0 {
			return nil, fmt.Errorf("%s: %s: no completed request is in it (%d failed)", name, f.Tool, f.Failed)
		}
	}
	return files, nil
}

func peerOf(b []byte) ([]PeerFile, error) {
	if len(b) > 0 && b[0] == '[' {
		return peerArray(b)
	}
	var keys map[string]json.RawMessage
	first, _, several := bytes.Cut(b, []byte("\n"))
	err := json.Unmarshal(b, &keys)
	if err != nil && several { // one object a line
		err = json.Unmarshal(first, &keys)
	}
	if err != nil {
		return nil, jsonError(b, err)
	}
	has := func(key string) bool { _, ok := keys[key]; return ok }
	switch {
	case has("metadata") && has("metrics"):
		return one(aiperf(b))
	case has("ttfts") && has("itls"):
		return one(vllmDetailed(b))
	case has("mean_ttft_ms") && has("total_output_tokens"):
		return nil, errors.New("vllm bench serve, saved without --save-detailed: it has aggregates alone, of which nothing can be recomputed")
	case has("benchmarks"):
		return guidellm(b)
	}
	return nil, errNotPeer
}

func one(f PeerFile, err error) ([]PeerFile, error) { return []PeerFile{f}, err }

func peerArray(b []byte) ([]PeerFile, error) {
	var list []map[string]json.RawMessage
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, jsonError(b, err)
	}
	if len(list) == 0 {
		return nil, errors.New("an empty list")
	}
	has := func(key string) bool { _, ok := list[0][key]; return ok }
	switch {
	case has("ttft_s") || has("end_to_end_latency_s"):
		return one(llmperf(b))
	case has("start_time") && has("info"):
		return one(inferencePerf(b))
	}
	return nil, errNotPeer
}

// jsonError adds the line and column at which JSON went wrong.
func jsonError(b []byte, err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	offset := int64(-1)
	switch {
	case errors.As(err, &syntax):
		offset = syntax.Offset
	case errors.As(err, &kind):
		offset = kind.Offset
	}
	if offset < 0 || offset > int64(len(b)) {
		return err
	}
	before := b[:offset]
	line := bytes.Count(before, []byte("\n")) + 1
	column := len(before) - bytes.LastIndexByte(before, '\n') - 1
	return fmt.Errorf("line %d, column %d: %w", line, column, err)
}

func seconds(s float64) time.Duration { return time.Duration(math.Round(s * 1e9)) }

// add a row, unless it contradicts itself: then it is counted.
func (f *PeerFile) add(r PeerRow, odd *int) {
	if r.TTFT < 0 || r.E2E < r.TTFT || r.PromptTokens < 0 || r.CompletionTokens < 0 || r.CompletionTokens > 0 && r.E2E <= 0 {
		*odd++
		return
	}
	f.Rows = append(f.Rows, r)
}

// note adds a sentence with a count, if there is any.
func (f *PeerFile) note(n int, format string) {
	if n > 0 {
		f.Notes = append(f.Notes, fmt.Sprintf(format, n))
	}
}

const oddRows = "%d rows contradict themselves (TTFT above E2E, a negative time or count, tokens without time) and are left out"

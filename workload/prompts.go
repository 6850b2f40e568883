package workload

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"unsafe"

	"github.com/assay-bench/assay/dataset"
	"github.com/assay-bench/assay/record"
)

// Prompts are what a file has to say, in place of synthetic texts. Their lengths in
// tokens are the server's to count: they are observed, not asked for.
type Prompts struct {
	// File of prompts: any format with texts that package dataset reads, or text with
	// a prompt a line (.txt, or format: text).
	File string `yaml:"file" json:"file"`
	// SHA256 of the file in hexadecimal; part of the fingerprint, in place of the
	// file's name, if it is there.
	SHA256 string `yaml:"sha256,omitempty" json:"sha256,omitzero"`
	// Format and Columns as those of a [Trace].
	Format  string            `yaml:"format,omitempty" json:"format,omitzero"`
	Columns map[string]string `yaml:"columns,omitempty" json:"columns,omitempty"`
	// SkipBad leaves malformed rows out, and counts them.
	SkipBad bool `yaml:"skip_bad,omitempty" json:"skip_bad,omitzero"`
	// Order is shuffled (if left out), by the seed, or file. When all were sent they
	// go round.
	Order string `yaml:"order,omitempty" json:"order,omitzero"`
}

// The orders of prompts.
const (
	Shuffled  = "shuffled"
	FileOrder = "file"
)

// check passes what is wrong to field, by its name.
func (x *Prompts) check(field func(string, error)) {
	if x.File == "" {
		field("prompts.file", errors.New("none is named"))
	}
	if _, err := dataset.ParseFormat(x.Format); err != nil {
		field("prompts.format", err)
	}
	if x.Order != "" && x.Order != Shuffled && x.Order != FileOrder {
		field("prompts.order", fmt.Errorf("%q is neither shuffled nor file", x.Order))
	}
}

func (x *Prompts) describe() string {
	order := "shuffled"
	if x.Order == FileOrder {
		order = "in its order"
	}
	return fmt.Sprintf("prompts of %s, %s", filepath.Base(x.File), order)
}

// PromptFile is a file of prompts, read once to see what is in it.
type PromptFile struct {
	// Prompts that may be sent, and Skipped rows that were malformed, the first of
	// them for the reason FirstSkipped. LaterTurns of conversations are left out:
	// theirs is a history that is not there yet; and so are rows without a Text.
	Prompts, Skipped, LaterTurns, NoText int64
	FirstSkipped                         error
	// Bodies are requests as recorded; of them Chats have messages and Texts a prompt.
	Bodies, Chats, Texts int64
	// Talks are prompts of more than a system prompt and one message.
	Talks int64
	// Outputs is how many say how long the reply was or may be.
	Outputs int64
	// Bytes of all texts, and of the longest.
	Bytes   int64
	Longest int
	// SHA256 of the file, in hexadecimal.
	SHA256 string

	spec Prompts
	o    dataset.Options
}

// ownPrompt is a prompt of a file, with about how many tokens it has: as many as the
// file says, else by the bytes of its text, without the rest of a recorded body.
type ownPrompt struct {
	prompt record.Prompt
	bytes  int
	tokens int
	output int // dataset.Unknown if not recorded
}

// ErrNoText: there is no prompt in a file of prompts.
var ErrNoText = errors.New("no row has a text")

// OpenPrompts reads the prompts of a workload through, and finds all that is wrong.
func OpenPrompts(spec Spec) (*PromptFile, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	if spec.Prompts == nil {
		return nil, errors.New("the workload has no prompts of its own")
	}
	f := &PromptFile{spec: *spec.Prompts}
	var err error
	if f.o, err = datasetOptions(f.spec.Format, f.spec.Columns); err != nil {
		return nil, fmt.Errorf("prompts: %w", err)
	}
	f.o.SkipBad, f.o.AnyBlocks, f.o.MaxSpan = f.spec.SkipBad, true, -1
	if f.o.Format == "" && IsText(f.spec.File) {
		f.o.Format = dataset.Text
	}
	if f.SHA256, err = hashFile(f.spec.File, f.spec.SHA256); err != nil {
		return nil, fmt.Errorf("prompts: %w", err)
	}
	if err = f.survey(); err != nil {
		return nil, fmt.Errorf("prompts: %w", err)
	}
	return f, nil
}

// IsText reports whether a file has a prompt a line by its name: .txt, packed or not.
func IsText(file string) bool {
	return strings.HasSuffix(strings.TrimSuffix(strings.TrimSuffix(file, ".gz"), ".zst"), ".txt")
}

func (f *PromptFile) survey() error {
	r, err := dataset.Open(f.spec.File, f.o)
	if err != nil {
		return err
	}
	defer r.Close()
	for {
		row, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		f.count(row)
	}
	f.Skipped, f.FirstSkipped = r.Skipped()
	if f.Prompts == 0 {
		return fmt.Errorf("%s: %w", f.spec.File, ErrNoText)
	}
	return nil
}

func (f *PromptFile) count(row *dataset.Row) {
	p, ok := promptOf(row)
	switch {
	case row.Turn > 1:
		f.LaterTurns++
		return
	case !ok:
		f.NoText++
		return
	}
	f.Prompts++
	f.Bytes += int64(p.bytes)
	f.Longest = max(f.Longest, p.bytes)
	if p.output > 0 {
		f.Outputs++
	}
	switch m := p.prompt.Messages; {
	case p.prompt.Body != nil:
		f.Bodies++
		var body struct{ Messages, Prompt json.RawMessage }
		_ = json.Unmarshal(p.prompt.Body, &body) // it was read before
		if body.Messages != nil {
			f.Chats++
		}
		if body.Prompt != nil {
			f.Texts++
		}
	case len(m) > 2 || len(m) == 2 && m[0].Role != "system" || len(m) == 1 && m[0].Role != "user":
		f.Talks++
	}
}

// promptOf is the prompt of a row; false if it has none.
func promptOf(row *dataset.Row) (ownPrompt, bool) {
	p := ownPrompt{output: row.OutputTokens}
	if p.output == dataset.Unknown && row.Reply != "" {
		p.output = estimate(row.Reply)
	}
	switch {
	case row.Turn > 1:
		return p, false
	case row.Body != nil:
		p.prompt.Body = row.Body
	case len(row.Messages) > 0:
		var raw []json.RawMessage
		for _, m := range row.Messages {
			p.prompt.Messages = append(p.prompt.Messages, record.Message{Role: m.Role, Content: m.Content})
			one := m.Raw
			if one == nil {
				one, _ = json.Marshal(p.prompt.Messages[len(p.prompt.Messages)-1]) // strings
			} else {
				p.prompt.Body = []byte{}
			}
			raw = append(raw, one)
		}
		if p.prompt.Body != nil {
			// Parts that are no text, or calls of tools: sent as recorded.
			p.prompt = record.Prompt{Body: messagesBody(raw)}
		}
	case row.Text == "":
		return p, false
	case row.System != "":
		p.prompt.Messages = []record.Message{{Role: "system", Content: row.System}, {Role: "user", Content: row.Text}}
	default:
		p.prompt.Text = row.Text
	}
	p.bytes = len(p.prompt.Text) + len(p.prompt.Body)
	for _, m := range p.prompt.Messages {
		p.bytes += len(m.Content)
	}
	if p.tokens = row.PromptTokens; p.tokens < 1 {
		text := len(row.System) + len(row.Text)
		for _, m := range row.Messages {
			text += len(m.Content)
		}
		p.tokens = max((text+bytesPerToken-1)/bytesPerToken, 1)
	}
	return p, true
}

func messagesBody(messages []json.RawMessage) []byte {
	b, _ := json.Marshal(map[string]any{"messages": messages}) // they were JSON
	return b
}

// Fits says whether a chat, or else a completion, can take these prompts.
func (f *PromptFile) Fits(chat bool) error {
	switch {
	case chat && f.Bodies > f.Chats:
		return fmt.Errorf("%s: %d of %d recorded bodies have no messages: they are no chat", f.spec.File, f.Bodies-f.Chats, f.Bodies)
	case !chat && f.Bodies > f.Texts:
		return fmt.Errorf("%s: %d of %d recorded bodies have no prompt: they are no completion", f.spec.File, f.Bodies-f.Texts, f.Bodies)
	case !chat && f.Talks > 0:
		return fmt.Errorf("%s: %d of %d prompts are conversations: a completion takes none", f.spec.File, f.Talks, f.Prompts)
	}
	return nil
}

// Note says what is in the file.
func (f *PromptFile) Note() string {
	var b strings.Builder
	if f.Prompts == 1 {
		fmt.Fprintf(&b, "1 prompt of %d bytes", f.Bytes)
	} else {
		fmt.Fprintf(&b, "%d prompts, %d bytes on average and %d at most", f.Prompts, f.Bytes/f.Prompts, f.Longest)
	}
	for _, n := range []struct {
		n         int64
		one, many string
	}{
		{f.Bodies, "is a request body as recorded", "are request bodies as recorded"},
		{f.LaterTurns, "later turn of a conversation is left out (for whole conversations: --trace)", "later turns of conversations are left out (for whole conversations: --trace)"},
		{f.NoText, "row without a text is left out", "rows without a text are left out"},
	} {
		switch n.n {
		case 0:
		case 1:
			b.WriteString("; 1 " + n.one)
		default:
			fmt.Fprintf(&b, "; %d %s", n.n, n.many)
		}
	}
	return b.String()
}

// heldPrompts is how many bytes of prompts are shuffled at once: of a larger file,
// a prompt comes near the place where it stands. Each counts besides for what holds it.
const (
	heldPrompts = 128 << 20
	holding     = int(unsafe.Sizeof(ownPrompt{}))
)

// promptReader gives the prompts of a file in order, or shuffled, round and round.
type promptReader struct {
	f    *PromptFile
	rng  *rand.Rand // nil for the order of the file
	src  *dataset.Reader
	held []ownPrompt
	size int
	n    int // of this round
}

func (f *PromptFile) reader(seed uint64) *promptReader {
	r := &promptReader{f: f}
	if f.spec.Order != FileOrder {
		r.rng = rand.New(stream(seed, "prompts"))
	}
	return r
}

// next is the next prompt. An error is one that was not there when the file was
// read through.
func (r *promptReader) next() (ownPrompt, error) {
	if err := r.fill(); err != nil {
		return ownPrompt{}, err
	}
	k := 0
	if r.rng != nil {
		k = r.rng.IntN(len(r.held))
	}
	p := r.held[k]
	last := len(r.held) - 1
	r.held[k], r.held[last] = r.held[last], ownPrompt{}
	r.held = r.held[:last]
	r.size -= p.bytes + holding
	return p, nil
}

// fill holds as many prompts as may be, and at least one.
func (r *promptReader) fill() error {
	for len(r.held) == 0 || r.rng != nil && r.size < heldPrompts {
		if r.src == nil {
			if len(r.held) > 0 {
				return nil // the rest of this round comes first
			}
			if each := int(r.f.Bytes/r.f.Prompts) + holding; r.rng != nil && r.held == nil {
				r.held = make([]ownPrompt, 0, min(int(r.f.Prompts), heldPrompts/each+1))
			}
			var err error
			if r.src, err = dataset.Open(r.f.spec.File, r.f.o); err != nil {
				return err
			}
		}
		row, err := r.src.Next()
		if errors.Is(err, io.EOF) {
			r.src.Close()
			r.src = nil
			if r.n == 0 {
				return fmt.Errorf("%s: no row has a text any more", r.f.spec.File)
			}
			r.n = 0
			if len(r.held) == 0 {
				continue // a round ends exactly here
			}
			return nil
		}
		if err != nil {
			return err
		}
		if p, ok := promptOf(row); ok {
			r.held = append(r.held, p)
			r.size += p.bytes + holding
			r.n++
		}
	}
	return nil
}

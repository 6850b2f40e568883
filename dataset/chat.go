package dataset

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
)

// loose is text in JSON that some write as a string and some as a number.
type loose string

func (l *loose) UnmarshalJSON(v []byte) error {
	b, ok := bare(v)
	if !ok {
		return errors.New("is no text or number")
	}
	*l = loose(b)
	return nil
}

// decode reads a nested value. An error says where in the value.
func decode(column string, v []byte, at int, into any) error {
	err := json.Unmarshal(v, into)
	if err == nil {
		return nil
	}
	f := &fieldError{column: column, value: v, col: at + 1, err: err}
	var bad *json.UnmarshalTypeError
	if errors.As(err, &bad) {
		if bad.Field != "" {
			f.column = strings.TrimPrefix(column+"."+bad.Field, ".")
		}
		from, end := literal(v, int(bad.Offset))
		f.col, f.value, f.err = at+from+1, v[from:end], fmt.Errorf("is no %s", bad.Type)
	}
	return f
}

// literal is where the value lies that encoding/json stopped behind, or in whose
// beginning it stopped.
func literal(v []byte, offset int) (from, end int) {
	offset = min(max(offset, 1), len(v))
	if c := v[offset-1]; c == '{' || c == '[' {
		end, _ = skipValue(v, offset-1, 0)
		return offset - 1, end
	}
	for from, end = 0, offset; from < end; from++ {
		// A string may hold anything: the first place whose value ends there.
		if e, ok := skipValue(v, from, 0); ok && e == end && v[from] != '{' && v[from] != '[' {
			return from, end
		}
	}
	return 0, len(v)
}

// parseMessages reads the messages of an OpenAI request, or a conversation in
// ShareGPT's or the role and content form.
func parseMessages(dst []Message, v []byte) ([]Message, error) {
	var raws []json.RawMessage
	if err := json.Unmarshal(v, &raws); err != nil {
		return dst, errors.New("is not an array of messages")
	}
	for i, raw := range raws {
		m, err := parseMessage(raw)
		if err != nil {
			return dst, fmt.Errorf("message %d: %w", i, err)
		}
		dst = append(dst, m)
	}
	return dst, nil
}

func parseMessage(raw []byte) (Message, error) {
	var m struct {
		Role, From     string
		Content, Value json.RawMessage
	}
	if len(raw) == 0 || raw[0] != '{' {
		return Message{}, errObject
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return Message{}, errors.New("role or content is wrong")
	}
	if m.Role == "" {
		m.Role = m.From
	}
	if m.Content == nil {
		m.Content = m.Value
	}
	if m.Role == "" {
		return Message{}, errors.New("has no role")
	}
	out := Message{Role: role(m.Role)}
	switch {
	case m.Content == nil || m.Content[0] == 'n':
		out.Raw = bytes.Clone(raw)
	case m.Content[0] == '"':
		out.Content = unquote(m.Content)
	default:
		out.Content, out.Raw = partsText(m.Content), bytes.Clone(raw)
	}
	return out, nil
}

// partsText joins the text parts of a content.
func partsText(v []byte) string {
	var parts []struct{ Text string }
	if json.Unmarshal(v, &parts) != nil {
		return ""
	}
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
	}
	return b.String()
}

// role gives the names that datasets have for the speakers their usual ones.
func role(name string) string {
	switch strings.ToLower(name) {
	case "human", "user", "prompter":
		return "user"
	case "gpt", "chatgpt", "assistant", "bard", "bing", "model", "claude", "bot":
		return "assistant"
	case "system":
		return "system"
	}
	return name
}

// isWhole reports whether messages are a conversation with its answers, and not
// a request that waits for one.
func isWhole(m []Message) bool { return len(m) > 0 && m[len(m)-1].Role == "assistant" }

// conversation makes a row of each user's turn of row.Messages. What comes before
// the first is dropped, but for a system prompt.
func (q *turnQueue) conversation(row *Row) {
	q.start()
	base := *row
	base.Messages = nil
	base.SessionID = sessionName(base.SessionID, base.Line)
	turn := 0
	for i, m := range row.Messages {
		switch {
		case m.Role == "system" && turn == 0:
			base.System = m.Content
		case m.Role == "user":
			turn++
			r := base
			r.Text, r.Turn = m.Content, turn
			if turn > 1 {
				r.System = ""
			}
			if next := i + 1; next < len(row.Messages) && row.Messages[next].Role == "assistant" {
				r.Reply = row.Messages[next].Content
			}
			q.rows = append(q.rows, r)
		}
	}
}

// shareGPT reads {"id", "conversations": [{"from", "value"}]}.
func (s *jsonSource) shareGPT(row *Row, raw []byte) error {
	o := objectScanner{b: raw}
	for o.next() {
		switch string(o.key) {
		case "id":
			var id loose
			if err := decode("id", o.val, o.at, &id); err != nil {
				return err
			}
			row.SessionID = string(id)
		case "model":
			if b, ok := bare(o.val); ok {
				row.Model = string(b)
			}
		case "conversations", "conversation":
			var err error
			if row.Messages, err = parseMessages(row.Messages[:0], o.val); err != nil {
				return &fieldError{column: string(o.key), value: o.val, col: o.at + 1, err: err}
			}
		}
	}
	if err := o.scanWhole(); err != nil {
		return err
	}
	s.turns.conversation(row)
	return nil
}

// aiperfTurn is AIPerf's SingleTurn.
type aiperfTurn struct {
	Text      string          `json:"text"`
	Texts     json.RawMessage `json:"texts"`
	Image     string          `json:"image"`
	Images    json.RawMessage `json:"images"`
	Timestamp *float64        `json:"timestamp"`
	Delay     *float64        `json:"delay"`
	Role      string          `json:"role"`
	SessionID loose           `json:"session_id"`
	Output    *int            `json:"output_length"`
	MaxTokens *int            `json:"max_tokens"`
	Model     string          `json:"model"`
}

// fill puts a turn into a row.
func (t *aiperfTurn) fill(row *Row, set *setter) error {
	row.Text = t.Text
	if t.Text == "" && len(t.Texts) > 0 {
		row.Text = joinTexts(t.Texts)
	}
	if t.Image != "" {
		row.Images = 1
	} else if len(t.Images) > 0 {
		var all []json.RawMessage
		if json.Unmarshal(t.Images, &all) == nil {
			row.Images = len(all)
		}
	}
	if t.Role == "system" {
		row.System, row.Text = row.Text, ""
	}
	if t.SessionID != "" {
		row.SessionID = string(t.SessionID)
	}
	row.Model = t.Model
	for _, n := range []*int{t.MaxTokens, t.Output} {
		if n == nil {
			continue
		}
		if *n < 0 || *n > maxCount {
			return &fieldError{column: "output_length", value: fmt.Append(nil, *n), err: errCount}
		}
		row.OutputTokens = *n
	}
	unit := max(set.time.unit.ns(), 1)
	if t.Timestamp != nil {
		ns, err := floatStamp(*t.Timestamp, unit)
		if err != nil {
			return &fieldError{column: "timestamp", value: fmt.Append(nil, *t.Timestamp), err: err}
		}
		row.stamp, row.Timed = ns, true
	}
	if t.Delay != nil {
		ns, err := floatStamp(*t.Delay, unit)
		if err != nil || ns < 0 {
			return &fieldError{column: "delay", value: fmt.Append(nil, *t.Delay), err: errRange}
		}
		row.Delay = duration(ns)
	}
	return nil
}

// joinTexts joins ["a","b"] or [{"contents":["a"]}].
func joinTexts(v []byte) string {
	var plain []string
	if json.Unmarshal(v, &plain) == nil {
		return strings.Join(plain, "")
	}
	var named []struct {
		Contents []string `json:"contents"`
	}
	if json.Unmarshal(v, &named) != nil {
		return ""
	}
	var b strings.Builder
	for _, n := range named {
		b.WriteString(strings.Join(n.Contents, ""))
	}
	return b.String()
}

// wholeObject checks a record that encoding/json is to read: its own errors do
// not say where.
func wholeObject(raw []byte) error {
	o := objectScanner{b: raw}
	for o.next() {
	}
	return o.scanWhole()
}

func (s *jsonSource) singleTurn(row *Row, raw []byte) error {
	var t aiperfTurn
	if err := wholeObject(raw); err != nil {
		return err
	}
	if err := decode("", raw, 0, &t); err != nil {
		return err
	}
	return t.fill(row, s.set)
}

func (s *jsonSource) multiTurn(row *Row, raw []byte) error {
	if err := wholeObject(raw); err != nil {
		return err
	}
	var m struct {
		SessionID loose             `json:"session_id"`
		Turns     []json.RawMessage `json:"turns"`
	}
	if err := decode("", raw, 0, &m); err != nil {
		return err
	}
	if len(m.Turns) == 0 {
		return &fieldError{column: "turns", err: errEmpty}
	}
	system := ""
	for i, v := range m.Turns {
		column := fmt.Sprintf("turns.%d", i)
		var t aiperfTurn
		if err := decode(column, v, 0, &t); err != nil {
			if f := (*fieldError)(nil); errors.As(err, &f) {
				f.col += locate(raw, column)
			}
			return err
		}
		r := Row{Line: row.Line, PromptTokens: Unknown, OutputTokens: Unknown}
		if err := t.fill(&r, s.set); err != nil {
			if f := (*fieldError)(nil); errors.As(err, &f) {
				f.column = column + "." + f.column
			}
			return err
		}
		r.SessionID = sessionName(string(m.SessionID), row.Line)
		if t.Role == "system" {
			system = r.System
			continue
		}
		r.System, system = system, ""
		r.Turn = len(s.turns.rows) + 1
		s.turns.rows = append(s.turns.rows, r)
	}
	return nil
}

// setBody keeps a request as recorded, and what it says of itself. The output
// tokens are those it asks for at most.
func setBody(row *Row, v []byte) error {
	if v[0] == '"' {
		v = []byte(unquote(v))
	}
	if err := wholeObject(v); err != nil {
		return err
	}
	o := objectScanner{b: v}
	for o.next() {
		var err error
		switch key := string(o.key); key {
		case "model":
			if b, ok := bare(o.val); ok {
				row.Model = string(b)
			}
		case "messages":
			row.Messages, err = parseMessages(row.Messages[:0], o.val)
		case "prompt", "input":
			switch o.val[0] {
			case '"':
				row.Text = unquote(o.val)
			case '[':
				err = setList(row, o.val)
			}
		case "max_tokens", "max_completion_tokens", "max_output_tokens":
			if b, ok := bare(o.val); ok {
				row.OutputTokens, err = parseCount(b)
			}
		}
		if err != nil {
			return &fieldError{column: string(o.key), value: o.val, col: o.at + 1, err: err}
		}
	}
	row.Body = bytes.Clone(v)
	return nil
}

// setList reads a prompt that is a list: of token ids, of strings, or the
// messages of a response request.
func setList(row *Row, v []byte) error {
	var tokens []int64
	if json.Unmarshal(v, &tokens) == nil {
		row.PromptTokens = len(tokens)
		return nil
	}
	var texts []string
	if json.Unmarshal(v, &texts) == nil {
		row.Text = strings.Join(texts, "")
		return nil
	}
	// Items of a response request that are no messages stay in the body alone.
	if m, err := parseMessages(row.Messages[:0], v); err == nil {
		row.Messages = m
	}
	return nil
}

// wekaRequest is a request of a session, or a subagent with requests of its own.
type wekaRequest struct {
	T         float64         `json:"t"`
	Type      string          `json:"type"`
	Model     string          `json:"model"`
	In        *int            `json:"in"`
	Out       *int            `json:"out"`
	HashIDs   json.RawMessage `json:"hash_ids"`
	ThinkTime float64         `json:"think_time"`
	AgentID   loose           `json:"agent_id"`
	Requests  []wekaRequest   `json:"requests"`
}

// weka reads one session. Its stamps count from the session's own start: they
// are At, but the rows are not Timed.
func (s *jsonSource) weka(row *Row, raw []byte) error {
	if err := wholeObject(raw); err != nil {
		return err
	}
	var w struct {
		ID       loose         `json:"id"`
		Block    int           `json:"block_size"`
		Scope    string        `json:"hash_id_scope"`
		Requests []wekaRequest `json:"requests"`
	}
	if err := decode("", raw, 0, &w); err != nil {
		return err
	}
	base := Row{Line: row.Line, BlockSize: w.Block, SessionID: sessionName(string(w.ID), row.Line)}
	if err := s.set.text(&base, FieldHashScope, []byte(w.Scope)); err != nil {
		return &fieldError{column: "hash_id_scope", value: []byte(w.Scope), err: err}
	}
	return s.wekaRequests(base, base.SessionID, "", "", w.Requests)
}

// wekaRequests reads the requests of an agent, which stand in the record below path.
func (s *jsonSource) wekaRequests(base Row, agent, parent, path string, all []wekaRequest) error {
	turn := 0
	for i := range all {
		w := &all[i]
		if w.Type == "subagent" || len(w.Requests) > 0 {
			name := fmt.Sprintf("%s/%s", agent, sessionName(string(w.AgentID), int64(i)))
			if err := s.wekaRequests(base, name, parent, fmt.Sprintf("%srequests.%d.", path, i), w.Requests); err != nil {
				return err
			}
			continue
		}
		turn++
		r := base
		r.Turn, r.Model, r.Parent = turn, w.Model, parent
		r.ID = fmt.Sprintf("%s/%d", agent, turn)
		at, err := floatStamp(w.T, Seconds.ns())
		if err == nil {
			r.At = duration(at)
			var think int64
			think, err = floatStamp(math.Max(w.ThinkTime, 0), Seconds.ns())
			r.Delay = duration(think)
		}
		if err != nil {
			return &fieldError{column: fmt.Sprintf("%srequests.%d.t", path, i), value: fmt.Append(nil, w.T), err: err}
		}
		r.PromptTokens, r.OutputTokens = Unknown, Unknown
		for _, c := range []struct {
			name string
			from *int
			to   *int
		}{{"in", w.In, &r.PromptTokens}, {"out", w.Out, &r.OutputTokens}} {
			if c.from == nil {
				continue
			}
			if *c.from < 0 || *c.from > maxCount {
				return &fieldError{column: fmt.Sprintf("%srequests.%d.%s", path, i, c.name), value: fmt.Append(nil, *c.from), err: errCount}
			}
			*c.to = *c.from
		}
		if len(w.HashIDs) > 0 {
			if r.HashIDs, err = parseInts(nil, w.HashIDs); err != nil {
				return &fieldError{column: fmt.Sprintf("%srequests.%d.hash_ids", path, i), value: w.HashIDs, err: err}
			}
		}
		parent = r.ID
		s.turns.rows = append(s.turns.rows, r)
	}
	return nil
}

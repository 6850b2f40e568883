package simserver

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// handle answers one request; it reports whether the connection can take another.
func (c *conn) handle(req *http.Request) bool {
	body, err := c.readBody(req)
	keep := !req.Close && req.ProtoAtLeast(1, 1)
	if err != nil {
		c.respond(req, false, &reply{status: 413, body: []byte(`{"detail":"the body could not be read: too large or cut short"}`)})
		return false
	}
	s := c.srv
	path, under := strings.CutPrefix(req.URL.Path, s.cfg.PathPrefix)
	if !under {
		return c.respond(req, keep, &reply{status: 404, body: []byte(`{"detail":"Not Found"}`)})
	}
	req.URL.Path = path
	if s.cfg.APIKey != "" && strings.HasPrefix(path, "/v1/") && req.Header.Get("Authorization") != "Bearer "+s.cfg.APIKey {
		return c.respond(req, keep, &reply{status: 401, body: []byte(`{"error":"Unauthorized"}`)})
	}
	method, ok := endpoints[path]
	switch {
	case !ok && strings.HasPrefix(path, "/v1/models/"):
		return c.respond(req, keep, s.oneModel(strings.TrimPrefix(path, "/v1/models/")))
	case !ok:
		return c.respond(req, keep, &reply{status: 404, body: []byte(`{"detail":"Not Found"}`)})
	case req.Method != method && !(method == http.MethodGet && req.Method == http.MethodHead):
		return c.respond(req, keep, &reply{status: 405, body: []byte(`{"detail":"Method Not Allowed"}`), allow: method})
	}
	switch path {
	case "/v1/chat/completions":
		return c.generate(req, keep, body, apiChat)
	case "/v1/completions":
		return c.generate(req, keep, body, apiCompletions)
	}
	return c.respond(req, keep, s.answer(path, body))
}

// endpoints and their methods.
var endpoints = map[string]string{
	"/v1/chat/completions": http.MethodPost,
	"/v1/completions":      http.MethodPost,
	"/v1/models":           http.MethodGet,
	"/health":              http.MethodGet,
	"/ping":                http.MethodGet,
	"/version":             http.MethodGet,
	"/load":                http.MethodGet,
	"/metrics":             http.MethodGet,
	"/tokenize":            http.MethodPost,
	"/detokenize":          http.MethodPost,
	"/reset_prefix_cache":  http.MethodPost,
}

// answer is that of the endpoints that generate nothing.
func (s *Server) answer(path string, body []byte) *reply {
	switch path {
	case "/v1/models":
		models := []any{s.model(s.cfg.ModelName)}
		for _, name := range s.cfg.Aliases {
			models = append(models, s.model(name))
		}
		return jsonReply(map[string]any{"object": "list", "data": models})
	case "/version":
		return jsonReply(map[string]any{"version": Version})
	case "/load":
		return jsonReply(map[string]any{"server_load": s.load.Load()})
	case "/metrics":
		return &reply{status: 200, kind: expositionType, body: s.exposition()}
	case "/tokenize":
		return s.tokenizeReply(body)
	case "/detokenize":
		return detokenizeReply(body)
	case "/reset_prefix_cache":
		ok := true
		for _, c := range s.cores {
			ok = c.resetPrefixCache() && ok
		}
		return jsonReply(map[string]any{"success": ok})
	}
	return &reply{status: 200} // /health, /ping
}

func (s *Server) model(name string) map[string]any {
	return map[string]any{
		"id": name, "object": "model", "created": s.unix(0) / 1e9, "owned_by": "vllm",
		"root": s.cfg.ModelName, "parent": nil, "max_model_len": s.maxModelLen, "permission": []any{},
	}
}

func (s *Server) oneModel(name string) *reply {
	if name == "" {
		return &reply{status: 404, body: []byte(`{"detail":"Not Found"}`)}
	}
	if err := s.checkModel(name); err != nil {
		return errorReply(err)
	}
	return jsonReply(s.model(name))
}

func (s *Server) checkModel(name string) *apiError {
	if name == "" || name == s.cfg.ModelName || slices.Contains(s.cfg.Aliases, name) {
		return nil
	}
	return &apiError{404, "NotFoundError", fmt.Sprintf("The model `%s` does not exist.", name), "model"}
}

func (s *Server) tokenizeReply(body []byte) *reply {
	var b struct {
		genBody
		ReturnTokenStrs bool `json:"return_token_strs"`
	}
	if err := decodeBody(body, &b); err != nil {
		return errorReply(err)
	}
	if err := s.checkModel(b.Model); err != nil {
		return errorReply(err)
	}
	var ids []int
	if len(b.Messages) > 0 {
		lists, err := b.tokens(apiChat)
		if err != nil {
			return errorReply(err)
		}
		ids = lists[0]
	} else {
		var text string
		if json.Unmarshal(b.Prompt, &text) != nil {
			return errorReply(badRequest("prompt", "prompt must be a string."))
		}
		if b.AddSpecialTokens == nil || *b.AddSpecialTokens {
			ids = append(ids, tokenBegin)
		}
		ids = tokenize(ids, text)
	}
	if ids == nil {
		ids = []int{}
	}
	answer := map[string]any{"count": len(ids), "max_model_len": s.maxModelLen, "tokens": ids, "token_strs": nil}
	if b.ReturnTokenStrs {
		strs := make([]string, len(ids))
		for i, id := range ids {
			strs[i] = string(appendWord(nil, id))
		}
		answer["token_strs"] = strs
	}
	return jsonReply(answer)
}

func detokenizeReply(body []byte) *reply {
	var b struct {
		Tokens []int `json:"tokens"`
	}
	if err := decodeBody(body, &b); err != nil {
		return errorReply(err)
	}
	if err := checkIDs(b.Tokens); err != nil {
		return errorReply(err)
	}
	return jsonReply(map[string]any{"prompt": detokenize(b.Tokens)})
}

// generate checks a chat or completions request, hands it to an engine and
// waits until it has been answered.
func (c *conn) generate(req *http.Request, keep bool, body []byte, a api) bool {
	s := c.srv
	g, b, bad := s.parse(req.Header, body, a)
	if bad != nil {
		return c.respond(req, keep, errorReply(bad))
	}
	fault, err := s.faultOf(req.Header.Get(FaultHeader), g.id)
	if err != nil {
		return c.respond(req, keep, errorReply(badRequest(FaultHeader, "%s", err.Error())))
	}
	switch {
	case fault.Restart:
		s.Restart()
		return false
	case fault.Redirect != "":
		return c.respond(req, keep, &reply{status: 307, location: fault.Redirect})
	case fault.Status != 0:
		r := errorReply(&apiError{fault.Status, http.StatusText(fault.Status), "A fault was asked for.", ""})
		r.retryAfter = fault.RetryAfter
		return c.respond(req, keep, r)
	case fault.NotStreaming:
		g.stream = false
	}
	st := &stream{
		conn: c, gen: g, fault: fault, path: req.URL.Path, requestID: req.Header.Get("X-Request-Id"),
		status: http.StatusOK, requestBytes: len(body),
		received: c.received, arrival: s.clk.Now(), chunked: req.ProtoAtLeast(1, 1), close: !keep, over: make(chan struct{}),
	}
	st.created = s.unix(st.arrival) / 1e9
	if s.spans != nil {
		st.parent = newSpanParent(req.Header.Get("traceparent"), b)
	}
	if g.prompts, bad = b.tokens(a); bad == nil {
		bad = g.fit(s.maxModelLen)
	}
	if bad != nil {
		return c.respond(req, keep, errorReply(bad))
	}
	st.makeHead(s.cfg.ModelName)
	st.core = s.pick(req.Header.Get("X-data-parallel-rank"))
	st.makeSequences()
	if bad := c.start(st); bad != nil {
		return c.respond(req, keep, errorReply(bad))
	}
	return c.watch(st)
}

// start submits st and writes the head of a streamed answer. The lock keeps the
// engine's loop from writing an event before the head.
func (c *conn) start(st *stream) *apiError {
	head := appendHead(nil, &reply{status: 200, kind: "text/event-stream; charset=utf-8", streamed: true, chunked: st.chunked}, st.close, c.srv.dateNow(), st.echoID())
	c.mu.Lock()
	defer c.mu.Unlock()
	if st.gen.stream && st.fault.LateHeaders {
		st.lateHead = head
	}
	c.current = st
	c.drip = st.fault.Drip
	before := c.srv.clk.Now()
	if st.gen.stream && !st.fault.LateHeaders && c.srv.truth != nil {
		st.truth = append(make(TruthEvents, 0, 8+len(st.seqs)*min(st.gen.maxTokens, 4096)), TruthEvent{
			Kind: EventHeaders, Before: c.srv.monotonic(before), Bytes: int32(len(head)),
		})
	}
	if bad := st.core.submit(st); bad != nil {
		c.current = nil
		c.drip = 0
		return bad
	}
	if st.fault.HeaderDelay > 0 {
		c.held = true
		time.AfterFunc(st.fault.HeaderDelay, c.release)
	}
	if st.gen.stream && !st.fault.LateHeaders {
		// An error shows on the reading side, too.
		_, _ = c.sendLocked(head)
	}
	return nil
}

// parse checks a body up to the point where vLLM takes its arrival time.
func (s *Server) parse(h http.Header, body []byte, a api) (*generation, *genBody, *apiError) {
	media, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	if !strings.EqualFold(strings.TrimSpace(media), "application/json") {
		return nil, nil, &apiError{400, "Bad Request", "Unsupported Media Type: Only 'application/json' is allowed", ""}
	}
	b := new(genBody)
	if err := decodeBody(body, b); err != nil {
		return nil, nil, err
	}
	if err := s.checkModel(b.Model); err != nil {
		return nil, nil, err
	}
	g := &generation{api: a, streamInterval: s.cfg.StreamInterval}
	if err := b.check(g); err != nil {
		return nil, nil, err
	}
	id := h.Get("X-Request-Id")
	if id == "" {
		id = b.RequestID
	}
	if id == "" {
		var random [16]byte
		rand.Read(random[:]) // never fails
		id = hex.EncodeToString(random[:])
	}
	g.id = "chatcmpl-" + id
	if a == apiCompletions {
		g.id = "cmpl-" + id
	}
	return g, b, nil
}

// faultOf is the fault of a request: its header's, else the configured one.
func (s *Server) faultOf(header, id string) (*Fault, error) {
	if header != "" {
		f, err := ParseFault(header)
		return &f, err
	}
	if share := s.cfg.FaultShare; share > 0 && float64(hashString(id)>>11)/(1<<53) >= share {
		return &s.well, nil
	}
	return &s.fault, nil
}

func hashString(text string) uint64 {
	h := uint64(0x2545f4914f6cdd1d)
	for i := range len(text) {
		h = mix(h ^ uint64(text[i]))
	}
	return h
}

// makeSequences makes what the engine gets: n choices of every prompt. Their
// lengths and tokens depend on nothing but prompt, seed and choice.
func (st *stream) makeSequences() {
	g := st.gen
	cfg := st.core.eng.Config() // never changes after New
	for _, prompt := range g.prompts {
		st.prompts += len(prompt)
		content := g.seed
		for _, id := range prompt {
			content = mix(content ^ uint64(id))
		}
		for i := range g.n {
			q := &sequence{st: st, index: len(st.seqs), prompt: prompt, key: mix(content + uint64(i))}
			q.req = engineRequest(q, g, st.core.srv.cfg.MeanOutput)
			if st.fault.Empty {
				q.req.OutputTokens, q.req.Stop = 0, true
			}
			q.stop(&g.stops, g.minTokens)
			q.req.BlockHashes = q.blockHashes(cfg.BlockSize)
			st.seqs = append(st.seqs, q)
		}
	}
}

// reply is an answer that is known whole.
type reply struct {
	status   int
	kind     string // content type; "" is JSON
	body     []byte
	allow    string
	location string
	// retryAfter is in seconds, 0 for none.
	retryAfter int
	streamed   bool // the body follows
	chunked    bool // in chunks
}

func jsonReply(v any) *reply {
	b, err := json.Marshal(v)
	if err != nil {
		panic("simserver: " + err.Error()) // maps of plain values always encode
	}
	return &reply{status: 200, body: b}
}

func errorReply(e *apiError) *reply { return &reply{status: e.status, body: e.object()} }

// respond writes an answer, and gives the connection its idle deadline if it
// stays open.
func (c *conn) respond(req *http.Request, keep bool, r *reply) bool {
	c.srv.http.add(httpAnswer{
		path: req.URL.Path, method: req.Method, status: r.status, took: seconds(c.srv.clk.Now() - c.received),
		request: int(max(req.ContentLength, 0)), body: len(r.body),
	})
	out := appendHead(nil, r, !keep, c.srv.dateNow(), "")
	if req.Method != http.MethodHead {
		out = append(out, r.body...)
	}
	if _, err := c.send(out); err != nil {
		return false
	}
	if keep {
		c.nc.SetReadDeadline(c.srv.clk.Time(c.srv.clk.Now() + int64(c.srv.cfg.KeepAlive)))
	}
	return keep
}

// appendHead appends status line and headers.
func appendHead(b []byte, r *reply, closing bool, date, requestID string) []byte {
	b = append(b, "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(r.status), 10)
	b = append(b, ' ')
	b = append(b, http.StatusText(r.status)...)
	line := func(name, value string) {
		b = append(b, "\r\n"...)
		b = append(b, name...)
		b = append(b, ": "...)
		b = append(b, value...)
	}
	line("date", date)
	line("server", "assay-sim")
	kind := r.kind
	if kind == "" {
		kind = "application/json"
	}
	if r.allow != "" {
		line("allow", r.allow)
	}
	if r.location != "" {
		line("location", r.location)
	}
	if r.retryAfter > 0 {
		line("retry-after", strconv.Itoa(r.retryAfter))
	}
	if requestID != "" {
		line("x-request-id", requestID)
	}
	if closing {
		line("connection", "close")
	}
	switch {
	case !r.streamed:
		line("content-length", strconv.Itoa(len(r.body)))
		if len(r.body) > 0 {
			line("content-type", kind)
		}
	default:
		line("content-type", kind)
		if r.chunked {
			line("transfer-encoding", "chunked")
		}
	}
	return append(b, "\r\n\r\n"...)
}

func (s *Server) dateNow() string {
	return time.Unix(0, s.unix(s.clk.Now())).UTC().Format(http.TimeFormat)
}

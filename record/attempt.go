package record

import "time"

// Phase of a stage that an attempt belongs to, by its Scheduled stamp.
type Phase string

const (
	// Prewarm attempts open connections and wake a cold server.
	Prewarm Phase = "prewarm"
	// Warmup attempts were scheduled before the measured window opened.
	Warmup Phase = "warmup"
	// Measured attempts were scheduled inside the window.
	Measured Phase = "measured"
	// Cooldown attempts were scheduled after the window; they keep the load up
	// until every measured one has ended.
	Cooldown Phase = "cooldown"
)

// Outcome is how an attempt ended: exactly one row of the ledger.
type Outcome string

// The outcomes of MEASUREMENT.md section 3.
const (
	// Completed: a finish reason or the terminal marker was seen, and no error event.
	Completed Outcome = "completed"
	// Truncated: the body ended in order, with neither of those.
	Truncated Outcome = "truncated"
	// StreamError: an error event inside the stream, after HTTP 200.
	StreamError Outcome = "stream_error"
	// StreamReset: the connection died inside the stream.
	StreamReset Outcome = "stream_reset"
	// HTTPError: a status other than 2xx that is not a rejection.
	HTTPError Outcome = "http_error"
	// Rejected: status 429 or 503.
	Rejected Outcome = "rejected"
	// NotDialect: a 2xx reply that is not the dialect's (not SSE, not JSON).
	NotDialect Outcome = "not_dialect"
	// ConnectDNS, ConnectTCP and ConnectTLS: no connection, by what failed.
	ConnectDNS Outcome = "connect_dns"
	ConnectTCP Outcome = "connect_tcp"
	ConnectTLS Outcome = "connect_tls"
	// StaleConnection: a reused connection died before the first byte of a reply.
	StaleConnection Outcome = "stale_connection"
	// TimeoutConnect, TimeoutFirst, TimeoutIdle and TimeoutTotal: which bound ran out.
	TimeoutConnect Outcome = "timeout_connect"
	TimeoutFirst   Outcome = "timeout_first"
	TimeoutIdle    Outcome = "timeout_idle"
	TimeoutTotal   Outcome = "timeout_total"
	// Censored: still running at the cooldown bound and cut off by us.
	Censored Outcome = "censored"
	// Interrupted: cut off by us because the run was interrupted.
	Interrupted Outcome = "interrupted"
	// Abandoned: cut off by us on purpose, as part of the workload.
	Abandoned Outcome = "abandoned"
	// NeverSent: due, but never written to a socket.
	NeverSent Outcome = "never_sent"
)

// Outcomes lists every Outcome in the order of the ledger.
func Outcomes() []Outcome {
	return []Outcome{
		Completed, Truncated, StreamError, StreamReset, HTTPError, Rejected, NotDialect,
		ConnectDNS, ConnectTCP, ConnectTLS, StaleConnection,
		TimeoutConnect, TimeoutFirst, TimeoutIdle, TimeoutTotal,
		Censored, Interrupted, Abandoned, NeverSent,
	}
}

// Usage is what the server says a request cost, in tokens.
type Usage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	// CachedTokens of the prompt came from a prefix cache; 0 if none or not told.
	CachedTokens int `json:"cached_tokens,omitzero"`
	// ReasoningTokens of the completion; 0 if none or not told.
	ReasoningTokens int `json:"reasoning_tokens,omitzero"`
}

// Attempt is what was seen of one try at one request. Its zero value is an
// attempt of which nothing happened yet.
type Attempt struct {
	// ID is unique in the world and was sent as X-Request-Id.
	ID string `json:"id"`
	// Request is the index of the planned request.
	Request int64 `json:"request"`
	// Try counts the attempts of the request from 0; RetryOf names the one before.
	Try     int    `json:"try,omitzero"`
	RetryOf string `json:"retry_of,omitzero"`
	// Retried: another attempt of the same request followed this one.
	Retried bool `json:"retried,omitzero"`
	// Session counts the sessions of a run from 0, Turn the requests of one from 1;
	// Turn 0 is a request of no session. Turns is how many are planned: of a session
	// that ended before its last turn, the others were never due.
	Session int64 `json:"session,omitzero"`
	Turn    int   `json:"turn,omitzero"`
	Turns   int   `json:"turns,omitzero"`
	// Stage names the load condition; Phase is where in it the attempt was scheduled.
	Stage string `json:"stage"`
	Phase Phase  `json:"phase"`

	// What was asked for.
	PromptTokensAsked int  `json:"prompt_tokens_asked,omitzero"`
	MaxTokens         int  `json:"max_tokens,omitzero"`
	Streamed          bool `json:"streamed,omitzero"`
	// Choices asked for (n); 0 and 1 both mean one. With several, usage sums them.
	Choices int `json:"choices,omitzero"`

	// The stamps of MEASUREMENT.md section 1.
	Scheduled  Stamp `json:"scheduled_ns,omitzero"`
	Dispatched Stamp `json:"dispatched_ns,omitzero"`
	ConnReady  Stamp `json:"conn_ready_ns,omitzero"`
	Sent       Stamp `json:"sent_ns,omitzero"`
	SentLast   Stamp `json:"sent_last_ns,omitzero"`
	// SentKernel is when the driver of the network device was handed the first
	// bytes, as the kernel stamped it. Only a sample of requests is asked for it.
	SentKernel  Stamp `json:"sent_kernel_ns,omitzero"`
	Headers     Stamp `json:"headers_ns,omitzero"`
	FirstEvent  Stamp `json:"first_event_ns,omitzero"`
	FirstToken  Stamp `json:"first_token_ns,omitzero"`
	FirstText   Stamp `json:"first_text_ns,omitzero"`
	FirstAnswer Stamp `json:"first_answer_ns,omitzero"`
	LastText    Stamp `json:"last_text_ns,omitzero"`
	LastToken   Stamp `json:"last_token_ns,omitzero"`
	Finish      Stamp `json:"finish_ns,omitzero"`
	UsageAt     Stamp `json:"usage_ns,omitzero"`
	Done        Stamp `json:"done_ns,omitzero"`
	EOF         Stamp `json:"eof_ns,omitzero"`
	// Ended is when the attempt was over for the scheduler: its terminal marker
	// if there is one, else when the end or the failure was seen.
	Ended Stamp `json:"ended_ns,omitzero"`

	// The connection. The durations are 0 on a reused one.
	DNS        time.Duration `json:"dns_ns,omitzero"`
	Connect    time.Duration `json:"connect_ns,omitzero"`
	TLS        time.Duration `json:"tls_ns,omitzero"`
	ConnReused bool          `json:"conn_reused,omitzero"`
	RemoteAddr string        `json:"remote_addr,omitzero"`

	Outcome Outcome `json:"outcome"`
	// Status is the HTTP status, 0 if there was none.
	Status int `json:"status,omitzero"`
	// Error says in one line what went wrong, with secrets redacted.
	Error string `json:"error,omitzero"`
	// ErrorBody is at most the first 2 KB of an error reply, kept for the first
	// of each kind only.
	ErrorBody string `json:"error_body,omitzero"`
	// FinishReason as sent. StopReason is a string stop_reason (a stop string
	// that matched), which shows that the text was cut and no stop token counted.
	FinishReason string `json:"finish_reason,omitzero"`
	StopReason   string `json:"stop_reason,omitzero"`

	// Usage is nil when the server told none.
	Usage *Usage `json:"usage,omitzero"`
	// Model as named in the reply.
	Model string `json:"model,omitzero"`

	// Counts over the events.
	Events          int `json:"events,omitzero"`
	TextEvents      int `json:"text_events,omitzero"`
	TokenEvents     int `json:"token_events,omitzero"`
	CoalescedEvents int `json:"coalesced_events,omitzero"`
	// CoalescedText counts the text events that shared their stamp with the text
	// event before: those whose gap is unknown. Only they spoil gap figures; a
	// usage frame that shares its read with [DONE] spoils nothing.
	CoalescedText int   `json:"coalesced_text_events,omitzero"`
	KernelEvents  int   `json:"kernel_events,omitzero"`
	TextBytes     int64 `json:"text_bytes,omitzero"`
	AnswerBytes   int64 `json:"answer_bytes,omitzero"`
	BodyBytes     int64 `json:"body_bytes,omitzero"`
	// ReasoningText is set when any reasoning text was streamed.
	ReasoningText bool `json:"reasoning_text,omitzero"`
	// DeltasUnknown counts the text events with an unknown token delta;
	// MultiTokenEvents those token events whose known delta is above 1.
	DeltasUnknown    int `json:"deltas_unknown,omitzero"`
	MultiTokenEvents int `json:"multi_token_events,omitzero"`
	// DeltaTokens is the sum of the known deltas; PairedTokens the part of it
	// that arrived after the first text event, up to and including the last one.
	DeltaTokens  int `json:"delta_tokens,omitzero"`
	PairedTokens int `json:"paired_tokens,omitzero"`
	// ReadLagMax and ReadLagSum of the events with a kernel stamp.
	ReadLagMax time.Duration `json:"read_lag_max_ns,omitzero"`
	ReadLagSum time.Duration `json:"read_lag_sum_ns,omitzero"`

	// pendingTokens arrived since the last text event, with no text of their own.
	pendingTokens int
}

// Observe folds one event, in order of arrival, into the attempt. It allocates
// nothing. Usage, finish reason and errors are set by the caller, who has read
// the event's content.
func (a *Attempt) Observe(e Event) {
	a.Events++
	if a.FirstEvent == 0 {
		a.FirstEvent = e.At
	}
	a.observeConn(e)
	text := e.Flags.Has(FlagText)
	if e.Tokens > 0 {
		a.observeTokens(e, text)
	}
	if text {
		a.observeText(e)
	}
	if e.Flags.Has(FlagFinish) {
		a.Finish = e.At
	}
	if e.Flags.Has(FlagUsage) {
		a.UsageAt = e.At
	}
	if e.Flags.Has(FlagDone) && a.Done == 0 {
		a.Done = e.At
	}
}

func (a *Attempt) observeConn(e Event) {
	if e.Flags.Has(FlagCoalesced) {
		a.CoalescedEvents++
	}
	if !e.Flags.Has(FlagKernel) {
		return
	}
	a.KernelEvents++
	lag := e.ReadLag()
	a.ReadLagSum += lag
	a.ReadLagMax = max(a.ReadLagMax, lag)
}

func (a *Attempt) observeTokens(e Event, text bool) {
	a.TokenEvents++
	if a.FirstToken == 0 {
		a.FirstToken = e.At
	}
	a.LastToken = e.At
	a.DeltaTokens += int(e.Tokens)
	if e.Tokens > 1 {
		a.MultiTokenEvents++
	}
	if !text && a.FirstText != 0 {
		a.pendingTokens += int(e.Tokens)
	}
}

func (a *Attempt) observeText(e Event) {
	a.TextEvents++
	a.TextBytes += int64(e.TextBytes)
	a.AnswerBytes += int64(e.AnswerBytes)
	if e.Flags.Has(FlagReasoning) {
		a.ReasoningText = true
	}
	if e.Tokens == UnknownTokens {
		a.DeltasUnknown++
	}
	if a.FirstText == 0 {
		a.FirstText = e.At
	} else {
		a.PairedTokens += a.pendingTokens + int(max(e.Tokens, 0))
	}
	a.pendingTokens = 0
	if e.At == a.LastText {
		a.CoalescedText++
	}
	a.LastText = e.At
	if e.Flags.Has(FlagAnswer) && a.FirstAnswer == 0 {
		a.FirstAnswer = e.At
	}
}

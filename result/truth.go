package result

// TruthFigure is the distribution of a difference between what the client saw
// and what the engine's own log says of the same requests, in microseconds.
type TruthFigure struct {
	// Name is a short stable name, Text says what is subtracted from what.
	Name string   `json:"name"`
	Text string   `json:"text"`
	N    int      `json:"n"`
	Min  *float64 `json:"min_us"`
	P50  *float64 `json:"p50_us"`
	P99  *float64 `json:"p99_us"` // nil where n(1-p) < 1
	Max  *float64 `json:"max_us"`
}

// Truth compares a stage with the log of the engine that served it: the test of
// our own measurement. It subtracts the engine's boundary from the client's, as
// is done nowhere else: what is left is the way between them and our error.
type Truth struct {
	// Requests completed in the window, Matched of them with their line in the log.
	Requests int `json:"requests"`
	Matched  int `json:"matched"`
	// TokensDiffer counts matched requests whose usage is not what the engine
	// handed out; Differs is the first of them in words.
	TokensDiffer int    `json:"tokens_differ"`
	Differs      string `json:"differs,omitempty"`
	// SameClock: both processes read one monotonic clock, so that stamps are
	// compared as they are, and not durations alone.
	SameClock bool          `json:"same_clock"`
	Figures   []TruthFigure `json:"figures"`
	// Text says why there is no comparison.
	Text string `json:"text,omitempty"`
}

package record

// Ledger counts attempts by how they ended. Every attempt is in exactly one
// row, so that Attempts equals the sum of Rows: no request disappears.
type Ledger struct {
	// Requests counts the planned requests behind the attempts.
	Requests int `json:"requests"`
	// Attempts counts all tries, retries included.
	Attempts int `json:"attempts"`
	// Completed repeats its row, since everything else is read against it.
	Completed int `json:"completed"`
	// Rows counts by outcome; an outcome that did not occur is absent.
	Rows map[Outcome]int `json:"rows"`
	// HTTPStatus counts the replies of the rows http_error and rejected by status.
	HTTPStatus map[int]int `json:"http_status,omitempty"`

	// The completed ones, further split. A request may be in several.
	ZeroToken    int `json:"zero_token"`
	OneToken     int `json:"one_token"`
	NoUsage      int `json:"no_usage"`
	NoText       int `json:"no_text"`
	StoppedEarly int `json:"stopped_early"`
	// Unterminated: a finish reason was seen, the terminal marker never.
	Unterminated int `json:"unterminated"`
	// FinishReasons counts the completed ones by finish reason as sent.
	FinishReasons map[string]int `json:"finish_reasons,omitempty"`
}

// Add enters one attempt.
func (l *Ledger) Add(a *Attempt) {
	if l.Rows == nil {
		l.Rows = make(map[Outcome]int)
		l.HTTPStatus = make(map[int]int)
		l.FinishReasons = make(map[string]int)
	}
	l.Attempts++
	if a.Try == 0 {
		l.Requests++
	}
	l.Rows[a.Outcome]++
	if a.Outcome == HTTPError || a.Outcome == Rejected {
		l.HTTPStatus[a.Status]++
	}
	if a.Outcome == Completed {
		l.addCompleted(a)
	}
}

func (l *Ledger) addCompleted(a *Attempt) {
	l.Completed++
	l.FinishReasons[a.FinishReason]++
	if a.TextBytes == 0 {
		l.NoText++
	}
	if a.Streamed && a.Done == 0 {
		l.Unterminated++
	}
	if a.Usage == nil {
		l.NoUsage++
		return
	}
	switch n := a.Usage.CompletionTokens; {
	case n == 0:
		l.ZeroToken++
	case n == 1:
		l.OneToken++
	}
	if a.MaxTokens > 0 && a.Usage.CompletionTokens < a.MaxTokens {
		l.StoppedEarly++
	}
}

// Balances reports whether every attempt is in exactly one known row.
func (l *Ledger) Balances() bool {
	sum := 0
	for _, o := range Outcomes() {
		sum += l.Rows[o]
	}
	return sum == l.Attempts && l.Rows[Completed] == l.Completed
}

package result

// Sessions are the multi-turn conversations of a stage: whether they came to their
// end, and what their turns were like.
type Sessions struct {
	// Window counts the sessions whose first turn was due in the window, Run those of
	// the whole stage.
	Window SessionLedger `json:"window"`
	Run    SessionLedger `json:"all_phases"`
	// InProgress is how many were, time-weighted over the window: from a session's
	// first turn to the end of its last, with the times between turns.
	InProgress InFlight `json:"in_progress"`
	// MeanDuration in seconds of the sessions that completed, from their first turn's
	// schedule to their end; nil if none did.
	MeanDuration *float64 `json:"mean_duration_s"`
	// LaterTurns were due in the window. AtOnce of them were due at the very end of
	// the turn before: there was no time between, or the turn before had ended too
	// late for a recorded time.
	LaterTurns int `json:"later_turns"`
	AtOnce     int `json:"later_turns_at_once"`
	// ByTurn is of the window's due requests that completed, in the order of turns.
	ByTurn []TurnSummary `json:"by_turn"`
	// CachedTold: the usage of at least one request of the run named cached tokens.
	// Without that their absence says nothing.
	CachedTold bool `json:"cached_tokens_told"`
}

// SessionLedger counts sessions: each that started is in one row.
type SessionLedger struct {
	Started int `json:"started"`
	// Completed: all turns did.
	Completed int `json:"completed"`
	// Abandoned: a turn failed, and what would have been said next depends on its
	// reply. AbandonedTurns are the turns after it, which were never due.
	Abandoned      int `json:"abandoned"`
	AbandonedTurns int `json:"abandoned_turns"`
	// Cut: in progress when the load ended. CutTurns are the turns that were never
	// due by then.
	Cut      int `json:"cut"`
	CutTurns int `json:"cut_turns"`
	// Turns that were due, and those of them that completed.
	Turns          int `json:"turns"`
	TurnsCompleted int `json:"turns_completed"`
}

// TurnSummary is of the requests that were the Turn-th to the LastTurn-th of their
// sessions.
type TurnSummary struct {
	Turn     int      `json:"turn"`
	LastTurn int      `json:"last_turn"`
	Requests int      `json:"requests"`
	TTFT     *Summary `json:"ttft_ms"`
	// PromptTokens and CachedTokens in all, of the requests whose usage was told;
	// CachedShare is the part of the prompts that came from a prefix cache.
	PromptTokens int64    `json:"prompt_tokens"`
	CachedTokens int64    `json:"cached_tokens"`
	CachedShare  *float64 `json:"cached_share"`
}

package result

// PeerView is what another tool would print of the very same requests: its
// definitions, on our stamps. What of it cannot be imitated is said.
type PeerView struct {
	Tool string `json:"tool"`
	// Read is the version of its source that the definitions were taken from.
	Read    string       `json:"source_read"`
	Figures []PeerFigure `json:"figures"`
	// NotImitated is what the tool also does to its numbers, and this view does not.
	NotImitated []string `json:"not_imitated,omitempty"`
}

// PeerFigure is one of its numbers beside ours. A figure that is one number has
// its Mean alone.
type PeerFigure struct {
	// Name is what the tool calls it; Ours what comes nearest among our metrics
	// ("ttft_ms"), empty where there is none.
	Name string   `json:"name"`
	Ours string   `json:"ours,omitempty"`
	Unit string   `json:"unit"`
	N    int      `json:"n"`
	Mean *float64 `json:"mean"`
	P50  *float64 `json:"p50,omitempty"`
	P99  *float64 `json:"p99,omitempty"`
	// OurMean, OurP50 and OurP99 are those of ours.
	OurMean *float64 `json:"our_mean,omitempty"`
	OurP50  *float64 `json:"our_p50,omitempty"`
	OurP99  *float64 `json:"our_p99,omitempty"`
	// Why it differs, in one line.
	Why string `json:"why"`
}

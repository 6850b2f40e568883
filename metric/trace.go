package metric

import (
	"errors"
	"fmt"
	"time"
)

// Trace is what the token times of one request say. Milliseconds throughout; a
// number that does not exist is nil.
type Trace struct {
	N    int       `json:"completion_tokens"`
	TTFT float64   `json:"ttft_ms"`
	ITL  []float64 `json:"itl_ms"`
	TPOT *float64  `json:"tpot_ms"`
	E2E  float64   `json:"e2e_ms"`
	// UserTPS is (n - 1) / (E2E - TTFT); SpanTPS is n / E2E, the throughput over
	// T_last - T_first of this one request. Tokens per second.
	UserTPS *float64 `json:"user_tps"`
	SpanTPS *float64 `json:"span_tps"`
	// Databricks is nil where TPOT is.
	Databricks *Databricks `json:"databricks,omitempty"`
	// Note says why TPOT does not exist.
	Note string `json:"note,omitempty"`
}

// Databricks is the approximation TTFT + TPOT * n of E2E, shown as a check
// only: it is always one TPOT too long.
type Databricks struct {
	MS     float64 `json:"ms"`
	OverMS float64 `json:"over_ms"`
	// The error as a share of n * TPOT (1/n), of the decode span (1/(n-1)) and
	// of the exact E2E.
	OfTokens float64 `json:"share_of_n_tpot"`
	OfDecode float64 `json:"share_of_decode"`
	OfE2E    float64 `json:"share_of_e2e"`
}

// NewDatabricks compares the approximation with the exact E2E of a request of n
// tokens, n at least 2, from its TTFT and TPOT in ms.
func NewDatabricks(ttft, tpot float64, n int) Databricks {
	exact := ttft + float64(n-1)*tpot
	return Databricks{
		MS: ttft + float64(n)*tpot, OverMS: tpot,
		OfTokens: 1 / float64(n), OfDecode: 1 / float64(n-1), OfE2E: tpot / exact,
	}
}

// NewTrace measures one request from when it was sent and when each of its
// tokens arrived, on any common clock. The times must not go back.
func NewTrace(sent time.Duration, tokens []time.Duration) (Trace, error) {
	if len(tokens) == 0 {
		return Trace{}, errors.New("trace has no token: no latency sample")
	}
	last := sent
	for i, at := range tokens {
		if at < last {
			return Trace{}, fmt.Errorf("token %d at %v is before %v: times must not go back", i+1, at, last)
		}
		last = at
	}
	n := len(tokens)
	t := Trace{N: n, TTFT: ms(tokens[0] - sent), E2E: ms(last - sent), ITL: []float64{}}
	for i := range n - 1 {
		t.ITL = append(t.ITL, ms(tokens[i+1]-tokens[i]))
	}
	if last > sent {
		t.SpanTPS = num(float64(n) / (last - sent).Seconds())
	}
	span := last - tokens[0]
	switch {
	case n == 1:
		t.Note = "one token: no gap, so that TPOT, ITL and User TPS do not exist"
	case span == 0:
		t.Note = "all tokens at one moment: TPOT and User TPS do not exist"
	default:
		tpot := float64(span) / float64(n-1) / nsPerMS
		d := NewDatabricks(t.TTFT, tpot, n)
		t.TPOT, t.UserTPS, t.Databricks = &tpot, num(float64(n-1)*1e9/float64(span)), &d
	}
	return t, nil
}

func ms(d time.Duration) float64 { return float64(d) / nsPerMS }

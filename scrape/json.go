package scrape

import (
	"encoding/json"
	"math"
)

// edge is a bound in JSON, which has no infinities: they are the strings that
// the text format has for them.
type edge float64

func (e edge) MarshalJSON() ([]byte, error) {
	switch {
	case math.IsInf(float64(e), 1):
		return []byte(`"+Inf"`), nil
	case math.IsInf(float64(e), -1):
		return []byte(`"-Inf"`), nil
	}
	return json.Marshal(float64(e))
}

func (e *edge) UnmarshalJSON(b []byte) error {
	switch string(b) {
	case `"+Inf"`:
		*e = edge(math.Inf(1))
		return nil
	case `"-Inf"`:
		*e = edge(math.Inf(-1))
		return nil
	}
	return json.Unmarshal(b, (*float64)(e))
}

// bucketJSON and boundJSON are the forms in JSON.
type (
	bucketJSON struct {
		Lo    edge   `json:"lo"`
		Hi    edge   `json:"hi"`
		Count uint64 `json:"count"`
	}
	boundJSON struct {
		Lo            edge    `json:"lo"`
		Hi            edge    `json:"hi"`
		TightLo       edge    `json:"tight_lo"`
		TightHi       edge    `json:"tight_hi"`
		ShareInBucket float64 `json:"share_in_bucket"`
		SumFits       bool    `json:"sum_fits"`
	}
)

// MarshalJSON writes infinite bounds as "+Inf" and "-Inf".
func (b Bucket) MarshalJSON() ([]byte, error) {
	return json.Marshal(bucketJSON{edge(b.Lo), edge(b.Hi), b.Count})
}

// UnmarshalJSON reads what [Bucket.MarshalJSON] wrote.
func (b *Bucket) UnmarshalJSON(data []byte) error {
	var j bucketJSON
	err := json.Unmarshal(data, &j)
	*b = Bucket{float64(j.Lo), float64(j.Hi), j.Count}
	return err
}

// MarshalJSON writes infinite bounds as "+Inf" and "-Inf".
func (b Bound) MarshalJSON() ([]byte, error) {
	return json.Marshal(boundJSON{edge(b.Lo), edge(b.Hi), edge(b.TightLo), edge(b.TightHi), b.ShareInBucket, b.SumFits})
}

// UnmarshalJSON reads what [Bound.MarshalJSON] wrote.
func (b *Bound) UnmarshalJSON(data []byte) error {
	var j boundJSON
	err := json.Unmarshal(data, &j)
	*b = Bound{float64(j.Lo), float64(j.Hi), float64(j.TightLo), float64(j.TightHi), j.ShareInBucket, j.SumFits}
	return err
}

package result

import "time"

// Verdicts of one item of an instrument check.
const (
	Pass        = "pass"
	Fail        = "FAIL"
	NotPossible = "not possible"
)

// CheckItem is one question of an instrument check and its answer.
type CheckItem struct {
	// Name is a short stable name ("output tokens").
	Name    string `json:"name"`
	Verdict string `json:"verdict"`
	// Finding says what was seen, in numbers.
	Finding string `json:"finding"`
	// Cause is the likely explanation of what did not pass, or what follows.
	Cause string `json:"cause,omitempty"`
	// Server and Client are the two sides where counts were compared.
	Server *float64 `json:"server,omitempty"`
	Client *float64 `json:"client,omitempty"`
}

// InstrumentCheck is what a few requests in a quiet window showed of a target and
// of the way to it: whether its numbers can be believed.
type InstrumentCheck struct {
	Target Target `json:"target"`
	// Requests were sent one after the other, each for at most MaxTokens.
	Requests   int           `json:"requests"`
	MaxTokens  int           `json:"max_tokens"`
	Took       time.Duration `json:"took_ns"`
	MetricsURL string        `json:"metrics_url,omitempty"`
	Items      []CheckItem   `json:"items"`
	Warnings   []Warning     `json:"warnings,omitempty"`
}

// Failed lists the names of the items that failed.
func (c *InstrumentCheck) Failed() []string {
	var names []string
	for _, i := range c.Items {
		if i.Verdict == Fail {
			names = append(names, i.Name)
		}
	}
	return names
}

package workload

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
)

// The distributions of a Length.
const (
	Fixed   = "fixed"
	Uniform = "uniform"
)

// MaxTokens is the longest length taken, in tokens. Longer ones are typing errors.
const MaxTokens = 10_000_000

// Length is a distribution of lengths in tokens. In YAML and JSON it is a number
// (always that many) or an object: {dist: uniform, min: 100, max: 500}. As a
// flag it is "512" or "100..500".
type Length struct {
	// Dist names the distribution; empty means fixed.
	Dist string `yaml:"dist" json:"dist"`
	// Tokens of a fixed length.
	Tokens int `yaml:"tokens,omitempty" json:"tokens,omitempty"`
	// Min and Max of a uniform one, both included.
	Min int `yaml:"min,omitempty" json:"min,omitempty"`
	Max int `yaml:"max,omitempty" json:"max,omitempty"`
}

// FixedLength is always n tokens.
func FixedLength(n int) Length { return Length{Dist: Fixed, Tokens: n} }

// UniformLength is every length from low to high, equally often.
func UniformLength(low, high int) Length { return Length{Dist: Uniform, Min: low, Max: high} }

// Validate says what is wrong, without naming the field.
func (l Length) Validate() error {
	switch l.Dist {
	case Fixed, "":
		if l.Min != 0 || l.Max != 0 {
			return fmt.Errorf("a fixed length takes tokens, not min and max")
		}
		return checkTokens(l.Tokens)
	case Uniform:
		if l.Tokens != 0 {
			return fmt.Errorf("a uniform length takes min and max, not tokens")
		}
		if err := checkTokens(l.Min); err != nil {
			return fmt.Errorf("min: %w", err)
		}
		if err := checkTokens(l.Max); err != nil {
			return fmt.Errorf("max: %w", err)
		}
		if l.Min > l.Max {
			return fmt.Errorf("min %d is above max %d", l.Min, l.Max)
		}
		return nil
	}
	return fmt.Errorf("dist %q is none of %s, %s", l.Dist, Fixed, Uniform)
}

func checkTokens(n int) error {
	switch {
	case n < 1:
		return fmt.Errorf("%d tokens are fewer than 1", n)
	case n > MaxTokens:
		return fmt.Errorf("%d tokens are more than %d", n, MaxTokens)
	}
	return nil
}

// Bounds are the shortest and the longest length, in tokens.
func (l Length) Bounds() (low, high int) {
	if l.Dist == Uniform {
		return l.Min, l.Max
	}
	return l.Tokens, l.Tokens
}

// draw takes the next length from r. A fixed length takes nothing from it.
func (l Length) draw(r *rand.Rand) int {
	if l.Dist == Uniform {
		return l.Min + r.IntN(l.Max-l.Min+1)
	}
	return l.Tokens
}

// String is the form that flags take: "512", "100..500".
func (l Length) String() string {
	if l.Dist == Uniform {
		return fmt.Sprintf("%d..%d", l.Min, l.Max)
	}
	return strconv.Itoa(l.Tokens)
}

// describe says the length in words, without the unit.
func (l Length) describe() string {
	if l.Dist == Uniform {
		return fmt.Sprintf("%d to %d (uniform)", l.Min, l.Max)
	}
	return strconv.Itoa(l.Tokens)
}

// UnmarshalText reads what String writes.
func (l *Length) UnmarshalText(text []byte) error {
	low, high, isRange := strings.Cut(string(text), "..")
	a, err := strconv.Atoi(low)
	if err != nil {
		return fmt.Errorf("length %q is neither a number of tokens nor a range such as 100..500", text)
	}
	if !isRange {
		*l = FixedLength(a)
		return nil
	}
	b, err := strconv.Atoi(high)
	if err != nil {
		return fmt.Errorf("length %q is neither a number of tokens nor a range such as 100..500", text)
	}
	*l = UniformLength(a, b)
	return nil
}

// lengthObject is a Length without its methods, for the codecs.
type lengthObject Length

// UnmarshalYAML reads a number, the text of a range, or an object.
func (l *Length) UnmarshalYAML(unmarshal func(any) error) error {
	var o lengthObject
	var text string
	switch objectErr := unmarshal(&o); {
	case objectErr == nil:
		*l = Length(o)
		if l.Dist == "" {
			l.Dist = Fixed
		}
		return nil
	case unmarshal(&text) == nil:
		return at(objectErr, l.UnmarshalText([]byte(text)))
	default:
		return objectErr
	}
}

// at gives err the place in the file that another error about the same value knows.
func at(place, err error) error {
	var p yaml.Error
	if err == nil || !errors.As(place, &p) {
		return err
	}
	return &yaml.SyntaxError{Message: err.Error(), Token: p.GetToken()}
}

// MarshalYAML writes a number for a fixed length.
func (l Length) MarshalYAML() (any, error) {
	if l.Dist == Uniform {
		return lengthObject(l), nil
	}
	return l.Tokens, nil
}

// UnmarshalJSON reads a number or an object.
func (l *Length) UnmarshalJSON(data []byte) error {
	var n int
	if json.Unmarshal(data, &n) == nil {
		*l = FixedLength(n)
		return nil
	}
	return json.Unmarshal(data, (*lengthObject)(l))
}

// MarshalJSON writes a number for a fixed length.
func (l Length) MarshalJSON() ([]byte, error) {
	if l.Dist == Uniform {
		return json.Marshal(lengthObject(l))
	}
	return json.Marshal(l.Tokens)
}

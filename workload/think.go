package workload

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"gonum.org/v1/gonum/stat/distuv"
)

// Exponential times are memoryless; only think times have it.
const Exponential = "exponential"

// Think is a distribution of think times: how long a slot of a closed loop rests
// between two requests. In YAML it is a duration (always that long) or an object:
// {dist: lognormal, mean: 5s, cv: 1.5, max: 2m}. As a flag it is "5s" or
// "lognormal:mean=5s,cv=1.5,max=2m". The zero value is no think time.
type Think struct {
	// Dist is fixed (or empty), uniform, exponential, lognormal or gamma.
	Dist string `yaml:"dist,omitempty" json:"dist,omitzero"`
	// Mean of all but a uniform one.
	Mean time.Duration `yaml:"mean,omitempty" json:"mean_ns,omitzero"`
	// CV of a lognormal or gamma: standard deviation over mean.
	CV float64 `yaml:"cv,omitempty" json:"cv,omitzero"`
	// Min and Max of a uniform one. Of the others Max cuts the tail: longer times
	// are drawn again. 0 is no cut but a day.
	Min time.Duration `yaml:"min,omitempty" json:"min_ns,omitzero"`
	Max time.Duration `yaml:"max,omitempty" json:"max_ns,omitzero"`
}

// FixedThink always rests d.
func FixedThink(d time.Duration) Think { return Think{Mean: d} }

// IsZero reports whether there is no think time.
func (t Think) IsZero() bool { return t == Think{} || t == Think{Dist: Fixed} }

func (t Think) isFixed() bool { return t.Dist == Fixed || t.Dist == "" }

const maxThink = 24 * time.Hour

// Validate says what is wrong, without naming the field.
func (t Think) Validate() error {
	for _, d := range []struct {
		name string
		d    time.Duration
	}{{"", t.Mean}, {"min", t.Min}, {"max", t.Max}} {
		if d.d < 0 || d.d > maxThink {
			return faultf(d.name, "%v is not within 0 and %v", d.d, maxThink)
		}
	}
	switch t.Dist {
	case Fixed, "":
		if t.CV != 0 || t.Min != 0 || t.Max != 0 {
			return faultf("", "a fixed think time takes no cv, min and max")
		}
		return nil
	case Uniform:
		switch {
		case t.Mean != 0 || t.CV != 0:
			return faultf("", "a uniform think time takes min and max alone")
		case t.Min > t.Max || t.Max == 0:
			return faultf("", "min %v and max %v are no range", t.Min, t.Max)
		}
		return nil
	case Exponential, LogNormal, Gamma:
	default:
		return faultf("dist", "%q is none of %s, %s, %s, %s, %s", t.Dist, Fixed, Uniform, Exponential, LogNormal, Gamma)
	}
	switch {
	case t.Mean == 0:
		return faultf("", "%s think times need a mean", t.Dist)
	case t.Min != 0:
		return faultf("min", "%s think times take none", t.Dist)
	case t.Dist == Exponential && t.CV != 0:
		return faultf("cv", "exponential think times take none: it is 1")
	case t.Dist != Exponential && !(t.CV > 0 && t.CV <= 20):
		return faultf("cv", "%v is not above 0 and up to 20", t.CV)
	case t.Max != 0 && t.continuous().CDF(t.Max.Seconds()) < leastMass:
		return faultf("max", "hardly any think time of mean %v is below %v", t.Mean, t.Max)
	}
	return nil
}

func (t Think) continuous() distribution {
	mean := t.Mean.Seconds()
	switch t.Dist {
	case LogNormal:
		return lognormal(mean, t.CV)
	case Gamma:
		k := 1 / (t.CV * t.CV)
		return distuv.Gamma{Alpha: k, Beta: k / mean}
	}
	return distuv.Exponential{Rate: 1 / mean}
}

// longest time that may be drawn.
func (t Think) longest() time.Duration {
	if t.Max == 0 {
		return maxThink
	}
	return t.Max
}

// Expected is the mean as drawn, after the cut.
func (t Think) Expected() time.Duration {
	switch {
	case t.isFixed():
		return t.Mean
	case t.Dist == Uniform:
		return (t.Min + t.Max) / 2
	}
	draw, mean := t.quantile(), 0.0
	const n = 4096
	for i := range n {
		// Midpoints, crowded where the tail is: u = 1 - v³.
		v := (float64(i) + 0.5) / n
		mean += draw(1-v*v*v) * 3 * v * v / n
	}
	return time.Duration(mean * 1e9)
}

// quantile is that of a continuous one with its cut, in seconds.
func (t Think) quantile() func(u float64) float64 {
	d, longest := t.continuous(), t.longest().Seconds()
	mass := d.CDF(longest)
	return func(u float64) float64 {
		if x := d.Quantile(u * mass); x < longest {
			return x
		}
		return longest
	}
}

// sampler draws think times.
func (t Think) sampler() func(r *rand.Rand) time.Duration {
	switch {
	case t.isFixed():
		return func(*rand.Rand) time.Duration { return t.Mean }
	case t.Dist == Uniform:
		return func(r *rand.Rand) time.Duration { return t.Min + time.Duration(r.Int64N(int64(t.Max-t.Min)+1)) }
	}
	q := t.quantile()
	return func(r *rand.Rand) time.Duration { return time.Duration(math.Round(q(r.Float64()) * 1e9)) }
}

// String is the form that flags take.
func (t Think) String() string {
	if t.isFixed() {
		return t.Mean.String()
	}
	return t.Dist + ":" + strings.Join(t.terms(), ",")
}

func (t Think) terms() []string {
	var out []string
	add := func(name string, d time.Duration) {
		if d != 0 {
			out = append(out, name+"="+d.String())
		}
	}
	add("mean", t.Mean)
	if t.CV != 0 {
		out = append(out, "cv="+number(t.CV))
	}
	add("min", t.Min)
	add("max", t.Max)
	return out
}

func (t Think) describe() string {
	switch {
	case t.IsZero():
		return "no think time"
	case t.isFixed():
		return fmt.Sprintf("think time %v", t.Mean)
	case t.Dist == Uniform:
		return fmt.Sprintf("think time %v to %v (uniform)", t.Min, t.Max)
	}
	text := fmt.Sprintf("think time %s (%s", t.Dist, strings.ReplaceAll(strings.Join(t.terms(), ", "), "=", " "))
	if t.Max != 0 {
		text += fmt.Sprintf("; mean %v as cut", t.Expected().Round(time.Millisecond))
	}
	return text + ")"
}

// UnmarshalText reads what String writes.
func (t *Think) UnmarshalText(text []byte) error {
	dist, terms, ok := strings.Cut(string(text), ":")
	if !ok {
		d, err := time.ParseDuration(string(text))
		if err != nil {
			return fmt.Errorf("think time: %w", err)
		}
		*t = FixedThink(d)
		return nil
	}
	if !slices.Contains([]string{Uniform, Exponential, LogNormal, Gamma}, dist) {
		return fmt.Errorf("think time: %q is none of %s, %s, %s, %s", dist, Uniform, Exponential, LogNormal, Gamma)
	}
	n := Think{Dist: dist}
	for term := range strings.SplitSeq(terms, ",") {
		name, value, _ := strings.Cut(term, "=")
		var err error
		switch name {
		case "mean":
			n.Mean, err = time.ParseDuration(value)
		case "min":
			n.Min, err = time.ParseDuration(value)
		case "max":
			n.Max, err = time.ParseDuration(value)
		case "cv":
			n.CV, err = strconv.ParseFloat(value, 64)
		default:
			err = errors.New("want mean, cv, min or max, as in mean=5s")
		}
		if err != nil {
			return fmt.Errorf("think time: %q: %w", term, err)
		}
	}
	*t = n
	return nil
}

// thinkObject is a Think without its methods, for the codecs.
type thinkObject Think

// UnmarshalYAML reads a duration, the text of a flag, or an object. Errors know
// their line and column.
func (t *Think) UnmarshalYAML(unmarshal func(any) error) error {
	var o thinkObject
	var d time.Duration
	var text string
	var place node
	objectErr := unmarshal(&o)
	switch {
	case objectErr == nil:
		*t = Think(o)
	case unmarshal(&d) == nil:
		*t = FixedThink(d)
	case unmarshal(&text) == nil:
		if err := t.UnmarshalText([]byte(text)); err != nil {
			return at(objectErr, err)
		}
	default:
		return objectErr
	}
	if err := unmarshal(&place); err != nil {
		return err
	}
	return place.blame(t.Validate())
}

// MarshalYAML writes a duration for a fixed time.
func (t Think) MarshalYAML() (any, error) {
	if t.isFixed() {
		return t.Mean, nil
	}
	return thinkObject(t), nil
}

// UnmarshalJSON reads nanoseconds or an object.
func (t *Think) UnmarshalJSON(data []byte) error {
	var d time.Duration
	if json.Unmarshal(data, &d) == nil {
		*t = FixedThink(d)
		return nil
	}
	return json.Unmarshal(data, (*thinkObject)(t))
}

// MarshalJSON writes nanoseconds for a fixed time.
func (t Think) MarshalJSON() ([]byte, error) {
	if t.isFixed() {
		return json.Marshal(t.Mean)
	}
	return json.Marshal(thinkObject(t))
}

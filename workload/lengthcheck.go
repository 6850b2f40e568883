package workload

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// fault is an error about one key of an object, "" for the whole.
type fault struct {
	key string
	err error
}

func (f *fault) Error() string {
	if f.key == "" {
		return f.err.Error()
	}
	return f.key + ": " + f.err.Error()
}

func (f *fault) Unwrap() error { return f.err }

func faultf(key, format string, args ...any) error {
	return &fault{key, fmt.Errorf(format, args...)}
}

// Lengths that Length knows, in the order in which they are listed.
func lengthDists() []string {
	return []string{Fixed, Uniform, Normal, LogNormal, Gamma, Pareto, Zipf, Quantiles, Histogram, Mixture, FromTrace}
}

// takes are the parameters of a distribution beside min and max.
func takes(dist string) []string {
	switch dist {
	case Normal:
		return []string{"mean", "cv", "sd"}
	case LogNormal:
		return []string{"mean", "cv", "median", "sigma"}
	case Gamma:
		return []string{"mean", "cv"}
	case Pareto:
		return []string{"alpha"}
	case Zipf:
		return []string{"exponent"}
	case Quantiles:
		var l Length
		var names []string
		for _, q := range l.quantiles() {
			names = append(names, q.name)
		}
		return names
	}
	return nil
}

// Validate says what is wrong, without naming the field.
func (l Length) Validate() error {
	if !slices.Contains(lengthDists(), l.Dist) && l.Dist != "" {
		return faultf("", "dist %q is none of %s", l.Dist, strings.Join(lengthDists(), ", "))
	}
	if err := l.checkForeign(); err != nil {
		return err
	}
	switch l.Dist {
	case Fixed, "":
		return checkTokens(l.Tokens)
	case FromTrace:
		return nil
	case Histogram:
		return l.checkBins()
	case Mixture:
		return l.checkParts()
	}
	if l.Dist == Uniform || l.Min != 0 {
		if err := checkTokens(l.Min); err != nil {
			return &fault{"min", err}
		}
	}
	if l.Max == 0 && l.Dist != Uniform {
		return faultf("", "a %s length needs a max: the longest that may be drawn", l.Dist)
	}
	if err := checkTokens(l.Max); err != nil {
		return &fault{"max", err}
	}
	if low := max(l.Min, 1); low > l.Max {
		return faultf("", "min %d is above max %d", low, l.Max)
	}
	if err := l.checkParameters(); err != nil {
		return err
	}
	_, err := l.sampler()
	return err
}

// checkForeign refuses what belongs to another distribution.
func (l *Length) checkForeign() error {
	switch {
	case l.isFixed() && (l.Min != 0 || l.Max != 0):
		return faultf("", "a fixed length takes tokens, not min and max")
	case l.Dist == Uniform && l.Tokens != 0:
		return faultf("", "a uniform length takes min and max, not tokens")
	case !l.isFixed() && l.Tokens != 0:
		return faultf("tokens", "a %s length takes none", l.Dist)
	case slices.Contains([]string{Histogram, Mixture, FromTrace}, l.Dist) && (l.Min != 0 || l.Max != 0):
		return faultf("", "a %s takes no min and max", l.Dist)
	case l.Dist != Histogram && len(l.Bins) > 0:
		return faultf("bins", "only a histogram has bins")
	case l.Dist != Mixture && len(l.Of) > 0:
		return faultf("of", "only a mixture has parts")
	}
	for _, p := range l.parameters() {
		switch {
		case *p.at == 0:
		case !slices.Contains(takes(l.Dist), p.name):
			name := l.Dist
			if name == "" {
				name = Fixed
			}
			return faultf(p.name, "a %s length takes none", name)
		case !(*p.at > 0) || math.IsInf(*p.at, 0):
			return faultf(p.name, "%v is not a number above 0", *p.at)
		}
	}
	return nil
}

// checkParameters wants the needed ones, and one of two ways to say a thing.
func (l *Length) checkParameters() error {
	set := func(x ...float64) int {
		n := 0
		for _, v := range x {
			if v != 0 {
				n++
			}
		}
		return n
	}
	switch l.Dist {
	case Normal:
		if l.Mean == 0 || set(l.CV, l.SD) != 1 {
			return faultf("", "a normal length needs its mean, and its cv or sd")
		}
	case LogNormal:
		byMean, byMedian := set(l.Mean, l.CV), set(l.Median, l.Sigma)
		if byMean+byMedian != 2 || byMean == 1 {
			return faultf("", "a lognormal length needs its mean and cv, or its median and sigma")
		}
	case Gamma:
		if set(l.Mean, l.CV) != 2 {
			return faultf("", "a gamma length needs its mean and cv")
		}
	case Pareto:
		if l.Alpha == 0 {
			return faultf("", "a pareto length needs its alpha: the tail falls as length^-alpha")
		}
	case Zipf:
		if l.Exponent == 0 {
			return faultf("", "a zipf length needs its exponent")
		}
	case Quantiles:
		return l.checkQuantiles()
	}
	for _, bound := range []struct {
		name         string
		value, limit float64
	}{{"cv", l.CV, 20}, {"sigma", l.Sigma, 10}, {"alpha", l.Alpha, 100}, {"exponent", l.Exponent, 100}, {"mean", l.Mean, MaxTokens}, {"median", l.Median, MaxTokens}, {"sd", l.SD, MaxTokens}} {
		if bound.value > bound.limit {
			return faultf(bound.name, "%v is above %v", bound.value, bound.limit)
		}
	}
	return nil
}

func (l *Length) checkQuantiles() error {
	last, lastName, some := float64(max(l.Min, 1)), "min", false
	for _, q := range l.quantiles() {
		if *q.at == 0 {
			continue
		}
		if *q.at < last {
			return faultf(q.name, "%v is below %s, %v", *q.at, lastName, last)
		}
		last, lastName, some = *q.at, q.name, true
	}
	if !some {
		return faultf("", "a table of quantiles needs at least one, such as p50")
	}
	if float64(l.Max) < last {
		return faultf("max", "%d is below %s, %v", l.Max, lastName, last)
	}
	return nil
}

func (l *Length) checkBins() error {
	if len(l.Bins) == 0 {
		return faultf("bins", "a histogram needs some")
	}
	total := 0.0
	for i, b := range l.Bins {
		if err := checkTokens(b.Min); err != nil {
			return faultf("bins", "bin %d: min: %w", i+1, err)
		}
		if err := checkTokens(b.Max); err != nil {
			return faultf("bins", "bin %d: max: %w", i+1, err)
		}
		if b.Min > b.Max {
			return faultf("bins", "bin %d: min %d is above max %d", i+1, b.Min, b.Max)
		}
		if !(b.Weight >= 0) || math.IsInf(b.Weight, 0) {
			return faultf("bins", "bin %d: weight %v is not a number from 0", i+1, b.Weight)
		}
		total += b.Weight
	}
	if !(total > 0) || math.IsInf(total, 0) {
		return faultf("bins", "the weights sum to %v", total)
	}
	return nil
}

func (l *Length) checkParts() error {
	if len(l.Of) == 0 {
		return faultf("of", "a mixture needs some parts")
	}
	for i, part := range l.Of {
		err := part.Validate()
		switch {
		case part.Dist == Mixture || part.Dist == FromTrace:
			err = fmt.Errorf("a %s cannot be part of a mixture", part.Dist)
		case !(part.Weight >= 0) || math.IsInf(part.Weight, 0):
			err = fmt.Errorf("weight %v is not a number above 0", part.Weight)
		}
		if err != nil {
			return faultf("of", "part %d: %w", i+1, err)
		}
	}
	return nil
}

func checkTokens(n int) error {
	switch {
	case n < 1:
		return fmt.Errorf("%d is below 1", n)
	case n > MaxTokens:
		return fmt.Errorf("%d is above %d", n, MaxTokens)
	}
	return nil
}

// faultKey is the key that err is about; "" if it does not say.
func faultKey(err error) string {
	var f *fault
	if errors.As(err, &f) {
		return f.key
	}
	return ""
}

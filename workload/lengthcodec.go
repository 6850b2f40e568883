package workload

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// UnmarshalText reads what String writes.
func (l *Length) UnmarshalText(text []byte) error {
	if dist, terms, ok := strings.Cut(string(text), ":"); ok {
		return l.parseTerms(dist, terms)
	}
	if string(text) == FromTrace {
		*l = Length{Dist: FromTrace}
		return nil
	}
	low, high, isRange := strings.Cut(string(text), "..")
	a, err := strconv.Atoi(low)
	b := a
	if isRange && err == nil {
		b, err = strconv.Atoi(high)
	}
	if err != nil {
		return fmt.Errorf("length %q is neither a whole number nor a range such as 100..500, nor a distribution such as lognormal:mean=512,cv=1.2,max=4096", text)
	}
	if *l = FixedLength(a); isRange {
		*l = UniformLength(a, b)
	}
	return nil
}

// parseTerms reads "mean=512,cv=1.2,max=4096" of a distribution.
func (l *Length) parseTerms(dist, terms string) error {
	if !slices.Contains(lengthDists(), dist) {
		return fmt.Errorf("length: %q is none of %s", dist, strings.Join(lengthDists(), ", "))
	}
	if dist == Histogram || dist == Mixture || dist == FromTrace {
		return fmt.Errorf("length: a %s has no short form; write it in a file", dist)
	}
	n := Length{Dist: dist}
	for term := range strings.SplitSeq(terms, ",") {
		name, value, ok := strings.Cut(term, "=")
		if !ok {
			return fmt.Errorf("length: %q: want NAME=VALUE, as in %s", term, "mean=512")
		}
		if err := n.set(name, value); err != nil {
			return err
		}
	}
	*l = n
	return nil
}

func (l *Length) set(name, value string) error {
	for _, p := range l.parameters() {
		if p.name != name || !slices.Contains(takes(l.Dist), name) {
			continue
		}
		x, err := strconv.ParseFloat(value, 64)
		if err != nil || !(x > 0) {
			return fmt.Errorf("length: %s=%q: want a number above 0", name, value)
		}
		*p.at = x
		return nil
	}
	count := map[string]*int{"min": &l.Min, "max": &l.Max}
	if l.Dist == Fixed {
		count = map[string]*int{"tokens": &l.Tokens}
	}
	at, ok := count[name]
	if !ok {
		return fmt.Errorf("length: a %s takes no %q", l.Dist, name)
	}
	n, err := strconv.Atoi(value)
	if err != nil {
		return fmt.Errorf("length: %s=%q: want a number of tokens", name, value)
	}
	*at = n
	return nil
}

// lengthObject is a Length without its methods, for the codecs.
type lengthObject Length

// UnmarshalYAML reads a number, the text of a flag, or an object. Errors know
// their line and column.
func (l *Length) UnmarshalYAML(unmarshal func(any) error) error {
	var o lengthObject
	var text string
	var place node
	objectErr := unmarshal(&o)
	if objectErr != nil {
		if unmarshal(&text) != nil {
			return objectErr
		}
		if err := l.UnmarshalText([]byte(text)); err != nil {
			return at(objectErr, err)
		}
		if unmarshal(&place) != nil {
			return nil
		}
		return place.blame(l.Validate())
	}
	*l = Length(o)
	if l.Dist == "" {
		l.Dist = Fixed
	}
	if err := unmarshal(&place); err != nil {
		return err
	}
	if err := place.whole("tokens", "min", "max"); err != nil {
		return err
	}
	return place.blame(l.Validate())
}

// node remembers where a value stands in its file.
type node struct{ ast.Node }

// UnmarshalYAML implements yaml.NodeUnmarshaler.
func (n *node) UnmarshalYAML(a ast.Node) error {
	n.Node = a
	return nil
}

// whole refuses fractions as values of those keys, which the decoder would cut to
// whole numbers.
func (n *node) whole(keys ...string) error {
	m, ok := n.Node.(*ast.MappingNode)
	if !ok {
		return nil
	}
	for _, v := range m.Values {
		key := v.Key.GetToken().Value
		if _, ok := v.Value.(*ast.FloatNode); ok && slices.Contains(keys, key) {
			return n.blame(faultf(key, "%s is not a whole number", v.Value.GetToken().Value))
		}
	}
	return nil
}

// blame gives err, about an object, the place of the key that it is about.
func (n *node) blame(err error) error {
	if err == nil || n.Node == nil {
		return err
	}
	t := n.GetToken()
	if m, ok := n.Node.(*ast.MappingNode); ok && len(m.Values) > 0 {
		t = m.Values[0].Key.GetToken()
		for _, v := range m.Values {
			if v.Key.GetToken().Value == faultKey(err) {
				t = firstToken(v.Value)
			}
		}
	}
	return &yaml.SyntaxError{Message: err.Error(), Token: t}
}

// firstToken is the token with which a value begins.
func firstToken(n ast.Node) *token.Token {
	if m, ok := n.(*ast.MappingNode); ok && m.Start != nil {
		return m.Start
	}
	return n.GetToken()
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
	if l.isFixed() && l.Weight == 0 {
		return l.Tokens, nil
	}
	return lengthObject(l), nil
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
	if l.isFixed() && l.Weight == 0 {
		return json.Marshal(l.Tokens)
	}
	return json.Marshal(lengthObject(l))
}

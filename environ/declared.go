package environ

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// maxValue is the longest value of a fact that is kept, in bytes.
const maxValue = 200

// validName of a declared fact: what a YAML key or a flag can be without quotes.
var validName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,63}$`)

// Names and values that are likely to be credentials.
var (
	secretName  = regexp.MustCompile(`(?i)(secret|passw|credential|authorization|cookie|api_?key|private_?key|access_?key|(^|_)(auth|bearer|token)($|_))`)
	secretValue = regexp.MustCompile(`(?i)(^|\s)bearer\s|^(sk-|hf_|ghp_|AKIA|eyJ)|-----BEGIN|//[^/@\s]+@`)
)

// FromDeclared makes facts of what the user declared, in order of names. An
// error names what cannot be taken, and never repeats a value.
func FromDeclared(values map[string]string) ([]Fact, error) {
	var out []Fact
	for _, key := range slices.Sorted(maps.Keys(values)) {
		v := strings.TrimSpace(values[key])
		switch {
		case !validName.MatchString(key):
			return nil, fmt.Errorf("%q: want a name of letters, digits and _, such as gpu or kv_cache_dtype", key)
		case v == "":
			return nil, fmt.Errorf("%s has no value: leave it out if it is not known", key)
		case secretName.MatchString(key) || secretValue.MatchString(v):
			return nil, fmt.Errorf("%s looks like a credential: the environment log is stored and printed", key)
		case len(v) > maxValue || strings.ContainsFunc(v, func(r rune) bool { return r < ' ' || r == 0x7f }):
			return nil, fmt.Errorf("%s: want one line of at most %d bytes", key, maxValue)
		}
		out = append(out, Fact{strings.ToLower(key), v, Declared})
	}
	return out, nil
}

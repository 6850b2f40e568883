package real

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestRedact(t *testing.T) {
	header := http.Header{
		"Authorization": {"Bearer sk-abcdefgh"}, "Cookie": {"session=s3cr3t+value; theme=dark"},
		"Accept": {"text/event-stream"}, "X-Short": {"yes"},
	}
	s := secretsOf(header, url.UserPassword("somebody", "pass word"), "key=q%2Fuery1&v=1")
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "all is well", "all is well"},
		{"whole value", `bad header "Bearer sk-abcdefgh"`, `bad header "(redacted)"`},
		{"its part", "key sk-abcdefgh is unknown", "key (redacted) is unknown"},
		{"cookie in a URL", "?c=s3cr3t%2Bvalue", "?c=(redacted)"},
		{"user and password", "somebody said pass word and pass%20word", "(redacted) said (redacted) and (redacted)"},
		{"basic", "c29tZWJvZHk6cGFzcyB3b3Jk", "(redacted)"},
		{"query, both forms", "q%2Fuery1 q/uery1", "(redacted) (redacted)"},
		{"words of the protocol", "Bearer of text/event-stream: yes", "Bearer of text/event-stream: yes"},
		{"cut at the end", "key sk-abcd", "key (redacted)"},
		{"cut and marked", "key sk-abcd…", "key (redacted)…"},
		{"cut in a quote", `it starts with "sk-abcdef"`, `it starts with "(redacted)"`},
		{"too little to tell", "key sk-a", "key sk-a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := s.redact(c.text); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// TestClip: wherever a reply is cut, no part of a secret of any length that
// matters is left.
func TestClip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.StringMatching(`[A-Z]{8,40}`).Draw(t, "secret")
		s := secretsOf(http.Header{"X-Key": {secret}}, nil, "")
		before, after := rapid.StringMatching(`[a-z ]{0,60}`).Draw(t, "before"), rapid.StringMatching(`[a-z ]{0,60}`).Draw(t, "after")
		n := rapid.IntRange(0, 120).Draw(t, "cut")
		got := string(s.clip([]byte(before+secret+after), n))
		if len(got) > n {
			t.Fatalf("%d bytes, want at most %d", len(got), n)
		}
		if strings.Contains(got, secret[:leastSecret]) {
			t.Fatalf("%q has a part of %q", got, secret)
		}
		if !strings.HasPrefix(got, before[:min(len(before), n)]) {
			t.Fatalf("%q is not what came before the secret", got)
		}
	})
}

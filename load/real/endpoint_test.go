package real

import (
	"strings"
	"testing"
)

func TestParseEndpoint(t *testing.T) {
	for _, c := range []struct {
		url, want, root, api string // of "models"
		dialect              string
		guessed              bool
	}{
		{url: "localhost:8000", want: "http://localhost:8000/v1", api: "/v1/models", guessed: true},
		{url: "http://h:8000", want: "http://h:8000/v1", api: "/v1/models", guessed: true},
		{url: "http://h:8000/", want: "http://h:8000/v1", api: "/v1/models", guessed: true},
		{url: "http://h:8000/v1", want: "http://h:8000/v1", api: "/v1/models"},
		{url: "http://h:8000/v1/", want: "http://h:8000/v1", api: "/v1/models"},
		{url: "https://h/prefix", want: "https://h/prefix/v1", root: "/prefix", api: "/prefix/v1/models", guessed: true},
		{url: "https://h/a/b/v1", want: "https://h/a/b/v1", root: "/a/b", api: "/a/b/v1/models"},
		{url: "https://h/v12", want: "https://h/v12", api: "/v12/models"},
		{url: "https://h/v1beta", want: "https://h/v1beta/v1", root: "/v1beta", api: "/v1beta/v1/models", guessed: true},
		{url: "http://h/v1/chat/completions", want: "http://h/v1", api: "/v1/models", dialect: "openai-chat"},
		{url: "http://h/p/v1/completions", want: "http://h/p/v1", root: "/p", api: "/p/v1/models", dialect: "openai-completions"},
		{url: "http://h/openai/chat/completions", want: "http://h/openai", root: "/openai", api: "/openai/models", dialect: "openai-chat"},
		{url: "http://u:p@h/v1?api-version=3", want: "http://h/v1", api: "/v1/models?api-version=3"},
		{url: "http://[::1]:8000/v1", want: "http://[::1]:8000/v1", api: "/v1/models"},
	} {
		t.Run(c.url, func(t *testing.T) {
			e, err := ParseEndpoint(c.url)
			if err != nil {
				t.Fatal(err)
			}
			name := ""
			if e.Dialect != nil {
				name = e.Dialect.Name()
			}
			if e.URL() != c.want || e.Root != c.root || e.api("models") != c.api || name != c.dialect || e.Guessed != c.guessed {
				t.Errorf("%s, root %q, %q, dialect %q, guessed %v", e.URL(), e.Root, e.api("models"), name, e.Guessed)
			}
		})
	}
}

// FuzzParseEndpoint: whatever is taken for an endpoint is one, and its public
// form has no credentials; no error repeats the URL.
func FuzzParseEndpoint(f *testing.F) {
	for _, u := range []string{"http://h", "h:80", "https://u:sEcReT@h/v1?x=sEcReT", "http://u:sEcReT@h:x", "//", "http://[::1", "http://h/v1/chat/completions#f"} {
		f.Add(u)
	}
	f.Fuzz(func(t *testing.T, u string) {
		e, err := ParseEndpoint(u)
		if err != nil {
			if strings.Contains(u, "@") && strings.Contains(u, "sEcReT") && strings.Contains(err.Error(), "sEcReT") {
				t.Fatalf("the error repeats a secret: %v", err)
			}
			return
		}
		if e.Host == "" || e.Scheme != "http" && e.Scheme != "https" || strings.Contains(e.Host, "@") {
			t.Fatalf("%+v", e)
		}
		if !strings.HasPrefix(e.api("models"), "/") {
			t.Fatalf("path %q", e.api("models"))
		}
	})
}

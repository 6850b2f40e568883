package real

import (
	"cmp"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// redacted stands where a secret was.
const redacted = "(redacted)"

// leastSecret is the shortest text taken for a secret: redacting "no" wherever
// it stands would make messages unreadable and hide nothing.
const leastSecret = 6

// secrets are the header values and URL credentials that we were given, in every
// form in which a server may repeat them. No error body, no redirect and no
// message may carry one to a file or a terminal.
type secrets struct {
	longest  int
	list     []string // the longest first
	replacer *strings.Replacer
}

// secretsOf takes every value of the headers, whole and in its parts (a scheme
// word, the cookies of a jar), and the userinfo and the query of the URL.
func secretsOf(h http.Header, user *url.Userinfo, query string) secrets {
	var s secrets
	for name, values := range h {
		if name == "Accept" || name == "Content-Type" {
			continue
		}
		for _, v := range values {
			s.add(v)
			for _, part := range strings.FieldsFunc(v, func(r rune) bool { return strings.ContainsRune(" ;,=\"", r) }) {
				s.add(part)
			}
		}
	}
	for part := range strings.SplitSeq(query, "&") {
		_, v, _ := strings.Cut(part, "=")
		s.add(v)
		if plain, err := url.QueryUnescape(v); err == nil {
			s.add(plain)
		}
	}
	if user != nil {
		password, _ := user.Password()
		pair := user.Username() + ":" + password
		for _, v := range []string{pair, password, user.Username(), base64.StdEncoding.EncodeToString([]byte(pair))} {
			s.add(v)
		}
	}
	// The longest match first.
	slices.SortFunc(s.list, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	s.list = slices.Compact(s.list)
	var pairs []string
	for _, v := range s.list {
		pairs = append(pairs, v, redacted)
	}
	if len(s.list) > 0 {
		s.longest = len(s.list[0])
	}
	s.replacer = strings.NewReplacer(pairs...)
	return s
}

// add enters a value and its forms inside URLs. "Bearer" and "Basic" are words
// of the protocol.
func (s *secrets) add(v string) {
	if len(v) < leastSecret || v == "Bearer" {
		return
	}
	s.list = append(s.list, v)
	for _, form := range []string{url.QueryEscape(v), url.PathEscape(v)} {
		if form != v {
			s.list = append(s.list, form)
		}
	}
}

// redact replaces secrets, and a beginning of one at a place where the text was
// cut off.
func (s *secrets) redact(text string) string {
	if text == "" || len(s.list) == 0 {
		return text
	}
	text = s.replacer.Replace(text)
	// What a message may put behind a text that it has cut.
	body := strings.TrimRight(text, "…\"'`)")
	for _, v := range s.list {
		for n := min(len(v)-1, len(body)); n >= leastSecret; n-- {
			if strings.HasSuffix(body, v[:n]) {
				return body[:len(body)-n] + redacted + text[len(body):]
			}
		}
	}
	return text
}

// clip keeps at most n bytes of a reply, without the secrets in it.
func (s *secrets) clip(b []byte, n int) []byte {
	// A secret across the cut is seen whole before the cut is made.
	b = []byte(s.redact(string(b[:min(len(b), n+s.longest)])))
	return b[:min(len(b), n)]
}

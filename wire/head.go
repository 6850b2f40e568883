package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/assay-bench/assay/record"
)

// keepRequest is the largest request buffer that is kept for the next one.
const keepRequest = 1 << 20

var requestBuffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func recycleRequest(b *bytes.Buffer) {
	if b.Cap() <= keepRequest {
		requestBuffers.Put(b)
	}
}

// encode writes the bytes of a request to w.
func (c *Client) encode(w *bytes.Buffer, req *Request) error {
	u, err := url.ParseRequestURI(req.Path)
	if err != nil {
		return errors.New("the path of the request is invalid")
	}
	for name, values := range req.Header {
		if !validName(name) {
			return fmt.Errorf("header name %q is invalid", name)
		}
		for _, v := range values {
			if strings.ContainsAny(v, "\r\n\x00") {
				return fmt.Errorf("the value of header %s has a line break", name)
			}
		}
	}
	u.Scheme, u.Host = c.cfg.Scheme, c.cfg.Host
	r := http.Request{
		Method: req.Method, URL: u, Host: c.cfg.HostHeader, Header: req.Header,
		ContentLength: int64(len(req.Body)),
	}
	if len(req.Body) > 0 {
		r.Body = body{bytes.NewReader(req.Body)}
	}
	w.Reset()
	return r.Write(w)
}

type body struct{ *bytes.Reader }

func (body) Close() error { return nil }

// validName reports whether name is a token (RFC 9110, section 5.6.2).
func validName(name string) bool {
	for i := range len(name) {
		c := name[i]
		alnum := c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !alnum && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return name != ""
}

// head is a parsed response head, with the bytes that came behind it.
type head struct {
	resp *http.Response
	rest []byte // in the buffer of the connection
	st   ReadStamp
}

// errNoReply is returned when the connection ended before a byte of a reply.
var errNoReply = errors.New("the connection was closed before a reply")

// readHead reads the final response head.
func (cn *conn) readHead(method string) (head, error) {
	have, scan := 0, headScan{limit: cn.client.cfg.MaxHead}
	for {
		if have == len(cn.buf) {
			cn.buf = append(cn.buf, make([]byte, len(cn.buf))...)
		}
		n, st, err := cn.raw.pull(cn.top, cn.buf[have:])
		have += max(n, 0)
		if n > 0 {
			resp, rest, serr := scan.next(cn.buf[:have], method)
			if resp != nil || serr != nil {
				return head{resp: resp, rest: rest, st: st}, serr
			}
		}
		if err != nil {
			return head{}, headError(have, err)
		}
	}
}

// headScan finds the final head of a reply in bytes that come piece by piece;
// informational ones are skipped.
type headScan struct {
	limit int // in bytes, of all heads together
	hop   int // start of the head that is being looked for
	have  int // bytes that were looked at
}

// next takes all bytes so far. Resp is nil if the head is not complete, and
// rest is what came behind it.
func (s *headScan) next(b []byte, method string) (resp *http.Response, rest []byte, err error) {
	from := max(s.hop, s.have-3)
	s.have = len(b)
	for {
		end := headEnd(b[from:])
		if end < 0 {
			break
		}
		end += from
		if end > s.limit {
			return nil, nil, s.tooLong()
		}
		resp, err := parseHead(b[s.hop:end], method)
		if err != nil {
			return nil, nil, &Error{Outcome: record.NotDialect, Err: fmt.Errorf("not an HTTP/1.1 reply: %w", err)}
		}
		if resp.StatusCode >= 200 || resp.StatusCode == http.StatusSwitchingProtocols {
			return resp, b[end:], nil
		}
		s.hop, from = end, end
	}
	if !plausible(b[s.hop:]) {
		return nil, nil, &Error{Outcome: record.NotDialect, Err: fmt.Errorf("not an HTTP/1.1 reply: it starts with %.20q", b[s.hop:])}
	}
	if len(b) >= s.limit {
		return nil, nil, s.tooLong()
	}
	return nil, nil, nil
}

func (s *headScan) tooLong() error {
	return &Error{Outcome: record.NotDialect, Err: fmt.Errorf("the response head exceeds %d bytes", s.limit)}
}

// plausible reports whether b may be the start of a status line.
func plausible(b []byte) bool {
	const proto = "HTTP/1."
	n := min(len(b), len(proto))
	return string(b[:n]) == proto[:n]
}

// headError keeps apart a connection that ended in silence.
func headError(have int, err error) error {
	if have == 0 && isEOF(err) {
		return errNoReply
	}
	return fmt.Errorf("reading the response head: %w", err)
}

// headEnd returns the position after the empty line that ends a head, or -1.
func headEnd(b []byte) int {
	for off := 0; ; {
		i := bytes.IndexByte(b[off:], '\n')
		if i < 0 {
			return -1
		}
		off += i + 1
		switch {
		case off < len(b) && b[off] == '\n':
			return off + 1
		case off+1 < len(b) && b[off] == '\r' && b[off+1] == '\n':
			return off + 2
		}
	}
}

type headParser struct {
	src bytes.Reader
	br  *bufio.Reader
}

var headParsers = sync.Pool{New: func() any { return &headParser{br: bufio.NewReader(nil)} }}

// parseHead parses exactly the bytes of one head.
func parseHead(b []byte, method string) (*http.Response, error) {
	p := headParsers.Get().(*headParser)
	defer headParsers.Put(p)
	p.src.Reset(b)
	p.br.Reset(&p.src)
	return http.ReadResponse(p.br, &http.Request{Method: method})
}

// transferOf says how the body ends. The body of resp is replaced by an empty
// one, since it would read from a buffer that is gone.
func transferOf(resp *http.Response) Transfer {
	none := resp.Body == http.NoBody
	resp.Body = http.NoBody
	switch {
	case none:
		return Transfer{Length: 0}
	case len(resp.TransferEncoding) > 0:
		return Transfer{Chunked: true}
	}
	return Transfer{Length: resp.ContentLength}
}

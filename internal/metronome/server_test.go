package metronome

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/assay-bench/assay/internal/clock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start serves until the test ends.
func start(t *testing.T) string { return startWith(t, nil) }

func startWith(t *testing.T, tc *tls.Config) string {
	t.Helper()
	s, err := New()
	if errors.Is(err, ErrNoSharedClock) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	s.TLS = tc
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	return "http://" + ln.Addr().String()
}

func post(t *testing.T, url string) *http.Response {
	t.Helper()
	resp, err := http.Post(url, "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

func take(t *testing.T, base string) []Truth {
	t.Helper()
	resp := post(t, base+"/take")
	defer resp.Body.Close()
	log, err := ReadLog(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

func TestStream(t *testing.T) {
	base := start(t)
	const events = 5
	every := 2 * time.Millisecond
	resp := post(t, base+"/v1/chat/completions?"+Load{ID: 7, Events: events, Every: every}.Query())
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	text := string(body)
	for want, n := range map[string]int{
		`"role":"assistant"`: 1, `"delta":{"content":"`: events, `"finish_reason":"length"`: 1,
		`"completion_tokens":5`: 1, "data: [DONE]\n\n": 1,
	} {
		if got := strings.Count(text, want); got != n {
			t.Errorf("%s occurs %d times, want %d", want, got, n)
		}
	}
	log := take(t, base)
	if len(log) != 1 {
		t.Fatalf("%d streams in the log", len(log))
	}
	l := log[0]
	if l.ID != 7 || l.Asked != events || len(l.Began) != events || len(l.Took) != events {
		t.Fatalf("log: %+v", l)
	}
	if l.At <= l.Arrival || time.Duration(l.At-l.Arrival) > every {
		t.Errorf("the first event was due %d ns after the request, want at most %v", l.At-l.Arrival, every)
	}
	for k := range l.Began {
		if l.Slip(k) < 0 {
			t.Errorf("event %d was written %v early", k, -l.Slip(k))
		}
	}
	if more := take(t, base); len(more) != 0 {
		t.Errorf("what was taken is still there: %d streams", len(more))
	}
}

// Under TLS the log has the same: when a request was received, below TLS, and when
// its events were written.
func TestStreamUnderTLS(t *testing.T) {
	cert, err := Certificate()
	if err != nil {
		t.Fatal(err)
	}
	base := startWith(t, &tls.Config{Certificates: []tls.Certificate{cert}})
	leaf, err := x509.ParseCertificate(cert.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: x509.NewCertPool()}}
	tr.TLSClientConfig.RootCAs.AddCert(leaf)
	defer tr.CloseIdleConnections()
	client := &http.Client{Transport: tr}
	post := func(path string) []byte {
		resp, err := client.Post("https"+strings.TrimPrefix(base, "http")+path, "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	body := post("/?" + Load{ID: 7, Events: 5, Every: time.Millisecond}.Query())
	if n := strings.Count(string(body), `"delta":{"content":"`); n != 5 {
		t.Errorf("%d events", n)
	}
	log, err := ReadLog(bytes.NewReader(post("/take")))
	if err != nil || len(log) != 1 || len(log[0].Began) != 5 || log[0].Arrival <= 0 || log[0].Began[0] <= log[0].Arrival {
		t.Errorf("%+v, %v", log, err)
	}
}

// Held streams start together, each at its own time after that.
func TestHeld(t *testing.T) {
	base := start(t)
	const streams = 3
	var bodies []io.ReadCloser
	for i := range streams {
		resp := post(t, base+"/?"+Load{ID: int64(i), At: int64(i) * 1e6, Events: 2, Every: time.Millisecond, Held: true}.Query())
		bodies = append(bodies, resp.Body)
	}
	mono, _ := clock.Start().Monotonic()
	at := mono + 20e6
	resp := post(t, fmt.Sprintf("%s/start?at=%d", base, at))
	n, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if string(n) != "3\n" {
		t.Errorf("started %q", n)
	}
	for _, b := range bodies {
		io.Copy(io.Discard, b)
		b.Close()
	}
	log := take(t, base)
	if len(log) != streams {
		t.Fatalf("%d streams in the log", len(log))
	}
	for _, l := range log {
		if l.At != at+l.ID*1e6 || l.Slip(0) < 0 {
			t.Errorf("stream %d was due at %d, want %d; slip %v", l.ID, l.At, at+l.ID*1e6, l.Slip(0))
		}
	}
}

// The server ends in order while streams are held.
func TestEndWhileHeld(t *testing.T) {
	base := start(t)
	resp := post(t, base+"/?"+Load{Events: 1, Held: true}.Query())
	resp.Body.Close()
	resp = post(t, base+"/?"+Load{Events: 1, At: 1 << 62}.Query())
	resp.Body.Close()
}

// A client that goes away ends its stream and is in the log, cut short.
func TestClientGoesAway(t *testing.T) {
	base := start(t)
	u, _ := url.Parse(base)
	c, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(c, "POST /?events=1000000&every=100000 HTTP/1.1\r\nHost: x\r\n\r\n")
	if _, err := bufio.NewReader(c).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	c.Close()
	for {
		log := take(t, base)
		if len(log) == 0 {
			continue // it has not noticed yet
		}
		if n := len(log[0].Began); n >= log[0].Asked {
			t.Errorf("%d events of %d", n, log[0].Asked)
		}
		return
	}
}

func TestRefusal(t *testing.T) {
	base := start(t)
	for _, q := range []string{"events=-1", "events=x", "every=1.5", "events=99999999999", "size=9999999"} {
		resp := post(t, base+"/?"+q)
		resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: status %d", q, resp.StatusCode)
		}
	}
}

func TestEventSize(t *testing.T) {
	for size := range 600 {
		got := len(Event(size))
		shortest := len(Event(1))
		if size == 0 {
			size = DefaultSize
		}
		// One size in a row is not possible: where the chunk size gets a digit.
		if want := max(size, shortest); got != want && got != want-1 && got != want+1 {
			t.Errorf("size %d: %d bytes", size, got)
		}
	}
}

func TestQuery(t *testing.T) {
	want := Load{ID: 3, At: 1 << 60, Events: 17, Every: time.Second, Size: 300, Held: true}
	q, err := url.ParseQuery(want.Query())
	if err != nil {
		t.Fatal(err)
	}
	got, err := parseLoad(q)
	if err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestLogCodec(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var want []Truth
		b := []byte(magic)
		for range rapid.IntRange(0, 4).Draw(t, "streams") {
			n := rapid.IntRange(0, 5).Draw(t, "events")
			x := Truth{ID: rapid.Int64().Draw(t, "id"), Arrival: rapid.Int64().Draw(t, "arrival"), At: rapid.Int64().Draw(t, "at"), Every: time.Duration(rapid.Int64().Draw(t, "every")), Asked: n + rapid.IntRange(0, 3).Draw(t, "more")}
			for range n {
				x.Began = append(x.Began, rapid.Int64().Draw(t, "began"))
				x.Took = append(x.Took, rapid.Uint32().Draw(t, "took"))
			}
			want = append(want, x)
			b = appendTruth(b, &x)
		}
		got, err := ReadLog(bytes.NewReader(b))
		if err != nil || !cmp.Equal(got, want) {
			t.Fatalf("%v: %v", err, cmp.Diff(want, got))
		}
	})
}

func FuzzReadLog(f *testing.F) {
	b := appendTruth([]byte(magic), &Truth{ID: 1, Asked: 2, Began: []int64{5, 6}, Took: []uint32{1, 2}})
	f.Add(b)
	f.Add(b[:len(b)-1])
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, b []byte) {
		log, err := ReadLog(bytes.NewReader(b))
		if err != nil {
			return
		}
		again := []byte(magic)
		for i := range log {
			again = appendTruth(again, &log[i])
		}
		if !bytes.Equal(b, again) {
			t.Errorf("read and written again it differs")
		}
	})
}

// The queue against sorting.
func TestQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q queue
		var want []int64
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			at := rapid.Int64Range(0, 20).Draw(t, "at")
			switch op := rapid.IntRange(0, 2).Draw(t, "op"); {
			case op == 0 || len(q) == 0:
				q.push(entry{at: at})
				want = append(want, at)
			case op == 1:
				q.pop()
				want = want[1:]
			default:
				q.replace(entry{at: at})
				want[0] = at
			}
			slices.Sort(want)
			if len(q) != len(want) || len(q) > 0 && q[0].at != want[0] {
				t.Fatalf("the earliest of %d is wrong", len(want))
			}
		}
	})
}

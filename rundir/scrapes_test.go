package rundir

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/assay-bench/assay/record"
)

func scrapeRun(t *testing.T) (*Writer, *ScrapeWriter) {
	t.Helper()
	w, err := Create(t.TempDir(), "abc", Meta{Epoch: time.Unix(0, 0)})
	if err != nil {
		t.Fatal(err)
	}
	s, err := w.Scrapes()
	if err != nil {
		t.Fatal(err)
	}
	return w, s
}

// TestScrapes stores scrapes from several goroutines; each comes back with its
// own body.
func TestScrapes(t *testing.T) {
	w, s := scrapeRun(t)
	var all sync.WaitGroup
	for k := range 4 {
		all.Go(func() {
			for i := range 8 {
				body := fmt.Appendf(nil, "target %d round %d %*s\n", k, i, 100*i, "")
				one := Scrape{URL: fmt.Sprint(k), Round: i, Before: record.Stamp(i + 1), After: record.Stamp(i + 2), Status: 200}
				if k == 3 {
					one.Error, body = "refused", nil
				}
				if err := s.Append(one, body); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Append(Scrape{}, nil); err == nil {
		t.Error("stored after Close")
	}
	r := &Run{Dir: w.Dir()}
	back, err := r.Scrapes()
	if err != nil {
		t.Fatal(err)
	}
	defer back.Close()
	if len(back.Index) != 32 {
		t.Fatalf("%d scrapes, want 32", len(back.Index))
	}
	for _, one := range back.Index {
		body, err := back.Body(one)
		want := fmt.Sprintf("target %s round %d %*s\n", one.URL, one.Round, 100*one.Round, "")
		if one.Error != "" {
			want = ""
		}
		if err != nil || string(body) != want || one.OK() != (want != "") {
			t.Errorf("%+v: %q, %v", one, body, err)
		}
	}
}

// TestScrapesCut: a run that dies leaves what was whole.
func TestScrapesCut(t *testing.T) {
	w, s := scrapeRun(t)
	for i := range 2 {
		if err := s.Append(Scrape{Round: i}, []byte("page\n")); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(w.Dir(), serverDir, scrapesFile)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for cut := range len(whole) {
		if err := os.WriteFile(path, whole[:cut], 0o644); err != nil {
			t.Fatal(err)
		}
		back, err := (&Run{Dir: w.Dir()}).Scrapes()
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		want := 0
		if cut > len(whole)/2 || cut == len(whole)/2 {
			want = 1
		}
		if len(back.Index) != want {
			t.Errorf("cut at %d of %d: %d scrapes, want %d", cut, len(whole), len(back.Index), want)
		}
		back.Close()
	}
	if none, err := (&Run{Dir: t.TempDir()}).Scrapes(); none != nil || err != nil {
		t.Errorf("a run without scrapes: %v, %v", none, err)
	}
}

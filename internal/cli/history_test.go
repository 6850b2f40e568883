package cli

import (
	"net/http"
	"testing"
	"time"

	"github.com/assay-bench/assay/load/real"
	"github.com/assay-bench/assay/record"
)

func TestClockSkew(t *testing.T) {
	epoch := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	reply := func(before time.Duration, date time.Time) *real.Page {
		p := &real.Page{Before: record.Stamp(before), After: record.Stamp(before + 10*time.Millisecond), Header: http.Header{}}
		if !date.IsZero() {
			p.Header.Set("Date", date.Format(http.TimeFormat))
		}
		return p
	}
	// Its clock is 2.5 s ahead. At 0.1 s of ours it says :02, at 0.6 s it says :03.
	var c clockSkew
	if c.narrow(reply(time.Second, time.Time{}), epoch); c.known || c.correction() != 0 {
		t.Errorf("known without a Date: %+v", c)
	}
	c.narrow(reply(100*time.Millisecond, epoch.Add(2*time.Second)), epoch)
	c.narrow(reply(600*time.Millisecond, epoch.Add(3*time.Second)), epoch)
	if by := c.correction(); by < 2400*time.Millisecond || by > 2900*time.Millisecond || c.lo > 2500*time.Millisecond || c.hi < 2500*time.Millisecond {
		t.Errorf("correction %v, between %v and %v", by, c.lo, c.hi)
	}
	// One that may be right is not corrected.
	var same clockSkew
	same.narrow(reply(100*time.Millisecond, epoch), epoch)
	if same.correction() != 0 {
		t.Errorf("correction %v of a clock that agrees", same.correction())
	}
}

package real

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"time"
)

// PathTime is what it takes to reach an address.
type PathTime struct {
	// Connects by TCP, in order of size: one round trip each, and what the two
	// kernels add.
	Connects []time.Duration
	// State of a TLS handshake, if one was asked for and succeeded.
	State *tls.ConnectionState
}

// TimePath connects n times to an address, one after the other, and shakes hands
// once if config is not nil. No request is sent.
func (t *Target) TimePath(ctx context.Context, address string, config *tls.Config, n int) (PathTime, error) {
	var out PathTime
	ctx, cancel := context.WithTimeout(ctx, scrapeTimeout)
	defer cancel()
	var d net.Dialer
	for i := range n {
		before := t.clock.Now()
		c, err := d.DialContext(ctx, "tcp", address)
		if err != nil {
			return out, fmt.Errorf("connecting to %s: %w", address, err)
		}
		out.Connects = append(out.Connects, time.Duration(t.clock.Now()-before))
		if config != nil && i == 0 {
			out.State, err = handshake(ctx, c, config)
		}
		_ = c.Close()
		if err != nil {
			return out, err
		}
	}
	slices.SortFunc(out.Connects, cmp.Compare[time.Duration])
	return out, nil
}

func handshake(ctx context.Context, c net.Conn, config *tls.Config) (*tls.ConnectionState, error) {
	secure := tls.Client(c, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("TLS handshake: %w", err)
	}
	state := secure.ConnectionState()
	return &state, nil
}

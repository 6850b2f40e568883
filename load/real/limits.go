package real

import "fmt"

// spareFiles are files that a run needs beside its connections: its results,
// its pipes, the connections of scrapes.
const spareFiles = 100

// Limits are this machine's bounds on the connections of one process; 0 means
// not known.
type Limits struct {
	// Files that may be open at once, and those that are.
	Files, OpenFiles int
	// PortLow to PortHigh are the local ports of outgoing connections. Each may be
	// used once for every pair of a local and a remote address.
	PortLow, PortHigh int
}

// Check says what to do if n connections at a time do not fit, and a little more:
// one that is still drained makes room for the next a moment later. Pairs is the
// number of local addresses times that of the remote ones which are in use.
func (l Limits) Check(n, pairs int) error {
	need := n + n/20
	if files := need + l.OpenFiles + spareFiles; l.Files > 0 && files > l.Files {
		return fmt.Errorf("%d streams need %d open files and this process may have %d: raise the hard limit (ulimit -Hn, LimitNOFILE= of a systemd unit, --ulimit nofile= of a container) or lower the concurrency to %d",
			n, files, l.Files, max(0, l.Files-l.OpenFiles-spareFiles)*20/21)
	}
	ports := l.PortHigh - l.PortLow + 1
	if pairs = max(pairs, 1); l.PortHigh > 0 && need > ports*pairs {
		return fmt.Errorf("%d streams need %d local ports and there are %d (net.ipv4.ip_local_port_range %d %d, for each local address): give %d local addresses with --source-addr, widen the range, or lower the concurrency to %d",
			n, need, ports*pairs, l.PortLow, l.PortHigh, (need+ports-1)/ports, ports*pairs*20/21)
	}
	return nil
}

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

// Room is how many connections at a time fit, 0 if that is not known. Pairs is the
// number of local addresses times that of the remote ones which are in use. A
// little is kept: one that is still drained makes room for the next a moment later.
func (l Limits) Room(pairs int) int {
	files, ports := l.roomByFiles(), l.roomByPorts(pairs)
	switch {
	case l.Files == 0 && l.PortHigh == 0:
		return 0
	case l.Files == 0:
		return ports
	case l.PortHigh == 0:
		return max(1, files)
	}
	return max(1, min(files, ports))
}

func (l Limits) roomByFiles() int { return max(0, l.Files-l.OpenFiles-spareFiles) * 20 / 21 }

func (l Limits) roomByPorts(pairs int) int { return l.ports() * max(pairs, 1) * 20 / 21 }

func (l Limits) ports() int { return l.PortHigh - l.PortLow + 1 }

// Check says what to do if n connections at a time do not fit. Pairs is as of
// [Limits.Room].
func (l Limits) Check(n, pairs int) error {
	need := n + n/20
	if files := need + l.OpenFiles + spareFiles; l.Files > 0 && files > l.Files {
		who := fmt.Sprintf("%d streams need", n)
		if n == 0 {
			who = "a run needs"
		}
		return fmt.Errorf("%s %d open files and this process may have %d: raise the hard limit (ulimit -Hn, LimitNOFILE= of a systemd unit, --ulimit nofile= of a container)%s",
			who, files, l.Files, orLower(l.roomByFiles()))
	}
	if l.PortHigh > 0 && need > l.ports()*max(pairs, 1) {
		return fmt.Errorf("%d streams need %d local ports and there are %d (net.ipv4.ip_local_port_range %d %d, for each local address): give %d local addresses with --source-addr, widen the range%s",
			n, need, l.ports()*max(pairs, 1), l.PortLow, l.PortHigh, (need+l.ports()-1)/l.ports(), orLower(l.roomByPorts(pairs)))
	}
	return nil
}

func orLower(room int) string {
	if room == 0 {
		return ""
	}
	return fmt.Sprintf(", or lower the concurrency to %d", room)
}

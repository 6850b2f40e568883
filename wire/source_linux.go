package wire

import (
	"os"

	"golang.org/x/sys/unix"
)

// shareLocalPorts lets a bound address choose its port at connect, so that one
// port serves several target addresses (IP_BIND_ADDRESS_NO_PORT, ip(7)).
func shareLocalPorts(fd int) error {
	return os.NewSyscallError("setsockopt", unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1))
}

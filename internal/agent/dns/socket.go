package dns

import (
	"errors"
	"net"
	"syscall"

	"golang.org/x/sys/unix"

	"berth/internal/accept"
)

// freebind lets a socket take an address that the machine does not have yet.
func freebind(network, _ string, c syscall.RawConn) error {
	level, option := unix.IPPROTO_IP, unix.IP_FREEBIND
	if network == "udp6" || network == "tcp6" {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_FREEBIND
	}
	var err error
	return errors.Join(c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), level, option, 1) }), err)
}

// gated is a listener whose connections are counted by a gate. It closes those
// that the gate refuses.
type gated struct {
	net.Listener
	gate accept.Gate
}

// Accept implements [net.Listener].
func (l *gated) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if in, verdict := l.gate.Admit(conn); verdict == accept.Admitted {
			tcpLimit.Use(int64(l.gate.Open()), maxTCP)
			return in, nil
		}
		tcpLimit.Refuse("address", conn.RemoteAddr().String())
		conn.Close()
	}
}

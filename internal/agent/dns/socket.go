package dns

import (
	"context"
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

// anyPortTries is how many ports are tried for port 0.
const anyPortTries = 100

// both opens one address for TCP and UDP. A port that is free with one protocol
// may be in use with the other, so with port 0 the next one is tried.
func both(addr string) (net.Listener, net.PacketConn, error) {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, nil, err
	}
	lc := net.ListenConfig{Control: freebind}
	for try := 1; ; try++ {
		tcp, err := lc.Listen(context.Background(), "tcp", addr)
		if err != nil {
			return nil, nil, err
		}
		udp, err := lc.ListenPacket(context.Background(), "udp", tcp.Addr().String())
		if err == nil {
			return tcp, udp, nil
		}
		tcp.Close()
		if port != "0" || try == anyPortTries || !errors.Is(err, syscall.EADDRINUSE) {
			return nil, nil, err
		}
	}
}

package gossip

import (
	"context"
	"log"
	"net"
	"time"

	"berth"

	"github.com/hashicorp/memberlist"
)

// transport is memberlist's own, over UDP and TCP, but that what it opened to
// others ends with the pool.
type transport struct {
	*memberlist.NetTransport
	ctx    context.Context
	hangUp context.CancelFunc
}

// listen listens at both protocols of a port. One that is free for TCP may be
// taken for UDP, so any port means to try some.
func listen(addr string, port int, log *log.Logger) (*transport, error) {
	tries := 1
	if port == 0 {
		tries = 10
	}
	var err error
	for range tries {
		var t *memberlist.NetTransport
		t, err = memberlist.NewNetTransport(&memberlist.NetTransportConfig{BindAddrs: []string{addr}, BindPort: port, Logger: log})
		if err == nil {
			out := &transport{NetTransport: t}
			out.ctx, out.hangUp = context.WithCancel(context.Background())
			return out, nil
		}
	}
	return nil, berth.Errorf(berth.Invalid, "ports.serf: %w", err)
}

// Shutdown implements memberlist.Transport.
func (t *transport) Shutdown() error {
	t.hangUp()
	return t.NetTransport.Shutdown()
}

// DialTimeout implements memberlist.Transport.
func (t *transport) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return t.dial(addr, timeout)
}

// DialAddressTimeout implements memberlist.NodeAwareTransport.
func (t *transport) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	return t.dial(a.Addr, timeout)
}

func (t *transport) dial(addr string, timeout time.Duration) (net.Conn, error) {
	d := net.Dialer{Timeout: timeout}
	c, err := d.DialContext(t.ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &dialled{Conn: c, forget: context.AfterFunc(t.ctx, func() { c.Close() })}, nil
}

// dialled is closed when the transport is.
type dialled struct {
	net.Conn
	forget func() bool
}

// Close implements net.Conn.
func (c *dialled) Close() error {
	c.forget()
	return c.Conn.Close()
}

package gossip

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"berth"
	"berth/internal/accept"
	"berth/internal/limit"
	"berth/internal/throttle"

	"github.com/hashicorp/memberlist"
)

// transport carries the gossip over UDP and TCP on one address. Memberlist's
// own transport treats 0.0.0.0 as every IPv6 address as well, and leaves
// dialled connections open after it ends.
type transport struct {
	tcp  *net.TCPListener
	in   *accept.Listener // over tcp
	gate accept.Gate
	udp  *net.UDPConn
	warn *throttle.Log
	// packets and streams hand to memberlist what arrives over UDP and TCP.
	packets chan *memberlist.Packet
	streams chan net.Conn
	ctx     context.Context // ends with the transport
	hangUp  context.CancelFunc
	// wait counts the goroutines that listen.
	wait sync.WaitGroup
}

var _ memberlist.NodeAwareTransport = (*transport)(nil)

// packetMost is the maximum size of a UDP packet. bufferMost is the receive
// buffer that the kernel is asked for; less if it refuses. readRest is the
// pause after a failed read. perHostMost is how many connections one address
// may have; members open one every half minute and close it at once. A
// connection must begin within firstTime.
const (
	packetMost  = 64 << 10
	bufferMost  = 2 << 20
	readRest    = 50 * time.Millisecond
	perHostMost = 32
	firstTime   = 2 * time.Second
)

// The limits of connections.
var (
	connsLimit = limit.Declare(limit.Info{
		Name: "gossip_connections", Of: "Connections to the gossip port: 1/16 of the file descriptors that are not kept for files (RLIMIT_NOFILE), at most 256", Unit: limit.Count,
		Beyond: "the connection is closed",
	})
	connsPerAddrLimit = limit.Declare(limit.Info{
		Name: "gossip_connections_per_address", Of: "Connections to the gossip port from one address (an IPv6 /64 is one)", Unit: limit.Count, Default: perHostMost,
		Beyond: "the connection is closed",
	})
	silenceLimit = limit.Declare(limit.Info{
		Name: "gossip_silence", Of: "Time until a connection to the gossip port must have sent something", Unit: limit.Time, Default: int64(firstTime),
		Beyond: "the connection is closed",
	})
)

// listen listens on both protocols of a port, with at most maxConns connections
// at a time, 0 for any number. A port that is free for TCP may
// be taken for UDP, so for port 0 it tries several.
func listen(addr string, port, maxConns int, log *slog.Logger) (*transport, error) {
	tries := 1
	if port == 0 {
		tries = 10
	}
	var err error
	for range tries {
		var t *transport
		if t, err = open(addr, port); err == nil {
			t.warn = throttle.New(log, 1)
			t.in, t.gate = accept.Listen(t.tcp, t.warn), accept.Gate{Most: maxConns, PerHost: perHostMost}
			t.wait.Go(t.accept)
			t.wait.Go(t.read)
			return t, nil
		}
	}
	return nil, berth.Errorf(berth.Invalid, "ports.serf: %w", err)
}

// open listens and reads nothing yet. 0.0.0.0 does not include IPv6.
func open(addr string, port int) (*transport, error) {
	ip := net.ParseIP(addr)
	if ip == nil {
		return nil, berth.Errorf(berth.Invalid, "%.60q is not an IP address", addr)
	}
	family := ""
	if ip.To4() != nil {
		family = "4"
	}
	tcp, err := net.ListenTCP("tcp"+family, &net.TCPAddr{IP: ip, Port: port})
	if err != nil {
		return nil, err
	}
	udp, err := net.ListenUDP("udp"+family, &net.UDPAddr{IP: ip, Port: tcp.Addr().(*net.TCPAddr).Port})
	if err != nil {
		return nil, errors.Join(err, tcp.Close())
	}
	for size := bufferMost; size > packetMost && udp.SetReadBuffer(size) != nil; {
		size /= 2
	}
	t := &transport{tcp: tcp, udp: udp, packets: make(chan *memberlist.Packet), streams: make(chan net.Conn)}
	t.ctx, t.hangUp = context.WithCancel(context.Background())
	return t, nil
}

// port returns the port that it listens on.
func (t *transport) port() int { return t.tcp.Addr().(*net.TCPAddr).Port }

// accept accepts connections until the transport ends.
func (t *transport) accept() {
	for {
		c, err := t.in.Accept()
		if err != nil {
			return
		}
		in := t.admit(c)
		if in == nil {
			c.Close()
			continue
		}
		select {
		case t.streams <- in:
		case <-t.ctx.Done():
			in.Close()
		}
	}
}

// admit returns a connection that is within the limits, or nil.
func (t *transport) admit(c net.Conn) net.Conn {
	in, verdict := t.gate.Admit(c)
	connsLimit.Use(int64(t.gate.Open()), int64(t.gate.Most))
	switch verdict {
	case accept.HostFull:
		connsPerAddrLimit.Use(perHostMost, perHostMost)
		connsPerAddrLimit.Refuse("address", c.RemoteAddr())
		return nil
	case accept.Full:
		connsLimit.Refuse("address", c.RemoteAddr())
		return nil
	}
	s := &greeted{Conn: in, until: time.Now().Add(firstTime)}
	s.Conn.SetReadDeadline(s.until)
	return s
}

// greeted is a connection that must send something soon.
type greeted struct {
	net.Conn

	mu    sync.Mutex
	until time.Time // when it must have sent something; zero: it has
	then  time.Time // the read deadline from then on
}

// Read implements net.Conn.
func (c *greeted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.until.IsZero():
	case n > 0:
		c.until = time.Time{}
		c.Conn.SetReadDeadline(c.then)
	case errors.Is(err, os.ErrDeadlineExceeded):
		silenceLimit.Refuse("address", c.RemoteAddr())
	}
	return n, err
}

// SetDeadline implements net.Conn.
func (c *greeted) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline implements net.Conn.
func (c *greeted) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.then = t
	if !c.until.IsZero() && (t.IsZero() || t.After(c.until)) {
		t = c.until
	}
	return c.Conn.SetReadDeadline(t)
}

// read receives packets until the transport ends.
func (t *transport) read() {
	b := make([]byte, packetMost)
	for {
		n, from, err := t.udp.ReadFrom(b)
		now := time.Now()
		switch {
		case t.ctx.Err() != nil:
			return
		case err != nil:
			t.warn.Warn("gossip: cannot read a packet; retrying", "error", err)
			t.rest()
			continue
		case n == 0:
			continue
		}
		select {
		case t.packets <- &memberlist.Packet{Buf: bytes.Clone(b[:n]), From: from, Timestamp: now}:
		case <-t.ctx.Done():
		}
	}
}

// rest pauses for a moment, or until the transport ends.
func (t *transport) rest() {
	select {
	case <-time.After(readRest):
	case <-t.ctx.Done():
	}
}

// FinalAdvertiseAddr implements memberlist.Transport. The address was decided
// before, see [Config].
func (t *transport) FinalAdvertiseAddr(ip string, port int) (net.IP, int, error) {
	addr := net.ParseIP(ip)
	if addr == nil {
		return nil, 0, berth.Errorf(berth.Invalid, "cannot advertise %.60q: not an IP address", ip)
	}
	if v4 := addr.To4(); v4 != nil {
		addr = v4
	}
	return addr, cmp.Or(port, t.port()), nil
}

// PacketCh implements memberlist.Transport.
func (t *transport) PacketCh() <-chan *memberlist.Packet { return t.packets }

// StreamCh implements memberlist.Transport.
func (t *transport) StreamCh() <-chan net.Conn { return t.streams }

// WriteTo implements memberlist.Transport.
func (t *transport) WriteTo(b []byte, addr string) (time.Time, error) {
	to, err := net.ResolveUDPAddr("udp", addr)
	if err != nil {
		return time.Time{}, err
	}
	_, err = t.udp.WriteTo(b, to)
	return time.Now(), err
}

// WriteToAddress implements memberlist.NodeAwareTransport.
func (t *transport) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	return t.WriteTo(b, a.Addr)
}

// DialTimeout implements memberlist.Transport.
func (t *transport) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	d := net.Dialer{Timeout: timeout}
	c, err := d.DialContext(t.ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &dialled{Conn: c, forget: context.AfterFunc(t.ctx, func() { c.Close() })}, nil
}

// DialAddressTimeout implements memberlist.NodeAwareTransport.
func (t *transport) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	return t.DialTimeout(a.Addr, timeout)
}

// Shutdown implements memberlist.Transport. When it returns, nothing arrives
// any more.
func (t *transport) Shutdown() error {
	t.hangUp()
	err := errors.Join(t.in.Close(), t.udp.Close())
	t.wait.Wait()
	if errors.Is(err, net.ErrClosed) { // already shut down
		return nil
	}
	return err
}

// dialled is a connection that is closed when the transport ends.
type dialled struct {
	net.Conn
	forget func() bool
}

// Close implements net.Conn.
func (c *dialled) Close() error {
	c.forget()
	return c.Conn.Close()
}

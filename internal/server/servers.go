package server

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"berth/internal/gossip"
	"berth/internal/peer"
	"berth/internal/wire"

	"github.com/hashicorp/raft"
)

// Members is the list of known servers.
type Members interface {
	// Members returns the servers of all regions, including this one.
	Members() []gossip.Member
	// Changed receives a value after a change.
	Changed() <-chan struct{}
	// Leave tells the peers that this server leaves for good.
	Leave(ctx context.Context) error
	// SetCluster announces the cluster that this server belongs to. Servers of
	// another cluster in the region are dropped from the members.
	SetCluster(id string) error
}

// dialTimeout is the timeout for dialing another server.
const dialTimeout = 2 * time.Second

// sessionsMost is how many sessions are opened to one server. The second and
// further ones are for calls that the ones before have no streams for.
const sessionsMost = 8

// link names a session: the nth to a server.
type link struct {
	addr string
	n    int
}

// links holds the sessions to other servers. A session is opened on first use,
// and again after it broke.
type links struct {
	dialer wire.Dialer
	region func(addr string) string // region of the server at an address; "" is our own

	mu     sync.Mutex
	byLink map[link]*sessionTo // under mu; ended sessions stay until they are asked for
	closed bool                // under mu
}

// sessionTo is a session, or the attempt to open one.
type sessionTo struct {
	ready   chan struct{} // closed when session or err is set
	session *wire.Session
	err     error
}

// to returns a session to the server at addr, one that is not full if there is
// one or another may be opened. Its error wraps peer.ErrUnreached.
func (l *links) to(ctx context.Context, addr string) (s *wire.Session, err error) {
	for n := range sessionsMost {
		if s, err = l.nth(ctx, link{addr, n}); err != nil || !s.Full() {
			break
		}
	}
	return s, err
}

// nth returns a session, which may be full. Its error wraps peer.ErrUnreached.
func (l *links) nth(ctx context.Context, which link) (*wire.Session, error) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil, fmt.Errorf("%w: this server is shutting down", peer.ErrUnreached)
	}
	// Calls that come while the session is being opened share the attempt.
	x := l.byLink[which]
	if x == nil || x.over() {
		x = &sessionTo{ready: make(chan struct{})}
		if l.byLink == nil {
			l.byLink = map[link]*sessionTo{}
		}
		l.byLink[which] = x
		go l.dial(x, which.addr) // ends within dialTimeout
	}
	l.mu.Unlock()
	select {
	case <-x.ready:
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", peer.ErrUnreached, ctx.Err())
	}
	if x.err != nil {
		return nil, fmt.Errorf("%w: %w", peer.ErrUnreached, x.err)
	}
	return x.session, nil
}

// over reports whether the attempt failed or the session has ended.
func (x *sessionTo) over() bool {
	select {
	case <-x.ready:
	default:
		return false
	}
	if x.err != nil {
		return true
	}
	return ended(x.session)
}

// ended reports whether a session has ended.
func ended(s *wire.Session) bool {
	select {
	case <-s.Done():
		return true
	default:
		return false
	}
}

// dial opens a session to addr for x. It closes x.ready in any case, after at
// most dialTimeout.
func (l *links) dial(x *sessionTo, addr string) {
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	d := l.dialer
	// With TLS the certificate must name the region of the far end.
	d.Region = l.region(addr)
	s, err := d.Dial(ctx, addr)
	l.mu.Lock()
	defer l.mu.Unlock()
	// close has run meanwhile and waits for ready, so nobody else ends this
	// session.
	if err == nil && l.closed {
		go s.Close()
		err = net.ErrClosed
	}
	x.session, x.err = s, err
	close(x.ready)
}

// close ends all sessions. Later calls fail.
func (l *links) close() {
	l.mu.Lock()
	l.closed = true
	all := l.byLink
	l.mu.Unlock()
	for _, x := range all {
		<-x.ready
		if x.err == nil {
			x.session.Close()
		}
	}
}

// raftLayer carries Raft's connections over the server's RPC port.
type raftLayer struct {
	dialer wire.Dialer
	addr   raftAddr      // what peers dial
	in     chan net.Conn // accepted by the RPC port, taken by Raft

	once   sync.Once // for Close
	closed chan struct{}
}

// newRaftLayer returns a layer that dials with d and announces the address.
func newRaftLayer(d wire.Dialer, advertise string) *raftLayer {
	return &raftLayer{dialer: d, addr: raftAddr(advertise), in: make(chan net.Conn, 64), closed: make(chan struct{})}
}

// enqueue queues a Raft connection that another server opened.
func (l *raftLayer) enqueue(conn net.Conn, _ *wire.Peer) {
	select {
	case <-l.closed:
		conn.Close()
		return
	default:
	}
	select {
	case l.in <- conn:
	default:
		conn.Close() // the far end dials again
	}
}

// Accept implements net.Listener.
func (l *raftLayer) Accept() (net.Conn, error) {
	select {
	case c := <-l.in:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *raftLayer) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener: it returns the address that peers dial.
func (l *raftLayer) Addr() net.Addr { return l.addr }

// Dial implements raft.StreamLayer.
func (l *raftLayer) Dial(addr raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	if timeout <= 0 || timeout > dialTimeout {
		timeout = dialTimeout
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return l.dialer.Raft(ctx, string(addr))
}

// raftAddr is an address that peers dial.
type raftAddr string

// Network implements net.Addr.
func (raftAddr) Network() string { return "tcp" }

// String implements net.Addr.
func (a raftAddr) String() string { return string(a) }

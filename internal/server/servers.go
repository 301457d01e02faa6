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

// Members says which servers there are.
type Members interface {
	// Members returns those of all regions, this one too.
	Members() []gossip.Member
	// Changed holds a token after a change.
	Changed() <-chan struct{}
	// Leave tells the others that this server goes for good.
	Leave(ctx context.Context) error
	// SetCluster tells the others of which cluster this server is part. Those of
	// another cluster of the region are no members from then on.
	SetCluster(id string) error
}

// dialTime bounds how long another server is dialled.
const dialTime = 2 * time.Second

// links are the sessions to other servers: one to each, opened when there is
// something to say, and again when it broke.
type links struct {
	dialer wire.Dialer
	region func(addr string) string // of the server at an address; "" is the own

	mu     sync.Mutex
	byAddr map[string]*sessionTo
	closed bool
}

// sessionTo is a session, or the attempt to open one.
type sessionTo struct {
	ready   chan struct{} // closed when one of the others is set
	session *wire.Session
	err     error
}

// to returns a session to the server at addr. Its error wraps
// peer.ErrUnreached.
func (l *links) to(ctx context.Context, addr string) (*wire.Session, error) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil, fmt.Errorf("%w: this server ends", peer.ErrUnreached)
	}
	x := l.byAddr[addr]
	if x == nil || x.over() {
		x = &sessionTo{ready: make(chan struct{})}
		if l.byAddr == nil {
			l.byAddr = map[string]*sessionTo{}
		}
		l.byAddr[addr] = x
		go l.dial(x, addr) // ends within dialTime
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

// over says whether there is nothing to hope for from it.
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

func ended(s *wire.Session) bool {
	select {
	case <-s.Done():
		return true
	default:
		return false
	}
}

func (l *links) dial(x *sessionTo, addr string) {
	ctx, cancel := context.WithTimeout(context.Background(), dialTime)
	defer cancel()
	d := l.dialer
	d.Region = l.region(addr)
	s, err := d.Dial(ctx, addr)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil && l.closed {
		go s.Close()
		err = net.ErrClosed
	}
	x.session, x.err = s, err
	close(x.ready)
}

// close ends all sessions and refuses later calls.
func (l *links) close() {
	l.mu.Lock()
	l.closed = true
	all := l.byAddr
	l.mu.Unlock()
	for _, x := range all {
		<-x.ready
		if x.err == nil {
			x.session.Close()
		}
	}
}

// raftLayer carries Raft's streams over the one port.
type raftLayer struct {
	dialer wire.Dialer
	addr   raftAddr
	in     chan net.Conn

	once   sync.Once
	closed chan struct{}
}

func newRaftLayer(d wire.Dialer, advertise string) *raftLayer {
	return &raftLayer{dialer: d, addr: raftAddr(advertise), in: make(chan net.Conn, 64), closed: make(chan struct{})}
}

// take takes over a connection on which another server speaks Raft.
func (l *raftLayer) take(conn net.Conn, _ *wire.Peer) {
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

// Addr implements net.Listener: it is the address at which the others reach
// this server.
func (l *raftLayer) Addr() net.Addr { return l.addr }

// Dial implements raft.StreamLayer.
func (l *raftLayer) Dial(addr raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	if timeout <= 0 || timeout > dialTime {
		timeout = dialTime
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return l.dialer.Raft(ctx, string(addr))
}

type raftAddr string

// Network implements net.Addr.
func (raftAddr) Network() string { return "tcp" }

// String implements net.Addr.
func (a raftAddr) String() string { return string(a) }

package wire

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// guests counts what each client address has of the server.
type guests struct {
	mu    sync.Mutex
	conns map[netip.Prefix]*guest
	large atomic.Int64 // bytes of large frames of all of them
}

// guest is one client address.
type guest struct {
	conns   int // under guests.mu, as are the two below
	trials  int // connections beyond what is allowed, which may turn out to be servers'
	servers int // connections that did
	large   atomic.Int64
}

// Servers must not be shut out by others behind their address, such as the
// agents of a test or of a small machine. So a few connections more than are
// allowed may come and say who they are, one that is a server's counts apart.
const (
	trialsMost  = 16
	serversMost = 10 // times what is allowed to others
)

// visit is one connection of a guest.
type visit struct {
	of    *guests
	who   netip.Prefix
	guest *guest
	count *int // of guest, where the connection counts
	trial bool
}

// The room for frames above freeBuffer that are arriving or being served. One
// address gets a quarter.
const (
	largeMost  = 64 << 20
	largeGuest = largeMost / 4
)

// enter counts one more connection from the address, if it has fewer than
// most, or may have one on trial; else it returns nil. leave must be called
// when the connection ends.
func (g *guests) enter(from net.Addr, most int) *visit {
	v := &visit{of: g, who: hostOf(from)}
	g.mu.Lock()
	defer g.mu.Unlock()
	v.guest = g.conns[v.who]
	if v.guest == nil {
		v.guest = &guest{}
		if g.conns == nil {
			g.conns = map[netip.Prefix]*guest{}
		}
		g.conns[v.who] = v.guest
	}
	switch {
	case v.guest.conns < most:
		v.count = &v.guest.conns
	case v.guest.trials < trialsMost:
		v.count, v.trial = &v.guest.trials, true
	default:
		return nil
	}
	*v.count++
	return v
}

// trust counts the connection among those of servers, and says whether there
// may be one more.
func (v *visit) trust(most int) bool {
	v.of.mu.Lock()
	defer v.of.mu.Unlock()
	if v.guest.servers >= min(most, 1<<20)*serversMost {
		return false
	}
	*v.count--
	v.count = &v.guest.servers
	*v.count++
	return true
}

func (v *visit) leave() {
	v.of.mu.Lock()
	defer v.of.mu.Unlock()
	*v.count--
	if v.guest.conns+v.guest.trials+v.guest.servers == 0 {
		delete(v.of.conns, v.who)
	}
}

// hostOf returns whom an address belongs to: for IPv6 the /64, which one host
// has to itself.
func hostOf(a net.Addr) netip.Prefix {
	ap, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.Prefix{} // not TCP: all of these are one guest
	}
	ip := ap.Addr().Unmap().WithZone("")
	bits := ip.BitLen()
	if ip.Is6() {
		bits = 64
	}
	p, _ := ip.Prefix(bits)
	return p
}

// share is one guest's part of the room for large frames.
type share struct {
	all, own *atomic.Int64
}

func (s *share) take(n int) bool {
	own, all := s.own.Add(int64(n)), s.all.Add(int64(n))
	if own > largeGuest || all > largeMost {
		s.give(n)
		return false
	}
	return true
}

func (s *share) give(n int) {
	s.own.Add(-int64(n))
	s.all.Add(-int64(n))
}

// A throttle logs one line of each kind in a while, with how many were passed
// over: strangers decide how often there is something to say.
type throttle struct {
	log *slog.Logger

	mu    sync.Mutex
	lines map[string]*line
}

type line struct {
	last    time.Time
	skipped int
}

const throttleEvery = 10 * time.Second

// warn logs the message unless it was logged just now. Messages are constants;
// what differs stands in args.
func (t *throttle) warn(msg string, args ...any) {
	t.mu.Lock()
	if t.lines == nil {
		t.lines = map[string]*line{}
	}
	l := t.lines[msg]
	if l == nil {
		l = &line{}
		t.lines[msg] = l
	}
	now := time.Now()
	if now.Sub(l.last) < throttleEvery {
		l.skipped++
		t.mu.Unlock()
		return
	}
	skipped := l.skipped
	l.last, l.skipped = now, 0
	t.mu.Unlock()
	if skipped > 0 {
		args = append(args, "more_like_it", skipped)
	}
	t.log.Log(context.Background(), slog.LevelWarn, msg, args...)
}

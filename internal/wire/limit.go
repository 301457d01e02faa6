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

// guests counts the connections and memory of each client address.
type guests struct {
	mu    sync.Mutex
	conns map[netip.Prefix]*guest
	large atomic.Int64 // bytes of large frames of all of them
}

// guest is one client address.
type guest struct {
	conns   int          // under guests.mu, as are the two below
	trials  int          // connections over the limit that may turn out to be from servers
	servers int          // connections from servers
	large   atomic.Int64 // bytes of large frames of this address
}

// Agents at the same address, as in tests or on small machines, must not lock
// servers out. So a few connections over the limit may say who they are, and
// connections from servers are counted separately.
const (
	trialsMost  = 16
	serversMost = 10 // times the limit for others
)

// visit is one connection of a guest.
type visit struct {
	of    *guests
	who   netip.Prefix
	guest *guest
	count *int // of guest, where the connection counts
	trial bool // over the limit: the peer must turn out to be a server
}

// The memory budget for frames above freeBuffer that are arriving or being
// served. One address gets a quarter.
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

// trust counts the connection as a server's. It reports false if the address has
// too many of them.
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

// leave takes the connection off the count, and forgets a guest without any.
func (v *visit) leave() {
	v.of.mu.Lock()
	defer v.of.mu.Unlock()
	*v.count--
	if v.guest.conns+v.guest.trials+v.guest.servers == 0 {
		delete(v.of.conns, v.who)
	}
}

// hostOf returns the host of an address: for IPv6 the /64, which one host has to
// itself.
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

// share is one client address's part of the budget for large frames.
type share struct {
	all, own *atomic.Int64 // bytes taken by everybody, and by this address
}

// take claims n bytes of the budget. It reports false, and claims nothing, if
// the address or all together would have too many.
func (s *share) take(n int) bool {
	own, all := s.own.Add(int64(n)), s.all.Add(int64(n))
	if own > largeGuest || all > largeMost {
		s.give(n)
		return false
	}
	return true
}

// give returns n bytes that were taken.
func (s *share) give(n int) {
	s.own.Add(-int64(n))
	s.all.Add(-int64(n))
}

// A throttle logs each message at most once per throttleEvery, with the number of
// lines skipped, because strangers can cause any number of them.
type throttle struct {
	log *slog.Logger

	mu    sync.Mutex
	lines map[string]*line // by message
}

// line is one message of a throttle: when it was last logged, and how often it
// was skipped since.
type line struct {
	last    time.Time
	skipped int // since last
}

// throttleEvery is the least time between two lines of one message.
const throttleEvery = 10 * time.Second

// warn logs the message unless it was logged recently. Messages must be
// constants; put the details in args.
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
	// The lock is not held while the line is written.
	skipped := l.skipped
	l.last, l.skipped = now, 0
	t.mu.Unlock()
	if skipped > 0 {
		args = append(args, "more_like_it", skipped)
	}
	t.log.Log(context.Background(), slog.LevelWarn, msg, args...)
}

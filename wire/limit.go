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
	conns int // under guests.mu
	large atomic.Int64
}

// The room for frames above freeBuffer that are arriving or being served. One
// address gets a quarter.
const (
	largeMost  = 64 << 20
	largeGuest = largeMost / 4
)

// enter counts one more connection from the address, if it has fewer than
// most. leave must be called when the connection ends.
func (g *guests) enter(from net.Addr, most int) (in *guest, leave func(), ok bool) {
	who := hostOf(from)
	g.mu.Lock()
	defer g.mu.Unlock()
	in = g.conns[who]
	if in == nil {
		in = &guest{}
		if g.conns == nil {
			g.conns = map[netip.Prefix]*guest{}
		}
		g.conns[who] = in
	}
	if in.conns >= most {
		return nil, nil, false
	}
	in.conns++
	return in, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if in.conns--; in.conns == 0 {
			delete(g.conns, who)
		}
	}, true
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

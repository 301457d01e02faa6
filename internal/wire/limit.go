package wire

import (
	"math"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"

	"berth/internal/accept"
	"berth/internal/limit"
)

// guests counts the connections and memory of each client address.
type guests struct {
	most int // connections at a time, of all addresses; 0: no limit

	mu    sync.Mutex
	tally // of all addresses
	conns map[netip.Prefix]*guest
	large atomic.Int64 // bytes of large frames of all of them
}

// tally is a number of connections, by how they were let in.
type tally struct {
	plain   int // within the limits
	trials  int // beyond them: the peer must turn out to be a server
	servers int // of servers
}

// all returns the number of connections.
func (t *tally) all() int { return t.plain + t.trials + t.servers }

// guest is one client address.
type guest struct {
	tally              // under guests.mu
	large atomic.Int64 // bytes of large frames of this address
}

// Agents at the same address, as in tests or on small machines, must not lock
// servers out. So a few connections over the limit may say who they are, and
// connections from servers are counted separately. Of all connections an eighth
// is kept for these, and half of that for servers that have said who they are.
const (
	trialsMost  = 16
	serversMost = 10 // times the limit for others
	keptShare   = 8
)

// visit is one connection of a guest.
type visit struct {
	of    *guests
	who   netip.Prefix
	guest *guest
	kind  func(*tally) *int // which of the numbers the connection counts in
	trial bool              // over the limit: the peer must turn out to be a server
}

// The numbers of a tally.
func plain(t *tally) *int   { return &t.plain }
func trials(t *tally) *int  { return &t.trials }
func servers(t *tally) *int { return &t.servers }

// The memory budget for frames above freeBuffer that are arriving or being
// served. One address gets a quarter.
const (
	largeMost  = 64 << 20
	largeGuest = largeMost / 4
)

// enter counts one more connection from the address, if it has fewer than
// perHost and all together are within their limit, or if it may be on trial;
// else it returns nil. leave must be called when the connection ends.
func (g *guests) enter(from net.Addr, perHost int) *visit {
	v, all, own := g.admit(accept.Host(from), perHost)
	connsLimit.Use(int64(all), int64(g.most))
	connsPerAddrLimit.Use(int64(own), int64(perHost), "address", from)
	switch {
	case v != nil:
	case own < perHost:
		connsLimit.Refuse("address", from)
	default:
		connsPerAddrLimit.Refuse("address", from)
	}
	return v
}

// admit does that, and returns how many connections there are in all and from
// the address.
func (g *guests) admit(who netip.Prefix, perHost int) (_ *visit, all, own int) {
	v := &visit{of: g, who: who, kind: plain}
	g.mu.Lock()
	defer g.mu.Unlock()
	v.guest = g.conns[v.who]
	if v.guest == nil {
		v.guest = &guest{}
	}
	most := g.most
	if most == 0 {
		most = math.MaxInt
	}
	kept := max(2, most/keptShare)
	switch {
	case v.guest.plain < perHost && g.plain < most-kept:
	case v.guest.trials < trialsMost && g.trials < kept/2 && g.all() < most:
		v.kind, v.trial = trials, true
	default:
		return nil, g.all(), v.guest.plain
	}
	if g.conns == nil {
		g.conns = map[netip.Prefix]*guest{}
	}
	g.conns[v.who] = v.guest
	v.count(1)
	return v, g.all(), v.guest.plain
}

// count adds n to what the connection counts in. The caller holds the lock.
func (v *visit) count(n int) {
	*v.kind(&v.guest.tally) += n
	*v.kind(&v.of.tally) += n
}

// trust counts the connection as a server's. It reports false if the address has
// too many of them.
func (v *visit) trust(perHost int) bool {
	v.of.mu.Lock()
	defer v.of.mu.Unlock()
	if v.guest.servers >= min(perHost, 1<<20)*serversMost {
		return false
	}
	v.count(-1)
	v.kind = servers
	v.count(1)
	return true
}

// leave takes the connection off the count, and forgets a guest without any.
func (v *visit) leave() {
	v.of.mu.Lock()
	defer v.of.mu.Unlock()
	v.count(-1)
	if v.guest.all() == 0 {
		delete(v.of.conns, v.who)
	}
}

// The limits of connections.
var (
	connsLimit = limit.Declare(limit.Info{
		Name: "rpc_connections", Of: "Connections to the RPC port: 5/8 of the file descriptors that are not kept for files (RLIMIT_NOFILE), at most 65536", Unit: limit.Count,
		Beyond: "the connection is closed; an eighth is kept for servers",
	})
	connsPerAddrLimit = limit.Declare(limit.Info{
		Name: "rpc_connections_per_address", Of: "Connections to the RPC port from one address (an IPv6 /64 is one), without those of servers", Unit: limit.Count, Default: 100,
		Key: "limits.rpc_max_conns_per_client", Beyond: "the connection is closed; sixteen more may show that they are from servers, which have ten times the limit",
	})
)

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

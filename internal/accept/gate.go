package accept

import (
	"net"
	"net/netip"
	"sync"
)

// Gate limits the connections of one port. It is safe for use by many
// goroutines. The zero value counts, and refuses nobody.
type Gate struct {
	Most    int // connections at a time; 0: no limit
	PerHost int // of them, from one client address; 0: no limit

	mu     sync.Mutex
	open   int
	byHost map[netip.Prefix]int
}

// Verdict is what a Gate decides about a connection.
type Verdict uint8

// The verdicts.
const (
	Admitted Verdict = iota
	HostFull         // its address has as many as one may have
	Full             // all addresses together have
)

// Admit counts a connection, and returns it in a form that is counted until it
// is closed. Otherwise the connection is still the caller's, who must close it.
func (g *Gate) Admit(c net.Conn) (net.Conn, Verdict) {
	host := Host(c.RemoteAddr())
	if v := g.enter(host); v != Admitted {
		return nil, v
	}
	return &counted{Conn: c, leave: sync.OnceFunc(func() { g.exit(host) })}, Admitted
}

// enter counts a connection, if it is within the limits.
func (g *Gate) enter(host netip.Prefix) Verdict {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.PerHost > 0 && g.byHost[host] >= g.PerHost:
		return HostFull
	case g.Most > 0 && g.open >= g.Most:
		return Full
	}
	if g.byHost == nil {
		g.byHost = map[netip.Prefix]int{}
	}
	g.open++
	g.byHost[host]++
	return Admitted
}

// exit takes a connection off the count.
func (g *Gate) exit(host netip.Prefix) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open--
	if g.byHost[host]--; g.byHost[host] == 0 {
		delete(g.byHost, host)
	}
}

// Open returns how many connections are counted.
func (g *Gate) Open() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.open
}

// counted is a connection that a Gate counts.
type counted struct {
	net.Conn
	leave func() // may be called again
}

// Close implements net.Conn.
func (c *counted) Close() error {
	c.leave()
	return c.Conn.Close()
}

// Host returns the client that an address belongs to: an IPv6 client has a /64
// to itself. All addresses that are not of TCP or UDP are one client.
func Host(a net.Addr) netip.Prefix {
	if a == nil {
		return netip.Prefix{}
	}
	ap, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.Prefix{}
	}
	ip := ap.Addr().Unmap().WithZone("")
	bits := ip.BitLen()
	if ip.Is6() {
		bits = 64
	}
	p, _ := ip.Prefix(bits)
	return p
}

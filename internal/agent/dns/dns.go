// Package dns answers DNS queries of tasks and programs on a machine with the
// instances of services: addresses (A and AAAA) and ports (SRV) of
//
//	NAME.NAMESPACE.service.DOMAIN
//	NAME.service.DOMAIN            in the namespace default
//	_NAME._tcp.NAMESPACE.service.DOMAIN
//
// Only healthy instances are answered. It knows no services itself: it asks for
// them by [Config].Lookup and remembers each answer for the TTL. Other names go
// to resolvers that the configuration names, for queries from this machine and
// its own networks only, so that it is never an open resolver.
//
// The forms of queries and answers are those of RFC 1035, RFC 2782 (SRV), RFC
// 2308 (negative answers), RFC 6891 (EDNS) and RFC 8482 (ANY).
package dns

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/miekg/dns"

	"berth"
	"berth/internal/accept"
	"berth/internal/limit"
	"berth/internal/throttle"
)

// Config says what a server answers. All fields are needed unless they say
// otherwise.
type Config struct {
	Domain string        // such as "berth", without dots around it
	TTL    time.Duration // how long answers may be remembered, here and by callers; at least a second
	// Lookup returns the instances of a service, none if there is no such service.
	// Names of DNS have no case, so name may differ from the service's in that.
	Lookup func(ctx context.Context, namespace, name string) ([]berth.ServiceRegistration, error)
	// Recursors are the resolvers for other names, as host:port. Without any, other
	// names are refused.
	Recursors []string
	// Recurse lists the networks, besides loopback, whose queries for other names
	// are passed on.
	Recurse []netip.Prefix
	Log     *slog.Logger
}

// Limits of a server.
const (
	maxQueries  = 512 // that are being answered
	maxTCP      = 128 // connections on each address
	idleTCP     = 10 * time.Second
	lookupTime  = 5 * time.Second // a query waits for servers
	forwardTime = 2 * time.Second // for each resolver
	maxUDP      = 1232            // bytes of an answer over UDP, as is usual since 2020
)

var tcpLimit = limit.Declare(limit.Info{
	Name: "dns_connections", Of: "Connections to the DNS server over TCP, on each address", Unit: limit.Count, Default: maxTCP,
	Beyond: "the connection is closed",
})

var queries = limit.Declare(limit.Info{
	Name: "dns_queries", Of: "DNS queries that an agent answers at the same time", Unit: limit.Count, Default: maxQueries,
	Beyond: "the query is dropped; its sender asks again",
})

// Server answers queries. Make it with [Listen].
type Server struct {
	c         Config
	zone      string // the domain, with dots as a suffix of names: "berth."
	slots     chan struct{}
	cache     cache
	listeners []*dns.Server
}

// Listen opens the addresses, host:port, for UDP and TCP. An address that the
// machine does not have yet is taken all the same: that of a bridge comes with
// its first network. With port 0 both protocols get the same free port.
func Listen(c Config, addrs ...string) (*Server, error) {
	s := &Server{c: c, zone: dns.Fqdn(strings.ToLower(c.Domain)), slots: make(chan struct{}, maxQueries)}
	s.cache.ttl = c.TTL
	for _, addr := range addrs {
		if err := s.listen(addr); err != nil {
			return nil, errors.Join(err, s.close())
		}
	}
	return s, nil
}

// listen opens one address for both protocols.
func (s *Server) listen(addr string) error {
	tcp, udp, err := both(addr)
	if err != nil {
		return fmt.Errorf("dns: %w", err)
	}
	s.listeners = append(s.listeners,
		&dns.Server{PacketConn: udp, Handler: s, UDPSize: maxUDP},
		&dns.Server{Listener: &gated{Listener: accept.Listen(tcp, throttle.New(s.c.Log, 1)), gate: accept.Gate{Most: maxTCP}}, Handler: s, ReadTimeout: idleTCP, IdleTimeout: func() time.Duration { return idleTCP }},
	)
	return nil
}

// Addrs returns the addresses for UDP, in the order given to Listen.
func (s *Server) Addrs() (out []string) {
	for _, l := range s.listeners {
		if l.PacketConn != nil {
			out = append(out, l.PacketConn.LocalAddr().String())
		}
	}
	return out
}

// Run answers until ctx ends. It is called once.
func (s *Server) Run(ctx context.Context) error {
	ended := make(chan error, len(s.listeners))
	for _, l := range s.listeners {
		go func() { ended <- l.ActivateAndServe() }()
	}
	var err error
	running := len(s.listeners)
	select {
	case <-ctx.Done():
	case err = <-ended:
		running--
	}
	_ = s.close()
	for range running {
		<-ended
	}
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("dns: %w", cmp.Or(err, net.ErrClosed))
}

// close closes the sockets.
func (s *Server) close() error {
	for _, l := range s.listeners {
		if l.PacketConn != nil {
			l.PacketConn.Close()
		} else {
			l.Listener.Close()
		}
	}
	return nil
}

// ServeDNS implements [dns.Handler].
func (s *Server) ServeDNS(w dns.ResponseWriter, q *dns.Msg) {
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
		queries.Use(int64(len(s.slots)), maxQueries)
	default:
		queries.Refuse()
		return
	}
	_, overTCP := w.RemoteAddr().(*net.TCPAddr)
	a := s.Answer(context.Background(), q, addrOf(w.RemoteAddr()), overTCP)
	if !overTCP {
		a.Truncate(sizeFor(q))
	}
	_ = w.WriteMsg(a) // a caller who is gone
}

// addrOf returns the address of who asks.
func addrOf(a net.Addr) netip.Addr {
	p, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.Addr{}
	}
	return p.Addr().Unmap().WithZone("")
}

// sizeFor returns how long an answer over UDP may be.
func sizeFor(q *dns.Msg) int {
	if o := q.IsEdns0(); o != nil {
		return min(max(int(o.UDPSize()), dns.MinMsgSize), maxUDP)
	}
	return dns.MinMsgSize
}

// Answer returns the answer to a query that came from an address.
func (s *Server) Answer(ctx context.Context, q *dns.Msg, from netip.Addr, overTCP bool) *dns.Msg {
	fail := func(code int) *dns.Msg { return new(dns.Msg).SetRcode(q, code) }
	switch {
	case q.Opcode != dns.OpcodeQuery:
		return fail(dns.RcodeNotImplemented)
	case q.Response || len(q.Question) != 1:
		return fail(dns.RcodeFormatError)
	case !dns.IsSubDomain(s.zone, q.Question[0].Name):
		return s.forward(ctx, q, from, overTCP)
	case q.Question[0].Qclass != dns.ClassINET:
		return fail(dns.RcodeRefused)
	}
	a := new(dns.Msg).SetReply(q)
	a.Authoritative, a.RecursionAvailable = true, len(s.c.Recursors) > 0
	if o := q.IsEdns0(); o != nil {
		a.SetEdns0(maxUDP, false)
	}
	a.Rcode = s.resolve(ctx, a, &q.Question[0])
	if len(a.Answer) == 0 && a.Rcode != dns.RcodeServerFailure {
		a.Ns = append(a.Ns, s.soa()) // says how long there is nothing
	}
	return a
}

// mayRecurse reports whether queries for other names are passed on for an
// address.
func (s *Server) mayRecurse(from netip.Addr) bool {
	if from.IsLoopback() {
		return true
	}
	for _, p := range s.c.Recurse {
		if p.Contains(from) {
			return true
		}
	}
	return false
}

// forward passes a query for another name on to the resolvers, one after
// another.
func (s *Server) forward(ctx context.Context, q *dns.Msg, from netip.Addr, overTCP bool) *dns.Msg {
	if len(s.c.Recursors) == 0 || !s.mayRecurse(from) || !q.RecursionDesired {
		return new(dns.Msg).SetRcode(q, dns.RcodeRefused)
	}
	client := dns.Client{Net: "udp", Timeout: forwardTime, UDPSize: maxUDP}
	if overTCP {
		client.Net = "tcp"
	}
	for _, r := range s.c.Recursors {
		a, _, err := client.ExchangeContext(ctx, q, r)
		if err == nil && a != nil && a.Rcode != dns.RcodeServerFailure {
			return a
		}
	}
	return new(dns.Msg).SetRcode(q, dns.RcodeServerFailure)
}

package dns

import (
	"context"
	"encoding/hex"
	"math/rand/v2"
	"net/netip"
	"strings"

	"github.com/miekg/dns"

	"berth"
)

// Labels below the domain.
const (
	serviceLabel = "service"
	addressLabel = "addr" // HEX.addr.DOMAIN is the address with these bytes: targets of SRV records need names
)

// resolve answers a question below the domain and returns the response code.
func (s *Server) resolve(ctx context.Context, a *dns.Msg, q *dns.Question) int {
	name := strings.ToLower(q.Name)
	if q.Qtype == dns.TypeANY { // RFC 8482: one record that says that there is more
		a.Answer = append(a.Answer, &dns.HINFO{Hdr: s.header(q.Name, dns.TypeHINFO), Cpu: "RFC8482"})
		return dns.RcodeSuccess
	}
	if name == s.zone {
		if q.Qtype == dns.TypeSOA {
			a.Answer = append(a.Answer, s.soa())
		}
		return dns.RcodeSuccess
	}
	labels := dns.SplitDomainName(strings.TrimSuffix(q.Name, q.Name[len(q.Name)-len(s.zone):]))
	switch last := len(labels) - 1; {
	case strings.EqualFold(labels[last], serviceLabel) && last == 0:
		return dns.RcodeSuccess // there are names below it
	case strings.EqualFold(labels[last], serviceLabel):
		namespace, service, ok := serviceIn(labels[:last])
		if !ok {
			return dns.RcodeNameError
		}
		return s.service(ctx, a, q, namespace, service)
	case strings.EqualFold(labels[last], addressLabel) && last == 1:
		ip, ok := addressIn(labels[0])
		if !ok {
			return dns.RcodeNameError
		}
		if rr := s.address(q.Name, ip); rr.Header().Rrtype == q.Qtype {
			a.Answer = append(a.Answer, rr)
		}
		return dns.RcodeSuccess
	}
	return dns.RcodeNameError
}

// serviceIn returns the service that the labels before "service" name.
func serviceIn(labels []string) (namespace, name string, ok bool) {
	name, labels = labels[0], labels[1:]
	if strings.HasPrefix(name, "_") {
		if len(labels) == 0 || !strings.EqualFold(labels[0], "_tcp") && !strings.EqualFold(labels[0], "_udp") {
			return "", "", false
		}
		name, labels = name[1:], labels[1:]
	}
	switch len(labels) {
	case 0:
		return berth.DefaultNamespace, name, berth.ServiceName(name)
	case 1:
		return labels[0], name, berth.ServiceName(name)
	}
	return "", "", false
}

// addressIn returns the address that a label spells in hexadecimal.
func addressIn(label string) (netip.Addr, bool) {
	b, err := hex.DecodeString(label)
	if err != nil {
		return netip.Addr{}, false
	}
	return netip.AddrFromSlice(b)
}

// service answers for one service with its healthy instances, in random order.
func (s *Server) service(ctx context.Context, a *dns.Msg, q *dns.Question, namespace, name string) int {
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	all, err := s.cache.get(ctx, strings.ToLower(namespace), strings.ToLower(name), s.c.Lookup)
	if err != nil {
		s.c.Log.Warn("a DNS query cannot be answered", "namespace", namespace, "service", name, "error", err)
		return dns.RcodeServerFailure
	}
	healthy := make([]*berth.ServiceRegistration, 0, len(all))
	for i := range all {
		if !all[i].Unhealthy {
			healthy = append(healthy, &all[i])
		}
	}
	if len(healthy) == 0 {
		return dns.RcodeNameError
	}
	rand.Shuffle(len(healthy), func(i, j int) { healthy[i], healthy[j] = healthy[j], healthy[i] })
	switch q.Qtype {
	case dns.TypeA, dns.TypeAAAA, dns.TypeCNAME:
		s.addresses(a, q, healthy)
	case dns.TypeSRV:
		s.ports(a, q, healthy)
	}
	return dns.RcodeSuccess
}

// addresses adds the addresses of instances, each once. If all of them are host
// names, it adds one of these as an alias.
func (s *Server) addresses(a *dns.Msg, q *dns.Question, healthy []*berth.ServiceRegistration) {
	seen := map[netip.Addr]bool{}
	alias := ""
	for _, r := range healthy {
		ip, err := netip.ParseAddr(r.Address)
		if err != nil {
			if _, ok := dns.IsDomainName(r.Address); ok && r.Address != "" {
				alias = r.Address
			}
			continue
		}
		ip = ip.Unmap().WithZone("")
		rr := s.address(q.Name, ip)
		if !seen[ip] && rr.Header().Rrtype == q.Qtype {
			a.Answer = append(a.Answer, rr)
		}
		seen[ip] = true
	}
	if len(seen) == 0 && alias != "" {
		a.Answer = append(a.Answer, &dns.CNAME{Hdr: s.header(q.Name, dns.TypeCNAME), Target: dns.Fqdn(alias)})
	}
}

// ports adds where instances listen, and the addresses of the targets.
func (s *Server) ports(a *dns.Msg, q *dns.Question, healthy []*berth.ServiceRegistration) {
	seen := map[netip.Addr]bool{}
	for _, r := range healthy {
		if r.Port < 1 || r.Port > berth.MaxPort {
			continue
		}
		target := dns.Fqdn(r.Address)
		if ip, err := netip.ParseAddr(r.Address); err == nil {
			ip = ip.Unmap().WithZone("")
			target = hex.EncodeToString(ip.AsSlice()) + "." + addressLabel + "." + s.zone
			if !seen[ip] {
				a.Extra = append(a.Extra, s.address(target, ip))
			}
			seen[ip] = true
		} else if _, ok := dns.IsDomainName(r.Address); !ok || r.Address == "" {
			continue
		}
		a.Answer = append(a.Answer, &dns.SRV{Hdr: s.header(q.Name, dns.TypeSRV), Priority: 1, Weight: 1, Port: uint16(r.Port), Target: target})
	}
}

// address returns the record of an address.
func (s *Server) address(name string, ip netip.Addr) dns.RR {
	if ip.Is4() {
		return &dns.A{Hdr: s.header(name, dns.TypeA), A: ip.AsSlice()}
	}
	return &dns.AAAA{Hdr: s.header(name, dns.TypeAAAA), AAAA: ip.AsSlice()}
}

// header returns the header of a record.
func (s *Server) header(name string, kind uint16) dns.RR_Header {
	return dns.RR_Header{Name: name, Rrtype: kind, Class: dns.ClassINET, Ttl: uint32(s.c.TTL.Seconds())}
}

// soa returns the record that says who answers for the domain, and how long it
// may be remembered that there is nothing.
func (s *Server) soa() dns.RR {
	h := s.header(s.zone, dns.TypeSOA)
	return &dns.SOA{
		Hdr: h, Ns: "ns." + s.zone, Mbox: "hostmaster." + s.zone,
		Serial: 1, Refresh: 3600, Retry: 600, Expire: 86400, Minttl: h.Ttl,
	}
}

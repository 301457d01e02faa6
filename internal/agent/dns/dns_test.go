package dns

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"berth"
	_ "berth/internal/onethread" // virtual time under the race detector
)

// registry is services in memory.
type registry map[string][]berth.ServiceRegistration // by namespace/name

func (r registry) lookup(_ context.Context, namespace, name string) ([]berth.ServiceRegistration, error) {
	if namespace == "broken" {
		return nil, errors.New("no server answers")
	}
	return r[namespace+"/"+name], nil
}

func instance(address string, port int) berth.ServiceRegistration {
	return berth.ServiceRegistration{Address: address, Port: port}
}

func sick(r berth.ServiceRegistration) berth.ServiceRegistration {
	r.Unhealthy = true
	return r
}

func testServer(t *testing.T, lookup func(context.Context, string, string) ([]berth.ServiceRegistration, error), addrs ...string) *Server {
	t.Helper()
	s, err := Listen(Config{Domain: "berth", TTL: 5 * time.Second, Lookup: lookup, Log: slog.New(slog.DiscardHandler)}, addrs...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var local = netip.MustParseAddr("127.0.0.1")

// shown is an answer in a line: the code, then the data of its records, sorted.
func shown(a *dns.Msg) string {
	var data []string
	for _, list := range [][]dns.RR{a.Answer, a.Extra} {
		for _, rr := range list {
			if rr.Header().Rrtype == dns.TypeOPT {
				continue
			}
			kind := dns.TypeToString[rr.Header().Rrtype]
			data = append(data, kind+" "+strings.TrimPrefix(rr.String(), rr.Header().String()))
		}
	}
	slices.Sort(data)
	return strings.Join(append([]string{dns.RcodeToString[a.Rcode]}, data...), "; ")
}

func TestAnswers(t *testing.T) {
	s := testServer(t, registry{
		"default/web":  {instance("10.0.0.1", 80), instance("10.0.0.2", 8080), sick(instance("10.0.0.3", 80)), instance("10.0.0.1", 81)},
		"team-a/api":   {instance("fd00::1", 443), instance("10.0.0.4", 443)},
		"default/sick": {sick(instance("10.0.0.9", 80))},
		"default/far":  {instance("db.example.com", 5432)},
		"default/odd":  {instance("", 0)},
	}.lookup)
	for _, x := range []struct {
		name string
		kind uint16
		want string
	}{
		{"web.service.berth.", dns.TypeA, "NOERROR; A 10.0.0.1; A 10.0.0.2"},
		{"WEB.Default.Service.Berth.", dns.TypeA, "NOERROR; A 10.0.0.1; A 10.0.0.2"},
		{"web.default.service.berth.", dns.TypeAAAA, "NOERROR"},
		{"web.default.service.berth.", dns.TypeTXT, "NOERROR"},
		{"web.default.service.berth.", dns.TypeSRV, "NOERROR; A 10.0.0.1; A 10.0.0.2; SRV 1 1 80 0a000001.addr.berth.; SRV 1 1 8080 0a000002.addr.berth.; SRV 1 1 81 0a000001.addr.berth."},
		{"_api._tcp.team-a.service.berth.", dns.TypeSRV, "NOERROR; A 10.0.0.4; AAAA fd00::1; SRV 1 1 443 0a000004.addr.berth.; SRV 1 1 443 fd000000000000000000000000000001.addr.berth."},
		{"api.team-a.service.berth.", dns.TypeAAAA, "NOERROR; AAAA fd00::1"},
		{"api.service.berth.", dns.TypeA, "NXDOMAIN"},
		{"sick.service.berth.", dns.TypeA, "NXDOMAIN"},
		{"none.service.berth.", dns.TypeA, "NXDOMAIN"},
		{"far.service.berth.", dns.TypeA, "NOERROR; CNAME db.example.com."},
		{"far.service.berth.", dns.TypeSRV, "NOERROR; SRV 1 1 5432 db.example.com."},
		{"odd.service.berth.", dns.TypeA, "NOERROR"},
		{"odd.service.berth.", dns.TypeSRV, "NOERROR"},
		{"web.broken.service.berth.", dns.TypeA, "SERVFAIL"},
		{"0a000001.addr.berth.", dns.TypeA, "NOERROR; A 10.0.0.1"},
		{"0a000001.addr.berth.", dns.TypeAAAA, "NOERROR"},
		{"0a0001.addr.berth.", dns.TypeA, "NXDOMAIN"},
		{"zz.addr.berth.", dns.TypeA, "NXDOMAIN"},
		{"a.b.addr.berth.", dns.TypeA, "NXDOMAIN"},
		{"web.service.berth.", dns.TypeANY, "NOERROR; HINFO \"RFC8482\" \"\""},
		{"berth.", dns.TypeSOA, "NOERROR; SOA ns.berth. hostmaster.berth. 1 3600 600 86400 5"},
		{"berth.", dns.TypeA, "NOERROR"},
		{"service.berth.", dns.TypeA, "NOERROR"},
		{"a.b.c.service.berth.", dns.TypeA, "NXDOMAIN"},
		{"_web.service.berth.", dns.TypeSRV, "NXDOMAIN"},
		{"_web._sctp.service.berth.", dns.TypeSRV, "NXDOMAIN"},
		{"-.service.berth.", dns.TypeA, "NXDOMAIN"},
		{"node.berth.", dns.TypeA, "NXDOMAIN"},
		{"example.com.", dns.TypeA, "REFUSED"},
		{"notberth.", dns.TypeA, "REFUSED"},
	} {
		q := new(dns.Msg).SetQuestion(x.name, x.kind)
		a := s.Answer(t.Context(), q, local, false)
		if got := shown(a); got != x.want {
			t.Errorf("%s %s: %s\nwant %s", x.name, dns.TypeToString[x.kind], got, x.want)
		}
		if _, err := a.Pack(); err != nil {
			t.Errorf("%s: %v", x.name, err)
		}
		if nothing := len(a.Answer) == 0 && (a.Rcode == dns.RcodeSuccess || a.Rcode == dns.RcodeNameError); nothing != (len(a.Ns) == 1) {
			t.Errorf("%s: %d records say how long there is nothing", x.name, len(a.Ns))
		}
	}
}

func TestMalformedQueries(t *testing.T) {
	s := testServer(t, registry{}.lookup)
	question := func(change func(*dns.Msg)) *dns.Msg {
		q := new(dns.Msg).SetQuestion("web.service.berth.", dns.TypeA)
		change(q)
		return q
	}
	for name, x := range map[string]struct {
		q    *dns.Msg
		want int
	}{
		"no question":   {question(func(q *dns.Msg) { q.Question = nil }), dns.RcodeFormatError},
		"two questions": {question(func(q *dns.Msg) { q.Question = append(q.Question, q.Question[0]) }), dns.RcodeFormatError},
		"an answer":     {question(func(q *dns.Msg) { q.Response = true }), dns.RcodeFormatError},
		"an update":     {question(func(q *dns.Msg) { q.Opcode = dns.OpcodeUpdate }), dns.RcodeNotImplemented},
		"class CHAOS":   {question(func(q *dns.Msg) { q.Question[0].Qclass = dns.ClassCHAOS }), dns.RcodeRefused},
	} {
		if a := s.Answer(t.Context(), x.q, local, false); a.Rcode != x.want {
			t.Errorf("%s: %s", name, dns.RcodeToString[a.Rcode])
		}
	}
}

// An answer is remembered for the TTL, one question is asked for all who wait,
// and while servers do not answer, the last answer is given.
func TestAnswersAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		var fail atomic.Bool
		s := testServer(t, func(ctx context.Context, _, _ string) ([]berth.ServiceRegistration, error) {
			n := asked.Add(1)
			time.Sleep(time.Second)
			if fail.Load() {
				return nil, errors.New("no server answers")
			}
			return []berth.ServiceRegistration{instance(fmt.Sprintf("10.0.0.%d", n), 80)}, nil
		})
		ask := func() string {
			return shown(s.Answer(t.Context(), new(dns.Msg).SetQuestion("web.service.berth.", dns.TypeA), local, false))
		}
		answers := make(chan string, 10)
		for range cap(answers) {
			go func() { answers <- ask() }()
		}
		for range cap(answers) {
			if got := <-answers; got != "NOERROR; A 10.0.0.1" {
				t.Errorf("at first: %s", got)
			}
		}
		time.Sleep(4 * time.Second)
		if got := ask(); got != "NOERROR; A 10.0.0.1" || asked.Load() != 1 {
			t.Errorf("within the TTL: %s, asked %d times", got, asked.Load())
		}
		time.Sleep(2 * time.Second)
		if got := ask(); got != "NOERROR; A 10.0.0.2" {
			t.Errorf("after the TTL: %s", got)
		}
		fail.Store(true)
		time.Sleep(30 * time.Minute)
		if got := ask(); got != "NOERROR; A 10.0.0.2" {
			t.Errorf("while servers do not answer: %s", got)
		}
		time.Sleep(time.Hour)
		if got := ask(); got != "SERVFAIL" {
			t.Errorf("after an hour without servers: %s", got)
		}
	})
}

// run runs a server on loopback until the test ends, and returns its address.
func run(t *testing.T, s *Server) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s.Addrs()[0]
}

// A long answer does not fit into a packet; over TCP all of it comes.
func TestLongAnswersComeOverTCP(t *testing.T) {
	var many []berth.ServiceRegistration
	for i := range 200 {
		many = append(many, instance(fmt.Sprintf("10.0.1.%d", i), 80))
	}
	addr := run(t, testServer(t, registry{"default/many": many}.lookup, "127.0.0.1:0"))
	q := new(dns.Msg).SetQuestion("many.service.berth.", dns.TypeA)
	for network, want := range map[string]struct {
		cut  bool
		most int
	}{"udp": {true, 199}, "tcp": {false, 200}} {
		c := dns.Client{Net: network, Timeout: time.Minute}
		a, _, err := c.ExchangeContext(t.Context(), q, addr)
		if err != nil {
			t.Fatal(err)
		}
		if a.Truncated != want.cut || len(a.Answer) > want.most || len(a.Answer) == 0 || !want.cut && len(a.Answer) != 200 {
			t.Errorf("%s: %d records, truncated %v", network, len(a.Answer), a.Truncated)
		}
	}
}

// Connections that say nothing do not keep out others.
func TestIdleConnectionsAreBounded(t *testing.T) {
	addr := run(t, testServer(t, registry{"default/web": {instance("10.0.0.1", 80)}}.lookup, "127.0.0.1:0"))
	for range maxTCP + 20 {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	a, _, err := (&dns.Client{Timeout: time.Minute}).ExchangeContext(t.Context(), new(dns.Msg).SetQuestion("web.service.berth.", dns.TypeA), addr)
	if err != nil || shown(a) != "NOERROR; A 10.0.0.1" {
		t.Errorf("over UDP: %v, %v", a, err)
	}
}

// Queries for other names go to the resolvers, for this machine and its networks
// alone.
func TestOtherNamesAreForwarded(t *testing.T) {
	upstream := run(t, testServer(t, registry{"default/web": {instance("10.9.9.9", 80)}}.lookup, "127.0.0.1:0"))
	s, err := Listen(Config{
		Domain: "svc.example.com", TTL: time.Second, Lookup: registry{}.lookup, Log: slog.New(slog.DiscardHandler),
		Recursors: []string{upstream}, Recurse: []netip.Prefix{netip.MustParsePrefix("172.26.64.0/20")},
	})
	if err != nil {
		t.Fatal(err)
	}
	q := new(dns.Msg).SetQuestion("web.service.berth.", dns.TypeA)
	for from, want := range map[string]string{
		"127.0.0.1": "NOERROR; A 10.9.9.9", "::1": "NOERROR; A 10.9.9.9", "172.26.65.7": "NOERROR; A 10.9.9.9", "10.0.0.1": "REFUSED",
	} {
		if got := shown(s.Answer(t.Context(), q, netip.MustParseAddr(from), from == "::1")); got != want {
			t.Errorf("from %s: %s", from, got)
		}
	}
}

func FuzzQuery(f *testing.F) {
	for _, name := range []string{"web.service.berth.", "_web._tcp.default.service.berth.", "0a000001.addr.berth.", "berth.", "example.com."} {
		b, err := new(dns.Msg).SetQuestion(name, dns.TypeSRV).SetEdns0(4096, false).Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	s, err := Listen(Config{Domain: "berth", TTL: time.Second, Lookup: registry{"default/web": {instance("10.0.0.1", 80)}}.lookup, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		q := new(dns.Msg)
		if q.Unpack(b) != nil {
			return
		}
		if a := s.Answer(t.Context(), q, local, false); len(a.Answer) > 0 {
			if _, err := a.Pack(); err != nil {
				t.Error(err)
			}
		}
	})
}

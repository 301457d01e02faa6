package accept

import (
	"net"
	"testing"
)

// from is a connection from an address.
type from struct {
	net.Conn
	addr net.Addr
}

func (f from) RemoteAddr() net.Addr { return f.addr }
func (f from) Close() error         { return nil }

// A gate counts by client address and in all, until a connection is closed.
func TestAGateCounts(t *testing.T) {
	g := &Gate{Most: 3, PerHost: 2}
	conns := map[string]net.Conn{}
	for _, c := range []struct {
		addr, name string
		want       Verdict
	}{
		{"10.0.0.1:1", "a", Admitted},
		{"10.0.0.1:2", "b", Admitted},
		{"10.0.0.1:3", "", HostFull},
		{"10.0.0.2:1", "c", Admitted},
		{"10.0.0.3:1", "", Full},
		{"", "a", 0}, // closed, twice
		{"10.0.0.1:4", "d", Admitted},
		{"10.0.0.1:5", "", HostFull},
		{"", "c", 0},
		{"10.0.0.3:1", "e", Admitted},
	} {
		if c.addr == "" {
			conns[c.name].Close()
			conns[c.name].Close()
			continue
		}
		addr, err := net.ResolveTCPAddr("tcp", c.addr)
		if err != nil {
			t.Fatal(err)
		}
		conn, got := g.Admit(from{addr: addr})
		if got != c.want || (conn != nil) != (got == Admitted) {
			t.Errorf("%s: %d, %v, want %d", c.addr, got, conn, c.want)
		}
		conns[c.name] = conn
	}
	for _, name := range []string{"b", "d", "e"} {
		conns[name].Close()
	}
	if g.Open() != 0 || len(g.byHost) != 0 {
		t.Errorf("with all closed, %d are open, of %v", g.Open(), g.byHost)
	}
}

// A gate without limits refuses nobody.
func TestAGateWithoutLimits(t *testing.T) {
	var g Gate
	for range 1000 {
		if _, v := g.Admit(from{addr: &net.TCPAddr{}}); v != Admitted {
			t.Fatal(v)
		}
	}
}

// One client is an address of IPv4 or a /64 of IPv6.
func TestHost(t *testing.T) {
	for a, want := range map[string]string{
		"10.0.0.1:5": "10.0.0.1/32", "[2001:db8::1]:5": "2001:db8::/64", "[::ffff:10.0.0.1]:5": "10.0.0.1/32", "[fe80::1%lo]:5": "fe80::/64",
	} {
		addr, err := net.ResolveTCPAddr("tcp", a)
		if err != nil {
			t.Fatal(err)
		}
		if got := Host(addr).String(); got != want {
			t.Errorf("%s is of %s, not %s", a, got, want)
		}
	}
	pipe, _ := net.Pipe()
	if Host(pipe.RemoteAddr()) != Host(nil) {
		t.Error("what is not an address of a network is not one client")
	}
}

// The ports together leave descriptors for files, and none goes without.
func TestThePartsOfThePorts(t *testing.T) {
	for _, n := range []uint64{0, 64, 128, 256, 300, 1024, 4096, 20_000, 65_536, 1 << 20, 1 << 40, 1<<64 - 1} {
		p := Divide(n)
		if p.HTTP < minPort || p.RPC < minPort || p.Gossip < minPort {
			t.Errorf("%d descriptors: %+v: a port has less than %d", n, p, minPort)
		}
		if sum := uint64(p.HTTP + p.RPC + p.Gossip); n >= 256 && sum > n-min(n/2, max(n/4, minFiles)) {
			t.Errorf("%d descriptors: %+v leaves %d for files", n, p, n-sum)
		}
	}
	if p := Divide(65_536); p.RPC < 20_000 {
		t.Errorf("a server with 65,536 descriptors has no room for the sessions of 20,000 agents: %+v", p)
	}
}

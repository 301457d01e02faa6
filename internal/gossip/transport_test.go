package gossip

import (
	"log/slog"
	"net"
	"strconv"
	"testing"
	"time"
)

// haveIPv6 skips a test on a machine that has no loopback of IPv6.
func haveIPv6(t *testing.T) {
	t.Helper()
	ln, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Skipf("this machine has no ::1: %v", err)
	}
	ln.Close()
}

// 0.0.0.0 does not include IPv6, as with the other ports of a server;
// every address of IPv6 is every address there is.
func TestListensAtTheAddressItWasTold(t *testing.T) {
	haveIPv6(t)
	for _, c := range []struct {
		bind   string
		v4, v6 bool
	}{{"0.0.0.0", true, false}, {"127.0.0.1", true, false}, {"::1", false, true}, {"::", true, true}} {
		x, err := listen(c.bind, 0, 0, slog.New(slog.NewTextHandler(t.Output(), nil)))
		if err != nil {
			t.Errorf("%s: %v", c.bind, err)
			continue
		}
		for host, want := range map[string]bool{"127.0.0.1": c.v4, "::1": c.v6} {
			at := net.JoinHostPort(host, strconv.Itoa(x.port()))
			conn, err := net.DialTimeout("tcp", at, 5*time.Second)
			if err == nil {
				(<-x.StreamCh()).Close()
				conn.Close()
			}
			if (err == nil) != want {
				t.Errorf("%s: TCP to %s: %v", c.bind, at, err)
			}
			if said := hears(t, x, at); said != want {
				t.Errorf("%s: what UDP brings to %s is heard: %v", c.bind, at, said)
			}
		}
		for range 2 {
			if err := x.Shutdown(); err != nil {
				t.Errorf("%s: %v", c.bind, err)
			}
		}
	}
}

// hears says whether a packet to an address comes in. One that nobody listens
// for is answered by the machine, which the next write or read is told.
func hears(t *testing.T, x *transport, at string) bool {
	t.Helper()
	c, err := net.Dial("udp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	refused := make(chan error, 1)
	go func() {
		_, err := c.Read(make([]byte, 1))
		refused <- err
	}()
	select {
	case p := <-x.PacketCh():
		if string(p.Buf) != "hello" || p.From.String() != c.LocalAddr().String() || p.Timestamp.IsZero() {
			t.Errorf("%s: %q came from %v at %v", at, p.Buf, p.From, p.Timestamp)
		}
		c.Close()
		<-refused
		return true
	case <-refused:
		return false
	}
}

// What is dialled ends with the transport, and so does what waits for it.
func TestHangUpEndsWhatWasDialled(t *testing.T) {
	x, err := listen("127.0.0.1", 0, 0, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	c, err := x.DialTimeout(ln.Addr().String(), 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan error)
	go func() { _, err := c.Read(make([]byte, 1)); read <- err }()
	x.Shutdown()
	if err := <-read; err == nil {
		t.Error("it was read from what has ended")
	}
	if c, err := x.DialTimeout(ln.Addr().String(), 5*time.Second); err == nil {
		c.Close()
		t.Error("what has ended dials")
	}
}

// Three servers at addresses of IPv6 find each other, whichever way the
// addresses are written, and notice that one is gone.
func TestServersOfIPv6(t *testing.T) {
	haveIPv6(t)
	at := func(name string) Config {
		c := conf(name)
		c.Bind, c.RPC = "::1", "[::1]:4647"
		return c
	}
	a, b, c := start(t, at("a")), start(t, at("b")), start(t, at("c"))
	full := net.JoinHostPort("::1", strconv.Itoa(int(a.Self().Port)))
	long := net.JoinHostPort("0:0:0:0:0:0:0:1", strconv.Itoa(int(a.Self().Port)))
	for x, addr := range map[*server]string{b: full, c: long} {
		if _, err := x.Join(t.Context(), []string{addr}); err != nil {
			t.Errorf("%s: %v", addr, err)
		}
	}
	sees(t, "a alive, b alive, c alive", a, b, c)
	if m := a.Self(); m.Addr != "::1" || m.RPC != "[::1]:4647" {
		t.Errorf("a is reached at %s, for RPC at %s", m.Addr, m.RPC)
	}
	if left := a.others([]string{long, full, "[::1]:1"}); len(left) != 1 {
		t.Errorf("of its own addresses, these are others: %v", left)
	}
	c.stop()
	sees(t, "a alive, b alive, c failed", a, b)
}

// Before it starts, a server listens and nobody hears of it, also not those
// that it knew before; what it needs for RPC is there.
func TestListenIsSilent(t *testing.T) {
	old := conf("b")
	old.Dir = t.TempDir()
	old.Keys = [][]byte{make([]byte, 32)}
	first := conf("a")
	first.Keys = old.Keys
	a, b := start(t, first), start(t, old)
	if _, err := b.Join(t.Context(), []string{address(a.serf.Load().LocalMember().Addr, a.Self().Port)}); err != nil {
		t.Fatal(err)
	}
	sees(t, "a alive, b alive", a, b)
	b.stop()
	sees(t, "a alive, b failed", a)

	p, err := Listen(old)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.ring.GetKeys()) != 1 || p.Members() != nil {
		t.Errorf("it knows %d keys, and members %v", len(p.ring.GetKeys()), p.Members())
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	sees(t, "a alive, b failed", a)

	if p, err = Listen(old); err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	sees(t, "a alive, b alive", a)
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

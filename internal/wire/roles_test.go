package wire

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"berth"
	"berth/internal/accept"
	"berth/internal/eventually"
	"berth/internal/msgpack"
	"berth/internal/wire/certs/certstest"
)

// everything is a server with a method of each kind. What comes by Raft is
// echoed.
func everything(c Config) *Server {
	c.Raft = func(conn net.Conn, _ *Peer) {
		go func() {
			io.Copy(conn, conn)
			conn.Close()
		}()
	}
	s := New(c)
	ok := func(context.Context, *Call) (any, error) { return nil, nil }
	stream := func(_ context.Context, _ *Call, st *Stream) error { return st.Accept() }
	s.Handle("Agents", ok)
	s.HandleServers("Servers", ok)
	s.Handle("Regions", ok)
	s.HandleStream("Agents", stream)
	s.HandleStreamServers("Servers", stream)
	s.HandleStream("Regions", stream)
	s.Between("Regions")
	return s
}

// may says what a dialler reaches: each letter is a method, a stream or Raft
// that it is let to.
func may(t *testing.T, d *Dialer, addr string) string {
	t.Helper()
	var out strings.Builder
	tell := func(letter string, err error) {
		switch {
		case err == nil:
			out.WriteString(letter)
		case berth.KindOf(err) == berth.Denied && err.Error() != "Permission denied":
			t.Errorf("a refusal says more than it should: %v", err)
		case berth.KindOf(err) != berth.Denied && berth.KindOf(err) != berth.Unavailable:
			t.Errorf("refused by %v", err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), eventually.Limit)
	defer cancel()
	s, err := d.Dial(ctx, addr)
	tell("D", err)
	if err == nil {
		defer s.Close()
		for _, name := range []string{"Agents", "Servers", "Regions"} {
			tell(strings.ToLower(name[:1]), s.Call(ctx, name, map[string]any{}, nil))
			st, err := s.Stream(ctx, name, map[string]any{})
			tell(name[:1], err)
			if err == nil {
				st.Close()
			}
		}
	}
	conn, err := d.Raft(ctx, addr)
	tell("!", err)
	if err == nil {
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(eventually.Limit))
		if _, err := conn.Write(bytes.Repeat([]byte("raft"), 1<<20)); err != nil {
			t.Error(err)
		}
		if got, err := io.ReadAll(io.LimitReader(conn, 4<<20)); err != nil || string(got[:4]) != "raft" {
			t.Errorf("%q %v", got[:min(4, len(got))], err)
		}
	}
	return out.String()
}

const all = "DaAsSrR!"

// Without TLS everyone who reaches the port may do what servers may.
func TestWithoutTLSNothingIsChecked(t *testing.T) {
	own, eu := New(Config{Log: silent}), New(Config{Log: silent, Region: "eu"})
	addr := start(t, everything(Config{Log: silent}))
	for name, d := range map[string]*Dialer{
		"an agent": {}, "a server": {Server: true, Handlers: own}, "a server of another region": {Server: true, Handlers: eu, Region: "global"},
	} {
		if got := may(t, d, addr); got != all {
			t.Errorf("%s may %s, not %s", name, got, all)
		}
	}
}

// A server says so once, and what follows is neither TLS nor unknown.
func TestAServerSaysSoOnce(t *testing.T) {
	addr := start(t, everything(Config{Log: silent}))
	for _, second := range []byte{firstServer, firstTLS, 0x42} {
		conn := connect(t, addr)
		conn.Write([]byte{firstServer, second})
		if b, err := io.ReadAll(conn); len(b) > 0 || isTimeout(err) {
			t.Errorf("0x%02x after it: %q %v", second, b, err)
		}
	}
}

// secured is a server with TLS.
func secured(t *testing.T, ca *certstest.CA, c Config) string {
	c.TLS = ca.Issue("server.global.nomad").Material(t).Accept()
	c.OnlyTLS = true
	return start(t, everything(c))
}

// What a certificate opens.
func TestAdvisory_C32_C40_Certificates(t *testing.T) {
	ca := certstest.New(t)
	addr := secured(t, ca, Config{Log: silent})
	for name, want := range map[string]string{
		"server.global.nomad": all, "client.global.nomad": "DaArR", "server.eu.nomad": "DrR", "client.eu.nomad": "", "cli.global.nomad": "", "db.example": "",
	} {
		d := &Dialer{TLS: ca.Issue(name).Material(t).Dial()}
		if got := may(t, d, addr); got != want {
			t.Errorf("%s may %s, not %s", name, got, want)
		}
	}
	// Without TLS nobody may anything, whatever they claim.
	for _, d := range []*Dialer{{}, {Server: true}} {
		if got := may(t, d, addr); got != "" && got != "D" { // an agent dials before it hears anything
			t.Errorf("without TLS: %s", got)
		}
	}
}

// While TLS is introduced, both ways are open.
func TestUpgradeMode(t *testing.T) {
	ca := certstest.New(t)
	s := everything(Config{Log: silent, TLS: ca.Issue("server.global.nomad").Material(t).Accept()})
	addr := start(t, s)
	if got := may(t, &Dialer{}, addr); got != all {
		t.Errorf("without TLS: %s", got)
	}
	if got := may(t, &Dialer{TLS: ca.Issue("client.global.nomad").Material(t).Dial()}, addr); got != "DaArR" {
		t.Errorf("an agent with TLS: %s", got)
	}
}

// Certificates without the names of roles serve where names are not checked;
// those with such a name are held to it.
func TestUnnamedCertificates(t *testing.T) {
	ca := certstest.New(t)
	addr := secured(t, ca, Config{Log: silent, Unnamed: true})
	for name, want := range map[string]string{"db.example": all, "client.global.nomad": "DaArR", "cli.global.nomad": ""} {
		if got := may(t, &Dialer{TLS: ca.Issue(name).Material(t).Dial()}, addr); got != want {
			t.Errorf("%s may %s, not %s", name, got, want)
		}
	}
}

// What a dialler is told, and what the log of the server says.
func TestWhatIsSaidOfCertificates(t *testing.T) {
	ca := certstest.New(t)
	var mu sync.Mutex
	var text strings.Builder
	log := textLog(writer(func(b []byte) (int, error) { mu.Lock(); defer mu.Unlock(); return text.Write(b) }))
	addr := secured(t, ca, Config{Log: log})
	_, err := (&Dialer{TLS: ca.Issue("cli.global.nomad").Material(t).Dial()}).Dial(t.Context(), addr)
	for _, want := range []string{"dial " + addr, `it is "cli.global.nomad", which has the names cli.global.nomad, localhost, 127.0.0.1`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("not said: %s: %v", want, err)
		}
	}
	_, err = (&Dialer{TLS: certstest.New(t).Issue("server.global.nomad").Material(t).Dial()}).Dial(t.Context(), addr)
	if err == nil || !strings.Contains(err.Error(), "which is not an authority in") {
		t.Errorf("%v", err)
	}
	_, err = (&Dialer{Region: "eu", TLS: ca.Issue("server.global.nomad").Material(t).Dial()}).Dial(t.Context(), addr)
	if err == nil || !strings.Contains(err.Error(), "want server.eu.nomad") {
		t.Errorf("%v", err)
	}
	plain := start(t, New(Config{Log: silent}))
	_, err = (&Dialer{TLS: ca.Issue("server.global.nomad").Material(t).Dial()}).Dial(t.Context(), plain)
	if err == nil || !strings.Contains(err.Error(), "it may not use TLS (tls.rpc), or refuse our certificate") {
		t.Errorf("%v", err)
	}
	waitFor(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return strings.Contains(text.String(), `names neither a server nor an agent of this region`) &&
			strings.Contains(text.String(), `want server.global.nomad or client.global.nomad`)
	})
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

// The silent, and those within TLS who are, are dropped as all others are.
func TestTheSilentAreDroppedWithTLS(t *testing.T) {
	ca := certstest.New(t)
	material := ca.Issue("server.global.nomad").Material(t)
	serve := func(handshake time.Duration) (addr string) {
		return start(t, everything(Config{Log: silent, TLS: material.Accept(), OnlyTLS: true, Handshake: handshake}))
	}
	addr := serve(100 * time.Millisecond)
	for name, begin := range map[string][]byte{"after the byte": {firstTLS}, "in the handshake": {firstTLS, 0x16, 3, 1, 1, 0}} {
		conn := connect(t, addr)
		conn.Write(begin)
		if _, err := io.ReadAll(conn); isTimeout(err) {
			t.Errorf("%s: not dropped", name)
		}
	}
	addr = serve(3 * time.Second) // a busy machine needs some of it for TLS
	d := &Dialer{TLS: material.Dial()}
	plain, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	conn, err := d.secure(t.Context(), plain, "global")
	if err != nil {
		t.Fatal(err)
	}
	plain.SetDeadline(time.Now().Add(eventually.Limit))
	if _, err := io.ReadAll(conn); isTimeout(err) {
		t.Error("after the handshake: not dropped")
	}
	// TLS comes once, and a server says nothing more within it.
	for _, first := range []byte{firstTLS, firstServer} {
		plain, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer plain.Close()
		if conn, err = d.secure(t.Context(), plain, "global"); err != nil {
			t.Fatal(err)
		}
		plain.SetDeadline(time.Now().Add(eventually.Limit))
		conn.Write([]byte{first})
		if b, err := io.ReadAll(conn); len(b) > 0 || isTimeout(err) {
			t.Errorf("0x%02x again: %q %v", first, b, err)
		}
	}
}

// Servers come in though their address has all the connections that others may
// have.
func TestServersAreNotShutOutByTheirNeighbours(t *testing.T) {
	ca := certstest.New(t)
	secure := ca.Issue("server.global.nomad").Material(t)
	agent := ca.Issue("client.global.nomad").Material(t)
	for name, c := range map[string]struct {
		config        Config
		agent, server Dialer
	}{
		"without TLS": {Config{}, Dialer{}, Dialer{Server: true}},
		"with TLS":    {Config{TLS: secure.Accept(), OnlyTLS: true}, Dialer{TLS: agent.Dial()}, Dialer{TLS: secure.Dial()}},
	} {
		t.Run(name, func(t *testing.T) {
			c.config.Log, c.config.MaxConns = silent, 3
			addr := start(t, everything(c.config))
			sessionOf := func(d Dialer) error {
				s, err := d.Dial(t.Context(), addr)
				if err != nil {
					return err
				}
				t.Cleanup(func() { s.Close() })
				return s.Call(t.Context(), "Agents", map[string]any{}, nil)
			}
			for i := range 4 {
				if err := sessionOf(c.agent); (err == nil) != (i < 3) {
					t.Errorf("agent %d: %v", i+1, err)
				}
			}
			for i := range 3 * serversMost {
				var err error
				if i%2 == 0 {
					err = sessionOf(c.server)
				} else if conn, e := c.server.Raft(t.Context(), addr); e == nil {
					t.Cleanup(func() { conn.Close() })
				} else {
					err = e
				}
				if err != nil {
					t.Fatalf("server's connection %d: %v", i+1, err)
				}
			}
			if err := sessionOf(c.server); err == nil {
				t.Error("servers may have any number")
			}
		})
	}
}

// A connection that was given away ends with the server, and counts until it
// is closed.
func TestRaftConnectionsEndWithTheServer(t *testing.T) {
	given := make(chan net.Conn, 1)
	s := New(Config{Log: silent, MaxConns: 1, Raft: func(conn net.Conn, p *Peer) {
		if !p.Server() {
			t.Error("the peer is no server")
		}
		given <- conn
	}})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, ln) }()
	d := &Dialer{Server: true}
	near, err := d.Raft(t.Context(), ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	far := <-given
	s.guests.mu.Lock()
	if g := s.guests.conns[accept.Host(near.LocalAddr())]; g.servers != 1 || g.plain != 0 {
		t.Errorf("counted are %d and %d", g.servers, g.plain)
	}
	s.guests.mu.Unlock()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := far.Read(make([]byte, 1)); err == nil {
		t.Error("the connection is open")
	}
	if len(s.guests.conns) != 0 {
		t.Error("the address is remembered")
	}
}

// A call is passed on as it came, and its answer back.
func TestCallsArePassedOn(t *testing.T) {
	s := New(Config{Log: silent})
	s.Handle("Node.UpdateStatus", beat)
	s.Handle("Fails", func(context.Context, *Call) (any, error) {
		return nil, fmt.Errorf("write: %w", berth.ErrNoLeader)
	})
	var far *Session
	relay := New(Config{Log: silent})
	pass := func(ctx context.Context, c *Call) (any, error) {
		var in Raw
		if err := c.Decode(&in); err != nil {
			return nil, err
		}
		var out Raw
		err := far.Call(ctx, c.Method, in, &out)
		return out, err
	}
	relay.Handle("Node.UpdateStatus", pass)
	relay.Handle("Fails", pass)
	first, second := start(t, s), start(t, relay)
	far = dial(t, first, nil)
	near := dial(t, second, nil)
	var direct, passed Raw
	if err := far.Call(t.Context(), "Node.UpdateStatus", encoded(t, aBeat), &direct); err != nil {
		t.Fatal(err)
	}
	if err := near.Call(t.Context(), "Node.UpdateStatus", encoded(t, aBeat), &passed); err != nil || !bytes.Equal(direct, passed) || len(direct) < 20 {
		t.Errorf("%x is not %x: %v", passed, direct, err)
	}
	if err := near.Call(t.Context(), "Fails", nil, nil); berth.KindOf(err) != berth.NoLeader || !strings.HasPrefix(err.Error(), "No cluster leader") {
		t.Errorf("%v", err)
	}
}

func encoded(t *testing.T, v any) Raw {
	b, err := msgpack.Append(nil, v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

package daemon

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"berth/internal/api"
	"berth/internal/eventually"
	"berth/internal/wire"
	"berth/internal/wire/certs"
	"berth/internal/wire/certs/certstest"

	"github.com/hashicorp/yamux"
)

// door is a way into a server, tried by a client that does not verify the
// server. It returns the server's answer.
type door func(t *testing.T, conn net.Conn) string

// rpcFor is a call by hand: its header, and an empty argument.
func rpcFor(method string) []byte {
	b := append([]byte{0x82, 0xad}, "ServiceMethod"...)
	b = append(append(b, 0xa0|byte(len(method))), method...)
	return append(append(append(b, 0xa3), "Seq"...), 1, 0x80)
}

// streamFor is a streaming call by hand.
func streamFor(method string) []byte {
	b := append([]byte{0x81, 0xa6}, "Method"...)
	return append(append(append(b, 0xa0|byte(len(method))), method...), 0x80)
}

func hears(first byte, what []byte) door {
	return func(t *testing.T, conn net.Conn) string {
		conn.Write(append([]byte{first}, what...))
		b := make([]byte, 200)
		n, _ := conn.Read(b)
		return string(b[:n])
	}
}

func throughMux(inner door) door {
	return func(t *testing.T, conn net.Conn) string {
		conn.Write([]byte{0x06})
		cfg := yamux.DefaultConfig()
		cfg.LogOutput, cfg.EnableKeepAlive = io.Discard, false
		mux, err := yamux.Client(conn, cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer mux.Close()
		st, err := mux.OpenStream()
		if err != nil {
			return ""
		}
		st.SetDeadline(time.Now().Add(eventually.Limit))
		return inner(t, st)
	}
}

// TestWhoIsLetIn is S-01: each kind of certificate opens exactly the doors in its
// row. Columns: plain RPC, RPC inside yamux, and streams, each for methods of
// agents, of servers, and between regions; Raft; the HTTP API with and without
// client certificates.
func TestWhoIsLetIn(t *testing.T) {
	ca := certstest.New(t)
	own := ca.Issue("server.global.nomad")
	material := func(verify bool) *certs.Material {
		m, err := certs.Load(certs.Options{CA: own.CA, Cert: own.Cert, Key: own.Key, CheckNames: true, VerifyHTTPS: verify})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	quiet := slog.New(slog.DiscardHandler)
	s := wire.New(wire.Config{Log: quiet, Region: "global", TLS: material(false).Accept(), OnlyTLS: true, Handshake: time.Minute, Raft: func(conn net.Conn, _ *wire.Peer) { conn.Close() }})
	ok := func(context.Context, *wire.Call) (any, error) { return nil, nil }
	accept := func(_ context.Context, _ *wire.Call, st *wire.Stream) error { return st.Accept() }
	s.Handle("Agents", ok)
	s.HandleServers("Servers", ok)
	s.Handle("Regions", ok)
	s.HandleStream("Agents", accept)
	s.HandleStreamServers("Servers", accept)
	s.HandleStream("Regions", accept)
	s.Between("Regions")

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 3)
	listen := func(serve func(net.Listener) error) string {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() { ended <- serve(ln) }()
		return ln.Addr().String()
	}
	t.Cleanup(func() {
		cancel()
		for range 3 {
			<-ended
		}
	})
	rpc := listen(func(ln net.Listener) error { return s.Serve(ctx, ln) })
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") })
	web := func(verify bool) string {
		secure := material(verify).HTTPS()
		return listen(func(ln net.Listener) error {
			return api.Serve(ctx, ln, hello, api.Limits{TLS: secure}, quiet)
		})
	}
	mutual, oneWay := web(true), web(false)

	get := func(t *testing.T, conn net.Conn) string {
		io.WriteString(conn, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
		b, _ := io.ReadAll(conn)
		return string(b)
	}
	type column struct {
		letter string
		addr   string
		through
		open door
		good func(answer string) bool
	}
	answered := func(a string) bool { return a != "" && !strings.Contains(a, "Permission denied") }
	welcome := func(a string) bool { return a == "\x00" }
	greeted := func(a string) bool { return strings.HasPrefix(a, "HTTP/1.1 200") && strings.HasSuffix(a, "hello") }
	columns := []column{
		{"a", rpc, inner, hears(0x01, rpcFor("Agents")), answered},
		{"s", rpc, inner, hears(0x01, rpcFor("Servers")), answered},
		{"r", rpc, inner, hears(0x01, rpcFor("Regions")), answered},
		{"m", rpc, inner, throughMux(hears(0x01, rpcFor("Agents"))), answered},
		{"n", rpc, inner, throughMux(hears(0x01, rpcFor("Servers"))), answered},
		{"o", rpc, inner, throughMux(hears(0x05, streamFor("Regions"))), answered},
		{"A", rpc, inner, hears(0x05, streamFor("Agents")), answered},
		{"S", rpc, inner, hears(0x05, streamFor("Servers")), answered},
		{"R", rpc, inner, hears(0x05, streamFor("Regions")), answered},
		{"!", rpc, inner, hears(0x02, nil), welcome},
		{"H", mutual, outer, get, greeted},
		{"h", oneWay, outer, get, greeted},
	}
	shown := func(f certstest.Files) *[]tls.Certificate {
		own, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			t.Fatal(err)
		}
		return &[]tls.Certificate{own}
	}
	now := time.Now()
	for _, row := range []struct {
		who  string
		cert *[]tls.Certificate // nil: no TLS
		want string
	}{
		{"right", shown(own), "asrmnoASR!Hh"},
		{"no TLS", nil, ""},
		{"none", new([]tls.Certificate), "h"},
		{"wrong authority", shown(certstest.New(t).Issue("server.global.nomad")), "h"},
		{"expired", shown(ca.IssueFor("server.global.nomad", certs.Life{From: now.Add(-2 * time.Hour), To: now.Add(-time.Hour)})), "h"},
		{"not yet valid", shown(ca.IssueFor("server.global.nomad", certs.Life{From: now.Add(time.Hour), To: now.Add(2 * time.Hour)})), "h"},
		{"client", shown(ca.Issue("client.global.nomad")), "armoARh"},
		{"server of another region", shown(ca.Issue("server.eu.nomad")), "roRHh"},
		{"client of another region", shown(ca.Issue("client.eu.nomad")), "h"},
		{"person", shown(ca.Issue("cli.global.nomad")), "Hh"},
		{"no role", shown(ca.Issue("db.example")), "Hh"},
	} {
		t.Run(row.who, func(t *testing.T) {
			var got strings.Builder
			for _, c := range columns {
				conn, err := net.Dial("tcp", c.addr)
				if err != nil {
					t.Fatal(err)
				}
				conn.SetDeadline(now.Add(eventually.Limit))
				if row.cert != nil {
					if c.through == inner {
						conn.Write([]byte{0x03})
					}
					conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true, Certificates: *row.cert})
				}
				if c.good(c.open(t, conn)) {
					got.WriteString(c.letter)
				}
				conn.Close()
			}
			if got.String() != row.want {
				t.Errorf("let in by %s, not %s", got.String(), row.want)
			}
		})
	}
}

// through is how TLS is begun: at once, or after a byte that announces it.
type through bool

const (
	outer through = false
	inner through = true
)

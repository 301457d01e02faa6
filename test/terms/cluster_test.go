//go:build faults

// Package terms tests what holds across changes of leader: real servers with
// real Raft, in one process and in virtual time, over networks in memory that
// can be cut. A minute of a cluster's life takes a moment here, so terms can
// end by the thousand, in all the ways in which they end.
package terms

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/consensus/consensustest"
	"berth/internal/gossip"
	_ "berth/internal/onethread"
	"berth/internal/server"
	"berth/internal/state/codec"
	"berth/op"
)

// bubbled runs a test in virtual time. Libraries keep timers for use again,
// and one of another bubble is fatal in this one: two collections drop what was
// kept.
func bubbled(t *testing.T, f func(*testing.T)) {
	t.Helper()
	runtime.GC()
	runtime.GC()
	synctest.Test(t, f)
}

// wires is a network in memory for what is not Raft.
type wires struct {
	mu        sync.Mutex
	listeners map[string]*listener
}

type listener struct {
	addr   address
	in     chan net.Conn
	closed chan struct{}
	once   sync.Once
}

type address string

// Network implements net.Addr.
func (address) Network() string { return "memory" }

// String implements net.Addr.
func (a address) String() string { return string(a) }

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.in:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *listener) Close() error { l.once.Do(func() { close(l.closed) }); return nil }

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return l.addr }

func (w *wires) listen(addr string) *listener {
	l := &listener{addr: address(addr), in: make(chan net.Conn), closed: make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.listeners == nil {
		w.listeners = map[string]*listener{}
	}
	w.listeners[addr] = l
	return l
}

// end is one end of a connection.
type end struct {
	net.Conn
	far address
}

// RemoteAddr implements net.Conn.
func (c end) RemoteAddr() net.Addr { return c.far }

func (w *wires) dial(ctx context.Context, addr string) (net.Conn, error) {
	w.mu.Lock()
	l := w.listeners[addr]
	w.mu.Unlock()
	if l == nil {
		return nil, errors.New("connection refused")
	}
	near, far := net.Pipe()
	select {
	case l.in <- end{far, "10.1.0.1:1"}:
		return end{near, l.addr}, nil
	case <-l.closed:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// pool is the servers of all regions.
type pool struct {
	mu   sync.Mutex
	list []gossip.Member
}

// members is what gossip would tell one server: all are there.
type members struct {
	*pool
	changed chan struct{}
}

// Members implements server.Members.
func (m *members) Members() []gossip.Member {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.list)
}

// Changed implements server.Members.
func (m *members) Changed() <-chan struct{} { return m.changed }

// Leave implements server.Members.
func (m *members) Leave(context.Context) error { return nil }

// SetCluster implements server.Members.
func (m *members) SetCluster(string) error { return nil }

// cluster is servers of one region.
type cluster struct {
	t       testing.TB
	region  string
	wires   *wires
	pool    *pool
	raft    *consensustest.Network
	list    []*member
	rand    *rand.Rand
	servers []string                      // their addresses
	adjust  func(i int, c *server.Config) // of what starts, if it is not nil
}

// member is one of them, which may be stopped and started again.
type member struct {
	*server.Server
	addr  string
	dir   string
	stop  context.CancelFunc // nil while it is stopped
	ended chan error
}

// newCluster starts n servers and waits until one of them leads.
func newCluster(t *testing.T, n int, seed uint64) *cluster {
	return newRegion(t, "global", "10.0.0", n, seed, &wires{}, &pool{})
}

// newRegion does the same in a region of a pool.
func newRegion(t testing.TB, region, network string, n int, seed uint64, w *wires, p *pool, adjust ...func(int, *server.Config)) *cluster {
	c := &cluster{t: t, region: region, wires: w, pool: p, raft: consensustest.NewNetwork(), rand: rand.New(rand.NewPCG(seed, 1))}
	if len(adjust) > 0 {
		c.adjust = adjust[0]
	}
	p.mu.Lock()
	for i := range n {
		x := &member{addr: fmt.Sprintf("%s.%d:4647", network, i+1), dir: t.TempDir()}
		id, err := server.Identity(x.dir)
		if err != nil {
			t.Fatal(err)
		}
		c.list, c.servers = append(c.list, x), append(c.servers, x.addr)
		p.list = append(p.list, gossip.Member{
			Name: fmt.Sprintf("s%d.%s", i+1, region), ID: id, Region: region, Datacenter: "dc1", RPC: x.addr, Status: gossip.Alive, Expect: n, Voter: true, LogVersion: codec.LogVersion,
		})
	}
	p.mu.Unlock()
	for i := range n {
		c.start(i)
	}
	c.leader()
	return c
}

func (c *cluster) start(i int) {
	x := c.list[i]
	var err error
	config := server.Config{
		Region: c.region, Datacenter: "dc1", DataDir: x.dir, RPC: c.wires.listen(x.addr), Advertise: x.addr, Workers: 1, FollowerWorkers: 2,
		Logger: slog.New(slog.DiscardHandler),
		Self:   func() op.AgentSelf { return op.AgentSelf{} }, Health: func() op.AgentHealth { return op.AgentHealth{} },
		Cluster: &server.Cluster{
			Members: &members{c.pool, make(chan struct{}, 1)}, Expect: len(c.list), Transport: c.raft.Transport(x.addr), Connect: c.wires.dial,
		},
	}
	if c.adjust != nil {
		c.adjust(i, &config)
	}
	x.Server, err = server.New(config)
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	x.stop, x.ended = cancel, make(chan error, 1)
	go func(s *server.Server, ended chan error) { ended <- s.Run(ctx) }(x.Server, x.ended)
}

func (c *cluster) halt(i int) {
	x := c.list[i]
	x.stop()
	if err := <-x.ended; !errors.Is(err, context.Canceled) {
		c.t.Error(err)
	}
	x.stop = nil
}

// end ends all servers, and waits until what they left to be closed is.
func (c *cluster) end() {
	for i := range c.list {
		c.halt(i)
	}
	time.Sleep(time.Minute)
}

// leader waits until a server leads, in virtual time.
func (c *cluster) leader() int {
	c.t.Helper()
	for range 10_000 {
		for i, x := range c.list {
			if x.stop != nil && x.Leads() {
				return i
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	c.t.Fatal("nobody leads for 100 s")
	return -1
}

// any returns a server that runs.
func (c *cluster) any() *member {
	for {
		if x := c.list[c.rand.IntN(len(c.list))]; x.stop != nil {
			return x
		}
	}
}

// The ways in which a term ends.
const (
	handed  = iota // the leader is told to hand over
	cutOff         // the others do not hear it for some seconds
	stopped        // it is stopped, and started again
	ways
)

// depose ends the term of the leader, and calls meanwhile while it is away.
// Another leads when it returns.
func (c *cluster) depose(how int, meanwhile func()) {
	c.t.Helper()
	i := c.leader()
	x := c.list[i]
	term := x.Store().Snapshot().Term
	switch how {
	case handed:
		err := x.Transfer(c.t.Context())
		for n := 0; err != nil && n < 10 && x.Leads(); n++ { // the others may have to catch up
			time.Sleep(time.Second)
			err = x.Transfer(c.t.Context())
		}
		meanwhile()
	case cutOff:
		others := slices.DeleteFunc(slices.Clone(c.servers), func(a string) bool { return a == x.addr })
		c.raft.Split([]string{x.addr}, others)
		time.Sleep(time.Duration(1+c.rand.IntN(4)) * time.Second)
		meanwhile()
		c.raft.Heal()
	case stopped:
		c.halt(i)
		meanwhile()
		c.start(i)
	}
	for end := time.Now().Add(time.Minute); c.list[c.leader()].Store().Snapshot().Term <= term; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			c.t.Fatalf("term %d lasts though its leader was deposed (%d)", term, how)
		}
	}
}

// agree waits until all servers say that the one leads that does.
func (c *cluster) agree() {
	c.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		leads := fmt.Sprintf("%q", c.list[c.leader()].addr)
		if !slices.ContainsFunc(c.list, func(x *member) bool {
			_, said := c.do(x, http.MethodGet, "/v1/status/leader", "")
			return strings.TrimSpace(said) != leads
		}) {
			return
		}
		if time.Now().After(end) {
			c.t.Fatal("the servers do not agree on who leads")
		}
	}
}

// ask asks a server as people do.
func ask(x *member, method, path, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.RemoteAddr = "10.2.0.1:1"
	w := httptest.NewRecorder()
	x.Handler().ServeHTTP(w, r)
	return w
}

// do is ask without headers.
func (c *cluster) do(x *member, method, path, body string) (int, string) {
	w := ask(x, method, path, body)
	return w.Code, w.Body.String()
}

// must asks any server for what it must be able to do.
func (c *cluster) must(method, path, body string) string {
	c.t.Helper()
	code, text := c.do(c.any(), method, path, body)
	if code != http.StatusOK {
		c.t.Fatalf("%s %s: %d %s", method, path, code, text)
	}
	return text
}

package server_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth"
	"berth/consensus/consensustest"
	"berth/gossip"
	"berth/invariant"
	"berth/op"
	"berth/server"
	"berth/state"
	"berth/wire"
)

// wires is a network in memory for what is not Raft.
type wires struct {
	mu        sync.Mutex
	listeners map[string]*inMemory
}

type inMemory struct {
	addr   memAddr
	in     chan net.Conn
	closed chan struct{}
	once   sync.Once
}

type memAddr string

func (memAddr) Network() string  { return "memory" }
func (a memAddr) String() string { return string(a) }

func (l *inMemory) Accept() (net.Conn, error) {
	select {
	case c := <-l.in:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *inMemory) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *inMemory) Addr() net.Addr { return l.addr }

func (w *wires) listen(addr string) *inMemory {
	l := &inMemory{addr: memAddr(addr), in: make(chan net.Conn), closed: make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.listeners == nil {
		w.listeners = map[string]*inMemory{}
	}
	w.listeners[addr] = l
	return l
}

type memConn struct {
	net.Conn
	far memAddr
}

func (c memConn) RemoteAddr() net.Addr { return c.far }

func (w *wires) dial(ctx context.Context, addr string) (net.Conn, error) {
	w.mu.Lock()
	l := w.listeners[addr]
	w.mu.Unlock()
	if l == nil {
		return nil, errors.New("connection refused")
	}
	near, far := net.Pipe()
	select {
	case l.in <- memConn{far, "10.1.0.1:1"}:
		return memConn{near, l.addr}, nil
	case <-l.closed:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// bubble is real servers with real Raft in virtual time.
type bubble struct {
	t     *testing.T
	wires wires
	raft  *consensustest.Network
	pool  *pool
	list  []*inBubble
	rand  *rand.Rand
}

type inBubble struct {
	*server.Server
	addr  string
	dir   string
	stop  context.CancelFunc // nil while it is stopped
	ended chan error
}

func newBubble(t *testing.T, n int, seed uint64) *bubble {
	b := &bubble{t: t, raft: consensustest.NewNetwork(), pool: &pool{}, rand: rand.New(rand.NewPCG(seed, 1))}
	for i := range n {
		b.list = append(b.list, &inBubble{addr: fmt.Sprintf("10.0.0.%d:4647", i+1), dir: t.TempDir()})
	}
	for i := range n {
		b.start(i)
	}
	return b
}

func (b *bubble) start(i int) {
	x := b.list[i]
	id, err := server.Identity(x.dir)
	if err != nil {
		b.t.Fatal(err)
	}
	v := &view{b.pool, make(chan struct{}, 1), i}
	x.Server, err = server.New(server.Config{
		Region: "global", Datacenter: "dc1", DataDir: x.dir, RPC: b.wires.listen(x.addr), Advertise: x.addr, Workers: 1, FollowerWorkers: 2,
		Logger: slog.New(slog.DiscardHandler),
		Self:   func() op.AgentSelf { return op.AgentSelf{} }, Health: func() op.AgentHealth { return op.AgentHealth{} },
		Cluster: &server.Cluster{Members: v, Expect: len(b.list), Transport: b.raft.Transport(x.addr), Connect: b.wires.dial},
	})
	if err != nil {
		b.t.Fatal(err)
	}
	m := gossip.Member{Name: fmt.Sprintf("s%d.global", i), ID: id, Region: "global", Datacenter: "dc1", RPC: x.addr, Status: gossip.Alive, Expect: len(b.list), Voter: true}
	b.pool.mu.Lock()
	if i < len(b.pool.members) {
		b.pool.members[i], b.pool.all[i] = m, v
	} else {
		b.pool.members, b.pool.all = append(b.pool.members, m), append(b.pool.all, v)
	}
	b.pool.wake()
	b.pool.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	x.stop, x.ended = cancel, make(chan error, 1)
	go func(s *server.Server, ended chan error) { ended <- s.Run(ctx) }(x.Server, x.ended)
}

func (b *bubble) halt(i int) {
	x := b.list[i]
	x.stop()
	if err := <-x.ended; !errors.Is(err, context.Canceled) {
		b.t.Error(err)
	}
	x.stop = nil
}

// leader waits for one, in virtual time.
func (b *bubble) leader() int {
	for range 10_000 {
		for i, x := range b.list {
			if x.stop != nil && x.Leads() {
				return i
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	b.t.Fatal("nobody leads for 100 s")
	return -1
}

// any returns a server that runs.
func (b *bubble) any() *inBubble {
	for {
		if x := b.list[b.rand.IntN(len(b.list))]; x.stop != nil {
			return x
		}
	}
}

func (b *bubble) do(x *inBubble, method, path, body string) (int, string) {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.RemoteAddr = "10.2.0.1:1"
	w := httptest.NewRecorder()
	x.Handler().ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// fake is a node's agent that runs whatever it is given.
type fake struct {
	*berth.Node
	addrs  []string
	dialer wire.Dialer
	at     int
}

func (f *fake) run(ctx context.Context) {
	for ctx.Err() == nil {
		f.at++
		f.with(ctx, f.addrs[f.at%len(f.addrs)])
		rest := time.NewTimer(100 * time.Millisecond)
		select {
		case <-rest.C:
		case <-ctx.Done():
		}
	}
}

// with works with one server until that fails.
func (f *fake) with(ctx context.Context, addr string) {
	s, err := f.dialer.Dial(ctx, addr)
	if err != nil {
		return
	}
	defer s.Close()
	var out op.NodeAnswer
	if s.Call(ctx, "Node.Register", &op.RegisterNode{Node: f.Node}, &out) != nil {
		return
	}
	var index uint64
	for ctx.Err() == nil {
		if s.Call(ctx, "Node.UpdateStatus", &op.BeatNode{NodeID: f.ID, SecretID: f.SecretID, Status: berth.NodeReady}, &out) != nil {
			return
		}
		pull := op.NodeAllocIndexes{NodeID: f.ID, SecretID: f.SecretID}
		pull.MinQueryIndex, pull.MaxQueryTime, pull.AllowStale = index, 2*time.Second, true
		var got op.NodeAllocIndexesAnswer
		if s.Call(ctx, "Node.GetClientAllocs", &pull, &got) != nil {
			return
		}
		if index = got.Index; len(got.Allocs) == 0 {
			continue
		}
		fetch := op.GetAllocs{SecretID: f.SecretID}
		fetch.MinQueryIndex, fetch.AllowStale, fetch.MaxQueryTime = got.Index, true, time.Second
		for id := range got.Allocs {
			fetch.AllocIDs = append(fetch.AllocIDs, id)
		}
		var rows op.GetAllocsAnswer
		if s.Call(ctx, "Alloc.GetAllocs", &fetch, &rows) != nil {
			return
		}
		report := &op.ReportAllocs{Write: op.Write{AuthToken: f.SecretID}}
		for _, a := range rows.Allocs {
			status := berth.ClientRunning
			if a.DesiredStatus != berth.DesiredRun {
				status = berth.ClientComplete
			}
			if a.ClientStatus != status {
				report.Alloc = append(report.Alloc, &op.AllocReport{ID: a.ID, NodeID: f.ID, ClientStatus: status})
			}
		}
		if len(report.Alloc) > 0 && s.Call(ctx, "Node.UpdateAlloc", report, &op.WriteAnswer{}) != nil {
			return
		}
	}
}

// The leader changes again and again, by being told to, cut off or stopped,
// while jobs are registered at any server and agents run them: nothing that
// was acknowledged is lost, nothing runs that should not, all servers come to
// the same state, and no goroutine of a term is left.
func TestLeaderChangesInVirtualTime(t *testing.T) {
	changes := 25
	if os.Getenv("BERTH_LONG") != "" {
		changes = 2000
	}
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, 3, 1)
		ctx, cancel := context.WithCancel(t.Context())
		var agents sync.WaitGroup
		for n := range 4 {
			f := &fake{at: n, dialer: wire.Dialer{Connect: b.wires.dial}, Node: &berth.Node{
				SecretID: fmt.Sprint("secret", n), Name: fmt.Sprint("n", n), Datacenter: "dc1", Status: berth.NodeInit,
				Attributes: map[string]string{"kernel.name": "linux"},
				NodeResources: &berth.NodeResources{
					Cpu: berth.NodeCpuResources{CpuShares: 40000}, Memory: berth.NodeMemoryResources{MemoryMB: 40000}, Disk: berth.NodeDiskResources{DiskMB: 1000000},
				},
				Drivers: map[string]*berth.DriverInfo{"raw_exec": {Detected: true, Healthy: true}},
			}}
			f.ID[0], f.ID[15] = byte(n+1), 1
			for _, x := range b.list {
				f.addrs = append(f.addrs, x.addr)
			}
			agents.Go(func() { f.run(ctx) })
		}
		b.leader()
		wanted, seen := map[string]int{}, map[string]*state.Snapshot{}
		refused := 0
		write := func(k int) {
			job, count := fmt.Sprintf("job-%d", k%8), 1+b.rand.IntN(5)
			x := b.any()
			code, text := b.do(x, http.MethodPut, "/v1/jobs", fmt.Sprintf(
				`{"Job":{"ID":%q,"Datacenters":["dc1"],"Update":{"MaxParallel":0},"TaskGroups":[{"Name":"g","Count":%d,"Tasks":[{"Name":"t","Driver":"raw_exec","Config":{"command":"x"},"Resources":{"CPU":10,"MemoryMB":10}}]}]}}`, job, count))
			if code != http.StatusOK {
				if !strings.Contains(text, "No cluster leader") {
					t.Errorf("a write was refused by %d: %s", code, text)
				}
				refused++
				delete(wanted, job) // it is not known what became of it
				return
			}
			wanted[job] = count
			y := b.any()
			if code, text := b.do(y, http.MethodGet, "/v1/job/"+job, ""); code == http.StatusOK && !strings.Contains(text, fmt.Sprintf(`"Count":%d`, count)) {
				t.Errorf("acknowledged at %s with count %d, %s says %.200s", x.addr, count, y.addr, text)
			}
		}
		for k := range changes {
			write(k)
			lead := b.leader()
			for _, x := range b.list {
				if x.stop == nil {
					continue
				}
				now := x.Store().Snapshot()
				if old := seen[x.addr]; old != nil && old.Index <= now.Index {
					for _, v := range invariant.Between(old, now) {
						t.Error(v)
					}
				}
				seen[x.addr] = now
			}
			switch b.rand.IntN(3) {
			case 0:
				if err := b.list[lead].Transfer(ctx); err != nil {
					t.Log("transfer: ", err)
				}
			case 1:
				var others []string
				for i, x := range b.list {
					if i != lead {
						others = append(others, x.addr)
					}
				}
				b.raft.Split([]string{b.list[lead].addr}, others)
				time.Sleep(time.Duration(1+b.rand.IntN(4)) * time.Second)
				write(k + 3)
				b.raft.Heal()
			case 2:
				b.halt(lead)
				write(k + 5)
				delete(seen, b.list[lead].addr)
				b.start(lead)
			}
			time.Sleep(time.Duration(b.rand.IntN(3000)) * time.Millisecond)
		}
		b.settle(wanted)
		t.Logf("%d changes of leader, %d writes refused", changes, refused)
		cancel()
		agents.Wait()
		for i := range b.list {
			b.halt(i)
		}
		time.Sleep(time.Minute) // what was still to be closed is
	})
}

// settle waits until nothing is left to do, and checks what is there then.
func (b *bubble) settle(wanted map[string]int) {
	b.t.Helper()
	b.leader()
	time.Sleep(5 * time.Minute)
	first := b.list[0].Store().Snapshot()
	for _, x := range b.list {
		s := x.Store().Snapshot()
		if s.Index != first.Index || s.Hash() != first.Hash() {
			b.t.Errorf("%s is at index %d with hash %x, %s at %d with %x", x.addr, s.Index, s.Hash(), b.list[0].addr, first.Index, first.Hash())
		}
	}
	for _, v := range invariant.Check(first) {
		b.t.Error(v)
	}
	for e := range first.OpenEvals(berth.EvalPending) {
		b.t.Errorf("evaluation %s of %s is still pending", e.ID, e.Key())
	}
	for job, count := range wanted {
		live := 0
		for a := range first.AllocsOf(berth.JobKey{Namespace: berth.DefaultNamespace, ID: berth.JobID(job)}) {
			if a.Live() && a.Client == berth.ClientRunning {
				live++
			}
		}
		if live != count {
			b.t.Errorf("%s runs %d times, want %d", job, live, count)
		}
	}
}

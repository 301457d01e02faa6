package server_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"berth"
	"berth/internal/api"
	"berth/internal/consensus"
	"berth/internal/gossip"
	"berth/internal/server"
	"berth/internal/state/codec"
	"berth/internal/wire"
	"berth/op"

	nomad "github.com/hashicorp/nomad/api"
)

// pool is what gossip would tell, without gossip.
type pool struct {
	mu      sync.Mutex
	members []gossip.Member
	all     []*view
}

// view is the pool as one server has it.
type view struct {
	pool    *pool
	changed chan struct{}
	self    int
	cluster string // as it was told; the pool guards it
}

func (v *view) Members() []gossip.Member {
	v.pool.mu.Lock()
	defer v.pool.mu.Unlock()
	return append([]gossip.Member(nil), v.pool.members...)
}

func (v *view) Changed() <-chan struct{} { return v.changed }

func (v *view) Leave(context.Context) error { v.pool.set(v.self, gossip.Left); return nil }

func (v *view) SetCluster(id string) error {
	v.pool.mu.Lock()
	defer v.pool.mu.Unlock()
	v.cluster = id
	return nil
}

func (p *pool) set(i int, s gossip.Status) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.members[i].Status = s
	p.wake()
}

func (p *pool) wake() {
	for _, v := range p.all {
		select {
		case v.changed <- struct{}{}:
		default:
		}
	}
}

// several are servers of one cluster, over loopback.
type several struct {
	workers int // of a server that leads, 0: one; below that none
	t       testing.TB
	pool    *pool
	list    []*running
	dirs    []string
	knows   map[int]int // log versions of the servers that have an older one
	told    io.Writer   // of what is logged, if it is not nil
	change  func(*server.Config)
}

// quick hears of commits at once, and waits for a leader as long as a busy
// machine needs.
var quick = consensus.Timing{Heartbeat: time.Second, Election: time.Second, Lease: 900 * time.Millisecond, Commit: 5 * time.Millisecond}

func startSeveral(t testing.TB, n int) *several {
	t.Helper()
	c := &several{t: t, pool: &pool{}}
	c.start(n)
	return c
}

// start starts n servers and waits until one leads.
func (c *several) start(n int) {
	c.t.Helper()
	for i := range n {
		c.dirs = append(c.dirs, c.t.TempDir())
		c.add(i, n, "127.0.0.1:0")
	}
	c.leader()
}

// add runs the server with that number, which may have run before.
func (c *several) add(i, expect int, listen string) *running {
	c.t.Helper()
	rpc, err := net.Listen("tcp", listen)
	if err != nil {
		c.t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	if testing.Verbose() {
		log = slog.New(slog.NewTextHandler(writer{c.t}, nil)).With("server", i)
	}
	if c.told != nil {
		log = slog.New(slog.NewTextHandler(c.told, nil))
	}
	v := &view{pool: c.pool, changed: make(chan struct{}, 1), self: i}
	conf := server.Config{
		Region: "global", Datacenter: "dc1", DataDir: c.dirs[i], RPC: rpc, Logger: log, Workers: cmp.Or(c.workers, 1), FollowerWorkers: 1,
		Self:    func() op.AgentSelf { return op.AgentSelf{Member: op.AgentMember{Name: fmt.Sprint("s", i)}} },
		Health:  func() op.AgentHealth { return op.AgentHealth{Server: &op.Health{Ok: true, Message: "ok"}} },
		Cluster: &server.Cluster{Members: v, Expect: expect, Timing: quick},
	}
	if c.change != nil {
		c.change(&conf)
	}
	s, err := server.New(conf)
	if err != nil {
		c.t.Fatal(err)
	}
	m := gossip.Member{
		Name: fmt.Sprintf("s%d.global", i), ID: s.ID(), Region: "global", Datacenter: "dc1", RPC: rpc.Addr().String(), Status: gossip.Alive, Expect: expect, Voter: true, LogVersion: codec.LogVersion,
	}
	if d := c.knows[i]; d != 0 {
		m.LogVersion, m.Build = d, fmt.Sprintf("0.%d.0", d)
	}
	c.pool.mu.Lock()
	if i < len(c.pool.members) {
		c.pool.members[i], c.pool.all[i] = m, v
	} else {
		c.pool.members, c.pool.all = append(c.pool.members, m), append(c.pool.all, v)
	}
	c.pool.wake()
	c.pool.mu.Unlock()
	r := c.run(s, rpc, log)
	if i < len(c.list) {
		c.list[i] = r
	} else {
		c.list = append(c.list, r)
	}
	return r
}

type writer struct{ t testing.TB }

func (w writer) Write(b []byte) (int, error) {
	fmt.Print(string(b))
	return len(b), nil
}

// run serves until the test ends, or stop is called.
func (c *several) run(s *server.Server, rpc net.Listener, log *slog.Logger) *running {
	web, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- s.Run(ctx) }()
	go func() { ended <- api.Serve(ctx, web, s.Handler(), api.Limits{}, log) }()
	r := &running{t: c.t, server: s, http: "http://" + web.Addr().String(), rpc: rpc.Addr().String()}
	r.stop = sync.OnceFunc(func() {
		cancel()
		for range 2 {
			if err := <-ended; !errors.Is(err, context.Canceled) {
				c.t.Error(err)
			}
		}
	})
	c.t.Cleanup(r.stop)
	r.api, err = nomad.NewClient(&nomad.Config{Address: r.http})
	if err != nil {
		c.t.Fatal(err)
	}
	return r
}

// leader waits until one of the servers leads and returns its number.
func (c *several) leader() (at int) {
	c.t.Helper()
	(&running{t: c.t}).until("a server leads", func() bool {
		for i, r := range c.list {
			if r != nil && r.server.Leads() {
				at = i
				return true
			}
		}
		return false
	})
	return at
}

// stop ends a server; gossip takes it for failed.
func (c *several) stop(i int) {
	c.list[i].stop()
	c.list[i] = nil
	c.pool.set(i, gossip.Failed)
}

// follower returns the number of a server that does not lead.
func (c *several) follower() int {
	lead := c.leader()
	for i, r := range c.list {
		if r != nil && i != lead {
			return i
		}
	}
	c.t.Fatal("there is no follower")
	return -1
}

func napper(name string, count int) *nomad.Job {
	job := nomad.NewServiceJob(name, name, "global", 50)
	task := nomad.NewTask("app", "raw_exec").SetConfig("command", "/bin/sleep").SetConfig("args", []string{"60"})
	task.Resources = &nomad.Resources{CPU: new(20), MemoryMB: new(10)}
	return job.AddTaskGroup(nomad.NewTaskGroup("g", count).AddTask(task))
}

// Every server takes writes, and a default read on any server sees what any
// server acknowledged before.
func TestAnyServerTakesAnyRequest(t *testing.T) {
	c := startSeveral(t, 3)
	n := c.list[c.follower()].node(1)
	for round := range 5 {
		for i, r := range c.list {
			name := fmt.Sprintf("job-%d-%d", round, i)
			reg, meta, err := r.api.Jobs().Register(napper(name, 1), nil)
			if err != nil {
				t.Fatalf("server %d: %v", i, err)
			}
			if meta.LastIndex == 0 && reg.JobModifyIndex == 0 {
				t.Errorf("server %d: the registration has no index", i)
			}
			for k, other := range c.list {
				job, meta, err := other.api.Jobs().Info(name, nil)
				if err != nil {
					t.Fatalf("registered at server %d, server %d says: %v", i, k, err)
				}
				if *job.JobModifyIndex < reg.JobModifyIndex || !meta.KnownLeader || meta.LastContact != 0 {
					t.Errorf("server %d answers with index %d, want %d, and %+v", k, *job.JobModifyIndex, reg.JobModifyIndex, meta)
				}
				e, _, err := other.api.Evaluations().Info(reg.EvalID, nil)
				if err != nil || e.JobID != name {
					t.Errorf("server %d does not know the evaluation: %v", k, err)
				}
			}
		}
	}
	first := c.list[0]
	first.until("all is placed", func() bool {
		list, _, err := first.api.Nodes().Allocations(n.ID.String(), nil)
		return err == nil && len(list) == 15
	})
	leader := c.list[c.leader()]
	for _, r := range c.list {
		if at, err := r.api.Status().Leader(); err != nil || at != leader.rpc {
			t.Errorf("leader %q, %v; want %s", at, err, leader.rpc)
		}
		peers, err := r.api.Status().Peers()
		if err != nil || len(peers) != 3 {
			t.Errorf("peers %v, %v", peers, err)
		}
	}
	// Without a leader a write waits a while and fails; a stale read does not.
	c.stop(c.leader())
	c.stop(c.leaderless())
	for _, r := range c.list {
		if r == nil {
			continue
		}
		_, meta, err := r.api.Jobs().Info("job-0-0", &nomad.QueryOptions{AllowStale: true})
		if err != nil {
			t.Fatal(err)
		}
		r.until("the last server knows that it is alone", func() bool {
			_, meta, err = r.api.Jobs().Info("job-0-0", &nomad.QueryOptions{AllowStale: true})
			return err == nil && !meta.KnownLeader
		})
		if meta.LastContact <= 0 {
			t.Errorf("a stale answer of a server without a leader says %+v", meta)
		}
		began := time.Now()
		if _, _, err := r.api.Jobs().Register(napper("late", 1), nil); err == nil || !strings.Contains(err.Error(), "No cluster leader") || time.Since(began) < 4*time.Second {
			t.Errorf("a write without a leader: %v after %v", err, time.Since(began))
		}
	}
}

// leaderless returns the number of a server that still runs.
func (c *several) leaderless() int {
	for i, r := range c.list {
		if r != nil {
			return i
		}
	}
	return -1
}

// The leader goes, and what it acknowledged is there; agents go on elsewhere.
func TestLeaderGoes(t *testing.T) {
	c := startSeveral(t, 3)
	c.list[c.follower()].node(1)
	for round := range 3 {
		lead := c.leader()
		name := fmt.Sprint("job-", round)
		if _, _, err := c.list[c.follower()].api.Jobs().Register(napper(name, 2), nil); err != nil {
			t.Fatal(err)
		}
		rpc := c.list[lead].rpc
		c.stop(lead)
		next := c.list[c.leader()]
		if _, _, err := next.api.Jobs().Info(name, nil); err != nil {
			t.Fatalf("after the leader went: %v", err)
		}
		if _, _, err := c.list[c.follower()].api.Jobs().Register(napper(name, 3), nil); err != nil {
			t.Fatal(err)
		}
		next.until("the update is placed", func() bool {
			list, _, err := next.api.Jobs().Allocations(name, false, nil)
			live := 0
			for _, a := range list {
				if a.DesiredStatus == "run" {
					live++
				}
			}
			return err == nil && live == 3
		})
		back := c.add(lead, 3, rpc)
		back.until("the server that was away has caught up", func() bool {
			return back.server.Store().Snapshot().Index >= next.server.Store().Snapshot().Index
		})
	}
}

// An agent's call at a follower counts as much as at the leader, and what
// people ask of its tasks finds it from any server.
func TestRelays(t *testing.T) {
	c := startSeveral(t, 3)
	at := c.follower()
	handlers := wire.New(wire.Config{})
	asked := make(chan string, 8)
	handlers.Handle(op.AgentRestartTask.RPC, func(_ context.Context, call *wire.Call) (any, error) {
		var in op.RestartAlloc
		err := call.Decode(&in)
		asked <- in.AllocID
		return &op.Nothing{}, err
	})
	handlers.HandleStream(op.AgentLogs.RPC, func(_ context.Context, _ *wire.Call, st *wire.Stream) error {
		return st.Send([]byte(`{"Data":"aGVsbG8=","File":"f"}`))
	})
	n := c.list[at].nodeWith(1, handlers)
	if _, _, err := c.list[at].api.Jobs().Register(napper("web", 1), nil); err != nil {
		t.Fatal(err)
	}
	var id string
	c.list[at].until("the job is placed", func() bool {
		list, _, err := c.list[at].api.Jobs().Allocations("web", false, nil)
		if err == nil && len(list) == 1 {
			id = list[0].ID
		}
		return id != ""
	})
	alloc, _, err := c.list[at].api.Allocations().Info(id, nil)
	if err != nil {
		t.Fatal(err)
	}
	n.report(alloc, berth.ClientRunning)
	for i, r := range c.list {
		if err := r.api.Allocations().Restart(alloc, "app", nil); err != nil {
			t.Errorf("restart by server %d: %v", i, err)
			continue
		}
		if got := <-asked; got != id {
			t.Errorf("the agent was asked to restart %s", got)
		}
		resp, err := http.Get(r.http + "/v1/client/fs/logs/" + id + "?task=app&type=stdout&plain=true")
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if string(text) != "hello" {
			t.Errorf("logs by server %d: %q", i, text)
		}
	}
}

// report says how an allocation fares.
func (x *node) report(a *nomad.Allocation, status berth.ClientStatus) {
	x.t.Helper()
	id, err := berth.ParseID[berth.Alloc](a.ID)
	if err != nil {
		x.t.Fatal(err)
	}
	x.call("Node.UpdateAlloc", &op.ReportAllocs{
		Write: op.Write{AuthToken: x.SecretID},
		Alloc: []*op.AllocReport{{ID: id, NodeID: x.ID, ClientStatus: status, TaskStates: map[string]*berth.TaskState{"app": {State: "running"}}}},
	}, &op.WriteAnswer{})
}

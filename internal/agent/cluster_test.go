package agent

import (
	"context"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"berth"
	"berth/internal/eventually"
	"berth/internal/wire"
	"berth/op"
)

// server is a server that answers heartbeats, or refuses them.
type server struct {
	addr  string
	calls atomic.Int64
	fail  atomic.Pointer[error]
	stop  func()
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := new(server)
	w := wire.New(wire.Config{Log: quiet})
	w.Handle(op.NodeBeat.RPC, func(context.Context, *wire.Call) (any, error) {
		s.calls.Add(1)
		if err := s.fail.Load(); err != nil {
			return nil, *err
		}
		return &op.NodeAnswer{HeartbeatTTL: time.Second, Servers: []op.ServerAddr{{RPCAdvertiseAddr: s.addr}}}, nil
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.addr = l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Serve(ctx, l) }()
	ended := false
	s.stop = func() {
		if !ended {
			ended = true
			cancel()
			<-done
		}
	}
	t.Cleanup(s.stop)
	return s
}

func TestAnotherServerIsAskedWhenOneFails(t *testing.T) {
	one, two := newServer(t), newServer(t)
	c := NewCluster([]string{one.addr, two.addr}, "", nil, quiet)
	defer c.Close()
	c.addrs = []string{one.addr, two.addr}
	beat := func() error {
		_, err := op.Call(t.Context(), c, op.NodeBeat, &op.BeatNode{})
		return err
	}
	if err := beat(); err != nil || one.calls.Load() != 1 {
		t.Fatalf("%v, %d calls", err, one.calls.Load())
	}
	noLeader := berth.Errorf(berth.NoLeader, "No cluster leader")
	one.fail.Store(&noLeader)
	if err := beat(); err != nil || two.calls.Load() != 1 {
		t.Fatalf("without a leader: %v, %d calls of the other", err, two.calls.Load())
	}
	two.stop()
	one.fail.Store(nil)
	if err := beat(); err != nil {
		t.Fatalf("the other has gone: %v", err)
	}
	denied := berth.Errorf(berth.Denied, "Permission denied")
	one.fail.Store(&denied)
	before := one.calls.Load()
	if err := beat(); berth.KindOf(err) != berth.Denied || one.calls.Load() != before+1 {
		t.Errorf("an answer is an answer: %v", err)
	}
	one.stop()
	if err := beat(); berth.KindOf(err) != berth.Unavailable {
		t.Errorf("nobody is there: %v", err)
	}
}

func TestServersThatAreNamedAreLearnt(t *testing.T) {
	c := NewCluster([]string{"seed:1"}, "", nil, quiet)
	c.learn([]op.ServerAddr{{RPCAdvertiseAddr: "a:1"}, {RPCAdvertiseAddr: "b:1"}, {RPCAdvertiseAddr: ""}, {RPCAdvertiseAddr: "a:1"}})
	if got := slices.Sorted(slices.Values(c.addrs)); !slices.Equal(got, []string{"a:1", "b:1", "seed:1"}) {
		t.Error(got)
	}
	c.learn([]op.ServerAddr{{RPCAdvertiseAddr: "b:1"}})
	c.learn(nil)
	if got := slices.Sorted(slices.Values(c.addrs)); !slices.Equal(got, []string{"b:1", "seed:1"}) {
		t.Error(got)
	}
	c.Close()
	if _, err := op.Call(t.Context(), c, op.NodePull, &op.NodeAllocIndexes{}); berth.KindOf(err) != berth.Unavailable {
		t.Error(err)
	}
}

// An agent goes to a random server now and then, so that all have agents again after
// they were restarted one by one. A call in progress is not cut off.
func TestAgentsSpreadAmongServers(t *testing.T) {
	one, two := newServer(t), newServer(t)
	c := NewCluster([]string{one.addr}, "", nil, quiet)
	defer c.Close()
	c.pick = func(n int) int { return n - 1 }
	beat := func() {
		t.Helper()
		if _, err := op.Call(t.Context(), c, op.NodeBeat, &op.BeatNode{}); err != nil {
			t.Fatal(err)
		}
	}
	beat()
	first, due := c.session, c.due
	if stay := time.Until(due); stay > stayMost*3/2 || stay < stayMost/2 {
		t.Errorf("the agent stays for %v", stay)
	}
	servers := []op.ServerAddr{{RPCAdvertiseAddr: one.addr}, {RPCAdvertiseAddr: two.addr}}
	c.learn(servers)
	c.spread(due.Add(-time.Second), 3)
	if c.due != due {
		t.Error("the agent does not wait until it may go")
	}
	two.stop() // it stays if the other cannot be reached
	c.move(first, two.addr)
	if beat(); c.session != first {
		t.Error("the agent has left a server that answers")
	}
	three := newServer(t)
	// Seeds are no more servers than those that name themselves.
	c.learn([]op.ServerAddr{{RPCAdvertiseAddr: "10.0.0.1:4647"}, {RPCAdvertiseAddr: three.addr}})
	c.pick = func(n int) int {
		if n == 3 {
			t.Error("a seed counts as a server beside those that servers named")
		}
		return n - 1
	}
	c.spread(c.due, 3)
	eventually.True(t, "the agent is with the other server", func() bool {
		beat()
		return three.calls.Load() > 0
	})
	c.mu.Lock()
	retired := c.retired[first]
	c.mu.Unlock()
	if !retired {
		t.Error("the first session was cut off")
	}
	// In a large cluster agents go more rarely: no more than so many in a second.
	if stay := c.stay(100_000); stay < 100_000*time.Second/movesMost/2 {
		t.Errorf("of 100,000 agents, one stays for %v", stay)
	}
}

package server_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"berth/internal/claim"
	"berth/internal/gossip"
	"berth/internal/server"
	"berth/internal/state/codec"
	"berth/op"
)

// gossiping is a server that meets others by gossip.
type gossiping struct {
	*server.Server
	pool *gossip.Pool
	stop func()
}

// startGossiping starts a server on a folder, which is a cluster of its own if
// it expects nobody but itself.
func startGossiping(t testing.TB, name, dir string, expect int, told io.Writer) *gossiping {
	t.Helper()
	rpc, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(told, nil))
	folder, err := server.Hold(dir, claim.Wait{})
	if err != nil {
		t.Fatal(err)
	}
	x := &gossiping{}
	x.pool, err = gossip.New(gossip.Config{
		Name: name, Region: "global", Datacenter: "dc1", ID: folder.ID, Cluster: folder.Cluster, RPC: rpc.Addr().String(), Expect: expect, Voter: true,
		Build: "2.0.5", LogVersion: codec.LogVersion, Bind: "127.0.0.1", Timing: gossip.Fast, Logger: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	x.Server, err = server.New(server.Config{
		Region: "global", Datacenter: "dc1", DataDir: dir, Folder: folder, RPC: rpc, Logger: log, Workers: 1, FollowerWorkers: 1,
		Self: func() op.AgentSelf { return op.AgentSelf{} }, Health: func() op.AgentHealth { return op.AgentHealth{} },
		Cluster: &server.Cluster{Members: x.pool, Expect: expect, Timing: quick},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	var g sync.WaitGroup
	g.Go(func() { x.Run(ctx) })
	g.Go(func() { x.pool.Run(ctx) })
	x.stop = sync.OnceFunc(func() { end(); g.Wait() })
	t.Cleanup(x.stop)
	return x
}

// join has a server join another, and returns why that failed.
func (x *gossiping) join(other *gossiping) error {
	_, err := x.pool.Join(context.Background(), []string{other.address()})
	return err
}

func (x *gossiping) address() string {
	m := x.pool.Self()
	return net.JoinHostPort(m.Addr, strconv.Itoa(int(m.Port)))
}

// shared keeps what servers log at once.
type shared struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *shared) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *shared) count(what string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Count(s.text.String(), what)
}

// Two clusters of a region are told of one another by mistake (F-44). Both
// refuse, with one line in the log, and neither takes the other's servers into
// its Raft configuration; also when one was just started again and has not led
// yet. A server that is of none is taken in by the one that it meets, and is of
// that one from then on.
func TestTwoClustersDoNotMix(t *testing.T) {
	var told shared
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	a, b := startGossiping(t, "a", dirs[0], 1, &told), startGossiping(t, "b", dirs[1], 1, io.Discard)
	wait := &running{t: t}
	of := func(x *gossiping) string { return x.pool.Self().Tags["cluster"] }
	wait.until("both say of which cluster they are", func() bool { return of(a) != "" && of(b) != "" })
	if of(a) == of(b) || of(a) != a.Store().Snapshot().Cluster.String() {
		t.Fatalf("the clusters are %s and %s; the first server's state says %s", of(a), of(b), a.Store().Snapshot().Cluster)
	}
	for range 3 {
		if err := a.join(b); err == nil || !strings.Contains(err.Error(), "belongs to another cluster of region global") {
			t.Errorf("a joined b: %v", err)
		}
		if err := b.join(a); err == nil {
			t.Error("b joined a")
		}
	}
	if n := told.count("a server was rejected"); n != 1 {
		t.Errorf("it is told %d times", n)
	}
	was := of(b)
	b.stop()
	b = startGossiping(t, "b", dirs[1], 1, io.Discard)
	if of(b) != was {
		t.Errorf("started again it is of cluster %q, not %q", of(b), was)
	}
	if err := b.join(a); err == nil {
		t.Error("b joined a when it was started again")
	}
	c := startGossiping(t, "c", dirs[2], 0, io.Discard)
	if err := c.join(a); err != nil {
		t.Fatal(err)
	}
	if err := c.join(b); err == nil {
		t.Error("c joined both")
	}
	wait.until("c is of the cluster of a", func() bool { return of(c) == of(a) })
	for x, want := range map[*gossiping]int{a: 2, b: 1} {
		if peers, err := x.Addresses(); err != nil || len(peers) != want {
			t.Errorf("%s agrees with %v: %v", x.pool.Self().Name, peers, err)
		}
	}
}

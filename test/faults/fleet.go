package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"berth"
	"berth/internal/agent"
	"berth/internal/rest"
	"berth/op"
)

// fleet is a set of nodes simulated in this process. They register, send
// heartbeats, pull and report as agents do, with an agent's client, and run
// nothing.
type fleet struct {
	nodes []*simulated
	end   context.CancelFunc
	wait  sync.WaitGroup
}

// simulated is one node.
type simulated struct {
	*berth.Node
	servers *agent.Cluster
	anew    chan struct{} // holds a token when the node is to register again

	registered atomic.Int64 // when it did so last, ns since 1970
	has        map[string]uint64
}

// newFleet returns count simulated nodes that will register with servers. Their
// IDs follow from their names, so that they are the same in each run.
func newFleet(count int, servers []string) *fleet {
	f := &fleet{}
	for i := range count {
		n := &simulated{
			servers: agent.NewCluster(servers, berth.DefaultRegion, nil, slog.New(slog.DiscardHandler)),
			anew:    make(chan struct{}, 1), has: map[string]uint64{},
			Node: &berth.Node{
				SecretID: fmt.Sprintf("secret-%d", i), Name: fmt.Sprintf("sim-%d", i), Datacenter: "dc1", Status: berth.NodeInit,
				HTTPAddr: runnerAddr + ":1", NodePool: berth.DefaultNodePool, NodeClass: "sim",
				Attributes: map[string]string{
					"kernel.name": "linux", "cpu.arch": "amd64", "unique.hostname": fmt.Sprintf("sim-%d", i), "nomad.version": "2.0.5",
				},
				NodeResources: &berth.NodeResources{
					Cpu: berth.NodeCpuResources{CpuShares: 20000}, Memory: berth.NodeMemoryResources{MemoryMB: 64000},
					Disk: berth.NodeDiskResources{DiskMB: 1 << 20}, Networks: []berth.NetworkResource{{Device: "eth0", IP: runnerAddr}},
				},
				Drivers: map[string]*berth.DriverInfo{"raw_exec": {Detected: true, Healthy: true}},
			},
		}
		sum := sha256.Sum256([]byte(n.Name))
		copy(n.ID[:], sum[:])
		f.nodes = append(f.nodes, n)
	}
	return f
}

// start runs all nodes until stop.
func (f *fleet) start() {
	ctx, end := context.WithCancel(context.Background())
	f.end = end
	for _, n := range f.nodes {
		f.wait.Go(func() { n.run(ctx) })
	}
}

// stop ends all nodes and waits for them. Without start it does nothing.
func (f *fleet) stop() {
	if f.end != nil {
		f.end()
		f.wait.Wait()
	}
}

// registerAnew makes every node register again, spread over a period.
func (f *fleet) registerAnew(within time.Duration) {
	for _, n := range f.nodes {
		time.AfterFunc(rand.N(within), func() {
			select {
			case n.anew <- struct{}{}:
			default:
			}
		})
	}
}

// unregistered returns how many nodes have not registered since a time.
func (f *fleet) unregistered(since time.Time) (n int) {
	for _, s := range f.nodes {
		if s.registered.Load() < since.UnixNano() {
			n++
		}
	}
	return n
}

// run registers the node, however often that takes, then sends heartbeats and
// pulls allocations until ctx ends.
func (n *simulated) run(ctx context.Context) {
	for n.register(ctx) != nil {
		if rest.For(ctx, 200*time.Millisecond+rand.N(time.Second)) != nil {
			return
		}
	}
	var wait sync.WaitGroup
	wait.Go(func() { n.beat(ctx) })
	wait.Go(func() { n.pull(ctx) })
	wait.Wait()
}

// register registers the node and reports it ready.
func (n *simulated) register(ctx context.Context) error {
	if _, err := op.Call(ctx, n.servers, op.NodeRegister, &op.RegisterNode{Node: n.Node}); err != nil {
		return err
	}
	_, err := op.Call(ctx, n.servers, op.NodeBeat, &op.BeatNode{NodeID: n.ID, SecretID: n.SecretID, Status: berth.NodeReady})
	if err == nil {
		n.registered.Store(time.Now().UnixNano())
	}
	return err
}

// beat sends heartbeats at half the TTL, with jitter, and registers again when
// the servers ask for it.
func (n *simulated) beat(ctx context.Context) {
	wait := time.Second
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-n.anew:
			if err = n.register(ctx); err != nil {
				n.anew <- struct{}{}
			}
		case <-time.After(wait):
			var out *op.NodeAnswer
			if out, err = op.Call(ctx, n.servers, op.NodeBeat, &op.BeatNode{NodeID: n.ID, SecretID: n.SecretID, Status: berth.NodeReady}); err == nil {
				wait = out.HeartbeatTTL/2 + rand.N(out.HeartbeatTTL/8+1)
			}
		}
		if err != nil {
			wait = 100*time.Millisecond + rand.N(400*time.Millisecond)
		}
	}
}

// pull waits for allocations of the node and reports on each. The index is kept
// only after the report, so that a failed one is repeated.
func (n *simulated) pull(ctx context.Context) {
	var index uint64
	for ctx.Err() == nil {
		out, err := op.Call(ctx, n.servers, op.NodePull, &op.NodeAllocIndexes{
			NodeID: n.ID, SecretID: n.SecretID, Query: op.Query{MinQueryIndex: index, MaxQueryTime: op.MaxWait, AllowStale: true},
		})
		if err == nil && out.Index >= index {
			err = n.report(ctx, out)
		}
		if err != nil {
			_ = rest.For(ctx, 200*time.Millisecond+rand.N(500*time.Millisecond))
			continue
		}
		index = max(index, out.Index)
	}
}

// report fetches new allocations and reports them as running, or as complete if
// they must stop.
func (n *simulated) report(ctx context.Context, out *op.NodeAllocIndexesAnswer) error {
	var ids []string
	for id, at := range out.Allocs {
		if n.has[id] < at {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	// Only the indexes were sent; the allocations themselves are fetched.
	got, err := op.Call(ctx, n.servers, op.AllocFetch, &op.GetAllocs{AllocIDs: ids, Query: op.Query{MinQueryIndex: out.Index, AuthToken: n.SecretID, AllowStale: true}})
	if err != nil {
		return err
	}
	in, now := &op.ReportAllocs{Write: op.Write{AuthToken: n.SecretID}}, time.Now()
	for _, a := range got.Allocs {
		r := &op.AllocReport{ID: a.ID, NodeID: n.ID, ClientStatus: berth.ClientRunning, TaskStates: map[string]*berth.TaskState{
			"main": {State: berth.TaskRunning, StartedAt: now, Events: []berth.TaskEvent{
				berth.NewTaskEvent(berth.EventReceived, now.Add(-time.Millisecond)), berth.NewTaskEvent(berth.EventStarted, now),
			}},
		}}
		if a.DesiredStatus != berth.DesiredRun {
			r.ClientStatus = berth.ClientComplete
			r.TaskStates["main"].State, r.TaskStates["main"].FinishedAt = berth.TaskDead, now
		}
		in.Alloc = append(in.Alloc, r)
	}
	if _, err := op.Call(ctx, n.servers, op.AllocReporter, in); err != nil {
		return err
	}
	// Noted only now, so that a report that fails is made again.
	for _, id := range ids {
		n.has[id] = out.Allocs[id]
	}
	return nil
}

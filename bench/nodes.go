package main

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"berth"
	"berth/internal/api"
	"berth/internal/wire"
	"berth/op"

	"golang.org/x/sync/errgroup"
)

// simulate is the process of the nodes. Each one registers, sends heartbeats,
// pulls allocations, and reports at once that they run.
func simulate(args []string) error {
	flags := flag.NewFlagSet("nodes", flag.ExitOnError)
	server := flags.String("server", "", "RPC address")
	count := flags.Int("count", 1, "how many nodes")
	flags.Parse(args)
	ctl, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	// Standard input is closed when the parent ends.
	go func() { io.Copy(io.Discard, os.Stdin); stop() }()
	c := &counter{changed: make(chan struct{})}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return api.Serve(ctx, ctl, c, api.Limits{}, slog.New(slog.DiscardHandler)) })
	var ready sync.WaitGroup
	// Registering thousands of nodes at once would measure that instead.
	dialing := make(chan struct{}, 32)
	for i := range *count {
		ready.Add(1)
		g.Go(func() error { return newNode(i, c).run(ctx, *server, dialing, ready.Done) })
	}
	ready.Wait()
	// The parent waits for this line.
	fmt.Println(ctl.Addr())
	if err := g.Wait(); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// counter counts allocations reported running, and lets its parent wait.
type counter struct {
	mu      sync.Mutex
	running int
	changed chan struct{}
}

// add adds n to the running allocations and wakes everyone who waits for a
// change.
func (c *counter) add(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running += n
	close(c.changed)
	c.changed = make(chan struct{})
}

// ServeHTTP answers /wait?running=n once n allocations run.
func (c *counter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n, _ := strconv.Atoi(r.URL.Query().Get("running"))
	for {
		c.mu.Lock()
		now, changed := c.running, c.changed
		c.mu.Unlock()
		if now >= n {
			fmt.Fprintln(w, now)
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

// node is one agent.
type node struct {
	*berth.Node
	counter *counter
	session *wire.Session
	has     map[string]uint64 // by allocation: the index that was reported
}

// newNode returns simulated node i. Its ID follows from i.
func newNode(i int, c *counter) *node {
	n := &node{counter: c, has: map[string]uint64{}, Node: &berth.Node{
		SecretID: fmt.Sprintf("secret-%d", i), Name: fmt.Sprintf("sim-%d", i), Datacenter: "dc1", Status: berth.NodeInit,
		HTTPAddr: "127.0.0.1:0", NodePool: berth.DefaultNodePool,
		Attributes: map[string]string{
			"kernel.name": "linux", "cpu.arch": "amd64", "unique.hostname": fmt.Sprintf("sim-%d", i), "nomad.version": "2.0.5",
		},
		Meta: map[string]string{"rack": fmt.Sprintf("r%d", i%50)},
		NodeResources: &berth.NodeResources{
			Cpu: berth.NodeCpuResources{CpuShares: 20000}, Memory: berth.NodeMemoryResources{MemoryMB: 64000},
			Disk: berth.NodeDiskResources{DiskMB: 1 << 20}, Networks: []berth.NetworkResource{{Device: "lo", IP: "127.0.0.1"}},
		},
		Drivers: map[string]*berth.DriverInfo{"mock_driver": {Detected: true, Healthy: true}, "raw_exec": {Detected: true, Healthy: true}},
	}}
	binary.BigEndian.PutUint64(n.ID[:], uint64(i+1)*0x9e3779b97f4a7c15)
	n.ID[15] = 1
	return n
}

// run registers the node, calls ready, then sends heartbeats and pulls
// allocations until ctx ends. dialing limits how many nodes register at a time.
func (n *node) run(ctx context.Context, server string, dialing chan struct{}, ready func()) error {
	dialing <- struct{}{}
	err := n.join(ctx, server)
	<-dialing
	ready()
	if err != nil {
		return err
	}
	defer n.session.Close()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return n.beat(ctx) })
	g.Go(func() error { return n.pull(ctx) })
	return g.Wait()
}

// join connects to the server, registers the node and reports it ready.
func (n *node) join(ctx context.Context, server string) (err error) {
	if n.session, err = wire.Dial(ctx, server, nil); err != nil {
		return err
	}
	var out op.NodeAnswer
	if err := n.session.Call(ctx, "Node.Register", &op.RegisterNode{Node: n.Node}, &out); err != nil {
		return err
	}
	return n.session.Call(ctx, "Node.UpdateStatus", &op.BeatNode{NodeID: n.ID, SecretID: n.SecretID, Status: berth.NodeReady}, &out)
}

// beat sends heartbeats at half the TTL.
func (n *node) beat(ctx context.Context) error {
	ttl := 5 * time.Second
	for {
		select {
		case <-time.After(ttl / 2):
		case <-ctx.Done():
			return ctx.Err()
		}
		var out op.NodeAnswer
		if err := n.session.Call(ctx, "Node.UpdateStatus", &op.BeatNode{NodeID: n.ID, SecretID: n.SecretID, Status: berth.NodeReady}, &out); err != nil {
			return err
		}
		ttl = out.HeartbeatTTL
	}
}

// fetched holds what a node needs to know about an allocation that it does not
// really run. The job is skipped.
type fetched struct {
	Allocs []*struct {
		ID               berth.AllocID
		AllocModifyIndex uint64
		DesiredStatus    berth.DesiredStatus
		ClientStatus     berth.ClientStatus
	}
	op.Meta
}

// pull waits for changed allocations and reports each as running.
func (n *node) pull(ctx context.Context) error {
	var index uint64
	for {
		in := &op.NodeAllocIndexes{NodeID: n.ID, SecretID: n.SecretID, Query: op.Query{MinQueryIndex: index, MaxQueryTime: op.MaxWait, AllowStale: true}}
		var out op.NodeAllocIndexesAnswer
		if err := n.session.Call(ctx, "Node.GetClientAllocs", in, &out); err != nil {
			return err
		}
		index = out.Index
		var ids []string
		for id, at := range out.Allocs {
			if n.has[id] < at {
				ids = append(ids, id)
				n.has[id] = at
			}
		}
		if len(ids) == 0 {
			continue
		}
		if err := n.report(ctx, ids, index); err != nil {
			return err
		}
	}
}

// report fetches allocations and reports them as running, or as complete if
// they must stop.
func (n *node) report(ctx context.Context, ids []string, index uint64) error {
	var got fetched
	in := &op.GetAllocs{AllocIDs: ids, Query: op.Query{MinQueryIndex: index, AuthToken: n.SecretID, AllowStale: true}}
	if err := n.session.Call(ctx, "Alloc.GetAllocs", in, &got); err != nil {
		return err
	}
	report := &op.ReportAllocs{Write: op.Write{AuthToken: n.SecretID}}
	started := 0
	now := time.Now()
	for _, a := range got.Allocs {
		r := &op.AllocReport{ID: a.ID, NodeID: n.ID, ClientStatus: berth.ClientRunning, TaskStates: map[string]*berth.TaskState{
			"app": {State: berth.TaskRunning, StartedAt: now, Events: []berth.TaskEvent{
				berth.NewTaskEvent(berth.EventReceived, now.Add(-time.Millisecond)), berth.NewTaskEvent(berth.EventStarted, now),
			}},
		}}
		if a.DesiredStatus != berth.DesiredRun {
			r.ClientStatus = berth.ClientComplete
			r.TaskStates["app"].State, r.TaskStates["app"].FinishedAt = berth.TaskDead, now
		} else {
			started++
		}
		report.Alloc = append(report.Alloc, r)
	}
	if err := n.session.Call(ctx, "Node.UpdateAlloc", report, &op.WriteAnswer{}); err != nil {
		return err
	}
	n.counter.add(started)
	return nil
}

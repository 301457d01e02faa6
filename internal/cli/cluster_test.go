package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"berth"
	"berth/client"
	"berth/internal/agent/logs"
	"berth/internal/api"
	"berth/internal/eventually"
	"berth/internal/saferoot"
	"berth/internal/server"
	"berth/internal/wire"
	"berth/op"
)

// cluster is a real server with its HTTP API, and agents that speak the protocol
// but run nothing.
type cluster struct {
	dir    string
	server *server.Server
	http   string
	rpc    string
	client *client.Client
	stop   func() error

	mu    sync.Mutex
	self  berth.NodeID
	nodes map[string]*simNode
}

// startCluster runs a server on a folder until it is stopped.
func startCluster(dir string) (*cluster, error) {
	log := slog.New(slog.DiscardHandler)
	rpc, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &cluster{dir: dir, rpc: rpc.Addr().String(), nodes: map[string]*simNode{}}
	c.server, err = server.New(server.Config{
		Region: "global", Datacenter: "dc1", DataDir: dir, RPC: rpc, Logger: log, Self: c.agentSelf,
		Health: func() op.AgentHealth { return op.AgentHealth{Server: &op.Health{Ok: true, Message: "ok"}} },
	})
	if err != nil {
		rpc.Close()
		return nil, err
	}
	web, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c.http = "http://" + web.Addr().String()
	if c.client, err = client.New(client.Config{Address: c.http}); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- c.server.Run(ctx) }()
	go func() { ended <- api.Serve(ctx, web, c.server.Handler(), api.Limits{}, log) }()
	c.stop = func() error {
		for _, n := range c.nodes {
			n.stop()
		}
		c.client.Close()
		cancel()
		var wrong error
		for range 2 {
			if err := <-ended; !errors.Is(err, context.Canceled) {
				wrong = errors.Join(wrong, err)
			}
		}
		return wrong
	}
	// A server alone answers reads before it takes writes.
	err = poll(func() (bool, error) {
		_, _, err := client.Call(ctx, c.client, op.ListNodes, op.NodesQuery{})
		return err == nil && c.server.Leads(), nil
	})
	if err != nil {
		return nil, errors.Join(err, c.stop())
	}
	return c, nil
}

func (c *cluster) agentSelf() op.AgentSelf {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := op.AgentSelf{Member: op.AgentMember{Name: "s1", Tags: map[string]string{"build": NomadVersion, "berth": Version}}, Stats: map[string]map[string]string{"nomad": {"server": "true"}}}
	if !c.self.IsZero() {
		s.Stats["client"] = map[string]string{"node_id": c.self.String()}
	}
	return s
}

// poll calls ok until it returns true.
func poll(ok func() (bool, error)) error {
	for deadline := time.Now().Add(eventually.Limit); ; time.Sleep(2 * time.Millisecond) {
		if yes, err := ok(); yes || err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return errors.New("timed out")
		}
	}
}

// simNode is a node whose agent reports what a test wants.
type simNode struct {
	*berth.Node
	session *wire.Session
	dir     string // of task output, as agents keep it
	stop    func()

	mu     sync.Mutex
	ended  map[string]bool                      // allocations whose tasks write no more
	checks map[string]map[string]op.CheckStatus // by allocation and ID
}

// options of a node: name=value.
type options map[string]string

func (o options) int(name string, otherwise int64) int64 {
	var n int64
	if _, err := fmt.Sscan(o[name], &n); err != nil {
		return otherwise
	}
	return n
}

// addNode registers a node, the nth of the cluster. Unless it is idle, it reports
// each allocation as running, and as complete when it should stop.
func (c *cluster) addNode(name string, nth int, o options) (*simNode, error) {
	n := &simNode{dir: filepath.Join(c.dir, "node-"+name), ended: map[string]bool{}, checks: map[string]map[string]op.CheckStatus{}, Node: &berth.Node{
		SecretID: "secret-" + name, Name: name, Datacenter: or(o["dc"], "dc1"), NodePool: o["pool"], NodeClass: o["class"], Status: berth.NodeInit,
		HTTPAddr: "127.0.0.1:4646", Attributes: map[string]string{"kernel.name": "linux", "os.name": "debian", "nomad.version": "2.0.5"},
		NodeResources: &berth.NodeResources{
			Cpu:    berth.NodeCpuResources{CpuShares: o.int("cpu", 4000)},
			Memory: berth.NodeMemoryResources{MemoryMB: o.int("memory", 4096)},
			Disk:   berth.NodeDiskResources{DiskMB: o.int("disk", 100*1024)},
			NodeNetworks: []berth.NodeNetwork{{Mode: "host", Device: "lo", Addresses: []berth.NodeNetworkAddress{
				{Family: "ipv4", Alias: "default", Address: "127.0.0.1"},
			}}},
		},
		Drivers: map[string]*berth.DriverInfo{
			"raw_exec":    {Detected: true, Healthy: true, HealthDescription: "Healthy"},
			"mock_driver": {Detected: false, Healthy: false, HealthDescription: "disabled"},
		},
	}}
	n.ID = berth.NodeID{0xab, 0xcd, 0xef, byte(nth), 15: byte(nth)}
	handlers := wire.New(wire.Config{})
	handlers.HandleStream(op.AgentLogs.RPC, n.logs)
	handlers.Handle(op.AgentRestartTask.RPC, n.restart)
	handlers.Handle(op.AgentChecks.RPC, n.checked)
	ctx, cancel := context.WithCancel(context.Background())
	var err error
	if n.session, err = wire.Dial(ctx, c.rpc, handlers); err != nil {
		cancel()
		return nil, err
	}
	var running sync.WaitGroup
	n.stop = func() { cancel(); n.session.Close(); running.Wait() }
	var out op.NodeAnswer
	// As agents do, it tries again while a new leader takes over.
	try := func(method string, in, out any) {
		if err != nil {
			return
		}
		err = poll(func() (bool, error) {
			err := n.session.Call(ctx, method, in, out)
			switch berth.KindOf(err) { // of an error that came over the wire, nothing else is known
			case berth.NoLeader, berth.Unavailable:
				return false, nil
			}
			return err == nil, err
		})
	}
	try("Node.Register", &op.RegisterNode{Node: n.Node}, &out)
	try("Node.UpdateStatus", &op.BeatNode{NodeID: n.ID, SecretID: n.SecretID, Status: berth.NodeReady}, &out)
	// The call that proves who is at the other end.
	try("Node.GetClientAllocs", &op.NodeAllocIndexes{NodeID: n.ID, SecretID: n.SecretID}, &op.NodeAllocIndexesAnswer{})
	if err != nil {
		n.stop()
		return nil, err
	}
	running.Go(func() { n.beat(ctx) })
	if o["idle"] == "" {
		running.Go(func() { n.work(ctx) })
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes[name], c.self = n, n.ID
	return n, nil
}

// beat lets servers know that the node is there.
func (n *simNode) beat(ctx context.Context) {
	for tick := time.NewTicker(3 * time.Second); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return
		case <-tick.C:
		}
		in := &op.BeatNode{NodeID: n.ID, SecretID: n.SecretID, Status: berth.NodeReady}
		if n.session.Call(ctx, "Node.UpdateStatus", in, &op.NodeAnswer{}) != nil {
			return
		}
	}
}

// work behaves like an agent whose tasks never fail.
func (n *simNode) work(ctx context.Context) {
	var index uint64
	known := map[string]uint64{}
	for ctx.Err() == nil {
		var pulled op.NodeAllocIndexesAnswer
		err := n.session.Call(ctx, "Node.GetClientAllocs", &op.NodeAllocIndexes{
			NodeID: n.ID, SecretID: n.SecretID, Query: op.Query{MinQueryIndex: index, MaxQueryTime: time.Minute},
		}, &pulled)
		if err != nil {
			return
		}
		index = pulled.Index
		var fresh []string
		for id, at := range pulled.Allocs {
			if known[id] < at {
				known[id] = at
				fresh = append(fresh, id)
			}
		}
		if len(fresh) == 0 {
			continue
		}
		list, err := n.fetch(ctx, fresh, index)
		if err != nil {
			return
		}
		var reports []*op.AllocReport
		for _, a := range list {
			switch {
			case a.DesiredStatus == berth.DesiredRun && (a.ClientStatus == berth.ClientPending || !a.DeploymentID.IsZero() && a.DeploymentStatus == nil):
				reports = append(reports, n.says(a, berth.ClientRunning, ""))
			case a.DesiredStatus != berth.DesiredRun && !a.ClientStatus.Ended():
				reports = append(reports, n.says(a, berth.ClientComplete, ""))
			}
		}
		if n.report(ctx, reports) != nil {
			return
		}
	}
}

func (n *simNode) fetch(ctx context.Context, ids []string, index uint64) ([]*op.Alloc, error) {
	slices.Sort(ids)
	var out op.GetAllocsAnswer
	err := n.session.Call(ctx, "Alloc.GetAllocs", &op.GetAllocs{AllocIDs: ids, Query: op.Query{AuthToken: n.SecretID, MinQueryIndex: index}}, &out)
	return out.Allocs, err
}

// says is the report that all tasks of an allocation have a status.
func (n *simNode) says(a *op.Alloc, status berth.ClientStatus, why string) *op.AllocReport {
	began := time.Unix(0, a.CreateTime).UTC()
	r := &op.AllocReport{
		ID: a.ID, NodeID: n.ID, ClientStatus: status, TaskStates: map[string]*berth.TaskState{},
		ClientDescription: map[berth.ClientStatus]string{berth.ClientRunning: "Tasks are running", berth.ClientFailed: "Failed tasks", berth.ClientComplete: "All tasks have completed"}[status],
	}
	g := a.Job.Group(a.TaskGroup)
	if status == berth.ClientRunning && !a.DeploymentID.IsZero() && g.Update.HealthCheck != berth.HealthManual {
		r.DeploymentStatus = &berth.AllocDeploymentStatus{Healthy: new(true), Timestamp: began}
	}
	for _, t := range g.Tasks {
		st := &berth.TaskState{State: berth.TaskRunning, StartedAt: began, Events: []berth.TaskEvent{
			berth.NewTaskEvent(berth.EventReceived, began), berth.NewTaskEvent(berth.EventTaskSetup, began), berth.NewTaskEvent(berth.EventStarted, began),
		}}
		if status.Ended() {
			st.State, st.FinishedAt, st.Failed = berth.TaskDead, began, status == berth.ClientFailed
			e := berth.NewTaskEvent(berth.EventTerminated, began)
			e.DisplayMessage, e.Details = "Exit Code: 0", map[string]string{"exit_code": "0"}
			if st.Failed {
				e.DisplayMessage, e.Details = or(why, "Exit Code: 1"), map[string]string{"exit_code": "1"}
			}
			st.Events = append(st.Events, e)
		}
		r.TaskStates[t.Name] = st
	}
	if status.Ended() {
		n.mu.Lock()
		n.ended[a.ID.String()] = true
		n.mu.Unlock()
	}
	return r
}

func (n *simNode) report(ctx context.Context, list []*op.AllocReport) error {
	if len(list) == 0 {
		return nil
	}
	return n.session.Call(ctx, "Node.UpdateAlloc", &op.ReportAllocs{Alloc: list, Write: op.Write{AuthToken: n.SecretID}}, &op.WriteAnswer{})
}

// restart reports the running tasks of an allocation as restarted.
func (n *simNode) restart(ctx context.Context, call *wire.Call) (any, error) {
	var in op.RestartAlloc
	if err := call.Decode(&in); err != nil {
		return nil, err
	}
	list, err := n.fetch(ctx, []string{in.AllocID}, 0)
	if err != nil {
		return nil, err
	}
	r := n.says(list[0], berth.ClientRunning, "")
	for name, s := range r.TaskStates {
		if in.TaskName == "" || in.TaskName == name {
			s.StartedAt, s.Restarts = list[0].TaskStates[name].StartedAt.Add(time.Second), 1
		}
	}
	return &op.Nothing{}, n.report(ctx, []*op.AllocReport{r})
}

// logs answers as an agent does, from files of the same names.
func (n *simNode) logs(ctx context.Context, call *wire.Call, st *wire.Stream) error {
	var q op.LogsQuery
	if err := call.Decode(&q); err != nil {
		return err
	}
	path := filepath.Join(n.dir, q.AllocID)
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	dir, err := saferoot.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	ended := func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.ended[q.AllocID]
	}
	return logs.Stream(ctx, dir, logs.Request{Task: q.Task, Stream: q.Type, Origin: q.Origin, Offset: q.Offset, File: q.File, Follow: q.Follow, Ended: ended},
		func(f *op.StreamFrame) error {
			b, err := json.Marshal(f)
			if err != nil {
				return err
			}
			return st.Send(b)
		})
}

// alloc returns the newest allocation of that name; those of a child have that
// of its parent, too.
func (c *cluster) alloc(name string) *berth.Alloc {
	var out *berth.Alloc
	for a := range c.server.Store().Snapshot().Allocs() {
		family := string(a.Job.ParentID) + strings.TrimPrefix(a.Name(), string(a.Job.ID))
		if (a.Name() == name || family == name) && (out == nil || a.CreateIndex >= out.CreateIndex) {
			out = a
		}
	}
	return out
}

// node returns the simulated agent of a node.
func (c *cluster) node(id berth.NodeID) *simNode {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.nodes {
		if n.ID == id {
			return n
		}
	}
	return nil
}

// fare makes the agent of an allocation report a status.
func (c *cluster) fare(name, status, why string) error {
	a := c.alloc(name)
	if a == nil {
		return fmt.Errorf("there is no allocation %s", name)
	}
	var s berth.ClientStatus
	if err := s.UnmarshalText([]byte(status)); err != nil {
		return err
	}
	n := c.node(a.NodeID)
	list, err := n.fetch(context.Background(), []string{a.ID.String()}, a.ModifyIndex)
	if err != nil {
		return err
	}
	return n.report(context.Background(), []*op.AllocReport{n.says(list[0], s, why)})
}

// wrote adds to a log file of an allocation's task.
func (c *cluster) wrote(name, task, stream string, index int, text string) error {
	a := c.alloc(name)
	if a == nil {
		return fmt.Errorf("there is no allocation %s", name)
	}
	dir := filepath.Join(c.node(a.NodeID).dir, a.ID.String())
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, logs.FileName(task, stream, index)), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

package server_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"berth"
	"berth/internal/api"
	"berth/internal/eventually"
	"berth/internal/invariant"
	"berth/internal/server"
	"berth/internal/wire"
	"berth/op"

	nomad "github.com/hashicorp/nomad/api"
)

// running is a server with an HTTP door, and clients of both kinds.
type running struct {
	t      testing.TB
	server *server.Server
	http   string
	rpc    string
	api    *nomad.Client
	stop   func()
}

// start runs a server on a folder until the test ends, or stop is called.
func start(t testing.TB, dir string) *running {
	t.Helper()
	return startWith(t, dir, func(*server.Config) {})
}

// startWith does what start does, with a configuration of one's own.
func startWith(t testing.TB, dir string, change func(*server.Config)) *running {
	t.Helper()
	rpc, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	config := server.Config{
		Region: "global", Datacenter: "dc1", DataDir: dir, RPC: rpc, Logger: log,
		Self:   func() op.AgentSelf { return op.AgentSelf{Member: op.AgentMember{Name: "s1"}} },
		Health: func() op.AgentHealth { return op.AgentHealth{Server: &op.Health{Ok: true, Message: "ok"}} },
	}
	change(&config)
	s, err := server.New(config)
	if err != nil {
		t.Fatal(err)
	}
	web, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- s.Run(ctx) }()
	go func() { ended <- api.Serve(ctx, web, s.Handler(), api.Limits{}, log) }()
	stopped := false
	r := &running{t: t, server: s, http: "http://" + web.Addr().String(), rpc: rpc.Addr().String()}
	r.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		for range 2 {
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
	}
	t.Cleanup(r.stop)
	r.api, err = nomad.NewClient(&nomad.Config{Address: r.http})
	if err != nil {
		t.Fatal(err)
	}
	r.until("the server leads", func() bool { leader, err := r.api.Status().Leader(); return err == nil && leader != "" })
	return r
}

// until waits for a condition.
func (r *running) until(what string, ok func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(eventually.Limit); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatalf("waited in vain until %s", what)
		}
	}
}

// node is an agent in the protocol, which runs nothing.
type node struct {
	t       testing.TB
	session *wire.Session
	*berth.Node
}

func (r *running) node(n int) *node {
	r.t.Helper()
	return r.nodeWith(n, nil)
}

// nodeWith makes a node whose agent can be called.
func (r *running) nodeWith(n int, handlers *wire.Server) *node {
	r.t.Helper()
	s, err := wire.Dial(r.t.Context(), r.rpc, handlers)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { s.Close() })
	x := &node{r.t, s, &berth.Node{
		SecretID: fmt.Sprint("secret", n), Name: fmt.Sprint("n", n), Datacenter: "dc1", Status: berth.NodeInit,
		Attributes: map[string]string{"kernel.name": "linux"},
		NodeResources: &berth.NodeResources{
			Cpu: berth.NodeCpuResources{CpuShares: 4000}, Memory: berth.NodeMemoryResources{MemoryMB: 4000}, Disk: berth.NodeDiskResources{DiskMB: 100000},
		},
		Drivers: map[string]*berth.DriverInfo{"raw_exec": {Detected: true, Healthy: true}},
	}}
	x.ID[0], x.ID[15] = byte(n), 1
	var out op.NodeAnswer
	x.call("Node.Register", &op.RegisterNode{Node: x.Node}, &out)
	if out.HeartbeatTTL <= 0 || out.NumNodes == 0 {
		r.t.Errorf("the answer to a registration is %+v", out)
	}
	x.call("Node.UpdateStatus", &op.BeatNode{NodeID: x.ID, SecretID: x.SecretID, Status: berth.NodeReady}, &out)
	return x
}

func (x *node) call(method string, in, out any) {
	x.t.Helper()
	if err := x.session.Call(x.t.Context(), method, in, out); err != nil {
		x.t.Fatal(method, ": ", err)
	}
}

// A job registered by Nomad's Go client is placed, pulled by a node, reported,
// and shown.
func TestJobThroughTheDoors(t *testing.T) {
	dir := t.TempDir()
	r := start(t, dir)
	n := r.node(1)
	job := nomad.NewServiceJob("web", "web", "global", 50)
	task := nomad.NewTask("app", "raw_exec").SetConfig("command", "/bin/sleep").SetConfig("args", []string{"60"})
	group := nomad.NewTaskGroup("g", 2).AddTask(task)
	group.Networks = []*nomad.NetworkResource{{DynamicPorts: []nomad.Port{{Label: "http"}}}}
	job.AddTaskGroup(group)
	reg, _, err := r.api.Jobs().Register(job, nil)
	if err != nil {
		t.Fatal(err)
	}
	var eval *nomad.Evaluation
	r.until("the evaluation is complete", func() bool {
		eval, _, err = r.api.Evaluations().Info(reg.EvalID, nil)
		return err == nil && eval.Status == "complete"
	})
	var pulled op.NodeAllocIndexesAnswer
	n.call("Node.GetClientAllocs", &op.NodeAllocIndexes{NodeID: n.ID, SecretID: n.SecretID}, &pulled)
	if len(pulled.Allocs) != 2 {
		t.Fatalf("the node pulls %v", pulled.Allocs)
	}
	var ids []string
	for id := range pulled.Allocs {
		ids = append(ids, id)
	}
	var fetched op.GetAllocsAnswer
	n.call("Alloc.GetAllocs", &op.GetAllocs{AllocIDs: ids, Query: op.Query{AuthToken: n.SecretID, MinQueryIndex: pulled.Index}}, &fetched)
	report := &op.ReportAllocs{Write: op.Write{AuthToken: n.SecretID}}
	for _, a := range fetched.Allocs {
		if a.Job.ID != "web" || len(a.AllocatedResources.Shared.Ports) != 1 || a.AllocatedResources.Shared.Ports[0].Value < 20000 {
			t.Errorf("the node fetched %+v", a)
		}
		report.Alloc = append(report.Alloc, &op.AllocReport{ID: a.ID, NodeID: n.ID, ClientStatus: berth.ClientRunning})
	}
	n.call("Node.UpdateAlloc", report, &op.WriteAnswer{})
	allocs, _, err := r.api.Jobs().Allocations("web", false, nil)
	if err != nil || len(allocs) != 2 || allocs[0].ClientStatus != "running" {
		t.Errorf("the job's allocations are %+v, %v", allocs, err)
	}
	info, meta, err := r.api.Jobs().Info("web", nil)
	if err != nil || *info.Status != "running" || meta.LastIndex == 0 {
		t.Errorf("the job is %+v, %v", info, err)
	}
	before := r.server.Store().Snapshot()
	if v := invariant.Check(before); len(v) > 0 {
		t.Error(v)
	}

	// Another node's secret opens nothing.
	err = n.session.Call(t.Context(), "Node.GetClientAllocs", &op.NodeAllocIndexes{NodeID: n.ID, SecretID: "guess"}, &pulled)
	if err == nil || !strings.Contains(err.Error(), "Permission denied") {
		t.Errorf("a wrong secret: %v", err)
	}

	r.stop()
	again := start(t, dir)
	if got := again.server.Store().Snapshot(); got.Count(1) != 1 || len(ids) != 2 {
		t.Errorf("after a restart: %d nodes", got.Count(1))
	}
	allocs, _, err = again.api.Jobs().Allocations("web", false, nil)
	if err != nil || len(allocs) != 2 || allocs[0].ClientStatus != "running" {
		t.Errorf("after a restart the job's allocations are %+v, %v", allocs, err)
	}
}

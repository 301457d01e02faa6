//go:build faults

package terms

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"berth"
	"berth/internal/wire"
	"berth/op"
)

// agent is a node's agent that runs whatever it is given, with whatever server
// it reaches.
type agent struct {
	*berth.Node
	servers []string
	dialer  wire.Dialer
	at      int
	mute    atomic.Bool // it beats and says nothing of allocations
	away    atomic.Bool // it reaches nobody
	orders  sync.Map    // by allocation: the desired status that it was told last
	// says is what it reports of an allocation, of which it would report the
	// status; false is nothing yet. nil is that status.
	says func(name string, id berth.AllocID, status berth.ClientStatus) (berth.ClientStatus, bool)
}

// agent returns the n-th agent, from 1.
func (c *cluster) agent(n int) *agent {
	a := &agent{at: n, servers: c.servers, dialer: wire.Dialer{Connect: c.wires.dial}, Node: &berth.Node{
		SecretID: fmt.Sprint("secret", n), Name: fmt.Sprint("n", n), Datacenter: "dc1", Status: berth.NodeInit,
		Attributes: map[string]string{"kernel.name": "linux"},
		NodeResources: &berth.NodeResources{
			Cpu: berth.NodeCpuResources{CpuShares: 40000}, Memory: berth.NodeMemoryResources{MemoryMB: 40000}, Disk: berth.NodeDiskResources{DiskMB: 1000000},
		},
		Drivers: map[string]*berth.DriverInfo{"raw_exec": {Detected: true, Healthy: true}},
	}}
	a.ID[0], a.ID[15] = byte(n), 1
	return a
}

func (a *agent) run(ctx context.Context) {
	for ctx.Err() == nil {
		a.at++
		if !a.away.Load() {
			a.with(ctx, a.servers[a.at%len(a.servers)])
		}
		rest := time.NewTimer(100 * time.Millisecond)
		select {
		case <-rest.C:
		case <-ctx.Done():
		}
	}
}

// with works with one server until that fails.
func (a *agent) with(ctx context.Context, addr string) {
	s, err := a.dialer.Dial(ctx, addr)
	if err != nil {
		return
	}
	defer s.Close()
	var out op.NodeAnswer
	if s.Call(ctx, op.NodeRegister.RPC, &op.RegisterNode{Node: a.Node}, &out) != nil {
		return
	}
	var index uint64
	known := map[string]uint64{}
	for ctx.Err() == nil && !a.away.Load() {
		if s.Call(ctx, op.NodeBeat.RPC, &op.BeatNode{NodeID: a.ID, SecretID: a.SecretID, Status: berth.NodeReady}, &out) != nil {
			return
		}
		pull := op.NodeAllocIndexes{NodeID: a.ID, SecretID: a.SecretID}
		pull.MinQueryIndex, pull.MaxQueryTime, pull.AllowStale = index, 2*time.Second, true
		var got op.NodeAllocIndexesAnswer
		if s.Call(ctx, op.NodePull.RPC, &pull, &got) != nil {
			return
		}
		if index = got.Index; len(got.Allocs) > 0 && !a.mute.Load() && a.report(ctx, s, &got, known) != nil {
			return
		}
	}
}

// report says of allocations that they are as they are wanted: of those that
// changed since they were known, or of all if it may say so later.
func (a *agent) report(ctx context.Context, s *wire.Session, got *op.NodeAllocIndexesAnswer, known map[string]uint64) error {
	fetch := op.GetAllocs{SecretID: a.SecretID}
	fetch.MinQueryIndex, fetch.AllowStale, fetch.MaxQueryTime = got.Index, true, time.Second
	for id, index := range got.Allocs {
		if a.says != nil || known[id] != index {
			known[id] = index
			fetch.AllocIDs = append(fetch.AllocIDs, id)
		}
	}
	if len(fetch.AllocIDs) == 0 {
		return nil
	}
	var rows op.GetAllocsAnswer
	if err := s.Call(ctx, op.AllocFetch.RPC, &fetch, &rows); err != nil {
		return err
	}
	report := &op.ReportAllocs{Write: op.Write{AuthToken: a.SecretID}}
	for _, row := range rows.Allocs {
		a.orders.Store(row.ID, row.DesiredStatus)
		status := berth.ClientRunning
		if row.DesiredStatus != berth.DesiredRun {
			status = berth.ClientComplete
		}
		if a.says != nil {
			var now bool
			if status, now = a.says(row.Name, row.ID, status); !now {
				continue
			}
		}
		if row.ClientStatus != status {
			report.Alloc = append(report.Alloc, &op.AllocReport{ID: row.ID, NodeID: a.ID, ClientStatus: status})
		}
	}
	if len(report.Alloc) == 0 {
		return nil
	}
	return s.Call(ctx, op.AllocReporter.RPC, report, &op.WriteAnswer{})
}

// told returns the desired status of an allocation that the agent was told last.
func (a *agent) told(id berth.AllocID) any {
	status, _ := a.orders.Load(id)
	return status
}

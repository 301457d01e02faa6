package agent

import (
	"context"
	"time"

	"berth"
	"berth/internal/agent/alloc"
	"berth/internal/agent/driver"
	"berth/internal/agent/host"
	"berth/op"

	"golang.org/x/sync/errgroup"
)

// Figures about the machine and the tasks on it.

// HostStats measures the machine.
func (a *Agent) HostStats(ctx context.Context) (*op.HostStats, error) {
	s, err := a.meter.Stats(ctx)
	if err == nil {
		s.DeviceStats = a.deviceStats(ctx)
	}
	return s, err
}

// AllocCounts counts the allocations of the node by status.
func (a *Agent) AllocCounts() map[berth.ClientStatus]int {
	out := map[berth.ClientStatus]int{}
	for _, h := range a.View().Allocs {
		out[h.Status]++
	}
	return out
}

// serveHost answers what people ask about the use of the machine.
func (a *Agent) serveHost(s *serving) {
	onCall(s, op.AgentReadHost, func(ctx context.Context, q *op.NodeTarget) (*op.HostStats, error) {
		if err := a.isNode(q.NodeID); err != nil {
			return nil, err
		}
		return a.HostStats(ctx)
	})
	onCall(s, op.AgentReadUsage, a.usage)
}

// measuredAtOnce is how many allocations are measured at the same time.
const measuredAtOnce = 16

// AllocUses measures the allocations of the node that run. One that cannot be
// measured, as when it ends meanwhile, is left out.
func (a *Agent) AllocUses(ctx context.Context) []op.AllocUse {
	a.mu.Lock()
	var all []*op.Alloc
	for _, h := range a.allocs {
		if h.runner != nil {
			all = append(all, h.alloc)
		}
	}
	a.mu.Unlock()
	found := make([]*op.AllocUsage, len(all))
	var g errgroup.Group
	g.SetLimit(measuredAtOnce)
	for i, al := range all {
		g.Go(func() error {
			found[i], _ = a.usage(ctx, &op.AllocStatsQuery{AllocID: al.ID.String()})
			return nil
		})
	}
	_ = g.Wait()
	var out []op.AllocUse
	for i, u := range found {
		if u != nil {
			out = append(out, op.AllocUse{Alloc: all[i], Usage: u})
		}
	}
	return out
}

// usage measures the tasks of an allocation, or one of them.
func (a *Agent) usage(ctx context.Context, q *op.AllocStatsQuery) (*op.AllocUsage, error) {
	a.mu.Lock()
	h := a.allocs[q.AllocID]
	a.mu.Unlock()
	if h == nil {
		return nil, berth.Errorf(berth.NotFound, "allocation %q is not on this node", q.AllocID)
	}
	if q.Task != "" && taskOf(h.alloc, q.Task) == nil {
		return nil, berth.Errorf(berth.NotFound, "allocation %s has no task %q", q.AllocID, berth.Clip(q.Task, 64))
	}
	if h.runner == nil {
		return host.UsageOf(nil, nil, 0, time.Now(), a.meter.Speed()), nil // it has ended
	}
	before, now, apart, err := h.usage.Pair(ctx, func(ctx context.Context) (alloc.Usages, error) { return h.runner.Usage(ctx) })
	if err != nil {
		return nil, err
	}
	if q.Task != "" {
		before, now = one(before, q.Task), one(now, q.Task)
	}
	return host.UsageOf(before, now, apart, time.Now(), a.meter.Speed()), nil
}

// one returns the use of one task alone; nothing if it does not run.
func one(all alloc.Usages, task string) alloc.Usages {
	if u, ok := all[task]; ok {
		return map[string]driver.Usage{task: u}
	}
	return nil
}

// speed returns the speed of one of a node's processors in MHz, as it is counted
// for tasks.
func speed(n *berth.Node) float64 {
	c := &n.NodeResources.Cpu
	if c.TotalCpuCores == 0 {
		return float64(c.CpuShares)
	}
	return float64(c.CpuShares) / float64(c.TotalCpuCores)
}

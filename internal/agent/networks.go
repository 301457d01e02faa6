package agent

import (
	"context"

	"berth/internal/agent/alloc"
	"berth/internal/agent/network"
)

// Networks of groups: what this machine can do for them, and what is left of
// them.

// offer returns what the machine can do for networks of groups.
func (a *Agent) offer(ctx context.Context) *network.Offer {
	if a.networks == nil {
		return &network.Offer{}
	}
	o := network.Find(ctx, &a.c.Networks)
	if !o.Bridge {
		a.log.Debug("this node runs no groups with network mode bridge", "why", o.Why)
	}
	return o
}

// groupNetworks returns what makes the networks of allocations, nil if nothing
// does.
func (a *Agent) groupNetworks() alloc.Networks {
	if a.networks == nil {
		return nil // not a nil pointer in an interface
	}
	return a.networks
}

// sweepNetworks removes networks of allocations that this agent does not know,
// beside everything else. Those that it knows end with their allocation.
func (a *Agent) sweepNetworks() {
	if a.networks == nil {
		return
	}
	left, err := a.networks.Left()
	if err != nil {
		a.log.Warn("networks that were left cannot be looked for", "error", err)
	}
	for _, id := range left {
		a.mu.Lock()
		_, known := a.allocs[id]
		a.mu.Unlock()
		if known {
			continue
		}
		a.wait.Go(func() {
			if err := a.networks.Remove(a.lives, id, nil); err != nil {
				a.log.Warn("the network of an allocation that is gone cannot be removed", "alloc", id, "error", err)
			}
		})
	}
}

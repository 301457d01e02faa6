package agent

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"berth"
	"berth/internal/agent/alloc"
	"berth/internal/agent/driver"
	"berth/internal/agent/network"
	"berth/internal/rest"
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
		a.wait.Go(func() { a.removeNetwork(id) })
	}
}

// networkRest is how long the agent rests before it tries again to remove a
// network.
const networkRest = 15 * time.Second

// removeNetwork removes the network of an allocation that is gone, and tries
// until it can: the engine that made the namespace may be away.
func (a *Agent) removeNetwork(id string) {
	for first := true; ; first = false {
		name, err := a.networks.Maker(id)
		var maker network.Namespacer // stays nil if no driver made it
		if name != "" {
			maker, _ = driver.As[network.Namespacer](a.drivers[name])
		}
		if name != "" && maker == nil {
			err = berth.Errorf(berth.Invalid, "the driver %q, which made it, is not one of this agent's", name)
		}
		if err == nil {
			err = a.networks.Remove(a.lives, id, maker)
		}
		if err == nil || a.lives.Err() != nil {
			return
		}
		if first {
			a.log.Warn("the network of an allocation that is gone cannot be removed yet", "alloc", id, "error", err)
		}
		if rest.For(a.lives, networkRest) != nil {
			return
		}
	}
}

// runs reports whether the agent has an allocation that has not ended yet.
func (a *Agent) runs(id string) bool {
	_, r, err := a.find(id)
	if err != nil || r == nil {
		return false
	}
	select {
	case <-r.Done():
		return false
	default:
		return true
	}
}

// checkInterface returns an error if this machine has no network interface with a
// name; "" asks for nothing.
func checkInterface(name string) error {
	if name == "" {
		return nil
	}
	all, err := net.Interfaces()
	if err != nil {
		return fmt.Errorf("agent: client.network_interface: %w", err)
	}
	var names []string
	for _, i := range all {
		if i.Name == name {
			return nil
		}
		names = append(names, i.Name)
	}
	return berth.Errorf(berth.Invalid, "agent: client.network_interface: there is no interface %q on this machine; it has %s", name, strings.Join(names, ", "))
}

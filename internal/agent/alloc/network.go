package alloc

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"berth"
	"berth/internal/agent/driver"
	"berth/internal/agent/network"
	"berth/internal/agent/task"
	"berth/internal/rest"
	"berth/op"
)

// The network of an allocation whose group has one of its own. It is made when
// the first of its tasks is about to start, and removed when all have ended.

// Networks makes and removes networks of allocations; see [network.Networks].
type Networks interface {
	Make(ctx context.Context, r *network.Request) (*network.Made, error)
	Find(r *network.Request) *network.Made
	Remove(ctx context.Context, alloc string, maker network.Namespacer) error
}

// groupNetwork is the network of one allocation.
type groupNetwork struct {
	turn sync.Mutex // one task at a time makes it

	mu   sync.Mutex
	made *network.Made // nil until it is made
}

// status returns the allocation's own address, nil as long as it has none.
func (n *groupNetwork) status() *berth.AllocNetworkStatus {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.made == nil || n.made.Status.InterfaceName == "" {
		return nil
	}
	s := n.made.Status
	return &s
}

// ownNetwork returns what a group asks of its network, nil if its tasks are on
// the host's.
func ownNetwork(g *berth.TaskGroup) *berth.NetworkResource {
	for i := range g.Networks {
		if mode := g.Networks[i].Mode; mode != "" && mode != berth.NetworkHost {
			return &g.Networks[i]
		}
	}
	return nil
}

// makeNetwork makes the network of the allocation, unless it is there, and
// returns it; nil if its tasks are on the host's. An error may be gone at the
// next try, unless it is Invalid or Denied.
func (r *Runner) makeNetwork(ctx context.Context) (*driver.Network, *berth.AllocNetworkStatus, error) {
	r.mu.Lock()
	a := r.alloc
	r.mu.Unlock()
	g := a.Job.Group(a.TaskGroup)
	want := ownNetwork(g)
	if want == nil {
		return nil, nil, nil
	}
	if r.c.Networks == nil {
		return nil, nil, berth.Errorf(berth.Invalid, "network.mode: this agent makes no networks, so it cannot be %q", want.Mode)
	}
	n := &r.network
	n.turn.Lock()
	defer n.turn.Unlock()
	made, err := r.c.Networks.Make(ctx, r.networkRequest(a, want))
	if kind := berth.KindOf(err); kind == berth.Invalid || kind == berth.Denied {
		return nil, nil, err
	}
	if err != nil {
		return nil, nil, driver.Recoverable(err)
	}
	n.mu.Lock()
	n.made = made
	n.mu.Unlock()
	if made.Fresh {
		r.leaveOldNetwork()
	}
	out := &driver.Network{Mode: want.Mode, Namespace: made.Namespace, Hostname: want.Hostname, DNS: want.DNS, Hosts: map[string]string{}}
	if out.DNS == nil {
		out.DNS = made.Status.DNS
	}
	if out.Hostname == "" {
		out.Hostname = r.id[:8] // a name of its own, so that tasks can resolve it
	}
	if made.Status.Address != "" {
		out.Hosts[out.Hostname] = made.Status.Address
	}
	r.nudge() // its address is news
	return out, n.status(), nil
}

// networkRequest returns what the allocation asks of the agent's networks.
func (r *Runner) networkRequest(a *op.Alloc, want *berth.NetworkResource) *network.Request {
	req := &network.Request{Alloc: r.id, Mode: want.Mode, Hostname: want.Hostname, Ports: mappedPorts(a, want, r.c.OwnAddressOnly), Maker: r.namespacer(a.Job.Group(a.TaskGroup))}
	if want.CNI != nil {
		req.Args = want.CNI.Args
	}
	return req
}

// recallNetwork takes up the network that an earlier agent made. Tasks that run
// on do not ask for it, but services and reports need its address.
func (r *Runner) recallNetwork() {
	r.mu.Lock()
	a := r.alloc
	r.mu.Unlock()
	want := ownNetwork(a.Job.Group(a.TaskGroup))
	if want == nil || r.c.Networks == nil {
		return
	}
	made := r.c.Networks.Find(r.networkRequest(a, want))
	r.network.mu.Lock()
	defer r.network.mu.Unlock()
	r.network.made = made
}

// leaveOldNetwork starts the tasks again that run in a network which another has
// replaced: nobody reaches them there.
func (r *Runner) leaveOldNetwork() {
	tasks, err := r.running("")
	if err != nil {
		return // none runs: it is the first network
	}
	for _, t := range tasks {
		if t.State().Phase == task.Running {
			t.Restart("The network of the allocation was made again")
		}
	}
}

// mappedPorts returns the ports of an allocation as they are mapped: those of the
// default host network on all addresses of the node, unless own is set, and
// others on their own.
func mappedPorts(a *op.Alloc, want *berth.NetworkResource, own bool) []berth.PortMapping {
	if a.AllocatedResources == nil {
		return nil
	}
	out := slices.Clone(a.AllocatedResources.Shared.Ports)
	for i := range out {
		if own {
			break
		}
		for _, p := range slices.Concat(want.ReservedPorts, want.DynamicPorts) {
			if p.Label == out[i].Label && p.Network() == berth.DefaultHostNetwork {
				out[i].HostIP = ""
			}
		}
	}
	return out
}

// namespacer returns the driver that must make the namespace of a group, nil if
// none of its tasks needs that.
func (r *Runner) namespacer(g *berth.TaskGroup) network.Namespacer {
	for _, t := range g.Tasks {
		if m, ok := driver.As[network.Namespacer](r.c.Drivers[t.Driver]); ok {
			return m
		}
	}
	return nil
}

// How often the removal of a network is tried, how long after a failure, and how
// long all tries may take. A plugin that hangs is killed before that.
const (
	removals    = 5
	removalRest = time.Second
	removalTime = 3 * time.Minute
)

// removeNetwork removes the network of an allocation that has ended. What cannot
// be removed in time is left to the next agent.
func (r *Runner) removeNetwork(ctx context.Context) {
	r.mu.Lock()
	g := r.alloc.Job.Group(r.alloc.TaskGroup)
	r.mu.Unlock()
	if ownNetwork(g) == nil || r.c.Networks == nil {
		return
	}
	limited, cancel := context.WithTimeoutCause(ctx, removalTime, fmt.Errorf("the removal has not ended after %s", removalTime))
	defer cancel()
	for try := 1; ; try++ {
		err := r.c.Networks.Remove(limited, r.id, r.namespacer(g))
		if err == nil {
			return
		}
		if try == removals || rest.For(limited, removalRest) != nil {
			if ctx.Err() == nil {
				r.c.Log.Warn("the network of an allocation cannot be removed", "alloc", r.id, "error", err)
			}
			return
		}
	}
}

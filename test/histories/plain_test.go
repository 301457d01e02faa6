package histories

import (
	"math"
	"slices"

	"berth"
	"berth/internal/state"
)

// plainlyFits reports whether an instance of a group can be put on a node if some
// of what is there were gone, in the plainest way, for what histories ask for.
func plainlyFits(s *state.Snapshot, j *berth.Job, g *berth.TaskGroup, n *berth.Node, gone func(*berth.Alloc) bool) bool {
	task := g.Tasks[0]
	if n.Status != berth.NodeReady || n.SchedulingEligibility != berth.NodeEligible || !n.Drivers[task.Driver].Healthy {
		return false
	}
	if !slices.Contains(j.Datacenters, "*") && !slices.Contains(j.Datacenters, n.Datacenter) {
		return false
	}
	cpu, mem := n.NodeResources.Cpu.CpuShares, n.NodeResources.Memory.MemoryMB
	ports, mine := map[int]bool{}, false
	free := math.MaxInt // dynamic ports
	if top := n.NodeResources.MaxDynamicPort; top > 0 {
		free = int(top) - int(n.NodeResources.MinDynamicPort) + 1
	}
	for a := range s.AllocsOn(n.ID) {
		if a.Ended() || gone(a) {
			continue
		}
		cpu -= int64(a.Group.Tasks[0].Resources.CPU)
		mem -= int64(a.Group.Tasks[0].Resources.MemoryMB)
		once := twice(s, a)
		cpu += once.CPU
		mem += once.MemoryMB
		for _, nw := range a.Group.Networks {
			for _, p := range nw.ReservedPorts {
				ports[p.Value] = true
			}
			free -= len(nw.DynamicPorts)
		}
		mine = mine || a.Live() && a.Key() == j.Key() && a.Job.UID == j.UID && a.Group.Name == g.Name
	}
	if cpu < int64(task.Resources.CPU) || mem < int64(task.Resources.MemoryMB) {
		return false
	}
	for _, nw := range g.Networks {
		if len(nw.DynamicPorts) > free {
			return false
		}
		for _, p := range nw.ReservedPorts {
			if ports[p.Value] {
				return false
			}
		}
	}
	for _, c := range g.Constraints {
		switch {
		case c.Operand == berth.OpDistinctHosts && mine,
			c.Operand == berth.OpEqual && n.Meta["rack"] != c.RTarget,
			c.Operand == berth.OpNotEqual && n.Name == c.RTarget:
			return false
		}
	}
	return true
}

// twice is what an allocation and those that it evicted, and that have not
// ended, both hold: it is taken only once.
func twice(s *state.Snapshot, a *berth.Alloc) berth.Ask {
	var theirs berth.Ask
	for _, id := range a.Rest().Evicted {
		if v := s.Alloc(id); v != nil && !v.Ended() {
			theirs.CPU += int64(v.Group.Tasks[0].Resources.CPU)
			theirs.MemoryMB += int64(v.Group.Tasks[0].Resources.MemoryMB)
		}
	}
	its := a.Group.Tasks[0].Resources
	return berth.Ask{CPU: min(theirs.CPU, int64(its.CPU)), MemoryMB: min(theirs.MemoryMB, int64(its.MemoryMB))}
}

// plainlyEvictable reports whether a job may take the room of an allocation.
// What is left of a job that was purged is about to be stopped.
func plainlyEvictable(s *state.Snapshot, j *berth.Job, a *berth.Alloc) bool {
	now := s.Job(a.Key())
	return a.Live() && now != nil && now.UID == a.Job.UID && a.Key() != j.Key() && a.Job.Priority+10 <= j.Priority && !waitsForRoom(s, a)
}

// leaves reports whether a job can wait for its own room rather than evict
// others: something of it is being stopped where others are placed, so that it
// is looked at again when that has ended; or runs in an old version, because
// the new one has no place.
func leaves(s *state.Snapshot, j *berth.Job) bool {
	for a := range s.AllocsOf(j.Key()) {
		if n := s.Node(a.NodeID); !a.Ended() && (!a.Wanted() || a.Job.Version != j.Version) && n != nil && n.Ready() {
			return true
		}
	}
	return false
}

package berth

import (
	"cmp"
	"slices"
)

// NodeCore is a core of a node that can be given to one allocation alone.
type NodeCore struct {
	ID   uint16
	NUMA uint8 // the NUMA node it is of; 0 where that is not known
	MHz  int64 // what it takes out of the node's processor time
}

// Cores returns the cores that can be reserved, in order of ID: those that the
// agent offers, without those that are kept back. A core's share is its speed,
// or where no speed is known, or an operator set the total, an equal part of
// the node's processor time.
func (n *Node) Cores() []NodeCore {
	r := n.NodeResources
	if len(r.Cpu.ReservableCpuCores) == 0 {
		return nil
	}
	var kept []uint16
	if k := n.ReservedResources; k != nil {
		kept = k.Cpu.ReservedCpuCores
	}
	known, total := map[uint16]Core{}, 0
	override := false
	if t := r.Processors.Topology; t != nil {
		override = t.OverrideTotalCompute > 0
		for _, c := range t.Cores {
			known[c.ID] = c
			if !c.Disable {
				total++
			}
		}
	}
	if total == 0 {
		total = max(int(r.Cpu.TotalCpuCores), len(r.Cpu.ReservableCpuCores))
	}
	out := make([]NodeCore, 0, len(r.Cpu.ReservableCpuCores))
	for _, id := range r.Cpu.ReservableCpuCores {
		c := known[id]
		if c.Disable || slices.Contains(kept, id) {
			continue
		}
		mhz := int64(min(cmp.Or(c.BaseSpeed, c.GuessSpeed, c.MaxSpeed), MaxCPU))
		if override || mhz == 0 {
			mhz = r.Cpu.CpuShares / int64(total)
		}
		out = append(out, NodeCore{id, c.NodeID, mhz})
	}
	slices.SortFunc(out, func(a, b NodeCore) int { return cmp.Compare(a.ID, b.ID) })
	return slices.CompactFunc(out, func(a, b NodeCore) bool { return a.ID == b.ID })
}

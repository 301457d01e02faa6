package place

import (
	"berth/internal/fit"
)

// The balanced algorithm packs as binpack does, but looks at what a placement
// strands: memory that nobody can use because the node's cpu is gone, or the
// other way round. How lopsided the rest of a node is,
//
//	|free(cpu) - free(memory)| / (free(cpu) + free(memory))
//
// counts as its square, so that a little of it, which later asks will mend, is
// nearly nothing, and by what is left, so that it counts the more the fuller
// the node is: the last asks must fit exactly. A lopsided ask goes to a node
// that is lopsided the other way, or to an empty one, before it spoils a good
// one. docs/decisions/0005-balanced-placement.md has what it was chosen from.
//
// Instances of a batch job do not repel one another under this algorithm: it is
// chosen for packing, and batches are not kept up by being apart.
const (
	lopsidedWeight = 1.8
	// lopsidedFloor is added to what is free of both: a node that is full but
	// for crumbs is not lopsided.
	lopsidedFloor = 0.02
)

// balance returns the fit of a node by the balanced algorithm, given that by
// binpack, between -1 and 1: binpack less what is stranded.
func (g *fitScorer) balance(u *fit.Usage, binpack float64) float64 {
	if u.Capacity.CPU <= 0 || u.Capacity.MemoryMB <= 0 {
		return binpack // there is nothing to be lopsided
	}
	cpu := 1 - float64(u.Used.CPU)*g.perCPU - g.cpuShare
	memory := 1 - float64(u.Used.MemoryMB)*g.perMemory - g.memShare
	x := (cpu - memory) / (cpu + memory + lopsidedFloor)
	return max(binpack-lopsidedWeight*x*x, -1)
}

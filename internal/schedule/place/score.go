package place

import (
	"math"

	"berth"
	"berth/internal/fit"
)

// A scorer is one kind of reason for or against a node. Scores are those that
// Nomad documents, so that they can be compared: each scorer that applies to a
// node returns a number between -1 and 1, and the node's score is the mean of
// them.
type scorer int

const (
	byFit        scorer = iota // how full the node gets, by the algorithm
	byAnti                     // instances of the group already run there
	byPenalty                  // the replaced instance failed there
	byAffinity                 // affinities of the job, the group and its tasks
	byDevices                  // affinities of the devices that tasks ask for
	byPreemption               // less urgent allocations must be preempted
	bySpread                   // spread blocks; must be last, see bucket
	scorers                    // their number
)

// scorerNames are the names by which Nomad's API shows scores.
var scorerNames = [scorers]string{
	"binpack", "job-anti-affinity", "node-reschedule-penalty", "node-affinity", "devices", "preemption",
	"allocation-spread",
}

// alwaysShown are the scorers that are shown even if they do not apply.
const alwaysShown = 1<<byFit | 1<<byAnti | 1<<byPenalty | 1<<byAffinity

// parts are the scores of one node by scorer.
type parts struct {
	value [scorers]float64
	given uint16 // bit set of the scorers that apply
}

// set gives the node a score, and makes the scorer count in the mean.
func (p *parts) set(s scorer, v float64) {
	p.value[s] = v
	p.given |= 1 << s
}

// sum returns the sum of the scores, and the number of scorers that apply.
func (p *parts) sum() (sum, voices float64) {
	for s := range scorers {
		if p.given>>s&1 != 0 {
			sum += p.value[s]
			voices++
		}
	}
	return sum, voices
}

// mean returns the node's total score: the mean over the scorers that apply.
func (p *parts) mean() float64 {
	sum, voices := p.sum()
	return sum / voices
}

// named returns the scores as the API shows them, by Nomad's names.
func (p *parts) named() map[string]float64 {
	m := make(map[string]float64, scorers)
	for s := range scorers {
		if (p.given|alwaysShown)>>s&1 != 0 {
			m[scorerNames[s]] = p.value[s]
		}
	}
	return m
}

// scoreOf returns the total score of a node.
func (r *round) scoreOf(number uint32, u *fit.Usage) float64 {
	p := r.score(number, u)
	return p.mean()
}

// score returns the scores of a node without penalties, which depend on the
// instance.
func (r *round) score(number uint32, u *fit.Usage) (p parts) {
	if r.request.HasNamed() {
		g := newFitScorer(r.fitness.algorithm, r.request.AskOn(u)) // the CPU of whole cores depends on the node
		p.set(byFit, g.score(u))
		if r.devices {
			if v := deviceScore(&r.request, u); v != 0 {
				p.set(byDevices, v)
			}
		}
	} else {
		p.set(byFit, r.fitness.score(u))
	}
	// Scorers that have nothing to say do not count: 0 would pull the mean
	// down.
	if n := r.siblings[number]; n > 0 && r.antiAffinity {
		p.set(byAnti, -float64(n+1)/float64(max(r.group.Count, 1)))
	}
	if len(r.affinity.list) > 0 {
		if v := r.affinity.score(u.Class, r.snap.NodeByNumber(number)); v != 0 {
			p.set(byAffinity, v)
		}
	}
	if r.spread != nil {
		p.set(bySpread, r.spread.score(r.spread.comboOn(u.Class, r.snap.NodeByNumber(number))))
	}
	return p
}

// fitScorer rates how well nodes suit one ask, by the algorithm that the
// operator chose. It caches what depends on a node's size alone, because nodes
// of one size often follow each other.
type fitScorer struct {
	algorithm string
	ask       berth.Ask // of one instance
	base      float64   // the score is (base + sign * sum of powers) / 18
	sign      float64   // -1 favours full nodes, 1 empty ones
	balanced  bool      // the score also counts how even the use of CPU and memory is

	cpuCapacity, memoryCapacity int64   // of the nodes for which the values below hold
	cpu, memory                 float64 // ten to the power of minus the ask's share of the capacity
	cpuShare, perCPU            float64 // the ask's share of the capacity, and that of one unit
	memShare, perMemory         float64
}

// newFitScorer returns a scorer for nodes that get the ask. Any other algorithm
// than spread and balanced is binpack.
func newFitScorer(algorithm string, ask berth.Ask) fitScorer {
	g := fitScorer{algorithm: algorithm, ask: ask, base: 20, sign: -1, cpuCapacity: -1}
	switch algorithm {
	case berth.AlgorithmSpread:
		g.base, g.sign = -2, 1
	case berth.AlgorithmBalanced:
		g.balanced = true
	}
	return g
}

// score returns the fit of a node with the ask added, between 0 and 1, or for
// the balanced algorithm between -1 and 1.
//
//   - binpack: (20 - 10^free(cpu) - 10^free(memory)) / 18: 1 for a full node, 0
//     for an empty one (BestFit v3).
//   - spread: (10^free(cpu) + 10^free(memory) - 2) / 18: the other way round.
//   - balanced: see balance.
func (g *fitScorer) score(u *fit.Usage) float64 {
	if g.cpuCapacity != u.Capacity.CPU || g.memoryCapacity != u.Capacity.MemoryMB {
		g.setSize(u)
	}
	if g.balanced {
		return g.balance(u, g.powerScore(u))
	}
	return g.powerScore(u)
}

// powerScore returns the binpack or spread fit of a node of the size given to
// setSize.
func (g *fitScorer) powerScore(u *fit.Usage) float64 {
	return (g.base + g.sign*(u.PowCPU*g.cpu+u.PowMemory*g.memory)) / 18
}

// setSize prepares for nodes of another size.
func (g *fitScorer) setSize(u *fit.Usage) {
	g.cpuCapacity, g.memoryCapacity = u.Capacity.CPU, u.Capacity.MemoryMB
	g.cpu, g.cpuShare, g.perCPU = share(u.Capacity.CPU, g.ask.CPU)
	g.memory, g.memShare, g.perMemory = share(u.Capacity.MemoryMB, g.ask.MemoryMB)
}

// share returns ten to the power of minus the ask's share of the capacity, that
// share, and the share of one unit. A node without the resource scores as if
// nothing was asked.
func share(capacity, ask int64) (power, whole, one float64) {
	if capacity <= 0 {
		return 1, 0, 0
	}
	one = 1 / float64(capacity)
	whole = float64(ask) * one
	return math.Exp(-whole * math.Ln10), whole, one
}

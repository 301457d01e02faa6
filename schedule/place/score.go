package place

import (
	"math"

	"berth"
	"berth/state"
)

// Scores are those that Nomad documents, so that they can be compared: each
// scorer that has something to say gives a number between -1 and 1, and a
// node's score is their mean.
const (
	scoreBinpack  = "binpack"
	scoreAnti     = "job-anti-affinity"
	scorePenalty  = "node-reschedule-penalty"
	scoreAffinity = "node-affinity"
	scoreFinal    = "normalized"
)

// binpack is the fit of a node after an ask is put on it: 1 is full, 0 is
// empty. It is BestFit v3, 20 - 10^free(cpu) - 10^free(memory), in eighteenths.
func binpack(u *state.Usage, ask berth.Ask) float64 {
	return (20 - pow10(free(u.Room.CPU, u.Used.CPU+ask.CPU)) - pow10(free(u.Room.MemoryMB, u.Used.MemoryMB+ask.MemoryMB))) / 18
}

// fit remembers the last fit that was worked out: nodes that were bought and
// filled together come one after another, and the powers cost more than all
// else that is done about a node.
type fit struct {
	room, used berth.Ask
	known      bool
	value      float64
}

// of returns binpack of a node for the one ask that this fit is used for.
func (f *fit) of(u *state.Usage, ask berth.Ask) float64 {
	if !f.known || f.room != u.Room || f.used != u.Used {
		*f = fit{u.Room, u.Used, true, binpack(u, ask)}
	}
	return f.value
}

func free(room, used int64) float64 {
	if room <= 0 {
		return 0
	}
	return 1 - float64(used)/float64(room)
}

func pow10(x float64) float64 { return math.Exp(x * math.Ln10) }

// parts are what the scorers say of one node; those that say nothing are left
// out of the mean.
type parts struct {
	binpack  float64
	anti     float64 // below 0 if instances of the group are there already
	affinity float64
	penalty  bool // an instance that is replaced failed there
	hasAff   bool
}

func (p parts) mean() float64 {
	sum, n := p.binpack, 1.0
	if p.anti != 0 {
		sum += p.anti
		n++
	}
	if p.penalty {
		sum--
		n++
	}
	if p.hasAff && p.affinity != 0 {
		sum += p.affinity
		n++
	}
	return sum / n
}

func (p parts) named() map[string]float64 {
	m := map[string]float64{scoreBinpack: p.binpack, scoreAnti: p.anti, scorePenalty: 0, scoreAffinity: p.affinity}
	if p.penalty {
		m[scorePenalty] = -1
	}
	return m
}

// affinities is the weighted preference of a group for nodes.
type affinities struct {
	list   []berth.Affinity
	total  float64
	single bool // each node must be asked, beside its class
	known  []float64
	asked  []bool
}

func newAffinities(snap *state.Snapshot, job *berth.Job, group *berth.TaskGroup) *affinities {
	a := &affinities{}
	add := func(list []berth.Affinity) {
		for _, x := range list {
			a.list = append(a.list, x)
			a.total += math.Abs(float64(x.Weight))
			a.single = a.single || unique(x.LTarget) || unique(x.RTarget)
		}
	}
	add(job.Affinities)
	add(group.Affinities)
	for _, t := range group.Tasks {
		add(t.Affinities)
	}
	if len(a.list) > 0 {
		a.known, a.asked = make([]float64, snap.Classes()), make([]bool, snap.Classes())
	}
	return a
}

// of returns the preference for a node, between -1 and 1.
func (a *affinities) of(class uint32, n *berth.Node) float64 {
	if len(a.list) == 0 {
		return 0
	}
	if !a.single && a.asked[class] {
		return a.known[class]
	}
	sum := 0.0
	for _, x := range a.list {
		if holds(x.LTarget, x.Operand, x.RTarget, n) {
			sum += float64(x.Weight)
		}
	}
	sum /= a.total
	a.known[class], a.asked[class] = sum, true
	return sum
}

package state

import (
	"berth"
)

// unknowns are the job's instances whose allocation is unknown and was not
// replaced; nil for most jobs.
type unknowns map[instance]berth.AllocID

// add notes an unknown allocation. If it was replaced, its replacement holds
// the name.
func (u *unknowns) add(i instance, a *berth.Alloc) {
	if !a.Rest().Next.IsZero() {
		return
	}
	if *u == nil {
		*u = unknowns{}
	}
	(*u)[i] = a.ID
}

// holds reports whether an unknown allocation keeps the name of an instance
// from one that replaces previous: only its own replacement may share the name.
func (u unknowns) holds(i instance, previous berth.AllocID) bool {
	id, ok := u[i]
	return ok && id != previous
}

// outlasts reports whether an allocation that was told to leave its node, and
// belongs to a current group, shares its name with its replacement until that
// is healthy.
func outlasts(a *berth.Alloc, g *berth.TaskGroup) bool {
	return a.More != nil && a.More.Migrate && g.Migration().StartFirst
}

// instance is one instance of a job: the position of the group in the job and
// the index in its name; for jobs that run on every node also the number of the
// node plus one.
type instance struct {
	group int
	index uint32
	node  uint32
	// canary of a deployment that was not promoted. It runs beside the
	// allocation that has the name; in a job that runs on every node it takes
	// that one's place.
	canary bool
}

// liveNames returns the instances of a job that are held by an allocation which
// should run. Those whose allocation is unknown are returned separately.
func (tx *Tx) liveNames(job *berth.Job) (names map[instance]bool, away unknowns) {
	names = map[instance]bool{}
	groups := map[string]int{}
	for i, g := range job.TaskGroups {
		groups[g.Name] = i
	}
	for a := range tx.AllocsOf(job.Key()) {
		if a.Live() && a.Job.UID == job.UID {
			if g, ok := groups[a.Group.Name]; ok {
				name := tx.instanceOf(g, a)
				// In a job that runs on every node, nothing replaces an unknown
				// allocation.
				if a.Client == berth.ClientUnknown && !job.PerNode() || outlasts(a, job.TaskGroups[g]) {
					away.add(name, a)
					continue
				}
				names[name] = true
			}
		}
	}
	return names, away
}

// instanceOf returns the name under which an allocation counts in a plan. A
// canary has a name of its own beside the old allocation. In a job that runs on
// every node the node is part of the name, and canaries have no name of their
// own.
func (tx *Tx) instanceOf(group int, a *berth.Alloc) instance {
	i := instance{group: group, index: a.Index}
	if s := a.Rest().DeploymentStatus; s != nil {
		i.canary = s.Canary && !a.Job.PerNode()
	}
	if a.Job.PerNode() {
		if n := tx.Node(a.NodeID); n != nil {
			i.node = n.Number + 1
		}
	}
	return i
}

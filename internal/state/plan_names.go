package state

import (
	"berth"
)

// unknowns are the instances of a job whose allocation is unknown and was not
// replaced; nil for most jobs.
type unknowns map[instance]berth.AllocID

// add notes an unknown allocation. What replaced one holds the name for it.
func (u *unknowns) add(i instance, a *berth.Alloc) {
	if !a.Rest().Next.IsZero() {
		return
	}
	if *u == nil {
		*u = unknowns{}
	}
	(*u)[i] = a.ID
}

// holds says whether an unknown allocation keeps the name of an instance from
// one that is to replace previous: only what stands in for it may share it.
func (u unknowns) holds(i instance, previous berth.AllocID) bool {
	id, ok := u[i]
	return ok && id != previous
}

// outlasts says whether an allocation that was told to leave its node, and is of
// a group now, shares its name with its replacement until that is up.
func outlasts(a *berth.Alloc, g *berth.TaskGroup) bool {
	return a.More != nil && a.More.Migrate && g.Migration().StartFirst
}

// instance is one instance of a job: the group's place in the job, and the
// index of its name; of a job that runs on every node also the number of the
// node, plus one.
type instance struct {
	group int
	index uint32
	node  uint32
	// canary: of a deployment that was not promoted; it runs beside what has the
	// name. Of a job that runs on every node it takes the place of that.
	canary bool
}

// liveNames returns the instances of a job that an allocation holds which
// should run, those apart whose allocation is unknown.
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
				// Of a job that runs on every node, nothing stands in for it.
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

package state

import (
	"slices"

	"berth"
)

// A plan for a stream job places processing elements: each placement is one
// launch of one of them.

// peOf checks the placements of a plan for a stream job. It is nil for other
// jobs.
type peOf struct {
	job  *berth.Job
	uses map[berth.UID]peUse // by the UID of the PE
}

// peUse is what exists of a processing element.
type peUse struct {
	occupies bool
	launch   uint64 // the last one that has an allocation
}

// streamsOf returns what a plan for a stream job is checked against, nil for
// jobs of other types.
func (tx *Tx) streamsOf(job *berth.Job) *peOf {
	if job.Type != berth.TypeStream {
		return nil
	}
	p := &peOf{job, map[berth.UID]peUse{}}
	for a := range tx.AllocsOf(job.Key()) {
		if ref := a.Rest().PE; ref != nil {
			u := p.uses[ref.UID]
			p.uses[ref.UID] = peUse{u.occupies || a.Occupies(), max(u.launch, ref.Launch)}
		}
	}
	return p
}

// placeable refuses the whole plan if nothing may be created for the stream
// job, or if the plan is for another version than the one to be placed.
func (c *ApplyPlan) placeable(tx *Tx, job *berth.Job) (*berth.Job, error) {
	_, row, err := tx.alive(job.Key(), job.UID)
	if err != nil {
		return nil, err
	}
	if v := tx.PlannedJob(row); v.Version == c.JobVersion {
		return v, nil
	}
	return nil, berth.Errorf(berth.Conflict, "superseded: job %q has a plan of version %d, what was placed is of %d", job.Key(), row.Version, c.JobVersion)
}

// refuses returns why a placement is not a valid launch, or "" if it is, and
// the processing element. Placements of other jobs have none.
func (p *peOf) refuses(tx *Tx, place *berth.Placement, n *berth.Node) (pe *berth.Object, refused *berth.Refusal) {
	g := p.job.TaskGroups[place.Group]
	name := berth.AllocName(p.job.ID, g.Name, place.Index)
	pe = tx.ResourceNamed(p.job.UID, berth.KindPE, name)
	// One PE has at most one allocation at a time, of its newest launch.
	switch {
	case pe == nil:
		return nil, berth.Refuse(berth.RefusedInstance, "there is no processing element "+name)
	case pe.PE.Launch == 0:
		return nil, berth.Refuse(berth.RefusedInstance, name+" was not launched")
	case p.uses[pe.UID].launch >= pe.PE.Launch:
		return nil, berth.Refuse(berth.RefusedInstance, name+" already has an allocation of launch "+utoa(pe.PE.Launch))
	case p.uses[pe.UID].occupies || p.uses[pe.PE.Before].occupies:
		return nil, berth.Refuse(berth.RefusedInstance, "an earlier allocation of "+name+" has not ended")
	}
	// The allocation reads its configuration when it starts.
	if c := tx.ResourceNamed(p.job.UID, berth.KindConfig, name); c == nil || c.Object.Config.ContentID != pe.PE.ContentID {
		return nil, berth.Refuse(berth.RefusedInstance, "the configuration that "+name+" was launched with does not exist")
	}
	return pe, berth.Refuse(berth.RefusedNode, p.poolRefuses(tx, g, n))
}

// poolRefuses returns why host pools keep a group from a node, or "".
func (p *peOf) poolRefuses(tx *Tx, g *berth.TaskGroup, n *berth.Node) string {
	// Exclusive pools of other jobs keep everybody out.
	if h := tx.Holder(n.ID); h != nil && h.Owner != p.job.UID {
		return "the node is in the exclusive pool " + h.Name + " of job " + h.Job.String()
	}
	if g.Stream == nil || g.Stream.Placement.Pool == "" {
		return ""
	}
	at := &g.Stream.Placement
	// The group's own pool says which nodes it may use.
	pool := tx.ResourceNamed(p.job.UID, berth.KindHostPool, at.Pool)
	switch {
	case pool == nil:
		return "there is no pool " + at.Pool
	case at.PoolHost != nil && (*at.PoolHost < 0 || *at.PoolHost >= len(pool.Nodes) || pool.Nodes[*at.PoolHost] != n.ID):
		return "it is not the requested node of the pool " + at.Pool
	case len(pool.Nodes) > 0 && !slices.Contains(pool.Nodes, n.ID):
		return "the node is not in the pool " + at.Pool
	}
	return ""
}

// placed notes that a placement was made.
func (p *peOf) placed(pe *berth.Object) {
	p.uses[pe.UID] = peUse{true, pe.PE.Launch}
}

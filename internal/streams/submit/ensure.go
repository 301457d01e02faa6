package submit

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"berth"
	"berth/internal/schedule/place"
	"berth/internal/state"
	"berth/internal/streams/placement"
)

// poolRetry is how often a pool is tried again if its nodes exist but are down
// or in other pools.
const poolRetry = 5 * time.Second

// ensure creates what is planned and missing, for the first kind with something
// missing. It reports whether it found such a kind.
func (l *jobStep) ensure() bool {
	for kind, lack := range lacking(l.snap, l.row) {
		// Better to fail before anything that others can see is created.
		if kind != berth.KindConfig && kind != berth.KindEndpoint && l.row.Phase == berth.PhaseSubmission {
			if why := impossible(l.snap, l.job); why != "" {
				l.fail("%s", why)
				return true
			}
		}
		c := &state.EnsureResources{Key: l.row.Key, UID: l.row.UID, Generation: l.row.Generation, Kind: kind, Now: l.now.UnixNano()}
		// A command is bounded; the rest is for the next step.
		for _, o := range lack[:min(len(lack), state.MaxResources)] {
			c.Names = append(c.Names, o.Name)
		}
		if kind == berth.KindHostPool && !l.findNodes(c, lack) {
			return true
		}
		l.add(c)
		return true
	}
	return false
}

// lacking returns the planned objects that are missing or outdated, by kind in
// the order of creation.
func lacking(snap *state.Snapshot, row *berth.StreamJob) func(func(string, []*berth.StreamObject) bool) {
	return func(yield func(string, []*berth.StreamObject) bool) {
		if row.Plan == nil {
			return
		}
		for _, kind := range berth.StreamKinds {
			var lack []*berth.StreamObject
			for o, r := range beside(snap, row, kind) {
				if o != nil && !asPlanned(row, o, r) {
					lack = append(lack, o)
				}
			}
			if len(lack) > 0 && !yield(kind, lack) {
				return
			}
		}
	}
}

// asPlanned reports whether the resource of a planned object, nil if there is
// none, is up to date.
func asPlanned(row *berth.StreamJob, o *berth.StreamObject, r *berth.Object) bool {
	return r != nil && r.Hash == o.Hash && r.Generation == row.Generation
}

// beside iterates over the planned objects of a kind and the existing resources
// in parallel, in order of name. One of the two is nil if only the other
// exists. Both lists are sorted already, so nothing is looked up.
func beside(snap *state.Snapshot, row *berth.StreamJob, kind string) iter.Seq2[*berth.StreamObject, *berth.Object] {
	return func(yield func(*berth.StreamObject, *berth.Object) bool) {
		planned := row.Plan.Of(kind)
		for r := range snap.ResourcesOf(row.UID, kind) {
			for len(planned) > 0 && planned[0].Name < r.Name {
				if !yield(&planned[0], nil) {
					return
				}
				planned = planned[1:]
			}
			var o *berth.StreamObject
			if len(planned) > 0 && planned[0].Name == r.Name {
				o, planned = &planned[0], planned[1:]
			}
			if !yield(o, r) {
				return
			}
		}
		// Planned after the last object there is.
		for i := range planned {
			if !yield(&planned[i], nil) {
				return
			}
		}
	}
}

// findNodes finds the nodes of the pools that a command creates, and reports
// whether it found all. Otherwise it fails the submission if they can never be
// found, or schedules another look if others hold them.
func (l *jobStep) findNodes(c *state.EnsureResources, lack []*berth.StreamObject) bool {
	given := map[berth.NodeID][]claim{} // to pools of this command
	for _, o := range lack[:len(c.Names)] {
		if r := l.snap.ResourceNamed(l.row.UID, o.Kind, o.Name); r != nil && r.Hash == o.Hash {
			c.Nodes = append(c.Nodes, r.Nodes) // only its generation changes
			continue
		}
		p := &poolSearch{snap: l.snap, job: l.job, row: l.row, spec: o.Pool, given: []map[berth.NodeID][]claim{l.given, given}}
		nodes, why, wait := p.find()
		switch {
		case why != "" && wait || why != "" && l.row.Phase != berth.PhaseSubmission:
			l.wake(l.now.Add(poolRetry))
			return false
		case why != "":
			l.fail("%s", why)
			return false
		}
		for _, id := range nodes {
			given[id] = append(given[id], claim{l.row.UID, o.Pool.Mode == berth.PoolExclusive})
		}
		c.Nodes = append(c.Nodes, nodes)
	}
	for id, list := range given { // only now: a pool that waits leaves its nodes to others
		l.given[id] = append(l.given[id], list...)
	}
	return true
}

// claim is a node that a job gets in this step.
type claim struct {
	owner berth.UID
	alone bool
}

// poolSearch finds the nodes of one host pool.
type poolSearch struct {
	snap  *state.Snapshot
	job   *berth.Job
	row   *berth.StreamJob
	spec  *berth.HostPoolSpec        // of the pool that looks for nodes
	given []map[berth.NodeID][]claim // in this step
}

// find returns the pool's nodes in order; nil if the pool is dynamic: all nodes
// that have its tags at any time. If it cannot find nodes, it returns why, and
// whether to wait because matching nodes exist but are down or in other pools.
func (p *poolSearch) find() (nodes []berth.NodeID, why string, wait bool) {
	match, why := p.matching()
	if why != "" {
		return nil, why, false
	}
	alone := p.spec.Mode == berth.PoolExclusive
	// A shared pool without size or hosts reserves nothing: any node that
	// matches is in it.
	if len(p.spec.Hosts) == 0 && p.spec.Size == 0 && !alone {
		return nil, "", false
	}
	var free []*berth.Node
	up, others := 0, ""
	for _, n := range match {
		if len(p.spec.Hosts) == 0 && n.Status == berth.NodeDown { // it may come back
			continue
		}
		up++
		if why := p.unavailable(n, alone); why == "" {
			free = append(free, n)
		} else if others == "" {
			others = "; node " + n.Name + " " + why
		}
	}
	// Without a size the pool takes all that are up.
	want := p.spec.Size
	if want == 0 {
		want = max(up, 1)
	}
	// Too few match: only a change of the job or of nodes helps. Too few are
	// free: waiting may.
	if len(match) < want {
		return nil, fmt.Sprintf("host pool %q: needs %d nodes, but %d match", p.spec.Name, want, len(match)), false
	}
	if len(free) < want {
		return nil, fmt.Sprintf("host pool %q: needs %d nodes, but of %d that match %d are up and free%s", p.spec.Name, want, len(match), len(free), others), true
	}
	for _, n := range p.ownFirst(free)[:want] {
		nodes = append(nodes, n.ID)
	}
	return nodes, "", false
}

// matching returns the nodes that the pool can use: the hosts it names, in that
// order, or the nodes with its tags by name.
func (p *poolSearch) matching() (out []*berth.Node, why string) {
	if len(p.spec.Hosts) > 0 {
		for _, h := range p.spec.Hosts {
			n := host(p.snap, h)
			if n == nil {
				return nil, fmt.Sprintf("host pool %q: no node has the name or address %q", p.spec.Name, h)
			}
			if !slices.Contains(out, n) {
				out = append(out, n)
			}
		}
		return out, ""
	}
	for n := range p.snap.Nodes() {
		if place.Serves(p.job, n) && placement.Tagged(n, p.spec.Tags) {
			out = append(out, n)
		}
	}
	// By name, so that a pool is given the same nodes each time.
	slices.SortFunc(out, func(a, b *berth.Node) int {
		if c := strings.Compare(a.Name, b.Name); c != 0 {
			return c
		}
		return slices.Compare(a.ID[:], b.ID[:])
	})
	return out, ""
}

// host returns the node with that name or address, nil if none exists.
func host(snap *state.Snapshot, name string) *berth.Node {
	for n := range snap.Nodes() {
		if placement.IsHost(n, name) {
			return n
		}
	}
	return nil
}

// unavailable returns why a pool cannot have a node now, "" if it can. A node
// in an exclusive pool is in no assigned pool of another job, whichever came
// first: otherwise a job could no longer be launched where it was placed.
func (p *poolSearch) unavailable(n *berth.Node, alone bool) string {
	h := p.snap.Holder(n.ID)
	if h != nil && (h.Owner != p.row.UID || alone && h.Name != p.spec.Name) {
		return fmt.Sprintf("is in the exclusive pool %q of job %q", h.Name, h.Job.ID)
	}
	// What this step gives to other pools is not in the snapshot yet.
	for _, given := range p.given {
		for _, c := range given[n.ID] {
			if mine := c.owner == p.row.UID; mine && alone && c.alone || !mine && (alone || c.alone) {
				return "is being given to another pool"
			}
		}
	}
	if !alone || h != nil {
		return ""
	}
	if r := p.snap.GivenTo(n.ID, p.row.UID); r != nil {
		return fmt.Sprintf("is in the pool %q of job %q", r.Name, r.Job.ID)
	}
	for a := range p.snap.AllocsOn(n.ID) {
		if a.Rest().PE != nil && a.Occupies() && a.Job.UID != p.row.UID {
			return "runs " + a.Name()
		}
	}
	return ""
}

// poolProblem returns which host pool of a job finds no nodes and who has them,
// "" if none is waiting.
func poolProblem(snap *state.Snapshot, row *berth.StreamJob) string {
	for kind, lack := range lacking(snap, row) {
		if kind != berth.KindHostPool {
			continue
		}
		for _, o := range lack {
			p := &poolSearch{snap: snap, job: snap.PlannedJob(row), row: row, spec: o.Pool}
			if _, why, _ := p.find(); why != "" {
				return why
			}
		}
	}
	return ""
}

// ownFirst sorts nodes on which the job already runs first, so that a recreated
// pool gets back what it had. Named hosts keep their order.
func (p *poolSearch) ownFirst(nodes []*berth.Node) []*berth.Node {
	if len(p.spec.Hosts) > 0 {
		return nodes
	}
	// Nodes on which the job runs already save it a move.
	own := map[berth.NodeID]bool{}
	for a := range p.snap.AllocsOf(p.row.Key) {
		if a.Job.UID == p.row.UID && a.Occupies() {
			own[a.NodeID] = true
		}
	}
	slices.SortStableFunc(nodes, func(a, b *berth.Node) int {
		switch {
		case own[a.ID] == own[b.ID]:
			return 0
		case own[a.ID]:
			return -1
		}
		return 1
	})
	return nodes
}

// impossible returns why a processing element can never be placed, "" if it may
// be: no node has the name it asks for. Contradictions were refused when the
// job was registered; full nodes may have capacity later.
func impossible(snap *state.Snapshot, job *berth.Job) string {
	for _, g := range job.TaskGroups {
		if g.Stream == nil {
			continue
		}
		if h := g.Stream.Placement.Host; h != "" && host(snap, h) == nil {
			return fmt.Sprintf("group %q: placement host: no node has the name or address %q", g.Name, h)
		}
	}
	return ""
}

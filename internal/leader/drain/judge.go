package drain

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"berth"
)

// judge lets as many allocations of a job leave as the migrate blocks of its
// groups allow now.
func (s *step) judge(j *job) {
	job, _ := j.now(s.snap)
	if job == nil || job.Stop {
		return // the scheduler stops what is left
	}
	moves := map[string][]move{}
	// The order of nodes is fixed, so that every run judges alike.
	for _, d := range slices.SortedFunc(maps.Values(j.nodes), func(a, b *node) int { return cmp.Compare(a.Number, b.Number) }) {
		for _, a := range d.moves[j.incarnation] {
			moves[a.Group.Name] = append(moves[a.Group.Name], move{a, d})
		}
	}
	var byGroup map[string][]*berth.Alloc
	for _, spec := range job.TaskGroups {
		list := moves[spec.Name]
		if len(list) == 0 {
			continue
		}
		// All allocations of the job are needed, but only if something may
		// move.
		if byGroup == nil {
			byGroup = s.allocsOf(j.incarnation)
		}
		g := group{step: s, spec: spec, rules: spec.Migration(), job: j, slots: make([]slot, spec.Count)}
		g.survey(byGroup[spec.Name])
		g.move(list)
	}
}

// move is an allocation that must leave a node.
type move struct {
	*berth.Alloc
	from *node
}

// allocsOf returns the allocations of a job by group.
func (s *step) allocsOf(in incarnation) map[string][]*berth.Alloc {
	out := map[string][]*berth.Alloc{}
	for a := range s.snap.AllocsOf(in.key) {
		if a.Job.UID == in.uid && !a.Orphaned {
			out[a.Group.Name] = append(out[a.Group.Name], a)
		}
	}
	return out
}

// group is a group with allocations that must leave.
type group struct {
	*step
	spec  *berth.TaskGroup
	rules berth.MigrateStrategy
	job   *job
	// The group's count is the number of slots.
	slots []slot // by index
	// A canary runs beside the instance of its index and does not replace it, so
	// it has a slot of its own. There are no such slots until one is needed.
	canaries []slot // by index
}

// slot is what was found for one index of the group: for its instance, or for
// its canary.
type slot struct {
	leaves bool         // an allocation of this slot was told to leave and has not left
	stays  bool         // an allocation of this slot is up and was not told to leave
	waits  bool         // an allocation of this slot is on a draining node and was not told to leave
	moved  bool         // an allocation of this slot was told to leave, and may have left
	newest *berth.Alloc // newest allocation of this slot
}

// slotOf returns the slot of an allocation. It is nil if the scheduler stops the
// allocation in any case: its index is not below the count, or it is a canary of
// a deployment that has ended.
func (g *group) slotOf(a *berth.Alloc) *slot {
	m := a.Rest()
	switch {
	case int64(a.Index) >= int64(len(g.slots)):
		return nil
	case m.DeploymentStatus == nil || !m.DeploymentStatus.Canary:
		return &g.slots[a.Index]
	}
	if d := g.snap.Deployment(m.DeploymentID); d == nil || !d.Active() {
		return nil
	}
	if g.canaries == nil {
		g.canaries = make([]slot, len(g.slots))
	}
	return &g.canaries[a.Index]
}

// survey finds out the state of each slot of the group.
func (g *group) survey(allocs []*berth.Alloc) {
	for _, a := range allocs {
		s := g.slotOf(a)
		if s == nil {
			continue
		}
		if s.newest == nil || byAge(s.newest, a) < 0 {
			s.newest = a
		}
		s.moved = s.moved || a.Rest().Migrate
		if !a.Live() {
			continue
		}
		d := g.c.nodes[a.NodeID]
		switch {
		case d != nil && (d.forced || a.Rest().Migrate):
			s.leaves, s.moved = true, true
		default:
			s.stays = g.up(a) || s.stays
			s.waits = d != nil || s.waits
		}
	}
}

// busy reports whether a slot counts as being moved: nothing in it serves, or its
// old allocation has not ended. A failed allocation without a replacement is
// waited for only as long as for a replacement. An index without an allocation
// is not waited for if no evaluation looks for a node, because a deployment
// failed or is paused.
func (g *group) busy(s *slot, since time.Time) bool {
	switch a := s.newest; {
	case s.leaves:
		return true
	case s.stays, s.waits:
		return false
	case a == nil:
	case a.Live():
		return true
	case a.Wanted() && a.Ended():
		return !g.passed(g.changed(a).Add(g.rules.HealthyDeadline))
	default:
		since = g.changed(a)
	}
	return !g.passed(since.Add(g.rules.HealthyDeadline)) || g.awaited(since)
}

// awaited reports whether an evaluation of the job is looking for nodes or is
// blocked. It can end without a placement and without a change of a watched
// row, so the check is repeated, at times that do not depend on the leader.
func (g *group) awaited(since time.Time) bool {
	for e := range g.snap.EvalsOf(g.job.key) {
		if !e.Terminal() {
			every := max(g.rules.HealthyDeadline, time.Minute)
			g.passed(since.Add((g.now.Sub(since)/every + 1) * every))
			return true
		}
	}
	return false
}

// move lets allocations leave, first those of slots in which nothing serves.
func (g *group) move(list []move) {
	var next []move
	for _, m := range list {
		s := g.slotOf(m.Alloc)
		switch {
		case s == nil: // the scheduler stops it
		case g.rules.StartFirst && (m.from.forced || m.Rest().Migrate && s.stays): // no time, or its replacement is up
			g.letGo(m, true)
			s.leaves = m.from.forced
		case m.Rest().Migrate:
		case m.from.forced:
			g.letGo(m, false)
		default:
			next = append(next, m)
		}
	}
	// What is left shares MaxParallel with the moves in progress.
	free, since := g.rules.MaxParallel, time.Time{}
	for _, m := range next {
		if at := m.from.DrainStrategy.StartedAt; at.After(since) {
			since = at
		}
	}
	for i := range g.slots {
		if g.busy(&g.slots[i], since) {
			free--
		}
	}
	for i := range g.canaries {
		// The count asks for no canaries: one is waited for only because a drain
		// moved it.
		if s := &g.canaries[i]; s.moved && g.busy(s, since) {
			free--
		}
	}
	// Moving what is not served interrupts nobody.
	slices.SortStableFunc(next, func(a, b move) int {
		return cmp.Or(first(!g.slotOf(a.Alloc).stays, !g.slotOf(b.Alloc).stays), byAge(a.Alloc, b.Alloc))
	})
	for _, m := range next[:max(0, min(free, len(next)))] {
		g.letGo(m, false)
	}
}

// letGo lets an allocation leave. If that is refused, the job is judged again.
func (g *group) letGo(m move, stop bool) {
	g.job.changed = true
	g.send(m.from, m.Alloc, stop)
}

// first compares for a sort that puts what is true before what is false.
func first(a, b bool) int {
	switch {
	case a && !b:
		return -1
	case b && !a:
		return 1
	}
	return 0
}

// changed returns since when an allocation is as it is.
func (g *group) changed(a *berth.Alloc) time.Time {
	return g.c.changed.Of(a.ID, time.Unix(0, a.ModifyTime), g.now)
}

// up reports whether an allocation serves: its agent reports it healthy, or, if
// no agent reports health, it has run for long enough. After its healthy
// deadline it counts as up in any case.
func (g *group) up(a *berth.Alloc) bool {
	m := a.Rest()
	if s := m.DeploymentStatus; s != nil && s.Healthy != nil && *s.Healthy && a.Client == berth.ClientRunning {
		return true
	}
	if a.Client == berth.ClientRunning && !g.reported(a) && g.passed(g.changed(a).Add(g.rules.MinHealthyTime)) {
		return true
	}
	return a.Client != berth.ClientUnknown && g.passed(g.c.created.Of(a.ID, time.Unix(0, a.CreateTime), g.now).Add(g.rules.HealthyDeadline))
}

// reported reports whether an agent reports the health of an allocation, so
// that the report is waited for. That is so if its group has service checks
// that count, and it belongs to a deployment or replaces another allocation.
func (g *group) reported(a *berth.Alloc) bool {
	m := a.Rest()
	if s := m.DeploymentStatus; s != nil && s.Healthy != nil {
		return true
	}
	how := berth.HealthTaskStates
	switch {
	case !m.DeploymentID.IsZero() && a.Group.Update != nil:
		how = a.Group.Update.HealthCheck
	case !m.Previous.IsZero() && a.Group.Migrate != nil:
		how = a.Group.Migrate.HealthCheck
	}
	return how != berth.HealthTaskStates && checked(a.Group)
}

// checked reports whether the services of a group have checks.
func checked(g *berth.TaskGroup) bool {
	has := func(s berth.Service) bool { return len(s.Checks) > 0 }
	for _, t := range g.Tasks {
		if slices.ContainsFunc(t.Services, has) {
			return true
		}
	}
	return slices.ContainsFunc(g.Services, has)
}

// passed reports whether a time has come. If not, the job is judged again then.
func (g *group) passed(at time.Time) bool {
	if !g.now.Before(at) {
		return true
	}
	if g.job.again.IsZero() || at.Before(g.job.again) {
		g.job.again = at
	}
	g.wake(at)
	return false
}

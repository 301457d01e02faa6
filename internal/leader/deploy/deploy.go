// Package deploy brings deployments to their ends. It asks for the next step
// when the health of a deployment's allocations changed, promotes canaries
// where the job says so, and fails deployments that miss their deadlines. It
// places and stops nothing itself: the scheduler decides what a step is and
// records when it was made, and the agents decide what is healthy.
//
// One controller watches all deployments. Everything it remembers can be
// derived from the state, which holds every deadline, so a new leader continues
// where the last one stopped. A step costs what changed: it looks at the
// deployments that changed since the last one and at those whose time has come.
package deploy

import (
	"container/heap"
	"maps"
	"slices"
	"time"

	"berth"
	"berth/internal/leader/since"
	"berth/internal/state"
)

const (
	// pace is the shortest time between two steps of one deployment, so that
	// health changes in between are handled together.
	pace = 250 * time.Millisecond
	// retry is when a deployment is looked at again after a command about it,
	// in case that was refused.
	retry = time.Second
	// recheck is how long a deployment without changes is not looked at.
	recheck = 5 * time.Minute
	// patience is how long a scheduler has to cancel a deployment that its job
	// no longer needs.
	patience = time.Minute
	// grace is added to an allocation's healthy deadline, because its agent
	// starts counting when it first sees the allocation.
	grace = time.Minute
)

// Controller watches the active deployments.
type Controller struct {
	seen    uint64 // state index up to which changes were looked at
	watches map[berth.DeploymentID]*watch
	alarms  alarms
}

// watch is what is remembered of one deployment.
type watch struct {
	id            berth.DeploymentID
	at            time.Time                   // when it is looked at again at the latest
	place         int                         // in alarms
	stepped       time.Time                   // when its last step was asked for
	nextSearch    time.Time                   // when its allocations are next searched for ones without a health report
	progress      map[string]deadline         // by group
	since         since.Memory[berth.AllocID] // the zero ID is the deployment
	obsoleteSince time.Time                   // when it was first seen that its job no longer needs it; zero if it does
}

// New returns the controller of a term.
func New() *Controller { return &Controller{watches: map[berth.DeploymentID]*watch{}} }

// Step implements leader.Controller.
func (c *Controller) Step(snap *state.Snapshot, now time.Time) (do []state.Command, again time.Time) {
	l := &look{Snapshot: snap, now: now}
	for d := range snap.ActiveDeployments(c.seen) {
		c.look(l, d)
	}
	c.seen = snap.Index
	for len(c.alarms) > 0 && !c.alarms[0].at.After(now) {
		w := c.alarms[0]
		if d := snap.Deployment(w.id); d != nil && d.Active() {
			c.look(l, d)
			continue
		}
		heap.Pop(&c.alarms)
		delete(c.watches, w.id)
	}
	if len(l.steps) > 0 {
		l.do = append(l.do, &state.StepDeployments{IDs: l.steps, Now: now.UnixNano()})
	}
	if len(c.alarms) > 0 {
		again = c.alarms[0].at
	}
	return l.do, again
}

// look looks at one deployment and sets its alarm to a time in the future.
func (c *Controller) look(l *look, d *berth.Deployment) {
	w := c.watches[d.ID]
	if w == nil {
		w = &watch{id: d.ID, at: l.now.Add(recheck)}
		c.watches[d.ID] = w
		heap.Push(&c.alarms, w)
	}
	l.again = l.now.Add(recheck)
	l.deployment(w, d)
	w.at = l.again
	heap.Fix(&c.alarms, w.place)
}

// look is one look at some deployments.
type look struct {
	*state.Snapshot
	now   time.Time
	do    []state.Command
	steps []berth.DeploymentID
	again time.Time // when the current deployment is due
}

// wake makes the current deployment due at that time, if it is not due earlier.
func (l *look) wake(at time.Time) {
	at = l.now.Add(at.Sub(l.now)) // so that it stays as far away if the clock is put back
	if at.After(l.now) && at.Before(l.again) {
		l.again = at
	}
}

// propose adds a command, and looks again after retry in case it is refused or
// lost.
func (l *look) propose(c state.Command) {
	l.do = append(l.do, c)
	l.wake(l.now.Add(retry))
}

// deployment decides about one deployment.
func (l *look) deployment(w *watch, d *berth.Deployment) {
	j := l.Job(d.Key())
	if why := obsolete(j, d); why != "" {
		l.abandoned(w, d, why)
		return
	}
	w.obsoleteSince = time.Time{}
	switch {
	case d.Status != berth.DeploymentRunning:
	case l.fails(w, d, j), l.failsFirst(d, j):
	case l.promotes(d):
	default:
		l.markSilent(w, d, j)
		l.step(w, d)
	}
}

// obsolete returns why a job no longer needs a deployment, or "" if it does.
func obsolete(j *berth.Job, d *berth.Deployment) string {
	switch {
	case j == nil || j.UID != d.JobUID || j.Stop:
		return berth.DeploymentJobStopped
	case j.Version != d.JobVersion:
		return berth.DeploymentJobReplaced
	}
	return ""
}

// abandoned cancels a deployment that its job no longer needs, if the scheduler
// has not done so in time.
func (l *look) abandoned(w *watch, d *berth.Deployment, why string) {
	if w.obsoleteSince.IsZero() {
		w.obsoleteSince = l.now
	}
	if due := w.obsoleteSince.Add(patience); l.now.Before(due) {
		l.wake(due)
		return
	}
	l.propose(&state.SetDeploymentStatus{ID: d.ID, Status: berth.DeploymentCancelled, Description: why, Now: l.now.UnixNano()})
}

// fails fails a deployment if a group missed its progress deadline, or if a
// group without a deadline has an unhealthy allocation.
func (l *look) fails(w *watch, d *berth.Deployment, j *berth.Job) bool {
	for _, name := range slices.Sorted(maps.Keys(d.TaskGroups)) {
		s, why := d.TaskGroups[name], ""
		switch {
		case s.ProgressDeadline == 0:
			if s.UnhealthyAllocs > 0 {
				why = berth.DeploymentUnhealthy
			}
		case s.PlacedAllocs == 0 && !j.PerNode() || l.ready(d, name): // nothing is placed yet, or only the promotion is missing
		case l.now.Before(w.progressBy(j, name, s, l.now)):
			l.wake(w.progressBy(j, name, s, l.now))
		case !l.complete(d, name):
			why = berth.DeploymentNoProgress
		}
		if why != "" {
			l.propose(&state.FailDeployment{ID: d.ID, Description: why, Now: l.now.UnixNano()})
			return true
		}
	}
	return false
}

// failsFirst fails a deployment if an instance of a group that runs once, before
// the others, failed for good: they would wait without end. While an evaluation
// may still replace the instance, it looks again later.
func (l *look) failsFirst(d *berth.Deployment, j *berth.Job) bool {
	if l.FailedFirst(j) == nil {
		return false
	}
	for e := range l.EvalsOf(d.Key()) {
		switch {
		case e.Terminal():
		case e.WaitUntil > l.now.UnixNano():
			l.wake(time.Unix(0, e.WaitUntil).Add(retry))
			return false
		default:
			l.wake(l.now.Add(retry))
			return false
		}
	}
	l.propose(&state.FailDeployment{ID: d.ID, Description: berth.DeploymentFirst, Now: l.now.UnixNano()})
	return true
}

// deadline is when a group must have made progress: the stored time, or, where
// the clock was put back so that this is further away than it was meant to be, as
// long from then on as it was meant to be.
type deadline struct{ stored, due time.Time }

// progressBy is when a group must have made progress. The next batch of a
// system job begins after the stagger time, however the batch before it fares.
func (w *watch) progressBy(j *berth.Job, group string, s *berth.DeploymentState, now time.Time) time.Time {
	stored, meant := s.RequireProgressBy, s.ProgressDeadline
	if g := j.Group(group); j.PerNode() && s.Past() && g != nil && g.Update != nil {
		stored, meant = stored.Add(g.Update.Stagger), meant+g.Update.Stagger
	}
	if stored.Sub(now) <= meant {
		return stored
	}
	k := w.progress[group]
	if !k.stored.Equal(stored) || k.due.Sub(now) > meant {
		if w.progress == nil {
			w.progress = map[string]deadline{}
		}
		k = deadline{stored, now.Add(meant)}
		w.progress[group] = k
	}
	return k.due
}

// ready reports whether all canaries of a group are healthy and wait for their
// promotion. There is no deadline for that.
func (l *look) ready(d *berth.Deployment, group string) bool {
	s := d.TaskGroups[group]
	return !s.Past() && s.HealthyAllocs >= s.DesiredCanaries && l.HealthyCanaries(d, group) >= s.DesiredCanaries
}

// complete reports whether all instances of a group belong to the deployment
// and are healthy.
func (l *look) complete(d *berth.Deployment, group string) bool {
	s := d.TaskGroups[group]
	if !s.Past() || s.HealthyAllocs < s.DesiredTotal { // the counts include ended allocations
		return false
	}
	n := 0
	for a := range l.AllocsOf(d.Key()) {
		if a.Job.PerNode() && !l.takesAllocs(a.NodeID) {
			continue // the total does not count it either
		}
		if m := a.Rest(); m.DeploymentID == d.ID && a.Live() && a.Group.Name == group && m.DeploymentStatus != nil {
			if ok := m.DeploymentStatus.Healthy; ok != nil && *ok {
				n++
			}
		}
	}
	return n >= s.DesiredTotal
}

// takesAllocs reports whether a node takes allocations.
func (l *look) takesAllocs(id berth.NodeID) bool {
	n := l.Node(id)
	return n != nil && n.Ready()
}

// promotes promotes the groups with auto-promotion, once all canaries of all of
// them are healthy.
func (l *look) promotes(d *berth.Deployment) bool {
	var groups []string
	for _, name := range slices.Sorted(maps.Keys(d.TaskGroups)) {
		switch s := d.TaskGroups[name]; {
		case s.Past() || !s.AutoPromote:
		case l.ready(d, name):
			groups = append(groups, name)
		default:
			return false
		}
	}
	if len(groups) == 0 {
		return false
	}
	l.propose(&state.PromoteDeployment{ID: d.ID, Groups: groups, Now: l.now.UnixNano()})
	return true
}

// step asks for the next step if health changed since the last.
func (l *look) step(w *watch, d *berth.Deployment) {
	if d.StepIndex >= d.HealthIndex {
		return
	}
	if due := w.stepped.Add(pace); l.now.Before(due) {
		l.wake(due)
		return
	}
	w.stepped = l.now
	l.steps = append(l.steps, d.ID)
	l.wake(l.now.Add(retry))
}

// markSilent marks allocations as unhealthy that have reported no health for
// too long: their agents would have, had they been able to. It also finds
// allocations that will never report.
func (l *look) markSilent(w *watch, d *berth.Deployment, j *berth.Job) {
	// Going through all allocations is expensive, so it is done only when a
	// deadline can have passed.
	if w.nextSearch.IsZero() {
		w.nextSearch = w.since.Of(berth.AllocID{}, time.Unix(0, d.CreateTime), l.now).Add(longest(j))
	}
	if l.now.Before(w.nextSearch) {
		l.wake(w.nextSearch)
		return
	}
	w.nextSearch = l.now.Add(longest(j))
	var unhealthy []berth.AllocID
	fail := false
	for a := range l.AllocsOf(d.Key()) {
		if l.failedForGood(d, j, a) {
			l.propose(&state.FailDeployment{ID: d.ID, Description: berth.DeploymentUnhealthy, Now: l.now.UnixNano()})
			return
		}
		u := a.Group.Update
		if m := a.Rest(); m.DeploymentID != d.ID || !a.Live() || u == nil || u.HealthCheck == berth.HealthManual || m.DeploymentStatus != nil && m.DeploymentStatus.Healthy != nil {
			continue
		}
		// The deadline begins when the allocation was placed or, for one that
		// is kept, with the deployment.
		due := w.since.Of(a.ID, time.Unix(0, max(a.CreateTime, d.CreateTime)), l.now).Add(u.HealthyDeadline + grace)
		if !l.now.Before(due) {
			unhealthy = append(unhealthy, a.ID)
			fail = fail || u.ProgressDeadline == 0
		} else if due.Before(w.nextSearch) {
			w.nextSearch = due
		}
	}
	l.wake(w.nextSearch)
	if len(unhealthy) > 0 {
		l.propose(&state.SetAllocHealth{ID: d.ID, Unhealthy: unhealthy, Silent: true, Fail: fail, Now: l.now.UnixNano()})
	}
}

// failedForGood reports whether an allocation holds up a deployment that has no
// progress deadline to end it. Such an allocation failed for good, though it
// may have been healthy before, and nothing will replace it. For a system job
// it can also be one of an earlier version; for a service the rollout replaces
// those.
func (l *look) failedForGood(d *berth.Deployment, j *berth.Job, a *berth.Alloc) bool {
	s, g := d.TaskGroups[a.Group.Name], j.Group(a.Group.Name)
	switch {
	case a.Client != berth.ClientFailed || !a.Wanted() || a.Orphaned || a.Job.UID != d.JobUID:
		return false
	case s == nil || s.ProgressDeadline > 0 || g == nil || int64(a.Index) >= int64(g.Count):
		return false
	case a.Rest().DeploymentID != d.ID && !(j.PerNode() && s.Past()), j.PerNode() && !l.takesAllocs(a.NodeID):
		return false
	}
	for e := range l.EvalsOf(d.Key()) {
		if !e.Terminal() {
			return false // it may replace it
		}
	}
	return true
}

// longest is how long an allocation of any group of a job may go without a
// health report.
func longest(j *berth.Job) time.Duration {
	var d time.Duration
	for _, g := range j.TaskGroups {
		if g.Update != nil {
			d = max(d, g.Update.HealthyDeadline)
		}
	}
	return d + grace
}

// alarms is a heap of watches by the time at which they are due.
type alarms []*watch

// Len implements sort.Interface.
func (a alarms) Len() int { return len(a) }

// Less implements sort.Interface.
func (a alarms) Less(i, j int) bool { return a[i].at.Before(a[j].at) }

// Swap implements sort.Interface.
func (a alarms) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].place, a[j].place = i, j
}

// Push implements heap.Interface.
func (a *alarms) Push(x any) { w := x.(*watch); w.place = len(*a); *a = append(*a, w) }

// Pop implements heap.Interface.
func (a *alarms) Pop() any {
	old := *a
	w := old[len(old)-1]
	*a = old[:len(old)-1]
	return w
}

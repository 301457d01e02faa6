package histories

import (
	"fmt"
	"slices"
	"testing/synctest"
	"time"

	"berth"
	"berth/internal/cron"
	_ "berth/internal/onethread"
	"berth/internal/state"
)

// What changes jobs over time: deployments and who looks after them, drains,
// launches, dispatches, versions and counts.

// Jobs that run nothing themselves have names of their own: what a job is to its
// relatives cannot change.
var (
	cronKeys = []berth.JobKey{{Namespace: berth.DefaultNamespace, ID: "cron0"}, {Namespace: berth.DefaultNamespace, ID: "cron1"}}
	callKey  = berth.JobKey{Namespace: berth.DefaultNamespace, ID: "call"}
)

// family is the names of jobs that run nothing themselves.
var family = append(slices.Clone(cronKeys), callKey)

// crons says when which periodic job is due.
var crons = map[berth.JobID]string{"cron0": "*/20 * * * * * *", "cron1": "*/30 * * * * * *"}

// change lets something happen that changes a job over time.
func (h *history) change() bool {
	switch h.chance.IntN(18) {
	case 0, 1, 2, 3:
		return h.lookAfter()
	case 4, 5, 6:
		return h.drain()
	case 7:
		return h.force()
	case 8, 9:
		return h.dispatch()
	case 10:
		return h.scale()
	case 11:
		return h.revert()
	case 12, 13:
		return h.stopAlloc()
	case 14, 15:
		return h.goodWhile()
	}
	return h.registerFamily()
}

// goodWhile lets agents do as they are told for a while, and what they run be
// well, so that some deployments succeed, and some canaries are ready for people.
func (h *history) goodWhile() bool {
	h.tell("a good while")
	minded := h.chance.IntN(2) == 0
	for range 3 + h.chance.IntN(8) {
		time.Sleep(5 * time.Second)
		synctest.Wait()
		h.giveUp()
		if h.obey(true); minded {
			h.mind()
		}
		if h.failed() {
			return false
		}
	}
	return true
}

// registerFamily registers a job that has children.
func (h *history) registerFamily() bool {
	k := family[h.chance.IntN(len(family))]
	j := h.job(k, berth.TypeBatch)
	j.TaskGroups = j.TaskGroups[:1]
	j.TaskGroups[0].Count = 1
	if k == callKey {
		j.ParameterizedJob = &berth.ParameterizedConfig{Payload: berth.PayloadOptional}
	} else {
		j.Periodic = &berth.PeriodicConfig{
			Enabled: h.chance.IntN(5) > 0, Spec: crons[k.ID], SpecType: "cron", ProhibitOverlap: h.chance.IntN(2) == 0, TimeZone: "UTC",
		}
	}
	h.tell("register %s, periodic %+v", k.ID, j.Periodic)
	return h.stage(&state.RegisterJob{Job: j, Now: now()})
}

// force lets a user launch a periodic job now.
func (h *history) force() bool {
	k := cronKeys[h.chance.IntN(len(cronKeys))]
	if j := h.term.log.Tip().Job(k); j == nil || j.Stop {
		return false
	}
	h.tell("force %s", k.ID)
	at := now()
	h.mu.Lock()
	h.forced[berth.PeriodicID(k.ID, time.Unix(0, at))] = true
	h.mu.Unlock()
	return h.stage(&state.LaunchPeriodic{Key: k, Due: at, Force: true, Eval: h.seedOf(berth.TriggerPeriodicJob), Now: at})
}

// dispatch makes a child of a parameterized job, with a token or without.
func (h *history) dispatch() bool {
	if h.term.log.Tip().Job(callKey) == nil {
		return false
	}
	seed := h.seedOf(berth.TriggerJobRegister)
	c := &state.DispatchJob{
		Key: callKey, Child: callKey.ID + berth.JobID(berth.DispatchInfix+seed.ID.Short()), Payload: []byte("drawn"),
		Token: []string{"", "a", "b", "c"}[h.chance.IntN(4)], Eval: seed, Now: now(),
	}
	if c.Token != "" && h.term.log.Tip().ChildByToken(callKey, c.Token) != nil {
		h.took(tokenAgain)
	} else {
		h.took(dispatched)
	}
	h.mu.Lock()
	h.tokens[c.Child] = c.Token
	h.mu.Unlock()
	h.tell("dispatch %s with the token %q", c.Child, c.Token)
	return h.stage(c)
}

func (h *history) scale() bool {
	k := h.key()
	j := h.term.log.Tip().Job(k)
	if j == nil || j.Stop || j.PerNode() {
		return false
	}
	c := &state.ScaleJob{
		Key: k, Group: j.TaskGroups[h.chance.IntN(len(j.TaskGroups))].Name, Change: true, Count: int64(h.chance.IntN(5)),
		Eval: h.seedOf(berth.TriggerJobScaling), Now: now(),
	}
	h.tell("scale %s of %s to %d", c.Group, k.ID, c.Count)
	return h.stage(c)
}

// revert lets a job go back to one of its versions.
func (h *history) revert() bool {
	k := h.key()
	j := h.term.log.Tip().Job(k)
	if j == nil || j.Version == 0 {
		return false
	}
	c := &state.RevertJob{Key: k, Version: j.Version - 1 - uint64(h.chance.IntN(int(min(j.Version, 3)))), Eval: h.seedOf(berth.TriggerJobRegister), Now: now()}
	h.tell("revert %s to version %d", k.ID, c.Version)
	return h.stage(c)
}

// stopAlloc lets a user stop an allocation, which is placed again.
func (h *history) stopAlloc() bool {
	var live []*berth.Alloc
	s := h.term.log.Tip()
	for n := range s.Nodes() {
		live = append(live, h.allocsOn(s, n)...)
	}
	if len(live) == 0 {
		return false
	}
	a := live[h.chance.IntN(len(live))]
	h.tell("stop allocation %s of %s", a.ID.Short(), a.Name())
	return h.stage(&state.StopAlloc{ID: a.ID, Eval: h.seedOf(berth.TriggerAllocStop), Now: now()})
}

// drain lets an operator begin a drain, or end one before its time.
func (h *history) drain() bool {
	n := h.someNode()
	if n == nil {
		return false
	}
	busy := 0
	for x := range h.term.log.Tip().Draining() {
		if busy++; h.chance.IntN(2) == 0 {
			n = x
		}
	}
	c := &state.UpdateDrain{ID: n.ID, Seed: h.id(), Now: now()}
	switch {
	case n.Draining() && h.chance.IntN(3) > 0, busy >= 2:
		c.MarkEligible = h.chance.IntN(2) == 0
	case !n.Draining() && n.SchedulingEligibility == berth.NodeIneligible && h.chance.IntN(2) == 0:
		return h.stage(&state.SetNodeEligibility{ID: n.ID, Eligibility: berth.NodeEligible, Seed: h.id(), Now: now()})
	default:
		c.Spec = &berth.DrainSpec{
			Deadline:         []time.Duration{-1, 0, 30 * time.Second, 2 * time.Minute}[h.chance.IntN(4)],
			IgnoreSystemJobs: h.chance.IntN(3) == 0,
		}
		h.mu.Lock()
		h.drains[n.ID] = append(h.drains[n.ID], *c.Spec)
		h.mu.Unlock()
	}
	h.tell("drain of %s: %+v", n.Name, c.Spec)
	return h.stage(c)
}

// lookAfter lets a user do something about a deployment.
func (h *history) lookAfter() bool {
	active := slices.Collect(h.term.log.Tip().ActiveDeployments(0))
	if len(active) == 0 {
		return false
	}
	d := active[h.chance.IntN(len(active))]
	if d.Status == berth.DeploymentPaused && h.chance.IntN(3) > 0 {
		return h.resume(d)
	}
	switch h.chance.IntN(8) {
	case 0, 1:
		h.tell("pause the deployment of %s", d.JobID)
		return h.stage(&state.SetDeploymentStatus{ID: d.ID, Status: berth.DeploymentPaused, Now: now()})
	case 2:
		h.tell("fail the deployment of %s", d.JobID)
		return h.stage(&state.FailDeployment{ID: d.ID, Description: berth.DeploymentUserFailed, Now: now()})
	case 3, 4, 5:
		return h.promote(d)
	}
	return h.sayHealth(d, h.chance.IntN(4) > 0)
}

func (h *history) resume(d *berth.Deployment) bool {
	h.tell("resume the deployment of %s", d.JobID)
	return h.stage(&state.SetDeploymentStatus{ID: d.ID, Status: berth.DeploymentRunning, Now: now()})
}

// promote lets a user promote all groups of a deployment whose canaries wait.
func (h *history) promote(d *berth.Deployment) bool {
	for _, s := range d.TaskGroups {
		if !s.Past() {
			h.tell("promote the deployment of %s", d.JobID)
			return h.stage(&state.PromoteDeployment{ID: d.ID, Now: now()})
		}
	}
	return false
}

// sayHealth lets a user say of the allocations of a deployment of which nobody
// said anything that they are healthy, or not.
func (h *history) sayHealth(d *berth.Deployment, healthy bool) bool {
	c := &state.SetAllocHealth{ID: d.ID, Now: now()}
	for a := range h.term.log.Tip().AllocsOf(d.Key()) {
		if a.Rest().DeploymentID == d.ID && a.Live() && a.Client == berth.ClientRunning && !judged(a) {
			if healthy {
				c.Healthy = append(c.Healthy, a.ID)
			} else {
				c.Unhealthy = append(c.Unhealthy, a.ID)
			}
		}
	}
	if len(c.Healthy)+len(c.Unhealthy) == 0 {
		return false
	}
	c.Fail = !healthy && h.chance.IntN(2) == 0
	h.tell("%s: healthy %v are %d allocations", d.JobID, healthy, len(c.Healthy)+len(c.Unhealthy))
	return h.stage(c)
}

// judged reports whether somebody said how an allocation fares.
func judged(a *berth.Alloc) bool {
	s := a.Rest().DeploymentStatus
	return s != nil && s.Healthy != nil
}

// feels adds to what an agent says of an allocation whether it is healthy.
func feels(a *berth.Alloc, u *state.AllocUpdate, healthy bool) {
	u.Deployment = &berth.AllocDeploymentStatus{Healthy: &healthy, Timestamp: time.Now().UTC()}
}

// asks reports whether an agent is to say how an allocation fares.
func asks(a *berth.Alloc) bool {
	u := a.Group.Update
	return a.Wanted() && a.Client == berth.ClientRunning && !a.Rest().DeploymentID.IsZero() && !judged(a) && (u == nil || u.HealthCheck != berth.HealthManual)
}

// update draws how a new version replaces the old one, nil for at once.
func (h *history) update() *berth.UpdateStrategy {
	if h.chance.IntN(2) == 0 {
		return nil
	}
	u := &berth.UpdateStrategy{
		MaxParallel: 1 + h.chance.IntN(2), HealthCheck: berth.HealthTaskStates, MinHealthyTime: 5 * time.Second,
		HealthyDeadline: time.Minute, ProgressDeadline: []time.Duration{0, 2 * time.Minute, 4 * time.Minute}[h.chance.IntN(3)],
		AutoRevert: h.chance.IntN(2) == 0, Stagger: 30 * time.Second,
	}
	if h.chance.IntN(6) == 0 {
		u.HealthCheck = berth.HealthManual
	}
	if h.chance.IntN(2) == 0 {
		u.Canary, u.AutoPromote = 1+h.chance.IntN(2), h.chance.IntN(2) == 0
	}
	return u
}

// migrate draws how a group leaves draining nodes.
func (h *history) migrate() *berth.MigrateStrategy {
	if h.chance.IntN(2) == 0 {
		return nil
	}
	return &berth.MigrateStrategy{
		MaxParallel: 1 + h.chance.IntN(2), HealthCheck: berth.HealthTaskStates, MinHealthyTime: 5 * time.Second,
		HealthyDeadline: time.Minute, StartFirst: h.chance.IntN(2) == 0,
	}
}

// keys returns the names of all jobs that there are, or may have left something.
func (h *history) keys(s *state.Snapshot) []berth.JobKey {
	out := slices.Clone(jobKeys)
	for j := range s.Jobs(berth.AllNamespaces, "") {
		if j.ParentID != "" {
			out = append(out, j.Key())
		}
	}
	return out
}

// calm lets agents and users do their part for a while, and nothing else happen.
func (h *history) calm() {
	h.tell("calm")
	for n := range h.term.log.Tip().Nodes() {
		if n.Status == berth.NodeInit || n.Status == berth.NodeDisconnected {
			h.stage(&state.SetNodeStatus{ID: n.ID, Status: berth.NodeReady, Seed: h.id(), Now: now()})
		}
	}
	for round := range 80 {
		time.Sleep(5 * time.Second)
		synctest.Wait()
		h.obey(true)
		h.mind()
		h.steady.Store(round > 6 && round < 40 && h.disk.stuck == 0) // a log that hangs can miss a time
		if round == 40 {
			h.retire()
		}
		if h.failed() {
			return
		}
	}
	h.obeyed = now()
}

// mind lets users do what deployments wait for, and checks that these get on.
func (h *history) mind() {
	for d := range h.term.log.Tip().ActiveDeployments(0) {
		switch {
		case d.Status == berth.DeploymentPaused:
			h.resume(d)
		case h.ripe(d):
			h.promote(d)
		default:
			for _, g := range d.TaskGroups {
				if g.HealthyAllocs+g.UnhealthyAllocs < g.PlacedAllocs {
					h.sayHealth(d, true)
					break
				}
			}
		}
		j := h.term.log.Tip().Job(d.Key())
		if j == nil || j.Stop || j.UID != d.JobUID || j.Version != d.JobVersion {
			continue // it is left behind, and will be canceled
		}
		if h.term.log.idle() && d.Status == berth.DeploymentRunning && d.StepIndex < d.HealthIndex && d.ModifyTime < now()-int64(10*time.Second) {
			h.failf("deployment %s of %s does not get on: nobody asks for its next step", d.ID.Short(), d.JobID)
		}
	}
}

// ripe reports whether the canaries of a deployment wait for people.
func (h *history) ripe(d *berth.Deployment) bool {
	ripe := false
	for name, g := range d.TaskGroups {
		if g.Past() {
			continue
		}
		if h.term.log.Tip().HealthyCanaries(d, name) < g.DesiredCanaries {
			return false
		}
		ripe = true
	}
	return ripe
}

// retire stops what would launch more.
func (h *history) retire() {
	for _, k := range family {
		if j := h.term.log.Tip().Job(k); j != nil && !j.Stop {
			h.stage(&state.StopJob{Key: k, Now: now()})
		}
	}
}

// kept checks, of each commit, what is promised of drains, launches and versions
// and is not for package invariant to know: what users asked for.
func (h *history) kept(b *state.Batch) {
	for i := range b.Changes {
		c := &b.Changes[i]
		switch x := c.New.(type) {
		case *berth.Node:
			if old, _ := c.Old.(*berth.Node); old != nil && old.Draining() && !x.Draining() {
				h.drained(b, c, x)
			}
		case *berth.Job:
			if c.Old == nil && x.ParentID != "" {
				h.launched(b, x)
				h.dispatchedOnce(b, x)
			}
		case *berth.Deployment:
			old, _ := c.Old.(*berth.Deployment)
			h.countDeployment(b, old, x)
		case *state.Summary:
			if old, _ := c.Old.(*state.Summary); old != nil && old.Launch != nil && x.Launch != nil && old.UID == x.UID {
				h.countLaunch(x, old.Launch, x.Launch)
			}
		}
	}
}

// dispatchedOnce checks that there is no other child of those that users wanted
// to be one.
func (h *history) dispatchedOnce(b *state.Batch, j *berth.Job) {
	h.mu.Lock()
	defer h.mu.Unlock()
	token := h.tokens[j.ID]
	if token == "" {
		return
	}
	for other := range b.ChildrenOf(callKey) {
		if other.ID != j.ID && other.CreateIndex < j.CreateIndex && h.tokens[other.ID] == token {
			h.found = append(h.found, fmt.Sprintf("%s was dispatched twice with the token %s: as %s and %s", callKey.ID, token, other.ID, j.ID))
		}
	}
}

var byFinish = state.NumberOf(&state.FinishDrain{})

// drained checks that a drain that is done left what operators let stay, and
// nothing else.
func (h *history) drained(b *state.Batch, c *state.Change, n *berth.Node) {
	if c.By != byFinish {
		h.took(drainsCanceled)
		return
	}
	h.took(drainsDone)
	h.mu.Lock()
	said := slices.Clone(h.drains[n.ID])
	h.mu.Unlock()
	for a := range b.AllocsOn(n.ID) {
		if a.CreateIndex > c.Index || a.Ended() || a.Client == berth.ClientUnknown {
			continue
		}
		stays := func(d berth.DrainSpec) bool { return d.IgnoreSystemJobs && a.Job.Type == berth.TypeSystem }
		if !slices.ContainsFunc(said, stays) {
			h.failf("the drain of %s is done, and %s is %s there", n.Name, a.Name(), a.Client)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.drains, n.ID)
}

// child names a launch.
type child struct {
	id     berth.JobID
	parent berth.UID
}

// launched checks that a periodic job was launched once for a time at which it is
// due, or because somebody wanted it.
func (h *history) launched(b *state.Batch, j *berth.Job) {
	spec := crons[j.ParentID]
	parent := b.Job(berth.JobKey{Namespace: j.Namespace, ID: j.ParentID})
	if spec == "" || parent == nil {
		return
	}
	h.took(launches)
	h.mu.Lock()
	forced, again := h.forced[j.ID], h.launches[child{j.ID, parent.UID}]
	h.launches[child{j.ID, parent.UID}] = true
	h.mu.Unlock()
	var due int64
	if _, err := fmt.Sscanf(string(j.ID), string(j.ParentID)+berth.PeriodicInfix+"%d", &due); err != nil {
		h.failf("%s does not say when it was due: %v", j.ID, err)
		return
	}
	every, err := cron.New(&berth.PeriodicConfig{Spec: spec, TimeZone: "UTC"})
	if err != nil {
		h.failf("%s: %v", spec, err)
		return
	}
	switch at := time.Unix(due, 0); {
	case forced:
	case again:
		h.failf("%s was launched twice for %s", j.ParentID, at.UTC())
	case !every.Next(at.Add(-time.Second)).Equal(at):
		h.failf("%s was launched for %s, when it is not due", j.ParentID, at.UTC())
	}
}

// countLaunch checks that no time is forgotten while the leader stays, and counts
// those at which nothing was launched because a child was not over.
func (h *history) countLaunch(s *state.Summary, old, new *state.Launch) {
	if new.Skips > old.Skips {
		h.took(launchesSkipped)
	}
	if old.Due == new.Due || old.From != new.From || !h.steady.Load() {
		return
	}
	every, err := cron.New(&berth.PeriodicConfig{Spec: crons[s.Key.ID], TimeZone: "UTC"})
	if err == nil && !every.Next(old.Base()).Equal(time.Unix(0, new.Due)) {
		h.failf("%s was decided for %s, and before that for %s", s.Key.ID, time.Unix(0, new.Due).UTC(), old.Base().UTC())
	}
}

func (h *history) countDeployment(b *state.Batch, old, d *berth.Deployment) {
	if old == nil {
		h.took(deploymentsBegun)
		return
	}
	for name, g := range d.TaskGroups {
		if o := old.TaskGroups[name]; o != nil && g.Promoted && !o.Promoted {
			h.took(promoted)
		}
	}
	if old.Status == d.Status {
		return
	}
	if r, ok := map[string]row{
		berth.DeploymentPaused: deploymentsPaused, berth.DeploymentFailed: deploymentsFailed,
		berth.DeploymentSuccessful: deploymentsDone, berth.DeploymentCancelled: deploymentsCancelled,
	}[d.Status]; ok {
		h.took(r)
	}
	if d.Status == berth.DeploymentFailed {
		if j := b.Job(d.Key()); j != nil && j.Version > d.JobVersion {
			h.took(reverted)
		}
	}
}

// ended checks that in the end every deployment and every drain has ended, or
// waits for what nobody does.
func (h *history) ended(s *state.Snapshot, calm bool, blocked map[berth.JobKey]waits) {
	for d := range s.ActiveDeployments(0) {
		if !h.waitsRightly(d, calm, len(blocked[d.Key()]) > 0) {
			h.failf("deployment %s of version %d of %s goes on: %s, %s", d.ID.Short(), d.JobVersion, d.JobID, d.Status, d.StatusDescription)
			for name, g := range d.TaskGroups {
				h.tell("its group %s: %+v", name, *g)
			}
			h.describe(s, d.Key())
		}
	}
	for n := range s.Draining() {
		if calm && !h.drainsRightly(s, n, blocked) {
			h.failf("the drain of %s goes on: %+v", n.Name, *n.DrainStrategy)
			h.describeNode(s, n)
			for a := range s.AllocsOn(n.ID) {
				h.describe(s, a.Key())
			}
		}
	}
}

func (h *history) waitsRightly(d *berth.Deployment, calm, blocked bool) bool {
	if d.Status == berth.DeploymentPaused {
		return !calm
	}
	for _, g := range d.TaskGroups {
		switch {
		case g.PlacedAllocs == 0 && g.DesiredTotal > 0 && (!calm || blocked): // it waits for room
			return true
		case !calm && g.Waits():
			return true
		case g.ProgressDeadline == 0 && (!calm || blocked):
			return true
		}
	}
	return false
}

// drainsRightly reports whether a drain waits for an agent that nobody plays any
// more or, if it has all the time it wants, for replacements that have no room.
func (h *history) drainsRightly(s *state.Snapshot, n *berth.Node, blocked map[berth.JobKey]waits) bool {
	for a := range s.AllocsOn(n.ID) {
		switch {
		case !n.DrainStrategy.Holds(a):
		case n.DrainStrategy.Deadline == 0 && len(blocked[a.Key()]) > 0:
			return true
		case !a.Wanted() && a.ModifyTime > h.obeyed: // agents did nothing any more when it was told to stop
			return true
		}
	}
	return false
}

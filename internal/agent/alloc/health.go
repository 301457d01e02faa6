package alloc

import (
	"encoding/json"
	"slices"
	"time"

	"berth"
	"berth/op"
)

// What counts as healthy of an allocation that a deployment, or the drain of a
// node, waits for: its tasks run, and if wanted its checks pass, for so long
// without a break. The verdict is found once and never changed; servers go on
// from it.

// healthRecord is the name under which a verdict is recorded beside the tasks'
// states. No task can have it.
const healthRecord = "/health"

// health is what is known of an allocation's health, kept over restarts of the
// agent.
type health struct {
	Deployment berth.DeploymentID // zero for one that replaces another outside of deployments
	Since      time.Time          // when it began to be watched; what is waited for counts from here at the earliest
	Healthy    *bool              `json:",omitempty"` // nil until it is decided
	At         time.Time          `json:",omitzero"`  // when it was
}

// healthPolicy says what health takes.
type healthPolicy struct {
	checks        bool // services' checks must pass, too
	min, deadline time.Duration
}

// healthPolicyOf returns what servers want to know of an allocation's health;
// nil if they do not, or have it from somebody else.
func healthPolicyOf(a *op.Alloc) *healthPolicy {
	g := a.Job.Group(a.TaskGroup)
	var p healthPolicy
	how := ""
	switch {
	case a.DeploymentStatus != nil && a.DeploymentStatus.Healthy != nil:
		return nil
	case !a.DeploymentID.IsZero() && g.Update != nil:
		how, p.min, p.deadline = g.Update.HealthCheck, g.Update.MinHealthyTime, g.Update.HealthyDeadline
	case a.DeploymentID.IsZero() && a.Job.Type == berth.TypeService && g.Once == "" && !a.PreviousAllocation.IsZero():
		m := g.Migration()
		how, p.min, p.deadline = m.HealthCheck, m.MinHealthyTime, m.HealthyDeadline
	default:
		return nil
	}
	switch how {
	case berth.HealthManual:
		return nil
	case berth.HealthChecks:
		p.checks = true
	}
	return &p
}

// vital is how one task bears on health.
type vital struct {
	task    *berth.TaskState
	sidecar bool // runs as long as the main tasks
	once    bool // runs to its end before or after them
	paused  bool // is not to run now
}

// vitalOf returns how a task with the state s bears on health. A task with a
// lifecycle that is no sidecar is one that runs to its end.
func vitalOf(t *berth.Task, s *berth.TaskState) vital {
	v := vital{task: s}
	if t.Lifecycle != nil {
		v.sidecar, v.once = t.Lifecycle.Sidecar, !t.Lifecycle.Sidecar
	}
	return v
}

// judge reports whether an allocation that is watched since a time is healthy:
// nil if that is not known yet, and when to look again then; zero is when
// something changes. passing is since when all checks pass without a break,
// zero if they do not; nil if they do not count.
func (p *healthPolicy) judge(since time.Time, tasks []vital, passing *time.Time, now time.Time) (healthy *bool, at, again time.Time) {
	yes, no := true, false
	// start is when the last thing that must run began to; whole is whether all
	// of them run now.
	start, whole := since, true
	for _, v := range tasks {
		switch s := v.task; {
		case s.State == berth.TaskDead && s.Failed:
			return &no, s.FinishedAt, time.Time{}
		case v.once || v.paused:
		case s.State == berth.TaskDead: // it should have gone on
			return &no, s.FinishedAt, time.Time{}
		case s.State != berth.TaskRunning:
			whole = false
		case s.StartedAt.After(start):
			start = s.StartedAt
		}
	}
	switch {
	case passing == nil:
	case passing.IsZero():
		whole = false
	case passing.After(start):
		start = *passing
	}
	deadline := since.Add(p.deadline)
	// Too late is unhealthy even if all is well now: a deployment has moved on.
	if whole {
		if at := start.Add(p.min); !at.After(deadline) {
			if now.Before(at) {
				return nil, time.Time{}, at
			}
			return &yes, at, time.Time{}
		}
	}
	if now.Before(deadline) {
		return nil, time.Time{}, deadline
	}
	return &no, deadline, time.Time{}
}

// watchHealth decides on the allocation's health if servers want to know it,
// and returns when to look again; zero is when something changes. Only Run's
// goroutine calls it.
func (r *Runner) watchHealth(now time.Time) (again time.Time) {
	r.mu.Lock()
	a, stopped := r.alloc, r.stop != nil
	h := r.health
	r.mu.Unlock()
	p := healthPolicyOf(a)
	if p == nil || stopped {
		return time.Time{}
	}
	// Each deployment judges the allocation once, from when it took it up.
	if h == nil || h.Deployment != a.DeploymentID {
		since := now
		if h == nil && a.CreateIndex == a.AllocModifyIndex { // its first: whenever the agent looks, it counts from when it took it up
			since = r.taken(now)
		}
		h = &health{Deployment: a.DeploymentID, Since: since}
		r.keepHealth(h)
	}
	if h.Healthy != nil {
		return time.Time{}
	}
	g := a.Job.Group(a.TaskGroup)
	// Not decided yet: gather what counts, and judge.
	var tasks []vital
	paused := r.paused()
	for name, s := range r.states() {
		v := vitalOf(g.Task(name), s)
		v.paused = slices.Contains(paused, name)
		tasks = append(tasks, v)
	}
	var passing *time.Time
	if p.checks {
		passing = r.checksPass()
	}
	decided := *h
	decided.Healthy, decided.At, again = p.judge(h.Since, tasks, passing, now)
	if decided.Healthy != nil {
		r.keepHealth(&decided)
	}
	return again
}

// taken returns when the agent took up the allocation.
func (r *Runner) taken(now time.Time) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.begun(now)
}

// keepHealth records what is known of the health. If the disk does not take
// it, it is known until the agent ends, and found again by the next.
func (r *Runner) keepHealth(h *health) {
	b, err := json.Marshal(h)
	if err == nil {
		err = r.c.Save(healthRecord, b)
	}
	if err != nil {
		r.c.Log.Warn("the health of an allocation cannot be recorded", "alloc", r.id, "error", err)
	}
	r.mu.Lock()
	r.health = h
	r.mu.Unlock()
}

// restoreHealth reads what an earlier agent recorded.
func (r *Runner) restoreHealth() {
	b := r.c.Restored[healthRecord]
	if b == nil {
		return
	}
	h := new(health)
	if err := json.Unmarshal(b, h); err != nil {
		r.c.Log.Warn("what is recorded of an allocation's health cannot be read", "alloc", r.id, "error", err)
		return
	}
	r.health = h
}

// verdict returns what servers are told of the allocation's health; nil is
// nothing. The caller holds mu.
func (r *Runner) verdict() *berth.AllocDeploymentStatus {
	h, a := r.health, r.alloc
	if h == nil || h.Healthy == nil || h.Deployment != a.DeploymentID || healthPolicyOf(a) == nil {
		return nil
	}
	s := &berth.AllocDeploymentStatus{Healthy: h.Healthy, Timestamp: h.At}
	if a.DeploymentStatus != nil {
		s.Canary, s.ModifyIndex = a.DeploymentStatus.Canary, a.DeploymentStatus.ModifyIndex
	}
	return s
}

// Package periodic launches the children of periodic jobs when they are due.
// Whether a launch time was already used, and whether a child still runs, is
// decided when the launch command is applied, so a change of leader never
// launches anything twice. Of the launch times missed during an outage, only
// the newest is made up for.
package periodic

import (
	"container/heap"
	"math/rand/v2"
	"time"

	"berth"
	"berth/internal/cron"
	"berth/internal/failpoint"
	"berth/internal/state"
)

const (
	// most is the number of launches that one step proposes. Many jobs are due
	// at midnight.
	most = 256
	// retry is when a launch is proposed again if it had no result.
	retry = 5 * time.Second
)

// Controller launches the jobs that are due. It keeps the next launch time of
// each periodic job and looks only at jobs that changed.
type Controller struct {
	chance *rand.ChaCha8
	seen   uint64    // index up to which changes are known
	last   time.Time // the latest time that the clock showed
	jobs   map[berth.JobKey]*entry
	due    queue
}

// entry is one periodic job.
type entry struct {
	key      berth.JobKey
	uid      berth.UID
	schedule *cron.Schedule
	// launch is the stored record; base and next follow from it.
	launch state.Launch
	base   time.Time // launch times after this one count
	next   time.Time
	at     int // index in the queue, -1 if it is not there
}

// New returns the controller of a term. IDs come from the seed.
func New(seed [32]byte) *Controller {
	return &Controller{chance: rand.NewChaCha8(seed), jobs: map[berth.JobKey]*entry{}}
}

// Step implements leader.Controller.
func (c *Controller) Step(snap *state.Snapshot, now time.Time) (do []state.Command, again time.Time) {
	now = now.Round(0) // drop the monotonic reading: the time of day counts
	// Only jobs that changed since the last step are read.
	for j, s := range snap.PeriodicSince(c.seen) {
		c.seen = max(c.seen, s.Launch.Changed)
		c.learn(j, s, now)
	}
	// After the clock was set back, a launch that was far away may be near. A
	// small step back is ignored.
	switch {
	case c.last.Sub(now) > state.WrongClock:
		c.back(now)
		c.last = now
	case now.After(c.last):
		c.last = now
	}
	for len(c.due) > 0 && !c.due[0].next.After(now) {
		if len(do) == most {
			return do, now
		}
		e := c.due[0]
		// The job may have been deleted or replaced by one of the same name.
		if j := snap.Job(e.key); j == nil || j.UID != e.uid {
			c.forget(e)
			continue
		}
		if failpoint.Hit("periodic/launch-twice") != nil { // a defect that the fault runner must find
			early := c.launch(e, now)
			early.Due -= int64(time.Second)
			do = append(do, early)
		}
		do = append(do, c.launch(e, now))
		// The command may be refused or lost. If it is applied, the change of
		// the record sets the next time.
		e.next = now.Add(retry)
		heap.Fix(&c.due, e.at)
	}
	if len(c.due) == 0 {
		return do, time.Time{}
	}
	return do, c.due[0].next
}

// learn takes in the current version of a job.
func (c *Controller) learn(j *berth.Job, s *state.Summary, now time.Time) {
	e := c.jobs[j.Key()]
	if e == nil {
		e = &entry{key: j.Key(), at: -1}
		c.jobs[e.key] = e
	}
	e.uid, e.launch = j.UID, *s.Launch
	var err error
	if e.schedule, err = cron.New(j.Periodic); err != nil || j.Stop || !j.Periodic.Enabled {
		c.forget(e)
		return
	}
	c.plan(e, now)
}

// plan puts a job where its next launch time belongs in the queue.
func (c *Controller) plan(e *entry, now time.Time) {
	e.base = e.launch.Base()
	if e.launch.Ahead(now.UnixNano()) {
		e.base = now
	}
	e.next = e.schedule.Next(e.base)
	switch {
	case e.next.IsZero():
		c.forget(e)
	case e.at < 0:
		heap.Push(&c.due, e)
	default:
		heap.Fix(&c.due, e.at)
	}
}

// back plans all jobs again because the clock was set back: a launch that was
// far away may be near.
func (c *Controller) back(now time.Time) {
	for _, e := range append(queue(nil), c.due...) {
		c.plan(e, now)
	}
}

// forget removes a job and its next launch.
func (c *Controller) forget(e *entry) {
	if e.at >= 0 {
		heap.Remove(&c.due, e.at)
	}
	delete(c.jobs, e.key)
}

// launch returns the launch of a job that is due, for the newest of the times
// that have come.
func (c *Controller) launch(e *entry, now time.Time) *state.LaunchPeriodic {
	due := e.schedule.Latest(e.base, now)
	l := &state.LaunchPeriodic{
		Key: e.key, UID: e.uid, Due: due.UnixNano(), Now: now.UnixNano(),
		Eval: state.EvalSeed{
			TriggeredBy: berth.TriggerPeriodicJob,
			Cause:       berth.Cause{Kind: berth.CausePeriodic, ID: due.UTC().Format(time.RFC3339)},
		},
	}
	c.chance.Read(l.Eval.ID[:])
	return l
}

// queue is a heap of jobs, the next one to launch on top.
type queue []*entry

// Len implements sort.Interface.
func (q queue) Len() int { return len(q) }

// Less implements sort.Interface.
func (q queue) Less(i, k int) bool { return q[i].next.Before(q[k].next) }

// Swap implements sort.Interface.
func (q queue) Swap(i, k int) {
	q[i], q[k] = q[k], q[i]
	q[i].at, q[k].at = i, k
}

// Push implements heap.Interface.
func (q *queue) Push(x any) {
	e := x.(*entry)
	e.at = len(*q)
	*q = append(*q, e)
}

// Pop implements heap.Interface.
func (q *queue) Pop() any {
	old := *q
	e := old[len(old)-1]
	old[len(old)-1] = nil
	e.at = -1
	*q = old[:len(old)-1]
	return e
}

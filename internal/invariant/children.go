package invariant

import (
	"strconv"
	"strings"
	"time"

	"berth"
	"berth/internal/state"
)

// children checks I-23 and the part of I-24 about children: each periodic job
// has its record of launches (I-22), which covers its children; a token belongs
// to one child; a parent finds its children, and its counts match them.
func (c *checker) children() {
	count := map[berth.JobKey]state.Children{}
	all := map[berth.JobKey]int{}
	type token struct {
		parent berth.JobKey
		text   string
	}
	tokens := map[token]berth.JobID{}
	for j := range c.Jobs(berth.AllNamespaces, "") {
		s := c.Summary(j.Key())
		if (j.Periodic != nil) != (s.Launch != nil) {
			c.addf("I-22", "job %s: periodic is %v, but having a record of launches is %v", j.Key(), j.Periodic != nil, s.Launch != nil)
		}
		if j.ParentID == "" {
			continue
		}
		// From here on the job is a child.
		c.launched(j)
		parent := berth.JobKey{Namespace: j.Namespace, ID: j.ParentID}
		all[parent]++
		n := count[parent]
		switch status, _ := s.Status(j); status {
		case berth.JobPending:
			n.Pending++
		case berth.JobRunning:
			n.Running++
		default:
			n.Dead++
		}
		count[parent] = n
		if j.DispatchIdempotencyToken == "" {
			continue
		}
		t := token{parent, j.DispatchIdempotencyToken}
		if other, ok := tokens[t]; ok {
			c.addf("I-23", "jobs %q and %q were dispatched with the token %q", other, j.ID, t.text)
		}
		tokens[t] = j.ID
		// The index by token must find this very child.
		if found := c.ChildByToken(parent, t.text); found != j {
			c.addf("I-23", "job %q cannot be found by its token %q", j.ID, t.text)
		}
	}
	for j := range c.Jobs(berth.AllNamespaces, "") {
		if got := c.Summary(j.Key()).Children; got != count[j.Key()] {
			c.addf("I-24", "job %s counts the children %+v; recounted: %+v", j.Key(), got, count[j.Key()])
		}
	}
	// The index of children must be complete, also for a parent that is
	// deleted.
	for parent, want := range all {
		found := 0
		for range c.ChildrenOf(parent) {
			found++
		}
		if found != want {
			c.addf("I-23", "job %s finds %d of its %d children", parent, found, want)
		}
	}
}

// launched checks that a child's name contains the time that it was launched
// for, so that there is one child per time, and that its parent recorded the
// launch. Dispatched jobs may have any name.
func (c *checker) launched(j *berth.Job) {
	if j.Dispatched {
		return
	}
	due, err := strconv.ParseInt(strings.TrimPrefix(string(j.ID), string(j.ParentID)+berth.PeriodicInfix), 10, 64)
	if err != nil || berth.PeriodicID(j.ParentID, time.Unix(due, 0)) != j.ID {
		c.addf("I-23", "job %s, a child of %q, does not have its launch time in its name", j.Key(), j.ParentID)
		return
	}
	parent := c.Job(berth.JobKey{Namespace: j.Namespace, ID: j.ParentID})
	if parent == nil || parent.CreateIndex > j.CreateIndex || parent.Periodic == nil { // the child belongs to an earlier job of that name
		return
	}
	if l := c.Summary(parent.Key()).Launch; l == nil || l.Index < j.CreateIndex {
		c.addf("I-23", "job %s was launched at index %d, but its parent has no record of it", j.Key(), j.CreateIndex)
	}
}

package invariant

import (
	"strconv"
	"strings"
	"time"

	"berth"
	"berth/internal/state"
)

// children checks I-23 and what of I-24 is about families: each periodic job
// has its record of launches (I-22), in which its children stand; a token is of
// one child; a parent finds its children, and its counts are theirs.
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
			c.addf("I-22", "job %s is periodic: %v; it has a record of launches: %v", j.Key(), j.Periodic != nil, s.Launch != nil)
		}
		if j.ParentID == "" {
			continue
		}
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
		if found := c.ChildByToken(parent, t.text); found != j {
			c.addf("I-23", "job %q is not found by its token %q", j.ID, t.text)
		}
	}
	for j := range c.Jobs(berth.AllNamespaces, "") {
		if got := c.Summary(j.Key()).Children; got != count[j.Key()] {
			c.addf("I-24", "job %s counts the children %+v; there are %+v", j.Key(), got, count[j.Key()])
		}
	}
	for parent, want := range all {
		found := 0
		for range c.ChildrenOf(parent) {
			found++
		}
		if found != want {
			c.addf("I-23", "job %s finds %d children; it has %d", parent, found, want)
		}
	}
}

// launched checks that a child bears the name of the time that it was launched
// for, so that there is one for each, and that its parent knows of it. What was
// dispatched has a name of any kind.
func (c *checker) launched(j *berth.Job) {
	if j.Dispatched {
		return
	}
	due, err := strconv.ParseInt(strings.TrimPrefix(string(j.ID), string(j.ParentID)+berth.PeriodicInfix), 10, 64)
	if err != nil || berth.PeriodicID(j.ParentID, time.Unix(due, 0)) != j.ID {
		c.addf("I-23", "job %s, a child of %q, does not say what time it was launched for", j.Key(), j.ParentID)
		return
	}
	parent := c.Job(berth.JobKey{Namespace: j.Namespace, ID: j.ParentID})
	if parent == nil || parent.CreateIndex > j.CreateIndex || parent.Periodic == nil { // it is of an earlier job of the name
		return
	}
	if l := c.Summary(parent.Key()).Launch; l == nil || l.Index < j.CreateIndex {
		c.addf("I-23", "job %s was launched at index %d, and its parent does not know", j.Key(), j.CreateIndex)
	}
}

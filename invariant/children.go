package invariant

import (
	"berth"
	"berth/state"
)

// children checks I-23 and what of I-24 is about families: each periodic job
// has its record of launches, a token is of one child, and a parent's counts
// are those of its children.
func (c *checker) children() {
	count := map[berth.JobKey]state.Children{}
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
		parent := berth.JobKey{Namespace: j.Namespace, ID: j.ParentID}
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
}

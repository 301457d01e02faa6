package invariant

import (
	"iter"

	"berth"
)

// lists checks that each index of rows by a property holds exactly the rows
// with that property, each once. Code that works through a list would never see
// a row that is missing there, and nothing else would show that.
func (c *checker) lists() {
	for _, status := range []string{berth.EvalPending, berth.EvalBlocked} {
		same(c, "I-03", status+" evaluations", c.OpenEvals(status), c.Evals(), func(e *berth.Eval) bool { return e.Status == status })
	}
	jobs := c.Jobs(berth.AllNamespaces, "")
	same(c, "I-19", "jobs that run on every node", c.PerNodeJobs(), jobs, (*berth.Job).PerNode)
	same(c, "I-22", "jobs with scaling policies", c.ScaledJobs(), jobs, func(j *berth.Job) bool { return !j.Stop && j.Scaled() })
	same(c, "I-23", "periodic jobs", firsts(c.PeriodicSince(0)), jobs, func(j *berth.Job) bool { return j.Periodic != nil })
	same(c, "I-25", "active deployments", c.ActiveDeployments(0), c.Deployments(), (*berth.Deployment).Active)
	same(c, "I-28", "draining nodes", c.Draining(), c.Nodes(), (*berth.Node).Draining)
}

// firsts returns the first of each pair.
func firsts[A, B any](pairs iter.Seq2[A, B]) iter.Seq[A] {
	return func(yield func(A) bool) {
		for a := range pairs {
			if !yield(a) {
				return
			}
		}
	}
}

// same checks that a list holds exactly the rows for which so is true, each once.
func same[T any](c *checker, id, what string, list, rows iter.Seq[*T], so func(*T) bool) {
	listed := map[*T]bool{}
	for r := range list {
		switch {
		case r == nil || !so(r):
			c.addf(id, "the list of %s holds a row that does not belong there", what)
		case listed[r]:
			c.addf(id, "the list of %s holds a row twice", what)
		}
		listed[r] = true
	}
	for r := range rows {
		if so(r) && !listed[r] {
			c.addf(id, "the list of %s lacks a row", what)
		}
	}
}

package state

import (
	"maps"

	"berth/internal/validate"

	"berth"
)

// DispatchJob creates a child of a parameterized job, with its evaluation. If a
// child with the same idempotency token exists, that child is the result and
// nothing changes: the log decides which was first.
type DispatchJob struct {
	Key      berth.JobKey
	Child    berth.JobID
	Payload  []byte
	Meta     map[string]string
	Token    string // "" means none
	Priority int    // of the child; 0 means the parent's
	Eval     EvalSeed
	Now      int64
}

// Apply implements Command.
func (c *DispatchJob) Apply(tx *Tx) error {
	j := tx.Job(c.Key)
	switch {
	case j == nil:
		return berth.Errorf(berth.NotFound, "job %q not found", c.Key)
	case j.ParameterizedJob == nil || j.Dispatched:
		return berth.Errorf(berth.Invalid, "job %q is not parameterized, so it cannot be dispatched", c.Key)
	case c.Token != "" && tx.ChildByToken(c.Key, c.Token) != nil:
		return nil
	case j.Stop:
		return berth.Errorf(berth.Invalid, "job %q was stopped, so it cannot be dispatched", c.Key)
	}
	if err := tx.runnable(j); err != nil {
		return err
	}
	if err := validate.Dispatch(j.ParameterizedJob, c.Payload, c.Meta); err != nil {
		return err
	}
	if tx.Job(berth.JobKey{Namespace: j.Namespace, ID: c.Child}) != nil {
		return berth.Refusef(berth.CodeAlreadyDone, "there is a job %q", c.Child)
	}
	if err := tx.unusedEvals(c.Eval.ID); err != nil {
		return err
	}
	// The child's metadata are the parent's, overridden by the dispatch.
	tx.newChild(j, c.Child, c.Eval, c.Now, func(child *berth.Job) {
		child.Dispatched, child.DispatchIdempotencyToken, child.Payload = true, c.Token, c.Payload
		if c.Priority != 0 {
			child.Priority = c.Priority
		}
		if len(c.Meta) > 0 {
			child.Meta = maps.Clone(j.Meta)
			if child.Meta == nil {
				child.Meta = map[string]string{}
			}
			maps.Copy(child.Meta, c.Meta)
		}
	})
	return nil
}

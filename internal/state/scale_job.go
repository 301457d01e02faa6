package state

import (
	"encoding/json"
	"slices"
	"unicode/utf8"

	"berth"
)

// ScaleJob changes the count of a group, which creates a new version of the
// job, and creates its evaluation. Without Change it only records an event from
// an autoscaler or user.
type ScaleJob struct {
	Key     berth.JobKey
	Group   string
	Change  bool // set the count; otherwise only the event is stored
	Count   int64
	Message string
	Error   bool // the event reports a failure, so nothing changes
	Meta    map[string]any
	Index   uint64   // only if the job's JobModifyIndex has this value; nil or 0 means any
	Eval    EvalSeed // its ID is zero for jobs that run nothing themselves
	Now     int64
}

// Apply implements Command.
func (c *ScaleJob) Apply(tx *Tx) error {
	cur := tx.Job(c.Key)
	if cur == nil {
		return berth.Errorf(berth.NotFound, "job %q not found", c.Key)
	}
	if c.Index != 0 {
		if err := (&RegisterJob{Enforce: true, Index: c.Index}).enforce(cur); err != nil {
			return err
		}
	}
	g := cur.Group(c.Group)
	if g == nil {
		return berth.Errorf(berth.Invalid, "Target.Group: task group %.150q specified for scaling does not exist in job %q", c.Group, c.Key)
	}
	if err := c.checkEvent(); err != nil {
		return err
	}
	if c.Change {
		if err := c.checkCount(tx, cur, g); err != nil {
			return err
		}
	}
	// An event is recorded with or without a change of the count.
	e := berth.ScalingEvent{
		Time: c.Now, PreviousCount: int64(g.Count), Message: c.Message, Error: c.Error, Meta: c.Meta, CreateIndex: tx.Index,
	}
	if c.Change {
		count := c.Count
		e.Count, e.EvalID = &count, c.Eval.ID
		j := scaled(cur, c.Group, int(count))
		// Its next plan brings the change, not an evaluation.
		if cur.Type == berth.TypeStream {
			e.EvalID = berth.EvalID{}
		}
		tx.following(cur, j, c.Now)
		tx.putJob(cur, j)
		if !e.EvalID.IsZero() {
			tx.raise(j, c.Eval, c.Now)
		}
	}
	tx.addScalingEvent(cur, c.Group, e)
	return nil
}

// checkEvent returns an Invalid error if the scaling event is too large, not
// text, or an error that also changes the count.
func (c *ScaleJob) checkEvent() error {
	switch {
	case c.Error && c.Change:
		return berth.Errorf(berth.Invalid, "Count: must not be set together with Error")
	case len(c.Message) > MaxScalingMessage || !utf8.ValidString(c.Message):
		return berth.Errorf(berth.Invalid, "Message: must be UTF-8 of at most %d bytes, got %d", MaxScalingMessage, len(c.Message))
	}
	if b, err := json.Marshal(c.Meta); err != nil || len(b) > MaxScalingMeta {
		return berth.Errorf(berth.Invalid, "Meta: must be at most %d bytes of JSON, got %d", MaxScalingMeta, len(b))
	}
	return nil
}

// checkCount returns why the group must not have the count, by its own limits,
// its job's state or what stream jobs allow.
func (c *ScaleJob) checkCount(tx *Tx, j *berth.Job, g *berth.TaskGroup) error {
	switch {
	case j.Stop:
		return berth.Errorf(berth.Invalid, "job %q is stopped; start it before scaling it", c.Key)
	case j.PerNode():
		return berth.Errorf(berth.Invalid, "job %q has type %s: its number of instances depends on the nodes", c.Key, j.Type)
	case c.Count < 0 || c.Count > berth.MaxCount:
		return berth.Errorf(berth.Invalid, "Count: must be 0 to %d, got %d", berth.MaxCount, c.Count)
	}
	if err := g.Scaling.Allows(g.Name, c.Count); err != nil {
		return err
	}
	// Not every region of a stream job can change its width.
	if j.Type == berth.TypeStream {
		if err := tx.widenable(j, g, c.Count); err != nil {
			return err
		}
	}
	if err := tx.runnable(j); err != nil {
		return err
	}
	return tx.unusedSeed(c.Eval)
}

// scaled returns a copy of a job with another count of one group; for a stream
// job, with another width of the group's parallel region.
func scaled(j *berth.Job, group string, count int) *berth.Job {
	n := *j
	if j.Stream != nil {
		if r := j.Stream.Region(group); r != nil {
			widen(&n, r.Name, count)
		}
		return &n
	}
	n.TaskGroups = slices.Clone(j.TaskGroups)
	for i, g := range n.TaskGroups {
		if g.Name == group {
			ng := *g
			ng.Count = count
			n.TaskGroups[i] = &ng
		}
	}
	return &n
}

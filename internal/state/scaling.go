package state

import (
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"unicode/utf8"

	"berth"
	"berth/internal/state/codec"
)

// Limits of scaling events.
const (
	ScalingEventsKept = 20 // of each group, the newest
	MaxScalingMessage = 4 << 10
	MaxScalingMeta    = 16 << 10 // bytes, as JSON
)

// ScalingEvents are the newest scaling events of one incarnation of a job.
type ScalingEvents struct {
	Groups      map[string][]berth.ScalingEvent // by group, newest first
	ModifyIndex uint64
}

var noScaling ScalingEvents

// ScalingEvents returns the scaling events of a job; they must not be changed.
func (s *Snapshot) ScalingEvents(k berth.JobKey) *ScalingEvents {
	if slot, ok := s.jobs.byKey.First(jobKey(k)); ok {
		if e := s.jobs.scalings.Get(slot); e != nil {
			return e
		}
	}
	return &noScaling
}

// ScaledJobs returns the jobs that are not stopped and have a scaling policy,
// in order of namespace and ID.
func (s *Snapshot) ScaledJobs() iter.Seq[*berth.Job] {
	return rowsOf(&s.jobs.rows, s.jobs.scaled.All())
}

// listScaled keeps the list of jobs with policies; old is the row that j
// replaces, nil if none, and j nil if the job goes.
func (tx *Tx) listScaled(old, j *berth.Job, slot uint32) {
	was, is := old != nil && !old.Stop && old.Scaled(), j != nil && !j.Stop && j.Scaled()
	switch {
	case is && !was:
		tx.jobs.scaled.Add(tx.edit, jobKey(j.Key()), slot)
	case was && !is:
		tx.jobs.scaled.Remove(tx.edit, jobKey(old.Key()), slot)
	}
}

// adoptPolicies gives the policies of a job that is about to be stored their
// identity. One that says what it said in old keeps its indexes.
func (tx *Tx) adoptPolicies(old, j *berth.Job) {
	if !j.Scaled() {
		return
	}
	before := map[string]*berth.ScalingPolicy{}
	self := berth.Job{ID: j.ID, Namespace: j.Namespace, UID: berth.UID{Index: tx.Index}}
	if old != nil {
		self.UID = old.UID
		for _, p := range old.Policies {
			before[p.ID] = p
		}
	}
	j.EachPolicy(func(g *berth.TaskGroup, t *berth.Task, p *berth.ScalingPolicy) {
		p.Identify(&self, g, t)
		p.CreateIndex, p.ModifyIndex = tx.Index, tx.Index
		was := before[p.ID]
		if was == nil {
			return
		}
		p.CreateIndex = was.CreateIndex
		if string(codec.Canonical(was.Plain())) == string(codec.Canonical(p.Plain())) {
			p.ModifyIndex = was.ModifyIndex
		}
	})
}

// ScaleJob changes the count of a group, which makes a new version of the job,
// and raises the evaluation that looks at it; or only notes what somebody who
// scales has to say.
type ScaleJob struct {
	Key     berth.JobKey
	Group   string
	Change  bool // to Count; else nothing but the event is stored
	Count   int64
	Message string
	Error   bool // the event tells of a failure; then nothing is changed
	Meta    map[string]any
	Index   uint64   // only if the job's JobModifyIndex is this; 0 is any
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
		return berth.Errorf(berth.Invalid, "Target: job %q has no group %.150q", c.Key, c.Group)
	}
	if err := c.checkEvent(); err != nil {
		return err
	}
	if c.Change {
		if err := c.checkCount(tx, cur, g); err != nil {
			return err
		}
	}
	e := berth.ScalingEvent{
		Time: c.Now, PreviousCount: int64(g.Count), Message: c.Message, Error: c.Error, Meta: c.Meta, CreateIndex: tx.Index,
	}
	if c.Change {
		count := c.Count
		e.Count, e.EvalID = &count, c.Eval.ID
		j := scaled(cur, c.Group, int(count))
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

func (c *ScaleJob) checkEvent() error {
	switch {
	case c.Error && c.Change:
		return berth.Errorf(berth.Invalid, "Count: an event that tells of an error changes nothing; leave it out")
	case len(c.Message) > MaxScalingMessage || !utf8.ValidString(c.Message):
		return berth.Errorf(berth.Invalid, "Message: %d bytes are too long, or are not UTF-8; allowed are %d", len(c.Message), MaxScalingMessage)
	}
	if b, err := json.Marshal(c.Meta); err != nil || len(b) > MaxScalingMeta {
		return berth.Errorf(berth.Invalid, "Meta: %d bytes of JSON are too long; allowed are %d", len(b), MaxScalingMeta)
	}
	return nil
}

func (c *ScaleJob) checkCount(tx *Tx, j *berth.Job, g *berth.TaskGroup) error {
	switch {
	case j.Stop:
		return berth.Errorf(berth.Invalid, "job %q is stopped; run it before it is scaled", c.Key)
	case j.PerNode():
		return berth.Errorf(berth.Invalid, "job %q is of type %s: how many instances it has follows from the nodes", c.Key, j.Type)
	case c.Count < 0 || c.Count > berth.MaxCount:
		return berth.Errorf(berth.Invalid, "Count: %d is out of range; allowed are 0 to %d", c.Count, berth.MaxCount)
	}
	if err := g.Scaling.Allows(g.Name, c.Count); err != nil {
		return err
	}
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

// scaled returns a copy of a job with another count of one group; of a stream
// job, with another width of the parallel region that the group is in.
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

// addScalingEvent stores an event of a group. Events of groups that the job
// does not have any more go.
func (tx *Tx) addScalingEvent(j *berth.Job, group string, e berth.ScalingEvent) {
	slot, _ := tx.jobs.byKey.First(jobKey(j.Key()))
	s := &ScalingEvents{Groups: maps.Clone(tx.ScalingEvents(j.Key()).Groups), ModifyIndex: tx.Index}
	if s.Groups == nil {
		s.Groups = map[string][]berth.ScalingEvent{}
	}
	maps.DeleteFunc(s.Groups, func(name string, _ []berth.ScalingEvent) bool { return j.Group(name) == nil })
	list := append([]berth.ScalingEvent{e}, s.Groups[group]...)
	s.Groups[group] = list[:min(len(list), ScalingEventsKept)]
	freeze(s)
	tx.jobs.scalings.Set(tx.edit, slot, s)
	tx.count(j.Key(), j.UID, func(*Summary) {}) // so that who watches the job sees it
}

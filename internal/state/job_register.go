package state

import (
	"slices"

	"berth"
	"berth/internal/state/codec"
	"berth/internal/validate"
)

// RegisterJob creates a job or adds a version, and creates its evaluation in
// the same command.
type RegisterJob struct {
	Job        *berth.Job
	Submission *berth.JobSubmission
	// Eval is the evaluation to create; its ID is zero for jobs that run
	// nothing themselves.
	Eval EvalSeed
	// Enforce registers only if the job's JobModifyIndex is Index; 0 means that
	// the job must not exist.
	Enforce           bool
	Index             uint64
	PreserveCounts    bool // keep the counts of groups that exist, as far as their scaling policies allow
	PreserveResources bool // keep the resources of tasks that exist
	Now               int64
}

// Apply implements Command.
func (c *RegisterJob) Apply(tx *Tx) error {
	if err := validate.WholeJob(c.Job); err != nil {
		return err
	}
	key := c.Job.Key()
	if tx.Namespace(key.Namespace) == nil {
		return berth.Errorf(berth.Invalid, "job.namespace: namespace %q not found", key.Namespace)
	}
	if err := tx.runnable(c.Job); err != nil {
		return err
	}
	old := tx.Job(key)
	// A job that is being deleted cannot be registered, unless it is a stream
	// job that starts over.
	if err := tx.unmarked(key); err != nil && !tx.startsOver(old, c.Job) {
		return err
	}
	if err := c.enforce(old); err != nil {
		return err
	}
	if old != nil && old.Type != c.Job.Type && (fixedType(old) || fixedType(c.Job)) {
		return berth.Errorf(berth.Invalid, "job.type: job %q is of type %s and cannot become one of type %s; purge it first", key, old.Type, c.Job.Type)
	}
	// Stream jobs are submitted in phases and get no evaluation here.
	if c.Job.Type == berth.TypeStream {
		return c.stream(tx, old)
	}
	j := *c.Job
	if err := lineage(old, &j); err != nil {
		return err
	}
	if err := tx.unusedSeed(c.Eval); err != nil {
		return err
	}
	// What the user left to the present version comes from there.
	if old != nil {
		c.preserve(&j, old)
	}
	j.Stop = false
	if err := tx.quotaAllowsJob(old, &j); err != nil {
		return err
	}
	tx.following(old, &j, c.Now)
	tx.putJob(old, &j)
	if c.Submission != nil {
		tx.putSubmission(&Submission{*c.Submission, key, j.Version})
	}
	if !c.Eval.ID.IsZero() {
		tx.raise(&j, c.Eval, c.Now)
	}
	return nil
}

// inputsSince is the log version that brought the order of groups and templates
// that restart in turn.
const inputsSince = 6

// roomSince is the log version that brought the size of directories of secrets and
// the most allocations of a node.
const roomSince = 7

// devicesSince is the log version that brought block devices, and CSI volumes of
// jobs that run on every node and of stream jobs.
const devicesSince = 9

// needs implements needer: stream jobs came with log version 2.
func (c *RegisterJob) needs() int {
	switch {
	case c.Job == nil:
		return 1
	case usesMoreOfCSI(c.Job):
		return devicesSince
	case slices.ContainsFunc(c.Job.TaskGroups, sizesSecrets), UsesCSI(c.Job):
		return roomSince
	case slices.ContainsFunc(c.Job.TaskGroups, ordered):
		return inputsSince
	case c.Job.Type == berth.TypeStream:
		return 2
	}
	return 1
}

// feature implements featured.
func (c *RegisterJob) feature() string {
	switch c.needs() {
	case devicesSince:
		return moreOfCSI
	case roomSince:
		if UsesCSI(c.Job) {
			return csiVolumes
		}
		return "resources.secrets"
	case inputsSince:
		return "depends_on, once and rolling"
	}
	return streamJobs
}

// sizesSecrets reports whether a group says how large directories of secrets are.
func sizesSecrets(g *berth.TaskGroup) bool {
	return slices.ContainsFunc(g.Tasks, func(t *berth.Task) bool { return t.Resources != nil && t.Resources.SecretsMB != 0 })
}

// usesMoreOfCSI reports whether a job has CSI volumes in a way that came with log
// version 9.
func usesMoreOfCSI(j *berth.Job) bool {
	if j.PerNode() || j.Type == berth.TypeStream {
		return slices.ContainsFunc(j.TaskGroups, mountsCSI)
	}
	return slices.ContainsFunc(j.TaskGroups, func(g *berth.TaskGroup) bool {
		for _, v := range g.Volumes {
			if v.Type == berth.VolumeCSI && v.AttachmentMode == berth.AttachBlock {
				return true
			}
		}
		return false
	})
}

// UsesCSI reports whether a job has CSI volumes or plugins.
func UsesCSI(j *berth.Job) bool { return slices.ContainsFunc(j.TaskGroups, usesCSI) }

// usesCSI reports whether a group has CSI volumes or plugins.
func usesCSI(g *berth.TaskGroup) bool {
	return mountsCSI(g) || slices.ContainsFunc(g.Tasks, func(t *berth.Task) bool { return t.CSIPluginConfig != nil })
}

// mountsCSI reports whether a group has CSI volumes.
func mountsCSI(g *berth.TaskGroup) bool {
	for _, v := range g.Volumes {
		if v.Type == berth.VolumeCSI {
			return true
		}
	}
	return false
}

// ordered reports whether a group has what came with log version 6.
func ordered(g *berth.TaskGroup) bool {
	return len(g.DependsOn) > 0 || g.Once != "" || slices.ContainsFunc(g.Tasks, func(t *berth.Task) bool {
		return slices.ContainsFunc(t.Templates, func(t berth.Template) bool { return t.Rolling })
	})
}

// fixedType reports whether jobs of this type never change to or from another
// one.
func fixedType(j *berth.Job) bool { return j.PerNode() || j.Type == berth.TypeStream }

// pack implements packed.
func (c *RegisterJob) pack(w *codec.Writer) { w.Value((*registerFields)(c)) }

// unpack implements packed. An entry without a job is damaged: step relies on
// having one.
func (c *RegisterJob) unpack(r *codec.Reader) {
	r.Value((*registerFields)(c))
	if r.Err() == nil && c.Job == nil {
		r.Damaged("no job")
	}
}

// registerFields is a RegisterJob without its methods.
type registerFields RegisterJob

// enforce returns a Conflict if the caller asked for a modify index that the
// job does not have. Index 0 means that the job must not exist.
func (c *RegisterJob) enforce(old *berth.Job) error {
	const prefix = "Enforcing job modify index" // clients match this text
	switch {
	case !c.Enforce:
		return nil
	case old == nil && c.Index != 0:
		return berth.Errorf(berth.Conflict, "%s %d: job does not exist", prefix, c.Index)
	case old != nil && c.Index == 0:
		return berth.Errorf(berth.Conflict, "%s 0: job already exists", prefix)
	case old != nil && c.Index != old.JobModifyIndex:
		return berth.Errorf(berth.Conflict, "%s %d: job exists with conflicting job modify index: %d", prefix, c.Index, old.JobModifyIndex)
	}
	return nil
}

// preserve copies counts and resources from the current job. Only the order of
// the log decides which those are.
func (c *RegisterJob) preserve(j, old *berth.Job) {
	if !c.PreserveCounts && !c.PreserveResources {
		return
	}
	// A stream job's counts are the widths of its regions.
	if c.PreserveCounts && j.Stream != nil {
		preserveWidths(j, old)
	}
	groups := make([]*berth.TaskGroup, len(j.TaskGroups))
	for i, g := range j.TaskGroups {
		groups[i] = g
		was := old.Group(g.Name)
		if was == nil {
			continue
		}
		ng := *g
		if c.PreserveCounts && j.Stream == nil {
			ng.Count = was.Count
			// The new limits hold for the old count too.
			if p := g.Scaling; p != nil {
				ng.Count = int(max(p.Min, min(p.Max, int64(was.Count))))
			}
		}
		if c.PreserveResources {
			ng.Tasks = make([]*berth.Task, len(g.Tasks))
			for k, t := range g.Tasks {
				nt := *t
				if wt := was.Task(t.Name); wt != nil {
					nt.Resources = wt.Resources
				}
				ng.Tasks[k] = &nt
			}
		}
		groups[i] = &ng
	}
	j.TaskGroups = groups
}

// stream registers a stream job. It creates no evaluation, even if it is given
// one: what to create for the job is decided from its submission.
func (c *RegisterJob) stream(tx *Tx, old *berth.Job) error {
	j := *c.Job
	if err := lineage(old, &j); err != nil {
		return err
	}
	if !j.Schedulable() {
		return berth.Errorf(berth.Invalid, "job.type: job %q is of type %s, which can be neither periodic nor parameterized", j.ID, j.Type)
	}
	j.Stop = false
	if err := tx.quotaAllowsJob(old, &j); err != nil {
		return err
	}
	// A first registration begins the submission at once.
	if old == nil {
		tx.following(nil, &j, c.Now)
		tx.putJob(nil, &j)
		c.keepText(tx, &j)
		tx.beginStream(&j, 0, berth.Recovery{})
		return nil
	}
	c.preserve(&j, old)
	row, marked := tx.StreamJob(old.UID), tx.Deletion(old.Key())
	ended := row == nil || row.Phase == berth.PhaseFailed || row.Phase == berth.PhaseStopped
	// A running job gets a new version, which is planned next.
	if marked == nil && !ended {
		tx.following(old, &j, c.Now)
		tx.putJob(old, &j)
		c.keepText(tx, &j)
		return nil
	}
	// A registration after an incarnation that no user stopped is its next
	// version, or the same version if the specification is equal.
	base := *old
	base.Stop = row == nil || row.Phase == berth.PhaseStopped
	tx.following(&base, &j, c.Now)
	next := &Successor{&j, c.Submission}
	// An ended incarnation is deleted first; the job follows it.
	if marked == nil {
		tx.markStream(old, berth.IntentReplace, berth.Cause{Kind: berth.CauseUser, Request: c.Eval.Cause.Request}, next, c.Now)
		return nil
	}
	// It is being deleted already: replace the successor.
	touched := *old
	touched.ModifyIndex, touched.JobModifyIndex = tx.Index, tx.Index
	tx.putJob(old, &touched)
	d := *marked
	d.Successor = next
	tx.mark(&d)
	return nil
}

// keepText stores the job source with version j, if the command has one.
func (c *RegisterJob) keepText(tx *Tx, j *berth.Job) {
	if c.Submission != nil {
		tx.putSubmission(&Submission{*c.Submission, j.Key(), j.Version})
	}
}

package api

import (
	"context"
	"iter"
	"maps"
	"strings"

	"berth"
	"berth/internal/acl"
	"berth/internal/admit"
	"berth/internal/decode"
	"berth/internal/state"
	"berth/jobspec"
	"berth/op"
)

// jobs registers the operations on jobs, except for those on their versions,
// scaling and regions.
func (s *Server) jobs() {
	readList(s, op.ListJobs, listJobs)
	read(s, op.ReadJob, readJob)
	read(s, op.ReadSummary, readSummary)
	readList(s, op.JobAllocs, jobAllocs)
	readList(s, op.JobEvals, jobEvals)
	write(s, op.Register, registerJob)
	write(s, op.RegisterNamed, registerJob)
	write(s, op.Stop, stopJob)
	write(s, op.Evaluate, evaluateJob)
	write(s, op.Force, forcePeriodic)
	write(s, op.Dispatch, dispatchJob)
	effect(s, op.Parse, parseJob)
	write(s, op.Validate, validateJob)
	write(s, op.Plan, planJob)
}

// listJobs returns the jobs that the caller may see, in order of namespace and
// ID.
func listJobs(r *Read, in *op.JobsQuery) ([]op.JobStub, error) {
	return jobsOf(r, op.ListJobs.Need, nil, in.Meta, 0)
}

// jobsOf lists the jobs that keep accepts, nil for all, and to which the
// caller has the right that is needed. The list changes with any job, and with
// what else is watched, which was last changed at index.
func jobsOf(r *Read, need acl.Capability, keep func(*berth.Job) bool, meta bool, index uint64, more ...state.WatchKey) ([]op.JobStub, error) {
	r.At(max(index, r.LastChange(state.Jobs), r.LastChange(state.Summaries)), append(more, state.OnTable(state.Jobs), state.OnTable(state.Summaries))...)
	view := func(row state.JobRow) op.JobStub { return jobStub(row.Job, row.Summary, meta) }
	l := listing[state.JobRow]{
		token:  func(row state.JobRow) string { return row.Job.Namespace + "." + string(row.Job.ID) },
		source: func(row state.JobRow) source { return source{a: row.Job, b: row.Summary} },
		from: func(token string) (iter.Seq[state.JobRow], error) {
			namespace, id, _ := strings.Cut(token, ".") // which no namespace has in its name
			return r.JobRows(state.JobRange{
				Namespace: r.Space(), Prefix: r.Query.Prefix, Back: r.Query.Reverse,
				From: berth.JobKey{Namespace: namespace, ID: berth.JobID(id)},
			}), nil
		},
		// A filter sees the whole job, and its counts as the list shows them.
		seen: []seen[state.JobRow]{
			sees(func(row state.JobRow) op.Job { return jobView(row.Job, row.Summary) }), sees(view),
		},
	}
	return page(r, l, func(row state.JobRow) bool {
		return (keep == nil || keep(row.Job)) && r.visible(need, row.Job.Namespace)
	}, view)
}

// jobStub returns a job as lists show it, with its counts; meta adds its
// metadata.
func jobStub(j *berth.Job, sum *state.Summary, meta bool) op.JobStub {
	stub := op.JobStub{
		ID: j.ID, ParentID: j.ParentID, Name: j.Name, Namespace: j.Namespace, Datacenters: j.Datacenters, NodePool: j.NodePool,
		Type: j.Type, Priority: j.Priority, Periodic: j.Periodic != nil, ParameterizedJob: j.ParameterizedJob != nil, Stop: j.Stop,
		CreateIndex: j.CreateIndex, ModifyIndex: j.ModifyIndex, JobModifyIndex: j.JobModifyIndex, SubmitTime: j.SubmitTime, Version: j.Version,
	}
	stub.Status, stub.StatusDescription = sum.Status(j)
	summary := jobSummary(j, sum)
	stub.JobSummary = &summary
	if meta {
		stub.Meta = j.Meta
	}
	return stub
}

// jobSummary lists the groups of the job, those included that nothing is
// counted of yet.
func jobSummary(j *berth.Job, s *state.Summary) op.JobSummary {
	out := op.JobSummary{
		JobID: j.ID, Namespace: j.Namespace, Summary: map[string]op.GroupSummary{},
		Children: &op.ChildrenSummary{
			Pending: int64(s.Children.Pending), Running: int64(s.Children.Running), Dead: int64(s.Children.Dead),
		},
		CreateIndex: s.Created, ModifyIndex: s.Changed,
	}
	for _, g := range j.TaskGroups {
		out.Summary[g.Name] = op.GroupSummary{}
	}
	for _, g := range s.Groups {
		out.Summary[g.Group] = op.GroupSummary{
			Queued: g.Queued, Complete: g.Complete, Failed: g.Failed, Running: g.Running, Starting: g.Starting, Lost: g.Lost, Unknown: g.Unknown,
		}
	}
	return out
}

// job returns the job that a request names.
func (r *Read) job(id string) (*berth.Job, *state.Summary, error) {
	k := berth.JobKey{Namespace: r.Space(), ID: berth.JobID(id)}
	j := r.Job(k)
	if j == nil {
		return nil, nil, berth.Errorf(berth.NotFound, "job not found: %s", k)
	}
	return j, r.Summary(k), nil
}

// readJob returns a job, or one of its kept versions. For a stream job it adds
// the submission, and for one that is being deleted the progress of that.
func readJob(r *Read, in *op.JobRef) (op.Job, error) {
	j, sum, err := r.job(in.JobID)
	if err != nil {
		return op.Job{}, err
	}
	r.At(max(j.ModifyIndex, sum.Changed), state.OnJob(j.Key()))
	if in.Version != nil {
		return readVersion(r, j, sum, *in.Version)
	}
	v := jobView(j, sum)
	v.Deletion = deletionView(r.Snapshot, r.Deletion(j.Key()))
	if j.Type == berth.TypeStream {
		r.ofStream(j.Key(), j.UID)
		streamView(r.Snapshot, &v)
	}
	return v, nil
}

// jobView shows a job with its UID and its status, which follows from the
// counts in its summary.
func jobView(j *berth.Job, sum *state.Summary) op.Job {
	v := op.Job{Job: j, UID: j.UID.Text('j')}
	v.Status, v.StatusDescription = sum.Status(j)
	return v
}

// readSummary returns how many allocations of each group are in which status.
func readSummary(r *Read, in *op.JobRef) (op.JobSummary, error) {
	j, sum, err := r.job(in.JobID)
	if err != nil {
		return op.JobSummary{}, err
	}
	r.At(sum.Changed, state.OnJob(j.Key()))
	return jobSummary(j, sum), nil
}

// jobAllocs answers for jobs that were purged, too: their allocations outlive
// them for a while.
func jobAllocs(r *Read, in *op.JobAllocsQuery) ([]op.AllocStub, error) {
	k := berth.JobKey{Namespace: r.Space(), ID: berth.JobID(in.JobID)}
	j := r.Job(k)
	index := r.LastChange(state.Allocs)
	if sum := r.Summary(k); sum != nil {
		index = max(sum.Allocs, sum.Created)
	}
	r.At(index, state.OnAllocsOf(k))
	r.Also(state.Jobs)
	allocs := []*berth.Alloc{}
	for a := range r.AllocsOf(k) {
		if in.All || j == nil || a.Job.UID == j.UID {
			allocs = append(allocs, a)
		}
	}
	return r.allocStubs(allocs), nil
}

// jobEvals returns the evaluations of a job, oldest first. It answers for
// purged jobs, too, while their evaluations are kept.
func jobEvals(r *Read, in *op.JobRef) ([]op.Eval, error) {
	out := []op.Eval{}
	evals := r.evalsOf(in.JobID)
	if r.Waits() {
		return out, nil
	}
	for _, e := range evals {
		out = append(out, r.evalView(e))
	}
	return out, nil
}

// registerJob creates or updates a job.
func registerJob(w *Write, in *op.RegisterJob) (ch Change[op.JobRegistered], err error) {
	// What is checked of the job itself is the same as for a plan.
	c, err := registration(w, in.Job, in.JobID, op.Register.Need)
	if err != nil {
		return ch, err
	}
	if err := w.limits.priority("EvalPriority", in.EvalPriority); err != nil {
		return ch, err
	}
	c.Submission, c.Enforce, c.Index = w.limits.source(in.Submission), in.EnforceIndex, in.JobModifyIndex
	c.PreserveCounts, c.PreserveResources = in.PreserveCounts, in.PreserveResources
	if !c.Eval.ID.IsZero() {
		c.Eval.Priority = in.EvalPriority
	}
	return propose(c, func(o *Outcome) op.JobRegistered {
		out := registered(c.Eval.ID, o)
		out.Warnings = warnings(w, c.Job)
		return out
	}), nil
}

// registration returns the command that registers the job of a request. id is
// the job ID in the path, "" if there is none.
func registration(w *Write, tree decode.RawTree, id string, need acl.Capability) (*state.RegisterJob, error) {
	j, err := decodeJob(w, tree, need)
	switch {
	case err != nil:
		return nil, err
	case id != "" && id != string(j.ID):
		return nil, berth.Errorf(berth.Invalid, "Job ID does not match name: the path names %q, the body %q", id, j.ID)
	case j.Region != w.Region:
		return nil, berth.Errorf(berth.Invalid, "job.region: %q is not this region, %q", j.Region, w.Region)
	}
	c := &state.RegisterJob{Job: j, Now: w.Now.UnixNano()}
	if looksAt(j) {
		c.Eval = w.seed(berth.TriggerJobRegister, 0)
	}
	return c, nil
}

// looksAt reports whether registering a job raises an evaluation. A stream job
// gets its evaluations from its submission.
func looksAt(j *berth.Job) bool { return j == nil || j.Schedulable() && j.Type != berth.TypeStream }

// decodeJob decodes and validates a job, and drops what only servers set. A job
// without a namespace gets that of the request. The caller needs the right in the
// namespace of the job, and a request that names another one is refused.
func decodeJob(w *Write, tree decode.RawTree, need acl.Capability) (*berth.Job, error) {
	if tree == nil {
		return nil, berth.Errorf(berth.Invalid, "body.job: is missing: want a job")
	}
	// The namespace is read before the job is decoded: a caller without the
	// right must not learn what is wrong with it.
	name := spelling(tree, "Namespace")
	ns, ok := tree[name].(string)
	if tree[name] == nil || ok && ns == "" {
		tree = maps.Clone(tree)
		tree[name], ok = w.Space(), true
	}
	if ns, _ = tree[name].(string); !ok {
		ns = w.Space() // it is not a string, which decoding refuses
	}
	if err := w.may(need, ns); err != nil {
		return nil, err
	}
	if w.named != "" && w.named != ns {
		return nil, berth.Errorf(berth.Invalid, "job.namespace: %q in the job differs from %q in the request", berth.Clip(ns, 64), berth.Clip(w.named, 64))
	}
	j, err := admit.DecodeJobContext(w.ctx, decode.Tree(w.limits.withPriority(withPool(w.Snapshot, ns, tree))), admit.FromJSON)
	if err != nil {
		return nil, err
	}
	if err := w.limits.check(j); err != nil {
		return nil, err
	}
	if err := w.mayCSI(j); err != nil {
		return nil, err
	}
	w.notes = append(w.notes, admit.CompleteProviders(j)...)
	if j.Region == berth.DefaultRegion {
		j.Region = w.Region // see seekRegion
	}
	// Users send back what they read. None of this is theirs to set.
	j.Stop, j.Stable, j.Version, j.VersionTag, j.SubmitTime = false, false, 0, nil, 0
	j.CreateIndex, j.ModifyIndex, j.JobModifyIndex, j.UID = 0, 0, 0, berth.UID{}
	j.ParentID, j.Dispatched, j.DispatchIdempotencyToken, j.Payload = "", false, "", nil
	return j, nil
}

// mayCSI asks for the rights to what a job has of CSI.
func (w *Write) mayCSI(j *berth.Job) error {
	for _, g := range j.TaskGroups {
		for _, v := range g.Volumes {
			if v.Type == berth.VolumeCSI {
				if err := w.may(acl.CSIMountVolume, j.Namespace); err != nil {
					return err
				}
			}
		}
		for _, t := range g.Tasks {
			if t.CSIPluginConfig != nil {
				if err := w.may(acl.CSIRegisterPlugin, j.Namespace); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// spelling returns the name by which a tree has a field, whatever its case.
func spelling(tree decode.RawTree, field string) string {
	for name := range tree {
		if strings.EqualFold(name, field) {
			return name
		}
	}
	return field
}

// maxSource is the largest source of a job that is kept, in bytes.
const maxSource = 1 << 20

// stopJob ends a job. To end one that does not exist succeeds and changes nothing,
// unless the caller names the incarnation.
func stopJob(w *Write, in *op.StopJob) (ch Change[op.JobStopped], err error) {
	ch, err = endJob(w, in)
	if err != nil || in.UID != "" {
		return ch, err
	}
	gone := func(o *Outcome) op.JobStopped { return op.JobStopped{Meta: o.Meta()} }
	if w.Job(w.job(in.JobID)) == nil {
		return Change[op.JobStopped]{Index: w.Snapshot.Index, Answer: gone}, nil
	}
	refused := ch.Refused
	ch.Refused = func(o *Outcome, err error) (op.JobStopped, error) {
		switch { // another caller was faster
		case berth.KindOf(err) == berth.NotFound:
			o.Index = o.After.Index
			return gone(o), nil
		case refused != nil:
			return refused(o, err)
		}
		return op.JobStopped{}, err
	}
	return ch, nil
}

// endJob returns the commands that end a job.
func endJob(w *Write, in *op.StopJob) (ch Change[op.JobStopped], err error) {
	if err := w.limits.priority("eval_priority", in.EvalPriority); err != nil {
		return ch, err
	}
	switch {
	// A purge is a deletion, with rules of its own.
	case in.Purge:
		return deleteJob(w, in)
	case in.Propagation != "":
		return ch, berth.Errorf(berth.Invalid, "propagation: applies to deletions only; set purge=true as well")
	case in.Wait != "":
		return ch, berth.Errorf(berth.Invalid, "wait: applies to foreground deletions only; set purge=true and propagation=foreground as well")
	case in.Force:
		return ch, berth.Errorf(berth.Invalid, "force: applies to foreground deletions only; set purge=true and propagation=foreground as well")
	}
	c := &state.StopJob{Key: w.job(in.JobID), NoShutdownDelay: in.NoShutdownDelay, Now: w.Now.UnixNano()}
	if in.UID != "" {
		if err := c.UID.UnmarshalText([]byte(in.UID)); err != nil {
			return ch, err
		}
	}
	// A parent has no allocations, so there is nothing to decide for it.
	if j := w.Job(c.Key); j == nil || j.Schedulable() {
		c.Eval = w.seed(berth.TriggerJobDeregister, in.EvalPriority)
	}
	return propose(c, func(o *Outcome) op.JobStopped {
		return op.JobStopped{EvalID: c.Eval.ID, EvalCreateIndex: o.Index, JobModifyIndex: o.Index, Meta: o.Meta()}
	}), nil
}

// evaluateJob has the scheduler look at a job again.
func evaluateJob(w *Write, in *op.EvaluateJob) (Change[op.JobRegistered], error) {
	c := &state.EvaluateJob{
		Key: w.job(in.JobID), Force: in.EvalOptions.ForceReschedule, Eval: w.seed(berth.TriggerJobRegister, 0), Now: w.Now.UnixNano(),
	}
	return propose(c, func(o *Outcome) op.JobRegistered {
		out := op.JobRegistered{EvalID: c.Eval.ID, EvalCreateIndex: o.Index, Meta: o.Meta()}
		if e := o.After.Eval(c.Eval.ID); e != nil { // nil if it was collected already
			out.JobModifyIndex = e.JobModifyIndex
		}
		return out
	}), nil
}

// parseJob turns a job file into a job. It leaves the state alone. The parser
// limits its own steps and so the processor time, to about a second. The clock
// is no limit: on a busy machine, or one that stood still, a valid job file
// takes longer.
func parseJob(ctx context.Context, _ *Write, in *op.ParseJob) (op.Job, error) {
	if in.JobHCL == "" {
		return op.Job{}, berth.Errorf(berth.Invalid, "JobHCL: is missing: want the text of a job file")
	}
	o := jobspec.Options{Part: true}
	if in.Variables != "" {
		o.VarFiles = []jobspec.File{{Name: "variables", Text: []byte(in.Variables)}}
	}
	j, err := jobspec.Parse(ctx, jobspec.File{Name: "job", Text: []byte(in.JobHCL)}, o)
	if err != nil {
		return op.Job{}, berth.Errorf(berth.Invalid, "%w", err)
	}
	admit.CompleteProviders(j)
	return op.Job{Job: j}, nil
}

// unknownPlaces returns which places a valid job names that this region does not
// have. A registration refuses them one by one.
func unknownPlaces(w *Write, j *berth.Job) (ps berth.Problems) {
	if j.Region != w.Region {
		ps.Addf("job.region", "%q is not this region, %q", berth.Clip(j.Region, 64), w.Region)
	}
	if w.Snapshot.Namespace(j.Namespace) == nil {
		ps.Addf("job.namespace", "namespace %q not found", berth.Clip(j.Namespace, 64))
	}
	if w.Snapshot.NodePool(j.NodePool) == nil {
		ps.Addf("job.node_pool", "node pool %q not found", berth.Clip(j.NodePool, 64))
	}
	return ps
}

// validateJob reports what is wrong with a job. It leaves the state alone.
func validateJob(w *Write, in *op.ValidateJob) (ch Change[op.JobValidated], err error) {
	out := op.JobValidated{DriverConfigValidated: true}
	j, err := decodeJob(w, in.Job, op.Validate.Need)
	if err == nil {
		err = unknownPlaces(w, j).Err()
	}
	switch {
	case err == nil:
		out.Warnings = warnings(w, j)
	case berth.KindOf(err) == berth.Invalid:
		out.Error, out.ValidationErrors = err.Error(), problems(err)
	default:
		return ch, err
	}
	return unchanged(out), nil
}

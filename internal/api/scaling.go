package api

import (
	"slices"
	"strings"

	"berth"
	"berth/internal/state"
	"berth/op"
)

// scaling registers the operations on the counts of groups and on scaling
// policies.
func (s *Server) scaling() {
	write(s, op.Scale, scaleJob)
	read(s, op.ReadScale, readScale)
	readList(s, op.ListPolicies, listPolicies)
	read(s, op.ReadPolicy, readPolicy)
}

// scaleJob decides the count of a group, or, without a count, records a scaling
// event only.
func scaleJob(w *Write, in *op.ScaleJob) (ch Change[op.JobRegistered], err error) {
	if err := scalesHere(w, in); err != nil {
		return ch, err
	}
	if err := settledToScale(w, in); err != nil {
		return ch, err
	}
	c := &state.ScaleJob{
		Key: w.job(in.JobID), Group: in.Target[berth.TargetGroup], Message: in.Message, Error: in.Error, Meta: in.Meta, Index: in.JobModifyIndex,
		Now: w.Now.UnixNano(),
	}
	if in.Count != nil {
		c.Change, c.Count = true, *in.Count
		if looksAt(w.Job(c.Key)) {
			c.Eval = w.seed(berth.TriggerJobScaling, 0)
		}
	}
	return propose(c, func(o *Outcome) op.JobRegistered {
		out := registered(c.Eval.ID, o)
		if j := o.After.Job(c.Key); !c.Change && j != nil {
			out.JobModifyIndex = j.JobModifyIndex
		}
		return out
	}), nil
}

// settledToScale refuses to change a group's count while a deployment of the job
// runs: autoscalers compare the text, and ask again later.
func settledToScale(w *Write, in *op.ScaleJob) error {
	j := w.Job(w.job(in.JobID))
	if in.Count == nil || j == nil || j.Group(in.Target[berth.TargetGroup]) == nil {
		return nil
	}
	if d := w.NewestDeployment(j.Key(), j.UID); d != nil && d.Active() {
		return berth.Errorf(berth.Invalid, "job scaling blocked due to active deployment %s", d.ID)
	}
	return nil
}

// scalesHere refuses a target that is not a group of the job in the path.
func scalesHere(w *Write, in *op.ScaleJob) error {
	var ps berth.Problems
	for name, value := range in.Target {
		switch name {
		case berth.TargetGroup:
		case berth.TargetJob:
			if value != "" && value != in.JobID {
				ps.Addf("Target.Job", "%q differs from job %q in the path", berth.Clip(value, 64), berth.Clip(in.JobID, 64))
			}
		case berth.TargetNamespace:
			if value != "" && value != w.Space() {
				ps.Addf("Target.Namespace", "%q differs from namespace %q of the request", berth.Clip(value, 64), w.Space())
			}
		default:
			ps.Addf("Target", "unknown key %q: want Group, Job or Namespace", berth.Clip(name, 64))
		}
	}
	if in.Target[berth.TargetGroup] == "" {
		ps.Addf("Target.Group", "is missing: want the group to scale")
	}
	return ps.Err()
}

// readScale returns the counts of a job's groups, what runs of them, and their
// scaling events.
func readScale(r *Read, in *op.JobRef) (out op.JobScale, err error) {
	j, sum, err := r.job(in.JobID)
	if err != nil {
		return out, err
	}
	r.At(max(j.ModifyIndex, sum.Changed, sum.Allocs), state.OnJob(j.Key()), state.OnAllocsOf(j.Key()))
	out = op.JobScale{
		JobID: j.ID, Namespace: j.Namespace, JobCreateIndex: j.CreateIndex, JobModifyIndex: j.ModifyIndex, JobStopped: j.Stop,
		TaskGroups: map[string]op.GroupScale{},
	}
	// Allocations of groups that the job no longer has are not counted.
	groups := map[string]*op.GroupScale{}
	events := r.ScalingEvents(j.Key())
	for _, g := range j.TaskGroups {
		groups[g.Name] = &op.GroupScale{Desired: g.Count, Events: scalingEvents(events.Groups[g.Name])}
	}
	for a := range r.AllocsOf(j.Key()) {
		if g := groups[a.Group.Name]; g != nil && a.Job.UID == j.UID && a.Live() {
			countScale(g, a)
		}
	}
	for name, g := range groups {
		out.TaskGroups[name] = *g
	}
	return out, nil
}

// countScale counts a live allocation for its group.
func countScale(g *op.GroupScale, a *berth.Alloc) {
	g.Placed++
	if a.Client == berth.ClientRunning {
		g.Running++
	}
	if d := a.Rest().DeploymentStatus; d != nil && d.Healthy != nil {
		if *d.Healthy {
			g.Healthy++
		} else {
			g.Unhealthy++
		}
	}
}

// scalingEvents shows scaling events in their stored order; the result is never
// nil.
func scalingEvents(list []berth.ScalingEvent) []op.ScalingEvent {
	out := make([]op.ScalingEvent, 0, len(list))
	for i := range list {
		e := &list[i]
		v := op.ScalingEvent{
			Time: uint64(e.Time), Count: e.Count, PreviousCount: e.PreviousCount, Error: e.Error, Message: e.Message, Meta: e.Meta,
			CreateIndex: e.CreateIndex,
		}
		if !e.EvalID.IsZero() {
			v.EvalID = &e.EvalID
		}
		out = append(out, v)
	}
	return out
}

// listPolicies returns the scaling policies that the caller may see, in order
// of ID. Type and prefix match the beginnings.
func listPolicies(r *Read, in *op.PoliciesQuery) ([]op.PolicyStub, error) {
	r.Table(state.Jobs)
	// Policies are parts of jobs, whose order is not that of the policies' IDs.
	var list []*berth.ScalingPolicy
	for j := range r.ScaledJobs() {
		if in.Job != "" && string(j.ID) != in.Job || !r.visible(op.ListPolicies.Need, j.Namespace) {
			continue
		}
		for _, p := range j.Policies {
			if strings.HasPrefix(p.Type, in.Type) && strings.HasPrefix(p.ID, r.Query.Prefix) {
				list = append(list, p)
			}
		}
	}
	slices.SortFunc(list, func(a, b *berth.ScalingPolicy) int { return strings.Compare(a.ID, b.ID) })
	l := scanned(r.Query, slices.Values(list), byID(func(p *berth.ScalingPolicy) string { return p.ID }))
	l.seen = []seen[*berth.ScalingPolicy]{sees(func(p *berth.ScalingPolicy) *berth.ScalingPolicy { return p })}
	return page(r, l, nil, func(p *berth.ScalingPolicy) op.PolicyStub {
		return op.PolicyStub{ID: p.ID, Enabled: p.Enabled, Type: p.Type, Target: p.Target, CreateIndex: p.CreateIndex, ModifyIndex: p.ModifyIndex}
	})
}

// readPolicy returns one scaling policy. It searches all jobs with policies.
func readPolicy(r *Read, in *op.PolicyRef) (berth.ScalingPolicy, error) {
	r.Table(state.Jobs)
	absent := r.absent(op.ReadPolicy.Need, "policy not found: %s", berth.Clip(in.PolicyID, 64))
	for j := range r.ScaledJobs() {
		for _, p := range j.Policies {
			if p.ID == in.PolicyID {
				return *p, mayOf(r.may, op.ReadPolicy.Need, j.Namespace, absent)
			}
		}
	}
	return berth.ScalingPolicy{}, absent()
}

package api

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"berth"
	"berth/internal/state"
	"berth/op"
)

// jobStatuses returns how the jobs are that the caller may see, or those of them
// that the request lists, in the order in which they were last changed. Jobs that
// others launched come on request, or if they are listed.
func jobStatuses(r *Read, in *op.StatusesQuery) ([]op.JobStanding, error) {
	r.At(max(r.LastChange(state.Jobs), r.LastChange(state.Summaries), r.LastChange(state.Allocs), r.LastChange(state.Deployments)),
		state.OnTable(state.Jobs), state.OnTable(state.Summaries), state.OnTable(state.Allocs), state.OnTable(state.Deployments))
	if r.Waits() {
		return []op.JobStanding{}, nil
	}
	rows, err := r.standingJobs(in)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(rows, func(a, b state.JobRow) int {
		return cmp.Or(cmp.Compare(a.Job.ModifyIndex, b.Job.ModifyIndex), strings.Compare(standingKey(a), standingKey(b)))
	})
	l := scanned(r.Query, slices.Values(rows), order[state.JobRow]{
		key: func(row state.JobRow) string { return fmt.Sprintf("%d.%s", row.Job.ModifyIndex, standingKey(row)) },
		reached: func(row state.JobRow, token string) bool {
			first, rest, _ := strings.Cut(token, ".")
			index, _ := strconv.ParseUint(first, 10, 64)
			return row.Job.ModifyIndex > index || row.Job.ModifyIndex == index && standingKey(row) >= rest
		},
	})
	l.seen = []seen[state.JobRow]{
		sees(func(row state.JobRow) op.Job { return jobView(row.Job, row.Summary) }),
		sees(func(row state.JobRow) op.JobStub { return jobStub(row.Job, row.Summary, false) }),
	}
	return page(r, l, nil, r.standing)
}

// standingKey is the name of a job among those that one change made.
func standingKey(row state.JobRow) string { return row.Job.Namespace + "." + string(row.Job.ID) }

// standingJobs returns the jobs that a request is about and that the caller may
// see.
func (r *Read) standingJobs(in *op.StatusesQuery) (rows []state.JobRow, err error) {
	const most = 10_000
	if len(in.Jobs) > most {
		return nil, berth.Errorf(berth.Invalid, "Jobs: must be at most %d, got %d", most, len(in.Jobs))
	}
	if len(in.Jobs) == 0 {
		for row := range r.JobRows(state.JobRange{Namespace: r.Space(), Prefix: r.Query.Prefix}) {
			if (in.IncludeChildren || row.Job.ParentID == "") && r.visible(op.JobStatuses.Need, row.Job.Namespace) {
				rows = append(rows, row)
			}
		}
		return rows, nil
	}
	found := map[berth.JobKey]bool{}
	for _, name := range in.Jobs {
		k := berth.JobKey{Namespace: cmp.Or(name.Namespace, r.Space()), ID: name.ID}
		// The list may name jobs of other namespaces than the request.
		j := r.Job(k)
		if j == nil || found[k] || r.may(op.JobStatuses.Need, k.Namespace) != nil {
			continue
		}
		found[k] = true
		rows = append(rows, state.JobRow{Job: j, Summary: r.Summary(k)})
	}
	return rows, nil
}

// standing shows a job with its allocations, its newest deployment and the
// statuses of its children.
func (r *Read) standing(row state.JobRow) op.JobStanding {
	j := row.Job
	v := op.JobStanding{
		ID: j.ID, Namespace: j.Namespace, Name: j.Name, Type: j.Type, NodePool: j.NodePool, Datacenters: j.Datacenters, Priority: j.Priority,
		Version: j.Version, ParentID: j.ParentID, Periodic: j.Periodic != nil, ParameterizedJob: j.ParameterizedJob != nil, SubmitTime: j.SubmitTime,
		CreateIndex: j.CreateIndex, ModifyIndex: j.ModifyIndex, Stop: j.Stop, IsPack: j.Meta["pack.name"] != "", Allocs: []op.AllocStanding{},
	}
	v.Status, _ = row.Summary.Status(j)
	for _, g := range j.TaskGroups {
		v.GroupCountSum += g.Count
	}
	for a := range r.AllocsOf(j.Key()) {
		if a.Job.UID == j.UID {
			v.Allocs = append(v.Allocs, allocStanding(a))
		}
	}
	slices.SortFunc(v.Allocs, func(a, b op.AllocStanding) int { return strings.Compare(a.ID.String(), b.ID.String()) })
	if !j.Schedulable() {
		v.ChildStatuses = []string{}
		for child := range r.ChildrenOf(j.Key()) {
			if sum := r.Summary(child.Key()); sum != nil {
				status, _ := sum.Status(child)
				v.ChildStatuses = append(v.ChildStatuses, status)
			}
		}
		slices.Sort(v.ChildStatuses)
	}
	if d := r.NewestDeployment(j.Key(), j.UID); d != nil {
		v.LatestDeployment = deploymentStanding(d)
	}
	return v
}

// allocStanding shows one allocation.
func allocStanding(a *berth.Alloc) op.AllocStanding {
	m := a.Rest()
	v := op.AllocStanding{
		ID: a.ID, Group: a.Group.Name, ClientStatus: a.Client, DesiredStatus: a.Desired, NodeID: a.NodeID, JobVersion: a.Job.Version, FollowupEvalID: m.FollowupEval,
	}
	if d := m.DeploymentStatus; d != nil {
		v.DeploymentStatus = op.DeploymentHealth{Canary: d.Canary, Healthy: d.Healthy}
	}
	return v
}

// deploymentStanding shows one deployment.
func deploymentStanding(d *berth.Deployment) *op.DeploymentStanding {
	v := &op.DeploymentStanding{
		ID: d.ID, JobVersion: d.JobVersion, Status: d.Status, StatusDescription: op.DeploymentText(d),
		IsActive: d.Active(), AllAutoPromote: len(d.TaskGroups) > 0,
	}
	for _, g := range d.TaskGroups {
		v.AllAutoPromote = v.AllAutoPromote && g.AutoPromote
		v.RequiresPromotion = v.RequiresPromotion || g.DesiredCanaries > 0 && !g.Promoted
	}
	return v
}

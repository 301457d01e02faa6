package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"berth"
	"berth/client"
	"berth/op"
)

// jobStatusCommand lists jobs or shows one. Called through "status" it gets no
// flags but -verbose.
func jobStatusCommand() *command {
	return &command{
		name: "job status", args: "[job]", synopsis: "List jobs, or show the status of one", max: 1,
		example: "job status web",
		help: `Without an argument, lists all jobs. With a job's ID or prefix, shows the job: the state of each group, what could not be placed
			and why, what it is waiting for, and its allocations.`,
		setup: func(f *flags) action {
			s := jobStatus{
				data:      f.data(),
				short:     f.Bool("short", "Show only the job itself."),
				evals:     f.Bool("evals", "Show the job's evaluations as well."),
				allAllocs: f.Bool("all-allocs", "Include allocations of earlier jobs with the same ID."),
				verbose:   f.Bool("verbose", "Show full IDs and absolute times."),
			}
			f.webFlag()
			return s.run
		},
	}
}

// jobStatus holds the flags of "job status".
type jobStatus struct {
	data                             dataFlags
	short, evals, allAllocs, verbose *bool
}

// jobData is what -json shows of a job.
type jobData struct {
	Job         op.Job
	Summary     op.JobSummary
	Allocations []op.AllocStub
	Evaluations []op.Eval
	Deployment  *berth.Deployment // the latest

	children []op.JobStub // of a periodic or parameterized job
}

// run prints the list or the page. With -json, a job is a list of one, as with
// Nomad.
func (s jobStatus) run(ctx context.Context, c *call) error {
	if err := s.data.check(c); err != nil {
		return err
	}
	if len(c.args) == 0 {
		c.web(ctx, "/jobs")
		return s.list(ctx, c)
	}
	j, _, err := c.findJob(ctx, c.args[0])
	if err != nil {
		return err
	}
	c.web(ctx, uiJob(j.Namespace, j.ID))
	d := jobData{Job: j}
	if !*s.short || s.data.wanted() {
		if err := s.load(ctx, c, &d); err != nil {
			return err
		}
	}
	if s.data.wanted() {
		return s.data.write(c, []jobData{d})
	}
	p := c.page()
	s.overview(c, p, &d.Job)
	if err := s.stream(ctx, c, p, &d.Job); err != nil {
		return err
	}
	switch {
	case *s.short:
	case d.Job.Begets():
		c.family(p, &d.Job, &d.Summary, d.children, *s.verbose)
	default:
		s.rest(c, p, &d)
	}
	return c.show(p)
}

// load fills in what belongs to d.Job. The parts are read one after another, so
// they may be of different indexes.
func (s jobStatus) load(ctx context.Context, c *call, d *jobData) (err error) {
	ref := op.JobRef{JobID: string(d.Job.ID), Query: of(&d.Job)}
	if d.Summary, _, err = client.Call(ctx, c.client, op.ReadSummary, ref); err != nil {
		return err
	}
	// -json has no field for the children.
	if d.Job.Begets() && !s.data.wanted() {
		if d.children, err = c.loadChildren(ctx, &d.Job); err != nil {
			return err
		}
	}
	if d.Deployment, err = c.lastDeployment(ctx, d.Job.ID, d.Job.Namespace); err != nil {
		return err
	}
	if d.Evaluations, _, err = client.Call(ctx, c.client, op.JobEvals, ref); err != nil {
		return err
	}
	d.Allocations, _, err = client.Call(ctx, c.client, op.JobAllocs, op.JobAllocsQuery{JobID: ref.JobID, All: *s.allAllocs, Query: ref.Query})
	return err
}

// stream shows the progress of a stream job's submission.
func (s jobStatus) stream(ctx context.Context, c *call, p *page, j *op.Job) error {
	if j.Type != berth.TypeStream {
		return nil
	}
	v, _, err := client.Call(ctx, c.client, op.ReadStreamJob, op.StreamJobRef{JobID: string(j.ID), Query: of(j)})
	if err != nil {
		return err
	}
	p.heading("Submission")
	v.Deletion = nil // already shown above
	p.pairs(standingPairs(&v)...)
	lacking(p, "Missing", v.Missing)
	return nil
}

// list prints all jobs of the namespace.
func (s jobStatus) list(ctx context.Context, c *call) error {
	list, _, err := client.Call(ctx, c.client, op.ListJobs, op.JobsQuery{})
	if err != nil {
		return err
	}
	if s.data.wanted() {
		return s.data.write(c, list)
	}
	p := c.page()
	if len(list) == 0 {
		p.linef("No running jobs")
	} else {
		p.table(c.jobRows(list))
	}
	if err := c.show(p); err != nil || len(list) > 0 {
		return err
	}
	return c.noSpace(ctx)
}

// noSpace says that the namespace of the command does not exist, if so: nothing
// is listed for a typo in its name either.
func (c *call) noSpace(ctx context.Context) error {
	space := c.config.space()
	if space == berth.DefaultNamespace || space == berth.AllNamespaces {
		return nil
	}
	_, _, err := client.Call(ctx, c.client, op.ReadNamespace, op.NamespaceRef{Name: space})
	if berth.KindOf(err) == berth.NotFound {
		fmt.Fprintf(c.Err, "There is no namespace %q; see \"%s namespace list\"\n", space, c.Name)
	}
	return nil
}

// jobRows is a table of jobs, with namespaces if they can differ.
func (c *call) jobRows(list []op.JobStub) [][]string {
	everywhere := c.config.space() == berth.AllNamespaces
	rows := [][]string{{"ID", "Type", "Priority", "Status", "Submit Date"}}
	for _, j := range list {
		rows = append(rows, []string{string(j.ID), j.Type, strconv.Itoa(j.Priority), jobState(j.Status, j.Stop), at(j.SubmitTime)})
	}
	// Elsewhere all jobs are of the namespace that was asked for.
	if everywhere {
		for i := range rows {
			ns := "Namespace"
			if i > 0 {
				ns = list[i-1].Namespace
			}
			rows[i] = slices.Insert(rows[i], 1, ns)
		}
	}
	return rows
}

// jobState is the status of a job. A stopped job may still have running
// allocations, and a dead one need not be stopped.
func jobState(status string, stopped bool) string {
	if stopped {
		return status + " (stopped)"
	}
	return status
}

// overview adds the rows about the job itself.
func (s jobStatus) overview(c *call, p *page, j *op.Job) {
	// Names and order of rows are those of Nomad, which scripts parse.
	kv := []string{
		"ID", string(j.ID),
		"Name", j.Name,
		"Submit Date", at(j.SubmitTime),
		"Type", j.Type,
		"Priority", strconv.Itoa(j.Priority),
		"Datacenters", strings.Join(j.Datacenters, ","),
		"Namespace", j.Namespace,
		"Node Pool", j.NodePool,
		"Status", jobState(j.Status, j.Stop),
		"Periodic", strconv.FormatBool(j.Periodic != nil),
		"Parameterized", strconv.FormatBool(j.ParameterizedJob != nil && !j.Dispatched),
	}
	if d := j.Deletion; d != nil {
		kv = append(kv, "Deletion", deletionLine(d, held(j)))
	}
	if j.Periodic != nil {
		kv = append(kv, "Next Periodic Launch", c.nextLaunch(j))
	}
	if j.ParentID != "" {
		kv = append(kv, "Parent", string(j.ParentID))
	}
	if *s.verbose {
		kv = append(kv, "Version", strconv.FormatUint(j.Version, 10), "Modify Index", strconv.FormatUint(j.JobModifyIndex, 10), "UID", j.UID)
	}
	p.pairs(kv...)
}

// rest adds what a job with allocations of its own has: summary, failures,
// deployment and allocations.
func (s jobStatus) rest(c *call, p *page, d *jobData) {
	p.heading("Summary")
	p.table(summaryRows(&d.Summary))
	slices.SortFunc(d.Evaluations, func(a, b op.Eval) int { return cmp.Compare(b.CreateIndex, a.CreateIndex) })
	if *s.evals {
		p.heading("Evaluations")
		if len(d.Evaluations) == 0 {
			p.linef("No evaluations")
		} else {
			rows := evalRows(d.Evaluations, func(id berth.EvalID) string { return short(id.String(), *s.verbose) })
			for i := range rows {
				rows[i] = slices.Delete(rows[i], 3, 4) // the job's column
			}
			p.table(rows)
		}
	}
	s.failure(c, p, d)
	s.rescheduling(c, p, d)
	latestDeployment(p, d.Deployment, *s.verbose)
	p.heading("Allocations")
	if len(d.Allocations) == 0 {
		p.linef("No allocations placed")
		return
	}
	p.table(c.jobAllocRows(d.Allocations, *s.verbose))
}

// summaryRows is a table of the allocations of each group, by state.
func summaryRows(sum *op.JobSummary) [][]string {
	rows := [][]string{{"Task Group", "Queued", "Starting", "Running", "Failed", "Complete", "Lost", "Unknown"}}
	for _, name := range slices.Sorted(maps.Keys(sum.Summary)) {
		g := sum.Summary[name]
		row := []string{name}
		for _, n := range []int{g.Queued, g.Starting, g.Running, g.Failed, g.Complete, g.Lost, g.Unknown} {
			row = append(row, strconv.Itoa(n))
		}
		rows = append(rows, row)
	}
	return rows
}

// failure shows what the latest decision could not place, and all open
// evaluations. d.evals is newest first.
func (s jobStatus) failure(c *call, p *page, d *jobData) {
	if f := lastFailure(d.Evaluations); f != nil {
		p.heading("Placement Failure")
		for _, g := range failedGroups(f) {
			p.linef("Task Group %q:", g.name)
			for _, l := range g.lines {
				p.linef("  %s", l)
			}
		}
	}
	// Evaluations that wait to replace an allocation are shown by rescheduling.
	var open []string
	for i := range d.Evaluations {
		if e := &d.Evaluations[i]; !terminal(e.Status) && !follows(e, d.Allocations) {
			open = append(open, c.waiting(e, *s.verbose))
		}
	}
	if len(open) == 0 {
		return
	}
	p.heading("Waiting")
	for _, l := range open {
		p.linef("%s", l)
	}
}

// lastFailure is the evaluation with the current placement failures: the
// blocked one, or else the newest that has ended. It is nil if that one placed
// everything.
func lastFailure(evals []op.Eval) *op.Eval {
	// The blocked evaluation has the latest numbers.
	for i := range evals {
		if e := &evals[i]; e.Status == berth.EvalBlocked && len(e.FailedTGAllocs) > 0 {
			return e
		}
	}
	for i := range evals {
		if e := &evals[i]; e.Status == berth.EvalComplete || e.Status == berth.EvalFailed {
			if len(e.FailedTGAllocs) > 0 {
				return e
			}
			return nil
		}
	}
	return nil
}

// follows reports whether an evaluation waits to replace one of the
// allocations.
func follows(e *op.Eval, list []op.AllocStub) bool {
	return slices.ContainsFunc(list, func(a op.AllocStub) bool { return a.FollowupEvalID == e.ID })
}

// rescheduling shows when failed allocations will be replaced.
func (s jobStatus) rescheduling(c *call, p *page, d *jobData) {
	rows := [][]string{{"Task Group", "Eval ID", "Eval Time"}}
	for i := range d.Evaluations {
		e := &d.Evaluations[i]
		if terminal(e.Status) || e.WaitUntil.IsZero() {
			continue
		}
		// Allocations that failed at about the same time share an evaluation.
		groups := map[string]bool{}
		for _, a := range d.Allocations {
			if a.FollowupEvalID == e.ID {
				groups[a.TaskGroup] = true
			}
		}
		for _, g := range slices.Sorted(maps.Keys(groups)) {
			rows = append(rows, []string{g, short(e.ID.String(), *s.verbose), c.when(e.WaitUntil.UnixNano(), *s.verbose)})
		}
	}
	if len(rows) > 1 {
		p.heading("Future Rescheduling Attempts")
		p.table(rows)
	}
}

// jobAllocRows is a table of allocations, newest first.
func (c *call) jobAllocRows(list []op.AllocStub, verbose bool) [][]string {
	slices.SortStableFunc(list, func(a, b op.AllocStub) int {
		return cmp.Or(cmp.Compare(b.CreateIndex, a.CreateIndex), strings.Compare(a.Name, b.Name))
	})
	rows := [][]string{{"ID", "Node ID", "Task Group", "Version", "Desired", "Status", "Created", "Modified"}}
	if verbose {
		rows[0] = []string{"ID", "Eval ID", "Node ID", "Node Name", "Task Group", "Version", "Desired", "Status", "Created", "Modified"}
	}
	for _, a := range list {
		row := []string{short(a.ID.String(), verbose)}
		if verbose {
			row = append(row, a.EvalID.String())
		}
		row = append(row, short(a.NodeID.String(), verbose))
		if verbose {
			row = append(row, a.NodeName)
		}
		rows = append(rows, append(row, a.TaskGroup, strconv.FormatUint(a.JobVersion, 10), a.DesiredStatus.String(), a.ClientStatus.String(),
			c.when(a.CreateTime, verbose), c.when(a.ModifyTime, verbose)))
	}
	return rows
}

package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth"
	"berth/client"
	"berth/internal/top"
	"berth/op"
)

// topCommand is a live view of the cluster.
func topCommand() *command {
	return &command{
		name: "top", synopsis: "Show a live view of the cluster",
		example: "top -namespace '*'",
		help: `Shows jobs, allocations, nodes, deployments, evaluations and services in the terminal, and keeps them up to date. The keys are
			those of similar tools: arrows or j and k move, enter opens what is selected, l shows the logs of an allocation, esc goes back, /
			filters, the digits 1 to 6 open a list, ? lists all keys, and q quits. Nothing can be changed here.`,
		setup: func(f *flags) action {
			every := f.Duration("interval", 2*time.Second, "The `duration` between two updates of the view, such as 5s.")
			return func(ctx context.Context, c *call) error {
				if *every < 200*time.Millisecond || *every > time.Hour {
					return c.usagef("flag -interval must be between 200ms and 1h, got %s", *every)
				}
				if !c.Terminal {
					return berth.Errorf(berth.Invalid, "top needs a terminal; for scripts use \"job status\", \"node status\" and the like with -json")
				}
				return top.Run(ctx, &topSource{c}, top.Options{Color: c.config.color, Every: *every, Colors: stateColors})
			}
		},
	}
}

// topSource loads the pages of "top".
type topSource struct{ c *call }

// Load implements top.Source.
func (s *topSource) Load(ctx context.Context, at top.Place) (p top.Page, err error) {
	p.State = -1
	switch at.Kind {
	case "jobs":
		err = s.jobs(ctx, &p)
	case "allocs":
		var list []op.AllocStub
		list, _, err = client.Call(ctx, s.c.client, op.ListAllocs, op.AllocsQuery{})
		s.allocs(&p, list)
	case "job":
		var list []op.AllocStub
		list, _, err = client.Call(ctx, s.c.client, op.JobAllocs, op.JobAllocsQuery{JobID: at.ID, Query: op.Query{Namespace: at.Namespace}})
		s.allocs(&p, list)
	case "node":
		var list []op.Alloc
		list, _, err = client.Call(ctx, s.c.client, op.NodeAllocs, op.NodeRef{NodeID: at.ID})
		s.allocs(&p, stubsOf(list))
	case "alloc":
		err = s.alloc(ctx, &p, at)
	case "logs":
		err = s.logs(ctx, &p, at)
	case "nodes":
		err = s.nodes(ctx, &p)
	case "deployments":
		err = s.deployments(ctx, &p)
	case "evals":
		err = s.evals(ctx, &p)
	case "services":
		err = s.services(ctx, &p)
	}
	if err == nil {
		p.Head, err = s.head(ctx)
	}
	sanitize(&p)
	return p, err
}

// sanitize removes control characters from what a page shows.
func sanitize(p *top.Page) {
	for i := range p.Rows {
		for k := range p.Rows[i].Cells {
			p.Rows[i].Cells[k] = cell(p.Rows[i].Cells[k])
		}
		p.Rows[i].Open.Label, p.Rows[i].Logs.Label = cell(p.Rows[i].Open.Label), cell(p.Rows[i].Logs.Label)
	}
	for i := range p.Text {
		p.Text[i] = strings.ReplaceAll(clean(p.Text[i]), "\t", "    ")
	}
}

// head describes the cluster in two lines.
func (s *topSource) head(ctx context.Context) ([]string, error) {
	nodes, _, err := client.Call(ctx, s.c.client, op.ListNodes, op.NodesQuery{})
	if berth.KindOf(err) == berth.Denied {
		return []string{fmt.Sprintf("%s  namespace %s", s.c.config.Address, s.c.config.space())}, nil
	}
	if err != nil {
		return nil, err
	}
	ready, draining := 0, 0
	for _, n := range nodes {
		if n.Status == berth.NodeReady {
			ready++
		}
		if n.Drain {
			draining++
		}
	}
	jobs, _, err := client.Call(ctx, s.c.client, op.ListJobs, op.JobsQuery{})
	if err != nil {
		return nil, err
	}
	var sum op.GroupSummary
	for _, j := range jobs {
		if j.JobSummary == nil {
			continue
		}
		for _, g := range j.JobSummary.Summary {
			sum.Queued += g.Queued
			sum.Starting += g.Starting
			sum.Running += g.Running
			sum.Failed += g.Failed
			sum.Lost += g.Lost
		}
	}
	line := fmt.Sprintf("%d of %s ready", ready, plural(len(nodes), "node"))
	if draining > 0 {
		line += fmt.Sprintf(", %d draining", draining)
	}
	return []string{
		fmt.Sprintf("%s  namespace %s  %s", or(s.c.config.Address, client.DefaultAddress), s.c.config.space(), s.c.Now().Format(time.TimeOnly)),
		fmt.Sprintf("%s  %s: %d running, %d starting, %d queued, %d failed, %d lost", line, plural(len(jobs), "job"), sum.Running, sum.Starting, sum.Queued, sum.Failed, sum.Lost),
	}, nil
}

// jobs lists the jobs.
func (s *topSource) jobs(ctx context.Context, p *top.Page) error {
	list, _, err := client.Call(ctx, s.c.client, op.ListJobs, op.JobsQuery{})
	p.Columns, p.State, p.Empty = []string{"Job", "Namespace", "Type", "Priority", "Status", "Running", "Waiting", "Failed", "Submitted"}, 4, `no jobs; "job run" registers one`
	for _, j := range list {
		var run, wait, failed int
		if j.JobSummary != nil {
			for _, g := range j.JobSummary.Summary {
				run, wait, failed = run+g.Running, wait+g.Queued+g.Starting, failed+g.Failed+g.Lost
			}
		}
		p.Rows = append(p.Rows, top.Row{
			Cells: []string{string(j.ID), j.Namespace, j.Type, strconv.Itoa(j.Priority), jobState(j.Status, j.Stop), strconv.Itoa(run), strconv.Itoa(wait), strconv.Itoa(failed), s.c.when(j.SubmitTime, false)},
			Open:  top.Place{Kind: "job", Namespace: j.Namespace, ID: string(j.ID), Label: string(j.ID)},
		})
	}
	return err
}

// stubsOf returns allocations as lists show them.
func stubsOf(list []op.Alloc) (out []op.AllocStub) {
	for _, a := range list {
		s := op.AllocStub{
			ID: a.ID, Name: a.Name, Namespace: a.Namespace, NodeID: a.NodeID, NodeName: a.NodeName, JobID: a.JobID, TaskGroup: a.TaskGroup,
			DesiredStatus: a.DesiredStatus, ClientStatus: a.ClientStatus, TaskStates: a.TaskStates, CreateIndex: a.CreateIndex, CreateTime: a.CreateTime, ModifyTime: a.ModifyTime,
		}
		if a.Job != nil {
			s.JobVersion = a.Job.Version
		}
		out = append(out, s)
	}
	return out
}

// allocs lists allocations, newest first.
func (s *topSource) allocs(p *top.Page, list []op.AllocStub) {
	slices.SortStableFunc(list, func(a, b op.AllocStub) int { return int(min(1, max(-1, b.CreateTime-a.CreateTime))) })
	p.Columns, p.State, p.Empty = []string{"ID", "Name", "Version", "Desired", "Status", "Restarts", "Node", "Created"}, 4, "no allocations"
	for _, a := range list {
		var restarts uint64
		for _, t := range a.TaskStates {
			restarts += uint64(t.Restarts)
		}
		at := top.Place{Kind: "alloc", Namespace: a.Namespace, ID: a.ID.String(), Label: a.ID.Short()}
		logs := at
		logs.Kind, logs.Stream = "logs", "stdout"
		p.Rows = append(p.Rows, top.Row{
			Cells: []string{a.ID.Short(), a.Name, strconv.FormatUint(a.JobVersion, 10), a.DesiredStatus.String(), a.ClientStatus.String(), strconv.FormatUint(restarts, 10), a.NodeName, s.c.when(a.CreateTime, false)},
			Open:  at, Logs: logs,
		})
	}
}

// alloc shows the tasks of one allocation and what happened to them. Each task
// leads to its logs.
func (s *topSource) alloc(ctx context.Context, p *top.Page, at top.Place) error {
	a, _, err := client.Call(ctx, s.c.client, op.ReadAlloc, op.AllocRef{AllocID: at.ID, Query: op.Query{Namespace: at.Namespace}})
	if err != nil {
		return err
	}
	p.Columns, p.State, p.Empty = []string{"Task", "State", "When", "Event"}, 1, "no tasks"
	for _, name := range tasksOf(&a) {
		logs := top.Place{Kind: "logs", Namespace: a.Namespace, ID: at.ID + "/" + name, Label: name, Stream: "stdout"}
		st := a.TaskStates[name]
		if st == nil {
			p.Rows = append(p.Rows, top.Row{Cells: []string{name, "pending", "", ""}, Open: logs, Logs: logs})
			continue
		}
		state := st.State
		if st.Failed {
			state = "failed"
		}
		p.Rows = append(p.Rows, top.Row{Cells: []string{name, state, "", plural(int(st.Restarts), "restart")}, Open: logs, Logs: logs})
		for _, e := range slices.Backward(st.Events) {
			p.Rows = append(p.Rows, top.Row{Cells: []string{"", "", s.c.when(e.Time, false), e.Type + ": " + e.DisplayMessage}, Open: logs, Logs: logs})
		}
	}
	return nil
}

// topLogBytes is how much of a log is shown.
const topLogBytes = 64 << 10

// logs shows the end of a task's output. The place's ID is that of the
// allocation, with the task behind a slash if it is known.
func (s *topSource) logs(ctx context.Context, p *top.Page, at top.Place) error {
	id, task, _ := strings.Cut(at.ID, "/")
	a, _, err := client.Call(ctx, s.c.client, op.ReadAlloc, op.AllocRef{AllocID: id, Query: op.Query{Namespace: at.Namespace}})
	if err != nil {
		return err
	}
	if task == "" {
		task = tasksOf(&a)[0]
	}
	p.Empty = "nothing on " + at.Stream + " of task " + task + "; tab shows the other stream"
	var b strings.Builder
	for frame, err := range logsOf(s.c, &a, task, at.Stream)(ctx, section{origin: "end", offset: topLogBytes}) {
		if berth.KindOf(err) == berth.NotFound {
			return nil // it has not written yet
		}
		if err != nil {
			return err
		}
		b.Write(frame.Data)
	}
	if text := strings.TrimRight(b.String(), "\n"); text != "" {
		p.Text = strings.Split(text, "\n")
	}
	return nil
}

// nodes lists the nodes.
func (s *topSource) nodes(ctx context.Context, p *top.Page) error {
	list, _, err := client.Call(ctx, s.c.client, op.ListNodes, op.NodesQuery{})
	p.Columns, p.State, p.Empty = []string{"ID", "Name", "Pool", "Datacenter", "Class", "Drain", "Eligibility", "Status"}, 7, "no nodes"
	for _, n := range list {
		p.Rows = append(p.Rows, top.Row{
			Cells: []string{n.ID.Short(), n.Name, n.NodePool, n.Datacenter, or(n.NodeClass, none), strconv.FormatBool(n.Drain), n.SchedulingEligibility, n.Status},
			Open:  top.Place{Kind: "node", ID: n.ID.String(), Label: n.Name},
		})
	}
	return err
}

// deployments lists the deployments, newest first.
func (s *topSource) deployments(ctx context.Context, p *top.Page) error {
	list, _, err := client.Call(ctx, s.c.client, op.ListDeployments, op.Query{})
	slices.SortStableFunc(list, func(a, b *berth.Deployment) int {
		return int(min(1, max(-1, int64(b.CreateIndex)-int64(a.CreateIndex))))
	})
	p.Columns, p.State, p.Empty = []string{"ID", "Job", "Version", "Status", "Description"}, 3, "no deployments"
	for _, d := range list {
		p.Rows = append(p.Rows, top.Row{
			Cells: []string{d.ID.Short(), string(d.JobID), strconv.FormatUint(d.JobVersion, 10), d.Status, d.StatusDescription},
			Open:  top.Place{Kind: "job", Namespace: d.Namespace, ID: string(d.JobID), Label: string(d.JobID)},
		})
	}
	return err
}

// evals lists the evaluations, newest first.
func (s *topSource) evals(ctx context.Context, p *top.Page) error {
	list, _, err := client.Call(ctx, s.c.client, op.ListEvals, op.EvalsQuery{Query: op.Query{Reverse: true, PerPage: 500}})
	p.Columns, p.State, p.Empty = []string{"ID", "Job", "Triggered By", "Priority", "Status", "Placement Failures"}, 4, "no evaluations"
	for _, e := range list {
		p.Rows = append(p.Rows, top.Row{
			Cells: []string{e.ID.Short(), string(e.JobID), e.TriggeredBy, strconv.Itoa(e.Priority), e.Status, strconv.FormatBool(len(e.FailedTGAllocs) > 0)},
			Open:  top.Place{Kind: "job", Namespace: e.Namespace, ID: string(e.JobID), Label: string(e.JobID)},
		})
	}
	return err
}

// services lists the services.
func (s *topSource) services(ctx context.Context, p *top.Page) error {
	list, _, err := client.Call(ctx, s.c.client, op.ListServices, op.Query{})
	p.Columns, p.Empty = []string{"Service", "Namespace", "Tags"}, "no services"
	for _, ns := range list {
		for _, v := range ns.Services {
			p.Rows = append(p.Rows, top.Row{Cells: []string{v.ServiceName, ns.Namespace, strings.Join(v.Tags, ", ")}})
		}
	}
	return err
}

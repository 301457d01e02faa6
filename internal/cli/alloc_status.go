package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"time"

	"berth"
	"berth/client"
	"berth/op"
)

// allocStatusCommand shows one allocation with its tasks.
func allocStatusCommand() *command {
	return &command{
		name: "alloc status", args: "<allocation>", synopsis: "Show an allocation: its state, tasks and events", min: 1, max: 1,
		example: "alloc status 0af996ed",
		help: `Shows an allocation, given by ID or prefix: its node and why it was placed there, its addresses, and for each task its resources,
			state and events, newest first.`,
		setup: func(f *flags) action {
			s := allocStatus{
				data:    f.data(),
				stats:   f.Bool("stats", "Show what each task uses of its node."),
				short:   f.Bool("short", "Show only the latest event of each task."),
				verbose: f.Bool("verbose", "Show full IDs, absolute times, and the scores of the nodes considered at placement."),
			}
			f.webFlag()
			return s.run
		},
	}
}

// allocStatus holds the flags of "alloc status".
type allocStatus struct {
	data                  dataFlags
	short, verbose, stats *bool
}

// run prints the page, or with -json and -t the allocation alone. Related
// evaluations and allocations may have been collected; then their rows are
// missing or empty.
func (s allocStatus) run(ctx context.Context, c *call) error {
	if err := s.data.check(c); err != nil {
		return err
	}
	a, err := c.findAlloc(ctx, c.args[0])
	if err != nil {
		return err
	}
	c.web(ctx, uiAlloc(a.ID))
	if s.data.wanted() {
		return s.data.write(c, a)
	}
	var eligible time.Time
	if !a.FollowupEvalID.IsZero() {
		// Without its evaluation the rest is still worth showing.
		if e, _, err := client.Call(ctx, c.client, op.ReadEval, op.EvalQuery{EvalID: a.FollowupEvalID.String()}); err == nil {
			eligible = e.WaitUntil
		}
	}
	p := c.page()
	s.overview(c, p, &a, eligible)
	s.preemptions(ctx, c, p, &a)
	if *s.short {
		s.tasksShort(p, &a)
		return c.show(p)
	}
	s.addresses(p, &a)
	used := &op.AllocUsage{}
	if *s.stats {
		if used, err = s.usage(ctx, c, &a); err != nil {
			return err
		}
	}
	for _, name := range tasksOf(&a) {
		s.task(p, &a, name, used.Tasks[name])
	}
	if *s.verbose {
		s.placement(p, &a)
	}
	return c.show(p)
}

// overview adds the rows about the allocation as a whole. eligible is when it
// may be replaced, zero if that is not planned.
func (s allocStatus) overview(c *call, p *page, a *op.Alloc, eligible time.Time) {
	// IDs that are not set keep their row.
	id := func(id string) string { return shortOr(id, *s.verbose, none) }
	// Names and order of rows are those of Nomad, which scripts parse.
	kv := []string{
		"ID", id(a.ID.String()),
		"Eval ID", id(a.EvalID.String()),
		"Name", a.Name,
		"Node ID", id(a.NodeID.String()),
		"Node Name", or(a.NodeName, none),
		"Job ID", string(a.JobID),
	}
	if a.Namespace != berth.DefaultNamespace {
		kv = append(kv, "Namespace", a.Namespace)
	}
	if a.Job != nil {
		kv = append(kv, "Job Version", strconv.FormatUint(a.Job.Version, 10))
	}
	if a.PE != nil {
		launch := fmt.Sprintf("%s, launch %d", a.PE.UID, a.PE.LaunchCount)
		if a.PE.Zombie {
			launch += ", " + op.StatusZombie
		}
		kv = append(kv, "Processing Element", launch)
	}
	kv = append(kv,
		"Client Status", a.ClientStatus.String(),
		"Client Description", or(a.ClientDescription, none),
	)
	if a.UnknownSince != 0 {
		kv = append(kv, "Unknown Since", c.when(a.UnknownSince, *s.verbose))
	}
	kv = append(kv,
		"Desired Status", a.DesiredStatus.String(),
		"Desired Description", or(a.DesiredDescription, none),
		"Created", c.when(a.CreateTime, *s.verbose),
		"Modified", c.when(a.ModifyTime, *s.verbose),
	)
	if !a.DeploymentID.IsZero() {
		kv = append(kv, "Deployment ID", id(a.DeploymentID.String()))
	}
	kv = append(kv, s.replacing(c, a, eligible)...)
	if m := a.Metrics; m != nil && *s.verbose {
		kv = append(kv,
			"Evaluated Nodes", strconv.Itoa(m.NodesEvaluated),
			"Filtered Nodes", strconv.Itoa(m.NodesFiltered),
			"Exhausted Nodes", strconv.Itoa(m.NodesExhausted),
			"Allocation Time", m.AllocationTime.String(),
			"Failures", strconv.Itoa(m.CoalescedFailures),
		)
	}
	p.pairs(kv...)
}

// replacing shows what the allocation replaces, what replaces it, and when it
// will be replaced.
func (s allocStatus) replacing(c *call, a *op.Alloc, eligible time.Time) (kv []string) {
	if !a.PreviousAllocation.IsZero() {
		kv = append(kv, "Previous Alloc ID", short(a.PreviousAllocation.String(), *s.verbose))
	}
	if !a.NextAllocation.IsZero() {
		kv = append(kv, "Replacement Alloc ID", short(a.NextAllocation.String(), *s.verbose))
	}
	if !a.FollowupEvalID.IsZero() {
		kv = append(kv, "Followup Eval ID", short(a.FollowupEvalID.String(), *s.verbose))
	}
	switch {
	// A time that has passed is not shown: the replacement is on its way.
	case !eligible.After(c.Now()):
	case a.ClientStatus == berth.ClientUnknown:
		kv = append(kv, "Lost Unless Reconnected", c.ago(eligible))
	default:
		kv = append(kv, "Reschedule Eligibility", c.ago(eligible))
	}
	if a.RescheduleTracker == nil || a.Job == nil {
		return kv
	}
	// With a limit, only the attempts within the policy's interval count.
	made := len(a.RescheduleTracker.Events)
	attempts := strconv.Itoa(made)
	if g := a.Job.Group(a.TaskGroup); g != nil && g.ReschedulePolicy != nil && !g.ReschedulePolicy.Unlimited {
		made = 0
		for _, e := range a.RescheduleTracker.Events {
			if c.Now().Sub(time.Unix(0, e.RescheduleTime)) < g.ReschedulePolicy.Interval {
				made++
			}
		}
		attempts = fmt.Sprintf("%d/%d", made, g.ReschedulePolicy.Attempts)
	}
	return append(kv, "Reschedule Attempts", attempts)
}

// tasksOf are the tasks of the allocation's group in the order in which they
// start, and as in the job where they start together; or else those that its
// agent reported.
func tasksOf(a *op.Alloc) (names []string) {
	if a.Job != nil {
		if g := a.Job.Group(a.TaskGroup); g != nil {
			tasks := slices.Clone(g.Tasks)
			slices.SortStableFunc(tasks, func(x, y *berth.Task) int {
				return cmp.Compare(slices.Index(startOrder, x.Hook()), slices.Index(startOrder, y.Hook()))
			})
			for _, t := range tasks {
				names = append(names, t.Name)
			}
			return names
		}
	}
	return slices.Sorted(maps.Keys(a.TaskStates))
}

// startOrder are the hooks of lifecycle in the order of their tasks' starts; ""
// is a main task.
var startOrder = []string{berth.HookPrestart, "", berth.HookPoststart, berth.HookPoststop}

// lifecycleOf returns the words for a task's lifecycle: " (prestart sidecar)";
// "" for a main task.
func lifecycleOf(a *op.Alloc, name string) string {
	if a.Job == nil {
		return ""
	}
	g := a.Job.Group(a.TaskGroup)
	if g == nil {
		return ""
	}
	switch t := g.Task(name); {
	case t == nil || t.Lifecycle == nil:
		return ""
	case t.Sidecar():
		return " (" + t.Hook() + " sidecar)"
	default:
		return " (" + t.Hook() + ")"
	}
}

// stateOf returns the state of a task, never nil: a task that its agent has not
// reported yet is pending.
func stateOf(a *op.Alloc, task string) *op.TaskState {
	if s := a.TaskStates[task]; s != nil {
		return s
	}
	return &op.TaskState{State: berth.TaskPending}
}

// tasksShort adds one row for each task, with its latest event.
func (s allocStatus) tasksShort(p *page, a *op.Alloc) {
	p.heading("Tasks")
	rows := [][]string{{"Name", "State", "Last Event", "Time"}}
	for _, name := range tasksOf(a) {
		st := stateOf(a, name)
		row := []string{name, st.State, none, notYet}
		if n := len(st.Events); n > 0 {
			row[2], row[3] = st.Events[n-1].Type, at(st.Events[n-1].Time)
		}
		rows = append(rows, row)
	}
	p.table(rows)
}

// addresses lists the ports of the allocation. A star marks ports of the
// group's network; those that a task asked for itself have its name.
func (s allocStatus) addresses(p *page, a *op.Alloc) {
	if a.AllocatedResources == nil {
		return
	}
	rows := [][]string{{"Label", "Dynamic", "Address"}}
	add := func(label string, m *berth.PortMapping, networks []berth.NetworkResource) {
		// Ports that the job asked for by number are not dynamic.
		dynamic := "yes"
		for i := range networks {
			if slices.ContainsFunc(networks[i].ReservedPorts, func(p berth.Port) bool { return p.Label == m.Label }) {
				dynamic = "no"
			}
		}
		address := hostPort(m.HostIP, m.Value)
		if m.To > 0 {
			address += " -> " + strconv.Itoa(m.To)
		}
		rows = append(rows, []string{label, dynamic, address})
	}
	shared := &a.AllocatedResources.Shared
	for i := range shared.Ports {
		add("*"+shared.Ports[i].Label, &shared.Ports[i], shared.Networks)
	}
	for _, name := range tasksOf(a) {
		t := a.AllocatedResources.Tasks[name]
		for _, m := range t.Ports() {
			add(name+"/"+m.Label, &m, t.Networks)
		}
	}
	if len(rows) == 1 {
		return
	}
	p.heading("Allocation Addresses:")
	p.table(rows)
}

// hostPort returns host:port, with brackets around an IPv6 host.
func hostPort(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

// task adds the section of one task: resources, times and events, newest first.
// used is what it uses, nil if that is not known.
func (s allocStatus) task(p *page, a *op.Alloc, name string, used *op.TaskUsage) {
	st := stateOf(a, name)
	p.heading(fmt.Sprintf("Task %q%s is %q", name, clean(lifecycleOf(a, name)), st.State))
	// Resources are what was reserved at placement, behind what is used of it.
	if r := a.AllocatedResources; r != nil && r.Tasks[name] != nil {
		t := r.Tasks[name]
		cpu, memory := fmt.Sprintf("%d MHz", t.Cpu.CpuShares), mib(t.Memory.MemoryMB)
		if used != nil && used.ResourceUsage != nil && used.ResourceUsage.CpuStats != nil && used.ResourceUsage.MemoryStats != nil {
			cpu = fmt.Sprintf("%.0f/%s", used.ResourceUsage.CpuStats.TotalTicks, cpu)
			memory = inBytes(used.ResourceUsage.MemoryStats.RSS) + "/" + memory
		}
		p.linef("Task Resources:")
		p.table([][]string{{"CPU", "Memory", "Disk", "Addresses"}, {cpu, memory, mib(r.Shared.DiskMB), ""}})
		measuredRows(p, used)
	}
	p.gap()
	p.linef("Task Events:")
	p.pairs(
		"Started At", stamp(st.StartedAt),
		"Finished At", stamp(st.FinishedAt),
		"Total Restarts", strconv.FormatUint(st.Restarts, 10),
		"Last Restart", stamp(st.LastRestart),
	)
	if waits := waitsOf(st); waits != "" {
		p.linef("Waiting for %s", clean(waits))
	}
	p.gap()
	p.linef("Recent Events:")
	// A task without events has not reached its agent yet.
	if len(st.Events) == 0 {
		p.linef("No events: the node's agent has not reported yet")
		return
	}
	rows := [][]string{{"Time", "Type", "Description"}}
	for _, e := range slices.Backward(st.Events) {
		rows = append(rows, []string{at(e.Time), e.Type, eventText(&e)})
	}
	p.table(rows)
}

// placement compares the nodes that were considered, best first.
func (s allocStatus) placement(p *page, a *op.Alloc) {
	if a.Metrics == nil || len(a.Metrics.ScoreMetaData) == 0 {
		return
	}
	list := slices.Clone(a.Metrics.ScoreMetaData)
	slices.SortStableFunc(list, func(a, b berth.NodeScore) int { return cmp.Compare(b.NormScore, a.NormScore) })
	// Nodes can have different scorers; a node without one of them shows 0.
	var names []string
	for _, n := range list {
		for name := range n.Scores {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	rows := [][]string{append(append([]string{"Node"}, names...), "final score")}
	for _, n := range list {
		row := []string{n.NodeID.String()}
		for _, name := range names {
			row = append(row, score(n.Scores[name]))
		}
		rows = append(rows, append(row, score(n.NormScore)))
	}
	p.heading("Placement Metrics")
	p.table(rows)
}

// score formats a score with three significant digits.
func score(f float64) string { return strconv.FormatFloat(f, 'g', 3, 64) }

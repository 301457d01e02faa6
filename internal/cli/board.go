package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"berth"
	"berth/internal/top"
	"berth/op"
)

// boardRows is how many allocations a board shows: those first that need a look.
const boardRows = 8

// lastLines is how many lines of the output of a failed task are printed.
const lastLines = 3

// board is the live screen of a monitor on a terminal. It stands below the lines
// that stay: how far each group is, and its allocations.
type board struct {
	list    []op.AllocStub    // of the version that is watched
	rollout *berth.Deployment // nil without a deployment
	printed map[berth.AllocID]string
}

// lines returns what the board shows.
func (b *board) lines(now time.Time, verbose bool) (out []string) {
	groups := map[string][]*op.AllocStub{}
	for i := range b.list {
		if a := &b.list[i]; a.DesiredStatus == berth.DesiredRun {
			groups[a.TaskGroup] = append(groups[a.TaskGroup], a)
		}
	}
	if b.rollout != nil {
		for name := range b.rollout.TaskGroups {
			groups[name] = append(groups[name], nil)[:len(groups[name])] // also before its first allocation
		}
	}
	var rows []*op.AllocStub
	width := 0
	for name := range groups {
		width = max(width, len(cell(name)))
	}
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		out = append(out, pad(cell(name), width)+"  "+b.group(name, groups[name]))
		rows = append(rows, groups[name]...)
	}
	slices.SortStableFunc(rows, func(x, y *op.AllocStub) int {
		return cmp.Or(cmp.Compare(urgency(x), urgency(y)), strings.Compare(x.Name, y.Name))
	})
	shown := rows[:min(boardRows, len(rows))]
	width = 0
	for _, a := range shown {
		width = max(width, len(instance(a)))
	}
	for _, a := range shown {
		out = append(out, fmt.Sprintf("  %s %s  %s", short(a.ID.String(), verbose), pad(instance(a), width), boardRow(a, now)))
	}
	if more := len(rows) - boardRows; more > 0 {
		out = append(out, fmt.Sprintf("  and %s", plural(more, "more allocation")))
	}
	return out
}

// group tells how far a group is.
func (b *board) group(name string, list []*op.AllocStub) string {
	if b.rollout != nil && b.rollout.TaskGroups[name] != nil {
		s := b.rollout.TaskGroups[name]
		text := fmt.Sprintf("%s  %d of %d healthy, %d placed", bar(s.HealthyAllocs, s.DesiredTotal), s.HealthyAllocs, s.DesiredTotal, s.PlacedAllocs)
		if s.UnhealthyAllocs > 0 {
			text += fmt.Sprintf(", %s%d unhealthy%s", red, s.UnhealthyAllocs, normal)
		}
		return text
	}
	running := 0
	for _, a := range list {
		if a.ClientStatus != berth.ClientPending {
			running++
		}
	}
	return fmt.Sprintf("%s  %d of %d started", bar(running, len(list)), running, len(list))
}

// bar draws a part of a whole in ten cells.
func bar(n, of int) string {
	full := 0
	if of > 0 {
		full = min(10, 10*n/of)
	}
	return green + strings.Repeat("█", full) + normal + strings.Repeat("░", 10-full)
}

// urgency orders allocations: what failed is looked at first, what is healthy last.
func urgency(a *op.AllocStub) int {
	switch health := a.DeploymentStatus; {
	case a.ClientStatus == berth.ClientFailed, a.ClientStatus == berth.ClientLost:
		return 0
	case health != nil && health.Healthy != nil && !*health.Healthy:
		return 1
	case a.ClientStatus == berth.ClientPending:
		return 2
	case health != nil && health.Healthy == nil:
		return 3
	}
	return 4
}

// instance is the name of an allocation within its job.
func instance(a *op.AllocStub) string {
	return cell(a.TaskGroup + a.Name[max(0, strings.LastIndexByte(a.Name, '[')):])
}

// boardRow tells how one allocation is.
func boardRow(a *op.AllocStub, now time.Time) string {
	state := a.ClientStatus.String()
	if h := a.DeploymentStatus; h != nil && h.Healthy != nil && a.ClientStatus == berth.ClientRunning {
		state = map[bool]string{true: "healthy", false: "unhealthy"}[*h.Healthy]
	}
	text := fmt.Sprintf("%s  %s  %s", colored(pad(state, 9)), cell(a.NodeName), span(max(0, now.Sub(time.Unix(0, a.CreateTime)))))
	restarts := uint64(0)
	for _, s := range a.TaskStates {
		restarts += uint64(s.Restarts)
	}
	if restarts > 0 {
		text += "  " + plural(int(restarts), "restart")
	}
	if w := waiting(a); w != "" {
		text += "  " + cell(w)
	}
	return text
}

// board shows the allocations on a terminal, and prints the last output of tasks
// that failed since the last look.
func (m *monitor) board(ctx context.Context, list []op.AllocStub, d *berth.Deployment) {
	if !m.progress.terminal {
		return
	}
	if m.shown == nil {
		m.shown = &board{printed: map[berth.AllocID]string{}}
		m.progress.below = func() []string { return m.shown.lines(m.Now(), m.options.verbose) }
	}
	m.shown.rollout, m.shown.list = d, nil
	for _, a := range list {
		if d == nil || a.JobVersion == d.JobVersion {
			m.shown.list = append(m.shown.list, a)
		}
	}
	for i := range m.shown.list {
		a := &m.shown.list[i]
		t := trouble(a)
		if t == "" || m.shown.printed[a.ID] == t {
			continue
		}
		m.shown.printed[a.ID] = t
		for _, name := range slices.Sorted(maps.Keys(a.TaskStates)) {
			if s := a.TaskStates[name]; s.Failed || s.Restarts > 0 {
				m.lastOutput(ctx, a, name)
			}
		}
	}
}

// lastOutput prints the last lines that a task wrote, of errors if there are any.
// What cannot be read is left out: it is an addition to what was said already.
func (m *monitor) lastOutput(ctx context.Context, a *op.AllocStub, task string) {
	for _, stream := range []string{"stderr", "stdout"} {
		p, at := top.Page{}, top.Place{Kind: "logs", Namespace: a.Namespace, ID: a.ID.String() + "/" + task, Stream: stream}
		if err := (&topSource{m.call}).logs(ctx, &p, at); err != nil || len(p.Text) == 0 {
			continue
		}
		for _, l := range p.Text[max(0, len(p.Text)-lastLines):] {
			m.progress.line(fmt.Sprintf("        %s %s | %s", short(a.ID.String(), m.options.verbose), cell(task), cell(l)))
		}
		return
	}
}

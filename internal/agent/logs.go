package agent

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"time"

	"berth"
	"berth/internal/agent/logs"
	"berth/internal/rest"
	"berth/op"
)

// serveLogs answers what people ask about the output of tasks.
func (a *Agent) serveLogs(s *serving) {
	onOpen(s, op.AgentLogs, func(ctx context.Context, q *op.LogsQuery, from op.Incoming) error {
		return a.Logs(ctx, q, func(f *op.StreamFrame) error { return sendJSON(from, f) })
	})
}

// Logs hands a task's output to send, in frames; see [logs.Stream].
func (a *Agent) Logs(ctx context.Context, q *op.LogsQuery, send func(*op.StreamFrame) error) error {
	al, runner, err := a.find(q.AllocID)
	if err != nil {
		return err
	}
	t := taskOf(al, q.Task)
	if t == nil {
		return berth.Errorf(berth.NotFound, "allocation %s has no task %q", al.ID, q.Task)
	}
	if t.LogConfig != nil && t.LogConfig.Disabled {
		return berth.Errorf(berth.NotFound, "the logs of task %q are disabled", q.Task)
	}
	dead := func() bool { return runner == nil || runner.TaskDead(q.Task) }
	for {
		// One directory after the other, none through a link: a task could put
		// a link to another's secrets there.
		dir, err := a.dirs.Sub(q.AllocID + "/" + logs.Dir)
		if err == nil {
			defer dir.Close()
			return unlessOver(ctx, logs.Stream(ctx, dir, logs.Request{
				Task: q.Task, Stream: q.Type, Origin: q.Origin, Offset: q.Offset, File: q.File, Follow: q.Follow, Ended: dead,
			}, send))
		}
		switch {
		case !errors.Is(err, fs.ErrNotExist):
			return err
		case dead():
			return berth.Errorf(berth.NotFound, "nothing is kept of the logs of allocation %s", al.ID)
		case !q.Follow:
			return nil // it is on its way, and has written nothing
		}
		if err := rest.For(ctx, 200*time.Millisecond); err != nil {
			return nil // the reader has gone
		}
	}
}

// unlessOver is the result of a stream: one that ends because ctx does has not
// come to its end, so that its reader knows that there may be more.
func unlessOver(ctx context.Context, err error) error {
	if err == nil && ctx.Err() != nil {
		return berth.Errorf(berth.Unavailable, "the stream was ended before its end: %w", context.Cause(ctx))
	}
	return err
}

// taskOf returns the task of that name, nil if the allocation has none.
func taskOf(al *op.Alloc, name string) *berth.Task {
	if al.Job == nil {
		return nil
	}
	if g := al.Job.Group(al.TaskGroup); g != nil {
		return g.Task(name)
	}
	return nil
}

// View tells how the agent stands, for those who watch it.
func (a *Agent) View() *View {
	a.mu.Lock()
	v := &View{Node: a.id, Index: a.acted, Heartbeat: a.ttl, LastHeartbeat: a.lastHeartbeat, Unreported: a.reports.unsent()}
	all := maps.Clone(a.allocs)
	for _, id := range slices.Sorted(maps.Keys(all)) {
		v.Allocs = append(v.Allocs, Held{ID: id, ModifyIndex: all[id].alloc.ModifyIndex, Status: all[id].alloc.ClientStatus})
	}
	a.mu.Unlock()
	for i := range v.Allocs {
		if r := all[v.Allocs[i].ID].runner; r != nil {
			n := r.News()
			v.Allocs[i].Status, v.Allocs[i].Description = n.ClientStatus, n.ClientDescription
		}
	}
	return v
}

// Stats are figures for /v1/agent/self, in the shape it has there.
func (a *Agent) Stats() map[string]string {
	v := a.View()
	running := 0
	for _, h := range v.Allocs {
		if h.Status == berth.ClientRunning {
			running++
		}
	}
	out := map[string]string{
		"node_id": v.Node.String(), "num_allocations": strconv.Itoa(len(v.Allocs)), "running_allocations": strconv.Itoa(running),
		"heartbeat_ttl": v.Heartbeat.String(), "acted_index": strconv.FormatUint(v.Index, 10), "unreported_allocations": strconv.Itoa(v.Unreported),
	}
	if !v.LastHeartbeat.IsZero() {
		out["last_heartbeat"] = time.Since(v.LastHeartbeat).Round(time.Millisecond).String()
	}
	return out
}

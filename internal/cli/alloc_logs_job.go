package cli

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"berth"
	"berth/client"
	"berth/internal/rest"
	"berth/op"
)

// jobLogs follows the output of all allocations of a job, also of those that are
// placed meanwhile, with a label before each line.
type jobLogs struct {
	*call
	flags   allocLogs
	job     op.Job
	task    string // "" is all
	streams []string
	out     *shared

	seen map[berth.AllocID]bool
	g    *errgroup.Group
}

// followJob follows a job's allocations until the job is dead and they have
// ended. ok is false if none runs or waits to: then the output of one that has
// ended is all there is.
func (l allocLogs) followJob(ctx context.Context, c *call) (ok bool, err error) {
	j, _, err := c.findJob(ctx, *l.job)
	if err != nil {
		return true, err
	}
	f := &jobLogs{call: c, flags: l, job: j, task: *l.task, streams: l.streams(), out: &shared{out: c.Out, err: c.Err}, seen: map[berth.AllocID]bool{}}
	if f.task == "" && len(c.args) > 0 {
		f.task = c.args[0]
	}
	if err := f.check(); err != nil {
		return true, err
	}
	all, index, err := f.allocs(ctx, 0, 0)
	if err != nil {
		return true, err
	}
	if !slices.ContainsFunc(all, func(a op.AllocStub) bool { return !a.ClientStatus.Ended() }) {
		return false, nil
	}
	for _, a := range all { // what ended before is old
		f.seen[a.ID] = a.ClientStatus.Ended()
	}
	var own context.Context
	f.g, own = errgroup.WithContext(ctx)
	f.g.Go(func() error { return f.watch(own, all, index) })
	return true, f.g.Wait()
}

// check refuses a group or task that the job does not have.
func (f *jobLogs) check() error {
	group := *f.flags.group
	if group != "" && f.job.Group(group) == nil {
		return noGroup(f.job.Job, group)
	}
	if f.task == "" {
		return nil
	}
	for _, g := range f.job.TaskGroups {
		if (group == "" || g.Name == group) && g.Task(f.task) != nil {
			return nil
		}
	}
	return berth.Errorf(berth.NotFound, "job %q has no task %q", f.job.ID, f.task)
}

// allocs returns the job's allocations in the wanted group: at once if index is
// 0, else when there is news, or after a while.
func (f *jobLogs) allocs(ctx context.Context, index uint64, wait time.Duration) ([]op.AllocStub, uint64, error) {
	q := op.JobAllocsQuery{JobID: string(f.job.ID), Query: of(&f.job)}
	q.MinQueryIndex, q.MaxQueryTime = index, wait
	list, meta, err := client.Call(ctx, f.client, op.JobAllocs, q)
	group := *f.flags.group
	return slices.DeleteFunc(list, func(a op.AllocStub) bool { return group != "" && a.TaskGroup != group }), meta.Index, err
}

// How long a look at the allocations waits for news, and between two at a job
// that may be about to end.
const (
	newsTime = time.Minute
	endTime  = 2 * time.Second
)

// watch follows each allocation that it has not seen yet, until the job is dead
// and all have ended.
func (f *jobLogs) watch(ctx context.Context, all []op.AllocStub, index uint64) error {
	for first := true; ; first = false {
		live := false
		for i := range all {
			live = live || !all[i].ClientStatus.Ended()
			// One that is pending may not have reached its agent.
			if !f.seen[all[i].ID] && all[i].ClientStatus != berth.ClientPending {
				f.seen[all[i].ID] = true
				f.follow(ctx, &all[i], first)
			}
		}
		wait := newsTime
		if !live {
			j, _, err := client.Call(ctx, f.client, op.ReadJob, op.JobRef{JobID: string(f.job.ID), Query: of(&f.job)})
			if berth.KindOf(err) == berth.NotFound || err == nil && j.Status == berth.JobDead {
				return nil
			}
			wait = endTime
		}
		var err error
		for failed := 0; ; failed++ {
			if all, index, err = f.allocs(ctx, max(index, 1), wait); err == nil {
				break
			}
			if failed == maxReconnects || !lostConnection(err) || ctx.Err() != nil {
				return err
			}
			if err := rest.For(ctx, min(reconnectPause<<min(failed, 5), maxPause)); err != nil {
				return context.Cause(ctx)
			}
		}
	}
}

// follow prints the output of an allocation's tasks. One that comes later is
// printed from its beginning. What one of them cannot show is told, and keeps
// nothing from the others.
func (f *jobLogs) follow(ctx context.Context, a *op.AllocStub, first bool) {
	p := part{follow: true}
	if first {
		p = f.flags.part()
	}
	for _, task := range f.tasks(a) {
		for _, stream := range f.streams {
			out := &labelled{to: f.out, label: clean(fmt.Sprintf("%s %s | ", a.ID.Short(), task))}
			full := &op.Alloc{ID: a.ID, Namespace: f.job.Namespace}
			t := &tailing{call: f.call, out: out, verbose: *f.flags.verbose, read: logsOf(f.call, full, task, stream)}
			f.g.Go(func() error {
				err := t.print(ctx, p)
				if err == nil || ctx.Err() != nil || isWriteError(err) {
					return errorsOr(err, out.flush())
				}
				out.note("%s: %s", stream, clean(err.Error()))
				return out.flush()
			})
		}
	}
}

// tasks returns the wanted tasks of an allocation, in order of name.
func (f *jobLogs) tasks(a *op.AllocStub) (names []string) {
	for name := range a.TaskStates {
		names = append(names, name)
	}
	if g := f.job.Group(a.TaskGroup); len(names) == 0 && g != nil {
		for _, t := range g.Tasks {
			names = append(names, t.Name)
		}
	}
	slices.Sort(names)
	return slices.DeleteFunc(names, func(n string) bool { return f.task != "" && n != f.task })
}

// errorsOr returns the first of two errors that is one.
func errorsOr(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// labelled writes whole lines, each with a label before it, so that lines of
// several outputs do not mix.
type labelled struct {
	to    *shared
	label string

	mu   sync.Mutex
	rest []byte // of a line that has no end yet
}

// maxLine is how much of a line is held back until its end has come.
const maxLine = 64 << 10

// write prints the lines that have ended.
func (l *labelled) write(b []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, b...)
	end := bytes.LastIndexByte(l.rest, '\n') + 1
	if end == 0 && len(l.rest) >= maxLine {
		end = len(l.rest)
	}
	return l.print(end)
}

// flush prints the last line if it has no end.
func (l *labelled) flush() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.print(len(l.rest))
}

// print prints what is held back up to end, in one piece.
func (l *labelled) print(end int) error {
	if end == 0 {
		return nil
	}
	var out bytes.Buffer
	for line := range bytes.Lines(l.rest[:end]) {
		out.WriteString(l.label)
		out.Write(bytes.TrimSuffix(line, []byte("\n")))
		out.WriteByte('\n')
	}
	l.rest = append(l.rest[:0], l.rest[end:]...)
	return l.to.write(out.Bytes())
}

// note prints a remark with the label.
func (l *labelled) note(format string, args ...any) {
	l.to.note("%s%s", l.label, fmt.Sprintf(format, args...))
}

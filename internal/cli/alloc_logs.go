package cli

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"berth"
	"berth/client"
	"berth/op"

	"golang.org/x/sync/errgroup"
)

// allocLogsCommand prints what a task wrote. Output is not cleaned of control
// characters: it can be binary.
func allocLogsCommand() *command {
	return &command{
		name: "alloc logs", args: "<allocation> [task]", synopsis: "Show the output of a task", max: 2,
		example: "alloc logs -f 0af996ed web",
		help: `Prints the output of a task. The allocation is given by ID or prefix. With -job, the command picks one of the job's allocations
			instead, preferably a running one. The task can be omitted if the allocation has only one. -task overrides the argument.

			Prints standard output, or standard error with -stderr. With -f and neither flag, follows both until the task has ended. The
			output is printed unchanged, so terminal control sequences in it take effect.`,
		setup: func(f *flags) action {
			l := allocLogs{
				stdout:  f.Bool("stdout", "Show standard output. This is the default except with -f."),
				stderr:  f.Bool("stderr", "Show standard error."),
				follow:  f.Bool("f", "Follow the output as it is written."),
				tail:    f.Bool("tail", "Show the last 10 lines, or as much as -n or -c say."),
				lines:   f.Int("n", 0, "Show this `number` of lines from the end. Implies -tail."),
				bytes:   f.FlagSet.Int64("c", 0, "Show this `number` of bytes from the end. Implies -tail."),
				job:     f.String("job", "Pick an allocation of this `job`, given by ID or unique prefix."),
				group:   f.String("group", "With -job: pick an allocation of this `group`."),
				task:    f.String("task", "The `task` whose output to show."),
				verbose: f.Bool("verbose", "Print the allocation and task, and any truncated or removed log file, to standard error."),
			}
			return l.run
		},
	}
}

// allocLogs holds the flags of "alloc logs".
type allocLogs struct {
	stdout, stderr, follow, tail, verbose *bool
	lines                                 *int
	bytes                                 *int64
	job, group, task                      *string
}

// run prints one or both outputs of a task. Both are read at the same time, and
// an error of one ends the other.
func (l allocLogs) run(ctx context.Context, c *call) error {
	if err := l.check(c); err != nil {
		return err
	}
	// The allocation decides which tasks there are, so it is found first.
	a, err := l.alloc(ctx, c)
	if err != nil {
		return err
	}
	task, err := l.taskOf(c, &a)
	if err != nil {
		return err
	}
	if *l.verbose {
		fmt.Fprintf(c.Err, "Allocation %s, task %q\n", a.ID, clean(task))
	}
	// Following without a choice shows both, as a task may log to either.
	streams := []string{"stdout"}
	switch {
	case *l.stderr && *l.stdout, *l.follow && !*l.stderr && !*l.stdout:
		streams = []string{"stdout", "stderr"}
	case *l.stderr:
		streams = []string{"stderr"}
	}
	out := &shared{out: c.Out, err: c.Err}
	g, ctx := errgroup.WithContext(ctx)
	// A request reads one of the outputs.
	for _, s := range streams {
		t := &tailing{call: c, out: out, verbose: *l.verbose, query: op.LogsQuery{
			AllocID: a.ID.String(), Task: task, Type: s, Query: op.Query{Namespace: a.Namespace},
		}}
		g.Go(func() error { return l.stream(ctx, t) })
	}
	return g.Wait()
}

// check returns a usage error for flags and arguments that contradict each
// other. It calls no server.
func (l allocLogs) check(c *call) error {
	switch {
	case *l.lines < 0 || *l.bytes < 0:
		return c.usagef("-n and -c must be at least 0")
	case c.flags.given("n") && c.flags.given("c"):
		return c.usagef("-n and -c cannot be used together")
	case *l.job == "" && len(c.args) == 0:
		return c.usagef("missing argument: give an allocation or -job, usage: %s alloc logs <allocation> [task]", c.Name)
	case *l.job != "" && len(c.args) > 1:
		return c.usagef("unexpected argument %q: with -job, the only argument is the task", c.args[1])
	case *l.group != "" && *l.job == "":
		return c.usagef("-group requires -job")
	}
	return nil
}

// alloc finds the allocation whose output to show.
func (l allocLogs) alloc(ctx context.Context, c *call) (a op.Alloc, err error) {
	if *l.job == "" {
		return c.findAlloc(ctx, c.args[0])
	}
	j, _, err := c.findJob(ctx, *l.job)
	if err != nil {
		return a, err
	}
	if *l.group != "" && j.Group(*l.group) == nil {
		return a, berth.Errorf(berth.NotFound, "job %q has no group %q", j.ID, *l.group)
	}
	list, _, err := client.Call(ctx, c.client, op.JobAllocs, op.JobAllocsQuery{JobID: string(j.ID), Query: of(&j)})
	if err != nil {
		return a, err
	}
	// The server cannot select by group.
	list = slices.DeleteFunc(list, func(s op.AllocStub) bool { return *l.group != "" && s.TaskGroup != *l.group })
	if len(list) == 0 {
		return a, berth.Errorf(berth.NotFound, "job %q has no allocations; \"%s job status %s\" shows why", j.ID, c.Name, j.ID)
	}
	// Running allocations come first, then the newest.
	slices.SortStableFunc(list, func(a, b op.AllocStub) int {
		ra, rb := a.ClientStatus == berth.ClientRunning, b.ClientStatus == berth.ClientRunning
		if ra != rb {
			if ra {
				return -1
			}
			return 1
		}
		return cmp.Compare(b.CreateIndex, a.CreateIndex)
	})
	if len(list) > 1 {
		fmt.Fprintf(c.Err, "Showing allocation %s (%s) on node %s, one of %d of job %q\n", list[0].ID.Short(), clean(list[0].Name), clean(list[0].NodeName), len(list), j.ID)
	}
	return c.findAlloc(ctx, list[0].ID.String())
}

// taskOf returns the task whose output to show.
func (l allocLogs) taskOf(c *call, a *op.Alloc) (string, error) {
	tasks := tasksOf(a)
	name := *l.task
	// With -job, the only argument is the task; otherwise the task follows the
	// allocation.
	if given := c.args; name == "" {
		if *l.job == "" {
			given = given[1:]
		}
		if len(given) > 0 {
			name = given[0]
		}
	}
	switch {
	case name == "" && len(tasks) == 1:
		return tasks[0], nil
	case name == "":
		return "", c.usagef("allocation %s has several tasks: choose one of %s", a.ID.Short(), strings.Join(tasks, ", "))
	case !slices.Contains(tasks, name):
		return "", berth.Errorf(berth.NotFound, "allocation %s has no task %q: want one of %s", a.ID.Short(), name, strings.Join(tasks, ", "))
	}
	return name, nil
}

// stream prints one of a task's two outputs.
func (l allocLogs) stream(ctx context.Context, t *tailing) error {
	t.query.Origin = "start"
	switch {
	// -c wins over -tail without -n.
	case *l.bytes > 0:
		t.query.Origin, t.query.Offset = "end", *l.bytes
	case *l.lines > 0 || *l.tail:
		n := *l.lines
		if n == 0 {
			n = 10
		}
		// The server counts in bytes, so the lines are found here.
		end, err := t.lastLines(ctx, n)
		if err != nil {
			return err
		}
		if !*l.follow {
			return t.out.write(end)
		}
		t.query.Origin, t.query.Offset = "end", int64(len(end))
	}
	t.query.Follow = *l.follow
	return t.copy(ctx)
}

// shared lets two streams write to one output, a frame at a time.
type shared struct {
	mu       sync.Mutex
	out, err io.Writer
}

// write prints one frame of output in one piece.
func (s *shared) write(b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.out.Write(b)
	return err
}

// note prints a remark to standard error, between two frames of output.
func (s *shared) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.err, format+"\n", args...)
}

// tailing reads one output of a task.
type tailing struct {
	*call
	out     *shared
	verbose bool
	query   op.LogsQuery
}

// copy prints the output as it arrives.
func (t *tailing) copy(ctx context.Context) error {
	for f, err := range client.Stream(ctx, t.client, op.ReadLogs, t.query) {
		if err != nil {
			return err
		}
		if f.FileEvent != "" && t.verbose {
			t.out.note("%s: %s", clean(f.File), clean(f.FileEvent))
		}
		if err := t.out.write(f.Data); err != nil {
			return err
		}
	}
	return nil
}

// An estimate of the length of a line, and the most that is read to find the
// last lines, in bytes.
const (
	lineGuess = 120
	maxTail   = 64 << 20
)

// lastLines returns the last n lines. It reads from the end, and further back
// if that was not enough.
func (t *tailing) lastLines(ctx context.Context, n int) ([]byte, error) {
	q := t.query
	q.Origin = "end"
	for q.Offset = min(int64(n)*lineGuess, maxTail); ; q.Offset *= 4 {
		var all bytes.Buffer
		for f, err := range client.Stream(ctx, t.client, op.ReadLogs, q) {
			if err != nil {
				return nil, err
			}
			all.Write(f.Data)
		}
		end, whole := cutLines(all.Bytes(), n)
		if whole || int64(all.Len()) < q.Offset || q.Offset >= maxTail {
			return end, nil
		}
	}
}

// cutLines returns the last n lines of text. complete reports that the text has
// more than these; otherwise the first one may be cut off.
func cutLines(text []byte, n int) (end []byte, complete bool) {
	at := len(text)
	if at > 0 && text[at-1] == '\n' {
		at--
	}
	for range n {
		if at = bytes.LastIndexByte(text[:at], '\n'); at < 0 {
			return text, false
		}
	}
	return text[at+1:], true
}

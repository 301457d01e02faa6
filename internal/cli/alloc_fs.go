package cli

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"time"

	"berth/client"
	"berth/op"
)

// allocFSCommand shows the files of an allocation. Their text is not cleaned of
// control characters: it can be binary.
func allocFSCommand() *command {
	return &command{
		name: "alloc fs", args: "<allocation> [path]", synopsis: "List and read the files of an allocation", max: 2,
		example: "alloc fs -f 0af996ed web/local/app.log",
		help: `Lists a directory or prints a file of an allocation. The path is below the allocation's directory, which has a directory for each
			task and the directory alloc, which the tasks share. Without a path, the allocation's directory is listed. The allocation is given by ID or prefix.
			With -job, the command picks one of the job's allocations instead, preferably a running one.

			The directory secrets of a task is not shown, and symbolic links are not followed. With -f, new text is printed as it is written, until the
			allocation has ended; after a lost connection the output goes on where it was.`,
		setup: func(f *flags) action {
			x := allocFS{
				stat:    f.Bool("stat", "Show what the file is instead of its text."),
				machine: f.Bool("H", "Show sizes in bytes and times in full."),
				follow:  f.Bool("f", "Follow the file as it grows."),
				tail:    f.Bool("tail", "Show the last 10 lines, or as much as -n or -c say."),
				lines:   f.Int("n", 0, "Show this `number` of lines from the end. Implies -tail."),
				bytes:   f.FlagSet.Int64("c", 0, "Show this `number` of bytes from the end. Implies -tail."),
				job:     f.String("job", "Pick an allocation of this `job`, given by ID or unique prefix."),
				group:   f.String("group", "With -job: pick an allocation of this `group`."),
				verbose: f.Bool("verbose", "Print the allocation, and when the file is truncated or removed, to standard error."),
			}
			return x.run
		},
	}
}

// allocFS holds the flags of "alloc fs".
type allocFS struct {
	stat, machine, follow, tail, verbose *bool
	lines                                *int
	bytes                                *int64
	job, group                           *string
}

// run shows a directory or a file.
func (x allocFS) run(ctx context.Context, c *call) error {
	path, err := x.check(c)
	if err != nil {
		return err
	}
	var a op.Alloc
	if *x.job != "" {
		a, err = c.allocOfJob(ctx, *x.job, *x.group)
	} else {
		a, err = c.findAlloc(ctx, c.args[0])
	}
	if err != nil {
		return err
	}
	if *x.verbose {
		fmt.Fprintf(c.Err, "Allocation %s\n", a.ID)
	}
	q := op.FileQuery{AllocID: a.ID.String(), Path: path, Query: op.Query{Namespace: a.Namespace}}
	st, _, err := client.Call(ctx, c.client, op.StatFile, q)
	switch {
	case err != nil:
		return err
	case *x.stat:
		return c.show(x.statPage(c, &st))
	case st.IsDir:
		return x.list(ctx, c, q)
	}
	t := &tailing{call: c, out: &shared{out: c.Out, err: c.Err}, verbose: *x.verbose, read: func(ctx context.Context, from section) iter.Seq2[*op.StreamFrame, error] {
		return client.Stream(ctx, c.client, op.FollowFile, op.FileFollow{
			AllocID: q.AllocID, Path: path, Offset: from.offset, Origin: from.origin, Follow: &from.follow, Query: q.Query,
		})
	}}
	return t.print(ctx, part{follow: *x.follow, tail: *x.tail, lines: *x.lines, bytes: *x.bytes})
}

// check returns the path, or a usage error for flags and arguments that
// contradict each other. It calls no server.
func (x allocFS) check(c *call) (path string, err error) {
	path = "/"
	if err := c.notNegative(numberFlag{"n", int64(*x.lines)}, numberFlag{"c", *x.bytes}); err != nil {
		return "", err
	}
	switch {
	case c.flags.given("n") && c.flags.given("c"):
		return "", c.usagef("-n and -c cannot be used together")
	case *x.job == "" && len(c.args) == 0:
		return "", c.usagef("missing argument: give an allocation or -job, usage: %s alloc fs <allocation> [path]", c.Name)
	case *x.job != "" && len(c.args) > 1:
		return "", c.usagef("unexpected argument %q: with -job, the only argument is the path", c.args[1])
	case *x.group != "" && *x.job == "":
		return "", c.usagef("-group requires -job")
	}
	if rest := c.args[min(len(c.args), 1):]; *x.job == "" && len(rest) > 0 {
		path = rest[0]
	} else if *x.job != "" && len(c.args) == 1 {
		path = c.args[0]
	}
	return path, nil
}

// list shows a directory.
func (x allocFS) list(ctx context.Context, c *call, q op.FileQuery) error {
	list, _, err := client.Call(ctx, c.client, op.ListFiles, q)
	if err != nil {
		return err
	}
	rows := [][]string{{"Mode", "Size", "Modified Time", "Name"}}
	for _, f := range list {
		name := f.Name
		if f.IsDir {
			name += "/"
		}
		rows = append(rows, []string{f.FileMode, x.size(f.Size), x.time(f.ModTime), name})
	}
	p := c.page()
	p.table(rows)
	return c.show(p)
}

// statPage describes one file.
func (x allocFS) statPage(c *call, f *op.FileInfo) *page {
	name := f.Name
	if f.IsDir && name != "/" {
		name += "/"
	}
	p := c.page()
	p.table([][]string{
		{"Mode", "Size", "Modified Time", "Content Type", "Name"},
		{f.FileMode, x.size(f.Size), x.time(f.ModTime), or(f.ContentType, none), name},
	})
	return p
}

// size shows a number of bytes.
func (x allocFS) size(n int64) string {
	if *x.machine {
		return strconv.FormatInt(n, 10)
	}
	return byteSize(n)
}

// time shows when a file was changed.
func (x allocFS) time(t time.Time) string {
	if *x.machine {
		return t.Format(time.RFC3339Nano)
	}
	return stamp(t)
}

// byteSize formats a number of bytes.
func byteSize(n int64) string {
	if n < 1024 {
		return strconv.FormatInt(n, 10) + " B"
	}
	f := float64(n)
	for _, unit := range []string{"KiB", "MiB", "GiB"} {
		if f /= 1024; f < 1024 {
			return strconv.FormatFloat(f, 'f', 1, 64) + " " + unit
		}
	}
	return strconv.FormatFloat(f/1024, 'f', 1, 64) + " TiB"
}

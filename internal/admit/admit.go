// Package admit decodes and validates jobs. It turns a tree, from JSON or from
// a job file, into a job with all defaults filled in, and returns all problems
// at once, each with its path. It refuses fields that are not supported, so
// nothing that a user writes is ignored.
//
// It looks at the text alone. Whether the cluster has the namespace, the nodes
// or the capacity for a job is checked elsewhere.
package admit

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"berth"
	"berth/internal/decode"
)

// Source is the syntax that a tree was parsed from.
type Source int

// The sources of trees.
const (
	FromJSON Source = iota // types are taken as written
	FromHCL                // numbers, bools and strings convert, as HCL users expect
)

// DecodeJob turns a tree into a job with all defaults filled in. Its error has
// all problems, those of [Validate] included.
//
// Parents come first: the type and the job's own blocks, then each group,
// starting from the job's resolved blocks or the defaults of the type, then
// each task, starting from its group. So a block that only sets attempts = 5
// inherits everything else from its parent.
func DecodeJob(tree decode.Tree, from Source) (*berth.Job, error) {
	return DecodeJobContext(context.Background(), tree, from)
}

// DecodeJobContext is DecodeJob that stops with the cause of ctx when ctx ends.
func DecodeJobContext(ctx context.Context, tree decode.Tree, from Source) (*berth.Job, error) {
	return decodeJob(ctx, tree, from, false)
}

// DecodePart is DecodeJobContext for a job that is only looked at: it may have no
// groups.
func DecodePart(ctx context.Context, tree decode.Tree, from Source) (*berth.Job, error) {
	return decodeJob(ctx, tree, from, true)
}

// decodeJob decodes and checks a job. part accepts one without groups.
func decodeJob(ctx context.Context, tree decode.Tree, from Source, part bool) (*berth.Job, error) {
	d := newDecoder(from)
	d.Context = ctx
	j := d.job(tree)
	c := checker{ctx: ctx, part: part}
	if ctx.Err() == nil {
		c.job(j)
	}
	// What was found until then is not all of it.
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	d.Problems = append(d.Problems, notOf(c.problems, d.Problems)...)
	if err := d.Problems.Err(); err != nil {
		return nil, err
	}
	return j, nil
}

// notOf returns the problems that are not about what could not be decoded, nor
// about something in it: its value was never read, so they only follow.
func notOf(found, decoding berth.Problems) berth.Problems {
	if len(decoding) == 0 {
		return found
	}
	return slices.DeleteFunc(found, func(p berth.Problem) bool {
		return slices.ContainsFunc(decoding, func(q berth.Problem) bool {
			rest, ok := strings.CutPrefix(p.Path, q.Path)
			return ok && q.Path != "" && (rest == "" || rest[0] == '.' || rest[0] == '[')
		})
	})
}

// ParseJob does what [DecodeJob] does for a job written in JSON.
func ParseJob(text []byte) (*berth.Job, error) {
	tree, err := decode.ParseJSON(text)
	if err != nil {
		return nil, err
	}
	return DecodeJob(tree, FromJSON)
}

// Fill decodes src into the struct that dst points to and returns all problems.
// Blocks that belong to jobs start with the defaults that they have in a job.
// See [decode.Decoder.Fill].
func Fill(dst any, src decode.Tree, path string) berth.Problems {
	ps, _ := FillContext(context.Background(), dst, src, path)
	return ps
}

// FillContext is Fill that stops with the cause of ctx when ctx ends.
func FillContext(ctx context.Context, dst any, src decode.Tree, path string) (berth.Problems, error) {
	d := newDecoder(FromJSON)
	d.Context = ctx
	d.Fill(dst, src, path)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return d.Problems, nil
}

// Validate returns all problems of a complete job, each with its path. Fields
// that are not supported are problems too.
func Validate(j *berth.Job) berth.Problems {
	c := checker{ctx: context.Background()}
	c.job(j)
	return c.problems
}

// Warnings returns what a user should know about a valid job.
func Warnings(j *berth.Job) (out []string) {
	for _, g := range j.TaskGroups {
		for t, n := range g.AllNetworks() {
			switch {
			case n.MBits == 0:
			case t == nil:
				out = append(out, fmt.Sprintf("group %q: network.mbits has no effect; bandwidth is not scheduled", g.Name))
			default:
				out = append(out, fmt.Sprintf("group %q, task %q: resources.network.mbits has no effect; bandwidth is not scheduled", g.Name, t.Name))
			}
		}
		if d := g.EphemeralDisk; d != nil && d.Migrate && !d.Sticky {
			out = append(out, fmt.Sprintf("group %q: ephemeral_disk.migrate has no effect without sticky", g.Name))
		}
		if g.Count == 0 {
			out = append(out, fmt.Sprintf("group %q: count is 0, so nothing will run", g.Name))
		}
		for _, t := range g.Tasks {
			if t.Resources.DiskMB != 0 {
				out = append(out, fmt.Sprintf("group %q, task %q: resources.disk has no effect; use the group's ephemeral_disk", g.Name, t.Name))
			}
			if t.Resources.IOPS != 0 {
				out = append(out, fmt.Sprintf("group %q, task %q: resources.iops has no effect", g.Name, t.Name))
			}
		}
	}
	if j.Stream != nil {
		out = append(out, unconnectedPorts(j)...)
	}
	return out
}

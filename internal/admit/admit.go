// Package admit is the entry point for jobs. It turns a tree, from JSON or from a
// job file, into a job with every default filled in, and refuses what is wrong:
// each problem is named with its path, and all of them at once. What is not
// supported yet is refused by name too, so nothing that a user writes is ignored.
//
// It decides on the text alone. Whether the cluster has the namespace, the nodes
// or the room for a job is for others to say.
package admit

import (
	"fmt"

	"berth"
	"berth/internal/decode"
)

// Source is the syntax a tree came from.
type Source int

// The sources of trees.
const (
	FromJSON Source = iota // types are taken as written
	FromHCL                // numbers, bools and strings convert, as HCL users expect
)

// DecodeJob turns a tree into a job with every default filled in, and returns
// all problems at once, those of [Validate] included.
//
// It goes parents first: the type and the job's own blocks, then each group
// starting from the job's resolved blocks (or the defaults of the type), then
// each task starting from its group. A block that says only attempts = 5 thus
// keeps what its parent says of the rest.
func DecodeJob(tree decode.Tree, from Source) (*berth.Job, error) {
	d := newDecoder(from)
	j := d.job(tree)
	d.Problems = append(d.Problems, Validate(j)...)
	if err := d.Problems.Err(); err != nil {
		return nil, err
	}
	return j, nil
}

// ParseJob is [DecodeJob] for a job written in JSON.
func ParseJob(text []byte) (*berth.Job, error) {
	tree, err := decode.ParseJSON(text)
	if err != nil {
		return nil, err
	}
	return DecodeJob(tree, FromJSON)
}

// Fill decodes src over what dst points to, which may hold blocks of jobs: they
// start from the defaults that they have in a job. It returns everything that
// does not fit. See [decode.Decoder.Fill].
func Fill(dst any, src decode.Tree, path string) berth.Problems {
	d := newDecoder(FromJSON)
	d.Fill(dst, src, path)
	return d.Problems
}

// Validate returns everything wrong with a complete job, each with its place.
// It refuses by name whatever is not built yet: nothing a user writes is
// ignored.
func Validate(j *berth.Job) berth.Problems {
	c := checker{}
	c.job(j)
	return c.problems
}

// Warnings returns what a user should know of a valid job.
func Warnings(j *berth.Job) (out []string) {
	for _, g := range j.TaskGroups {
		for _, n := range g.Networks {
			if n.MBits != 0 {
				out = append(out, fmt.Sprintf("group %q: network.mbits has no effect; bandwidth is not scheduled", g.Name))
			}
		}
		if g.Count == 0 {
			out = append(out, fmt.Sprintf("group %q: count is 0, so nothing of it will run", g.Name))
		}
		for _, t := range g.Tasks {
			if t.Resources.DiskMB != 0 {
				out = append(out, fmt.Sprintf("group %q, task %q: resources.disk has no effect; the group's ephemeral_disk does", g.Name, t.Name))
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

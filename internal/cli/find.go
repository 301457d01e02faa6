package cli

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"berth"
	"berth/client"
	"berth/op"
)

// Objects are named by their full ID or by a unique prefix of it.

// fullID is the length of a full ID.
const fullID = 36

// candidates is how many matches are listed.
const candidates = 50

// ambiguous is the error for a prefix that several objects share. It lists
// them.
func ambiguous(what, prefix string, rows [][]string) error {
	more := ""
	// The first row has the names of the columns.
	if n := len(rows) - 1; n > candidates {
		rows = rows[:candidates+1]
		more = "\n(and more)"
	}
	return berth.Errorf(berth.Invalid, "Prefix matched multiple %s: %q\n\n%s%s", what, prefix, align(rows), more)
}

// telling shortens an ID in a list of IDs that share a prefix, as far as they
// stay distinct.
func telling(prefix, id string) string {
	if len(prefix) >= shortID {
		return id
	}
	return short(id, false)
}

// article puts "a" or "an" before a noun.
func article(noun string) string {
	if strings.ContainsRune("aeio", rune(noun[0])) {
		return "an " + noun
	}
	return "a " + noun
}

// prefixOf checks the prefix of an ID.
func prefixOf(what, text string) error {
	if _, err := berth.ParseIDPrefix(text); err != nil {
		return berth.Errorf(berth.Invalid, "%q is not an ID or prefix of %s: IDs are hexadecimal digits with dashes after the 8th, 12th, 16th and 20th", text, article(what))
	}
	return nil
}

// notFound is the error for text that names no object. list is the command that
// shows what exists.
func (c *call) notFound(what, text, list string) error {
	in := ""
	if c.config.Namespace != "" && c.config.Namespace != berth.AllNamespaces && what != "node" {
		in = fmt.Sprintf(" in namespace %q", c.config.Namespace)
	}
	return berth.Errorf(berth.NotFound, "No %s with ID or prefix %q found%s; see %q", what, text, in, c.Name+" "+list)
}

// listed adds the command that lists what exists, if there is one, to a "not found"
// error. It returns other errors as they are.
func (c *call) listed(err error, list string) error {
	if list == "" || berth.KindOf(err) != berth.NotFound {
		return err
	}
	return berth.Errorf(berth.NotFound, "%w; see %q", err, c.Name+" "+list)
}

// findAlloc returns the allocation whose ID is or begins with text.
func (c *call) findAlloc(ctx context.Context, text string) (a op.Alloc, err error) {
	if len(text) != fullID {
		found, err := c.allocsWith(ctx, text)
		if err != nil {
			return a, err
		}
		switch len(found) {
		case 0:
			return a, c.notFound("allocation", text, "job status <job>")
		case 1:
			text = found[0].ID.String()
		default:
			return a, ambiguous("allocations", text, allocRows(text, found))
		}
	}
	a, _, err = client.Call(ctx, c.client, op.ReadAlloc, op.AllocRef{AllocID: text})
	if berth.KindOf(err) == berth.NotFound {
		err = c.notFound("allocation", text, "job status <job>")
	}
	return a, err
}

// allocsWith returns the allocations whose IDs begin with prefix, one more than
// are listed as candidates. A prefix that cannot begin an ID is an error.
func (c *call) allocsWith(ctx context.Context, prefix string) ([]op.AllocStub, error) {
	if err := prefixOf("allocation", prefix); err != nil {
		return nil, err
	}
	found, _, err := client.Call(ctx, c.client, op.ListAllocs, op.AllocsQuery{Query: op.Query{
		Prefix: prefix, Namespace: c.config.anySpace(), PerPage: candidates + 1,
	}})
	return found, err
}

// allocRows is a table of allocations to choose from, for an ambiguous prefix.
func allocRows(prefix string, list []op.AllocStub) [][]string {
	rows := [][]string{{"ID", "Eval ID", "Job ID", "Task Group", "Desired Status", "Client Status"}}
	for _, a := range list {
		rows = append(rows, []string{
			telling(prefix, a.ID.String()), a.EvalID.Short(), string(a.JobID), a.TaskGroup, a.DesiredStatus.String(), a.ClientStatus.String(),
		})
	}
	return rows
}

// findEval returns the evaluation whose ID is or begins with text.
func (c *call) findEval(ctx context.Context, text string) (e op.Eval, err error) {
	if len(text) != fullID {
		found, err := c.evalsWith(ctx, text)
		if err != nil {
			return e, err
		}
		switch len(found) {
		case 0:
			return e, c.notFound("evaluation", text, "eval list")
		case 1:
			return found[0], nil
		default:
			return e, ambiguous("evaluations", text, evalRows(found, func(id berth.EvalID) string { return telling(text, id.String()) }))
		}
	}
	e, _, err = client.Call(ctx, c.client, op.ReadEval, op.EvalQuery{EvalID: text})
	if berth.KindOf(err) == berth.NotFound {
		err = c.notFound("evaluation", text, "eval list")
	}
	return e, err
}

// evalsWith returns the evaluations whose IDs begin with prefix, like
// allocsWith.
func (c *call) evalsWith(ctx context.Context, prefix string) ([]op.Eval, error) {
	if err := prefixOf("evaluation", prefix); err != nil {
		return nil, err
	}
	found, _, err := client.Call(ctx, c.client, op.ListEvals, op.EvalsQuery{Query: op.Query{
		Prefix: prefix, Namespace: c.config.anySpace(), PerPage: candidates + 1,
	}})
	return found, err
}

// findNode returns the node whose ID is or begins with text, or whose name is
// text.
func (c *call) findNode(ctx context.Context, text string) (n op.Node, err error) {
	if len(text) != fullID {
		found, err := c.nodesWith(ctx, text)
		// A name is tried only if no ID begins with the text: an ID is unique,
		// a name need not be.
		if err == nil && len(found) == 0 {
			found, _, err = client.Call(ctx, c.client, op.ListNodes, op.NodesQuery{Query: op.Query{
				Filter: "Name == " + strconv.Quote(text), PerPage: candidates + 1,
			}})
		}
		if err != nil {
			return n, err
		}
		switch len(found) {
		case 0:
			return n, c.notFound("node", text, "node status")
		case 1:
			text = found[0].ID.String()
		default:
			rows := [][]string{{"ID", "Node Pool", "DC", "Name", "Class", "Drain", "Eligibility", "Status"}}
			for _, n := range found {
				rows = append(rows, nodeRow(n, telling(text, n.ID.String())))
			}
			return n, ambiguous("nodes", text, rows)
		}
	}
	n, _, err = client.Call(ctx, c.client, op.ReadNode, op.NodeRef{NodeID: text})
	if berth.KindOf(err) == berth.NotFound {
		err = c.notFound("node", text, "node status")
	}
	return n, err
}

// nodesWith returns the nodes whose IDs begin with prefix: none if prefix
// cannot begin an ID.
func (c *call) nodesWith(ctx context.Context, prefix string) ([]op.NodeStub, error) {
	if _, err := berth.ParseIDPrefix(prefix); err != nil {
		return nil, nil
	}
	found, _, err := client.Call(ctx, c.client, op.ListNodes, op.NodesQuery{Query: op.Query{Prefix: prefix, PerPage: candidates + 1}})
	return found, err
}

// findJob returns the job whose ID is or begins with text. exact reports that
// text is the full ID.
func (c *call) findJob(ctx context.Context, text string) (j op.Job, exact bool, err error) {
	if text == "" {
		return j, false, berth.Errorf(berth.Invalid, "the job ID is empty; see %q", c.Name+" job status")
	}
	found, err := c.jobsWith(ctx, text)
	if err != nil {
		return j, false, err
	}
	// A full ID wins over longer IDs that begin with it. With all namespaces it
	// can still name several jobs.
	var whole []op.JobStub
	for _, s := range found {
		if string(s.ID) == text {
			whole = append(whole, s)
		}
	}
	if exact = len(whole) > 0; exact {
		found = whole
	}
	switch len(found) {
	case 0:
		return j, false, berth.Errorf(berth.NotFound, "No job with ID or prefix %q found in %s; see %q",
			text, spaceName(c.config.space()), c.Name+" job status")
	case 1:
		j, _, err = client.Call(ctx, c.client, op.ReadJob, op.JobRef{JobID: string(found[0].ID), Query: op.Query{Namespace: found[0].Namespace}})
		return j, exact, err
	}
	return j, false, ambiguous("jobs", text, c.jobRows(found))
}

// jobsWith returns the jobs whose IDs begin with prefix, in the namespace of
// the command.
func (c *call) jobsWith(ctx context.Context, prefix string) ([]op.JobStub, error) {
	q := op.Query{Prefix: prefix, PerPage: candidates + 1}
	if c.config.space() == berth.AllNamespaces {
		q.PerPage = 0 // the job with exactly this ID may be late in the list
	}
	found, _, err := client.Call(ctx, c.client, op.ListJobs, op.JobsQuery{Query: q})
	return found, err
}

// spaceName describes a namespace for messages.
func spaceName(ns string) string {
	if ns == berth.AllNamespaces {
		return "any namespace"
	}
	return "namespace " + strconv.Quote(ns)
}

// of is the query for objects of a job.
func of(j *op.Job) op.Query { return op.Query{Namespace: j.Namespace} }

// paged prints how to get the next page.
func (c *call) paged(p *page, token string) {
	if token == "" {
		return
	}
	p.gap()
	p.linef("Results have been paginated. To get the next page run:")
	p.gap()
	// The command line is repeated as it was, so that the next page has the
	// same filter and format.
	args := ""
	for _, a := range c.args {
		args += " " + quoted(a)
	}
	p.linef("%s %s%s -page-token %s%s", c.Name, c.command.name, c.again("page-token", "token"), token, args)
}

// again is the command line of this call without some of its flags.
func (c *call) again(without ...string) string {
	var b strings.Builder
	c.flags.Visit(func(g *flag.Flag) {
		if slices.Contains(without, g.Name) {
			return
		}
		fmt.Fprintf(&b, " -%s", g.Name)
		// A flag without a value stands alone.
		if v, ok := g.Value.(interface{ IsBoolFlag() bool }); !ok || !v.IsBoolFlag() {
			b.WriteString(" " + quoted(g.Value.String()))
		}
	})
	return b.String()
}

// quoted is a word quoted for the shell.
func quoted(s string) string {
	plain := strings.IndexFunc(s, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:@%+,=", r)
	}) < 0
	if plain && s != "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

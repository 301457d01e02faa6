package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"berth"
	"berth/client"
	"berth/op"
)

// evalTraceCommand shows which evaluation led to which, for a job or starting
// from any evaluation of it.
func evalTraceCommand() *command {
	return &command{
		name: "eval trace", args: "<evaluation|job>", synopsis: "Show the evaluations of a job as a tree", min: 1, max: 1,
		example: "eval trace web",
		help: `Shows the evaluations of a job as a tree. Each stands below the evaluation that caused it, with its trigger, status, related
			evaluations, timing, and what it placed and stopped. A job is given by ID or prefix; any of its evaluations works too, even if the
			job has been purged.`,
		setup: func(f *flags) action {
			t := evalTrace{
				data:    f.data(),
				all:     f.Bool("all", "With a job: include the evaluations of earlier jobs with the same ID."),
				limit:   f.Int("limit", 200, "Show at most this `number` of evaluations, of the newest trees; 0 shows all."),
				filter:  f.String("filter", "Show only evaluations that match this `expression` over the fields shown by -json, such as 'Status == \"failed\"', and those that they came from."),
				verbose: f.Bool("verbose", "Show IDs in full."),
			}
			return t.run
		},
	}
}

// evalTrace holds the flags of "eval trace".
type evalTrace struct {
	data         dataFlags
	all, verbose *bool
	limit        *int
	filter       *string
	job          berth.JobKey // whose evaluations are traced
	// supersedes lists the evaluations whose work each of the trace does.
	supersedes map[berth.EvalID][]string
}

// run prints the tree. Evaluations arrive from the server in the order of the
// tree, each with its depth.
func (t evalTrace) run(ctx context.Context, c *call) error {
	if err := t.data.check(c); err != nil {
		return err
	}
	trace, err := t.load(ctx, c, c.args[0])
	if err != nil {
		return err
	}
	if t.data.wanted() {
		return t.data.write(c, trace)
	}
	t.job = berth.JobKey{Namespace: trace.Namespace, ID: trace.JobID}
	t.supersedes = map[berth.EvalID][]string{}
	for _, e := range trace.Evals {
		t.supersedes[e.SupersededBy] = append(t.supersedes[e.SupersededBy], short(e.ID.String(), *t.verbose))
	}
	p := c.page()
	// Evaluations outlive their job for a while.
	state := or(trace.JobStatus, "purged")
	p.linef("Evaluations of job %q (%s)", trace.JobID, state)
	if len(trace.Evals) == 0 {
		p.gap()
		p.linef("None")
	}
	if trace.Older > 0 {
		p.gap()
		p.linef("%s before these: -limit 0 shows all", plural(trace.Older, "evaluation"))
	}
	for i := range trace.Evals {
		if trace.Evals[i].Depth == 0 {
			p.gap()
		}
		t.draw(c, p, trace.Evals, i)
	}
	if trace.Later > 0 {
		p.gap()
		p.linef("%s after these: -limit 0 shows all", plural(trace.Later, "evaluation"))
	}
	if trace.Unmatched > 0 {
		p.gap()
		p.linef("%s: -filter does not match them or what came of them", plural(trace.Unmatched, "more evaluation"))
	}
	return c.show(p)
}

// load finds what was named: an evaluation, a job, or a purged job.
func (t evalTrace) load(ctx context.Context, c *call, text string) (out op.Trace, err error) {
	// A job's ID can look like the prefix of an evaluation. An evaluation is
	// preferred if exactly one matches.
	if hexIDs(text) {
		list, err := c.evalsWith(ctx, text)
		if err != nil {
			return out, err
		}
		if len(list) == 1 {
			out, _, err = client.Call(ctx, c.client, op.TraceEval, op.EvalTraceQuery{EvalID: list[0].ID.String(), Limit: *t.limit, Query: op.Query{Filter: *t.filter}})
			return out, err
		}
	}
	in := op.JobTraceQuery{JobID: text, All: *t.all, Limit: *t.limit}
	j, _, err := c.findJob(ctx, text)
	switch {
	case err == nil:
		in.JobID, in.Query = string(j.ID), of(&j)
	case berth.KindOf(err) != berth.NotFound:
		return out, err
	}
	in.Filter = *t.filter
	out, _, gone := client.Call(ctx, c.client, op.TraceJob, in)
	if berth.KindOf(gone) == berth.NotFound {
		return out, berth.Errorf(berth.NotFound, "No evaluation or job with ID or prefix %q found in %s; see %q",
			text, spaceName(c.config.space()), c.Name+" eval list")
	}
	return out, gone
}

// draw writes one evaluation of the tree. The branches that pass it are on its
// left.
func (t evalTrace) draw(c *call, p *page, all []op.TracedEval, i int) {
	e := &all[i]
	head, left := t.branches(all, i)
	whose := ""
	if e.JobID != t.job.ID || e.Namespace != t.job.Namespace { // it led to one of this job
		whose = fmt.Sprintf(" of job %q", e.JobID)
		if e.Namespace != t.job.Namespace {
			whose += fmt.Sprintf(" in namespace %q", e.Namespace)
		}
	}
	p.linef("%s%s  %s%s, %s", head, short(e.ID.String(), *t.verbose), e.TriggeredBy, whose, evalState(&e.Eval))
	for _, l := range t.lines(c, e) {
		p.linef("%s%-12s %s", left, l[0], l[1])
	}
}

// branches returns what stands to the left of an evaluation's name, and of the
// lines below it.
func (t evalTrace) branches(all []op.TracedEval, i int) (head, left string) {
	for depth := 1; depth <= all[i].Depth; depth++ {
		// A branch passes on the left as long as a sibling follows below.
		goes := more(all, i, depth)
		switch {
		case depth == all[i].Depth && goes:
			head, left = left+"|- ", left+"|  "
		case depth == all[i].Depth:
			head, left = left+"`- ", left+"   "
		case goes:
			left += "|  "
		default:
			left += "   "
		}
	}
	if more(all, i, all[i].Depth+1) {
		return head, left + "|  "
	}
	return head, left + "   "
}

// more reports whether another branch of that depth follows the ith evaluation
// before the tree returns to a smaller depth.
func more(all []op.TracedEval, i, depth int) bool {
	for _, e := range all[i+1:] {
		if e.Depth <= depth {
			return e.Depth == depth
		}
	}
	return false
}

// lines describe an evaluation: a label and a text each.
func (t evalTrace) lines(c *call, e *op.TracedEval) (out [][2]string) {
	// Lines are collected first, as the branches on their left are the same for
	// all.
	add := func(word, format string, args ...any) {
		out = append(out, [2]string{word, strings.TrimRight(fmt.Sprintf(format, args...), " ")})
	}
	// The cause reads as in "eval status".
	s := evalStatus{verbose: t.verbose}
	cause := s.cause(e.Cause)
	if e.Link == "gone" {
		cause += fmt.Sprintf(" (evaluation %s, deleted)", short(e.Parent.String(), *t.verbose))
	} else if e.Link == berth.CauseAlloc {
		cause += fmt.Sprintf(", placed or updated by %s", short(e.Parent.String(), *t.verbose))
	} else if e.Link == berth.CauseDeployment {
		cause += fmt.Sprintf(", begun by %s", short(e.Parent.String(), *t.verbose))
	}
	add("cause", "%s", cause)
	if e.StatusDescription != "" && e.SupersededBy.IsZero() { // otherwise the pointer says it
		add("because", "%s", e.StatusDescription)
	}
	// Related evaluations stand elsewhere in the tree, so only their IDs are
	// shown.
	var pointers []string
	for _, x := range []struct {
		name string
		id   berth.EvalID
	}{{"previous", e.PreviousEval}, {"next", e.NextEval}, {"blocked", e.BlockedEval}, {"superseded by", e.SupersededBy}} {
		if !x.id.IsZero() {
			pointers = append(pointers, x.name+" "+short(x.id.String(), *t.verbose))
		}
	}
	if list := t.supersedes[e.ID]; len(list) > 0 {
		pointers = append(pointers, "supersedes "+strings.Join(list, " "))
	}
	if len(pointers) > 0 {
		add("pointers", "%s", strings.Join(pointers, ", "))
	}
	if !e.WaitUntil.IsZero() {
		add("due", "%s", stamp(e.WaitUntil))
	}
	for _, st := range steps(&e.Eval) {
		add(st.name, "%s  %s", time.Unix(0, st.from).Local().Format(milli), st.took())
	}
	if d := e.Timeline; d.Deliveries > 1 || d.Refused > 0 {
		add("tries", "delivered to a scheduler %s, %s rejected in part or in full", times(d.Deliveries), plural(d.Refused, "plan"))
	}
	for _, x := range []struct {
		word string
		list []op.TracedAlloc
	}{{"placed", e.Placed}, {"updated", e.Updated}, {"stopped", e.Stopped}} {
		t.allocs(add, x.word, x.list)
	}
	// What was not placed comes last, below what was.
	for _, g := range failedGroups(&e.Eval) {
		for _, l := range g.lines {
			add("unplaced", "%s: %s", g.name, strings.TrimPrefix(l, "* "))
		}
	}
	return out
}

// tracedKept is how many allocations of an evaluation are listed.
const tracedKept = 8

// allocs adds a line for each allocation, at most tracedKept unless verbose.
// Only the first line has the word.
func (t evalTrace) allocs(add func(string, string, ...any), word string, list []op.TracedAlloc) {
	for i, a := range list {
		if i == tracedKept && !*t.verbose {
			add("", "and %d more", len(list)-i)
			return
		}
		if i > 0 {
			word = ""
		}
		why := ""
		if a.Why != "" {
			why = ": " + a.Why
		}
		add(word, "%s  %s on %s, %s%s", short(a.ID.String(), *t.verbose), a.Name, or(a.NodeName, short(a.NodeID.String(), *t.verbose)), a.ClientStatus, why)
	}
}

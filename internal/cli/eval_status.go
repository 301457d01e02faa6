package cli

import (
	"context"
	"strconv"
	"time"

	"berth"
	"berth/client"
	"berth/op"
)

// evalStatusCommand shows or follows one evaluation.
func evalStatusCommand() *command {
	return &command{
		name: "eval status", args: "<evaluation>", synopsis: "Show an evaluation: its status, timing and placements", min: 1, max: 1,
		example: "eval status -monitor 5c1e33a6",
		help: `Shows an evaluation, given by ID or prefix: what triggered it, its status, how long each phase took, the related evaluations, what
			it placed, and what it failed to place and why.

			With -monitor, follows the evaluation until it completes. The exit code is then 0 on success, 2 if something could not be placed,
			and 1 on any other error.`,
		setup: func(f *flags) action {
			s := evalStatus{
				data:    f.data(),
				monitor: f.Bool("monitor", "Follow the evaluation until it completes."),
				verbose: f.Bool("verbose", "Show full IDs and absolute times."),
			}
			f.webFlag()
			return s.run
		},
	}
}

// evalStatus holds the flags of "eval status".
type evalStatus struct {
	data             dataFlags
	monitor, verbose *bool
}

// run prints the page, or follows the evaluation. When following, it does not
// wait for the placed allocations to run.
func (s evalStatus) run(ctx context.Context, c *call) error {
	if err := s.data.check(c); err != nil {
		return err
	}
	e, err := c.findEval(ctx, c.args[0])
	if err != nil {
		return err
	}
	c.web(ctx, uiEval(e.ID))
	switch {
	case *s.monitor && s.data.wanted():
		return c.usagef("-monitor cannot be used with -json or -t")
	case *s.monitor:
		return c.monitor(ctx, e.ID, monitorOptions{verbose: *s.verbose, job: e.JobID, namespace: e.Namespace})
	case s.data.wanted():
		return s.data.write(c, e)
	}
	// Following needs none of what comes now, so it is read last.
	allocs, _, err := client.Call(ctx, c.client, op.EvalAllocs, op.EvalRef{EvalID: e.ID.String()})
	if err != nil {
		return err
	}
	p := c.page()
	s.overview(c, p, &e)
	s.timeline(p, &e)
	if len(allocs) > 0 {
		p.heading("Placed Allocations")
		p.table(c.jobAllocRows(allocs, *s.verbose))
	}
	s.failures(c, p, &e)
	return c.show(p)
}

// overview adds the rows about the evaluation itself. Related IDs that are not
// set show as none, so that the rows stay in place.
func (s evalStatus) overview(c *call, p *page, e *op.Eval) {
	id := func(id berth.EvalID) string { return shortOr(id.String(), *s.verbose, none) }
	// Names and order of rows are those of Nomad, which scripts parse.
	kv := []string{
		"ID", id(e.ID),
		"Create Time", c.when(e.CreateTime, *s.verbose),
		"Modify Time", c.when(e.ModifyTime, *s.verbose),
		"Status", e.Status,
	}
	if e.QuasiStatus != "" {
		kv = append(kv, "Quasi Status", e.QuasiStatus)
	}
	kv = append(kv,
		"Status Description", or(e.StatusDescription, e.Status),
		"Type", e.Type,
		"TriggeredBy", e.TriggeredBy,
		"Cause", s.cause(e.Cause),
		"Job ID", string(e.JobID),
		"Namespace", e.Namespace,
		"Priority", strconv.Itoa(e.Priority),
		"Placement Failures", placementFailures(e),
		"Previous Eval", id(e.PreviousEval),
		"Next Eval", id(e.NextEval),
		"Blocked Eval", id(e.BlockedEval),
	)
	if !e.SupersededBy.IsZero() {
		kv = append(kv, "Superseded By", id(e.SupersededBy))
	}
	if !e.NodeID.IsZero() {
		kv = append(kv, "Node ID", short(e.NodeID.String(), *s.verbose))
	}
	if !e.DeploymentID.IsZero() {
		kv = append(kv, "Deployment ID", short(e.DeploymentID.String(), *s.verbose))
	}
	if !e.WaitUntil.IsZero() {
		kv = append(kv, "Wait Until", stamp(e.WaitUntil))
	}
	p.pairs(kv...)
}

// cause is the object that caused the evaluation. IDs are shortened, names are
// not.
func (s evalStatus) cause(c berth.Cause) string {
	if _, err := berth.ParseID[struct{}](c.ID); err == nil {
		c.ID = short(c.ID, *s.verbose)
	}
	return or(c.String(), none)
}

// timeline shows how long each phase took so far.
func (s evalStatus) timeline(p *page, e *op.Eval) {
	steps := steps(e)
	if len(steps) == 0 {
		return
	}
	rows := [][]string{{"Step", "Since", "Took"}}
	for _, st := range steps {
		rows = append(rows, []string{st.name, time.Unix(0, st.from).Local().Format(milli), st.took()})
	}
	p.heading("Timeline")
	p.table(rows)
	if t := e.Timeline; t.Deliveries > 1 || t.Refused > 0 {
		of := ""
		if t.Deliveries > 1 {
			of = " (the steps from scheduling on are those of the last delivery)"
		}
		p.linef("Delivered to a scheduler %s%s; %s rejected in part or in full", times(t.Deliveries), of, plural(t.Refused, "plan"))
	}
}

// times returns n as an adverb: "once" or "3 times".
func times(n int) string {
	if n == 1 {
		return "once"
	}
	return strconv.Itoa(n) + " times"
}

// step is a phase of an evaluation; to is 0 while it is in progress.
type step struct {
	name     string
	from, to int64 // ns since 1970
	last     bool  // the end, which has no duration
}

// took is the duration of a step.
func (s step) took() string {
	switch {
	case s.last:
		return ""
	case s.to > 0:
		return took(time.Duration(s.to - s.from))
	}
	return "in progress"
}

// station is a moment on the way of an evaluation. The phase of that name
// begins there.
type station struct {
	name string
	at   int64 // ns since 1970; 0 if it was skipped or is still to come
}

// steps are the phases that an evaluation has gone through.
func steps(e *op.Eval) (out []step) {
	// The end is when the evaluation got its final status, or when the server
	// acknowledged it.
	t := e.Timeline
	end := int64(0)
	if terminal(e.Status) {
		end = e.ModifyTime
	}
	if e.Status == berth.EvalFailed {
		t.Acked = 0 // a worker that was too late
	}
	if t.Acked > 0 {
		end = t.Acked // the plan already wrote the end, so this is later
	}
	first := "created"
	if e.TriggeredBy == berth.TriggerQueuedAllocs || e.TriggeredBy == berth.TriggerMaxPlanAttempts {
		first = "blocked" // it was created blocked
	}
	// When an evaluation was delivered before is not known, only how often: the
	// time until its last delivery is that of waiting and of tries.
	waits := "queued"
	if t.Deliveries > 1 {
		waits = "queued, tried"
	}
	stations := []station{{first, e.CreateTime}, {waits, t.Enqueued}, {"scheduling", t.Dequeued}, {"again", t.Planned}, {"applying", t.Applied}, {"", end}}
	if e.Status == berth.EvalBlocked && e.QuasiStatus == "" { // what follows is from its previous run
		stations = stations[:1]
		stations[0].name = "blocked"
	}
	// When a plan was applied is known to the leader of that time alone. Later it
	// is still known when applying began, but not how long it took.
	forgotten := t.Acked == 0 && end > 0 && t.Applied >= end
	if forgotten {
		stations = stations[:len(stations)-1]
	}
	// Each phase ends where the next one that was reached begins.
	for _, s := range stations {
		if s.at <= 0 || s.name == "again" && t.Refused == 0 || s.name == "applying" && end > 0 && end <= s.at && !forgotten {
			continue // skipped, or too short to measure
		}
		if n := len(out); n > 0 {
			out[n-1].to = max(s.at, out[n-1].from) // the clocks of two servers may differ
		}
		if s.name != "" {
			out = append(out, step{name: s.name, from: s.at})
		}
	}
	switch {
	case t.Acked > 0:
		out = append(out, step{name: "acknowledged", from: t.Acked, last: true})
	case e.Status == berth.EvalFailed:
		out = append(out, step{name: "failed", from: end, last: true})
	}
	if n := len(out); n > 0 && forgotten {
		out[n-1].last = true
	}
	return out
}

// failures adds what could not be placed and what the evaluation, or the
// blocked one that it left, is waiting for.
func (s evalStatus) failures(c *call, p *page, e *op.Eval) {
	if failed := failedGroups(e); len(failed) > 0 {
		p.heading("==> Failed Placements")
		for _, g := range failed {
			p.linef("%s", g.head)
			for _, l := range g.lines {
				p.linef("  %s", l)
			}
		}
	}
	switch {
	// An open evaluation explains itself; one that has ended may have left a
	// blocked one.
	case !terminal(e.Status):
		p.gap()
		p.linef("%s", c.waiting(e, *s.verbose))
	case !e.BlockedEval.IsZero():
		p.gap()
		p.linef("Evaluation %q waiting for additional capacity to place remainder", short(e.BlockedEval.String(), *s.verbose))
	}
}

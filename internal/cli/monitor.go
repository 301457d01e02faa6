package cli

import (
	"context"
	"fmt"
	"time"

	"berth"
	"berth/client"
	"berth/op"
)

// monitorOptions control what a monitor waits for besides the end of the
// evaluation.
type monitorOptions struct {
	verbose   bool
	settle    bool          // wait until placed allocations run or, for a batch job, have started
	toEnd     bool          // wait until the job, or the deployment, has ended
	pace      time.Duration // between two updates of a deployment; 0 is at each change
	job       berth.JobID
	namespace string
}

// patience is how long a monitor retries while no server can answer: during an
// election, or while the agent restarts.
const (
	patience   = 60 * time.Second
	retryPause = time.Second
	longPoll   = 60 * time.Second
	eachLook   = time.Second // on a terminal, to refresh the status line
)

// monitor follows an evaluation and the ones it leads to.
type monitor struct {
	*call
	options  monitorOptions
	seen     *watched // nil unless an evaluation or a deployment is followed
	progress *progress
	shown    *board    // what stands below the status line; nil until there are allocations
	began    time.Time // for the elapsed time in the status line
}

// monitor shows the progress of an evaluation until there is nothing left to
// wait for. It returns exit(exitUnplaced) if something could not be placed.
func (c *call) monitor(ctx context.Context, id berth.EvalID, o monitorOptions) error {
	m := &monitor{
		call: c, options: o, seen: newWatched(o.verbose), began: c.Now(),
		progress: &progress{out: c.Out, terminal: c.Terminal, width: c.Width},
	}
	err := m.run(ctx, id)
	m.progress.erase()
	if err != nil && ctx.Err() != nil {
		fmt.Fprintf(c.Err, "Interrupted. The evaluation continues in the background; \"%s eval status -monitor %s\" monitors it again", c.Name, id.Short())
		if o.job != "" {
			fmt.Fprintf(c.Err, ", \"%s job status%s %s\" shows the job", c.Name, nonDefault(o.namespace), quoted(clean(string(o.job))))
		}
		fmt.Fprintln(c.Err, ".")
		return exit(exitError)
	}
	return err
}

// nonDefault is the flag for a namespace other than the default one.
func nonDefault(namespace string) string {
	if namespace == "" || namespace == berth.DefaultNamespace {
		return ""
	}
	return " -namespace " + quoted(clean(namespace))
}

// run follows an evaluation, then its deployment or its allocations, and then
// the evaluation that comes next, if there is one.
func (m *monitor) run(ctx context.Context, id berth.EvalID) error {
	e, err := m.follow(ctx, id)
	if err != nil {
		return err
	}
	// An evaluation of the cluster, or one given by ID, names its job itself.
	if m.options.job == "" {
		m.options.job, m.options.namespace = e.JobID, e.Namespace
	}
	code := m.finished(e)
	// A deployment reports health, which says more than running allocations.
	if d, err := m.deploys(ctx, e, code); err != nil {
		return err
	} else if d != nil {
		_, err := m.deployment(ctx, d)
		return err
	}
	// Settling may end with another evaluation, if a blocked one was placed
	// meanwhile.
	if m.options.settle {
		if e, err = m.settle(ctx, e); err != nil {
			return err
		}
		code = m.verdict(e)
	}
	if m.options.toEnd && code != exitError {
		return m.untilEnd(ctx)
	}
	switch {
	// A next evaluation finishes what this one left for later.
	case e.Status == berth.EvalComplete && !e.NextEval.IsZero():
		return m.run(ctx, e.NextEval)
	case code != exitGood:
		return exit(code)
	}
	return nil
}

// follow watches an evaluation until it ends. If a newer evaluation of the job
// superseded it, that one does its work, so it is watched next.
func (m *monitor) follow(ctx context.Context, id berth.EvalID) (*op.Eval, error) {
	for {
		e, err := m.followOne(ctx, id)
		if err != nil || e.SupersededBy.IsZero() {
			return e, err
		}
		m.head("Evaluation %q was superseded by evaluation %q", short(id.String(), m.options.verbose), short(e.SupersededBy.String(), m.options.verbose))
		id = e.SupersededBy
	}
}

// followOne watches one evaluation until it ends.
func (m *monitor) followOne(ctx context.Context, id berth.EvalID) (*op.Eval, error) {
	m.head("Monitoring evaluation %q", short(id.String(), m.options.verbose))
	var index uint64
	var delayed bool
	var e op.Eval
	// The status line is drawn while the read below waits.
	m.progress.status = func() string { return m.stage(&e) }
	for {
		var got op.Eval // not e, which the status line reads meanwhile
		var meta op.Meta
		err := m.ask(ctx, func(ctx context.Context) (err error) {
			in := op.EvalQuery{EvalID: id.String(), Query: op.Query{MinQueryIndex: index, MaxQueryTime: m.poll()}}
			got, meta, err = client.Call(ctx, m.client, op.ReadEval, in)
			return err
		})
		if err != nil {
			return nil, err
		}
		e, index = got, meta.Index
		m.lines(m.beforeEnd(&e))
		if !delayed && !terminal(e.Status) && e.WaitUntil.After(m.Now()) {
			delayed = true
			m.line("Evaluation delayed until %s", stamp(e.WaitUntil))
		}
		if terminal(e.Status) {
			break
		}
	}
	// Allocations of batch jobs may end, so a group of them is settled without
	// running.
	m.seen.service = e.Type != berth.TypeBatch && e.Type != berth.TypeSysbatch
	var list []op.AllocStub
	err := m.ask(ctx, func(ctx context.Context) (err error) {
		list, _, err = client.Call(ctx, m.client, op.EvalAllocs, op.EvalRef{EvalID: id.String()})
		return err
	})
	if err != nil {
		return nil, err
	}
	// Placements are reported before the end that they lead to.
	m.lines(m.seen.placed(&e, list))
	m.lines(m.seen.sawEval(&e))
	return &e, nil
}

// beforeEnd returns the news of an evaluation that is in progress. The final
// change is reported after its placements.
func (m *monitor) beforeEnd(e *op.Eval) []string {
	if !terminal(e.Status) {
		return m.seen.sawEval(e)
	}
	if _, known := m.seen.status[e.ID]; known {
		return nil
	}
	return m.seen.sawEval(&op.Eval{ID: e.ID, JobID: e.JobID, NodeID: e.NodeID, TriggeredBy: e.TriggeredBy, Status: began(e)})
}

// terminal reports whether an evaluation with that status never changes again.
func terminal(status string) bool {
	return status == berth.EvalComplete || status == berth.EvalFailed || status == berth.EvalCanceled
}

// finished reports how an evaluation ended and returns its exit code.
func (m *monitor) finished(e *op.Eval) int {
	head := fmt.Sprintf("Evaluation %q finished with status %q", short(e.ID.String(), m.options.verbose), e.Status)
	// A completed evaluation may still have failed to place some allocations.
	failed := failedGroups(e)
	if len(failed) > 0 {
		head += " but failed to place all allocations:"
	} else if e.Status != berth.EvalComplete && e.StatusDescription != "" {
		head += ": " + e.StatusDescription
	}
	m.head("%s", head)
	for _, g := range failed {
		m.line("%s", g.head)
		for _, l := range g.lines {
			m.progress.line("      " + clean(l))
		}
	}
	if !e.BlockedEval.IsZero() {
		m.line("Evaluation %q waiting for additional capacity to place remainder", short(e.BlockedEval.String(), m.options.verbose))
	}
	return m.verdict(e)
}

// verdict is the exit code for an evaluation that has ended.
func (m *monitor) verdict(e *op.Eval) int {
	switch {
	case len(e.FailedTGAllocs) > 0:
		return exitUnplaced
	case e.Status != berth.EvalComplete:
		return exitError
	}
	return exitGood
}

// settle waits until what was placed runs. It returns the evaluation with the
// final result: the blocked one, if it was placed meanwhile.
func (m *monitor) settle(ctx context.Context, e *op.Eval) (*op.Eval, error) {
	for {
		t, err := m.settleAllocs(ctx)
		if err != nil {
			return nil, err
		}
		// What was blocked may have been placed while its neighbors started.
		next, err := m.unblocked(ctx, e)
		if err != nil {
			return nil, err
		}
		if next == nil {
			return e, m.closing(t)
		}
		e = next
	}
}

// settleAllocs waits until none of the job's allocations is pending.
func (m *monitor) settleAllocs(ctx context.Context) (t tally, err error) {
	var index uint64
	m.progress.status = func() string { return fmt.Sprintf("%s (%s)", t, span(m.Now().Sub(m.began))) }
	for {
		var list []op.AllocStub
		var meta op.Meta
		err := m.ask(ctx, func(ctx context.Context) (err error) {
			in := op.JobAllocsQuery{JobID: string(m.options.job), Query: op.Query{Namespace: m.options.namespace, MinQueryIndex: index, MaxQueryTime: m.poll()}}
			list, meta, err = client.Call(ctx, m.client, op.JobAllocs, in)
			return err
		})
		if err != nil {
			return t, err
		}
		index = meta.Index
		m.lines(m.seen.fared(list))
		m.board(ctx, list, nil)
		if t = m.seen.count(list); t.settled() {
			return t, nil
		}
	}
}

// unblocked returns the blocked evaluation of e if it was placed meanwhile;
// otherwise nil.
func (m *monitor) unblocked(ctx context.Context, e *op.Eval) (*op.Eval, error) {
	if e.BlockedEval.IsZero() {
		return nil, nil
	}
	var b op.Eval
	err := m.ask(ctx, func(ctx context.Context) (err error) {
		b, _, err = client.Call(ctx, m.client, op.ReadEval, op.EvalQuery{EvalID: e.BlockedEval.String()})
		return err
	})
	if err != nil || !terminal(b.Status) {
		return nil, err
	}
	ended, err := m.follow(ctx, b.ID)
	if err == nil {
		m.finished(ended)
	}
	return ended, err
}

// closing reports the final state of the job's allocations. A service with a
// failed allocation has not come up.
func (m *monitor) closing(t tally) error {
	if !m.seen.service || t.failed == 0 {
		return nil
	}
	m.head("%s failed: %s; \"%s alloc status %s\" shows why", plural(t.failed, "allocation"), t, m.Name, t.failing[0])
	return exit(exitError)
}

// stage is what an open evaluation is doing.
func (m *monitor) stage(e *op.Eval) string {
	what := or(e.QuasiStatus, or(e.Status, berth.EvalPending))
	if e.Status == berth.EvalBlocked {
		what = "blocked, retried " + helps(e)
	}
	return fmt.Sprintf("Evaluation %s (%s)", what, span(m.Now().Sub(m.began)))
}

// poll is how long the server may hold a query.
func (m *monitor) poll() time.Duration {
	if m.progress.terminal {
		return eachLook
	}
	return longPoll
}

// ask calls f, and retries with a notice while no server can answer.
func (m *monitor) ask(ctx context.Context, f func(context.Context) error) error {
	var since time.Time
	for {
		err := m.progress.wait(ctx, f)
		kind := berth.KindOf(err)
		if err == nil || ctx.Err() != nil || kind != berth.Unavailable && kind != berth.NoLeader {
			return err
		}
		// The notice is printed once for each outage; its patience starts over
		// when a call succeeds.
		if since.IsZero() {
			since = m.Now()
			m.line("No answer: %v; retrying for %s", err, span(patience))
		}
		if m.Now().Sub(since) > patience {
			return err
		}
		if err := m.progress.wait(ctx, pauseFor(retryPause)); err != nil {
			return err
		}
	}
}

// pauseFor waits for a duration or until ctx ends.
func pauseFor(d time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// head prints the first line of a section.
func (m *monitor) head(format string, args ...any) {
	m.progress.line(fmt.Sprintf("==> %s: %s", stamp(m.Now()), clean(fmt.Sprintf(format, args...))))
}

// line prints a line of the current section.
func (m *monitor) line(format string, args ...any) {
	m.progress.line(fmt.Sprintf("    %s: %s", stamp(m.Now()), clean(fmt.Sprintf(format, args...))))
}

// lines prints lines of the current section.
func (m *monitor) lines(list []string) {
	for _, l := range list {
		m.line("%s", l)
	}
}

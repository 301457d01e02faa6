package cli

import (
	"context"
	"fmt"
	"slices"

	"berth"
	"berth/client"
	"berth/op"
)

// monitorSubmission follows the submission of a stream job until the latest
// version of the job is submitted or has failed: then it returns
// exit(exitError). A submission that starts over is followed further.
func (c *call) monitorSubmission(ctx context.Context, job berth.JobID, namespace string, verbose bool) error {
	m := &monitor{
		call: c, options: monitorOptions{verbose: verbose, job: job, namespace: namespace}, began: c.Now(),
		progress: &progress{out: c.Out, terminal: c.Terminal, width: c.Width},
	}
	defer m.progress.erase()
	m.head("Monitoring the submission of job %q", job)
	err := m.submission(ctx)
	if err != nil && ctx.Err() != nil {
		m.progress.erase()
		fmt.Fprintf(c.Err, "Interrupted. The submission continues in the background; \"%s stream status%s %s\" shows its progress.\n", c.Name, nonDefault(namespace), quoted(clean(string(job))))
		return exit(exitError)
	}
	return err
}

// submission polls the submission until it ends. It reports each step once, and
// what cannot be placed once for each evaluation.
func (m *monitor) submission(ctx context.Context) error {
	var v op.StreamStanding
	m.progress.status = func() string { return fmt.Sprintf("%s (%s)", howFar(&v), span(m.Now().Sub(m.began))) }
	reported, uid, waits := "", "", map[berth.EvalID]bool{}
	var index uint64
	for {
		var got op.StreamStanding
		var meta op.Meta
		err := m.ask(ctx, func(ctx context.Context) (err error) {
			in := op.StreamJobRef{JobID: string(m.options.job), Query: op.Query{Namespace: m.options.namespace, MinQueryIndex: index, MaxQueryTime: m.poll()}}
			got, meta, err = client.Call(ctx, m.client, op.ReadStreamJob, in)
			return err
		})
		// A job that was found before has been deleted.
		if berth.KindOf(err) == berth.NotFound && uid != "" {
			m.head("Job %q was deleted", m.options.job)
			return exit(exitError)
		}
		if err != nil {
			return err
		}
		v, index = got, meta.Index
		if uid != v.UID {
			if uid != "" {
				m.line("The submission is starting over as %s", v.UID)
			}
			uid = v.UID
		}
		if now := howFar(&v); now != reported {
			reported = now
			m.line("%s", now)
		}
		if err := m.unplaced(ctx, &v, waits); err != nil {
			return err
		}
		switch {
		case v.Deletion != nil: // it starts over, or will be gone
		case v.Phase == berth.PhaseSubmitted && v.Version >= v.Newest:
			m.head("Job %q is submitted: %s at generation %d", v.JobID, plural(v.Observed[berth.KindPE], "processing element"), v.Generation)
			return nil
		case v.Phase == berth.PhaseFailed:
			m.head("The submission of job %q failed: %s", v.JobID, v.LastError)
			return exit(exitError)
		case v.Phase == berth.PhaseStopped:
			m.head("Job %q was stopped", v.JobID)
			return exit(exitError)
		}
	}
}

// unplaced reports what a submission could not place, and why, once for each
// evaluation.
func (m *monitor) unplaced(ctx context.Context, v *op.StreamStanding, reported map[berth.EvalID]bool) error {
	if v.Phase != berth.PhaseSubmission || v.Deletion != nil || v.Expected[berth.KindPE] > v.Observed[berth.KindPE] {
		return nil // nothing is placed yet
	}
	var evals []op.Eval
	err := m.ask(ctx, func(ctx context.Context) (err error) {
		evals, _, err = client.Call(ctx, m.client, op.JobEvals, op.JobRef{JobID: string(v.JobID), Query: op.Query{Namespace: v.Namespace}})
		return err
	})
	if err != nil && berth.KindOf(err) != berth.NotFound {
		return err
	}
	for i := range evals {
		e := &evals[i]
		if e.Status != berth.EvalBlocked || reported[e.ID] {
			continue
		}
		reported[e.ID] = true
		m.line("Evaluation %q is waiting for additional capacity:", short(e.ID.String(), m.options.verbose))
		for _, g := range failedGroups(e) {
			m.line("%s", g.head)
			for _, l := range g.lines {
				m.progress.line("      " + clean(l))
			}
		}
	}
	return nil
}

// howFar is the progress of a submission on one line.
func howFar(v *op.StreamStanding) string {
	switch {
	case v.UID == "":
		return "Submission"
	case v.Deletion != nil:
		return fmt.Sprintf("Being deleted (%s, by %s): %s to go", v.Deletion.Policy, v.Deletion.Intent, plural(v.Deletion.Blocking, "object"))
	case v.Phase == berth.PhaseSubmitted && v.Version < v.Newest:
		return fmt.Sprintf("Generation %d is submitted; version %d of the job comes next", v.Generation, v.Newest)
	}
	text := fmt.Sprintf("Generation %d: %s", v.Generation, v.State)
	for _, kind := range slices.Concat(berth.StreamKinds, []string{berth.KindAlloc}) {
		if n := v.Expected[kind]; n > v.Observed[kind] { // kinds are created in order: this is the current one
			return fmt.Sprintf("%s, %d of %d created", text, v.Observed[kind], n)
		}
	}
	if n := len(v.Stale); n > 0 && v.Phase == berth.PhaseSubmission {
		return fmt.Sprintf("%s, %d of another generation", text, n)
	}
	return text
}

package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"berth"
	"berth/client"
	"berth/op"
)

// monitorDeployment follows a deployment until it ends, shows it, and continues
// with the deployment of the revert, if there is one. It updates at each
// change, or if pace is not 0, after each pace.
func (c *call) monitorDeployment(ctx context.Context, d *berth.Deployment, verbose bool, pace time.Duration) error {
	m := &monitor{
		call: c, options: monitorOptions{verbose: verbose, job: d.JobID, namespace: d.Namespace, toEnd: true, pace: pace}, seen: newWatched(verbose), began: c.Now(),
		progress: &progress{out: c.Out, terminal: c.Terminal, width: c.Width},
	}
	defer m.progress.erase()
	// The result is that of the deployment the user named, not of its revert.
	var first error
	for next := d; next != nil; {
		ended, err := m.deployment(ctx, next)
		if _, silent := err.(exit); err != nil && !silent {
			return err
		}
		if next == d {
			first = err
		}
		m.progress.erase()
		m.progress.status = nil
		// Each deployment is shown in full once it has ended.
		p, err := c.deploymentPage(ctx, ended, verbose)
		if err != nil {
			return err
		}
		fmt.Fprintln(c.Out)
		if err := c.show(p); err != nil {
			return err
		}
		if next, err = m.rollback(ctx, ended); err != nil {
			return err
		}
		if next != nil {
			fmt.Fprintln(c.Out)
		}
	}
	return first
}

// rollback returns the deployment by which a failed one is reverted, or nil if
// there is none.
func (m *monitor) rollback(ctx context.Context, d *berth.Deployment) (next *berth.Deployment, err error) {
	reverts := slices.ContainsFunc(slices.Collect(maps.Values(d.TaskGroups)), func(s *berth.DeploymentState) bool { return s.AutoRevert })
	if d.Status != berth.DeploymentFailed || !reverts {
		return nil, nil
	}
	var index uint64
	for {
		var evals []op.Eval
		var meta op.Meta
		err := m.ask(ctx, func(ctx context.Context) (err error) {
			of := op.Query{Namespace: d.Namespace, MinQueryIndex: index, MaxQueryTime: m.poll()}
			if evals, meta, err = client.Call(ctx, m.client, op.JobEvals, op.JobRef{JobID: string(d.JobID), Query: of}); err == nil {
				next, err = m.lastDeployment(ctx, d.JobID, d.Namespace)
			}
			return err
		})
		switch {
		case err != nil:
			return nil, err
		case next != nil && next.CreateIndex > d.CreateIndex:
			return next, nil
		case !slices.ContainsFunc(evals, func(e op.Eval) bool { return e.Status == berth.EvalPending }):
			return nil, nil // the evaluation of the failure has ended
		}
		index = meta.Index
	}
}

// deploys returns the deployment to follow after an evaluation that placed
// everything, or nil.
func (m *monitor) deploys(ctx context.Context, e *op.Eval, code int) (d *berth.Deployment, err error) {
	if !m.options.settle || code != exitGood || e.Type != berth.TypeService {
		return nil, nil
	}
	err = m.ask(ctx, func(ctx context.Context) (err error) {
		d, err = m.lastDeployment(ctx, m.options.job, m.options.namespace)
		return err
	})
	if err != nil || d == nil || !d.Active() && d.ModifyIndex < e.CreateIndex {
		return nil, err
	}
	return d, nil
}

// deployment follows a deployment until it ends or, unless o.toEnd, waits for
// promotion. It returns the deployment as it is then, and exit(exitError) if it
// did not succeed.
func (m *monitor) deployment(ctx context.Context, d *berth.Deployment) (*berth.Deployment, error) {
	id := short(d.ID.String(), m.options.verbose)
	m.head("Monitoring deployment %q", id)
	m.progress.status = func() string { return fmt.Sprintf("Deployment %s (%s)", d.Status, span(m.Now().Sub(m.began))) }
	var index uint64
	reported, waits := "", false
	for {
		var got *berth.Deployment
		var meta op.Meta
		err := m.ask(ctx, func(ctx context.Context) (err error) {
			// Tasks that fail do not change their deployment until they are given
			// up, so their allocations are looked at in between.
			in := op.DeploymentRef{DeploymentID: d.ID.String(), Query: op.Query{MinQueryIndex: index, MaxQueryTime: min(m.poll(), taskLook)}}
			got, meta, err = client.Call(ctx, m.client, op.ReadDeployment, in)
			return err
		})
		if err != nil {
			return d, err
		}
		d, index = got, meta.Index
		if err := m.troubles(ctx, d); err != nil {
			return d, err
		}
		// Most changes of a deployment do not change its line.
		if now := reached(d); now != reported {
			reported = now
			m.line("%s", now)
		}
		// The request to promote is printed each time the deployment begins to
		// wait for it.
		switch now := promotable(d); {
		case !d.Active():
			return d, m.deploymentEnded(id, d)
		case now && !waits:
			m.head("Deployment %q is waiting for promotion: \"%s deployment promote %s\"", id, m.Name, id)
			if !m.options.toEnd {
				return d, nil
			}
			waits = true
		default:
			waits = now
		}
		// Index 0 makes the next read answer at once, after the pause.
		if m.options.pace > 0 {
			index = 0
			if err := m.progress.wait(ctx, pauseFor(m.options.pace)); err != nil {
				return d, err
			}
		}
	}
}

// taskLook is how often the tasks of a deployment are looked at.
const taskLook = 2 * time.Second

// troubles reports why tasks of a deployment fail.
func (m *monitor) troubles(ctx context.Context, d *berth.Deployment) error {
	var list []op.AllocStub
	err := m.ask(ctx, func(ctx context.Context) (err error) {
		list, _, err = client.Call(ctx, m.client, op.JobAllocs, op.JobAllocsQuery{JobID: string(d.JobID), Query: op.Query{Namespace: d.Namespace}})
		return err
	})
	if err != nil {
		return err
	}
	for i := range list {
		if a := &list[i]; a.JobVersion == d.JobVersion {
			m.lines(m.seen.troubled(a))
		}
	}
	m.board(ctx, list, d)
	return nil
}

// deploymentEnded reports the end of a deployment. It returns exit(exitError)
// unless the deployment succeeded.
func (m *monitor) deploymentEnded(id string, d *berth.Deployment) error {
	m.head("Deployment %q %s: %s", id, d.Status, d.StatusDescription)
	if d.Status != berth.DeploymentSuccessful {
		return exit(exitError)
	}
	return nil
}

// reached is the progress of a deployment's groups on one line.
func reached(d *berth.Deployment) string {
	parts := []string{}
	for _, name := range slices.Sorted(maps.Keys(d.TaskGroups)) {
		s := d.TaskGroups[name]
		part := fmt.Sprintf("group %q: %d of %d healthy, %d placed", name, s.HealthyAllocs, s.DesiredTotal, s.PlacedAllocs)
		if s.UnhealthyAllocs > 0 {
			part += fmt.Sprintf(", %d unhealthy", s.UnhealthyAllocs)
		}
		if s.DesiredCanaries > 0 && !s.Promoted {
			part += fmt.Sprintf(", %d to be promoted", s.DesiredCanaries)
		}
		parts = append(parts, part)
	}
	return "Deployment " + d.Status + ": " + strings.Join(parts, "; ")
}

// promotable reports whether a deployment only waits for its promotion.
func promotable(d *berth.Deployment) bool {
	waits := false
	for _, s := range d.TaskGroups {
		if !s.Waits() {
			if !s.Past() || s.HealthyAllocs < s.DesiredTotal {
				return false
			}
			continue
		}
		if s.HealthyAllocs < s.DesiredCanaries {
			return false
		}
		waits = true
	}
	return waits && d.Status == berth.DeploymentRunning
}

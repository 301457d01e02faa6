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

// monitorDeployment follows a deployment until it has ended, shows it, and
// goes on with that by which the job goes back, if it does. It looks when
// something changes, or if pace is not 0 each time that it has passed.
func (c *call) monitorDeployment(ctx context.Context, d *berth.Deployment, verbose bool, pace time.Duration) error {
	m := &monitor{
		call: c, options: monitorOptions{verbose: verbose, job: d.JobID, namespace: d.Namespace, toEnd: true, pace: pace}, seen: newWatched(verbose), began: c.Now(),
		progress: &progress{out: c.Out, terminal: c.Terminal, width: c.Width},
	}
	defer m.progress.erase()
	var first error
	for next := d; next != nil; {
		ended, err := m.deployment(ctx, next)
		if _, said := err.(exit); err != nil && !said {
			return err
		}
		if next == d {
			first = err
		}
		m.progress.erase()
		m.progress.status = nil
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

// rollback returns the deployment by which a job goes back because one failed,
// nil if it does not, or goes back without one.
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
			return nil, nil // what the failure raised has been decided
		}
		index = meta.Index
	}
}

// deploys returns the deployment by which the job goes on after an evaluation
// that placed everything, nil if there is none, or nobody wants to see it.
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

// deployment follows a deployment until it has ended, or unless it is followed
// to its end waits for somebody to promote it. It returns how the deployment is
// then, and exit(exitError) if that has not ended well.
func (m *monitor) deployment(ctx context.Context, d *berth.Deployment) (*berth.Deployment, error) {
	id := short(d.ID.String(), m.options.verbose)
	m.head("Monitoring deployment %q", id)
	m.progress.status = func() string { return fmt.Sprintf("Deployment %s (%s)", d.Status, span(m.Now().Sub(m.began))) }
	var index uint64
	told, waits := "", false
	for {
		var got *berth.Deployment
		var meta op.Meta
		err := m.ask(ctx, func(ctx context.Context) (err error) {
			in := op.DeploymentRef{DeploymentID: d.ID.String(), Query: op.Query{MinQueryIndex: index, MaxQueryTime: m.poll()}}
			got, meta, err = client.Call(ctx, m.client, op.ReadDeployment, in)
			return err
		})
		if err != nil {
			return d, err
		}
		d, index = got, meta.Index
		if now := reached(d); now != told {
			told = now
			m.line("%s", now)
		}
		switch now := promotable(d); {
		case !d.Active():
			return d, m.deploymentEnded(id, d)
		case now && !waits:
			m.head("Deployment %q waits to be promoted; \"%s deployment promote %s\" does that", id, m.Name, id)
			if !m.options.toEnd {
				return d, nil
			}
			waits = true
		default:
			waits = now
		}
		if m.options.pace > 0 {
			index = 0
			if err := m.progress.wait(ctx, pauseFor(m.options.pace)); err != nil {
				return d, err
			}
		}
	}
}

func (m *monitor) deploymentEnded(id string, d *berth.Deployment) error {
	m.head("Deployment %q %s: %s", id, d.Status, d.StatusDescription)
	if d.Status != berth.DeploymentSuccessful {
		return exit(exitError)
	}
	return nil
}

// reached is how far the groups of a deployment are, on one line.
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

// promotable says whether a deployment has nothing else to wait for than to be
// promoted.
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

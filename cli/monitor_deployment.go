package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth"
	"berth/client"
	"berth/op"
)

// monitorDeployment follows a deployment until it has ended, or waits for
// somebody to promote it.
func (c *call) monitorDeployment(ctx context.Context, d *berth.Deployment, verbose bool) error {
	m := &monitor{
		call: c, options: monitorOptions{verbose: verbose, job: d.JobID, namespace: d.Namespace}, seen: newWatched(verbose), began: c.Now(),
		progress: &progress{out: c.Out, terminal: c.Terminal, width: c.Width},
	}
	err := m.deployment(ctx, d)
	m.progress.erase()
	return err
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

// deployment follows a deployment. It returns exit(exitError) if that does not
// end well.
func (m *monitor) deployment(ctx context.Context, d *berth.Deployment) error {
	id := short(d.ID.String(), m.options.verbose)
	m.head("Monitoring deployment %q", id)
	m.progress.status = func() string { return fmt.Sprintf("Deployment %s (%s)", d.Status, span(m.Now().Sub(m.began))) }
	var index uint64
	told := ""
	for {
		var got *berth.Deployment
		var meta op.Meta
		err := m.ask(ctx, func(ctx context.Context) (err error) {
			in := op.DeploymentRef{DeploymentID: d.ID.String(), Query: op.Query{MinQueryIndex: index, MaxQueryTime: m.poll()}}
			got, meta, err = client.Call(ctx, m.client, op.ReadDeployment, in)
			return err
		})
		if err != nil {
			return err
		}
		d, index = got, meta.Index
		if now := reached(d); now != told {
			told = now
			m.line("%s", now)
		}
		switch {
		case !d.Active():
			return m.deploymentEnded(id, d)
		case promotable(d):
			m.head("Deployment %q waits to be promoted; \"%s deployment promote %s\" does that", id, m.Name, id)
			return nil
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

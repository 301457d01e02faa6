package cli

import (
	"context"
	"fmt"

	"berth"
	"berth/client"
	"berth/op"
)

// untilEnd follows the job until nothing of it runs and nothing is left to
// place. It returns exit(exitError) if an allocation failed for good, or if the
// job was stopped.
func (m *monitor) untilEnd(ctx context.Context) error {
	var t tally
	m.progress.status = func() string { return fmt.Sprintf("%s (%s)", t, span(m.Now().Sub(m.began))) }
	m.head("Waiting for job %q to end", m.options.job)
	var index uint64
	for {
		var j op.Job
		var list []op.AllocStub
		var meta op.Meta
		err := m.ask(ctx, func(ctx context.Context) (err error) {
			in := op.JobRef{JobID: string(m.options.job), Query: op.Query{Namespace: m.options.namespace, MinQueryIndex: index, MaxQueryTime: m.poll()}}
			if j, meta, err = client.Call(ctx, m.client, op.ReadJob, in); err != nil {
				return err
			}
			of := op.JobAllocsQuery{JobID: string(m.options.job), Query: op.Query{Namespace: m.options.namespace}}
			list, _, err = client.Call(ctx, m.client, op.JobAllocs, of)
			return err
		})
		if err != nil {
			return err
		}
		index = meta.Index
		// Later evaluations may replace allocations or place more of them.
		m.lines(m.seen.came(list))
		m.lines(m.seen.fared(list))
		t = m.seen.count(list)
		if j.Status == berth.JobDead {
			return m.over(&j, t)
		}
	}
}

// over reports how a job ended.
func (m *monitor) over(j *op.Job, t tally) error {
	switch {
	case j.Stop:
		m.head("Job %q was stopped", j.ID)
	case t.failed > 0:
		m.head("Job %q failed: %s; \"%s alloc status %s\" shows why", j.ID, t, m.Name, t.failing[0])
	default:
		m.head("Job %q has ended: %s", j.ID, t)
		return nil
	}
	return exit(exitError)
}

// came returns what was placed since by evaluations that were not followed.
func (w *watched) came(list []op.AllocStub) (lines []string) {
	for i := range list {
		a := &list[i]
		if _, known := w.allocs[a.ID]; known {
			continue
		}
		w.allocs[a.ID] = seen{*a, berth.ClientPending}
		lines = append(lines, fmt.Sprintf("Allocation %q created: node %q, group %q", short(a.ID.String(), w.verbose), short(a.NodeID.String(), w.verbose), a.TaskGroup))
	}
	return lines
}

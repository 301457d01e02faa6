package explain

import (
	"fmt"
	"maps"
	"slices"

	"berth"
	"berth/internal/schedule"
	"berth/internal/state"
	"berth/op"
)

// algorithms are all that may be chosen.
var algorithms = []string{berth.AlgorithmBinpack, berth.AlgorithmBalanced, berth.AlgorithmSpread}

// underAlgorithm returns the sandbox with another algorithm for a node pool,
// whether the pool or the cluster says which it has.
func (w sandbox) underAlgorithm(pool, algorithm string) (sandbox, bool) {
	if p := w.snap.NodePool(pool); p != nil && p.SchedulerConfiguration != nil && p.SchedulerConfiguration.SchedulerAlgorithm != "" {
		own, conf := *p, *p.SchedulerConfiguration
		conf.SchedulerAlgorithm = algorithm
		own.SchedulerConfiguration = &conf
		return w.with(&state.UpsertNodePools{Pools: []*berth.NodePool{&own}})
	}
	conf := *w.snap.SchedulerConfig()
	conf.SchedulerAlgorithm = algorithm
	return w.with(&state.SetSchedulerConfig{Config: conf})
}

// restarted returns the sandbox with the job as if it was registered for the first
// time: nothing of it runs, and everything is placed again.
func (w sandbox) restarted(job *berth.Job) (sandbox, bool) {
	cmds := []state.Command{&state.DeleteJob{Key: w.key, Policy: berth.Background, Intent: berth.IntentUser, Now: w.now.UnixNano()}}
	for a := range w.snap.AllocsOf(w.key) {
		if !a.Ended() {
			cmds = append(cmds, ended(a, w.now))
		}
	}
	again := *job
	return w.with(append(cmds, &state.RegisterJob{Job: &again, Now: w.now.UnixNano()})...)
}

// waiting returns how many instances of each group an algorithm leaves without a
// place.
func (w sandbox) waiting(pool, algorithm string) (map[string]int, bool) {
	w, ok := w.underAlgorithm(pool, algorithm)
	if !ok {
		return nil, false
	}
	_, queued, _, ok := w.settle()
	return queued, ok
}

// total adds numbers of instances up.
func total(queued map[string]int) (sum int) {
	for n := range maps.Values(queued) {
		sum += n
	}
	return sum
}

// betterAlgorithm looks for an algorithm that places more of a job than the one
// in force, and no less of any group, from the sandbox on. It returns nil if
// there is none. Which algorithm fits depends on everything that is to run, so
// this is a hint for operators and no change of the job.
func (w sandbox) betterAlgorithm(job *berth.Job, queued map[string]int) (best *op.OtherAlgorithm, left map[string]int) {
	now := w.snap.SchedulerConfigFor(job.NodePool).SchedulerAlgorithm
	if now == "" {
		now = berth.AlgorithmBinpack
	}
	for _, other := range algorithms {
		if other == now {
			continue
		}
		q, ok := w.waiting(job.NodePool, other)
		if !ok || total(q) >= total(queued) || best != nil && total(q) >= total(left) {
			continue
		}
		if slices.ContainsFunc(job.TaskGroups, func(g *berth.TaskGroup) bool { return q[g.Name] > queued[g.Name] }) {
			continue
		}
		best, left = &op.OtherAlgorithm{Algorithm: other, Instead: now}, q
	}
	return best, left
}

// hint notes in a group's explanation that another algorithm would place more of
// it, if all of the job was placed again.
func (a *explainer) hint(x *op.GroupExplanation, g *berth.TaskGroup) {
	if a.job.PerNode() || a.job.Stream != nil || x.Exhausted == 0 || x.Finished+x.GaveUp > 0 || g.Count < 2 || x.Changes != nil && x.Changes[0].Stopping > 0 {
		return
	}
	if !a.compared {
		a.compared = true
		fresh, ok := a.restarted(a.job)
		if !ok {
			return
		}
		_, queued, _, ok := fresh.settle() // as the algorithm in force would, so that only the algorithm differs
		if !ok {
			return
		}
		a.freshly = queued
		a.better, a.left = fresh.betterAlgorithm(a.job, queued)
	}
	placed := g.Count - a.left[g.Name]
	if a.better == nil || placed <= g.Count-x.Missing || placed <= g.Count-a.freshly[g.Name] {
		return
	}
	h := *a.better
	h.Places, h.Of = placed, g.Count
	x.Algorithm = &h
	x.Summary += fmt.Sprintf("; the scheduler algorithm %s would place %d of %d if the job was placed again, and %s places %d", h.Algorithm, h.Places, h.Of, h.Instead, g.Count-a.freshly[g.Name])
}

// algorithmHint returns, for a job that a dry run cannot place as a whole, that
// another algorithm would place more of it; "" if none would.
func algorithmHint(before *state.Snapshot, job *berth.Job, d *schedule.Decision, w sandbox) (hint string) {
	queued := d.Plan.End.Queued
	short := slices.ContainsFunc(slices.Collect(maps.Values(d.Plan.End.Failed)), func(m *berth.AllocMetric) bool { return m.NodesExhausted > 0 })
	if job.PerNode() || job.Stream != nil || total(queued) == 0 || !short {
		return ""
	}
	w.snap, w.key = before, job.Key()
	w.work = newWork(before, job)
	err := w.work.run(func() {
		best, left := w.betterAlgorithm(job, queued)
		if best == nil {
			return
		}
		hint = fmt.Sprintf("the scheduler algorithm %s would place %d more than %s, which is in force", best.Algorithm, total(queued)-total(left), best.Instead)
	})
	if err != nil {
		return "" // comparing takes too much work
	}
	return hint
}

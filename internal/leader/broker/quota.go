package broker

import (
	"maps"
	"slices"
	"time"

	"berth"
	"berth/internal/quota"
	"berth/internal/state"
)

// Evaluations that a quota left no room wait for that quota. When room returns
// it is offered in rounds, like capacity of nodes: a round wakes the most urgent
// ones that the room suffices for, and the next one begins when these are
// decided. It ends when the room suffices for none that has not seen it.

// quotaWaits are the evaluations that wait for quotas, by quota.
type quotaWaits struct {
	evals map[string]map[berth.EvalID]*berth.Eval
	freed map[string]uint64         // the index at which room last returned
	open  map[string]bool           // there may be room that not all have seen
	woken map[string][]berth.EvalID // by the current round
}

func newQuotaWaits() quotaWaits {
	return quotaWaits{map[string]map[berth.EvalID]*berth.Eval{}, map[string]uint64{}, map[string]bool{}, map[string][]berth.EvalID{}}
}

// quotaRoundMost is how many evaluations a round wakes at most.
const quotaRoundMost = 64

// add makes an evaluation wait for its quota, if it does.
func (q *quotaWaits) add(e *berth.Eval) {
	name := e.Missed.QuotaReached()
	if name == "" {
		return
	}
	if q.evals[name] == nil {
		q.evals[name] = map[berth.EvalID]*berth.Eval{}
	}
	q.evals[name][e.ID] = e
	if q.freed[name] > e.SnapshotIndex {
		q.open[name] = true
	}
}

// remove forgets an evaluation.
func (q *quotaWaits) remove(e *berth.Eval) {
	name := e.Missed.QuotaReached()
	if delete(q.evals[name], e.ID); len(q.evals[name]) == 0 {
		delete(q.evals, name)
	}
}

// count returns how many evaluations wait for a quota.
func (q *quotaWaits) count() (n int) {
	for _, list := range q.evals {
		n += len(list)
	}
	return n
}

// all offers every quota, to evaluations that were decided on this snapshot or
// before.
func (q *quotaWaits) all(s *state.Snapshot) {
	for name := range q.evals {
		q.freed[name], q.open[name] = s.Index+1, true
	}
}

// quotaChanged takes over a change of what is used of a quota, or of its limits.
func (q *quotaWaits) quotaChanged(c *state.Change) {
	old, _ := c.Old.(*quota.Usage)
	now, _ := c.New.(*quota.Usage)
	switch {
	case old == nil: // nothing waits for a quota that is new
	case now == nil:
		q.freed[old.Quota], q.open[old.Quota] = c.Index, true
	case !slices.Equal(old.Lines, now.Lines) || fell(old.Used, now.Used):
		q.freed[now.Quota], q.open[now.Quota] = c.Index, true
	}
}

// fell reports whether any number is less than before.
func fell(old, now []int64) bool {
	for i := range now {
		if now[i] < old[i] {
			return true
		}
	}
	return false
}

// of returns the evaluations of a namespace that wait for a quota.
func (q *quotaWaits) of(name, namespace string) (out []*berth.Eval) {
	for _, e := range q.evals[name] {
		if e.Namespace == namespace {
			out = append(out, e)
		}
	}
	return out
}

// quotaGone reports whether an evaluation waits for a quota that its namespace
// does not name any more.
func quotaGone(s *state.Snapshot, e *berth.Eval) bool {
	name := e.Missed.QuotaReached()
	n := s.Namespace(e.Namespace)
	return name != "" && (n == nil || n.Quota != name || s.Quota(name) == nil)
}

// quotaRound wakes evaluations for the quotas with room, unless those woken
// before are still being decided. It returns when it must be called again even
// if nothing happens, zero if it need not. b.mu is held.
func (b *Broker) quotaRound(s *state.Snapshot, now time.Time) (again time.Time) {
	q := &b.blocked.quotas
	for _, name := range slices.Sorted(maps.Keys(q.open)) {
		until := b.quotaUnderway(name, now)
		if until.IsZero() {
			list := q.wake(s, name)
			q.woken[name] = nil
			for _, e := range list {
				b.blocked.Remove(e.ID)
				b.add(s, e, now)
				q.woken[name] = append(q.woken[name], e.ID)
			}
			if len(list) > 0 {
				until = now.Add(roundPatience)
			} else {
				delete(q.open, name)
				delete(q.woken, name)
			}
		}
		if !until.IsZero() && (again.IsZero() || until.Before(again)) {
			again = until
		}
	}
	return again
}

// quotaUnderway returns until when one of the evaluations that the last round
// woke is to be decided, zero if all are.
func (b *Broker) quotaUnderway(name string, now time.Time) (until time.Time) {
	for _, id := range b.blocked.quotas.woken[name] {
		if until = b.queue.underway(id, roundPatience, now); !until.IsZero() {
			return until
		}
	}
	return until
}

// wake returns the evaluations to wake for a quota, the most urgent first.
func (q *quotaWaits) wake(s *state.Snapshot, name string) (out []*berth.Eval) {
	var list []*berth.Eval
	for _, e := range q.evals[name] {
		if e.SnapshotIndex < q.freed[name] {
			list = append(list, e)
		}
	}
	stored := s.QuotaUsage(name)
	if stored == nil {
		return list
	}
	slices.SortFunc(list, compareUrgency)
	room, perNode := stored.Clone(), map[berth.JobKey]bool{}
	for _, e := range list {
		if perNode[e.Key()] || !claimQuota(s, room, e) {
			continue
		}
		perNode[e.Key()] = !e.NodeID.IsZero() // it looks at all nodes
		if out = append(out, e); len(out) == quotaRoundMost {
			break
		}
	}
	return out
}

// claimQuota takes out of the room what an evaluation waits for, as far as there
// is room, and reports whether there was for any instance.
func claimQuota(s *state.Snapshot, room *quota.Usage, e *berth.Eval) (some bool) {
	job := s.Job(e.Key())
	if job == nil || job.UID != e.JobUID {
		return true
	}
	older, _ := olderGroups(s, job)
	for _, name := range slices.Sorted(maps.Keys(e.FailedTGAllocs)) {
		g := job.Group(name)
		if g == nil {
			return true
		}
		for _, g := range append([]*berth.TaskGroup{g}, older[name]...) {
			ask := room.Of(job, g)
			if n := room.Room(ask, max(1, e.QueuedAllocations[name])); n > 0 {
				room.Add(ask, int64(n))
				some = true
				break
			}
		}
	}
	return some
}

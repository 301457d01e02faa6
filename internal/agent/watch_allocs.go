package agent

import (
	"context"
	"slices"
	"time"

	"berth"
	"berth/internal/agent/alloc"
	"berth/internal/failpoint"
	"berth/op"
)

const (
	watchTime  = 5 * time.Minute // the longest that servers let a read wait
	fetchBatch = 64              // allocations of one answer, each with its job
)

// watchAllocs asks servers again and again what should run here, and does it.
func (a *Agent) watchAllocs(ctx context.Context) error {
	select {
	case <-a.registered:
	case <-ctx.Done():
		return ctx.Err()
	}
	var from uint64 // index of the last answer that was acted on wholly
	var past epoch
	for failures := 0; ; {
		index, err := a.updateAllocs(ctx, from, &past)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			a.log.Warn("the servers cannot be asked what to run; asking again", "error", err)
			if err := backoff(ctx, failures, firstRetry, lastRetry/2); err != nil {
				return err
			}
			failures++
		case index == 0: // not wholly: a server lags, or this node's disk is full
			if err := backoff(ctx, failures, 50*time.Millisecond, lastRetry/2); err != nil {
				return err
			}
			failures++
		default:
			from, failures = index, 0
			a.markContacted()
		}
	}
}

// updateAllocs acts on one answer. It returns its index, or 0 if some of it is
// still to be done.
func (a *Agent) updateAllocs(ctx context.Context, from uint64, past *epoch) (uint64, error) {
	q := &op.NodeAllocIndexes{NodeID: a.id, SecretID: a.secret, Query: a.query()}
	q.MinQueryIndex, q.MaxQueryTime = from, watchTime
	if past.suspected() {
		q.MinQueryIndex, q.AllowStale = 0, false // what the leader says, at once
	}
	if err := failpoint.Hit("agent/pull"); err != nil {
		return 0, err
	}
	ans, err := op.Call(ctx, a.c.Servers, op.NodePull, q)
	if err != nil {
		return 0, err
	}
	// Decide by what is known when the answer is here, not when it was asked
	// for.
	have, acted := a.inventory()
	s := decide(have, acted, ans)
	if s.stale {
		if !past.over(ans, !q.AllowStale, time.Now()) {
			a.log.Debug("an answer is older than one acted on", "index", ans.Index, "acted", acted)
			return 0, nil
		}
		a.log.Warn("the servers' state is older than what was acted on: it was restored or started from nothing; going by it", "index", ans.Index, "acted", acted)
		a.mu.Lock()
		a.acted = ans.Index
		a.mu.Unlock()
		s = decideAfterReset(have, ans)
	}
	*past = epoch{}
	_ = failpoint.Hit("agent/pulled")
	// What is new is taken up before what is gone is removed. A batch keeps
	// requests and answers small.
	whole := true
	for batch := range slices.Chunk(s.fetch, fetchBatch) {
		all, err := a.fetch(ctx, batch, ans.Allocs)
		if err != nil {
			return 0, err
		}
		whole = whole && all
	}
	a.mu.Lock()
	a.acted = max(a.acted, ans.Index)
	a.mu.Unlock()
	for _, id := range s.remove {
		a.remove(id)
	}
	// The same index is asked for again: the answer was not acted on wholly.
	if !whole {
		return 0, nil
	}
	return max(1, ans.Index), nil
}

// inventory returns the versions of all allocations that the agent has, and the
// index up to which it has acted on what servers told it.
func (a *Agent) inventory() (map[string]known, uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	have := make(map[string]known, len(a.allocs))
	for id, h := range a.allocs {
		have[id] = known{h.alloc.AllocModifyIndex, h.alloc.ModifyIndex, h.removed, h.unrecorded}
	}
	return have, a.acted
}

// fetch gets allocations as a whole and takes them over. It returns false if
// the server that was asked did not have all in the versions wanted, or if some
// could not be recorded.
func (a *Agent) fetch(ctx context.Context, ids []string, versions map[string]uint64) (bool, error) {
	q := &op.GetAllocs{AllocIDs: ids, SecretID: a.secret, Query: a.query()}
	newest := uint64(0)
	for _, id := range ids {
		newest = max(newest, versions[id])
	}
	// A server may wait until it is at this index, or past it.
	q.MinQueryIndex = max(newest, 1) - 1
	ans, err := op.Call(ctx, a.c.Servers, op.AllocFetch, q)
	if err != nil {
		return false, err
	}
	got, recorded := map[string]bool{}, true
	for _, al := range ans.Allocs {
		if al == nil || !slices.Contains(ids, al.ID.String()) {
			continue
		}
		id := al.ID.String()
		if al.AllocModifyIndex < versions[id] {
			continue // of a server that lags
		}
		got[id] = true
		// One that cannot be recorded keeps no other from its order to end.
		if err := a.take(al); err != nil {
			a.log.Warn("what the servers say of an allocation cannot be recorded; they are asked again", "alloc", id, "error", err)
			recorded = false
		}
	}
	return recorded && len(got) == len(ids), nil
}

// take takes over an allocation that is new or has changed. The error is that it
// cannot be recorded. Then it is not run if it is new; if it is not, it is updated
// all the same, so that a full disk keeps nothing from being stopped.
func (a *Agent) take(al *op.Alloc) error {
	if al.NodeID != a.id {
		a.log.Warn("servers sent an allocation of another node; it is left alone", "alloc", al.ID, "node", al.NodeID)
		a.hold(al)
		return nil
	}
	if err := alloc.Check(al); err != nil {
		a.log.Warn("an allocation cannot be run", "error", err)
		a.hold(al)
		a.reports.again(&op.AllocReport{ID: al.ID, NodeID: a.id, Namespace: al.Namespace, JobID: al.JobID,
			ClientStatus: berth.ClientFailed, ClientDescription: err.Error()})
		return nil
	}
	a.mu.Lock()
	h := a.allocs[al.ID.String()]
	a.mu.Unlock()
	switch {
	case h == nil && al.ClientStatus.Ended():
		// It ended here before the agent lost its records, or was given up
		// for lost. It is not run again; what is left of it is ended.
		a.hold(al)
		a.end(al.ID.String())
		return nil
	case h != nil && h.runner == nil: // the next agent would run what is recorded
		a.hold(al)
		return nil
	}
	// Recorded first: it must be known after a crash whose processes run.
	err := a.db.PutAlloc(al)
	_ = failpoint.Hit("agent/taken")
	switch {
	case h != nil:
		a.update(h, al, err == nil)
	case err == nil:
		a.run(a.enter(al, nil))
	}
	return err
}

// update gives an allocation of this agent a newer version. One that is not
// recorded may be obeyed as well: the next agent has the version before, asks for
// this one because it is newer, and starts nothing until it has it.
func (a *Agent) update(h *held, al *op.Alloc, recorded bool) {
	a.mu.Lock()
	// A state that was restored has older versions, or ones that did not change
	// since.
	restored := al.AllocModifyIndex < h.alloc.AllocModifyIndex || al.AllocModifyIndex > al.ModifyIndex
	h.alloc, h.unrecorded = al, !recorded
	a.mu.Unlock()
	h.runner.Update(al)
	// Servers did not hear the node, or forgot what they heard since.
	if al.ClientStatus == berth.ClientUnknown || restored || h.runner.Ended() && !al.ClientStatus.Ended() {
		a.reportAllocAgain(al.ID.String(), h)
	}
}

// remove ends an allocation that servers have forgotten and forgets it too.
func (a *Agent) remove(id string) {
	a.mu.Lock()
	h := a.allocs[id]
	h.removed = true
	a.mu.Unlock()
	// Nobody waits for its shutdown delay any more.
	if h.runner != nil {
		h.runner.Stop("the servers do not know the allocation any more", true)
	}
	a.wait.Go(func() {
		if !a.awaitEnd(h) {
			return // the agent ends; the next one removes it
		}
		if err := a.removeDir(id); err != nil {
			a.log.Warn("the directory of an allocation cannot be removed", "alloc", id, "error", err)
		}
		// The disk may have had no room for the record of its end before.
		if h.runner != nil {
			select {
			case <-h.runner.Done():
			case <-a.lives.Done():
				return
			}
		}
		if err := a.db.Delete(id); err != nil {
			a.log.Warn("the record of an allocation cannot be removed", "alloc", id, "error", err)
		}
		a.reports.drop(id)
		a.mu.Lock()
		delete(a.allocs, id)
		a.mu.Unlock()
	})
}

// markContacted lets restored tasks be started: servers have said what should
// run. What is here and should not is ended.
func (a *Agent) markContacted() {
	select {
	case <-a.contacted:
		return
	default:
		close(a.contacted) // only this goroutine does
	}
	// Now it is certain what shall run here, and what lies about can go.
	a.admitWaiting()
	entries, err := a.dirs.ReadDir(".")
	if err != nil {
		a.log.Warn("the directory of allocations cannot be read", "error", err)
		return
	}
	for _, e := range entries {
		id, err := berth.ParseID[berth.Alloc](e.Name())
		a.mu.Lock()
		h := a.allocs[e.Name()]
		a.mu.Unlock()
		if err != nil || id.IsZero() || !e.IsDir() || h != nil {
			continue
		}
		a.log.Info("an allocation that is not known is removed", "alloc", e.Name())
		a.wait.Go(func() {
			a.endProcesses(e.Name())
			if err := a.removeDir(e.Name()); err != nil {
				a.log.Warn("the directory of an allocation cannot be removed", "alloc", e.Name(), "error", err)
			}
		})
	}
}

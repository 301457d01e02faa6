package state

import (
	"context"
	"sync"

	"berth"
)

// A Watch waits for any of its keys to change. It can wake without a change.
type Watch struct {
	store *Store
	keys  []WatchKey
	woken chan struct{} // holds one signal
}

// Watch starts to watch. A caller that reads a snapshot after this call and
// then waits misses no change. Stop must be called.
func (s *Store) Watch(keys ...WatchKey) *Watch {
	w := &Watch{store: s, keys: keys, woken: make(chan struct{}, 1)}
	s.watch.add(w)
	return w
}

// C receives a value when a key changed.
func (w *Watch) C() <-chan struct{} { return w.woken }

// Wait returns nil when a key changed since the last Wait, or ctx's error.
func (w *Watch) Wait(ctx context.Context) error {
	select {
	case <-w.woken:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Stop ends the watch.
func (w *Watch) Stop() { w.store.watch.remove(w) }

// watchers are the watches of a store by key.
type watchers struct {
	mu    sync.Mutex
	byKey map[WatchKey][]*Watch
	kinds [tableCount][watchKinds]int // number of watches of each kind, so that a commit only looks up kinds that are watched
}

// add registers w for its keys. Commits before it are not reported, so the
// caller reads the state after it.
func (ws *watchers) add(w *Watch) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.byKey == nil {
		ws.byKey = map[WatchKey][]*Watch{}
	}
	for _, k := range w.keys {
		ws.byKey[k] = append(ws.byKey[k], w)
		ws.kinds[k.table][k.kind]++
	}
}

// remove takes w off its keys. A signal that was sent before stays in w.woken.
func (ws *watchers) remove(w *Watch) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, k := range w.keys {
		list := ws.byKey[k]
		for i, x := range list {
			if x == w {
				// The order of watches means nothing: fill the hole with the
				// last.
				list[i] = list[len(list)-1]
				list[len(list)-1] = nil
				list = list[:len(list)-1]
				ws.kinds[k.table][k.kind]--
				break
			}
		}
		if len(list) == 0 {
			delete(ws.byKey, k)
		} else {
			ws.byKey[k] = list
		}
	}
}

// wake wakes those who watch something that a commit changed.
func (ws *watchers) wake(c *Commit) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if len(ws.byKey) == 0 {
		return
	}
	// Anything may differ after a restore.
	if c.Reset {
		for k := range ws.byKey {
			ws.signal(k)
		}
		return
	}
	var seen [tableCount]bool
	for i := range c.Changes {
		ch := &c.Changes[i]
		if !seen[ch.Table] {
			seen[ch.Table] = true
			ws.signal(OnTable(ch.Table))
		}
		if ws.kinds[Resources][watchRoutes] > 0 {
			if space, may := ch.reroutes(); may {
				ws.signal(OnRoutes(space))
			}
		}
		// A deleted row wakes the same keys as a changed one.
		row := ch.New
		if row == nil {
			row = ch.Old
		}
		switch v := row.(type) {
		case *berth.Alloc:
			ws.alloc(v, ch)
		case *berth.Eval:
			ws.one(Evals, watchOne, halfOf(v.ID))
			ws.one(Evals, watchJob, keyHash(v.Key()))
		case *berth.Job:
			ws.one(Jobs, watchOne, keyHash(v.Key()))
		case *Summary:
			ws.one(Jobs, watchOne, keyHash(v.Key))
		case *berth.Node:
			ws.one(Nodes, watchOne, halfOf(v.ID))
		case *berth.Deployment:
			ws.one(Deployments, watchOne, halfOf(v.ID))
			ws.one(Deployments, watchJob, keyHash(v.Key()))
		case *berth.Namespace:
			ws.one(Namespaces, watchOne, hash(v.Name))
		case *berth.NodePool:
			ws.one(NodePools, watchOne, hash(v.Name))
		case *berth.ServiceRegistration:
			ws.one(Services, watchOne, hash(v.Namespace, v.ServiceName))
			ws.one(Services, watchAlloc, halfOf(v.AllocID))
		case *berth.SealedVariable:
			ws.one(Variables, watchOne, hash(v.Namespace, v.Path))
		case *berth.StreamJob:
			ws.one(Streams, watchJob, keyHash(v.Key))
		case *berth.Object:
			ws.one(Resources, watchOne, uidHash(v.UID))
			ws.one(Resources, watchJob, keyHash(v.Job))
		}
	}
}

// alloc signals the watches of a changed allocation. The caller holds ws.mu.
func (ws *watchers) alloc(a *berth.Alloc, ch *Change) {
	ws.one(Allocs, watchOne, halfOf(a.ID))
	ws.one(Allocs, watchJob, keyHash(a.Key()))
	ws.one(Allocs, watchReports, halfOf(a.NodeID))
	ws.one(Allocs, watchEval, halfOf(a.EvalID))
	if ref := a.Rest().PE; ref != nil {
		ws.one(Allocs, watchPE, uidHash(ref.UID))
	}
	if old, _ := ch.Old.(*berth.Alloc); old != nil && old.EvalID != a.EvalID { // it belonged to another evaluation before
		ws.one(Allocs, watchEval, halfOf(old.EvalID))
	}
	if ch.Old != nil && ch.New != nil && a.AllocModifyIndex != a.ModifyIndex {
		return // the agent need not be told what it reported itself
	}
	ws.one(Allocs, watchNode, halfOf(a.NodeID))
}

// one signals the watches of one key. It skips the lookup if nobody watches a
// key of that kind. The caller holds ws.mu.
func (ws *watchers) one(t Table, kind watchKind, hash uint64) {
	if ws.kinds[t][kind] > 0 {
		ws.signal(WatchKey{t, kind, hash})
	}
}

// signal wakes the watches of k, without waiting: one signal stands for any
// number of changes. The caller holds ws.mu.
func (ws *watchers) signal(k WatchKey) {
	for _, w := range ws.byKey[k] {
		select {
		case w.woken <- struct{}{}:
		default:
		}
	}
}

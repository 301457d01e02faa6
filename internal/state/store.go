// Package state is the replicated database: one value that changes only by
// applying commands in log order. A Snapshot is the whole of it at one state
// index and never changes, so whoever decides something decides it on a
// snapshot; a Command is one change, refused or applied as a whole.
//
// The state keeps per-node usage and per-job counts by delta, so that nobody
// sums up what exists, and it counts its own index: each command that is
// applied gets the next one, which is what X-Nomad-Index, ModifyIndex and UIDs
// are made of.
//
// Proposing commands, agreeing on their order and keeping them on disk is the
// business of package consensus. Waiting for a change is done here, by key or
// commit by commit.
package state

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"berth"
)

// Store holds the newest committed snapshot and tells who waits when there is
// a newer one.
type Store struct {
	now   atomic.Pointer[Commit]
	watch watchers

	mu sync.Mutex // one publisher at a time
}

// New returns a store of an empty state, which knows the namespace "default".
func New() *Store {
	s := &Store{}
	s.now.Store(&Commit{Snapshot: emptySnapshot(), ready: make(chan struct{})})
	return s
}

// Snapshot returns the newest committed state.
func (s *Store) Snapshot() *Snapshot { return s.now.Load().Snapshot }

// Commit returns the newest commit; those after it can be followed from there.
func (s *Store) Commit() *Commit { return s.now.Load() }

// Await returns a snapshot that is not before a state index, as soon as there
// is one.
func (s *Store) Await(ctx context.Context, index uint64) (*Snapshot, error) {
	for at := s.Commit(); ; {
		if at.Index >= index {
			return s.Snapshot(), nil
		}
		var err error
		if at, err = at.Next(ctx); err != nil {
			return nil, err
		}
	}
}

// A Commit is one step of the state: the snapshot after it, and what changed
// since the one before. Commits form a list that followers walk at their own
// pace; nobody holds those that all have passed.
type Commit struct {
	*Snapshot
	Changes []Change
	// Reset says that the state was replaced as a whole (a snapshot was
	// restored), so Changes do not lead here.
	Reset bool

	next  atomic.Pointer[Commit]
	ready chan struct{} // closed once next is set
}

// Next waits for the commit after c.
func (c *Commit) Next(ctx context.Context) (*Commit, error) {
	select {
	case <-c.ready:
		return c.next.Load(), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Ready is closed once there is a commit after c.
func (c *Commit) Ready() <-chan struct{} { return c.ready }

// TryNext returns the commit after c, nil if there is none yet.
func (c *Commit) TryNext() *Commit { return c.next.Load() }

// Publish makes the state that a batch leads to the newest, and wakes who waits
// for its changes. The newest state must be the batch's base.
func (s *Store) Publish(b *Batch) {
	if now := s.Snapshot(); now != b.Base {
		panic(fmt.Sprintf("state: a batch on state %d is published on another, %d", b.Base.Index, now.Index))
	}
	s.publish(&Commit{Snapshot: b.Snapshot, Changes: b.Changes, ready: make(chan struct{})})
}

// Reset replaces the whole state, as when a snapshot of it is restored.
func (s *Store) Reset(snap *Snapshot) {
	s.publish(&Commit{Snapshot: snap, Reset: true, ready: make(chan struct{})})
}

func (s *Store) publish(c *Commit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.now.Load()
	s.now.Store(c)
	old.next.Store(c)
	close(old.ready)
	s.watch.wake(c)
}

// Raised returns the state as it is restored over one that was at the index
// over: what it holds is the same, but its index is beyond both, so that
// indexes never fall, and every table counts as changed there, so that whoever
// waits for a change learns of this one. The term does not fall either, and the
// cluster stays the one that it is. The log does not forget what it was said in.
func (s *Snapshot) Raised(over *Snapshot) *Snapshot {
	n := *s
	n.Index = max(s.Index, over.Index) + 1
	n.Restored = n.Index
	n.Term = max(s.Term, over.Term)
	n.LogVersion = max(s.LogVersion, over.LogVersion)
	if !over.Cluster.IsZero() {
		n.Cluster = over.Cluster
	}
	n.check = nil
	n.namespaces.changed, n.nodes.changed, n.jobs.changed = n.Index, n.Index, n.Index
	n.evals.changed, n.allocs.changed, n.deployments.changed = n.Index, n.Index, n.Index
	n.jobs.summaryChanged, n.pools.changed, n.services.changed = n.Index, n.Index, n.Index
	n.streams.changed, n.resources.changed = n.Index, n.Index
	n.streamIDs = max(s.streamIDs, over.streamIDs)
	return &n
}

// emptySnapshot is the state that every log starts from. It is at index 1, so
// that no answer has the index 0, which clients take for "unknown".
func emptySnapshot() *Snapshot {
	tx := Begin(&Snapshot{Index: 1, LogVersion: 1})
	tx.putNamespace(nil, &berth.Namespace{
		Name: berth.DefaultNamespace, Description: "Default shared namespace", CreateIndex: 1, ModifyIndex: 1,
	})
	tx.builtInPools()
	return tx.Seal()
}

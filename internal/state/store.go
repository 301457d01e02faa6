// Package state is the replicated database: one value that changes only by
// applying commands in log order. A Snapshot is the whole state at one index
// and never changes, so every decision is made on a snapshot. A Command is one
// change, applied or refused as a whole.
//
// The state maintains per-node usage and per-job counts incrementally, so that
// nobody has to sum them up. It counts its own index: each applied command gets
// the next one, and X-Nomad-Index, ModifyIndex and UIDs are made of it.
//
// Package consensus proposes commands, agrees on their order and stores them on
// disk. Waiting for a change is done here, by key or commit by commit.
package state

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"berth"
)

// Store holds the newest committed snapshot and wakes those who wait for a
// newer one.
type Store struct {
	now   atomic.Pointer[Commit]
	watch watchers

	mu        sync.Mutex // one publisher at a time
	followers []*Follower
}

// New returns a store with an empty state, which has only the namespace
// "default".
func New() *Store {
	s := &Store{}
	s.now.Store(&Commit{Snapshot: emptySnapshot(), link: newLink()})
	return s
}

// Snapshot returns the newest committed state.
func (s *Store) Snapshot() *Snapshot { return s.now.Load().Snapshot }

// Commit returns the newest commit, from which later ones can be followed.
func (s *Store) Commit() *Commit { return s.now.Load() }

// Await returns a snapshot at or after a state index as soon as there is one.
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

// A Commit is one step of the state: the snapshot after it, and the changes
// since the one before. Commits form a list that readers follow at their own
// pace; a commit is freed once all have passed it. What follows for long is a
// Follower, which bounds the list.
type Commit struct {
	*Snapshot
	Changes []Change
	// Reset means that the state was replaced as a whole, by a restored
	// snapshot, or that the reader was too far behind, so Changes do not lead
	// here.
	Reset bool

	number uint64 // counts commits
	*link
}

// link leads from a commit to the next one.
type link struct {
	next  atomic.Pointer[Commit]
	ready chan struct{} // closed once next is set
}

// newLink returns a link that leads nowhere yet.
func newLink() *link { return &link{ready: make(chan struct{})} }

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

// Publish makes the result of a batch the newest state and wakes those who wait
// for its changes. The newest state must be the batch's base.
func (s *Store) Publish(b *Batch) {
	if now := s.Snapshot(); now != b.Base {
		panic(fmt.Sprintf("state: a batch based on state %d is published on state %d", b.Base.Index, now.Index))
	}
	s.publish(&Commit{Snapshot: b.Snapshot, Changes: b.Changes, link: newLink()})
}

// Reset replaces the whole state when a snapshot is restored.
func (s *Store) Reset(snap *Snapshot) {
	s.publish(&Commit{Snapshot: snap, Reset: true, link: newLink()})
}

// publish makes a commit the newest, and wakes those who follow commits or
// watch a key. Commits come in order.
func (s *Store) publish(c *Commit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.now.Load()
	c.number = old.number + 1
	s.now.Store(c)
	old.next.Store(c)
	close(old.ready)
	for _, f := range s.followers {
		f.bound(c)
	}
	s.watch.wake(c)
}

// Raised returns s as it is restored over another state. Its content is the
// same, but its index is beyond both, so that indexes never fall, and every
// table counts as changed there, so that all watchers wake. The term does not
// fall either, because the log remembers it, and the cluster keeps its ID.
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
	n.rootKeys.changed, n.variables.changed = n.Index, n.Index
	n.quotas.changed, n.quotas.counted = n.Index, n.Index
	n.hostVolumes.changed, n.hostVolumes.claims.changed = n.Index, n.Index
	n.csi.changed, n.csi.claims.changed, n.csi.plugins.changed = n.Index, n.Index, n.Index
	n.acl.tokens.changed, n.acl.policies.changed, n.acl.roles.changed = n.Index, n.Index, n.Index
	n.acl.methods.changed, n.acl.rules.changed, n.acl.oneTime.changed = n.Index, n.Index, n.Index
	n.streamIDs = max(s.streamIDs, over.streamIDs)
	return &n
}

// emptySnapshot is the state that every log starts from. Its index is 1, so
// that no answer has the index 0, which clients take for "unknown".
func emptySnapshot() *Snapshot {
	tx := Begin(&Snapshot{Index: 1, LogVersion: 1})
	tx.putNamespace(nil, &berth.Namespace{
		Name: berth.DefaultNamespace, Description: "Default shared namespace", CreateIndex: 1, ModifyIndex: 1,
	})
	tx.builtInPools()
	return tx.Seal()
}

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
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// A Command is one change to the state, as the log carries it. Apply depends
// on nothing but the command and the transaction: no clock, no chance. It
// checks everything before it writes; an error, which has a kind, refuses the
// command and leaves the state as it was.
type Command interface {
	Apply(tx *Tx) error
}

// A Log takes commands to the replicated log.
type Log interface {
	// Propose returns once this server has applied the commands and they are
	// safe, with the state index of each and why it was refused, if it was.
	// The error is the first refusal or, without a kind, that the log is gone.
	Propose(ctx context.Context, cmds ...Command) ([]Result, error)
	// Stage orders the commands and says at once what becomes of them if the
	// log holds; nothing is safe before Wait has returned.
	Stage(cmds ...Command) (*Pending, error)
	// Tip is the newest state with all that was staged applied. Only commands
	// to this log may be decided on it.
	Tip() *Snapshot
}

// ErrLost is in every error that says the log is gone: this server does not
// lead, or no longer. What was staged and not waited for may or may not be
// safe. Such an error has no kind; a refusal has one.
//
//lint:ignore ST1005 clients look for these words, as they are
var ErrLost = errors.New("No cluster leader")

// ErrUnknown is in an error that wraps ErrLost if what it is about may have
// been logged: it may become the state yet. Without it nothing was, and it may
// be tried again.
var ErrUnknown = errors.New("it is unknown whether the change was made")

// Result is what became of one command.
type Result struct {
	Index uint64 // its state index; of a refused command that of the state it met
	Err   error
}

// Pending is a group of staged commands on its way.
type Pending struct {
	Results []Result
	done    chan struct{}
	err     error
}

// NewPending returns a group that is not safe yet.
func NewPending(results []Result) *Pending {
	return &Pending{Results: results, done: make(chan struct{})}
}

// Resolve says that the group is safe, or why it is lost. It is called once.
func (p *Pending) Resolve(err error) {
	p.err = err
	close(p.done)
}

// Wait returns nil once the group is safe and applied here. A context that
// ends first leaves open what becomes of it.
func (p *Pending) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// FirstRefusal returns the first error among results.
func FirstRefusal(results []Result) error {
	for _, r := range results {
		if r.Err != nil {
			return r.Err
		}
	}
	return nil
}

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

// Change is one row that a commit put or removed. Old is nil for a new row,
// New for a removed one; both are pointers to the row's type. Changes stand in
// the order in which they were made.
type Change struct {
	Table    Table
	By       Number // the kind of command that made it
	Index    uint64 // that command's state index
	Old, New any
}

// Table names a table.
type Table uint8

// The tables.
const (
	Namespaces Table = iota
	Nodes
	Jobs
	Evals
	Allocs
	Deployments
	Summaries
	SchedulerConfigs
	NodePools
	Services
	Streams
	Resources
	tableCount
)

var tableNames = [tableCount]string{"namespaces", "nodes", "jobs", "evals", "allocs", "deployments", "job_summary", "scheduler_config", "node_pools", "services", "streams", "resources"}

func (t Table) String() string { return tableNames[t] }

// TableName returns the name of a table, if there is one of the number.
func TableName(t Table) (name string, ok bool) {
	if t >= tableCount {
		return "", false
	}
	return tableNames[t], true
}

// Batch is what a transaction came to: the state it began at, the state it
// leads to, and the changes between.
type Batch struct {
	Base    *Snapshot
	Changes []Change
	Needs   int // the log version that a server must know to read its commands
	*Snapshot
}

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

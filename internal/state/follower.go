package state

import (
	"context"
	"slices"
	"sync/atomic"

	"berth/internal/limit"
)

// MostBehind is how many commits a follower can be behind the newest one.
const MostBehind = 16384

var behindLimit = limit.Declare(limit.Info{
	Name: "commits_behind", Of: "Changes of the state that wait for a part of the server that follows them: the event stream, the broker of evaluations", Unit: limit.Count,
	Default: MostBehind, Beyond: "they are forgotten, and that part begins again from the newest state; readers of events are told that some are missing",
})

// Follower reads the commits of a store one after another. One that stands still
// does not keep what comes meanwhile in memory for ever: when more than MostBehind
// commits wait for it, they are replaced by the newest one, with Reset set. One
// goroutine at a time may use it.
type Follower struct {
	store *Store
	at    atomic.Pointer[Commit]
}

// Follow returns a follower of the commits after the newest one. Stop it.
func (s *Store) Follow() *Follower {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := &Follower{store: s}
	f.at.Store(s.Commit())
	s.followers = append(s.followers, f)
	return f
}

// Stop ends following.
func (f *Follower) Stop() {
	f.store.mu.Lock()
	defer f.store.mu.Unlock()
	f.store.followers = slices.DeleteFunc(f.store.followers, func(o *Follower) bool { return o == f })
}

// Commit returns the commit that was read last.
func (f *Follower) Commit() *Commit { return f.at.Load() }

// Next waits for the next commit.
func (f *Follower) Next(ctx context.Context) (*Commit, error) {
	c, err := f.at.Load().Next(ctx)
	if err == nil {
		f.at.Store(c)
	}
	return c, err
}

// TryNext returns the next commit, nil if there is none yet.
func (f *Follower) TryNext() *Commit {
	c := f.at.Load().TryNext()
	if c != nil {
		f.at.Store(c)
	}
	return c
}

// Ready is closed once there is a next commit.
func (f *Follower) Ready() <-chan struct{} { return f.at.Load().Ready() }

// bound lets the follower go on with the newest commit if too many wait for it.
// Others that stand at the same commit are as far behind. The store's mu is held.
func (f *Follower) bound(newest *Commit) {
	at := f.at.Load()
	behind := newest.number - at.number
	if behind <= MostBehind {
		behindLimit.Use(int64(behind), MostBehind)
		return
	}
	behindLimit.Refuse()
	at.next.Store(&Commit{Snapshot: newest.Snapshot, Reset: true, number: newest.number, link: newest.link})
}

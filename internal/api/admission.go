package api

import (
	"container/list"
	"sync"
	"time"

	"berth"
	"berth/internal/acl"
	"berth/internal/limit"
	"berth/op"
)

// Limits of the writes of users.
const (
	maxCommits    = 4096
	maxCommitTime = 5 * time.Second
)

var (
	commitsLimit = limit.Declare(limit.Info{
		Name: "writes_in_progress", Of: "Writes of users that wait for the log of the leader", Unit: limit.Count, Default: maxCommits, Beyond: "429 with Retry-After",
	})
	commitTimeLimit = limit.Declare(limit.Info{
		Name: "commit_time", Of: "How long the oldest of these has waited", Unit: limit.Time, Default: int64(maxCommitTime),
		Beyond: "429 with Retry-After for further writes of users; agents, the scheduler, services of the leader and operators go on",
	})
)

// admission refuses writes of users while the log does not keep up, so that what
// keeps the cluster going has it to itself: heartbeats, reports, plans, and the
// services of the leader. Everything goes through the log in order, so the age of
// the oldest write that waits shows how far the log is behind, whatever fills it.
type admission struct {
	mu      sync.Mutex
	waiting list.List // of time.Time, the oldest first
}

// enter admits a write, or refuses it. The caller must call leave when the write
// is committed or lost.
func (a *admission) enter(info *op.Info, who Caller) (leave func(), err error) {
	// An operator may be about to mend what is wrong. Agents call over RPC, or
	// have calls of their own that a server forwards.
	if info.Path == "" || who.Conn != nil || info.Need == acl.OperatorWrite || info.Need == acl.NodeWrite {
		return func() {}, nil
	}
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	n, age := a.waiting.Len(), time.Duration(0)
	if oldest := a.waiting.Front(); oldest != nil {
		age = now.Sub(oldest.Value.(time.Time))
	}
	commitTimeLimit.Use(int64(age), int64(maxCommitTime))
	switch {
	case age >= maxCommitTime:
		commitTimeLimit.Refuse()
		return nil, berth.Errorf(berth.Limited, "the log is behind: a write has waited for %s. Nothing was done; try again in a second", age.Round(time.Millisecond))
	case n >= maxCommits:
		commitsLimit.Refuse()
		return nil, berth.Errorf(berth.Limited, "%d writes are in progress. Nothing was done; try again in a second", n)
	}
	commitsLimit.Use(int64(n+1), maxCommits)
	e := a.waiting.PushBack(now)
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.waiting.Remove(e)
	}, nil
}

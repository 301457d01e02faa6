package api

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"berth"
	"berth/internal/failpoint"
)

// On one connection the state never goes back. A caller who wrote, or was refused,
// through a follower is answered by the leader, which is ahead of the follower;
// a stale read on the same connection waits until the follower has what that
// answer showed. The same holds for an agent without a server, whose requests
// may reach one server and then another.

// progressKey is the key of a connection's progress in the context of its
// requests.
type progressKey struct{}

// withProgress gives a connection its progress: the newest state index of this
// region that was answered on it. It is an http.Server's ConnContext.
func withProgress(ctx context.Context, _ net.Conn) context.Context {
	return context.WithValue(ctx, progressKey{}, new(atomic.Uint64))
}

// progressOf returns the progress of the connection that a request came by, nil
// if it has none.
func progressOf(ctx context.Context) *atomic.Uint64 {
	p, _ := ctx.Value(progressKey{}).(*atomic.Uint64)
	return p
}

// seen returns the state index that the answers to a caller must include.
func (c *Caller) seen() uint64 {
	if c.Progress == nil {
		return 0
	}
	return c.Progress.Load()
}

// sees records that a caller is answered with a state index.
func (c *Caller) sees(index uint64) {
	if c.Progress == nil {
		return
	}
	for {
		old := c.Progress.Load()
		if index <= old || c.Progress.CompareAndSwap(old, index) {
			return
		}
	}
}

// inOwnRegion reports whether a request is for the region whose indexes this server
// knows.
func (s *Server) inOwnRegion(in any) bool {
	region := regionAsked(in)
	return region == "" || region == s.Region
}

// catchUp returns once this server's state includes everything that was answered
// on the caller's connection. If that takes longer than patience, the error is
// Behind.
func (s *Server) catchUp(ctx context.Context, who Caller, patience time.Duration) error {
	want := who.seen()
	if s.Store.Snapshot().Index >= want {
		return nil
	}
	if failpoint.Hit("api/behind-own-write") != nil { // a defect that the fault runner must find
		return nil
	}
	wait, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if _, err := s.Store.Await(wait, want); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return Behind{Without: berth.Errorf(berth.Unavailable,
			"this server lags behind: it is at state index %d, and index %d was answered on this connection: ask again, or ask another server",
			s.Store.Snapshot().Index, want)}
	}
	return nil
}

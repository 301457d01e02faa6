// Package expire deletes tokens that have expired. They are refused from the
// moment they expire, whether they are still there or not.
package expire

import (
	"time"

	"berth/internal/state"
)

// Interval is the time between two looks for tokens that have expired.
const Interval = time.Minute

// Controller deletes the expired tokens and one-time tokens of one term.
type Controller struct {
	keep  time.Duration
	local bool
	next  time.Time
}

// New returns the controller of a term, which keeps tokens for some time after they
// have expired. local leaves global tokens alone: another region deletes them.
func New(keep time.Duration, local bool) *Controller { return &Controller{keep: keep, local: local} }

// Step implements leader.Controller. It looks at all tokens, once per interval.
func (c *Controller) Step(snap *state.Snapshot, now time.Time) (do []state.Command, again time.Time) {
	if now.Before(c.next) {
		return nil, c.next
	}
	before := now.Add(-c.keep)
	tokens, oneTime := snap.ExpiredTokens(before, state.MaxACLRows, c.local)
	if len(tokens) == 0 && !oneTime {
		c.next = now.Add(Interval)
		return nil, c.next
	}
	return []state.Command{&state.DropExpired{Accessors: tokens, At: before.UnixNano()}}, now.Add(Interval)
}

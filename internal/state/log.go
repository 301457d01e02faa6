package state

import (
	"context"
	"errors"

	"berth"
)

// A Log appends commands to the replicated log.
type Log interface {
	// Propose returns once this server has applied the commands and they are
	// committed, with the state index of each and why it was refused, if it
	// was. The error is the first refusal or, if it has no kind, means that the
	// log is lost.
	Propose(ctx context.Context, cmds ...Command) ([]Result, error)
	// Stage orders the commands and returns at once what they lead to if the
	// log is not lost; nothing is committed until Wait has returned.
	Stage(cmds ...Command) (*Pending, error)
	// Tip is the newest state, with all staged commands applied. Use it only to
	// decide commands for this log.
	Tip() *Snapshot
}

// ErrLost is in every error that says the log is gone: this server does not
// lead, or no longer. What was staged and not waited for may or may not be
// safe. Such an error has no kind; a refusal has one.
var ErrLost = berth.ErrNoLeader

// ErrUnknown is in an error that wraps ErrLost if the change may have been
// logged, and so may still take effect. Without it nothing was logged, and the
// caller may try again.
var ErrUnknown = errors.New("it is unknown whether the change was made")

// Pending is a group of staged commands that may not be committed yet.
type Pending struct {
	Results []Result      // one for each command, before they are committed
	done    chan struct{} // closed by Resolve
	err     error         // set before done is closed
}

// NewPending returns a group that is not committed yet.
func NewPending(results []Result) *Pending {
	return &Pending{Results: results, done: make(chan struct{})}
}

// Resolve ends the wait: the group is committed, or err says why it is lost. It
// must be called once.
func (p *Pending) Resolve(err error) {
	p.err = err
	close(p.done)
}

// Done reports whether the group is committed, or lost.
func (p *Pending) Done() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Wait returns nil once the group is committed and applied here. If ctx ends
// first, the outcome is open.
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

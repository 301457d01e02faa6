package state

import (
	"context"
	"errors"

	"berth"
)

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
var ErrLost = berth.ErrNoLeader

// ErrUnknown is in an error that wraps ErrLost if what it is about may have
// been logged: it may become the state yet. Without it nothing was, and it may
// be tried again.
var ErrUnknown = errors.New("it is unknown whether the change was made")

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

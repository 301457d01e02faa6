package consensus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"berth"
	"berth/internal/failpoint"
	"berth/internal/state"
	"berth/internal/state/codec"

	"github.com/hashicorp/raft"
)

// proposer is the log of one term. Commands that are staged join the group
// that is being gathered; when the way is free the group becomes a log entry.
type proposer struct {
	raft     *raft.Raft
	fsm      *fsm
	patience time.Duration
	landed   func()                                   // called after an entry committed, if it is not nil
	allow    func(c state.Command, dialect int) error // see Config.Allow

	mu    sync.Mutex
	open  *group          // being gathered
	tip   *state.Snapshot // after what is in open; nil if open changed since it was taken
	full  []*group        // closed before the way was free
	lost  error
	ready chan struct{} // holds a token while there may be something to send
}

// group is commands that will be one entry.
type group struct {
	base    *state.Snapshot
	tx      *state.Tx
	cmds    []byte
	pending []*state.Pending
	batch   *state.Batch // what it came to; nil while it is open, or if it changes nothing
}

func (p *proposer) newGroup(base *state.Snapshot) *group {
	return &group{base: base, tx: state.BeginAllowed(base, p.allow)}
}

// inFlight is how many entries are on their way at once: while one is applied
// the next is written.
const inFlight = 2

func newProposer(r *raft.Raft, f *fsm, c *Config, base *state.Snapshot) *proposer {
	p := &proposer{raft: r, fsm: f, patience: c.Patience, tip: base, ready: make(chan struct{}, 1)}
	if c.Allow != nil {
		p.allow = func(cmd state.Command, dialect int) error { return c.Allow(state.Feature(cmd), dialect) }
	}
	p.open = p.newGroup(base)
	return p
}

// Stage implements state.Log.
func (p *proposer) Stage(cmds ...state.Command) (*state.Pending, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lost != nil {
		return nil, p.lost
	}
	results := make([]state.Result, len(cmds))
	for i, c := range cmds {
		if len(p.open.cmds) >= codec.MaxEntry {
			p.seal()
		}
		results[i] = p.apply(c)
	}
	// A refusal, too, is told only once the state that it met is safe.
	pending := state.NewPending(results)
	p.open.pending = append(p.open.pending, pending)
	p.signal()
	return pending, nil
}

// apply applies a command in the open group and adds it to the entry. One that
// is too large for the log is taken back: who starts from it could not read it.
func (p *proposer) apply(c state.Command) state.Result {
	g := p.open
	r := g.tx.Apply(c)
	if r.Err != nil {
		return r
	}
	cmds := state.AppendCommand(g.cmds, c)
	if n := len(cmds) - len(g.cmds); n > codec.MaxCommand {
		g.tx.Undo()
		return state.Result{Index: g.tx.Index, Err: berth.Errorf(berth.TooLarge,
			"the change takes %d bytes in the log; at most %d are allowed", n, codec.MaxCommand)}
	}
	g.cmds, p.tip = cmds, nil
	return r
}

// seal closes the open group and begins the next on what it leads to.
func (p *proposer) seal() {
	g := p.open
	p.full = append(p.full, g)
	p.tip = g.base
	if len(g.cmds) > 0 {
		g.batch = g.tx.End()
		p.tip = g.batch.Snapshot
	}
	p.open = p.newGroup(p.tip)
}

func (p *proposer) signal() {
	select {
	case p.ready <- struct{}{}:
	default:
	}
}

// Propose implements state.Log.
func (p *proposer) Propose(ctx context.Context, cmds ...state.Command) ([]state.Result, error) {
	pending, err := p.Stage(cmds...)
	if err != nil {
		return nil, err
	}
	if err := pending.Wait(ctx); err != nil {
		return nil, err
	}
	return pending.Results, state.FirstRefusal(pending.Results)
}

// Tip implements state.Log.
func (p *proposer) Tip() *state.Snapshot {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tip == nil {
		p.tip = p.open.tx.Seal()
	}
	return p.tip
}

// next takes the group whose turn it is, nil if nothing was staged.
func (p *proposer) next() *group {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.full) == 0 {
		if len(p.open.pending) == 0 {
			return nil
		}
		p.seal()
	}
	g := p.full[0]
	p.full = p.full[1:]
	if len(p.full) > 0 || len(p.open.pending) > 0 {
		p.signal()
	}
	return g
}

// flight is an entry on its way.
type flight struct {
	group  *group
	future raft.ApplyFuture // nil if the group changes nothing
}

// run sends groups until ctx ends or one is lost. Then it tells all that wait.
func (p *proposer) run(ctx context.Context) error {
	flights := make(chan flight, inFlight-2) // one is waited for, one is handed over
	crashed := make(chan error, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.land(flights, crashed)
	}()
	err := p.send(ctx, flights, crashed)
	p.close(err)
	close(flights)
	<-done
	p.abandon()
	return err
}

func (p *proposer) send(ctx context.Context, flights chan<- flight, crashed <-chan error) error {
	for {
		select {
		case <-p.ready:
		case err := <-crashed:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		g := p.next()
		if g == nil {
			continue
		}
		f := flight{group: g}
		if g.batch != nil {
			data := codec.EncodeEntryOn(g.base.Index, g.batch.Needs, g.cmds)
			g.cmds = nil
			p.fsm.expect(&entry{data, g.batch})
			failpoint.Hit("consensus/propose-before")
			f.future = p.raft.Apply(data, p.patience)
		}
		flights <- f // land takes it even after a crash
	}
}

// land waits for entries in order, and tells who waits for them. After one that
// was lost no more are sent.
func (p *proposer) land(flights <-chan flight, crashed chan<- error) {
	var first error
	for f := range flights {
		lost := f.outcome(first)
		switch {
		case lost != nil && first == nil:
			first = lost
			crashed <- lost
		case lost == nil && f.future != nil && p.landed != nil:
			p.landed()
		}
		f.group.resolve(lost)
	}
}

// outcome waits for an entry and returns why it was lost, nil if it was not.
// What changes nothing is lost with what it was worked out on: before is why
// that was.
func (f *flight) outcome(before error) error {
	if f.future == nil {
		return undone(before)
	}
	err := f.future.Error()
	failpoint.Hit("consensus/committed")
	if err != nil {
		for _, e := range []error{raft.ErrNotLeader, raft.ErrLeadershipTransferInProgress, raft.ErrEnqueueTimeout} {
			if errors.Is(err, e) { // raft answers so before it logs
				return fmt.Errorf("%w: %w", state.ErrLost, err)
			}
		}
		return fmt.Errorf("%w: %w: %w", state.ErrLost, state.ErrUnknown, err)
	}
	if err, _ = f.future.Response().(error); err != nil && !errors.Is(err, errVoid) {
		return fmt.Errorf("%w: %w: %w", state.ErrLost, state.ErrUnknown, err)
	}
	return err
}

// undone is why what was never sent is lost: because of err, which may say of
// something else that it is unknown what became of it. nil stays nil.
func undone(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, state.ErrUnknown):
		return fmt.Errorf("%w, and what was to come before it was lost", state.ErrLost)
	case errors.Is(err, state.ErrLost):
		return err
	}
	return fmt.Errorf("%w: %w", state.ErrLost, err)
}

func (g *group) resolve(err error) {
	for _, p := range g.pending {
		p.Resolve(err)
	}
	g.pending = nil
}

// close makes every later call fail.
func (p *proposer) close(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lost = undone(err)
}

// abandon tells those whose groups were never sent.
func (p *proposer) abandon() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, g := range append(p.full, p.open) {
		g.resolve(p.lost)
	}
	p.full = nil
}

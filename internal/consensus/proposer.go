package consensus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"berth"
	"berth/internal/failpoint"
	"berth/internal/limit"
	"berth/internal/state"
	"berth/internal/state/codec"

	"github.com/hashicorp/raft"
)

// proposer is the log of one term. Staged commands join the open group. When an
// entry may be sent, the group becomes a log entry.
type proposer struct {
	raft     *raft.Raft
	fsm      *fsm
	patience time.Duration
	term     uint64                                   // of raft
	confirm  func(context.Context, uint64) error      // asks a majority whether this server leads raft's term
	alone    func() bool                              // reports whether this server is the only voter
	landed   func()                                   // called after an entry was committed, if set
	allow    func(c state.Command, version int) error // see Config.Allow

	mu    sync.Mutex
	open  *group          // collects commands
	tip   *state.Snapshot // the state after open; nil if open changed since it was computed
	full  []*group        // closed and waiting to be sent
	bytes int             // of the commands that are not committed yet, and of those who wait for them
	spare []byte          // memory for the commands of a group
	lost  error
	ready chan struct{} // holds a token while there may be something to send
}

// group holds commands that will become one entry.
type group struct {
	base    *state.Snapshot
	tx      *state.Tx
	cmds    []byte
	size    int // of cmds, also once they were sent
	pending []*state.Pending
	batch   *state.Batch // the result; nil while it is open, or if it changes nothing
}

// newGroup returns an empty group whose commands will change base. It refuses
// commands that the proposer does not allow. The caller holds mu.
func (p *proposer) newGroup(base *state.Snapshot) *group {
	g := &group{base: base, tx: state.BeginAllowed(base, p.allow), cmds: p.spare}
	p.spare = nil
	return g
}

// encode returns the entry of a group, and keeps the memory of its commands for
// another one.
func (p *proposer) encode(g *group) []byte {
	data := codec.EncodeEntryOn(g.base.Index, g.batch.Needs, g.cmds)
	p.mu.Lock()
	defer p.mu.Unlock()
	if cap(g.cmds) <= codec.MaxEntry && cap(g.cmds) > cap(p.spare) {
		p.spare = g.cmds[:0]
	}
	g.cmds = nil
	return data
}

// inFlight is the number of entries under way at once: while one is applied the
// next is written.
const inFlight = 2

// newProposer returns a proposer for a term of r, whose tip is base. It sends
// nothing until it is run.
func newProposer(r *raft.Raft, f *fsm, c *Config, base *state.Snapshot) *proposer {
	p := &proposer{raft: r, fsm: f, patience: c.Patience, term: r.CurrentTerm(), tip: base, ready: make(chan struct{}, 1)}
	if c.Allow != nil {
		p.allow = func(cmd state.Command, version int) error { return c.Allow(state.Feature(cmd), version) }
	}
	p.open = p.newGroup(base)
	return p
}

// waiterSize is about the memory of a caller who waits for a group, in bytes. It
// counts, because what is refused waits as well and adds no command.
const waiterSize = 512

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
	// A refusal, too, is reported only once the state it was decided on is
	// committed.
	pending := state.NewPending(results)
	p.open.pending = append(p.open.pending, pending)
	p.bytes += waiterSize
	p.signal()
	return pending, nil
}

// apply applies a command in the open group and adds it to the entry. A command
// that is too large for the log is undone, because a server that restarts could
// not read it.
func (p *proposer) apply(c state.Command) state.Result {
	g := p.open
	r := g.tx.Apply(c)
	if r.Err != nil {
		return r
	}
	cmds := state.AppendCommand(g.cmds, c)
	n := len(cmds) - len(g.cmds)
	commandLimit.Use(int64(n), codec.MaxCommand)
	if n > codec.MaxCommand {
		commandLimit.Refuse()
		g.tx.Undo()
		return state.Result{Index: g.tx.Index, Err: berth.Errorf(berth.TooLarge,
			"the change needs %d bytes in the log: must be at most %d", n, codec.MaxCommand)}
	}
	p.bytes += len(cmds) - len(g.cmds)
	g.cmds, g.size, p.tip = cmds, len(cmds), nil
	return r
}

// seal closes the open group and opens the next one on its result.
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

// signal tells the sender that the open group has commands. It never blocks:
// signals that were not received yet count as one.
func (p *proposer) signal() {
	select {
	case p.ready <- struct{}{}:
	default:
	}
}

// mostStaged bounds what waits for the log, in bytes of the log.
const mostStaged = 64 << 20

var commandLimit = limit.Declare(limit.Info{
	Name: "change_bytes", Of: "Bytes of one change in the log: a job, a plan, a variable", Unit: limit.Bytes, Default: codec.MaxCommand,
	Beyond: "413, and nothing is changed",
})

var stagedLimit = limit.Declare(limit.Info{
	Name: "changes_staged", Of: "Bytes of changes that the leader has accepted and that are not on the disks of a majority yet", Unit: limit.Bytes, Default: mostStaged,
	Beyond: "429 for writes of users and reports of agents, which send them again; heartbeats, decisions of the scheduler and lost nodes go on",
})

// Propose implements state.Log. It refuses, with Limited, while too much waits
// for the log already: callers give up waiting and come again, but what they
// proposed stays.
func (p *proposer) Propose(ctx context.Context, cmds ...state.Command) ([]state.Result, error) {
	if refused, err := p.behind(len(cmds)); err != nil {
		return refused, err
	}
	pending, err := p.Stage(cmds...)
	if err != nil {
		return nil, err
	}
	if err := pending.Wait(ctx); err != nil {
		return nil, err
	}
	return pending.Results, state.FirstRefusal(pending.Results)
}

// behind refuses n commands if too much waits for the log.
func (p *proposer) behind(n int) ([]state.Result, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	stagedLimit.Use(int64(p.bytes), mostStaged)
	if p.lost != nil || p.bytes < mostStaged {
		return nil, nil
	}
	stagedLimit.Refuse()
	err := berth.Errorf(berth.Limited, "the log is behind: %d bytes of changes wait for it. Nothing was done; try again in a second", p.bytes)
	return slices.Repeat([]state.Result{{Index: p.open.tx.Index, Err: err}}, n), err
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

// next returns the next group to send, nil if nothing was staged.
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

// flight is an entry that was sent and is not committed yet.
type flight struct {
	group  *group
	future raft.ApplyFuture // nil if the group changes nothing
}

// run sends groups until ctx ends or one is lost. Then it resolves everything
// that waits.
func (p *proposer) run(ctx context.Context) error {
	flights := make(chan flight, inFlight-2) // one is waited for, one is being sent
	crashed := make(chan error, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.land(ctx, flights, crashed)
	}()
	err := p.send(ctx, flights, crashed)
	p.close(err)
	close(flights)
	<-done
	p.abandon()
	return err
}

// send hands one group after the other to Raft, in order, and passes it to
// flights with its future. It returns when ctx ends or Raft has crashed.
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
			data := p.encode(g)
			p.fsm.expect(&entry{data, g.batch})
			_ = failpoint.Hit("consensus/propose-before")
			patience := p.patience
			if p.alone != nil && p.alone() {
				patience = 0 // no other server could do better
			}
			f.future = p.raft.Apply(data, patience)
		}
		flights <- f // land receives even after a crash
	}
}

// land waits for entries in order and resolves what waits for them. After a
// lost entry no more are sent.
//
// A group that was refused as a whole has no entry that a majority would have to
// accept. It waits until a majority says that this server still leads: one that
// was paused may have staged it on a state that others have left behind.
func (p *proposer) land(ctx context.Context, flights <-chan flight, crashed chan<- error) {
	var first error
	ctx, stop := context.WithCancel(ctx)
	var asking sync.WaitGroup // later entries do not wait for these
	defer asking.Wait()
	defer stop()
	for f := range flights {
		lost := f.outcome(first)
		p.mu.Lock()
		p.bytes -= f.group.size + waiterSize*len(f.group.pending)
		p.mu.Unlock()
		switch {
		case lost != nil && first == nil:
			_ = failpoint.Hit("consensus/notice-lost")
			first = lost
			crashed <- lost
		case lost == nil && f.future != nil && p.landed != nil:
			p.landed()
		}
		if lost == nil && f.future == nil && p.confirm != nil {
			asking.Go(func() { f.group.resolve(p.stillLeads(ctx)) })
			continue
		}
		f.group.resolve(lost)
	}
}

// stillLeads returns nil if a majority confirms that this server leads the term.
// The error wraps state.ErrLost.
func (p *proposer) stillLeads(ctx context.Context) error {
	return undone(p.confirm(ctx, p.term))
}

// outcome waits for an entry and returns why it was lost, nil if it was not. A
// group that changes nothing is lost with the one it was computed on; before is
// why that was lost.
func (f *flight) outcome(before error) error {
	if f.future == nil {
		return undone(before)
	}
	err := f.future.Error()
	_ = failpoint.Hit("consensus/committed")
	if err != nil {
		for _, e := range []error{raft.ErrNotLeader, raft.ErrLeadershipTransferInProgress, raft.ErrEnqueueTimeout} {
			if errors.Is(err, e) { // raft returns these before it logs the entry
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

// undone returns the error for what was never sent because of err. If the
// outcome of something else is unknown, err says so, but what was never sent
// has not happened. nil stays nil.
func undone(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, state.ErrUnknown):
		return fmt.Errorf("%w: an entry before it was lost", state.ErrLost)
	case errors.Is(err, state.ErrLost):
		return err
	}
	return fmt.Errorf("%w: %w", state.ErrLost, err)
}

// resolve answers everyone who waits for the group with err; nil means that its
// commands are committed and applied.
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

// abandon resolves the groups that were never sent.
func (p *proposer) abandon() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, g := range append(p.full, p.open) {
		g.resolve(p.lost)
	}
	p.full = nil
}

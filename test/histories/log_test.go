package histories

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"berth/internal/state"
)

// termLog is the replicated log of one term as package consensus has it:
// commands are applied when they are staged, what is staged while an entry is
// on its way goes into the next, and when the term ends some of what was on
// its way is lost and some is not.
type termLog struct {
	store  *state.Store
	disk   disk
	commit func(*state.Batch) // is shown each entry before it is published

	// meddle, if set, applies a command in its own way.
	meddle func(apply func(state.Command) state.Result, c state.Command) state.Result
	// staged is told of commands, and reports whether there may be more.
	staged func([]state.Command) bool
	// deleted is shown the states before and after each deletion.
	deleted func(before, after *state.Snapshot)

	mu     sync.Mutex
	chance *rand.Rand
	open   *group
	flying *group
	tip    *state.Snapshot   // nil if open changed since it was taken
	past   []*state.Snapshot // the newest committed states, oldest first
	lost   error
	ready  chan struct{}
}

// group is commands that become one entry.
type group struct {
	base    *state.Snapshot
	tx      *state.Tx
	pending []*state.Pending
	applied int
	batch   *state.Batch // once it is closed; nil if it changes nothing
}

func newGroup(base *state.Snapshot) *group { return &group{base: base, tx: state.Begin(base)} }

// disk says how long writes take.
type disk struct {
	slow, stuck float64 // how often one takes long, and very long
}

func (d disk) delay(r *rand.Rand) time.Duration {
	switch p := r.Float64(); {
	case p < d.stuck:
		return time.Duration(r.Int64N(int64(3 * limits.NackTimeout / 2)))
	case p < d.stuck+d.slow:
		return time.Duration(r.Int64N(int64(2 * time.Second)))
	}
	return time.Duration(r.Int64N(int64(5 * time.Millisecond)))
}

const pastKept = 12

func newLog(store *state.Store, d disk, seed uint64) *termLog {
	base := store.Snapshot()
	return &termLog{
		store: store, disk: d, chance: rand.New(rand.NewPCG(seed, 2)), open: newGroup(base), tip: base,
		past: []*state.Snapshot{base}, ready: make(chan struct{}, 1),
	}
}

// Stage implements state.Log.
func (l *termLog) Stage(cmds ...state.Command) (*state.Pending, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost != nil {
		return nil, l.lost
	}
	if !l.staged(cmds) {
		return nil, fmt.Errorf("too many commands: %w", state.ErrLost)
	}
	results := make([]state.Result, len(cmds))
	for i, c := range cmds {
		results[i] = l.apply(c)
	}
	p := state.NewPending(results)
	l.open.pending = append(l.open.pending, p)
	select {
	case l.ready <- struct{}{}:
	default:
	}
	return p, nil
}

func (l *termLog) apply(c state.Command) state.Result {
	if l.meddle != nil {
		return l.meddle(l.applyOne, c)
	}
	return l.applyOne(c)
}

func (l *termLog) applyOne(c state.Command) state.Result {
	tx := l.open.tx
	_, deletes := c.(*state.DeleteRows)
	var before *state.Snapshot
	if deletes {
		before = tx.Seal()
	}
	r := tx.Apply(c)
	if r.Err == nil {
		l.open.applied++
		l.tip = nil
		if deletes {
			l.deleted(before, tx.Seal())
		}
	}
	return r
}

// Propose implements state.Log.
func (l *termLog) Propose(ctx context.Context, cmds ...state.Command) ([]state.Result, error) {
	p, err := l.Stage(cmds...)
	if err != nil {
		return nil, err
	}
	if err := p.Wait(ctx); err != nil {
		return nil, err
	}
	return p.Results, state.FirstRefusal(p.Results)
}

// Tip implements state.Log.
func (l *termLog) Tip() *state.Snapshot {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.newest()
}

func (l *termLog) newest() *state.Snapshot {
	if l.tip == nil {
		l.tip = l.open.tx.Seal()
	}
	return l.tip
}

// old returns a committed state that is not older than an index, as somebody
// has it who follows the log from afar; the tip if there is none.
func (l *termLog) old(index uint64) *state.Snapshot {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.past {
		if s.Index >= index {
			return s
		}
	}
	return l.newest()
}

// idle reports whether nothing is on its way.
func (l *termLog) idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.flying == nil && len(l.open.pending) == 0
}

// run writes entries until ctx ends.
func (l *termLog) run(ctx context.Context) {
	for {
		select {
		case <-l.ready:
		case <-ctx.Done():
			return
		}
		for l.begin() {
			wait := time.NewTimer(l.delay())
			select {
			case <-wait.C:
				l.land()
			case <-ctx.Done():
				wait.Stop()
				return
			}
		}
	}
}

func (l *termLog) delay() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.disk.delay(l.chance)
}

// begin puts what was gathered on its way.
func (l *termLog) begin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open.pending) == 0 {
		return false
	}
	l.flying = l.open
	l.seal(l.flying)
	l.open = newGroup(l.newest())
	return true
}

func (l *termLog) seal(g *group) {
	l.tip = g.base
	if g.applied > 0 {
		g.batch = g.tx.End()
		l.tip = g.batch.Snapshot
	}
}

// land commits what is on its way.
func (l *termLog) land() {
	l.publish(l.flying)
	for _, p := range l.flying.pending {
		p.Resolve(nil)
	}
	l.mu.Lock()
	l.flying = nil
	l.mu.Unlock()
}

func (l *termLog) publish(g *group) {
	if g.batch == nil {
		return
	}
	l.commit(g.batch)
	l.store.Publish(g.batch)
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.past) == pastKept {
		l.past = append(l.past[:0], l.past[1:]...)
	}
	l.past = append(l.past, g.batch.Snapshot)
}

// end ends the term after run has returned. Of what was on its way, keep
// entries are safe all the same, though nobody is told; the rest is lost. It
// returns how many were.
func (l *termLog) end(keep int) (kept int) {
	l.mu.Lock()
	l.lost = fmt.Errorf("the term ended: %w", state.ErrLost)
	var groups []*group
	if l.flying != nil {
		groups = append(groups, l.flying)
	}
	l.seal(l.open)
	groups = append(groups, l.open)
	l.mu.Unlock()
	for i, g := range groups {
		if i < keep && g.batch != nil {
			l.publish(g)
			kept++
		}
		for _, p := range g.pending {
			p.Resolve(l.lost)
		}
	}
	return kept
}

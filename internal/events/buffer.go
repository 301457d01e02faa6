package events

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"
	"time"

	"berth/internal/limit"
	"berth/internal/state"
)

// Limits bound what a buffer keeps. The oldest events are dropped first.
type Limits struct {
	Sets  int // number of commands whose events are kept
	Bytes int // approximate size, including shared encodings
	// Old is the size that events older than OldAge may have: after a burst the
	// memory is given back, also of rows that only their events still hold.
	Old int
}

// DefaultLimits keep a few minutes of a busy cluster.
var DefaultLimits = Limits{Sets: 16384, Bytes: 64 << 20, Old: 8 << 20}

// OldAge is the age from which events count as old.
const OldAge = 30 * time.Second

// agePace is how often events are looked at that can be too old.
const agePace = time.Second

var (
	_ = limit.Declare(limit.Info{
		Name: "event_bytes", Of: "Memory of events that are kept for readers, at most 16,384 commands", Unit: limit.Bytes, Default: int64(DefaultLimits.Bytes),
		Beyond: "the oldest are forgotten; a reader that had not read them is told so",
	})
	_ = limit.Declare(limit.Info{
		Name: "event_bytes_old", Of: "Memory of events that are older than 30 s", Unit: limit.Bytes, Default: int64(DefaultLimits.Old), Beyond: "as for event_bytes",
	})
)

// Buffer holds the newest events of a store.
type Buffer struct {
	store   *state.Store
	limits  Limits
	commits *state.Follower // from New on, so that no commit between that and Run is missed

	mu      sync.Mutex
	sets    []*Set        // oldest first
	first   uint64        // number of sets before sets[0]
	since   uint64        // events of all later indexes are kept; some of this index and earlier ones are gone
	weight  int           // of all sets, in bytes
	readers int           // not yet closed
	more    chan struct{} // closed when there is something new; nil while nobody waits
	closed  bool          // Run has ended
	minute  minute        // what happened in the last minute
	aging   *time.Timer   // looks for events that are too old; nil while there can be none
}

// New returns a buffer of what a store commits from now on. Zero limits mean
// the defaults.
func New(store *state.Store, l Limits) *Buffer {
	l.Sets, l.Bytes, l.Old = cmp.Or(l.Sets, DefaultLimits.Sets), cmp.Or(l.Bytes, DefaultLimits.Bytes), cmp.Or(l.Old, DefaultLimits.Old)
	b := &Buffer{store: store, limits: l, commits: store.Follow()}
	b.since = begins(b.commits.Commit())
	return b
}

// begins returns the index up to which the events before a commit's successor
// are unknown. A state that no command has changed had none.
func begins(c *state.Commit) uint64 {
	if c.Index <= 1 {
		return 0
	}
	return c.Index
}

// Run follows the store's commits until ctx ends; then every reader ends, too.
func (b *Buffer) Run(ctx context.Context) error {
	defer b.close()
	defer b.commits.Stop()
	for {
		// Each commit holds the next one, so none is lost while this is slow.
		next, err := b.commits.Next(ctx)
		if err != nil {
			return err
		}
		b.follow(next)
	}
}

// follow adds the changes of a commit.
func (b *Buffer) follow(c *state.Commit) {
	if c.Reset {
		b.reset(c)
		return
	}
	if s := sets(c); len(s) > 0 {
		b.add(s, c.Changes)
	}
}

// add appends the sets of changes, drops what is then too much, and wakes readers.
func (b *Buffer) add(sets []*Set, changes []state.Change) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.minute.add(now, changes)
	for _, s := range sets {
		s.added = now
		s.number = b.first + uint64(len(b.sets))
		b.sets = append(b.sets, s)
		b.weight += s.weight
	}
	b.trim()
	b.age()
	b.wake()
}

// trim drops the oldest sets, but never the newest.
func (b *Buffer) trim() {
	for len(b.sets) > 1 && (len(b.sets) > b.limits.Sets || b.weight > b.limits.Bytes) {
		b.dropOldest()
	}
}

// dropOldest drops the oldest set.
func (b *Buffer) dropOldest() {
	s := b.sets[0]
	b.sets[0] = nil
	b.sets = b.sets[1:]
	b.first++
	b.since = s.Index
	b.weight -= s.weight
}

// age has old sets looked for later, if there can be too many. The caller holds
// mu.
func (b *Buffer) age() {
	if b.aging != nil || b.weight <= b.limits.Old || b.closed {
		return
	}
	b.aging = time.AfterFunc(agePace, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.aging = nil
		b.dropOld(time.Now().Add(-OldAge))
		b.age()
	})
}

// dropOld drops the oldest sets until those added by that time take no more than
// they may.
func (b *Buffer) dropOld(by time.Time) {
	weight := 0
	for _, s := range b.sets {
		if s.added.After(by) {
			break
		}
		weight += s.weight
	}
	for weight > b.limits.Old {
		weight -= b.sets[0].weight
		b.dropOldest()
	}
	if len(b.sets) < cap(b.sets)/4 { // the list gives its memory back, too
		b.sets = slices.Clone(b.sets)
	}
}

// reset drops everything: the state was replaced, and no events lead to it.
func (b *Buffer) reset(c *state.Commit) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.first += uint64(len(b.sets)) + 1 // one more, so that readers that had read everything see the gap too
	b.sets, b.weight, b.since = nil, 0, begins(c)
	b.wake()
}

// close drops everything. Readers get ErrClosed from now on.
func (b *Buffer) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	if b.aging != nil {
		b.aging.Stop()
		b.aging = nil
	}
	b.sets, b.weight = nil, 0
	b.wake()
}

// wake lets all waiting readers look again. The caller holds mu.
func (b *Buffer) wake() {
	if b.more != nil {
		close(b.more)
		b.more = nil
	}
}

// ErrClosed is returned when the buffer has stopped.
var ErrClosed = errors.New("this server is stopping")

// Gap is the error of a reader whose next events are gone.
type Gap struct {
	Wanted uint64 // an index, or 0 for a reader that fell behind
	Oldest uint64 // all events from this index on are kept
}

// Error implements error. The text is for the caller of the API.
func (g *Gap) Error() string {
	if g.Wanted == 0 {
		return fmt.Sprintf("this reader fell behind: it had not read all events before index %d, and they are gone", g.Oldest)
	}
	return fmt.Sprintf("cannot read events from index %d: those before index %d are gone", g.Wanted, g.Oldest)
}

// From returns a reader of all events with that index or a later one, or a *Gap
// if some of them are gone. Index 0 reads from the oldest event kept; a future
// index reads from now on. Close must be called.
func (b *Buffer) From(index uint64) (*Reader, error) {
	// The buffer may be behind the store. Events that it has yet to add, and
	// that the caller has already seen, are skipped by index.
	index = min(index, b.store.Snapshot().Index+1)
	b.mu.Lock()
	defer b.mu.Unlock()
	r := &Reader{buffer: b, from: index, next: b.first}
	switch {
	case b.closed:
		return nil, ErrClosed
	case index > 0 && index <= b.since:
		return nil, &Gap{index, b.since + 1}
	case index > 0:
		r.next += uint64(sort.Search(len(b.sets), func(i int) bool { return b.sets[i].Index >= index }))
	}
	b.readers++
	return r, nil
}

// Reader reads events in order. It belongs to one goroutine.
type Reader struct {
	buffer *Buffer
	from   uint64 // sets of earlier indexes are skipped
	next   uint64 // the set to read next, counted from the first ever
}

// readMost is how many sets a reader takes at a time. It bounds what a slow
// reader keeps in memory after the buffer dropped it.
const readMost = 16

// Next waits for events. It returns sets in order, without a gap to the sets
// returned before. The error is a *Gap, ErrClosed or the context's.
func (r *Reader) Next(ctx context.Context) ([]*Set, error) {
	for {
		sets, more, err := r.take()
		if err != nil || len(sets) > 0 {
			return sets, err
		}
		select {
		case <-more:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Ready returns sets as Next does, but does not wait: without an error, none
// means that there are no more at present.
func (r *Reader) Ready() ([]*Set, error) {
	sets, _, err := r.take()
	return sets, err
}

// take returns the next sets, or a channel that is closed when there are some.
func (r *Reader) take() (out []*Set, more <-chan struct{}, err error) {
	b := r.buffer
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return nil, nil, ErrClosed
	case r.next < b.first:
		return nil, nil, &Gap{0, b.since + 1}
	}
	for at := r.next - b.first; at < uint64(len(b.sets)) && len(out) < readMost; at++ {
		r.next++
		if s := b.sets[at]; s.Index >= r.from {
			out = append(out, s)
		}
	}
	if len(out) > 0 {
		return out, nil, nil
	}
	if b.more == nil {
		b.more = make(chan struct{})
	}
	return nil, b.more, nil
}

// Encoded returns the encoding of an event of a set that this reader got. It
// keeps what encode returns for other readers, if there are any, so encode must
// give the same result for all.
func (r *Reader) Encoded(s *Set, e *Event, encode func(*Set, *Event) ([]byte, error)) ([]byte, error) {
	if p := e.encoded.Load(); p != nil {
		return *p, nil
	}
	p, err := encode(s, e)
	if err == nil {
		r.buffer.keep(s, e, p)
	}
	return p, err
}

// keep stores an encoding if another reader can use it, for as long as its set
// is kept.
func (b *Buffer) keep(s *Set, e *Event, p []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.readers < 2 || s.number < b.first || b.closed || !e.encoded.CompareAndSwap(nil, &p) {
		return
	}
	s.weight += len(p)
	b.weight += len(p)
	b.trim()
	b.age()
}

// Close ends the reader.
func (r *Reader) Close() {
	r.buffer.mu.Lock()
	defer r.buffer.mu.Unlock()
	r.buffer.readers--
}

// Stats are figures of a buffer.
type Stats struct {
	Sets, Bytes, Readers int    // sets kept, their approximate size, open readers
	Since                uint64 // events of later indexes are kept
}

// Stats returns how much the buffer holds.
func (b *Buffer) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return Stats{len(b.sets), b.weight, b.readers, b.since}
}

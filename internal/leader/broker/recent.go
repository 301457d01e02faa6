package broker

import (
	"time"

	"berth"
)

// recentKept is the number of ended evaluations that are remembered.
const recentKept = 4096

// recent remembers when workers acknowledged the evaluations that ended last.
// That is not stored, because the evaluation was written before. The commit
// that ends an evaluation and its acknowledgement come in either order.
type recent struct {
	ended map[berth.EvalID]*ending
	ring  []berth.EvalID // the oldest is forgotten first
	next  int
}

// ending is the end of one evaluation, as far as it is known.
type ending struct {
	eval     *berth.Eval // nil before its commit is seen
	acked    int64       // ns since 1970; 0 before that
	reported bool
}

// newRecent returns a list of endings with nothing in it.
func newRecent() *recent {
	return &recent{ended: map[berth.EvalID]*ending{}, ring: make([]berth.EvalID, 0, 64)}
}

// of returns what is known of an evaluation's end, an empty record if nothing is.
func (r *recent) of(id berth.EvalID) *ending {
	if x := r.ended[id]; x != nil {
		return x
	}
	if len(r.ring) < recentKept {
		r.ring = append(r.ring, id)
	} else {
		delete(r.ended, r.ring[r.next])
		r.ring[r.next] = id
		r.next = (r.next + 1) % recentKept
	}
	x := &ending{}
	r.ended[id] = x
	return x
}

// Ended is an evaluation that ended in this term.
type Ended struct {
	*berth.Eval
	Acked int64 // when its worker acknowledged it, ns since 1970; 0 if none did
}

// end records that the commit that ends an evaluation was seen, and ack that
// its worker is done. The second of the two returns the evaluation and true,
// once. An end that no worker brought about is returned by end at once.
func (r *recent) end(e *berth.Eval) (Ended, bool) {
	x := r.of(e.ID)
	if x.eval != nil {
		return Ended{}, false
	}
	x.eval = e
	x.reported = x.acked > 0 || e.Timeline.Applied == 0
	return Ended{e, x.acked}, x.reported
}

// ack notes that a worker settled an evaluation. It returns true with what to
// report if the evaluation has ended too and was not reported yet.
func (r *recent) ack(id berth.EvalID, now time.Time) (Ended, bool) {
	x := r.of(id)
	if x.acked > 0 {
		return Ended{}, false
	}
	x.acked = now.UnixNano()
	tell := x.eval != nil && !x.reported
	x.reported = x.reported || tell
	return Ended{x.eval, x.acked}, tell
}

// open forgets what was recorded of an evaluation that is delivered to a
// worker. One that was blocked again was acknowledged then, and will be
// acknowledged again.
func (r *recent) open(id berth.EvalID) {
	if x := r.ended[id]; x != nil {
		*x = ending{}
	}
}

// Acked returns when the worker of an ended evaluation acknowledged it, ns
// since 1970. It is 0 if that is not known: it was long ago, in another term,
// or no worker had it.
func (b *Broker) Acked(id berth.EvalID) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if x := b.recent.ended[id]; x != nil && x.eval != nil {
		return x.acked
	}
	return 0
}

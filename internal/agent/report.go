package agent

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"berth"
	"berth/internal/failpoint"
	"berth/op"
)

const (
	reportEvery = 200 * time.Millisecond // at most so often, as the protocol has it
	reportBatch = 128
	// refusedWait is how long a report rests that servers refuse for itself.
	refusedWait = time.Minute
)

// reporter holds the news of allocations until servers have taken them. Of one
// allocation only the newest counts.
type reporter struct {
	mu   sync.Mutex
	news map[string]*op.AllocReport
	rest map[string]time.Time // of a refused report, by allocation: not before
	sent map[string]string    // mark of what servers last took
	wake chan struct{}
}

func newReporter() *reporter {
	return &reporter{news: map[string]*op.AllocReport{}, rest: map[string]time.Time{}, sent: map[string]string{}, wake: make(chan struct{}, 1)}
}

// mark names what a report says, to tell it from another.
func mark(n *op.AllocReport) string {
	b, err := json.Marshal(n)
	if err != nil {
		return "" // never equal to one that was sent
	}
	h := sha256.Sum256(b)
	return base64.RawStdEncoding.EncodeToString(h[:12])
}

// taken says what servers took of an allocation before this agent began.
func (r *reporter) taken(id, mark string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if mark != "" {
		r.sent[id] = mark
	}
}

// put adds news, unless servers know them.
func (r *reporter) put(n *op.AllocReport) {
	id, m := n.ID.String(), mark(n)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sent[id] == m {
		delete(r.news, id)
		return
	}
	r.news[id] = n
	delete(r.rest, id)
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// again is put for what servers must be told though they took it before: they
// say that they do not know how the allocation fares.
func (r *reporter) again(n *op.AllocReport) {
	id := n.ID.String()
	r.mu.Lock()
	delete(r.sent, id)
	r.news[id] = n // another than any that is on its way, which does not count
	delete(r.rest, id)
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// forget has the next report of an allocation sent whatever it says.
func (r *reporter) forget(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.sent, id)
}

// drop forgets an allocation.
func (r *reporter) drop(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.news, id)
	delete(r.rest, id)
	delete(r.sent, id)
}

// unsent returns how many allocations have news.
func (r *reporter) unsent() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.news)
}

// next returns news to send, at most a batch, and if there are none because
// they rest, when to look again.
func (r *reporter) next(now time.Time) (batch []*op.AllocReport, again time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(r.news)) {
		if until := r.rest[id]; now.Before(until) {
			if again.IsZero() || until.Before(again) {
				again = until
			}
			continue
		}
		if batch = append(batch, r.news[id]); len(batch) == reportBatch {
			break
		}
	}
	return batch, again
}

// accepted notes that servers took a batch, and returns its marks.
func (r *reporter) accepted(batch []*op.AllocReport) map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make(map[string]string, len(batch))
	for _, n := range batch {
		id := n.ID.String()
		out[id] = mark(n)
		r.sent[id] = out[id]
		if r.news[id] == n { // else there are newer already
			delete(r.news, id)
		}
	}
	return out
}

// refused lets a report rest that servers do not take.
func (r *reporter) refused(n *op.AllocReport, until time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.news[n.ID.String()] == n {
		r.rest[n.ID.String()] = until
	}
}

// report sends news until ctx ends. What it has not sent by then is found
// again by the next agent: it compares what it knows with what was taken.
func (a *Agent) report(ctx context.Context) error {
	return a.keepTold(ctx, a.reports.wake, func(now time.Time) news {
		batch, again := a.reports.next(now)
		if len(batch) == 0 {
			return news{next: again}
		}
		return news{what: "reports", many: len(batch), tell: func(ctx context.Context) error { return a.send(ctx, batch) }}
	})
}

// send sends a batch. One that is refused for what it says is sent again one
// by one, so that a report that servers will not take holds up no other.
func (a *Agent) send(ctx context.Context, batch []*op.AllocReport) error {
	if err := failpoint.Hit("agent/report-before"); err != nil {
		return err
	}
	_, err := op.Call(ctx, a.c.Servers, op.AllocReporter, &op.ReportAllocs{Alloc: batch, Write: a.write()})
	if err == nil {
		_ = failpoint.Hit("agent/report-after")
		if err := a.db.PutReported(a.reports.accepted(batch)); err != nil {
			a.log.Warn("what servers took cannot be recorded; after a restart it is told again", "error", err)
		}
		return nil
	}
	switch berth.KindOf(err) {
	case berth.Invalid, berth.Conflict, berth.TooLarge:
	default:
		return err // of the way there, or of the node as a whole
	}
	if len(batch) == 1 {
		a.log.Warn("servers refuse the report of an allocation", "alloc", batch[0].ID, "error", err)
		a.reports.refused(batch[0], time.Now().Add(refusedWait))
		return nil
	}
	for _, n := range batch {
		if err := a.send(ctx, []*op.AllocReport{n}); err != nil {
			return err
		}
	}
	return nil
}

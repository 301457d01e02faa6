package agent

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"reflect"
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
// allocation only the newest counts. Reports are not changed once they are here.
type reporter struct {
	wake chan struct{} // has one element when news has any

	mu    sync.Mutex
	news  map[string]*op.AllocReport // to be sent, by allocation
	rest  map[string]time.Time       // of a refused report, by allocation: not before
	sent  map[string]*op.AllocReport // what servers last took
	marks map[string]string          // of what they took of an earlier agent; where sent has nothing
}

// newReporter returns a reporter that has sent nothing yet.
func newReporter() *reporter {
	return &reporter{
		wake: make(chan struct{}, 1),
		news: map[string]*op.AllocReport{}, rest: map[string]time.Time{}, sent: map[string]*op.AllocReport{}, marks: map[string]string{},
	}
}

// mark identifies what a report says for the next agent, which does not have
// the report itself any more.
func mark(n *op.AllocReport) string {
	b, err := json.Marshal(n)
	if err != nil {
		return "" // never equal to one that was sent
	}
	h := sha256.Sum256(b)
	return base64.RawStdEncoding.EncodeToString(h[:12])
}

// same reports whether two reports of an allocation say the same.
func same(a, b *op.AllocReport) bool {
	return a.ID == b.ID && a.NodeID == b.NodeID && a.Namespace == b.Namespace && a.JobID == b.JobID &&
		a.ClientStatus == b.ClientStatus && a.ClientDescription == b.ClientDescription &&
		maps.EqualFunc(a.TaskStates, b.TaskStates, sameTask) &&
		reflect.DeepEqual(a.DeploymentStatus, b.DeploymentStatus) && reflect.DeepEqual(a.NetworkStatus, b.NetworkStatus)
}

// sameTask reports whether two states of a task would tell servers the same.
func sameTask(a, b *berth.TaskState) bool {
	return a.State == b.State && a.Failed == b.Failed && a.Restarts == b.Restarts &&
		a.LastRestart.Equal(b.LastRestart) && a.StartedAt.Equal(b.StartedAt) && a.FinishedAt.Equal(b.FinishedAt) &&
		slices.EqualFunc(a.Events, b.Events, sameEvent)
}

// sameEvent reports whether two events are one and the same, their texts
// included.
func sameEvent(a, b berth.TaskEvent) bool {
	return a.Type == b.Type && a.Time == b.Time && a.DisplayMessage == b.DisplayMessage && a.Message == b.Message && maps.Equal(a.Details, b.Details)
}

// taken notes what servers took of an allocation before this agent started.
func (r *reporter) taken(id, mark string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if mark != "" {
		r.marks[id] = mark
	}
}

// known reports whether servers took just this report. The caller holds mu.
func (r *reporter) known(id string, n *op.AllocReport) bool {
	if sent := r.sent[id]; sent != nil {
		return same(sent, n)
	}
	if m := r.marks[id]; m == "" || m != mark(n) {
		return false
	}
	r.sent[id] = n
	delete(r.marks, id)
	return true
}

// put adds news, unless servers know them.
func (r *reporter) put(n *op.AllocReport) {
	id := n.ID.String()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known(id, n) {
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
	delete(r.marks, id)
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
	delete(r.marks, id)
}

// drop forgets an allocation.
func (r *reporter) drop(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.news, id)
	delete(r.rest, id)
	delete(r.sent, id)
	delete(r.marks, id)
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
		r.sent[id] = n
		delete(r.marks, id)
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
	return a.keepReporting(ctx, a.reports.wake, func(now time.Time) outgoing {
		batch, again := a.reports.next(now)
		if len(batch) == 0 {
			return outgoing{next: again}
		}
		return outgoing{what: "reports", count: len(batch), send: func(ctx context.Context) error { return a.send(ctx, batch) }}
	})
}

// send sends a batch. One that is refused for what it says is sent again one
// by one, so that a report that servers will not take holds up no other.
func (a *Agent) send(ctx context.Context, batch []*op.AllocReport) error {
	if err := failpoint.Hit("agent/report-before"); err != nil {
		return err
	}
	ids := make([]string, len(batch))
	for i, n := range batch {
		ids[i] = n.ID.String()
	}
	// What servers are told must be known here after a crash of the machine, or
	// what has ended would be run again.
	if err := a.db.Sync(ids...); err != nil {
		a.log.Warn("what is reported cannot be brought to disk", "error", err)
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

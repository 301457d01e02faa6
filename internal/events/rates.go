package events

import (
	"time"

	"berth"
	"berth/internal/state"
)

// Rates counts what happened in the last minute.
type Rates struct {
	Placed    int // allocations, by plans
	Started   int // allocations reported as running
	Failed    int // allocations reported as failed
	Evaluated int // evaluations that ended
}

// plus returns the sum.
func (r Rates) plus(o Rates) Rates {
	return Rates{r.Placed + o.Placed, r.Started + o.Started, r.Failed + o.Failed, r.Evaluated + o.Evaluated}
}

// minute holds the rates of the last 60 seconds by namespace, each second in the
// place that its number modulo 60 names.
type minute [60]struct {
	second int64 // since the Unix epoch
	of     map[string]Rates
}

// add counts the changes of a commit.
func (m *minute) add(now time.Time, changes []state.Change) {
	place := &m[now.Unix()%60]
	for i := range changes {
		space, r := happened(&changes[i])
		if r == (Rates{}) {
			continue
		}
		if place.second != now.Unix() {
			place.second, place.of = now.Unix(), map[string]Rates{}
		}
		place.of[space] = place.of[space].plus(r)
	}
}

// happened returns what one change counts for, and its namespace.
func happened(c *state.Change) (namespace string, r Rates) {
	switch row := c.New.(type) {
	case *berth.Alloc:
		old, _ := c.Old.(*berth.Alloc)
		switch {
		case old == nil && c.By == applyPlan:
			r.Placed = 1
		case old == nil || old.Client == row.Client:
		case row.Client == berth.ClientRunning:
			r.Started = 1
		case row.Client == berth.ClientFailed:
			r.Failed = 1
		}
		return row.Job.Namespace, r
	case *berth.Eval:
		if old, _ := c.Old.(*berth.Eval); row.Terminal() && (old == nil || !old.Terminal()) {
			r.Evaluated = 1
		}
		return row.Namespace, r
	}
	return "", r
}

// LastMinute returns what happened in the last minute in the namespaces that the
// caller may see. It counts from the start of the buffer.
func (b *Buffer) LastMinute(sees func(namespace string) bool) (sum Rates) {
	b.mu.Lock()
	defer b.mu.Unlock()
	after := time.Now().Add(-time.Minute).Unix()
	for i := range b.minute {
		if b.minute[i].second <= after {
			continue
		}
		for space, r := range b.minute[i].of {
			if sees(space) {
				sum = sum.plus(r)
			}
		}
	}
	return sum
}

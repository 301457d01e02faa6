package broker

import "berth"

// What the queue tells of itself. Nothing here changes it.

// Busy reports whether a worker holds an evaluation of the job, or one is about
// to be delivered.
func (q *Queue) Busy(k berth.JobKey) bool {
	s := q.jobs[k]
	return s != nil && (s.held != nil || s.waiting != nil)
}

// Waiters returns, once, the evaluations that waited for one node, became
// ready, and were superseded by a newer evaluation of their job that looks at
// every node. That one ends them if it finds capacity. Until then they go on
// waiting, because nothing is created in their place.
func (q *Queue) Waiters() []*berth.Eval {
	w := q.waiters
	q.waiters = nil
	return w
}

// Stats counts the evaluations in the queue.
type Stats struct {
	Ready   map[string]int // by type
	Waiting int            // behind another of their job
	Held    int
	Delayed int
	Blocked int
	// Offered is the number of nodes whose capacity is still being offered to
	// blocked evaluations.
	Offered int
	// Quarantined is the number of jobs that wait because deciding them takes
	// too much work.
	Quarantined int
	// QuotaLimited is the number of blocked evaluations that wait for a quota.
	QuotaLimited int
}

// Stats counts the evaluations in the queue.
func (q *Queue) Stats() Stats {
	s := Stats{Ready: map[string]int{}}
	for t, h := range q.ready {
		s.Ready[t] = h.Len()
	}
	for _, it := range q.items {
		switch it.state {
		case itemDelayed:
			s.Delayed++
		case itemWaiting:
			s.Waiting++
		case itemHeld:
			s.Held++
		}
	}
	return s
}

// Quasi is how far an open evaluation has come; its stored status does not show
// that.
type Quasi struct {
	Status   string // delayed, scheduling, applying, or "" while it waits
	Timeline berth.Timeline
}

// Quasi returns how far an evaluation has come, and false if the queue does not
// have it.
func (q *Queue) Quasi(id berth.EvalID) (x Quasi, ok bool) {
	it := q.items[id]
	if it == nil {
		return x, false
	}
	switch {
	case it.state == itemDelayed:
		x.Status = "delayed"
	case it.state == itemHeld && it.applying:
		x.Status = "applying"
	case it.state == itemHeld:
		x.Status = "scheduling"
	}
	x.Timeline = berth.Timeline{Enqueued: it.enqueued.UnixNano(), Deliveries: it.deliveries}
	if !it.dequeued.IsZero() {
		x.Timeline.Dequeued = it.dequeued.UnixNano()
	}
	return x, true
}

package heartbeat

import (
	"time"

	"berth"
)

// failover is the patience with nodes that were up when a term began. They get
// FailoverTTL to find the new leader. Once at least half of them have, and those
// that are still silent are too few for a mass failure, servers and network are
// well. Then the silent ones have only the time that any silent node has: a node
// that was lost with the leader does not hold up for longer what waits for its
// end.
type failover struct {
	unheard map[berth.NodeID]bool // nodes that have not sent a heartbeat in this term; nil when all is decided
	all     int                   // nodes that were up when the term began
	normal  time.Time             // when a node without FailoverTTL would be given up
	limit   Limiter
}

// heard notes a heartbeat, and reports whether it decides that the silent nodes
// have waited long enough.
func (f *failover) heard(id berth.NodeID, now time.Time) bool {
	if !f.unheard[id] {
		return false
	}
	delete(f.unheard, id)
	return f.over(now)
}

// over reports whether the nodes that are still silent are to be given up.
func (f *failover) over(now time.Time) bool {
	return len(f.unheard) > 0 && 2*(f.all-len(f.unheard)) >= f.all && !f.limit.many(len(f.unheard), f.all) && !now.Before(f.normal)
}

// shortenFailover makes the silent nodes' time end if it is over, and returns
// when to look again, zero if that is not needed. The lock is held.
func (m *Monitor) shortenFailover(now time.Time) (again time.Time) {
	f := &m.failover
	switch {
	case len(f.unheard) == 0:
		return time.Time{}
	case f.over(now):
		for id := range f.unheard {
			m.deadlines.shorten(id, now)
		}
		f.unheard = nil
		return time.Time{}
	case now.Before(f.normal):
		return f.normal
	}
	return time.Time{} // a heartbeat decides, or FailoverTTL
}

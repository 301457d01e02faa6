// Package turns gives the allocations of a group turns to restart, so that a
// template that changes for all of them does not restart all at once. A turn is a
// lease: the leader keeps it in memory, and the agent tells of it again and again
// until the allocation is healthy. Nothing of it is in the log. A new leader gives
// no turn before it has heard of those that are taken.
package turns

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"berth"
	"berth/internal/state"
	"berth/op"
)

// Lease is how long a turn lasts of which its agent tells nothing. An agent that
// is silent longer has lost its node in most clusters, and its allocation counts
// as unhealthy then.
const Lease = 4 * op.TurnRenewal

// Monitor gives turns during one term.
type Monitor struct {
	store *state.Store
	began time.Time // of the term
	index uint64    // of the state then: no allocation that came later can have a turn from before

	mu     sync.Mutex
	leases map[berth.AllocID]*lease
}

// lease is a turn that is taken or has failed.
type lease struct {
	failed bool
	due    time.Time
}

// New returns the monitor of a term that begins now.
func New(store *state.Store) *Monitor {
	return &Monitor{store: store, began: time.Now(), index: store.Snapshot().Index, leases: map[berth.AllocID]*lease{}}
}

// Tell takes in how an allocation stands, and answers whether it has a turn.
func (m *Monitor) Tell(id berth.AllocID, how string) op.TurnAnswer {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, snap := time.Now(), m.store.Snapshot()
	m.prune(snap, now)
	l := m.leases[id]
	switch how {
	case op.TurnOver:
		delete(m.leases, id)
		return op.TurnAnswer{}
	case op.TurnTaken, op.TurnFailed:
		m.leases[id] = &lease{failed: how == op.TurnFailed, due: now.Add(Lease)}
		return op.TurnAnswer{Given: how == op.TurnTaken}
	}
	if l == nil || l.failed {
		if answer := m.may(snap, snap.Alloc(id), now); !answer.Given {
			return answer
		}
	}
	m.leases[id] = &lease{due: now.Add(Lease)}
	return op.TurnAnswer{Given: true}
}

// prune forgets the turns that are over. The caller holds the mutex.
func (m *Monitor) prune(snap *state.Snapshot, now time.Time) {
	for id, l := range m.leases {
		if a := snap.Alloc(id); a == nil || !a.Live() || !now.Before(l.due) {
			delete(m.leases, id)
		}
	}
}

// may reports whether an allocation is given a turn, and what it waits for. The caller holds the mutex.
func (m *Monitor) may(snap *state.Snapshot, a *berth.Alloc, now time.Time) op.TurnAnswer {
	if a == nil || !a.Live() || a.Group.Update == nil {
		return op.TurnAnswer{Again: Lease, Waits: "its own end"}
	}
	c := m.count(snap, a)
	if wait := m.began.Add(Lease).Sub(now); wait > 0 && c.older {
		return op.TurnAnswer{Again: min(wait, op.TurnRenewal), Waits: "the first minute of a new leader, which learns which turns are taken"}
	}
	most := a.Group.Update.MaxParallel
	well := m.leases[a.ID] == nil && healthy(a) // its restart takes something away
	switch {
	case len(c.taken) >= most:
	case !well, len(c.failed) == 0 && len(c.taken)+len(c.unhealthy) < most:
		return op.TurnAnswer{Given: true}
	}
	return op.TurnAnswer{Again: time.Second + time.Duration(c.live)*askEvery, Waits: c.text()}
}

// askEvery is how much later each allocation of a group asks again for each other
// one, so that large groups do not ask more often than small ones.
const askEvery = 10 * time.Millisecond

// counts are the other allocations of a group that matter.
type counts struct {
	live                     int
	older                    bool // one of them was there before this term
	taken, failed, unhealthy []berth.AllocID
}

// count looks at the other allocations of a group. The caller holds the mutex.
func (m *Monitor) count(snap *state.Snapshot, a *berth.Alloc) (c counts) {
	for x := range snap.AllocsOf(a.Key()) {
		if x.Group.Name != a.Group.Name || x.ID == a.ID || !x.Wanted() {
			continue
		}
		l := m.leases[x.ID]
		c.older = c.older || x.CreateIndex <= m.index
		switch {
		case l != nil && l.failed:
			c.failed = append(c.failed, x.ID)
		case l != nil:
			c.taken = append(c.taken, x.ID)
		case x.Client == berth.ClientComplete, x.Ended() && !x.Rest().Next.IsZero():
			continue // it has done its work, or another has its place
		case !healthy(x):
			c.unhealthy = append(c.unhealthy, x.ID)
		}
		c.live++
	}
	return c
}

// text says what keeps an allocation from its turn.
func (c *counts) text() string {
	var parts []string
	for _, x := range []struct {
		what string
		all  []berth.AllocID
	}{{"restarts", c.taken}, {"failed after its restart", c.failed}, {"is not healthy", c.unhealthy}} {
		if n := len(x.all); n == 1 {
			parts = append(parts, fmt.Sprintf("allocation %s, which %s", x.all[0].Short(), x.what))
		} else if n > 1 {
			parts = append(parts, fmt.Sprintf("allocation %s and %d more, of which each %s", x.all[0].Short(), n-1, x.what))
		}
	}
	return strings.Join(parts, ", and ")
}

// healthy reports whether an allocation without a turn counts as healthy: it runs,
// and if its agent has to find that out, it has.
func healthy(a *berth.Alloc) bool {
	if a.Client != berth.ClientRunning {
		return false
	}
	more := a.Rest()
	if s := more.DeploymentStatus; s != nil && s.Healthy != nil {
		return *s.Healthy
	}
	how := ""
	switch {
	case !more.DeploymentID.IsZero() && a.Group.Update != nil:
		how = a.Group.Update.HealthCheck
	case more.DeploymentID.IsZero() && !more.Previous.IsZero():
		how = a.Group.Migration().HealthCheck
	default:
		return true
	}
	return how == berth.HealthManual
}

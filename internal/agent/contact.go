package agent

import (
	"sync/atomic"
	"time"

	"berth"
	"berth/internal/agent/alloc"
	"berth/internal/agent/local"
	"berth/internal/agent/supervise"
	"berth/op"
)

// What the agent owes to servers that could not be reached for a while, and to
// allocations that wait for others.

// contact is when servers were last reached.
type contact struct {
	at  atomic.Pointer[time.Time] // when the last call was sent that servers answered; never nil from Run on
	own atomic.Bool               // this agent sent it, not an earlier one

	// clock says which run of the machine's kernel this is, and which time of its
	// clock, in nanoseconds. Nobody can set that clock, and it goes on while the
	// machine sleeps.
	clock func(time.Time) (boot string, at int64)
}

// bootClock is the clock of the machine.
func bootClock(t time.Time) (boot string, at int64) { return supervise.BootID(), supervise.BootTime(t) }

// reached notes that servers answered a call that was sent at that time: they
// heard the node then or later. Counting from it never makes the contact
// longer than it was.
//
// Servers that did not hear a node within its TTL take its allocations for
// lost, or do not know how they are. So they are told again of all that live.
func (a *Agent) reached(sent time.Time, answer *op.NodeAnswer) {
	a.renewed(answer)
	a.mu.Lock()
	missed := a.contactTTL > 0 && sent.Sub(*a.contact.at.Load()) > a.contactTTL
	if answer.HeartbeatTTL > 0 {
		a.ttl, a.contactTTL = answer.HeartbeatTTL, answer.HeartbeatTTL
	}
	ttl := a.contactTTL
	a.lastHeartbeat = time.Now()
	a.mu.Unlock()
	a.contact.at.Store(&sent)
	a.contact.own.Store(true)
	c := local.Contact{At: sent, TTL: ttl}
	c.Boot, c.BootTime = a.contact.clock(sent)
	if err := local.PutContact(a.c.StateDir, c); err != nil {
		a.log.Debug("when servers were last reached cannot be recorded", "error", err)
	}
	if missed {
		a.reportAgain()
	}
}

// loadContact takes over when an earlier agent last reached servers.
func (a *Agent) loadContact() {
	now := time.Now()
	a.contact.at.Store(&now)
	c, err := local.GetContact(a.c.StateDir)
	if err != nil {
		a.log.Warn("when servers were last reached is not known; it counts from now", "error", err)
	}
	at, ok := a.contact.earlier(&c, now)
	if !ok {
		return
	}
	a.contact.at.Store(&at)
	a.mu.Lock()
	a.contactTTL = c.TTL
	a.mu.Unlock()
}

// earlier returns when the recorded contact was, if that is known. As long as the
// machine was not started again since, it does not matter how its time was set.
func (x *contact) earlier(c *local.Contact, now time.Time) (at time.Time, ok bool) {
	boot, clock := x.clock(now)
	if c.Boot != "" && c.Boot == boot && c.BootTime <= clock {
		return now.Add(time.Duration(c.BootTime - clock)), true
	}
	return c.At, !c.At.IsZero() && !c.At.After(now)
}

// reportAgain reports every allocation that lives, also where servers took the
// same report before.
func (a *Agent) reportAgain() {
	a.services.again()
	a.mu.Lock()
	live := map[string]*held{}
	for id, h := range a.allocs {
		if h.runner != nil && !h.removed {
			live[id] = h
		}
	}
	a.mu.Unlock()
	n := 0
	for id, h := range live {
		if h.runner.Ended() {
			continue
		}
		n++
		a.reportAllocAgain(id, h)
	}
	if n > 0 {
		a.log.Info("servers are told again how allocations fare", "node", a.id, "allocs", n)
	}
}

// reportAllocAgain reports one allocation, also if servers took the same report
// before.
func (a *Agent) reportAllocAgain(id string, h *held) {
	a.reports.forget(id)
	if h.runner.Known() { // else it reports itself when it is
		a.reports.again(h.runner.News())
	}
}

// preempted returns those of the allocations preempted for al that have not
// ended on this node, and reports whether al may start. What this agent does not
// know has ended, or it would run here; but an agent that was just started does
// not know everything before it has contacted servers.
func (a *Agent) preempted(al *op.Alloc) (rest []berth.AllocID, ok bool) {
	// Before servers were contacted, what the agent knows may be old.
	select {
	case <-a.contacted:
		ok = true
	default:
	}
	runners := map[berth.AllocID]*alloc.Runner{}
	a.mu.Lock()
	for _, id := range al.PreemptedAllocations {
		if h := a.allocs[id.String()]; h != nil && h.runner != nil {
			runners[id] = h.runner
		}
	}
	// Entered before it is asked who has ended: an end in between is told.
	a.waiting[al.ID.String()] = true
	a.mu.Unlock()
	for _, id := range al.PreemptedAllocations {
		if r := runners[id]; r != nil && !r.Ended() {
			rest = append(rest, id)
		}
	}
	if ok = ok && len(rest) == 0; ok {
		a.mu.Lock()
		delete(a.waiting, al.ID.String())
		a.mu.Unlock()
	}
	return rest, ok
}

// admitWaiting has allocations that wait for others look again.
func (a *Agent) admitWaiting() {
	var all []*alloc.Runner
	a.mu.Lock()
	for id := range a.waiting {
		if h := a.allocs[id]; h != nil && h.runner != nil {
			all = append(all, h.runner)
		} else {
			delete(a.waiting, id)
		}
	}
	a.mu.Unlock()
	for _, r := range all {
		r.Nudge()
	}
}

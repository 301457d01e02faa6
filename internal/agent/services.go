package agent

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"berth"
	"berth/op"
)

// registryBatch is how many registrations go in one call at most.
const registryBatch = 128

// registry holds which services servers should know of this node, and what they
// took. It implements [alloc.Registry].
type registry struct {
	mu    sync.Mutex
	want  map[string]*berth.ServiceRegistration // by ID; nil: to be removed
	taken map[string]*berth.ServiceRegistration // by ID: what servers took
	of    map[string][]string                   // IDs in want, by allocation
	rest  map[string]time.Time                  // of one that servers refuse: not before
	wake  chan struct{}
}

// newRegistry returns a registry without services.
func newRegistry() *registry {
	return &registry{
		want: map[string]*berth.ServiceRegistration{}, taken: map[string]*berth.ServiceRegistration{}, of: map[string][]string{},
		rest: map[string]time.Time{}, wake: make(chan struct{}, 1),
	}
}

// nudge wakes the goroutine that registers services. It never blocks.
func (r *registry) nudge() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Services implements [alloc.Registry].
func (r *registry) Services(alloc string, have []*berth.ServiceRegistration, gone []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed := false
	var ids []string
	for _, reg := range have {
		ids = append(ids, reg.ID)
		if old := r.want[reg.ID]; old == nil || !reflect.DeepEqual(old, reg) {
			r.want[reg.ID], changed = reg, true
			delete(r.rest, reg.ID)
		}
	}
	for _, id := range slices.Concat(r.of[alloc], gone) {
		if slices.Contains(ids, id) {
			continue
		}
		if reg, there := r.want[id]; !there || reg != nil {
			r.want[id], changed = nil, true
			delete(r.rest, id)
		}
	}
	if r.of[alloc] = ids; len(ids) == 0 {
		delete(r.of, alloc)
	}
	if changed {
		r.nudge()
	}
}

// again has servers told of all, also of what they took before.
func (r *registry) again() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.taken)
	if len(r.want) > 0 {
		r.nudge()
	}
}

// next returns what servers are to be told: registrations to make, IDs to take
// back, and if there is neither, when to look again.
func (r *registry) next(now time.Time) (put []*berth.ServiceRegistration, gone []string, again time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(r.want)) {
		reg := r.want[id]
		if reg != nil && r.taken[id] != nil && reflect.DeepEqual(r.taken[id], reg) {
			continue
		}
		if until := r.rest[id]; now.Before(until) {
			if again.IsZero() || until.Before(again) {
				again = until
			}
			continue
		}
		switch {
		case reg == nil:
			gone = append(gone, id)
		case len(put) < registryBatch:
			put = append(put, reg)
		}
	}
	return put, gone, again
}

// took notes that servers know registrations.
func (r *registry) took(put []*berth.ServiceRegistration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, reg := range put {
		r.taken[reg.ID] = reg
		delete(r.rest, reg.ID)
	}
}

// forgot notes that servers do not know a registration any more.
func (r *registry) forgot(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.taken, id)
	delete(r.rest, id)
	if reg, there := r.want[id]; there && reg == nil {
		delete(r.want, id)
	}
}

// refused lets one rest that servers do not take.
func (r *registry) refused(id string, until time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rest[id] = until
}

// registerServices keeps the servers' list of the node's services up to date
// until ctx ends. What is not sent by then ends with its allocation, or is sent
// by the next agent.
func (a *Agent) registerServices(ctx context.Context) error {
	return a.keepReporting(ctx, a.services.wake, func(now time.Time) outgoing {
		put, gone, again := a.services.next(now)
		if len(put)+len(gone) == 0 {
			return outgoing{next: again}
		}
		return outgoing{what: "services", count: len(put) + len(gone), send: func(ctx context.Context) error { return a.reportServices(ctx, put, gone) }}
	})
}

// reportServices tells servers of changes: first what is not there any more.
func (a *Agent) reportServices(ctx context.Context, put []*berth.ServiceRegistration, gone []string) error {
	for _, id := range gone {
		_, err := op.Call(ctx, a.c.Servers, op.ServiceRemove, &op.DeleteServiceByID{ID: id, Write: a.write()})
		if err := a.settle(id, err); err != nil {
			return err
		}
		a.services.forgot(id)
	}
	if len(put) == 0 {
		return nil
	}
	_, err := op.Call(ctx, a.c.Servers, op.ServiceUpsert, &op.UpsertServices{Services: put, Write: a.write()})
	if err == nil {
		a.services.took(put)
		return nil
	}
	if len(put) > 1 && forItself(err) { // one by one, so that one that servers refuse holds up no other
		for _, reg := range put {
			if err := a.reportServices(ctx, []*berth.ServiceRegistration{reg}, nil); err != nil {
				return err
			}
		}
		return nil
	}
	return a.settle(put[0].ID, err)
}

// forItself reports whether an error is about what was said, not about the way to
// servers or the node as a whole.
func forItself(err error) bool {
	switch berth.KindOf(err) {
	case berth.Invalid, berth.Conflict, berth.TooLarge, berth.Denied:
		return true
	}
	return false
}

// settle lets a registration rest that is refused for itself, and returns other
// errors.
func (a *Agent) settle(id string, err error) error {
	if err == nil || !forItself(err) {
		return err
	}
	a.log.Warn("servers refuse the registration of a service", "service", id, "error", err)
	a.services.refused(id, time.Now().Add(refusedWait))
	return nil
}

// serveChecks answers how the checks of an allocation's services last went, by ID.
func (a *Agent) serveChecks(s *serving) {
	onCall(s, op.AgentChecks, func(_ context.Context, q *op.AllocRef) (*op.Checks, error) {
		_, runner, err := a.find(q.AllocID)
		if err != nil {
			return nil, err
		}
		out := &op.Checks{Results: map[string]op.CheckStatus{}}
		if runner != nil {
			out.Results = runner.Checks()
		}
		return out, nil
	})
}

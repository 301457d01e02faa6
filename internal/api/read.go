package api

import (
	"context"

	"berth"
	"berth/internal/acl"
	"berth/internal/state"
	"berth/internal/wire"
	"berth/op"
)

// Read is a read request, answered from one snapshot.
type Read struct {
	*state.Snapshot
	Query  *op.Query // its namespace is never ""
	Caller Caller

	authorize func(Caller, acl.Capability, string) error
	server    *Server // nil if a write looks something up
	phases    phases  // nil: those of the server

	index uint64           // see At
	keys  []state.WatchKey // see At
	next  string           // token of the next page; "": this is the last
	ready bool             // see Ready
	agent bool             // the caller is the agent of a node
	waits bool             // the caller wants something newer

	look     bool        // only At is of interest
	rows     *rowEncoder // takes the rows of a list; nil: they are returned
	also     uint64      // see Also
	volatile bool        // see Volatile

	running map[berth.JobKey]map[berth.PERef]*berth.Alloc // of stream jobs that were looked at
}

// Ready has the answer sent as it is, whatever the index of the caller.
func (r *Read) Ready() { r.ready = true }

// Waits reports whether this answer will be thrown away, because the caller waits
// for something newer than the index given to At. The handler may then return
// nothing.
func (r *Read) Waits() bool { return r.look || r.waits && !r.fresh() }

// fresh reports whether the answer is newer than what the caller has.
func (r *Read) fresh() bool {
	return r.ready || r.Query.MinQueryIndex == 0 || r.index > r.Query.MinQueryIndex || len(r.keys) == 0
}

// Space returns the namespace that the request is about.
func (r *Read) Space() string { return r.Query.Namespace }

// At sets the index at which the answer last changed, and what to watch for its
// next change. Every handler calls it.
func (r *Read) At(index uint64, keys ...state.WatchKey) {
	// A caller with a row from before a restore must learn of the restore, even
	// if the restored row is older. Agents take 0 for "unknown"; to others it
	// says that there never was anything.
	r.index = max(index, r.Restored)
	if r.agent {
		r.index = max(r.index, 1)
	}
	r.keys = keys
}

// Also has a list made again for the next caller after a later change of a table
// that is not worth waking those who wait.
func (r *Read) Also(t state.Table) { r.also = max(r.also, r.LastChange(t)) }

// Volatile has a list made again for every caller: it shows more than the state.
func (r *Read) Volatile() { r.volatile = true }

// version is different from that of any other content of the list.
func (r *Read) version() uint64 { return max(r.index, r.also) }

// Table makes the answer change with any row of a table.
func (r *Read) Table(t state.Table) { r.At(r.LastChange(t), state.OnTable(t)) }

// newRead returns a read of the newest snapshot.
func (s *Server) newRead(who Caller, q *op.Query) *Read {
	return &Read{Snapshot: s.Store.Snapshot(), Query: q, Caller: who, authorize: s.Authorize, server: s}
}

// leader returns the leader's view of evaluations, nil if this server does not
// lead.
func (r *Read) leader() phases {
	if r.phases != nil || r.server == nil {
		return r.phases
	}
	l, err := r.server.Cluster.Leader()
	if err != nil {
		return nil
	}
	return l
}

// answer runs a read: at once, or, if the caller has an index, when there is
// something newer or the wait is over.
func answer[Out any](ctx context.Context, s *Server, info *op.Info, who Caller, q *op.Query, f func(*Read) (Out, error)) (out Out, meta op.Meta, err error) {
	if err := s.admit(ctx, info, who, q); err != nil {
		return out, meta, err
	}
	run := func(waits bool) (done bool, keys []state.WatchKey) {
		r := s.newRead(who, q)
		r.waits, r.agent = waits, info.Need == acl.Node
		out, err = f(r)
		meta = op.Meta{Index: r.index, KnownLeader: true, NextToken: r.next}
		if q.AllowStale {
			s.contact(&meta)
		}
		return err != nil || !waits || r.fresh(), r.keys
	}
	done, keys := run(q.MinQueryIndex > 0)
	if done {
		return out, meta, err
	}
	if info.Need != acl.Node { // each of those has its own session, whose calls are counted
		if err := s.waiting.enter(who); err != nil {
			return out, meta, err
		}
		defer s.waiting.exit(who)
	}
	ctx, cancel := context.WithTimeout(ctx, q.Wait())
	defer cancel()
	ctx, lost, stop := s.while(ctx, info, func() error { return s.allow(info, who, q.Namespace) })
	defer stop()
	// What is watched is fixed by the first look; a change between that look
	// and here is seen by the second.
	watch := s.Store.Watch(keys...)
	defer watch.Stop()
	for {
		if done, _ := run(true); done {
			return out, meta, err
		}
		if idle(ctx, watch) != nil {
			if err := lost(); err != nil {
				return out, meta, err
			}
			run(false) // nothing newer: the same answer again
			return out, meta, err
		}
	}
}

// idle waits for a change. An agent's call does not count as one in progress
// meanwhile.
func idle(ctx context.Context, watch *state.Watch) error {
	defer wire.Idle(ctx)()
	return watch.Wait(ctx)
}

// admit checks a read. It returns once this server knows everything that was
// answered before; if the answer may be stale, everything that was answered on
// the caller's connection.
func (s *Server) admit(ctx context.Context, info *op.Info, who Caller, q *op.Query) error {
	if err := s.region(q.Region); err != nil {
		return err
	}
	if q.Namespace == "" {
		q.Namespace = berth.DefaultNamespace
	}
	patience := s.operations[info.Name].patience()
	if err := s.meet(ctx, info, who, patience); err != nil {
		return err
	}
	if err := s.allow(info, who, q.Namespace); err != nil {
		return err
	}
	switch {
	case info.Local || info.Need == acl.Open:
		return nil
	case q.AllowStale:
		return s.catchUp(ctx, who, patience)
	}
	// Without a leader the state may be old; only stale reads accept that.
	return s.Cluster.Sync(ctx, patience)
}

// allow asks whether the caller has the right that an operation needs, unless
// only its handler can: what proves a node's agent is the node's secret, what
// an ID names or a body says has its own namespace (see Read.may and
// decodeJob), and a list across namespaces holds what the caller may see of
// each (see Read.visible).
func (s *Server) allow(info *op.Info, who Caller, namespace string) error {
	if s.guard != nil && info.Need != acl.Open && info.Need != acl.Node && info.Need != acl.Server {
		// Who may do it nowhere learns nothing, whatever the request names.
		need, anywhere := somewhere(info)
		if err := s.Authorize(who, need, anywhere); err != nil {
			return err
		}
	}
	switch {
	case info.Need == acl.Open || info.Need == acl.Node:
		return nil
	case info.Space == acl.NoSpace || info.Space == acl.NodeSpace || info.Space == acl.NamedSpace:
		return s.Authorize(who, info.Need, "")
	case info.Space == acl.QuerySpace && namespace != berth.AllNamespaces:
		return s.Authorize(who, info.Need, namespace)
	}
	return nil
}

// somewhere is the least right that a caller of an operation must have: in no
// particular namespace. The topics of a stream of events need different ones.
func somewhere(info *op.Info) (need acl.Capability, namespace string) {
	if info.Need == acl.AnyToken || info.Space == acl.EventSpace {
		return acl.AnyToken, ""
	}
	return info.Need, acl.Any
}

// may asks for a right in the namespace of something that the request names;
// if that does not exist, in the namespace of the request, so that only those who
// could see it learn that it does not exist.
func (r *Read) may(need acl.Capability, namespace string) error {
	return r.authorize(r.Caller, need, namespace)
}

// visible reports whether a row of the namespace belongs in the answer. admit has
// already checked the namespace that was asked for.
func (r *Read) visible(need acl.Capability, namespace string) bool {
	return r.Space() == namespace || r.Space() == berth.AllNamespaces && r.may(need, namespace) == nil
}

// region refuses a request for another region than this server's; "" means this
// one.
func (s *Server) region(name string) error {
	if name != "" && name != s.Region {
		return berth.Errorf(berth.Invalid, "No path to region: %q; this is region %q", name, s.Region)
	}
	return nil
}

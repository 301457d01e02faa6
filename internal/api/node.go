package api

import (
	"crypto/subtle"
	"fmt"
	"maps"
	"slices"
	"time"

	"berth"
	"berth/internal/state"
	"berth/op"
)

// nodes registers the operations on nodes, and those by which their agents
// report and learn what to run.
func (s *Server) nodes() {
	readList(s, op.ListNodes, listNodes)
	read(s, op.ReadNode, readNode)
	readList(s, op.NodeAllocs, nodeAllocs)
	write(s, op.DrainNode, drainNode)
	write(s, op.NodeRegister, s.registerNode)
	write(s, op.NodeBeat, s.beatNode)
	write(s, op.NodeDrainSelf, drainSelf)
	read(s, op.NodePull, pullAllocs)
	read(s, op.AllocFetch, fetchAllocs)
	write(s, op.AllocReporter, reportAllocs)
	write(s, op.NodeEvents, emitEvents)
	read(s, op.PullConnectivity, pullConnectivity)
	write(s, op.TellConnectivity, tellConnectivity)
}

// listNodes returns the nodes in order of ID. Resources and the name of the
// operating system come on request.
func listNodes(r *Read, in *op.NodesQuery) ([]op.NodeStub, error) {
	return nodesOf(r, nil, in.Resources, in.OS, 0)
}

// nodesOf lists the nodes that keep accepts, nil for all. The list changes
// with any node, and with what else is watched, which was last changed at
// index.
func nodesOf(r *Read, keep func(*berth.Node) bool, resources, os bool, index uint64, more ...state.WatchKey) ([]op.NodeStub, error) {
	r.At(max(index, r.LastChange(state.Nodes)), append(more, state.OnTable(state.Nodes))...)
	l, err := byRange(r.Query, r.NodeRange, func(n *berth.Node) berth.NodeID { return n.ID })
	if err != nil {
		return nil, err
	}
	l.source = func(n *berth.Node) source { return source{a: n} }
	view := func(n *berth.Node) op.NodeStub {
		v := op.NodeStub{
			Address: host(n.HTTPAddr), ID: n.ID, Datacenter: n.Datacenter, Name: n.Name, NodeClass: n.NodeClass, NodePool: n.NodePool,
			Version: n.Attributes["nomad.version"], SchedulingEligibility: n.SchedulingEligibility, Status: n.Status,
			StatusDescription: n.StatusDescription, Drivers: n.Drivers, Drain: n.Draining(), LastDrain: n.LastDrain,
			CreateIndex: n.CreateIndex, ModifyIndex: n.ModifyIndex,
		}
		// Resources make up most of a row's size, so lists leave them out by
		// default.
		if resources {
			v.NodeResources, v.ReservedResources = n.NodeResources, n.ReservedResources
		}
		if os {
			v.Attributes = map[string]string{"os.name": n.Attributes["os.name"]}
		}
		return v
	}
	// A filter sees the whole node.
	l.seen = []seen[*berth.Node]{sees(op.ShowNode), sees(view)}
	return page(r, l, keep, view)
}

// host is the part of an address before the port.
func host(addr string) string {
	for i := len(addr) - 1; i >= 0; i-- {
		if addr[i] == ':' {
			return addr[:i]
		}
	}
	return addr
}

// node returns the node that a request names.
func (r *Read) node(id string) (*berth.Node, error) {
	full, err := berth.ParseID[berth.Node](id)
	if err != nil {
		return nil, err
	}
	n := r.Node(full)
	if n == nil {
		return nil, berth.Errorf(berth.NotFound, "node not found: %s", id)
	}
	return n, nil
}

// readNode returns one node, by its complete ID.
func readNode(r *Read, in *op.NodeRef) (op.Node, error) {
	n, err := r.node(in.NodeID)
	if err != nil {
		return op.Node{}, err
	}
	r.At(n.ModifyIndex, state.OnNode(n.ID))
	return op.ShowNode(r.withoutForeign(n)), nil
}

// withoutForeign returns a node without the host volumes of namespaces whose volumes
// the caller may not see.
func (r *Read) withoutForeign(n *berth.Node) *berth.Node {
	foreign := func(_ string, info berth.HostVolumeInfo) bool {
		v := r.HostVolume(info.ID)
		return v != nil && r.may(op.ReadHostVolume.Need, v.Namespace) != nil
	}
	own := *n
	own.HostVolumes = maps.Clone(n.HostVolumes)
	maps.DeleteFunc(own.HostVolumes, foreign)
	return &own
}

// nodeAllocs returns the allocations on a node in full, those left out that the
// caller may not see. An unknown node has none.
func nodeAllocs(r *Read, in *op.NodeRef) ([]op.Alloc, error) {
	id, err := berth.ParseID[berth.Node](in.NodeID)
	out, n := []op.Alloc{}, r.Node(id)
	if err != nil || n == nil {
		r.At(r.LastChange(state.Nodes), state.OnNode(id))
		return out, nil
	}
	index := n.ModifyIndex
	for a := range r.AllocsOn(id) {
		index = max(index, a.ModifyIndex)
	}
	r.At(index, state.OnReportsOf(id), state.OnNode(id))
	r.Also(state.Allocs) // those that are gone are missing
	r.Also(state.Jobs)   // what was replaced before is forgotten with the job
	r.also = max(r.also, r.LastExplained())
	if r.Waits() {
		return out, nil
	}
	for a := range r.AllocsOn(id) {
		if r.may(op.ReadAlloc.Need, a.Job.Namespace) == nil {
			out = append(out, allocView(r.Snapshot, a))
		}
	}
	return out, nil
}

// prove returns the node if one of the secrets is its own, or is its identity. The
// errors for an unknown node and a wrong secret differ, because an agent whose node is unknown
// registers again.
func prove(s *state.Snapshot, id berth.NodeID, secrets ...string) (*berth.Node, error) {
	n := s.Node(id)
	if n == nil {
		return nil, berth.Errorf(berth.NotFound, "node not found: %s", id)
	}
	for _, secret := range secrets {
		if secret != "" && subtle.ConstantTimeCompare([]byte(secret), []byte(n.SecretID)) == 1 {
			return n, nil
		}
		if isJWT(secret) {
			if c, err := nodeIdentity(s, secret, time.Now()); err == nil && c.NodeID == n.ID.String() {
				return n, nil
			}
		}
	}
	return nil, &berth.Error{Kind: berth.Denied, Code: berth.CodeWrongSecret, Err: fmt.Errorf("%s: this is neither the secret nor the identity of node %s", berth.PermissionDenied, id)}
}

// registerNode decides that a node is known from now on, or that it changed. A
// known node must show its secret; eligibility is left as it is.
func (s *Server) registerNode(w *Write, in *op.RegisterNode) (ch Change[op.NodeAnswer], err error) {
	if err := checkNode(in.Node); err != nil {
		return ch, err
	}
	n := *in.Node
	if n.NodePool == "" {
		n.NodePool = berth.DefaultNodePool
	}
	if n.Status == "" {
		n.Status = berth.NodeInit
	}
	// Eligibility is the operator's decision, never the agent's.
	n.SchedulingEligibility = ""
	old := w.Node(n.ID)
	if old != nil {
		if _, err := prove(w.Snapshot, n.ID, n.SecretID); err != nil {
			return ch, err // Apply checks it as well; this keeps it out of the log
		}
	}
	// Agents register again to show that they are alive; without news that need
	// not be in the log.
	if old != nil && sameNode(old, &n) && in.NodeEvent == nil {
		return s.withIdentity(w, old, justHeard(old, old.ModifyIndex)), nil
	}
	c := &state.RegisterNode{Node: &n, Event: boundEvent(in.NodeEvent), Now: w.Now.UnixNano()}
	w.random(c.Seed[:])
	ch = propose[op.NodeAnswer](c, func(o *Outcome) op.NodeAnswer { return nodeAnswer(o, &n, c.Evals, o.Index) })
	if old == nil {
		used, err := s.introduceNew(w, &n, c)
		if err != nil {
			return ch, err
		}
		if used != nil { // a server that is too old does not know that a token was used
			ch.Commands, ch.Older = []state.Command{used}, []state.Command{c}
		}
	}
	// A node that was given up stays so until its agent reports that it is ready.
	ch.Agent, ch.Up = n.ID, n.Status != berth.NodeDown && (old == nil || !givenUp(old))
	return s.withIdentity(w, &n, ch), nil
}

// beatNode takes in a heartbeat. It makes a command only if the status changes
// or there is an event, so most heartbeats leave the log alone.
func (s *Server) beatNode(w *Write, in *op.BeatNode) (ch Change[op.NodeAnswer], err error) {
	n, err := prove(w.Snapshot, in.NodeID, in.SecretID, w.Options.AuthToken)
	if err != nil {
		return ch, err
	}
	if wantsIdentity(w, in) {
		defer func() {
			if err == nil {
				ch = s.withIdentity(w, n, ch)
			}
		}()
	}
	if in.Status == "" || in.Status == n.Status && in.NodeEvent == nil {
		return justHeard(n, n.ModifyIndex), nil
	}
	if in.Status != berth.NodeReady && in.Status != berth.NodeInit && in.Status != berth.NodeDown {
		return ch, berth.Errorf(berth.Invalid, "Status: an agent cannot report %q: want initializing, ready or down", berth.Clip(in.Status, 64))
	}
	c := &state.SetNodeStatus{ID: n.ID, Status: in.Status, Event: boundEvent(in.NodeEvent), Now: w.Now.UnixNano()}
	w.random(c.Seed[:])
	ch = propose(c, func(o *Outcome) op.NodeAnswer { return nodeAnswer(o, n, c.Evals, o.Index) })
	ch.Agent, ch.Up = n.ID, in.Status != berth.NodeDown
	return ch, nil
}

// justHeard answers a heartbeat without news, which changes nothing. index is
// that of the node's last change.
func justHeard(n *berth.Node, index uint64) Change[op.NodeAnswer] {
	return Change[op.NodeAnswer]{Agent: n.ID, Up: !givenUp(n), Answer: func(o *Outcome) op.NodeAnswer { return nodeAnswer(o, n, nil, index) }}
}

// heard remembers which node's agent a connection belongs to, so that the agent
// can be called back over it. Any authenticated call will do.
func (s *Server) heard(id berth.NodeID, c RPC) {
	if s.Proved != nil && c != nil {
		s.Proved(id, c)
	}
}

// nodeAnswer returns the answer to a node's agent: when its next heartbeat is
// due, and the list of servers.
func nodeAnswer(o *Outcome, n *berth.Node, evals []berth.EvalID, index uint64) op.NodeAnswer {
	out := op.NodeAnswer{
		HeartbeatTTL: o.TTL, EvalIDs: evals, NodeModifyIndex: index, LeaderRPCAddr: o.Leader, Servers: o.Servers,
		NumNodes: int32(o.After.Count(state.Nodes)), SchedulingEligibility: berth.NodeEligible,
	}
	if len(out.Servers) == 0 {
		out.Servers = []op.ServerAddr{{RPCAdvertiseAddr: o.Leader, Datacenter: n.Datacenter}}
	}
	if len(evals) > 0 {
		out.EvalCreateIndex = index
	}
	if now := o.After.Node(n.ID); now != nil {
		out.SchedulingEligibility = now.SchedulingEligibility
	}
	return out
}

// pullAllocs returns the allocations of a node once something is new.
func pullAllocs(r *Read, in *op.NodeAllocIndexes) (op.NodeAllocIndexesAnswer, error) {
	n, err := prove(r.Snapshot, in.NodeID, in.SecretID, r.Query.AuthToken)
	if err != nil {
		return op.NodeAllocIndexesAnswer{}, err
	}
	r.server.heard(n.ID, r.Caller.Conn)
	index := r.Usage(n.Number).Changed
	r.At(index, state.OnAllocsOn(n.ID))
	if r.Waits() {
		return op.NodeAllocIndexesAnswer{}, nil
	}
	out := op.NodeAllocIndexesAnswer{Allocs: map[string]uint64{}}
	for a := range r.AllocsOn(n.ID) {
		out.Allocs[a.ID.String()] = versionFor(r.Snapshot, a)
	}
	return out, nil
}

// versionFor returns the AllocModifyIndex of an allocation as agents see it.
// After a restore, agents may know later versions of what is in the state, so
// everything counts as new.
func versionFor(s *state.Snapshot, a *berth.Alloc) uint64 { return max(a.AllocModifyIndex, s.Restored) }

// fetchAllocs returns allocations of a node in full.
func fetchAllocs(r *Read, in *op.GetAllocs) (op.GetAllocsAnswer, error) {
	const most = 10_000
	if len(in.AllocIDs) > most {
		return op.GetAllocsAnswer{}, berth.Errorf(berth.Invalid, "AllocIDs: %d IDs is too many: the limit is %d", len(in.AllocIDs), most)
	}
	// The agent got MinQueryIndex from some server; this one may lag behind it,
	// and then waits.
	r.At(r.LastChange(state.Allocs), state.OnTable(state.Allocs))
	if r.Index >= r.Query.MinQueryIndex {
		r.Ready()
	}
	var out op.GetAllocsAnswer
	var proved *berth.Node
	for _, text := range in.AllocIDs {
		id, err := berth.ParseID[berth.Alloc](text)
		if err != nil {
			return out, err
		}
		a := r.Alloc(id)
		if a == nil {
			continue
		}
		// All are usually of one node, whose secret is then compared once.
		if proved == nil || proved.ID != a.NodeID {
			if proved, err = prove(r.Snapshot, a.NodeID, in.SecretID, r.Query.AuthToken); err != nil {
				return op.GetAllocsAnswer{}, err
			}
		}
		v := allocView(r.Snapshot, a)
		v.OwnerRefs = nil // agents follow the desired status alone
		v.AllocModifyIndex = versionFor(r.Snapshot, a)
		out.Allocs = append(out.Allocs, &v)
	}
	return out, nil
}

// reportAllocs decides what the state says of allocations that an agent reports
// on. All must be on its node; those that are gone are ignored.
func reportAllocs(w *Write, in *op.ReportAllocs) (ch Change[op.WriteAnswer], err error) {
	if len(in.Alloc) == 0 || in.Alloc[0] == nil {
		return ch, nil
	}
	c := &state.ReportAllocs{Node: in.Alloc[0].NodeID, Now: w.Now.UnixNano()}
	if _, err := prove(w.Snapshot, c.Node, w.Options.AuthToken); err != nil {
		return ch, err
	}
	for _, a := range in.Alloc {
		if a == nil {
			continue
		}
		if a.NodeID != c.Node {
			return ch, berth.Errorf(berth.Denied, "Permission denied: the report of node %s names an allocation of node %s", c.Node, a.NodeID)
		}
		// Reports are bounded by the group that the servers know, whatever the
		// agent sends.
		known := w.Alloc(a.ID)
		if known == nil || a.ClientStatus == berth.ClientUnknown {
			continue // the allocation is gone, or the report is empty
		}
		c.Updates = append(c.Updates, state.AllocUpdate{
			ID: a.ID, Client: a.ClientStatus, Description: cut(a.ClientDescription, maxSentence),
			Tasks: state.PackTaskStates(boundStates(a.TaskStates, known.Group)), Deployment: a.DeploymentStatus, Network: boundNetwork(a.NetworkStatus),
		})
	}
	if len(c.Updates) == 0 {
		return ch, nil
	}
	ch.Commands = append(ch.Commands, c)
	if evals := cutOffEvals(w, c.Updates); len(evals) > 0 {
		ch.Commands = append(ch.Commands, &state.CreateEvals{Evals: evals, Now: c.Now})
	}
	return ch, nil
}

// cutOffEvals returns an evaluation for each job with an allocation that is
// reported as complete, but that its agent stopped because it reached no server.
// ReportAllocs raises none for these unless they were unknown. If this one is
// lost, package fence raises another one.
func cutOffEvals(w *Write, updates []state.AllocUpdate) (out []state.EvalFor) {
	for i := range updates {
		u, known := &updates[i], w.Alloc(updates[i].ID)
		if u.Client != berth.ClientComplete || known.Ended() || known.Client == berth.ClientUnknown {
			continue
		}
		a := *known
		a.Client, a.Tasks = u.Client, u.Tasks
		if w.Unfinished(&a) && !slices.ContainsFunc(out, func(e state.EvalFor) bool { return e.Key == a.Key() }) {
			e := state.CutOffEval(&a)
			w.random(e.ID[:])
			out = append(out, e)
		}
	}
	return out
}

// emitEvents decides which events are added to nodes: one command for each
// node, whose secret the caller must have.
func emitEvents(w *Write, in *op.EmitEvents) (ch Change[op.WriteAnswer], err error) {
	for text, events := range in.NodeEvents {
		id, err := berth.ParseID[berth.Node](text)
		if err != nil {
			return ch, err
		}
		if _, err := prove(w.Snapshot, id, w.Options.AuthToken); err != nil {
			return ch, err
		}
		c := &state.AddNodeEvents{ID: id}
		for _, e := range events[:min(len(events), berth.NodeEventsKept)] {
			if e != nil {
				c.Events = append(c.Events, *boundEvent(e))
			}
		}
		ch.Commands = append(ch.Commands, c)
	}
	return ch, nil
}

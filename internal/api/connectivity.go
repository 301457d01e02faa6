package api

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"strings"

	"berth"
	"berth/internal/state"
	"berth/internal/streams"
	"berth/op"
)

// This file computes the connections of processing elements for their agents.
// They are computed again whenever one of their inputs changes, and sent only
// if the result differs from what the agent has.

// pullConnectivity returns the connections of a processing element once they
// differ from those that the agent has.
func pullConnectivity(r *Read, in *op.ConnectivityQuery) (out op.ConnectivityAnswer, err error) {
	// Only the agent that runs a launch learns where its peers are.
	n, err := prove(r.Snapshot, in.NodeID, in.SecretID, r.Query.AuthToken)
	if err != nil {
		return out, err
	}
	r.server.heard(n.ID, r.Caller.Conn)
	a, pe, err := launchOn(r.Snapshot, n.ID, in.AllocID)
	if err != nil {
		return out, err
	}
	v := newConnections(r.Snapshot, pe, a)
	if out.File, err = v.document(); err != nil {
		return out, err
	}
	// The mark covers what is watched, so that an agent with the same mark
	// waits for the same.
	if out.Mark, err = v.mark(out.File); err != nil {
		return out, err
	}
	switch {
	case out.Mark == in.Have:
		r.At(r.Query.MinQueryIndex, v.keys...)
	default:
		r.At(r.Index, v.keys...)
		// Of a server that lags it is no news, which the agent sees by the index
		// and better hears at once than never.
		r.Ready()
	}
	return out, nil
}

// launchOn returns an allocation of a node, and the processing element whose
// present launch it is.
func launchOn(s *state.Snapshot, node berth.NodeID, id berth.AllocID) (*berth.Alloc, *berth.Object, error) {
	a := s.Alloc(id)
	if a == nil || a.NodeID != node {
		return nil, nil, berth.Errorf(berth.NotFound, "node %s has no allocation %s", node, id)
	}
	ref := a.Rest().PE
	if ref == nil {
		return nil, nil, berth.Errorf(berth.Invalid, "allocation %s does not belong to a stream job and has no connections", id)
	}
	pe := s.Resource(ref.UID)
	switch {
	case pe == nil || pe.PE == nil:
		return nil, nil, berth.Refusef(berth.CodeOwnerMissing, "processing element %s of allocation %s no longer exists", ref.UID.Text('p'), id)
	case pe.PE.Launch != ref.Launch:
		return nil, nil, berth.Refusef(berth.CodeStaleLaunch, "allocation %s is launch %d of %s, %s, which is at launch %d", id, ref.Launch, pe.Name, ref.UID.Text('p'), pe.PE.Launch)
	}
	return a, pe, nil
}

// tellConnectivity records which connections a processing element has.
func tellConnectivity(w *Write, in *op.ReportConnectivity) (ch Change[op.Nothing], err error) {
	n, err := prove(w.Snapshot, in.NodeID, in.SecretID, w.Options.AuthToken)
	if err != nil {
		return ch, err
	}
	// The report must be of the launch that the node has. Apply checks the
	// launch again.
	c := &state.SetConnectivity{Alloc: in.AllocID, Launch: in.Launch, State: in.State, Now: w.Now.UnixNano()}
	if c.PE, err = uidOf("PE", in.PE, 'p'); err != nil {
		return ch, err
	}
	a := w.Alloc(in.AllocID)
	if a != nil && a.NodeID != n.ID {
		return ch, berth.Errorf(berth.Denied, "Permission denied: allocation %s is not on node %s", in.AllocID, n.ID)
	}
	if pe := w.Resource(c.PE); a != nil && !a.Ended() && pe != nil && pe.PE != nil && pe.PE.Connectivity == in.State && pe.PE.Launch == in.Launch &&
		a.Rest().PE != nil && *a.Rest().PE == (berth.PERef{UID: c.PE, Launch: c.Launch}) {
		return ch, nil // already known
	}
	return propose[op.Nothing](c, nil), nil
}

// connections works out the connections of a processing element, and notes what
// they follow from.
type connections struct {
	*state.Snapshot
	pe  *berth.Object // the processing element itself
	own *berth.Alloc  // of its present launch; nil: none, and where it listens is not known

	keys    []state.WatchKey                              // what the answer depends on, in the order in which it was looked at
	seen    map[state.WatchKey]bool                       // the same as a set
	nodes   uint64                                        // index of the newest change of a node that was looked at
	others  uint64                                        // of the routes of the namespace, and of the jobs to which they lead
	running map[berth.JobKey]map[berth.PERef]*berth.Alloc // by job, filled by runs
}

// newConnections returns the connections of a processing element, still to be
// worked out. own is the allocation of its present launch, or nil.
func newConnections(s *state.Snapshot, pe *berth.Object, own *berth.Alloc) *connections {
	v := &connections{Snapshot: s, pe: pe, own: own, seen: map[state.WatchKey]bool{}, running: map[berth.JobKey]map[berth.PERef]*berth.Alloc{}}
	v.watch(state.OnResource(pe.UID), state.OnStreamOf(pe.Job))
	return v
}

// watch adds keys to those that the answer depends on, each once. Their order
// is part of the mark, so it must not depend on chance.
func (v *connections) watch(keys ...state.WatchKey) {
	for _, k := range keys {
		if !v.seen[k] {
			v.seen[k] = true
			v.keys = append(v.keys, k)
		}
	}
}

// node returns a node whose addresses are part of the answer, and watches it.
func (v *connections) node(id berth.NodeID) *berth.Node {
	v.watch(state.OnNode(id))
	n := v.Node(id)
	if n != nil {
		v.nodes = max(v.nodes, n.ModifyIndex)
	}
	return n
}

// document returns the document for the processing element, without a version.
func (v *connections) document() (*streams.Document, error) {
	row := v.StreamJob(v.pe.Owner)
	if row == nil {
		return nil, berth.Refusef(berth.CodeOwnerMissing, "%s, %s, is orphaned, and its connections no longer change", v.pe.Name, v.pe.UID.Text('p'))
	}
	// The config lists the ports. It is replaced in an update, and missing for
	// a moment.
	config := v.ResourceNamed(v.pe.Owner, berth.KindConfig, v.pe.Name)
	if config == nil {
		return nil, berth.Refusef(berth.CodeOwnerMissing, "%s, %s, has no config at the moment", v.pe.Name, v.pe.UID.Text('p'))
	}
	v.watch(state.OnResource(config.UID))
	return streams.Describe(&streams.Subject{
		Job: row, PE: v.pe, Config: config.Object.Config, Routes: v.routes(row), Bind: v.bind, Target: v.target,
	}), nil
}

// mark is of a document and of all that is watched for its next change: who has
// it misses nothing by watching the same.
func (v *connections) mark(d *streams.Document) (string, error) {
	b, err := json.Marshal(d)
	if err != nil {
		return "", err
	}
	h := sha256.Sum256(fmt.Appendln(b, v.keys))
	return hex.EncodeToString(h[:16]), nil
}

// routes returns those of the namespace that begin or end at the processing
// element. They can come about by what any job of the namespace exports or
// imports; one whose group does neither is spared that.
func (v *connections) routes(row *berth.StreamJob) []streams.Route {
	j := v.PlannedJob(row)
	if j == nil || !joins(j, v.pe.Object.PE.Group) || !v.Managed(v.pe) {
		return nil
	}
	v.others = v.LastOfRoutes(v.pe.Job.Namespace)
	v.watch(state.OnRoutes(v.pe.Job.Namespace))
	var exports, imports []*berth.Object // its own
	// Its own exports meet the imports of all jobs, and the other way round.
	for o := range v.ResourcesOf(v.pe.Owner, berth.KindExport) {
		if o.Object.Export.PE == v.pe.Name {
			exports = append(exports, o)
		}
	}
	for o := range v.ResourcesOf(v.pe.Owner, berth.KindImport) {
		if o.Object.Import.PE == v.pe.Name {
			imports = append(imports, o)
		}
	}
	var out []streams.Route
	if len(exports) > 0 {
		out = append(out, streams.Routes(exports, v.managed(berth.KindImport))...)
	}
	if len(imports) > 0 {
		out = append(out, streams.Routes(v.managed(berth.KindExport), imports)...)
	}
	for i := range out { // the other job may be deleted, stopped or given up
		for _, k := range []berth.JobKey{out[i].Export.Job, out[i].Import.Job} {
			v.watch(state.OnJob(k), state.OnStreamOf(k))
			v.others = max(v.others, v.LastOfStreams(k))
		}
	}
	return out
}

// joins reports whether a group of a job exports or imports anything.
func joins(j *berth.Job, group string) bool {
	for i := range j.Stream.Exports {
		if g, _ := berth.SplitPort(j.Stream.Exports[i].From); g == group {
			return true
		}
	}
	for i := range j.Stream.Imports {
		if g, _ := berth.SplitPort(j.Stream.Imports[i].Into); g == group {
			return true
		}
	}
	return false
}

// managed returns what the jobs of the namespace have of a kind, of those that
// take part in routes.
func (v *connections) managed(kind string) (out []*berth.Object) {
	for row := range v.StreamJobs() {
		if row.Key.Namespace != v.pe.Job.Namespace || !v.AliveStream(row) {
			continue
		}
		for o := range v.ResourcesOf(row.UID, kind) {
			out = append(out, o)
		}
	}
	return out
}

// bind returns where a port of the processing element is listened on.
func (v *connections) bind(label string) string {
	if v.own == nil {
		return ""
	}
	for _, m := range v.own.PortMappings(v.node(v.own.NodeID)) {
		if m.Label != label {
			continue
		}
		// A task behind a port mapping listens on the port inside its own
		// network, on any address there.
		any, port := "0.0.0.0", m.Value
		if strings.Contains(m.HostIP, ":") {
			any = "::"
		}
		if m.To > 0 {
			port = m.To
		}
		return net.JoinHostPort(any, strconv.Itoa(port))
	}
	return ""
}

// target returns where an input is reached: on its node's address, while the
// present launch of its processing element runs.
func (v *connections) target(owner berth.UID, name, input string) (addr string, launch uint64) {
	pe, config := v.ResourceNamed(owner, berth.KindPE, name), v.ResourceNamed(owner, berth.KindConfig, name)
	// A missing object may be about to be created, so the answer has to follow
	// what the owner has.
	if pe == nil || config == nil {
		v.awaits(owner)
	}
	if pe == nil {
		return "", 0
	}
	v.watch(state.OnResource(pe.UID))
	a := v.runs(pe)
	if config == nil || a == nil {
		return "", pe.PE.Launch
	}
	v.watch(state.OnResource(config.UID))
	// The config says which port label the input listens on.
	label := ""
	for _, in := range config.Object.Config.Inputs {
		if in.Name == input {
			label = in.Port
		}
	}
	for _, m := range a.PortMappings(v.node(a.NodeID)) {
		if m.Label == label {
			return net.JoinHostPort(m.HostIP, strconv.Itoa(m.Value)), pe.PE.Launch
		}
	}
	return "", pe.PE.Launch
}

// awaits notes that something of an incarnation may yet be made.
func (v *connections) awaits(owner berth.UID) {
	if row := v.StreamJob(owner); row != nil {
		v.watch(state.OnResourcesOf(row.Key))
	}
}

// runs returns the allocation of a processing element's present launch, nil if
// it does not run.
func (v *connections) runs(pe *berth.Object) *berth.Alloc {
	of, ok := v.running[pe.Job]
	if !ok { // once for all peers of a job
		of = runningOf(v.Snapshot, pe.Job)
		v.running[pe.Job] = of
	}
	v.watch(state.OnAllocsOfPE(pe.UID))
	return of[berth.PERef{UID: pe.UID, Launch: pe.PE.Launch}]
}

// runningOf returns the allocations of the stream jobs of a name that run and are
// to, by the launch that they are of.
func runningOf(s *state.Snapshot, k berth.JobKey) map[berth.PERef]*berth.Alloc {
	of := map[berth.PERef]*berth.Alloc{}
	for a := range s.AllocsOf(k) {
		if ref := a.Rest().PE; ref != nil && a.Desired == berth.DesiredRun && a.Client == berth.ClientRunning {
			of[*ref] = a
		}
	}
	return of
}

package api

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"berth"
	"berth/internal/acl"
	"berth/internal/state"
	"berth/op"
)

// ui registers what the web UI needs in one answer.
func (s *Server) ui() {
	read(s, op.ReadUIStart, uiStart)
	read(s, op.ReadUIOverview, uiOverview)
	read(s, op.ReadUITopology, uiTopology)
}

// uiStart tells who answers and what the caller may do. It is open, so that the
// UI can say that a token is needed, or is not valid.
func uiStart(r *Read, _ *op.Query) (op.UIStart, error) {
	r.Ready()
	out := op.UIStart{Index: r.Index, SignedIn: true, Namespaces: []string{}, Rights: map[string][]acl.Capability{}}
	if s := r.server; s != nil {
		out.Region, out.ACL = s.Region, s.guard != nil
		if s.Self != nil {
			out.Version = s.Self().Member.Tags["build"]
		}
	}
	if out.ACL {
		// Who has no token may have rights too, by the policy "anonymous". A token
		// that is not valid is asked about once, since each question counts as
		// another guess.
		out.Rights[""] = []acl.Capability{}
		err := r.may(acl.AnyToken, "")
		switch out.SignedIn = r.Caller.Token != "" && err == nil; {
		case berth.KindOf(err) == berth.Limited:
			return out, err
		case r.Caller.Token != "" && !out.SignedIn:
			return out, nil
		}
		if t := r.self(); t != nil && out.SignedIn {
			v := tokenView(r.Snapshot, t)
			out.TokenName, out.TokenType, out.TokenExpires = t.Name, t.Type, v.ExpirationTime
		}
		out.Rights[""] = r.rightsIn("", func(c acl.Capability) bool { return !c.Namespaced() })
		if r.may(acl.Management, "") == nil {
			out.Rights[""] = append(out.Rights[""], acl.Management)
		}
	}
	for n := range r.Namespaces() {
		if len(out.Namespaces) == op.MaxUINamespaces {
			break
		}
		if r.may(acl.AnyToken, n.Name) != nil {
			continue
		}
		out.Namespaces = append(out.Namespaces, n.Name)
		if out.ACL {
			out.Rights[n.Name] = r.rightsIn(n.Name, acl.Capability.Namespaced)
		}
	}
	return out, nil
}

// rightsIn returns the capabilities of a kind that the caller has in a namespace.
func (r *Read) rightsIn(namespace string, kind func(acl.Capability) bool) []acl.Capability {
	has := []acl.Capability{}
	for _, c := range acl.All() {
		if kind(c) && r.may(c, namespace) == nil {
			has = append(has, c)
		}
	}
	return has
}

// uiOverview sums up what the caller may see.
func uiOverview(r *Read, _ *op.Query) (out op.UIOverview, err error) {
	index, keys := uint64(0), []state.WatchKey{}
	for _, t := range []state.Table{state.Jobs, state.Summaries, state.Evals, state.Deployments, state.Nodes} {
		index, keys = max(index, r.LastChange(t)), append(keys, state.OnTable(t))
	}
	r.At(index, keys...)
	if err := r.somewhere(op.ReadUIOverview.Need); err != nil {
		return out, err
	}
	if r.Waits() {
		return out, nil
	}
	out.Index = r.Index
	if b := r.server.Events; b != nil {
		out.Rates = op.UIRates(b.LastMinute(func(namespace string) bool {
			return (r.Space() == berth.AllNamespaces || r.Space() == namespace) && r.visible(op.ReadUIOverview.Need, namespace)
		}))
	}
	var found attention
	found.jobs(r, &out)
	found.evals(r, &out)
	if r.may(acl.NodeRead, "") == nil {
		found.nodes(r, &out)
	}
	slices.SortStableFunc(found, func(a, b op.UIAttention) int {
		return cmp.Or(cmp.Compare(slices.Index(uiKinds, a.Kind), slices.Index(uiKinds, b.Kind)), cmp.Compare(b.Since, a.Since))
	})
	shown := min(len(found), op.MaxUIAttention)
	out.Attention, out.More = found[:shown:shown], len(found)-shown
	if out.Attention == nil {
		out.Attention = []op.UIAttention{}
	}
	return out, nil
}

// somewhere returns why the caller does not have a right in any of the namespaces
// that it asks for.
func (r *Read) somewhere(need acl.Capability) (err error) {
	if r.Space() != berth.AllNamespaces {
		return r.may(need, r.Space())
	}
	for n := range r.Namespaces() {
		if err = r.may(need, n.Name); err == nil {
			return nil
		}
	}
	return err
}

// uiKinds is the order of urgency.
var uiKinds = []string{op.UIDeploymentFailed, op.UIBlocked, op.UINodeDown, op.UINodeDisconnected, op.UIPromotion, op.UIFailedAllocations, op.UIPoolFull}

// uiTopology shows all nodes in columns.
func uiTopology(r *Read, in *op.UITopologyQuery) (out op.UITopology, err error) {
	index, keys := r.LastChange(state.Nodes), []state.WatchKey{state.OnTable(state.Nodes)}
	r.At(max(index, r.LastChange(state.Allocs)), append(keys, state.OnTable(state.Allocs))...)
	if in.Job != "" {
		if err := r.may(acl.ReadJob, r.Space()); err != nil {
			return out, err
		}
	}
	if r.Waits() {
		return out, nil
	}
	rows := slices.SortedFunc(r.Nodes(), func(a, b *berth.Node) int {
		return cmp.Or(cmp.Compare(a.NodePool, b.NodePool), cmp.Compare(a.Datacenter, b.Datacenter), cmp.Compare(a.Meta["rack"], b.Meta["rack"]),
			cmp.Compare(a.Name, b.Name), bytes.Compare(a.ID[:], b.ID[:]))
	})
	of := map[berth.NodeID]int{}
	if in.Job != "" {
		for a := range r.AllocsOf(berth.JobKey{Namespace: r.Space(), ID: berth.JobID(in.Job)}) {
			if a.Occupies() {
				of[a.NodeID]++
			}
		}
	}
	out.Index = r.Index
	pools, centers, racks := column(&out.Pools), column(&out.Datacenters), column(&out.Racks)
	for _, n := range rows {
		u := r.Usage(n.Number)
		out.ID, out.Name, out.State = append(out.ID, n.ID), append(out.Name, n.Name), append(out.State, nodeState(n))
		out.Pool, out.Datacenter, out.Rack = append(out.Pool, pools(n.NodePool)), append(out.Datacenter, centers(n.Datacenter)), append(out.Rack, racks(n.Meta["rack"]))
		out.CPU, out.CPUUsed = append(out.CPU, u.Capacity.CPU), append(out.CPUUsed, u.Used.CPU)
		out.Memory, out.MemoryUsed = append(out.Memory, u.Capacity.MemoryMB), append(out.MemoryUsed, u.Used.MemoryMB)
		out.Disk, out.DiskUsed = append(out.Disk, u.Capacity.DiskMB), append(out.DiskUsed, u.Used.DiskMB)
		out.Allocs = append(out.Allocs, int(u.Allocs))
		if in.Job != "" {
			out.OfJob = append(out.OfJob, of[n.ID])
		}
	}
	return out, nil
}

// column returns the place of a value in a list of different values, and adds it
// if it is new.
func column(values *[]string) func(string) int {
	at := map[string]int{}
	return func(v string) int {
		i, ok := at[v]
		if !ok {
			i = len(*values)
			at[v] = i
			*values = append(*values, v)
		}
		return i
	}
}

// nodeState is the status of a node, or, if it is ready, why it takes no
// allocations.
func nodeState(n *berth.Node) string {
	switch {
	case n.Status != berth.NodeReady:
		return n.Status
	case n.Draining():
		return "draining"
	case n.SchedulingEligibility == berth.NodeIneligible:
		return "ineligible"
	}
	return n.Status
}

// nanos is a time as the API writes it in rows.
func nanos(seconds int64) int64 { return seconds * int64(time.Second) }

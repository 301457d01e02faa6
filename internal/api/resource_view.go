package api

import (
	"net"
	"slices"
	"strconv"

	"berth"
	"berth/internal/state"
	"berth/op"
)

// resourceView shows an object of any kind.
func (r *Read) resourceView(o *resource) op.Resource {
	switch {
	case o.job != nil:
		return jobResource(r.Snapshot, o.job)
	case o.owned != nil:
		return r.ownedView(o.owned)
	}
	return allocResource(r.Snapshot, o.alloc)
}

// ownedView shows what a stream job owns.
func (r *Read) ownedView(o *berth.Object) op.Resource {
	v := op.Resource{
		Kind: o.Kind, Namespace: o.Job.Namespace, Name: o.Name, UID: textOf(o), OwnerRefs: ownerOf(o), Generation: o.Generation,
		Nodes: o.Nodes, Orphaned: o.Owner.IsZero(), CreateIndex: o.CreateIndex, ModifyIndex: o.ModifyIndex,
	}
	if o.PE != nil {
		v.Status, v.LaunchCount = o.PE.Connectivity, o.PE.Launch
	}
	if o.Kind == berth.KindEndpoint {
		v.Addresses = r.addresses(o)
	}
	return v
}

// addresses returns where the ports are reached of the processing element that an
// endpoint has the name of: that of the same owner and no other.
func (r *Read) addresses(endpoint *berth.Object) map[string]string {
	pe := r.ResourceNamed(endpoint.Owner, berth.KindPE, endpoint.Name)
	if pe == nil {
		return nil
	}
	of, ok := r.running[pe.Job]
	if !ok { // once for all endpoints of a job
		if r.running == nil {
			r.running = map[berth.JobKey]map[berth.PERef]*berth.Alloc{}
		}
		of = runningOf(r.Snapshot, pe.Job)
		r.running[pe.Job] = of
	}
	a := of[berth.PERef{UID: pe.UID, Launch: pe.PE.Launch}]
	if a == nil {
		return nil
	}
	n := r.Node(a.NodeID)
	if n != nil {
		// The address is the node's, so the answer changes with the node, too.
		r.index = max(r.index, n.ModifyIndex)
		if k := state.OnNode(n.ID); !slices.Contains(r.keys, k) {
			r.keys = append(r.keys, k)
		}
	}
	out := map[string]string{}
	for _, m := range a.PortMappings(n) {
		out[m.Label] = net.JoinHostPort(m.HostIP, strconv.Itoa(m.Value))
	}
	return out
}

// allocResource returns the view of an allocation. A launch of a processing
// element has that element's generation.
func allocResource(s *state.Snapshot, a *berth.Alloc) op.Resource {
	v := op.Resource{
		Kind: berth.KindAlloc, Namespace: a.Job.Namespace, Name: a.Name(), ID: a.ID.String(), UID: a.UID().Text('a'), OwnerRefs: a.Owners(),
		Generation: a.Job.Version, Status: a.Client.String(), Orphaned: a.Orphaned, CreateIndex: a.CreateIndex, ModifyIndex: a.ModifyIndex,
	}
	if ref := a.Rest().PE; ref != nil {
		v.LaunchCount = ref.Launch
		if pe := s.Resource(ref.UID); pe != nil {
			v.Generation = pe.Generation
		}
	}
	if s.Zombie(a) {
		v.Status = op.StatusZombie
	}
	return v
}

// jobResource returns the view of a job. For a stream job, generation and phase
// are those of its submission.
func jobResource(s *state.Snapshot, j *berth.Job) op.Resource {
	v := op.Resource{
		Kind: berth.KindJob, Namespace: j.Namespace, Name: string(j.ID), UID: j.UID.Text('j'), OwnerRefs: []berth.OwnerRef{},
		Generation: j.Version, CreateIndex: j.CreateIndex, ModifyIndex: j.ModifyIndex, Deletion: deletionView(s, s.Deletion(j.Key())),
	}
	// A child names its parent, and holds it while that is deleted in the
	// foreground; one of an earlier parent of that name is not of this one.
	if parent := s.Job(berth.JobKey{Namespace: j.Namespace, ID: j.ParentID}); j.ParentID != "" && parent != nil && parent.UID.Index < j.UID.Index {
		v.OwnerRefs = append(v.OwnerRefs, berth.OwnerRef{Kind: berth.KindJob, Name: string(parent.ID), UID: parent.UID.Text('j'), Block: true})
	}
	v.Status, _ = s.Summary(j.Key()).Status(j)
	if row := s.StreamOf(j.Key()); row != nil {
		v.Generation, v.Phase = row.Generation, row.Phase
	}
	return v
}

package api

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"berth"
	"berth/internal/acl"
	"berth/internal/state"
	"berth/op"
)

// allocs registers the operations on allocations and on their tasks.
func (s *Server) allocs() {
	readList(s, op.ListAllocs, listAllocs)
	read(s, op.ReadAlloc, readAlloc)
	s.logs()
	s.files()
	s.execs()
	s.actions()
	write(s, op.HaltAlloc, stopAlloc)
	effect(s, op.RestartTask, s.restartAlloc)
	effect(s, op.SignalTask, s.signalAlloc)
}

// listAllocs returns the allocations that the caller may see, by creation, or
// by ID if a prefix is given. Task states are left out on request; resources
// come on request only.
func listAllocs(r *Read, in *op.AllocsQuery) ([]op.AllocStub, error) {
	r.Table(state.Allocs)
	r.Also(state.Nodes) // whose names are shown
	r.Also(state.Jobs)  // what was replaced before is forgotten with the job
	states := in.TaskStates == nil || *in.TaskStates
	l := byTime(r.Query, r.AllocsByTime, func(a *berth.Alloc) (uint64, berth.AllocID) { return a.CreateIndex, a.ID })
	if r.Query.Prefix != "" {
		var err error
		if l, err = byRange(r.Query, r.AllocRange, func(a *berth.Alloc) berth.AllocID { return a.ID }); err != nil {
			return nil, err
		}
	}
	l.source = r.allocSource
	// A filter sees the whole allocation, which is only put together for fields
	// that the row of a list does not have.
	l.seen = []seen[*berth.Alloc]{
		sees(func(a *berth.Alloc) op.AllocStub { return allocStub(r.Snapshot, a, false, false) }, "TaskStates", "AllocatedResources"),
		sees(func(a *berth.Alloc) op.Alloc { return allocView(r.Snapshot, a) }),
	}
	return page(r, l, func(a *berth.Alloc) bool { return r.visible(op.ListAllocs.Need, a.Job.Namespace) },
		func(a *berth.Alloc) op.AllocStub { return allocStub(r.Snapshot, a, states, in.Resources) })
}

// alloc returns the allocation that a request names, if the caller has the
// right.
func (r *Read) alloc(id string, need acl.Capability) (*berth.Alloc, error) {
	full, err := berth.ParseID[berth.Alloc](id)
	if err != nil {
		return nil, err
	}
	a := r.Alloc(full)
	absent := r.absent(need, "alloc not found: %s", id)
	if a == nil {
		return nil, absent()
	}
	return a, mayOf(r.may, need, a.Job.Namespace, absent)
}

// readAlloc returns one allocation in full, by its complete ID.
func readAlloc(r *Read, in *op.AllocRef) (op.Alloc, error) {
	a, err := r.alloc(in.AllocID, op.ReadAlloc.Need)
	if err != nil {
		return op.Alloc{}, err
	}
	r.At(a.ModifyIndex, state.OnAlloc(a.ID))
	if a.Rest().PE != nil && a.Client == berth.ClientFailed { // the next launch may make it a zombie
		r.At(max(a.ModifyIndex, r.LastOfStreams(a.Key())), state.OnAlloc(a.ID), state.OnResourcesOf(a.Key()))
	}
	return allocView(r.Snapshot, a), nil
}

// allocView shows an allocation with all that follows from its row.
func allocView(s *state.Snapshot, a *berth.Alloc) op.Alloc {
	m := a.Rest()
	v := op.Alloc{
		ID: a.ID, Namespace: a.Job.Namespace, EvalID: a.EvalID, Name: a.Name(), NodeID: a.NodeID, JobID: a.Job.ID, Job: a.Job,
		TaskGroup: a.Group.Name, DesiredStatus: a.Desired, DesiredDescription: m.DesiredDescription,
		ClientStatus: a.Client, ClientDescription: m.ClientDescription, TaskStates: op.ShowTaskStates(state.TaskStates(a)),
		DeploymentID: m.DeploymentID, DeploymentStatus: m.DeploymentStatus, FollowupEvalID: m.FollowupEval,
		PreviousAllocation: m.Previous, NextAllocation: m.Next, NetworkStatus: m.Network,
		PreemptedAllocations: m.Evicted, PreemptedByAllocation: m.EvictedBy,
		UnknownSince: m.UnknownSince, UID: a.UID().Text('a'), OwnerUID: a.Job.UID.Text('j'), OwnerRefs: a.Owners(), PE: peRef(s, a),
		CreateIndex: a.CreateIndex, ModifyIndex: a.ModifyIndex, AllocModifyIndex: a.AllocModifyIndex, CreateTime: a.CreateTime, ModifyTime: a.ModifyTime,
	}
	if m.NoShutdownDelay {
		v.DesiredTransition.NoShutdownDelay = &m.NoShutdownDelay
	}
	// Clients know one wish to move an allocation; which of the two reasons it
	// has does not matter to them.
	if m.Migrate {
		v.DesiredTransition.Migrate = &m.Migrate
	}
	if m.Relocate {
		v.DesiredTransition.Migrate = &m.Relocate
	}
	if m.Reschedule {
		v.DesiredTransition.Reschedule = &m.Reschedule
	}
	if m.ForceReschedule {
		v.DesiredTransition.ForceReschedule = &m.ForceReschedule
	}
	n := s.Node(a.NodeID)
	if n != nil {
		v.NodeName = n.Name
	}
	v.AllocatedResources = allocated(a, n)
	v.Metrics = s.Metrics(a)
	v.RescheduleTracker = tracker(s, a)
	// These are what the job asks for; what the allocation got stands in
	// AllocatedResources.
	v.TaskResources = map[string]*berth.Resources{}
	for _, t := range a.Group.Tasks {
		v.TaskResources[t.Name] = t.Resources
	}
	v.Resources = totalResources(a, v.AllocatedResources)
	v.SharedResources = &berth.Resources{DiskMB: v.Resources.DiskMB, Networks: v.AllocatedResources.Shared.Networks}
	return v
}

// tracker returns the reschedule events that led to an allocation, nil if there
// are none.
func tracker(s *state.Snapshot, a *berth.Alloc) *op.RescheduleTracker {
	r := s.Reschedules(a.Job.UID, a.Group.Name, a.Index)
	if r == nil {
		return nil
	}
	t := &op.RescheduleTracker{}
	for _, e := range r.Events {
		if e.RescheduleTime <= a.CreateTime { // later ones are those of its successors
			t.Events = append(t.Events, e)
		}
	}
	if len(t.Events) == 0 {
		return nil
	}
	return t
}

// allocStub returns an allocation as lists show it. states and resources add
// the task states and what was allocated; both cost time in long lists.
func allocStub(s *state.Snapshot, a *berth.Alloc, states, resources bool) op.AllocStub {
	m := a.Rest()
	v := op.AllocStub{
		ID: a.ID, EvalID: a.EvalID, Name: a.Name(), Namespace: a.Job.Namespace, NodeID: a.NodeID, JobID: a.Job.ID, JobType: a.Job.Type,
		JobVersion: a.Job.Version, TaskGroup: a.Group.Name, DesiredStatus: a.Desired, DesiredDescription: m.DesiredDescription,
		ClientStatus: a.Client, ClientDescription: m.ClientDescription, DeploymentStatus: m.DeploymentStatus,
		FollowupEvalID: m.FollowupEval, NextAllocation: m.Next, RescheduleTracker: tracker(s, a),
		PreemptedAllocations: m.Evicted, PreemptedByAllocation: m.EvictedBy,
		CreateIndex: a.CreateIndex, ModifyIndex: a.ModifyIndex, CreateTime: a.CreateTime, ModifyTime: a.ModifyTime,
	}
	if ref := m.PE; ref != nil {
		v.OwnerRefs, v.PE = a.Owners(), &op.PERef{Name: v.Name, UID: ref.UID.Text('p'), LaunchCount: ref.Launch}
	}
	n := s.Node(a.NodeID)
	if n != nil {
		v.NodeName = n.Name
	}
	if states {
		v.TaskStates = op.ShowTaskStates(state.TaskStates(a))
	}
	if resources {
		v.AllocatedResources = allocated(a, n)
	}
	return v
}

// allocSource is what the row of an allocation is made of.
func (r *Read) allocSource(a *berth.Alloc) source {
	return source{a: a, b: r.Node(a.NodeID), c: r.Reschedules(a.Job.UID, a.Group.Name, a.Index)}
}

// allocStubs shows some allocations, the oldest first, with their task states.
// Allocations of one index are sorted by name and ID.
func (r *Read) allocStubs(list []*berth.Alloc) []op.AllocStub {
	r.Also(state.Allocs) // those that are gone are missing
	r.Also(state.Nodes)  // their names are shown
	r.Also(state.Jobs)   // what was replaced before is forgotten with the job
	out := []op.AllocStub{}
	if r.Waits() {
		return out
	}
	for _, a := range list {
		out = append(out, allocStub(r.Snapshot, a, true, false))
	}
	slices.SortFunc(out, func(a, b op.AllocStub) int {
		return cmp.Or(cmp.Compare(a.CreateIndex, b.CreateIndex), strings.Compare(a.Name, b.Name), bytes.Compare(a.ID[:], b.ID[:]))
	})
	return out
}

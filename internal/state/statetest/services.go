package statetest

import (
	"slices"

	"berth"
	"berth/internal/state"

	"pgregory.net/rapid"
)

// service draws the registration or removal of a service: usually of a running
// allocation, sometimes of one that has ended or is on another node.
func (r *Random) service(t *rapid.T, s *state.Snapshot) state.Command {
	name := rapid.SampledFrom([]string{"web", "db"}).Draw(t, "service")
	if regs := slices.Collect(s.Services()); len(regs) > 0 && rapid.IntRange(0, 3).Draw(t, "remove") == 0 {
		reg := rapid.SampledFrom(regs).Draw(t, "registration")
		if rapid.Bool().Draw(t, "by hand") {
			return &state.DeleteServices{Namespace: reg.Namespace, Name: name, IDs: []string{reg.ID}}
		}
		return &state.DeleteServices{Node: reg.NodeID, IDs: []string{reg.ID, "gone"}}
	}
	allocs := slices.Collect(s.Allocs())
	if len(allocs) == 0 {
		return &state.UpsertServices{Node: ID[berth.Node](1)}
	}
	a := rapid.SampledFrom(allocs).Draw(t, "allocation")
	node := a.NodeID
	if rapid.IntRange(0, 7).Draw(t, "another node") == 0 {
		node = ID[berth.Node](rapid.IntRange(1, 7).Draw(t, "node"))
	}
	return &state.UpsertServices{Node: node, Services: []*berth.ServiceRegistration{{
		ID: name + "-" + a.ID.String(), ServiceName: name, Namespace: a.Job.Namespace, NodeID: node, JobID: a.Job.ID, AllocID: a.ID,
		Address: "10.0.0.1", Port: rapid.IntRange(0, 2).Draw(t, "port"), Tags: rapid.SampledFrom([][]string{nil, {"a"}}).Draw(t, "tags"),
	}}}
}

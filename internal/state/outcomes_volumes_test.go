package state_test

import (
	"berth"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// ends reports that the allocations of a job on a node are complete.
func (r *script) ends(job berth.JobID, n, minute int) *state.ReportAllocs {
	c := &state.ReportAllocs{Node: node(n), Now: at(minute)}
	for a := range r.s.Allocs() {
		if a.NodeID == c.Node && a.Job.ID == job && !a.Ended() {
			c.Updates = append(c.Updates, state.AllocUpdate{ID: a.ID, Client: berth.ClientComplete})
		}
	}
	return c
}

// puts is the plan that places an instance of a job's only group on a node.
func puts(eval int, index uint32, n, minute int) *state.ApplyPlan {
	return &state.ApplyPlan{Eval: statetest.ID[berth.Eval](eval), Place: []berth.Placement{{Index: index, NodeID: node(n)}}, Now: at(minute)}
}

// hostVolumes has the life of host volumes of node 1: made, offered by the node,
// claimed by instances of the job "db", and deleted.
func (r *script) hostVolumes() {
	r.does(&state.UpsertNamespaces{Namespaces: []*berth.Namespace{{Name: "other"}}})
	create := &state.PutHostVolume{Volume: volumeOf("v1", "data", "default"), Create: true, Now: at(31)}
	nowhere, unnamed := volumeOf("v2", "more", "default"), volumeOf("v2", "more", "none")
	nowhere.NodeID = node(99)
	r.refuses(berth.NotFound,
		&state.PutHostVolume{Volume: volumeOf("v1", "data", "default"), Now: at(31)}, // it is not there yet
		&state.PutHostVolume{Volume: nowhere, Create: true, Now: at(31)})
	r.refuses(berth.Invalid, &state.PutHostVolume{Volume: unnamed, Create: true, Now: at(31)})
	r.does(create)
	r.refuses(berth.Conflict, create,
		&state.PutHostVolume{Volume: volumeOf("v2", "data", "other"), Create: true, Now: at(31)}, // the node has that name
		&state.PutHostVolume{Volume: volumeOf("v1", "renamed", "default"), Now: at(31)})
	r.does(offers("data", "v1")) // it is ready
	larger := volumeOf("v1", "data", "default")
	larger.CapacityBytes, larger.Parameters = 1<<30, map[string]string{"mode": "0700"}
	r.does(&state.PutHostVolume{Volume: larger, Now: at(32)})

	// Instances claim it, one after the other.
	r.does(statetest.Register(sticky(r.T, "2"), 10), puts(10, 0, 1, 33))
	r.refuses(berth.Conflict, &state.DeleteHostVolume{Namespace: "default", ID: "v1"})
	claim := func() (id string) {
		for c := range r.s.HostVolumeClaims() {
			id = c.ID
		}
		return id
	}
	first := claim()
	r.refuses(berth.NotFound, &state.DeleteHostVolumeClaim{Namespace: "other", ID: first})
	r.does(r.ends("db", 1, 34), &state.DeleteHostVolumeClaim{Namespace: "default", ID: first})
	r.refuses(berth.NotFound, &state.DeleteHostVolumeClaim{Namespace: "default", ID: first})
	r.does(puts(10, 1, 1, 35))
	r.does(r.ends("db", 1, 36))
	if claim() == "" {
		r.Fatal("the second instance has no claim")
	}
	r.refuses(berth.NotFound, &state.DeleteHostVolume{Namespace: "other", ID: "v1"})
	r.does(&state.DeleteHostVolume{Namespace: "default", ID: "v1"}) // with the claim
	r.refuses(berth.NotFound, &state.DeleteHostVolume{Namespace: "default", ID: "v1"})
	// Another one never gets ready.
	r.does(&state.PutHostVolume{Volume: volumeOf("v3", "scratch", "other"), Create: true, Now: at(37)},
		&state.SetNodeStatus{ID: node(1), Status: berth.NodeDown, Now: at(38)},
		&state.DeleteHostVolume{Namespace: "other", ID: "v3"})
}

// csiVolumes has the life of a CSI volume, "data", and of claims on it by the job
// "files" on nodes 2 and 3.
func (r *script) csiVolumes() {
	r.does(runsCSI(2), runsCSI(3))
	r.refuses(berth.NotFound,
		&state.DeleteCSIVolume{Namespace: "default", ID: "data"},
		&state.DetachCSIVolume{Namespace: "default", ID: "data", NodeID: node(2)})
	unmade, nowhere := csiVolume("data"), csiVolume("data")
	unmade.ExternalID, nowhere.Namespace = "", "none"
	r.refuses(berth.Invalid, &state.PutCSIVolume{Volume: nowhere, Now: at(40)})
	r.does(&state.PutCSIVolume{Volume: unmade, Now: at(40)}, &state.PutCSIVolume{Volume: csiVolume("data"), Now: at(41)})
	renamed := csiVolume("data")
	renamed.ExternalID = "x-other"
	r.refuses(berth.Conflict, &state.PutCSIVolume{Volume: renamed, Now: at(41)})

	r.does(statetest.Register(csiJob(r.T, "files", berth.AccessWriter, false), 20))
	r.releasedClaim()
	r.lostClaim()
	r.forgottenClaim()
	r.refuses(berth.NotFound, &state.DeleteCSIVolume{Namespace: "default", ID: "data"})
}

// claims places an instance of the job "files" on a node, and returns the claim
// that it has then.
func (r *script) claims(index uint32, n, minute int) *state.CSIClaim {
	r.does(puts(20, index, n, minute))
	for c := range r.s.OpenCSIClaims() {
		if c.State == state.ClaimTaken {
			return c
		}
	}
	r.Fatal("there is no claim")
	return nil
}

// moves is a step of a claim.
func moves(c *state.CSIClaim, from string) *state.StepCSIClaim {
	return &state.StepCSIClaim{Namespace: c.Namespace, VolumeID: c.VolumeID, AllocID: c.AllocID, From: from}
}

// is fails the test unless a claim has a state; "" is that of one that is gone.
func (r *script) is(c *state.CSIClaim, want string) {
	r.Helper()
	got := ""
	if x := r.s.CSIClaim(c.Namespace, c.VolumeID, c.AllocID); x != nil {
		got = x.State
	}
	if got != want {
		r.Fatalf("the claim is %q, not %q", got, want)
	}
}

// releasedClaim has a claim whose allocation ends.
func (r *script) releasedClaim() {
	c := r.claims(0, 2, 42)
	attached, odd := moves(c, state.ClaimTaken), moves(c, state.ClaimTaken)
	attached.Context, odd.Context = map[string]string{"device": "/dev/sdb"}, map[string]string{"": "no name"}
	r.refuses(berth.Conflict, moves(c, state.ClaimReleasing))
	r.refuses(berth.Invalid, odd)
	r.does(attached)
	r.is(c, state.ClaimPublished)
	r.refuses(berth.Invalid, moves(c, state.ClaimPublished)) // asks for nothing
	narrow := csiVolume("data")
	narrow.RequestedCapabilities = narrow.RequestedCapabilities[:1]
	r.refuses(berth.Conflict,
		&state.PutCSIVolume{Volume: narrow, Now: at(43)}, // the claim needs more
		&state.DeleteCSIVolume{Namespace: "default", ID: "data", Force: true},
		&state.DetachCSIVolume{Namespace: "default", ID: "data", NodeID: node(2), Force: true})
	r.does(&state.SetNodeStatus{ID: node(2), Status: berth.NodeDown, Now: at(44)})
	r.is(c, state.ClaimLost)
	r.does(&state.SetNodeStatus{ID: node(2), Status: berth.NodeReady, Now: at(45)})
	r.is(c, state.ClaimPublished)
	r.does(r.ends("files", 2, 46))
	r.is(c, state.ClaimReleasing)
	r.refuses(berth.Conflict, deposed(moves(c, state.ClaimReleasing)), &state.DeleteCSIVolume{Namespace: "default", ID: "data"})
	r.does(moves(c, state.ClaimReleasing))
	r.is(c, state.ClaimDetached)
	r.does(moves(c, state.ClaimDetached))
	r.is(c, "")
	r.refuses(berth.NotFound, moves(c, state.ClaimDetached))
}

// lostClaim has a claim that an operator gives up after its node went down.
func (r *script) lostClaim() {
	c := r.claims(1, 3, 47)
	r.does(&state.SetNodeStatus{ID: node(3), Status: berth.NodeDown, Now: at(48)})
	r.is(c, state.ClaimLost)
	r.refuses(berth.NotFound, &state.DetachCSIVolume{Namespace: "default", ID: "data", NodeID: node(2)}) // has no claim
	r.does(&state.DetachCSIVolume{Namespace: "default", ID: "data", NodeID: node(3)})
	r.is(c, state.ClaimDetached)
	r.refuses(berth.Conflict, &state.DeleteCSIVolume{Namespace: "default", ID: "data"})
	r.does(&state.DetachCSIVolume{Namespace: "default", ID: "data", NodeID: node(3), Force: true})
	r.is(c, "")
}

// forgottenClaim has a claim that goes with its volume, by force.
func (r *script) forgottenClaim() {
	c := r.claims(0, 2, 49)
	r.does(&state.SetNodeStatus{ID: node(2), Status: berth.NodeDown, Now: at(50)}, moves(c, state.ClaimLost))
	r.is(c, state.ClaimDetached)
	r.does(&state.DeleteCSIVolume{Namespace: "default", ID: "data", Force: true})
	r.is(c, "")
	r.does(&state.SetNodeStatus{ID: node(2), Status: berth.NodeReady, Now: at(51)})
}

package state_test

import (
	"bytes"
	"strings"
	"testing"

	"berth"
	"berth/internal/invariant"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// volumeOf is a host volume of the first node.
func volumeOf(id, name, namespace string) *berth.HostVolume {
	return &berth.HostVolume{
		ID: id, Name: name, Namespace: namespace, PluginID: "mkdir", NodeID: statetest.ID[berth.Node](1), HostPath: "/volumes/" + id,
		RequestedCapabilities: []berth.VolumeCapability{{AttachmentMode: berth.AttachFilesystem, AccessMode: berth.AccessNodeSingleWriter}},
	}
}

// offers registers the first node again with volumes by name and ID.
func offers(pairs ...string) *state.RegisterNode {
	return statetest.AddNode(1, 4000, 4000, func(n *berth.Node) {
		n.HostVolumes = map[string]berth.HostVolumeInfo{}
		for i := 0; i < len(pairs); i += 2 {
			n.HostVolumes[pairs[i]] = berth.HostVolumeInfo{ID: pairs[i+1], Path: "/volumes/" + pairs[i+1]}
		}
	})
}

// A volume is ready while its node offers it, and unavailable while that is down
// or offers it no longer.
func TestAHostVolumeFollowsItsNode(t *testing.T) {
	store, log := statetest.New(t, statetest.AddNode(1, 4000, 4000), &state.UpsertNamespaces{Namespaces: []*berth.Namespace{{Name: "other"}}})
	is := func(want string) {
		t.Helper()
		if got := store.Snapshot().HostVolume("v1").State; got != want {
			t.Errorf("the volume is %s, not %s", got, want)
		}
	}
	log.Must(t, &state.PutHostVolume{Volume: volumeOf("v1", "data", "default"), Create: true, Now: 5})
	is(berth.HostVolumePending)
	log.Must(t, offers("data", "v1"))
	is(berth.HostVolumeReady)
	log.Must(t, &state.SetNodeStatus{ID: statetest.ID[berth.Node](1), Status: berth.NodeDown, Now: 9})
	is(berth.HostVolumeUnavailable)
	log.Must(t, &state.SetNodeStatus{ID: statetest.ID[berth.Node](1), Status: berth.NodeReady, Now: 10})
	is(berth.HostVolumeReady)
	log.Must(t, offers())
	is(berth.HostVolumeUnavailable)

	var saved bytes.Buffer
	if err := store.Snapshot().Save(&saved); err != nil {
		t.Fatal(err)
	}
	again, err := state.Load(&saved)
	if err != nil || again.Hash() != store.Snapshot().Hash() || again.LastChange(state.HostVolumes) != store.Snapshot().LastChange(state.HostVolumes) {
		t.Errorf("loaded it is another state: %v", err)
	}
	for range again.HostVolumesOn(statetest.ID[berth.Node](1)) {
		return
	}
	t.Error("loaded, the node has no volume")
}

// What names another namespace's volume is answered as if it were not there, and
// one name is given once on a node.
func TestHostVolumesAreRefused(t *testing.T) {
	store, log := statetest.New(t, offers("static", ""), &state.UpsertNamespaces{Namespaces: []*berth.Namespace{{Name: "other"}}},
		&state.PutHostVolume{Volume: volumeOf("v1", "data", "default"), Create: true, Now: 5})
	foreign := volumeOf("v1", "data", "other")
	nowhere := volumeOf("v2", "more", "default")
	nowhere.NodeID = statetest.ID[berth.Node](9)
	escape := volumeOf("v2", "more", "default")
	escape.PluginID = "../../bin/sh"
	moved := volumeOf("v1", "renamed", "default")
	before := store.Snapshot().Hash()
	for name, c := range map[string]struct {
		cmd  state.Command
		kind berth.Kind
		want string
	}{
		"exists":          {&state.PutHostVolume{Volume: volumeOf("v1", "x", "default"), Create: true}, berth.Conflict, "exists already"},
		"unknown":         {&state.PutHostVolume{Volume: volumeOf("v9", "x", "default")}, berth.NotFound, "not found"},
		"other namespace": {&state.PutHostVolume{Volume: foreign}, berth.NotFound, "not found"},
		"no namespace":    {&state.PutHostVolume{Volume: volumeOf("v2", "x", "nope"), Create: true}, berth.Invalid, "namespace"},
		"no node":         {&state.PutHostVolume{Volume: nowhere, Create: true}, berth.NotFound, "node not found"},
		"same name":       {&state.PutHostVolume{Volume: volumeOf("v2", "data", "other"), Create: true}, berth.Conflict, "has a host volume data already"},
		"static":          {&state.PutHostVolume{Volume: volumeOf("v2", "static", "default"), Create: true}, berth.Conflict, "configuration"},
		"plugin":          {&state.PutHostVolume{Volume: escape, Create: true}, berth.Invalid, "PluginID"},
		"renamed":         {&state.PutHostVolume{Volume: moved}, berth.Conflict, "cannot change"},
		"foreign delete":  {&state.DeleteHostVolume{Namespace: "other", ID: "v1"}, berth.NotFound, "not found"},
		"no claim":        {&state.DeleteHostVolumeClaim{Namespace: "default", ID: "x"}, berth.NotFound, "not found"},
		"namespace used":  {&state.DeleteNamespaces{Names: []string{"default"}}, berth.Invalid, "built in"},
	} {
		_, err := log.Propose(t.Context(), c.cmd)
		if berth.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %s with %q", name, err, c.kind, c.want)
		}
	}
	if store.Snapshot().Hash() != before {
		t.Error("a refusal changed something")
	}
}

// sticky is a job whose instances keep their volumes.
func sticky(t *testing.T, count string) *berth.Job {
	return statetest.Job(t, `{"ID": "db", "TaskGroups": [{"Name": "g", "Count": `+count+`,
		"Volumes": {"v": {"Name": "v", "Type": "host", "Source": "data", "Sticky": true, "AccessMode": "single-node-single-writer", "AttachmentMode": "file-system"}}}]}`)
}

// An instance keeps its volume: a claim says so, until the claim, the volume or
// the job is deleted. Claims of other namespaces stay (C03).
func TestStickyClaims(t *testing.T) {
	store, log := statetest.New(t, offers("data", "v1"), statetest.AddNode(2, 4000, 4000), &state.UpsertNamespaces{Namespaces: []*berth.Namespace{{Name: "other"}}},
		&state.PutHostVolume{Volume: volumeOf("v1", "data", "default"), Create: true, Now: 5},
		statetest.Register(sticky(t, "2"), 1))
	s := store.Snapshot()
	j := s.Job(berth.JobKey{Namespace: "default", ID: "db"})
	n1, n2, g := s.Node(statetest.ID[berth.Node](1)), s.Node(statetest.ID[berth.Node](2)), j.TaskGroups[0]
	if why, _ := s.VolumeLack(n1, j, g, 0); why != "" {
		t.Errorf("the node with the volume lacks: %s", why)
	}
	if why, _ := s.VolumeLack(n2, j, g, 0); why != "missing host volume: data" {
		t.Errorf("the node without the volume lacks %q", why)
	}
	log.Must(t, &state.ApplyPlan{Eval: statetest.ID[berth.Eval](1), Now: 7, End: &state.EvalEnd{Status: berth.EvalComplete}, Place: []berth.Placement{{Group: 0, Index: 0, NodeID: n1.ID}}})
	s = store.Snapshot()
	var claims []*berth.HostVolumeClaim
	for c := range s.HostVolumeClaims() {
		claims = append(claims, c)
	}
	if len(claims) != 1 || claims[0].VolumeID != "v1" || claims[0].AllocName != "db.g[0]" || claims[0].JobID != "db" || claims[0].ID == "" {
		t.Fatalf("claims: %+v", claims)
	}
	if why, _ := s.VolumeLack(n1, j, g, 1); why != "host volume data is claimed by db.g[0]" {
		t.Errorf("another instance lacks %q", why)
	}
	if why, _ := s.VolumeLack(n1, j, g, 0); why != "" {
		t.Errorf("a replacement lacks %q", why)
	}
	if _, err := log.Propose(t.Context(), &state.DeleteHostVolumeClaim{Namespace: "other", ID: claims[0].ID}); berth.KindOf(err) != berth.NotFound {
		t.Errorf("a claim was deleted from another namespace: %v", err)
	}
	if _, err := log.Propose(t.Context(), &state.DeleteHostVolume{Namespace: "default", ID: "v1"}); berth.KindOf(err) != berth.Conflict {
		t.Errorf("a volume in use was deleted: %v", err)
	}
	if bad := invariant.Check(s); len(bad) > 0 {
		t.Error(bad)
	}
	log.Must(t, &state.DeleteHostVolumeClaim{Namespace: "default", ID: claims[0].ID})
	if n := store.Snapshot().Count(state.HostVolumeClaims); n != 0 {
		t.Errorf("%d claims are left", n)
	}
}

// What a group asks for decides which volumes suit it.
func TestCapabilitiesOfHostVolumes(t *testing.T) {
	reader := volumeOf("v1", "data", "default")
	reader.RequestedCapabilities = []berth.VolumeCapability{{AttachmentMode: berth.AttachFilesystem, AccessMode: berth.AccessReader}}
	store, _ := statetest.New(t, offers("data", "v1"), &state.UpsertNamespaces{Namespaces: []*berth.Namespace{{Name: "other"}}},
		&state.PutHostVolume{Volume: reader, Create: true, Now: 5})
	s := store.Snapshot()
	for request, want := range map[string]string{
		`"ReadOnly": true`: "",
		`"ReadOnly": true, "AccessMode": "single-node-reader-only"`: "",
		`"ReadOnly": false`:                                          "host volume data has no capability for a writer",
		`"AccessMode": "single-node-writer"`:                         "host volume data has no capability for access mode single-node-writer",
		`"ReadOnly": true, "PerAlloc": true`:                         "missing host volume: data[0]",
		`"ReadOnly": true, "AccessMode": "single-node-multi-writer"`: "host volume data has no capability for access mode single-node-multi-writer",
	} {
		j := statetest.Job(t, `{"ID": "db", "TaskGroups": [{"Name": "g", "Volumes": {"v": {"Name": "v", "Type": "host", "Source": "data", `+request+`}}}]}`)
		if got, _ := s.VolumeLack(s.Node(statetest.ID[berth.Node](1)), j, j.TaskGroups[0], 0); got != want {
			t.Errorf("%s: %q, not %q", request, got, want)
		}
		j.Namespace = "other"
		if got, _ := s.VolumeLack(s.Node(statetest.ID[berth.Node](1)), j, j.TaskGroups[0], 0); !strings.HasPrefix(got, "missing host volume") {
			t.Errorf("%s from another namespace: %q", request, got)
		}
	}
}

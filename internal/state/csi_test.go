package state_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"berth"
	"berth/internal/invariant"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// runsCSI registers a node with the plugin "disk", which has a controller.
func runsCSI(n int, change ...func(*berth.CSIInfo)) *state.RegisterNode {
	return statetest.AddNode(n, 4000, 4000, func(node *berth.Node) {
		info := func() *berth.CSIInfo {
			i := &berth.CSIInfo{
				PluginID: "disk", Provider: "test", ProviderVersion: "1", Healthy: true, RequiresControllerPlugin: true, RequiresTopologies: true,
				ControllerInfo: &berth.CSIControllerInfo{SupportsAttachDetach: true},
				NodeInfo:       &berth.CSINodeInfo{ID: fmt.Sprint("n", n), AccessibleTopology: &berth.CSITopology{Segments: map[string]string{"rack": fmt.Sprint("r", n)}}},
			}
			for _, f := range change {
				f(i)
			}
			return i
		}
		node.CSIControllerPlugins, node.CSINodePlugins = map[string]*berth.CSIInfo{"disk": info()}, map[string]*berth.CSIInfo{"disk": info()}
	})
}

// csiVolume is a volume of the plugin "disk" that can be used in every way.
func csiVolume(id string) *berth.CSIVolume {
	v := &berth.CSIVolume{Namespace: "default", ID: id, Name: id, ExternalID: "x-" + id, PluginID: "disk", Secrets: map[string]string{"key": "s3cret"}}
	for _, mode := range []string{berth.AccessReader, berth.AccessWriter, berth.AccessReaders, berth.AccessSingleWriter, berth.AccessMultiWriter} {
		v.RequestedCapabilities = append(v.RequestedCapabilities, berth.VolumeCapability{AccessMode: mode, AttachmentMode: berth.AttachFilesystem})
	}
	return v
}

// csiJob is a job that uses the volume "data".
func csiJob(t *testing.T, id, mode string, readOnly bool) *berth.Job {
	return statetest.Job(t, fmt.Sprintf(`{"ID": %q, "TaskGroups": [{"Name": "g", "Count": 2,
		"Volumes": {"v": {"Name": "v", "Type": "csi", "Source": "data", "ReadOnly": %t, "AccessMode": %q, "AttachmentMode": "file-system"}}}]}`, id, readOnly, mode))
}

// places places instance 0 of a job on a node.
func places(eval, node int) *state.ApplyPlan {
	return &state.ApplyPlan{Eval: statetest.ID[berth.Eval](eval), Now: 7, Place: []berth.Placement{{NodeID: statetest.ID[berth.Node](node)}}}
}

// claimed is a state in which an allocation of a job has a claim on a volume.
func claimed(t *testing.T) (*state.Store, *statetest.Log, *state.CSIClaim) {
	store, log := statetest.New(t, runsCSI(1), runsCSI(2), &state.PutCSIVolume{Volume: csiVolume("data"), Now: 5},
		statetest.Register(csiJob(t, "db", berth.AccessWriter, false), 1), places(1, 1))
	for c := range store.Snapshot().CSIClaims() {
		return store, log, c
	}
	t.Fatal("there is no claim")
	return nil, nil, nil
}

// A claim is taken by the commit of a plan, and goes from state to state: attached,
// released by its allocation's end, unmounted, detached. It survives a save.
func TestTheLifeOfACSIClaim(t *testing.T) {
	store, log, c := claimed(t)
	claim := func() *state.CSIClaim {
		for c := range store.Snapshot().CSIClaims() {
			return c
		}
		return nil
	}
	open := func() (n int) {
		for range store.Snapshot().OpenCSIClaims() {
			n++
		}
		return n
	}
	step := func(from string) *state.StepCSIClaim {
		return &state.StepCSIClaim{Namespace: "default", VolumeID: "data", AllocID: c.AllocID, From: from}
	}
	node := func(status string) *state.SetNodeStatus {
		return &state.SetNodeStatus{ID: statetest.ID[berth.Node](1), Status: status, Now: 9e9}
	}
	is := func(want string, opened int) {
		t.Helper()
		if got := claim(); got == nil || got.State != want || open() != opened {
			t.Fatalf("the claim is %+v and %d are open; want %s, %d", got, open(), want, opened)
		}
		if bad := invariant.Check(store.Snapshot()); len(bad) > 0 {
			t.Error(bad)
		}
		var saved bytes.Buffer
		if err := store.Snapshot().Save(&saved); err != nil {
			t.Fatal(err)
		}
		again, err := state.Load(&saved)
		if err != nil || again.Hash() != store.Snapshot().Hash() {
			t.Fatalf("loaded it is another state: %v", err)
		}
		n := 0
		for range again.OpenCSIClaims() {
			n++
		}
		if p := again.CSIPlugin("disk"); n != opened || p == nil || p.NodesExpected != 2 {
			t.Errorf("loaded, %d claims are open and the plugin is %+v", n, p)
		}
	}
	is(state.ClaimTaken, 1)
	attached := step(state.ClaimTaken)
	attached.Context = map[string]string{"device": "a"}
	log.Must(t, attached)
	is(state.ClaimPublished, 0)
	if _, err := log.Propose(t.Context(), &state.DetachCSIVolume{Namespace: "default", ID: "data", NodeID: c.NodeID}); berth.KindOf(err) != berth.Conflict {
		t.Errorf("a volume in use was detached: %v", err)
	}
	log.Must(t, node(berth.NodeDown))
	is(state.ClaimLost, 1)
	log.Must(t, node(berth.NodeReady))
	is(state.ClaimPublished, 0)
	log.Must(t, &state.ReportAllocs{Node: c.NodeID, Updates: []state.AllocUpdate{{ID: c.AllocID, Client: berth.ClientComplete}}, Now: 10})
	is(state.ClaimReleasing, 1)
	if _, err := log.Propose(t.Context(), &state.DeleteCSIVolume{Namespace: "default", ID: "data"}); berth.KindOf(err) != berth.Conflict {
		t.Errorf("a claimed volume was forgotten: %v", err)
	}
	if _, err := log.Propose(t.Context(), step(state.ClaimDetached)); berth.KindOf(err) != berth.Conflict {
		t.Errorf("a step was taken that the claim does not ask for: %v", err)
	}
	log.Must(t, step(state.ClaimReleasing))
	is(state.ClaimDetached, 1)
	log.Must(t, node(berth.NodeDown))
	is(state.ClaimDetached, 1)
	log.Must(t, step(state.ClaimDetached))
	if claim() != nil || open() != 0 {
		t.Errorf("a claim is left: %+v", claim())
	}
	log.Must(t, &state.DeleteCSIVolume{Namespace: "default", ID: "data"})
}

// An operator gives up what nobody lets go of: first the node is not waited for,
// then, with force, the controller is not either. What an allocation uses stays.
func TestForceGivesUpClaims(t *testing.T) {
	store, log, c := claimed(t)
	node := c.NodeID
	refused := func(cmd state.Command) {
		t.Helper()
		if _, err := log.Propose(t.Context(), cmd); berth.KindOf(err) != berth.Conflict {
			t.Errorf("%T: %v; want a conflict", cmd, err)
		}
	}
	refused(&state.DetachCSIVolume{Namespace: "default", ID: "data", NodeID: node, Force: true})
	refused(&state.DeleteCSIVolume{Namespace: "default", ID: "data", Force: true})
	log.Must(t, &state.SetNodeStatus{ID: node, Status: berth.NodeDown, Now: 9e9})
	log.Must(t, &state.DetachCSIVolume{Namespace: "default", ID: "data", NodeID: node})
	if got := store.Snapshot().CSIClaim("default", "data", c.AllocID); got == nil || got.State != state.ClaimDetached || got.ExternalNodeID != "n1" {
		t.Errorf("%+v", got)
	}
	refused(&state.DeleteCSIVolume{Namespace: "default", ID: "data"})
	log.Must(t, &state.DetachCSIVolume{Namespace: "default", ID: "data", NodeID: node, Force: true})
	for x := range store.Snapshot().CSIClaims() {
		t.Errorf("%+v is left", x)
	}
	if bad := invariant.Check(store.Snapshot()); len(bad) > 0 {
		t.Error(bad)
	}
}

// Two jobs that were placed at once cannot both have a volume that the first uses
// in a way that excludes the second: the commit refuses it.
func TestTheCommitKeepsCSIVolumesApart(t *testing.T) {
	for _, c := range []struct {
		first, second         string
		firstReads, nextReads bool
		node                  int
		want                  string // why the second is refused
	}{
		{berth.AccessWriter, berth.AccessWriter, false, false, 1, "has a writer already"},
		{berth.AccessWriter, berth.AccessWriter, false, true, 1, ""},
		{berth.AccessWriter, berth.AccessWriter, false, true, 2, "on another node"},
		{berth.AccessReader, berth.AccessReader, true, true, 1, ""},
		{berth.AccessReader, berth.AccessReader, true, true, 2, "on another node"},
		{berth.AccessReaders, berth.AccessReaders, true, true, 2, ""},
		{berth.AccessSingleWriter, berth.AccessSingleWriter, false, false, 2, "has a writer already"},
		{berth.AccessSingleWriter, berth.AccessSingleWriter, false, true, 2, ""},
		{berth.AccessMultiWriter, berth.AccessMultiWriter, false, false, 2, ""},
		{berth.AccessMultiWriter, berth.AccessReaders, false, true, 2, "in use with access mode"},
	} {
		store, log := statetest.New(t, runsCSI(1), runsCSI(2), &state.PutCSIVolume{Volume: csiVolume("data"), Now: 5},
			statetest.Register(csiJob(t, "one", c.first, c.firstReads), 1), statetest.Register(csiJob(t, "two", c.second, c.nextReads), 2), places(1, 1))
		p := places(2, c.node)
		log.Must(t, p)
		got := ""
		for _, r := range p.Refused {
			got = r.Reason
		}
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%+v: refused because %q", c, got)
		}
		if bad := invariant.Check(store.Snapshot()); len(bad) > 0 {
			t.Error(bad)
		}
	}
}

// The claim of a replacement waits for the one that it replaces, and can only then
// be attached.
func TestAReplacementWaitsForTheVolume(t *testing.T) {
	store, log := statetest.New(t, runsCSI(1), runsCSI(2), &state.PutCSIVolume{Volume: csiVolume("data"), Now: 5},
		statetest.Register(csiJob(t, "db", berth.AccessWriter, false), 1), places(1, 1))
	var first *state.CSIClaim
	for c := range store.Snapshot().CSIClaims() {
		first = c
	}
	log.Must(t, &state.SetNodeStatus{ID: first.NodeID, Status: berth.NodeDown, Now: 9e9},
		&state.ApplyPlan{
			Eval: statetest.ID[berth.Eval](1), Now: 8, Stop: []berth.AllocStop{{ID: first.AllocID, Client: berth.ClientLost}},
			Place: []berth.Placement{{NodeID: statetest.ID[berth.Node](2), Previous: first.AllocID}},
		})
	s := store.Snapshot()
	for c := range s.CSIClaims() {
		if c.AllocID == first.AllocID {
			continue
		}
		if x := s.ClaimWaitsFor(c); x == nil || x.AllocID != first.AllocID || x.State != state.ClaimLost {
			t.Errorf("it waits for %+v", x)
		}
		step := &state.StepCSIClaim{Namespace: "default", VolumeID: "data", AllocID: c.AllocID, From: state.ClaimTaken}
		if _, err := log.Propose(t.Context(), step); berth.KindOf(err) != berth.Conflict {
			t.Errorf("two have the volume: %v", err)
		}
		log.Must(t, &state.DetachCSIVolume{Namespace: "default", ID: "data", NodeID: first.NodeID}, // the operator does not wait
			&state.StepCSIClaim{Namespace: "default", VolumeID: "data", AllocID: first.AllocID, From: state.ClaimDetached}, step)
		return
	}
	t.Error("the replacement was not placed")
}

// What a node's plugin lacks is said.
func TestNodesForCSIVolumes(t *testing.T) {
	elsewhere := csiVolume("data")
	elsewhere.Topologies = []berth.CSITopology{{Segments: map[string]string{"rack": "r7"}}, {Segments: map[string]string{"rack": "r2"}}}
	unmade := csiVolume("data")
	unmade.ExternalID = ""
	for name, c := range map[string]struct {
		volume *berth.CSIVolume
		node   *state.RegisterNode
		want   string
	}{
		"fits":          {csiVolume("data"), runsCSI(1), ""},
		"no volume":     {csiVolume("other"), runsCSI(1), "missing CSI volume: data"},
		"not made":      {unmade, runsCSI(1), "CSI volume data is not made yet"},
		"no plugin":     {csiVolume("data"), statetest.AddNode(1, 4000, 4000), "missing CSI plugin: disk"},
		"sick":          {csiVolume("data"), runsCSI(1, func(i *berth.CSIInfo) { i.Healthy = false }), "unhealthy CSI plugin: disk"},
		"topology":      {elsewhere, runsCSI(1), "CSI volume data cannot be reached from the topology of the node"},
		"right rack":    {elsewhere, runsCSI(2), ""},
		"no controller": {csiVolume("data"), func() *state.RegisterNode { r := runsCSI(1); r.Node.CSIControllerPlugins = nil; return r }(), "CSI plugin disk has no healthy controller"},
	} {
		store, _ := statetest.New(t, c.node, &state.PutCSIVolume{Volume: c.volume, Now: 5})
		j := csiJob(t, "db", berth.AccessWriter, false)
		if got, _ := store.Snapshot().VolumeLack(store.Snapshot().Node(c.node.Node.ID), j, j.TaskGroups[0], 0); got != c.want {
			t.Errorf("%s: %q, not %q", name, got, c.want)
		}
	}
}

// Plugins are counted as nodes come, fall ill, go down and go.
func TestPluginsFollowNodes(t *testing.T) {
	store, log := statetest.New(t, runsCSI(1), runsCSI(2))
	is := func(healthy, expected int) {
		t.Helper()
		p := store.Snapshot().CSIPlugin("disk")
		if p == nil || p.NodesHealthy != healthy || p.NodesExpected != expected || p.ControllersHealthy != healthy {
			t.Errorf("%+v; want %d of %d", p, healthy, expected)
		}
	}
	is(2, 2)
	log.Must(t, runsCSI(2, func(i *berth.CSIInfo) { i.Healthy = false }))
	is(1, 2)
	log.Must(t, &state.SetNodeStatus{ID: statetest.ID[berth.Node](1), Status: berth.NodeDown, Now: 9})
	is(0, 2)
	log.Must(t, statetest.AddNode(2, 4000, 4000))
	is(0, 1)
	log.Must(t, statetest.AddNode(1, 4000, 4000))
	if p := store.Snapshot().CSIPlugin("disk"); p != nil {
		t.Errorf("nothing runs it: %+v", p)
	}
}

// Instances of a system job on other nodes are other users of a volume, not what a
// new one replaces: a volume for one writer has one, whoever asks.
func TestASystemJobSharesACSIVolumeWithItself(t *testing.T) {
	for mode, shared := range map[string]bool{
		berth.AccessWriter: false, berth.AccessReader: false, berth.AccessSingleWriter: false, berth.AccessReaders: true, berth.AccessMultiWriter: true,
	} {
		t.Run(mode, func(t *testing.T) {
			job := csiJob(t, "log", mode, mode == berth.AccessReader || mode == berth.AccessReaders)
			job.Type = berth.TypeSystem
			store, log := statetest.New(t, runsCSI(1), runsCSI(2), &state.PutCSIVolume{Volume: csiVolume("data"), Now: 5}, statetest.Register(job, 1), places(1, 1))
			s := store.Snapshot()
			j := s.Job(job.Key())
			lack := func(node int) state.LackKind {
				_, kind := s.VolumeLack(s.Node(statetest.ID[berth.Node](node)), j, j.TaskGroups[0], 0)
				return kind
			}
			want := state.LacksNothing
			if !shared {
				want = state.LacksCSIVolume
			}
			if here, there := lack(1), lack(2); here != state.LacksNothing || there != want {
				t.Errorf("the first node lacks %d, the second %d; want 0, %d", here, there, want)
			}
			seed := state.EvalSeed{ID: statetest.ID[berth.Eval](2), TriggeredBy: berth.TriggerJobRegister, Cause: berth.Cause{Kind: berth.CauseUser}}
			log.Must(t, &state.CreateEvals{Evals: []state.EvalFor{{EvalSeed: seed, Key: job.Key()}}, Now: 6}, places(2, 2))
			if n := store.Snapshot().Count(state.Allocs); (n == 2) != shared {
				t.Errorf("%d allocations; the volume is shared: %v", n, shared)
			}
			if bad := invariant.Check(store.Snapshot()); len(bad) > 0 {
				t.Error(bad)
			}
		})
	}
}

// A node that gets or loses the plugin of a volume is looked at for the system jobs that
// use such volumes, and not for others. Whether the plugin is healthy raises nothing:
// who waits for that is woken.
func TestPluginsOfANodeRaiseEvaluations(t *testing.T) {
	job := csiJob(t, "log", berth.AccessMultiWriter, false)
	job.Type = berth.TypeSystem
	other := statetest.Job(t, `{"ID": "plain", "Type": "system", "TaskGroups": [{"Name": "g"}]}`)
	without := statetest.AddNode(1, 4000, 4000)
	store, log := statetest.New(t, without, statetest.Register(job, 1), statetest.Register(other, 2), statetest.Register(csiJob(t, "db", berth.AccessWriter, false), 3))
	raised := func(c state.Command) (out []string) {
		t.Helper()
		before := store.Snapshot()
		log.Must(t, c)
		for e := range store.Snapshot().Evals() {
			if before.Eval(e.ID) == nil {
				out = append(out, string(e.JobID)+" "+e.TriggeredBy)
			}
		}
		return out
	}
	elsewhere := func(i *berth.CSIInfo) { i.NodeInfo.AccessibleTopology.Segments = map[string]string{"rack": "r9"} }
	sick := func(i *berth.CSIInfo) { elsewhere(i); i.Healthy = false }
	for i, c := range []struct {
		to   state.Command
		want string
	}{
		{runsCSI(1), "[log node-update]"}, {runsCSI(1), "[]"}, {runsCSI(1, elsewhere), "[log node-update]"}, {runsCSI(1, sick), "[]"}, {statetest.AddNode(1, 4000, 4000), "[log node-update]"},
	} {
		c.to.(*state.RegisterNode).Seed = [16]byte{byte(i + 1)}
		if got := fmt.Sprint(raised(c.to)); got != c.want {
			t.Errorf("step %d: %s, want %s", i, got, c.want)
		}
	}
}

// Force drops all claims of a volume or none: a claim in use keeps those that
// could be given up.
func TestForceDropsAllClaimsOrNone(t *testing.T) {
	for _, down := range []int{1, 2} { // whichever claim is looked at first
		store, _ := statetest.New(t, runsCSI(1), runsCSI(2), &state.PutCSIVolume{Volume: csiVolume("data"), Now: 5},
			statetest.Register(csiJob(t, "a", berth.AccessMultiWriter, false), 1), places(1, 1),
			statetest.Register(csiJob(t, "b", berth.AccessMultiWriter, false), 2), places(2, 2),
			&state.SetNodeStatus{ID: statetest.ID[berth.Node](down), Status: berth.NodeDown, Now: 9e9})
		before := store.Snapshot()
		if n := len(slices.Collect(before.CSIClaims())); n != 2 {
			t.Fatalf("%d claims are taken, want 2", n)
		}
		tx := state.Begin(before)
		if r := tx.Apply(&state.DeleteCSIVolume{Namespace: "default", ID: "data", Force: true}); berth.KindOf(r.Err) != berth.Conflict {
			t.Errorf("%v; want a conflict", r.Err)
		}
		if after := tx.Seal(); after.Hash() != before.Hash() {
			t.Errorf("the refusal changed the state: claims are %v", slices.Collect(after.CSIClaims()))
		}
	}
}

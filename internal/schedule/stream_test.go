package schedule_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"berth"
	"berth/internal/schedule"
	"berth/internal/state"
	"berth/internal/state/statetest"
	"berth/internal/streams"
)

// streamWorld is nodes and stream jobs, all of whose processing elements are
// launched.
type streamWorld struct {
	testing.TB
	log   *statetest.Log
	evals int
	more  string // of each group in JSON, with a comma at its end
}

func newStreamWorld(t testing.TB, nodes int, change ...func(*berth.Node)) *streamWorld {
	w := &streamWorld{TB: t, evals: 100}
	_, w.log = statetest.New(t)
	for n := range nodes {
		w.log.Must(t, statetest.AddNode(n+1, 1000, 1000, change...))
	}
	return w
}

// submit makes all of a job but its allocations. groups are pairs of a name and
// of its placement, with a width after a slash; pools have their nodes.
func (w *streamWorld) submit(id, pools string, nodes [][]berth.NodeID, groups ...string) berth.JobKey {
	w.Helper()
	var list, regions []string
	for i := 0; i < len(groups); i += 2 {
		name, width, wide := strings.Cut(groups[i], "/")
		if wide {
			regions = append(regions, fmt.Sprintf(`{"Name": "r%d", "Groups": [%q], "Width": %s}`, i, name, width))
		}
		list = append(list, fmt.Sprintf(`{"Name": %q, %s "Resources": {"CPU": 100, "MemoryMB": 100}, "Stream": {"Placement": {%s}}}`, name, w.more, groups[i+1]))
	}
	j := statetest.Job(w.TB, fmt.Sprintf(`{"ID": %q, "Type": "stream", "Datacenters": ["dc1"], "Stream": {"HostPools": [%s], "Regions": [%s]}, "TaskGroups": [%s]}`,
		id, pools, strings.Join(regions, ","), strings.Join(list, ",")))
	w.log.Must(w.TB, statetest.Register(j, 1))
	k := j.Key()
	uid := w.log.Tip().Job(k).UID
	plan, err := streams.Expand(w.log.Tip().Job(k), nil)
	if err != nil {
		w.Fatal(err)
	}
	w.log.Must(w.TB, &state.PlanSubmission{Key: k, UID: uid, Plan: plan})
	for _, kind := range berth.StreamKinds {
		c := &state.EnsureResources{Key: k, UID: uid, Kind: kind}
		for i := range plan.Objects {
			if plan.Objects[i].Kind == kind {
				c.Names = append(c.Names, plan.Objects[i].Name)
			}
		}
		if kind == berth.KindHostPool {
			c.Nodes = nodes
		}
		if len(c.Names) > 0 {
			w.log.Must(w.TB, c)
		}
	}
	for _, pe := range slices.Collect(w.log.Tip().ResourcesOf(uid, berth.KindPE)) {
		w.log.Must(w.TB, &state.LaunchPE{PE: pe.UID, Expect: pe.PE.Launch})
	}
	return k
}

// decide raises an evaluation of the job, and returns what was decided.
func (w *streamWorld) decide(k berth.JobKey) schedule.Decision {
	w.Helper()
	w.evals++
	seed := state.EvalSeed{ID: statetest.ID[berth.Eval](w.evals), TriggeredBy: berth.TriggerPELaunch, Cause: berth.Cause{Kind: berth.CauseUser}}
	w.log.Must(w.TB, &state.CreateEvals{Evals: []state.EvalFor{{EvalSeed: seed, Key: k}}})
	d := schedule.Decide(w.log.Tip(), w.log.Tip().Eval(seed.ID), 0, time.Unix(1, 0))
	w.log.Must(w.TB, d.Plan)
	if len(d.Plan.Refused) > 0 {
		w.Fatalf("refused: %+v", d.Plan.Refused)
	}
	return d
}

// at returns the node of each instance.
func (w *streamWorld) at(k berth.JobKey) map[string]string {
	out := map[string]string{}
	for a := range w.log.Tip().AllocsOf(k) {
		if a.Live() {
			out[strings.TrimPrefix(a.Name(), string(k.ID)+".")] = w.log.Tip().Node(a.NodeID).Name
		}
	}
	return out
}

func ids(numbers ...int) (out []berth.NodeID) {
	for _, n := range numbers {
		out = append(out, statetest.ID[berth.Node](n))
	}
	return out
}

// Each processing element has its own CSI volume with per_alloc. One whose volume does
// not exist is not placed, and says so. When it is launched again, it has the same
// volume, though its last launch has not given that back.
func TestProcessingElementsHaveCSIVolumes(t *testing.T) {
	w := newStreamWorld(t, 2, func(n *berth.Node) {
		n.CSINodePlugins = map[string]*berth.CSIInfo{"disk": {PluginID: "disk", Healthy: true, NodeInfo: &berth.CSINodeInfo{ID: n.Name}}}
	})
	one := berth.VolumeCapability{AccessMode: berth.AccessWriter, AttachmentMode: berth.AttachFilesystem}
	for _, id := range []string{"data[0]", "data[1]"} {
		w.log.Must(t, &state.PutCSIVolume{Volume: &berth.CSIVolume{
			Namespace: berth.DefaultNamespace, ID: id, Name: id, ExternalID: id, PluginID: "disk", RequestedCapabilities: []berth.VolumeCapability{one},
		}})
	}
	w.more = `"Volumes": {"v": {"Name": "v", "Type": "csi", "Source": "data", "PerAlloc": true, "AccessMode": "single-node-writer", "AttachmentMode": "file-system"}},`
	k := w.submit("job", "", nil, "a/3", ``)
	d := w.decide(k)
	if at := w.at(k); len(at) != 2 || at["a[0]"] == "" || at["a[1]"] == "" {
		t.Errorf("%v", at)
	}
	if why := d.Plan.End.Failed["a"]; why == nil || why.ConstraintFiltered["missing CSI volume: data[2]"] != 2 {
		t.Errorf("%+v", why)
	}
	claims := func() (n int) {
		for c := range w.log.Tip().CSIClaims() {
			if a := w.log.Tip().Alloc(c.AllocID); c.VolumeID == fmt.Sprintf("data[%d]", a.Index) {
				n++
			}
		}
		return n
	}
	if n := claims(); n != 2 {
		t.Errorf("%d claims", n)
	}
	for _, pe := range slices.Collect(w.log.Tip().ResourcesOf(w.log.Tip().Job(k).UID, berth.KindPE)) {
		if strings.HasSuffix(pe.Name, "[0]") {
			w.log.Must(t, &state.LaunchPE{PE: pe.UID, Expect: pe.PE.Launch})
		}
	}
	for a := range w.log.Tip().AllocsOf(k) {
		if a.Index == 0 {
			w.log.Must(t, &state.ReportAllocs{Node: a.NodeID, Updates: []state.AllocUpdate{{ID: a.ID, Client: berth.ClientFailed}}})
		}
	}
	w.decide(k)
	if at := w.at(k); len(at) != 2 || claims() != 3 {
		t.Errorf("after another launch: %v, %d claims", at, claims())
	}
}

// Processing elements are where their conditions say.
func TestSites(t *testing.T) {
	hosts := `{"Name": "p", "Hosts": ["n2", "n3"]}`
	for _, x := range []struct {
		name   string
		pools  string
		nodes  [][]berth.NodeID
		groups []string
		holds  func(at map[string]string) bool
	}{
		{"colocated", "", nil, []string{"a/3", `"Colocate": ["x"]`, "b", `"Colocate": ["x"]`, "c", ``},
			func(at map[string]string) bool {
				return at["a[0]"] == at["a[1]"] && at["a[1]"] == at["a[2]"] && at["a[0]"] == at["b[0]"]
			}},
		{"exlocated", "", nil, []string{"a/3", `"Exlocate": ["x"]`, "b", `"Exlocate": ["x"]`},
			func(at map[string]string) bool {
				seen := map[string]bool{at["a[0]"]: true, at["a[1]"]: true, at["a[2]"]: true, at["b[0]"]: true}
				return len(seen) == 4
			}},
		{"isolated", "", nil, []string{"a/3", ``, "b", `"Isolated": true`},
			func(at map[string]string) bool {
				return at["b[0]"] != at["a[0]"] && at["b[0]"] != at["a[1]"] && at["b[0]"] != at["a[2]"]
			}},
		{"on hosts of a pool", hosts, [][]berth.NodeID{ids(2, 3)}, []string{"a/2", `"Pool": "p", "Exlocate": ["x"]`, "b", `"Pool": "p", "PoolHost": 1`},
			func(at map[string]string) bool {
				return at["a[0]"] != "n1" && at["a[0]"] != "n4" && at["a[1]"] != "n1" && at["a[1]"] != "n4" && at["b[0]"] == "n3"
			}},
		{"on nodes with tags", `{"Name": "p", "Tags": ["even"]}`, [][]berth.NodeID{nil}, []string{"a/2", `"Pool": "p", "Exlocate": ["x"]`},
			func(at map[string]string) bool {
				return at["a[0]"] != at["a[1]"] && strings.Contains("n2 n4", at["a[0]"]) && strings.Contains("n2 n4", at["a[1]"])
			}},
		{"on a host", "", nil, []string{"a", `"Host": "n4"`}, func(at map[string]string) bool { return at["a[0]"] == "n4" }},
	} {
		t.Run(x.name, func(t *testing.T) {
			w := newStreamWorld(t, 4, func(n *berth.Node) {
				if n.Name == "n2" || n.Name == "n4" {
					n.Meta = map[string]string{"tags": "even"}
				}
			})
			k := w.submit("job", x.pools, x.nodes, x.groups...)
			w.decide(k)
			if at := w.at(k); len(at) == 0 || !x.holds(at) {
				t.Errorf("%v", at)
			}
		})
	}
}

// Who finds no node is told why, node by node, and waits.
func TestWhyThereIsNoSite(t *testing.T) {
	for want, groups := range map[string][]string{
		"not host n9":                              {"a", `"Host": "n9"`},
		"must not run beside job.a[0]":             {"a/3", `"Exlocate": ["x"]`},
		"must not run beside job.b[0]":             {"b", `"Isolated": true`, "a/2", `"Exlocate": ["x"]`},
		"reserved by host pool alone of job first": nil,
	} {
		w := newStreamWorld(t, 2)
		if groups == nil {
			w.decide(w.submit("first", `{"Name": "alone", "Hosts": ["n1", "n2"], "Mode": "exclusive"}`, [][]berth.NodeID{ids(1, 2)}, "a", `"Pool": "alone"`))
			groups = []string{"a", ""}
		}
		k := w.submit("job", "", nil, groups...)
		end := w.decide(k).Plan.End
		m := end.Failed["a"]
		if m == nil || m.ConstraintFiltered[want] == 0 || end.Blocked == nil || end.Queued["a"] == 0 || !end.Missed.Escaped {
			t.Errorf("want %q: %+v, %+v", want, m, end)
		}
	}
}

// What nobody wants any more is stopped; what is on a node that is down is lost.
// Nothing of it is replaced.
func TestStreamStops(t *testing.T) {
	w := newStreamWorld(t, 3)
	k := w.submit("job", "", nil, "a/3", `"Exlocate": ["x"]`)
	w.decide(k)
	uid := w.log.Tip().Job(k).UID
	pe := w.log.Tip().ResourceNamed(uid, berth.KindPE, "job.a[0]")
	w.log.Must(t, &state.LaunchPE{PE: pe.UID, Expect: 1})
	for a := range w.log.Tip().AllocsOf(k) {
		if a.Index == 1 {
			w.log.Must(t, &state.SetNodeStatus{ID: a.NodeID, Status: berth.NodeDown, Now: 7, Seed: [16]byte{7}})
		}
	}
	d := w.decide(k)
	if len(d.Plan.Place) != 0 {
		t.Errorf("placed are %+v", d.Plan.Place)
	}
	if len(d.Plan.Stop) != 1 || d.Plan.Stop[0].Client != berth.ClientLost {
		t.Errorf("stopped are %+v", d.Plan.Stop)
	}
	if d := w.decide(k); !d.Nothing {
		t.Errorf("again: %+v", d.Plan)
	}
	w.log.Must(t, &state.FailSubmission{Key: k, UID: uid, Error: "no"})
	if d := w.decide(k); len(d.Plan.Stop) != 1 || d.Plan.Stop[0].StopReason != berth.StopJobEnded {
		t.Errorf("given up: %+v", d.Plan.Stop)
	}
}

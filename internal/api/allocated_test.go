package api

import (
	"testing"

	"berth"
	"berth/internal/fit"
	"berth/internal/state"
	"berth/internal/state/statetest"
	"berth/op"

	"github.com/google/go-cmp/cmp"
)

// placed returns the allocation of a job on a node, both told as in stories.
func placed(t *testing.T, config berth.SchedulerConfig, node, job string) (*state.Snapshot, *berth.Alloc) {
	store, log := statetest.New(t, &state.SetSchedulerConfig{Config: config})
	n := statetest.NodesOf(t, statetest.Lines(t, node)[0])[0]
	j := statetest.JobOf(t, statetest.Lines(t, job)[0])
	log.Must(t, &state.RegisterNode{Node: n, Now: 1}, statetest.Register(j, 1))
	snap := store.Snapshot()
	want := fit.RequestOf(snap.Job(j.Key()).TaskGroups[0])
	line := snap.Usage(snap.Node(n.ID).Number).Draft()
	if !want.Fits(&line.Usage) {
		t.Fatal(want.Shortfall(&line.Usage))
	}
	plan := &state.ApplyPlan{Eval: statetest.ID[berth.Eval](1), Now: 1, Place: []berth.Placement{{
		NodeID: n.ID, Grant: line.Place(&want, 0),
	}}}
	log.Must(t, plan)
	if len(plan.Refused) > 0 {
		t.Fatal(plan.Refused)
	}
	snap = store.Snapshot()
	for a := range snap.Allocs() {
		return snap, a
	}
	t.Fatal("nothing was placed")
	return nil, nil
}

// Ports that tasks ask for in their resources are shown with the tasks, as
// clients of Nomad know it.
func TestAllocatedShowsThePortsOfTasks(t *testing.T) {
	snap, a := placed(t, berth.DefaultSchedulerConfig, `node n1 address=10.0.0.1 ports=20000-20010`,
		`job web port.all=dynamic group.Tasks=[{"Name":"a","Driver":"mock_driver","Resources":{"Networks":[{"MBits":10,"DynamicPorts":[{"Label":"http","To":-1}],"ReservedPorts":[{"Label":"ssh","Value":22}]}]}},`+
			`{"Name":"b","Driver":"mock_driver","Resources":{"Networks":[{"DynamicPorts":[{"Label":"http","To":80}]}]}}]`)
	got := allocView(snap, a).AllocatedResources
	for _, c := range []struct {
		task string
		want []berth.PortMapping
	}{
		{"", []berth.PortMapping{{Label: "all", Value: 20000, HostIP: "10.0.0.1"}}},
		{"a", []berth.PortMapping{{Label: "ssh", Value: 22, HostIP: "10.0.0.1"}, {Label: "http", Value: 20001, To: 20001, HostIP: "10.0.0.1"}, {Label: "all", Value: 20000, HostIP: "10.0.0.1"}}},
		{"b", []berth.PortMapping{{Label: "http", Value: 20002, To: 80, HostIP: "10.0.0.1"}, {Label: "all", Value: 20000, HostIP: "10.0.0.1"}}},
	} {
		if d := cmp.Diff(c.want, got.PortsOf(c.task)); d != "" {
			t.Errorf("task %q: %s", c.task, d)
		}
	}
	if nw := got.Tasks["a"].Networks; len(nw) != 1 || nw[0].IP != "10.0.0.1" || nw[0].MBits != 10 {
		t.Errorf("%+v", nw)
	}
	if again := allocView(snap, a).AllocatedResources; !cmp.Equal(got, again) {
		t.Error("to look changes what is stored")
	}
}

// What an allocation was given is shown by task: cores with their speed,
// devices, and ports on the addresses of their networks.
func TestAllocatedShowsWhatWasGiven(t *testing.T) {
	config := berth.DefaultSchedulerConfig
	config.MemoryOversubscriptionEnabled = true
	node := `node n1 cpu=4000 cores=4 address=10.0.0.1 net.public=192.0.2.1 ports=20000-20010 device="nvidia/gpu/t4 a b"`
	job := `job web cores=2 mem=200 memmax=500 device="gpu 2" port.http=80@public port.rpc=dynamic port.out=dynamic@public`
	snap, a := placed(t, config, node, job)
	v := allocView(snap, a)
	want := &op.AllocatedResources{
		Tasks: map[string]*op.AllocatedTask{"task": {
			Cpu:     op.AllocatedCPU{CpuShares: 2000, ReservedCores: []uint16{0, 1}},
			Memory:  op.AllocatedMemory{MemoryMB: 200, MemoryMaxMB: 500},
			Devices: []op.AllocatedDevice{{Vendor: "nvidia", Type: "gpu", Name: "t4", DeviceIDs: []string{"a", "b"}}},
		}},
		Shared: op.AllocatedShared{
			DiskMB: 300,
			Ports: []berth.PortMapping{
				{Label: "http", Value: 80, HostIP: "192.0.2.1"}, {Label: "rpc", Value: 20000, HostIP: "10.0.0.1"}, {Label: "out", Value: 20000, HostIP: "192.0.2.1"},
			},
			Networks: []berth.NetworkResource{{
				Mode: "host", IP: "10.0.0.1", ReservedPorts: []berth.Port{{Label: "http", Value: 80, HostNetwork: "public"}},
				DynamicPorts: []berth.Port{{Label: "rpc", Value: 20000}, {Label: "out", Value: 20000, HostNetwork: "public"}},
			}},
		},
	}
	if diff := cmp.Diff(want, v.AllocatedResources); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if r := v.Resources; r.CPU != 2000 || r.Cores != 2 || r.MemoryMB != 200 || r.MemoryMaxMB != 500 || len(r.Devices) != 1 || r.DiskMB != 300 {
		t.Errorf("all together: %+v", r)
	}
}

// A task may use more memory than it is given only if oversubscription was on
// when it was placed: that does not change under it.
func TestMemoryMaxIsDecidedWhenPlaced(t *testing.T) {
	for _, on := range []bool{false, true} {
		config := berth.DefaultSchedulerConfig
		config.MemoryOversubscriptionEnabled = on
		snap, a := placed(t, config, `node n1 mem=300`, `job web mem=200 memmax=5000`)
		want := map[bool]int64{true: 5000}[on]
		if got := allocView(snap, a).AllocatedResources.Tasks["task"].Memory; got.MemoryMB != 200 || got.MemoryMaxMB != want {
			t.Errorf("oversubscription %v: %+v", on, got)
		}
		if used := snap.Usage(0).Used.MemoryMB; used != 200 {
			t.Errorf("%d MiB are counted", used)
		}
	}
}

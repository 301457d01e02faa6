package state_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"berth"
	"berth/internal/fit"
	"berth/internal/invariant"
	"berth/internal/state"
	"berth/internal/state/codec"
	"berth/internal/state/statetest"

	"pgregory.net/rapid"
)

// drawThings gives a node cores, devices and host networks.
func drawThings(t *rapid.T, n *berth.Node) {
	r := n.NodeResources
	r.MinDynamicPort, r.MaxDynamicPort = 20000, 20006
	cores, numa := rapid.IntRange(0, 8).Draw(t, "cores"), rapid.IntRange(1, 3).Draw(t, "numa")
	topology := &berth.Topology{BusAssociativity: map[string]uint8{"0": 0, "1": 1, "2": 2}}
	for i := range cores {
		topology.Cores = append(topology.Cores, berth.Core{ID: uint16(i * 3), NodeID: uint8(i % numa), BaseSpeed: uint64(rapid.IntRange(1, 2).Draw(t, "speed")) * 500})
		r.Cpu.ReservableCpuCores = append(r.Cpu.ReservableCpuCores, uint16(i*3))
	}
	r.Processors.Topology = topology
	if rapid.Bool().Draw(t, "keeps a core") {
		n.ReservedResources.Cpu.ReservedCpuCores = []uint16{0}
	}
	for _, model := range []string{"t4", "a100"} {
		d := berth.NodeDeviceResource{Vendor: "nvidia", Type: "gpu", Name: model, Attributes: map[string]any{
			"memory": map[string]any{"Int": int64(rapid.IntRange(8, 16).Draw(t, "memory")), "Unit": "GiB"},
		}}
		for i := range rapid.IntRange(0, 3).Draw(t, "devices") {
			x := berth.NodeDevice{ID: fmt.Sprint(model, i), Healthy: rapid.IntRange(0, 4).Draw(t, "health") > 0}
			if bus := rapid.IntRange(0, 3).Draw(t, "bus"); bus < 3 {
				x.Locality = &berth.NodeDeviceLocality{PciBusID: fmt.Sprint(bus)}
			}
			d.Instances = append(d.Instances, x)
		}
		if len(d.Instances) > 0 {
			r.Devices = append(r.Devices, d)
		}
	}
	host := berth.NodeNetwork{Mode: "host"}
	for _, alias := range []string{"default", "public", "private"} {
		if at := rapid.IntRange(0, 3).Draw(t, alias); at > 0 {
			host.Addresses = append(host.Addresses, berth.NodeNetworkAddress{
				Alias: alias, Address: fmt.Sprint("10.0.0.", at), ReservedPorts: rapid.SampledFrom([]string{"", "80", "20000-20002"}).Draw(t, "kept"),
			})
		}
	}
	r.NodeNetworks = []berth.NodeNetwork{host}
}

// drawWants returns a group that asks for all kinds of things.
func drawWants(t *rapid.T, name string) *berth.TaskGroup {
	restart := &berth.RestartPolicy{Mode: berth.RestartFail}
	g := &berth.TaskGroup{Name: name, Count: 3, RestartPolicy: restart, EphemeralDisk: &berth.EphemeralDisk{SizeMB: 10}}
	for i := range rapid.IntRange(1, 2).Draw(t, "tasks") {
		r := &berth.Resources{CPU: 100, MemoryMB: 50}
		if n := rapid.IntRange(0, 3).Draw(t, "cores"); n > 0 {
			r.CPU, r.Cores = 0, n
			r.NUMA = &berth.NUMAResource{Affinity: rapid.SampledFrom([]string{"none", "prefer", "require"}).Draw(t, "affinity")}
		}
		for _, d := range rapid.SampledFrom([][]string{nil, nil, {"gpu"}, {"nvidia/gpu/t4"}, {"gpu", "nvidia/gpu"}}).Draw(t, "devices") {
			q := berth.RequestedDevice{Name: d, Count: uint64(rapid.IntRange(1, 2).Draw(t, "count"))}
			switch rapid.IntRange(0, 4).Draw(t, "condition") {
			case 0:
				q.Constraints = []berth.Constraint{{LTarget: "${device.attr.memory}", Operand: ">=", RTarget: "10 GiB"}}
			case 1:
				q.Constraints = []berth.Constraint{{LTarget: "${device.ids}", Operand: "set_contains_any", RTarget: "t40,a1001"}}
			case 2:
				q.Affinities = []berth.Affinity{{LTarget: "${device.model}", Operand: "=", RTarget: "a100", Weight: 50}}
			}
			r.Devices = append(r.Devices, q)
			if r.NUMA != nil && rapid.Bool().Draw(t, "near") {
				r.NUMA.Devices = append(r.NUMA.Devices, d)
			}
		}
		g.Tasks = append(g.Tasks, &berth.Task{Name: fmt.Sprint("t", i), Driver: "mock_driver", RestartPolicy: restart, Resources: r, LogConfig: &berth.LogConfig{}})
	}
	nw := berth.NetworkResource{Mode: "host"}
	taken := map[string]bool{}
	for i := range rapid.IntRange(0, 4).Draw(t, "ports") {
		p := berth.Port{Label: fmt.Sprint("p", i), HostNetwork: rapid.SampledFrom([]string{"", "", "public", "private"}).Draw(t, "network")}
		if rapid.Bool().Draw(t, "dynamic") {
			nw.DynamicPorts = append(nw.DynamicPorts, p)
			continue
		}
		p.Value = rapid.SampledFrom([]int{80, 443, 20001}).Draw(t, "port")
		p.IgnoreCollision = rapid.IntRange(0, 2).Draw(t, "collides") == 0
		if key := fmt.Sprint(p.Value, p.Network()); !taken[key] {
			taken[key] = true
			nw.ReservedPorts = append(nw.ReservedPorts, p)
		}
	}
	g.Networks = []berth.NetworkResource{nw}
	return g
}

// A state takes what Place granted and gives nothing out twice, whatever nodes
// and jobs there are; what does not fit has a shortage with numbers; and what
// a plan says that no Place granted is refused or harmless.
func TestNamedThingsAreGivenOutOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		for range rapid.IntRange(1, 14).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0:
				w.reregister(t)
			case 1, 2:
				w.end(t)
			case 3:
				w.forge(t)
			default:
				w.place(t)
			}
			if bad := invariant.Check(w.s); len(bad) > 0 {
				t.Fatal(bad)
			}
		}
		w.reload(t)
	})
}

// world is a state with two nodes and a job.
type world struct {
	s     *state.Snapshot
	job   *berth.Job
	evals int
	index uint32
	given []berth.Placement
}

func newWorld(t *rapid.T) *world {
	w := &world{s: state.New().Snapshot()}
	for i := range 2 {
		w.apply(t, statetest.AddNode(i+1, 6000, 1000, func(n *berth.Node) { drawThings(t, n) }))
	}
	j := &berth.Job{Region: "global", Namespace: "default", ID: "web", Type: "service", Priority: 50, Datacenters: []string{"*"}, NodePool: "default"}
	for i := range 3 {
		j.TaskGroups = append(j.TaskGroups, drawWants(t, fmt.Sprint("g", i)))
		j.TaskGroups[i].Count = 100
	}
	w.apply(t, statetest.Register(j, 1))
	w.job = w.s.Job(j.Key())
	w.evals = 1
	return w
}

func (w *world) apply(t *rapid.T, c state.Command) {
	t.Helper()
	tx := state.Begin(w.s)
	if r := tx.Apply(c); r.Err != nil {
		t.Fatal(r.Err)
	}
	if plan, isPlan := c.(*state.ApplyPlan); isPlan {
		logged, err := state.DecodeEntry(codec.EncodeEntry(state.AppendCommand(nil, plan)))
		if err != nil {
			t.Fatal(err)
		}
		other := state.Begin(w.s)
		other.Apply(logged[0])
		w.s = tx.Seal()
		if other.Seal().Hash() != w.s.Hash() {
			t.Fatal("the log leads to another state")
		}
		return
	}
	w.s = tx.Seal()
}

// try applies a plan with one placement and returns why it was refused.
func (w *world) try(t *rapid.T, p berth.Placement) string {
	t.Helper()
	c := &state.ApplyPlan{Eval: statetest.ID[berth.Eval](1), JobVersion: w.job.Version, Place: []berth.Placement{p}, Now: 1}
	w.apply(t, c)
	if len(c.Refused) > 0 {
		return c.Refused[0].Reason
	}
	w.index++
	return ""
}

func (w *world) place(t *rapid.T) {
	number := rapid.IntRange(1, 2).Draw(t, "node")
	group := rapid.IntRange(0, 2).Draw(t, "group")
	want := fit.RequestOf(w.job.TaskGroups[group])
	n := w.s.Node(statetest.ID[berth.Node](number))
	line := w.s.Usage(n.Number).Draft()
	p := berth.Placement{Group: group, Index: w.index, NodeID: n.ID}
	short := want.Shortfall(&line.Usage)
	if fits := want.Fits(&line.Usage); fits != (len(short) == 0) {
		t.Fatalf("fits: %v, short of %+v", fits, short)
	}
	for _, s := range short {
		if s.Wanted <= s.Free || s.Dimension == "" {
			t.Fatalf("a shortage of nothing: %+v", s)
		}
	}
	if len(short) > 0 {
		return
	}
	before := w.probe(&line.Usage)
	p.Grant = line.Place(&want, rapid.Uint32().Draw(t, "at"))
	ask, used := want.AskOn(w.s.Usage(n.Number)), line.Used.Sub(w.s.Usage(n.Number).Used)
	if ask != used {
		t.Fatalf("%+v was asked, and %+v was taken", ask, used)
	}
	line.Release(&want, p.Grant)
	if after := w.probe(&line.Usage); after != before {
		t.Fatalf("claimed and released, the line says\n%s, not\n%s", after, before)
	}
	if s := want.DeviceAffinity(w.s.Usage(n.Number)); s < -1 || s > 1 {
		t.Fatalf("devices are preferred by %v", s)
	}
	if why := w.try(t, p); why != "" {
		t.Fatalf("what was placed is refused: %s\n%+v", why, p.Grant)
	}
	w.given = append(w.given, p)
}

// forge hands in a plan that grants what another allocation was granted, or
// with parts of a grant left out or doubled.
func (w *world) forge(t *rapid.T) {
	if len(w.given) == 0 {
		return
	}
	p := rapid.SampledFrom(w.given).Draw(t, "grant")
	p.Index = w.index
	p.NodeID = statetest.ID[berth.Node](rapid.IntRange(1, 2).Draw(t, "node"))
	switch rapid.IntRange(0, 4).Draw(t, "forgery") {
	case 0:
		p.Cores = append(slices.Clone(p.Cores), 3)
	case 1:
		p.Devices = nil
	case 2:
		p.Group = rapid.IntRange(0, 2).Draw(t, "other group")
	case 3:
		p.Ports = slices.Repeat([]uint16{20003}, len(p.Ports))
	}
	w.try(t, p)
}

// end ends an allocation, and with it gives back what it held.
func (w *world) end(t *rapid.T) {
	for a := range w.s.AllocsOf(w.job.Key()) {
		if a.Occupies() && rapid.Bool().Draw(t, "ends") {
			c := &state.ReportAllocs{Node: a.NodeID, Now: 2, Updates: []state.AllocUpdate{{ID: a.ID, Client: berth.ClientComplete}}}
			tx := state.Begin(w.s)
			if r := tx.Apply(c); r.Err != nil {
				t.Fatal(r.Err)
			}
			w.s = tx.Seal()
			return
		}
	}
}

// reregister has an agent tell the same of its node again: what is held is
// counted again.
func (w *world) reregister(t *rapid.T) {
	n := *w.s.Node(statetest.ID[berth.Node](rapid.IntRange(1, 2).Draw(t, "node")))
	before := w.probe(w.s.Usage(n.Number))
	r := *n.NodeResources
	n.NodeResources = &r
	w.apply(t, &state.RegisterNode{Node: &n, Now: 3})
	if after := w.probe(w.s.Usage(n.Number)); after != before {
		t.Fatalf("counted again, the line says\n%s, not\n%s", after, before)
	}
}

// reload saves and loads the state, whose lines must say what they said.
func (w *world) reload(t *rapid.T) {
	var out bytes.Buffer
	if err := w.s.Save(&out); err != nil {
		t.Fatal(err)
	}
	s, err := state.Load(&out)
	if err != nil {
		t.Fatal(err)
	}
	for n := range s.Nodes() {
		if a, b := w.probe(s.Usage(n.Number)), w.probe(w.s.Usage(n.Number)); a != b {
			t.Fatalf("loaded, the line of %s says\n%s, not\n%s", n.Name, a, b)
		}
		if n.Class != w.s.Node(n.ID).Class {
			t.Fatal("the class changed")
		}
	}
	if s.Hash() != w.s.Hash() {
		t.Fatal("loaded it is another state")
	}
}

// probe says all that can be found out about a line by asking it.
func (w *world) probe(u *fit.Usage) string {
	cores, devices := u.Named()
	text := fmt.Sprint(u.Used, u.Allocs, u.Ports.Len(), cores, devices)
	for _, network := range []string{"", "public", "private"} {
		for _, port := range []int{80, 443, 20000, 20001, 20002, 20003, 20004, 20005, 20006} {
			want := fit.RequestOf(&berth.TaskGroup{Networks: []berth.NetworkResource{{ReservedPorts: []berth.Port{{Label: "x", Value: port, HostNetwork: network}}}}})
			if want.Fits(u) {
				text += fmt.Sprint(" ", port, network)
			}
		}
	}
	return text
}

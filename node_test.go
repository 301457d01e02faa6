package berth

import "testing"

// What a core takes of its node's processor time.
func TestCores(t *testing.T) {
	cores := []Core{{ID: 0, BaseSpeed: 2000, MaxSpeed: 5000}, {ID: 1, BaseSpeed: 1500, Grade: true, NodeID: 1}, {ID: 2, GuessSpeed: 1800}, {ID: 3}, {ID: 4, Disable: true}}
	n := &Node{
		NodeResources: &NodeResources{
			Cpu:        NodeCpuResources{CpuShares: 8000, ReservableCpuCores: []uint16{3, 0, 1, 2, 4, 9, 1}},
			Processors: NodeProcessors{&Topology{Cores: cores}},
		},
		ReservedResources: &NodeReservedResources{Cpu: NodeReservedCpuResources{ReservedCpuCores: []uint16{9}}},
	}
	same := func(want ...NodeCore) {
		t.Helper()
		got := n.Cores()
		if len(got) != len(want) {
			t.Fatalf("%v", got)
		}
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("%v, not %v", got[i], want[i])
			}
		}
	}
	same(NodeCore{0, 0, 2000}, NodeCore{1, 1, 1500}, NodeCore{2, 0, 1800}, NodeCore{3, 0, 2000})
	n.NodeResources.Processors.Topology.OverrideTotalCompute = 4000
	n.NodeResources.Cpu.CpuShares = 4000
	same(NodeCore{0, 0, 1000}, NodeCore{1, 1, 1000}, NodeCore{2, 0, 1000}, NodeCore{3, 0, 1000})
	n.NodeResources.Processors.Topology, n.NodeResources.Cpu.TotalCpuCores = nil, 8
	same(NodeCore{0, 0, 500}, NodeCore{1, 0, 500}, NodeCore{2, 0, 500}, NodeCore{3, 0, 500}, NodeCore{4, 0, 500})
}

package api

import (
	"slices"

	"berth"
	"berth/op"
)

// allocated is what an allocation was given of its node, which is nil if it
// was forgotten: then its addresses and the speed of its cores are not known.
func allocated(a *berth.Alloc, n *berth.Node) *op.AllocatedResources {
	m := a.Rest()
	out := &op.AllocatedResources{Tasks: map[string]*op.AllocatedTask{}}
	// Cores are kept for the allocation as a whole. Its tasks get theirs in the
	// order of the group.
	cores := m.Cores
	for _, t := range a.Group.Tasks {
		task := &op.AllocatedTask{
			Cpu:    op.AllocatedCPU{CpuShares: int64(t.Resources.CPU)},
			Memory: op.AllocatedMemory{MemoryMB: int64(t.Resources.MemoryMB + t.Resources.SecretsMB)},
		}
		if m.MemoryMax {
			task.Memory.MemoryMaxMB = int64(t.Resources.MemoryMaxMB)
			if task.Memory.MemoryMaxMB > 0 {
				task.Memory.MemoryMaxMB += int64(t.Resources.SecretsMB)
			}
		}
		if count := min(t.Resources.Cores, len(cores)); count > 0 {
			task.Cpu.ReservedCores, cores = slices.Clone(cores[:count]), cores[count:]
			task.Cpu.CpuShares = speed(n, task.Cpu.ReservedCores)
		}
		for _, d := range m.Devices {
			if d.Task == t.Name {
				task.Devices = append(task.Devices, op.AllocatedDevice{Vendor: d.Vendor, Type: d.Type, Name: d.Name, DeviceIDs: d.IDs})
			}
		}
		for i := range t.Resources.Networks {
			task.Networks = append(task.Networks, grantedNetwork(&t.Resources.Networks[i], a.TaskPortMappings(n, t), n))
		}
		out.Tasks[t.Name] = task
	}
	out.Shared.DiskMB = a.Group.Ask().DiskMB
	out.Shared.Ports = a.PortMappings(n)
	for i := range a.Group.Networks {
		out.Shared.Networks = append(out.Shared.Networks, grantedNetwork(&a.Group.Networks[i], out.Shared.Ports, n))
	}
	return out
}

// grantedNetwork returns a network of the job with the node's address and the
// values that dynamic ports got. The list of ports is copied: it belongs to the
// stored job.
func grantedNetwork(asked *berth.NetworkResource, given []berth.PortMapping, n *berth.Node) berth.NetworkResource {
	nw := *asked
	nw.IP = n.AddressOn(berth.DefaultHostNetwork)
	nw.DynamicPorts = slices.Clone(nw.DynamicPorts)
	for k := range nw.DynamicPorts {
		for _, m := range given {
			if m.Label == nw.DynamicPorts[k].Label {
				nw.DynamicPorts[k].Value = m.Value
			}
		}
	}
	return nw
}

// speed is the processor time that cores of a node take, in MHz.
func speed(n *berth.Node, cores []uint16) (mhz int64) {
	if n == nil {
		return 0
	}
	for _, c := range n.Cores() {
		if slices.Contains(cores, c.ID) {
			mhz += c.MHz
		}
	}
	return mhz
}

// totalResources is the sum over the tasks, as older clients read it.
func totalResources(a *berth.Alloc, given *op.AllocatedResources) *berth.Resources {
	total := &berth.Resources{DiskMB: int(given.Shared.DiskMB), Networks: given.Shared.Networks}
	for _, t := range a.Group.Tasks {
		got := given.Tasks[t.Name]
		total.Networks = append(total.Networks[:len(total.Networks):len(total.Networks)], got.Networks...)
		total.CPU += int(got.Cpu.CpuShares)
		total.Cores += t.Resources.Cores
		total.MemoryMB += int(got.Memory.MemoryMB)
		total.SecretsMB += t.Resources.SecretsMB
		if got.Memory.MemoryMaxMB > 0 {
			total.MemoryMaxMB += int(got.Memory.MemoryMaxMB)
		} else {
			total.MemoryMaxMB += int(got.Memory.MemoryMB)
		}
		total.Devices = append(total.Devices, t.Resources.Devices...)
	}
	if !a.Rest().MemoryMax {
		total.MemoryMaxMB = 0
	}
	return total
}

package statetest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"berth"
)

// A node's line can also say
//
//	cores=8                  of equal speed; cores=2000,2000,1000 gives the speed of each
//	numa=2                   NUMA nodes that share the cores out, in order
//	keep.cores=0,1           cores that are kept back
//	device="nvidia/gpu/t4 a b c! d@1 memory=16GiB"
//	                         a group of devices, of which c is unhealthy and d on NUMA node 1;
//	                         a second group is called device.2
//	volumes=data,certs:ro    host volumes
//	csi=disk,other:ill       CSI plugins, of which the second is not healthy
//	address=10.0.0.1         of the default host network
//	net.public="10.0.0.2 22" a host network, and the ports kept back there
//	modes=bridge             of its networks
//
// and a group's line
//
//	cores=2 numa=require numa.devices=gpu memmax=500 mode=bridge
//	device="gpu 2" device.constraint="${device.attr.memory} > 8 GiB" device.affinity="… 50"
//	device.2="fpga"          without conditions
//	volume.data="data ro per_alloc"
//	volume.data="data csi=single-node-writer"
//	port.http=80@public port.dns=53!

// things gives a node what its line says of cores, devices, volumes and
// networks.
func things(t testing.TB, l *Line, n *berth.Node, pick func(string) string) {
	t.Helper()
	coresOf(t, l, n, pick(l.Text("cores", "")))
	for i := 1; ; i++ {
		text := pick(named(l, "", "device", i))
		if text == "" {
			break
		}
		n.NodeResources.Devices = append(n.NodeResources.Devices, deviceOf(t, l, n, text))
	}
	for _, v := range l.List("volumes") {
		name, how, _ := strings.Cut(pick(v), ":")
		if n.HostVolumes == nil {
			n.HostVolumes = map[string]berth.HostVolumeInfo{}
		}
		if name != "-" {
			n.HostVolumes[name] = berth.HostVolumeInfo{Path: "/srv/" + name, ReadOnly: how == "ro"}
		}
	}
	for _, p := range l.List("csi") {
		id, how, _ := strings.Cut(pick(p), ":")
		if n.CSINodePlugins == nil {
			n.CSINodePlugins = map[string]*berth.CSIInfo{}
		}
		if id != "-" {
			n.CSINodePlugins[id] = &berth.CSIInfo{PluginID: id, Healthy: how != "ill", NodeInfo: &berth.CSINodeInfo{ID: n.Name}}
		}
	}
	host := berth.NodeNetwork{Mode: berth.NetworkHost}
	if a := pick(l.Text("address", "")); a != "" {
		n.NodeResources.Networks = []berth.NetworkResource{{IP: a}}
		host.Addresses = append(host.Addresses, berth.NodeNetworkAddress{Alias: berth.DefaultHostNetwork, Address: a})
	}
	nets, names := l.Under("net")
	for _, name := range names {
		address, kept, _ := strings.Cut(pick(nets[name]), " ")
		if address != "-" {
			host.Addresses = append(host.Addresses, berth.NodeNetworkAddress{Alias: name, Address: address, ReservedPorts: kept})
		}
	}
	if len(host.Addresses) > 0 {
		n.NodeResources.NodeNetworks = append(n.NodeResources.NodeNetworks, host)
	}
	for _, mode := range l.List("modes") {
		if mode = pick(mode); mode != "-" {
			n.NodeResources.NodeNetworks = append(n.NodeResources.NodeNetworks, berth.NodeNetwork{Mode: mode})
		}
	}
}

// coresOf gives n the cores of a line: a count, with equal shares of its CPU,
// or the speed of each core in MHz. It must run before deviceOf, which needs
// the topology.
func coresOf(t testing.TB, l *Line, n *berth.Node, text string) {
	t.Helper()
	numa := l.Int(t, "numa", 1)
	kept := l.List("keep.cores")
	if text == "" {
		return
	}
	speeds := strings.Split(text, ",")
	if len(speeds) == 1 {
		count, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("%s: cores: %v", l, err)
		}
		speeds = slices.Repeat([]string{strconv.FormatInt(n.NodeResources.Cpu.CpuShares/int64(count), 10)}, count)
	}
	topology := &berth.Topology{}
	for i := range numa {
		topology.Nodes = append(topology.Nodes, uint8(i))
	}
	for i, s := range speeds {
		mhz, err := strconv.ParseUint(s, 10, 32)
		if err != nil {
			t.Fatalf("%s: cores: %v", l, err)
		}
		topology.Cores = append(topology.Cores, berth.Core{ID: uint16(i), NodeID: uint8(i * numa / len(speeds)), BaseSpeed: mhz})
		n.NodeResources.Cpu.ReservableCpuCores = append(n.NodeResources.Cpu.ReservableCpuCores, uint16(i))
	}
	n.NodeResources.Cpu.TotalCpuCores = uint16(len(speeds))
	n.NodeResources.Processors.Topology = topology
	for _, k := range kept {
		id, err := strconv.ParseUint(k, 10, 16)
		if err != nil {
			t.Fatalf("%s: keep.cores: %v", l, err)
		}
		n.ReservedResources.Cpu.ReservedCpuCores = append(n.ReservedResources.Cpu.ReservedCpuCores, uint16(id))
	}
}

// deviceOf returns the device group of "vendor/type/name" and words: an
// attribute with =, or an instance, ill with !, on a NUMA node with @.
func deviceOf(t testing.TB, l *Line, n *berth.Node, text string) berth.NodeDeviceResource {
	t.Helper()
	words := strings.Fields(text)
	id := strings.Split(words[0], "/")
	if len(id) != 3 {
		t.Fatalf("%s: devices are vendor/type/name", l)
	}
	d := berth.NodeDeviceResource{Vendor: id[0], Type: id[1], Name: id[2], Attributes: map[string]any{}}
	for _, w := range words[1:] {
		if k, v, is := strings.Cut(w, "="); is {
			d.Attributes[k] = attributeOf(v)
			continue
		}
		name, sick := strings.CutSuffix(w, "!")
		name, numa, placed := strings.Cut(name, "@")
		x := berth.NodeDevice{ID: name, Healthy: !sick}
		if placed {
			k, err := strconv.ParseUint(numa, 10, 8)
			if err != nil || n.NodeResources.Processors.Topology == nil {
				t.Fatalf("%s: device %s: on which NUMA node?", l, name)
			}
			bus := "0000:0" + numa
			if n.NodeResources.Processors.Topology.BusAssociativity == nil {
				n.NodeResources.Processors.Topology.BusAssociativity = map[string]uint8{}
			}
			n.NodeResources.Processors.Topology.BusAssociativity[bus] = uint8(k)
			x.Locality = &berth.NodeDeviceLocality{PciBusID: bus}
		}
		d.Instances = append(d.Instances, x)
	}
	return d
}

// attributeOf returns a value as agents tell it: 16GiB is a number and a unit.
func attributeOf(v string) map[string]any {
	digits := strings.TrimLeft(v, "0123456789.")
	if number, err := strconv.ParseInt(strings.TrimSuffix(v, digits), 10, 64); err == nil {
		return map[string]any{"Int": number, "Unit": digits}
	}
	if v == "true" || v == "false" {
		return map[string]any{"Bool": v == "true"}
	}
	return map[string]any{"String": v}
}

// resourcesOf returns what a group's line says of its task's resources.
func resourcesOf(t testing.TB, l *Line, group string) map[string]any {
	t.Helper()
	text := func(key, def string) string { return l.Text(group+"."+key, l.Text(key, def)) }
	number := func(key string, def int) int { return l.Int(t, group+"."+key, l.Int(t, key, def)) }
	r := map[string]any{"CPU": number("cpu", 500), "MemoryMB": number("mem", 100)}
	if n := number("cores", 0); n > 0 {
		r["Cores"] = n
		delete(r, "CPU")
	}
	if n := number("memmax", 0); n > 0 {
		r["MemoryMaxMB"] = n
	}
	if affinity := text("numa", ""); affinity != "" {
		numa := map[string]any{"Affinity": affinity}
		if d := text("numa.devices", ""); d != "" {
			numa["Devices"] = listOf(strings.Split(d, ","))
		}
		r["NUMA"] = numa
	}
	var devices []any
	for i := 1; ; i++ {
		v := text(fmt.Sprint("device.", i), "")
		if i == 1 {
			v = text("device", "")
		}
		if v == "" {
			break
		}
		name, count, counted := strings.Cut(v, " ")
		d := map[string]any{"Name": name}
		if counted {
			n, err := strconv.Atoi(count)
			if err != nil {
				t.Fatalf("%s: how many devices?", l)
			}
			d["Count"] = n
		}
		if i == 1 {
			conditions(t, l, d, group, "device.constraint", "device.affinity")
		}
		devices = append(devices, d)
	}
	if devices != nil {
		r["Devices"] = devices
	}
	return r
}

// listOf returns texts as a list of a job file's tree.
func listOf(texts []string) (out []any) {
	for _, s := range texts {
		out = append(out, s)
	}
	return out
}

// volumesOf returns the volumes of a group's line.
func volumesOf(l *Line, group string) map[string]any {
	var out map[string]any
	for _, prefix := range []string{"volume", group + ".volume"} {
		values, names := l.Under(prefix)
		for _, name := range names {
			words := strings.Fields(values[name])
			if out == nil {
				out = map[string]any{}
			}
			v := map[string]any{
				"Name": name, "Type": berth.VolumeHost, "Source": words[0],
				"ReadOnly": slices.Contains(words, "ro"), "PerAlloc": slices.Contains(words, "per_alloc"),
			}
			for _, w := range words {
				if mode, ok := strings.CutPrefix(w, "csi="); ok {
					v["Type"], v["AccessMode"], v["AttachmentMode"] = berth.VolumeCSI, mode, berth.AttachFilesystem
				}
			}
			out[name] = v
		}
	}
	return out
}

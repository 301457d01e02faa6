package daemon

import (
	"cmp"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strconv"

	"berth"
	"berth/internal/agent"
	"berth/internal/agent/cloud"
	"berth/internal/agent/network"
	"berth/internal/config"
)

// newNode opens the node with the directories that open took before. Without
// configured servers it uses the server of this process. It sends nothing yet;
// Run does.
func (d *Daemon) newNode() (err error) {
	c := &d.conf.Client
	servers := c.Servers
	if len(servers) == 0 {
		servers = []string{d.RPCAddr()}
	}
	d.cluster = agent.NewCluster(servers, d.conf.Region, d.serverTLS().Dial, d.log)
	drivers, err := drivers(d.conf.Config)
	if err != nil {
		return err
	}
	pluginDir := cmp.Or(d.conf.PluginDir, filepath.Join(d.conf.DataDir, "plugins"))
	d.agent, err = agent.New(agent.Config{
		PluginDir: pluginDir, Plugins: d.conf.Plugins.External,
		Servers: d.cluster, DataDir: d.conf.DataDir, AllocDir: c.AllocDir, StateDir: c.StateDir, Folders: d.folders,
		Region: d.conf.Region, Datacenter: d.conf.Datacenter, Name: d.conf.Name, NodeClass: c.NodeClass, NodePool: c.NodePool, Meta: c.Meta,
		Clouds:   clouds(c, cloud.Here()),
		HTTPAddr: d.advertisedHTTP(), TLSEnabled: d.conf.TLS.HTTP, Version: d.conf.Version, Compatible: d.conf.NomadVersion,
		NetworkInterface: c.NetworkInterface, LoopbackOnly: d.conf.Dev && c.NetworkInterface == "",
		MaxAllocs: c.MaxAllocs, CPUTotalCompute: c.CPUTotalCompute, MemoryTotalMB: c.MemoryTotalMB, DiskTotalMB: c.DiskTotalMB, DiskFreeMB: c.DiskFreeMB,
		PreferIPv6: c.PreferredFamily == "ipv6", OwnAddressOnly: !c.BindWildcard, HostUUID: !c.NoHostUUID,
		Reserved: berth.NodeReservedResources{
			Cpu:      berth.NodeReservedCpuResources{CpuShares: uint64(c.Reserved.CPU), ReservedCpuCores: c.Reserved.Cores},
			Memory:   berth.NodeReservedMemoryResources{MemoryMB: uint64(c.Reserved.MemoryMB)},
			Disk:     berth.NodeReservedDiskResources{DiskMB: uint64(c.Reserved.DiskMB)},
			Networks: berth.NodeReservedNetworkResources{ReservedHostPorts: c.Reserved.Ports},
		},
		ReservableCores: c.ReservableCores, HostVolumes: hostVolumes(c), HostVolumesDir: c.HostVolumesDir, HostVolumePluginDir: c.HostVolumePluginDir, Artifacts: artifacts(&c.Inputs), DenyFunctions: c.Inputs.DenyFunctions, TemplateWait: c.Inputs.Wait, TemplateWaitBounds: c.Inputs.WaitBounds, SecretProviderDir: filepath.Join(c.CommonPluginDir, "secrets"), HostNetworks: hostNetworks(c), Networks: groupNetworks(c), DNS: dnsConfig(&d.conf.DNS), LogSinks: d.conf.LogSinks,
		MinDynamicPort: c.MinDynamicPort, MaxDynamicPort: c.MaxDynamicPort, CgroupParent: c.CgroupParent, SharedBy: c.SharedBy,
		RawExec: drivers.raw, Exec: drivers.exec, Java: drivers.java, Qemu: drivers.qemu, MockDriver: d.conf.Plugins.MockDriver,
		Drivers: c.DriverAllow, NoDrivers: c.DriverDeny, Docker: &d.conf.Plugins.Docker, Podman: &d.conf.Plugins.Podman,
		IntroToken: c.IntroToken, TaskAPI: d.taskAPI, StopTasksOnExit: d.conf.Dev, SecretsInMemory: true, LimitDisks: c.LimitDisks, GC: agent.GC{Interval: c.GCInterval, Most: c.GCMaxAllocs, Disk: c.GCDisk, Inodes: c.GCInodes, Parallel: c.GCParallel}, MaxKillTimeout: c.MaxKillTimeout, Log: d.log, Diagnostics: diagnostics{d},
	})
	return err
}

// clouds returns which clouds are asked for attributes: those of fingerprint
// blocks, and the one that the firmware says the machine is in, unless an option
// leaves it out.
func clouds(c *config.Client, here string) map[string]cloud.Fingerprint {
	out := map[string]cloud.Fingerprint{}
	if here != "" && !slices.Contains(c.NoClouds, here) {
		out[here] = cloud.Default
	}
	maps.Copy(out, c.Fingerprints)
	return out
}

// advertisedHTTP is the address at which others reach this agent's HTTP API.
func (d *Daemon) advertisedHTTP() string {
	if adv := d.conf.HTTP.Advertise; adv != "" {
		return adv
	}
	return d.http.Addr().String()
}

// hostVolumes returns the host volumes of the configuration as the node
// describes them to the servers, by name.
func hostVolumes(c *config.Client) map[string]berth.HostVolumeInfo {
	out := map[string]berth.HostVolumeInfo{}
	for name, v := range c.HostVolumes {
		out[name] = berth.HostVolumeInfo{Path: v.Path, ReadOnly: v.ReadOnly}
	}
	return out
}

// hostNetworks returns the host networks of the configuration as the node
// describes them to the servers, by name.
func hostNetworks(c *config.Client) map[string]berth.HostNetworkInfo {
	out := map[string]berth.HostNetworkInfo{}
	for name, n := range c.HostNetworks {
		out[name] = berth.HostNetworkInfo{Name: name, CIDR: n.CIDR, Interface: n.Interface, ReservedPorts: n.ReservedPorts}
	}
	return out
}

// dnsConfig returns what the agent's DNS server answers.
func dnsConfig(c *config.DNS) (out agent.DNSConfig) {
	if !c.Enabled {
		return out
	}
	for _, a := range c.Addresses {
		out.Addrs = append(out.Addrs, net.JoinHostPort(a, strconv.Itoa(c.Port)))
	}
	out.Enabled, out.Domain, out.TTL, out.Recursors = true, c.Domain, c.TTL, c.Recursors
	return out
}

// groupNetworks returns how the agent makes networks of groups.
func groupNetworks(c *config.Client) network.Config {
	g := &c.GroupNetworks
	return network.Config{
		Bridge: g.Bridge, Subnet: g.Subnet, SubnetIPv6: g.SubnetIPv6, Hairpin: g.Hairpin,
		Plugins: filepath.SplitList(g.Plugins), ConfigDir: g.ConfigDir, Namespaces: network.DefaultNamespaces, Addresses: network.DefaultAddresses,
	}
}

package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	"berth"
	"berth/client"
	"berth/op"
)

// hostStats adds what the machine of a node uses of itself.
func (s nodeStatus) hostStats(ctx context.Context, c *call, p *page, n *op.Node) error {
	h, _, err := client.Call(ctx, c.client, op.ReadHost, op.NodeTarget{NodeID: n.ID.String()})
	if err != nil {
		return err
	}
	hostRows(p, n.Node, &h)
	return nil
}

// hostRows adds the sections about a machine. Their names are those of Nomad.
func hostRows(p *page, n *berth.Node, h *op.HostStats) {
	row := []string{none, none, none}
	if n.NodeResources != nil {
		row[0] = fmt.Sprintf("%.0f/%d MHz", h.CPUTicksConsumed, n.NodeResources.Cpu.CpuShares)
	}
	if h.Memory != nil {
		row[1] = inBytes(h.Memory.Used) + "/" + inBytes(h.Memory.Total)
	}
	if h.AllocDirStats != nil {
		row[2] = inBytes(h.AllocDirStats.Used) + "/" + inBytes(h.AllocDirStats.Size)
	}
	p.heading("Host Resource Utilization")
	p.table([][]string{{"CPU", "Memory", "Disk"}, row})
	p.pairs("Uptime", (time.Duration(h.Uptime) * time.Second).String())
	p.heading("CPU Stats")
	cpus := [][]string{{"CPU", "User", "System", "Idle"}}
	for _, c := range h.CPU {
		cpus = append(cpus, []string{c.CPU, percent(c.User), percent(c.System), percent(c.Idle)})
	}
	p.table(cpus)
	if m := h.Memory; m != nil {
		p.heading("Memory Stats")
		p.pairs("Total", inBytes(m.Total), "Available", inBytes(m.Available), "Used", inBytes(m.Used), "Free", inBytes(m.Free))
	}
	p.heading("Disk Stats")
	disks := [][]string{{"Device", "MountPoint", "Size", "Used", "Available", "Used Percent", "Inodes Percent"}}
	all := slices.Clone(h.DiskStats)
	if d := h.AllocDirStats; d != nil && !slices.ContainsFunc(all, func(o op.HostDisk) bool { return o.Mountpoint == d.Mountpoint }) {
		all = append(all, *d)
	}
	for _, d := range all {
		disks = append(disks, []string{d.Device, d.Mountpoint, inBytes(d.Size), inBytes(d.Used), inBytes(d.Available), percent(d.UsedPercent), percent(d.InodesUsedPercent)})
	}
	p.table(disks)
}

// percent is a percentage with two digits.
func percent(v float64) string { return fmt.Sprintf("%.2f%%", v) }

// inBytes is a number of bytes in the unit that suits it.
func inBytes(n uint64) string {
	if n < 1<<20 {
		return fmt.Sprintf("%.0f KiB", float64(n)/(1<<10))
	}
	return mib(int64(n >> 20))
}

// usage returns what the tasks of an allocation use.
func (s allocStatus) usage(ctx context.Context, c *call, a *op.Alloc) (*op.AllocUsage, error) {
	u, _, err := client.Call(ctx, c.client, op.ReadUsage, op.AllocStatsQuery{AllocID: a.ID.String(), Query: op.Query{Namespace: a.Namespace}})
	return &u, err
}

// measuredRows adds what a task uses.
func measuredRows(p *page, u *op.TaskUsage) {
	if u == nil || u.ResourceUsage == nil {
		return
	}
	if m := u.ResourceUsage.MemoryStats; m != nil {
		figures(p, "Memory Stats", m.Measured, map[string]string{
			"Cache": inBytes(m.Cache), "Max Usage": inBytes(m.MaxUsage), "RSS": inBytes(m.RSS), "Swap": inBytes(m.Swap), "Usage": inBytes(m.Usage),
		})
	}
	if c := u.ResourceUsage.CpuStats; c != nil {
		figures(p, "CPU Stats", c.Measured, map[string]string{
			"Percent": percent(c.Percent), "System Mode": percent(c.SystemMode), "User Mode": percent(c.UserMode),
			"Throttled Periods": fmt.Sprint(c.ThrottledPeriods), "Throttled Time": time.Duration(c.ThrottledTime).String(),
		})
	}
}

// figures adds a table of those figures that were measured.
func figures(p *page, title string, measured []string, all map[string]string) {
	var names, values []string
	for _, name := range slices.Sorted(slices.Values(measured)) {
		if v, known := all[name]; known {
			names, values = append(names, name), append(values, v)
		}
	}
	if len(names) == 0 {
		return
	}
	p.gap()
	p.linef("%s", title)
	p.table([][]string{names, values})
}

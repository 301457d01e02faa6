package server

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"berth"
	"berth/op"
)

// HostSource tells of the node in this process.
type HostSource interface {
	// HostStats measures the machine.
	HostStats(context.Context) (*op.HostStats, error)
	// Node returns the node as servers are told of it.
	Node() *berth.Node
	// AllocUses measures the allocations of the node that run.
	AllocUses(context.Context) []op.AllocUse
	// AllocCounts counts the allocations of the node by status.
	AllocCounts() map[berth.ClientStatus]int
}

// hostMetrics are the metrics of the machine of a node, under the names that
// Nomad documents.
type hostMetrics struct{ source HostSource }

// addHost adds the metrics of a node.
func (m *metrics) addHost(source HostSource, f MetricsFilter) {
	m.registry.MustRegister(hostMetrics{source})
	if f.Allocs {
		m.registry.MustRegister(taskMetrics{source})
	}
}

// hostTime is how long the machine may take to be measured.
const hostTime = 10 * time.Second

// hostGauge describes a metric of a machine.
func hostGauge(name, help string, labels ...string) figure {
	return gauge("client."+name, help, append([]string{"node_id", "datacenter", "node_class", "node_pool"}, labels...)...)
}

var (
	hostPending       = hostGauge("allocations.pending", "Allocations of the node that have not started.")
	hostRunning       = hostGauge("allocations.running", "Allocations of the node that run.")
	hostTerminal      = hostGauge("allocations.terminal", "Allocations of the node that have ended and that servers still know.")
	hostUptime        = hostGauge("uptime", "Seconds since the machine started.")
	hostMemTotal      = hostGauge("host.memory.total", "Memory of the machine, in bytes.")
	hostMemAvailable  = hostGauge("host.memory.available", "Memory that programs can get, in bytes.")
	hostMemUsed       = hostGauge("host.memory.used", "Memory that programs use, in bytes.")
	hostMemFree       = hostGauge("host.memory.free", "Memory that nothing uses, in bytes.")
	hostCPUTotal      = hostGauge("host.cpu.total_ticks", "Processor time in use, in MHz.")
	hostCPUPercent    = hostGauge("host.cpu.total_percent", "Processor time in use, in percent of one processor.", "cpu")
	hostCPUUser       = hostGauge("host.cpu.user", "Processor time of programs, in percent of one processor.", "cpu")
	hostCPUSystem     = hostGauge("host.cpu.system", "Processor time of the kernel, in percent of one processor.", "cpu")
	hostCPUIdle       = hostGauge("host.cpu.idle", "Processor time not in use, in percent of one processor.", "cpu")
	hostDiskSize      = hostGauge("host.disk.size", "Size of a file system, in bytes.", "disk")
	hostDiskUsed      = hostGauge("host.disk.used", "Bytes of a file system in use.", "disk")
	hostDiskAvailable = hostGauge("host.disk.available", "Bytes of a file system that can be used.", "disk")
	hostDiskPercent   = hostGauge("host.disk.used_percent", "Part of a file system in use, in percent.", "disk")
	hostDiskInodes    = hostGauge("host.disk.inodes_percent", "Part of a file system's inodes in use, in percent.", "disk")
)

// Describe implements prometheus.Collector. It sends nothing, because the set of
// metrics depends on the machine.
func (hostMetrics) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector. A machine that cannot be measured has
// no metrics.
func (m hostMetrics) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), hostTime)
	defer cancel()
	s, err := m.source.HostStats(ctx)
	if err != nil {
		ch <- prometheus.NewInvalidMetric(hostUptime.desc, err)
		return
	}
	n := m.source.Node()
	put := func(f figure, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(f.desc, prometheus.GaugeValue, v, append([]string{n.ID.String(), n.Datacenter, n.NodeClass, n.NodePool}, labels...)...)
	}
	counts, ended := m.source.AllocCounts(), 0
	for status, count := range counts {
		if status.Ended() {
			ended += count
		}
	}
	put(hostPending, float64(counts[berth.ClientPending]))
	put(hostRunning, float64(counts[berth.ClientRunning]))
	put(hostTerminal, float64(ended))
	put(hostUptime, float64(s.Uptime))
	put(hostMemTotal, float64(s.Memory.Total))
	put(hostMemAvailable, float64(s.Memory.Available))
	put(hostMemUsed, float64(s.Memory.Used))
	put(hostMemFree, float64(s.Memory.Free))
	put(hostCPUTotal, s.CPUTicksConsumed)
	for _, c := range s.CPU {
		put(hostCPUPercent, 100-c.Idle, c.CPU)
		put(hostCPUUser, c.User, c.CPU)
		put(hostCPUSystem, c.System, c.CPU)
		put(hostCPUIdle, c.Idle, c.CPU)
	}
	sinks(m.source, put)
	seen := map[string]bool{}
	for _, d := range append(s.DiskStats, *s.AllocDirStats) {
		if seen[d.Device] {
			continue
		}
		seen[d.Device] = true
		put(hostDiskSize, float64(d.Size), d.Device)
		put(hostDiskUsed, float64(d.Used), d.Device)
		put(hostDiskAvailable, float64(d.Available), d.Device)
		put(hostDiskPercent, d.UsedPercent, d.Device)
		put(hostDiskInodes, d.InodesUsedPercent, d.Device)
	}
}

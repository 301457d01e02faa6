package host

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"berth/internal/agent/driver"
	"berth/op"
)

// UsageOf returns what tasks use, by two measurements of each: its processor
// time between them, and its memory at the second. A task that was started
// between them counts from its start. speed is that of one processor in MHz.
func UsageOf(before, now map[string]driver.Usage, apart time.Duration, at time.Time, speed float64) *op.AllocUsage {
	out := &op.AllocUsage{Tasks: map[string]*op.TaskUsage{}, Timestamp: at.UnixNano()}
	var all []*op.ResourceUsage
	for name, n := range now {
		b := before[name]
		t := &op.TaskUsage{ResourceUsage: resources(b, n, apart, speed), Timestamp: out.Timestamp, Pids: map[string]*op.ResourceUsage{}}
		for pid, p := range n.Each {
			t.Pids[strconv.Itoa(pid)] = resources(b.Each[pid], p, apart, speed)
		}
		out.Tasks[name] = t
		all = append(all, t.ResourceUsage)
	}
	out.ResourceUsage = sum(all)
	return out
}

// resources returns what one task or process uses.
func resources(b, n driver.Usage, apart time.Duration, speed float64) *op.ResourceUsage {
	system := rate(b.System, n.System, apart)
	percent := max(rate(b.CPU, n.CPU, apart), system)
	r := &op.ResourceUsage{
		MemoryStats: &op.MemoryUsage{RSS: size(n.Memory), Cache: size(n.Cache), Swap: size(n.Swap), Usage: size(n.Memory + n.Cache), MaxUsage: size(n.MaxMemory), Measured: []string{"RSS"}},
		CpuStats: &op.CPUUsage{
			SystemMode: system, UserMode: percent - system, Percent: percent, TotalTicks: percent / 100 * speed,
			ThrottledPeriods: n.ThrottledPeriods, ThrottledTime: uint64(max(0, n.ThrottledTime)),
			Measured: []string{"System Mode", "User Mode", "Percent"},
		},
		DeviceStats: []op.Nothing{},
	}
	if n.Engine { // it tells more than /proc
		r.MemoryStats.Measured = []string{"RSS", "Cache", "Swap", "Usage", "Max Usage"}
		r.CpuStats.Measured = append(r.CpuStats.Measured, "Throttled Periods", "Throttled Time")
	}
	return r
}

// size is a number of bytes, which is never negative.
func size(n int64) uint64 { return uint64(max(0, n)) }

// sum adds up uses. What is measured of one of them is measured.
func sum(all []*op.ResourceUsage) *op.ResourceUsage {
	m, c := &op.MemoryUsage{Measured: []string{}}, &op.CPUUsage{Measured: []string{}}
	memory, cpu := map[string]bool{}, map[string]bool{}
	for _, r := range all {
		m.RSS += r.MemoryStats.RSS
		m.Cache += r.MemoryStats.Cache
		m.Swap += r.MemoryStats.Swap
		m.Usage += r.MemoryStats.Usage
		m.MaxUsage += r.MemoryStats.MaxUsage
		c.SystemMode += r.CpuStats.SystemMode
		c.UserMode += r.CpuStats.UserMode
		c.Percent += r.CpuStats.Percent
		c.TotalTicks += r.CpuStats.TotalTicks
		c.ThrottledPeriods += r.CpuStats.ThrottledPeriods
		c.ThrottledTime += r.CpuStats.ThrottledTime
		for _, f := range r.MemoryStats.Measured {
			memory[f] = true
		}
		for _, f := range r.CpuStats.Measured {
			cpu[f] = true
		}
	}
	m.Measured, c.Measured = slices.AppendSeq(m.Measured, maps.Keys(memory)), slices.AppendSeq(c.Measured, maps.Keys(cpu))
	slices.Sort(m.Measured)
	slices.Sort(c.Measured)
	return &op.ResourceUsage{MemoryStats: m, CpuStats: c, DeviceStats: []op.Nothing{}}
}

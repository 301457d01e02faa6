package server

import (
	"context"

	"berth/op"

	"github.com/prometheus/client_golang/prometheus"
)

// taskMetrics are the metrics of the tasks of a node, under the names and labels
// that Nomad documents.
type taskMetrics struct{ source HostSource }

// taskGauge describes a metric of a task.
func taskGauge(name, help string) figure {
	return gauge("client.allocs."+name, help, "job", "task_group", "alloc_id", "task", "namespace")
}

var (
	taskMemAllocated = taskGauge("memory.allocated", "Memory that the task has asked for, in bytes.")
	taskMemRSS       = taskGauge("memory.rss", "Resident memory, in bytes.")
	taskMemCache     = taskGauge("memory.cache", "Memory for pages of files, in bytes.")
	taskMemSwap      = taskGauge("memory.swap", "Swap in use, in bytes.")
	taskMemUsage     = taskGauge("memory.usage", "Memory in use, in bytes.")
	taskMemMax       = taskGauge("memory.max_usage", "The most memory that was in use, in bytes.")
	taskCPUAllocated = taskGauge("cpu.allocated", "Processor time that the task has asked for, in MHz.")
	taskCPUPercent   = taskGauge("cpu.total_percent", "Processor time in use, in percent of one processor.")
	taskCPUTicks     = taskGauge("cpu.total_ticks", "Processor time in use, in MHz.")
	taskCPUSystem    = taskGauge("cpu.system", "Processor time of the kernel, in percent of one processor.")
	taskCPUUser      = taskGauge("cpu.user", "Processor time of the task's programs, in percent of one processor.")
	taskCPUPeriods   = taskGauge("cpu.throttled_periods", "Periods in which the task was held back.")
	taskCPUThrottled = taskGauge("cpu.throttled_time", "Time for which the task was held back, in ns.")
)

// Describe implements prometheus.Collector. It sends nothing, because the set of
// metrics depends on what runs.
func (taskMetrics) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector. A task that cannot be measured has no
// metrics.
func (m taskMetrics) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), hostTime)
	defer cancel()
	for _, use := range m.source.AllocUses(ctx) {
		for name, t := range use.Usage.Tasks {
			taskFigures(use.Alloc, name, t, func(f figure, v float64) {
				al := use.Alloc
				ch <- prometheus.MustNewConstMetric(f.desc, prometheus.GaugeValue, v, string(al.JobID), al.TaskGroup, al.ID.String(), name, al.Namespace)
			})
		}
	}
}

// taskFigures puts the figures of one task.
func taskFigures(al *op.Alloc, name string, t *op.TaskUsage, put func(figure, float64)) {
	if r := al.AllocatedResources; r != nil && r.Tasks[name] != nil {
		put(taskMemAllocated, float64(r.Tasks[name].Memory.MemoryMB)*(1<<20))
		put(taskCPUAllocated, float64(r.Tasks[name].Cpu.CpuShares))
	}
	mem, cpu := t.ResourceUsage.MemoryStats, t.ResourceUsage.CpuStats
	put(taskMemRSS, float64(mem.RSS))
	put(taskMemCache, float64(mem.Cache))
	put(taskMemSwap, float64(mem.Swap))
	put(taskMemUsage, float64(mem.Usage))
	put(taskMemMax, float64(mem.MaxUsage))
	put(taskCPUPercent, cpu.Percent)
	put(taskCPUTicks, cpu.TotalTicks)
	put(taskCPUSystem, cpu.SystemMode)
	put(taskCPUUser, cpu.UserMode)
	put(taskCPUPeriods, float64(cpu.ThrottledPeriods))
	put(taskCPUThrottled, float64(cpu.ThrottledTime))
}

// Package host measures the machine that an agent runs on, and what its tasks
// use of it. It reads /proc and asks file systems; it changes nothing.
package host

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shirou/gopsutil/v4/mem"
	"golang.org/x/sys/unix"

	"berth/op"
)

// Meter measures a machine. It is safe for concurrent use.
type Meter struct {
	dir     string  // of the allocations
	speed   float64 // MHz of one processor
	sampler Sampler[map[string]times]
}

// New returns a meter of this machine. dir holds the directories of the
// allocations; speed is that of one processor in MHz.
func New(dir string, speed float64) *Meter { return &Meter{dir: dir, speed: speed} }

// Speed returns the speed of one processor in MHz.
func (m *Meter) Speed() float64 { return m.speed }

// Stats measures the machine. The use of processors is that since an earlier
// call, or within a quarter of a second.
func (m *Meter) Stats(ctx context.Context) (*op.HostStats, error) {
	before, now, _, err := m.sampler.Pair(ctx, func(context.Context) (map[string]times, error) {
		b, err := os.ReadFile("/proc/stat")
		return parseTimes(string(b)), err
	})
	if err != nil {
		return nil, fmt.Errorf("processors: %w", err)
	}
	out := &op.HostStats{CPU: usesOf(before, now), DeviceStats: []*op.DeviceGroupStats{}}
	for _, c := range out.CPU {
		out.CPUTicksConsumed += (100 - c.Idle) / 100 * m.speed
	}
	memory, err := mem.VirtualMemoryWithContext(ctx)
	if err != nil {
		return nil, fmt.Errorf("memory: %w", err)
	}
	out.Memory = &op.HostMemory{Total: memory.Total, Available: memory.Available, Used: memory.Used, Free: memory.Free}
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return nil, fmt.Errorf("uptime: %w", err)
	}
	out.Uptime = uint64(info.Uptime)
	if out.DiskStats, err = disks(); err != nil {
		return nil, err
	}
	out.AllocDirStats, err = m.Disk()
	return out, err
}

// Disk measures the file system with the directories of the allocations.
func (m *Meter) Disk() (*op.HostDisk, error) {
	mounts, err := readMounts()
	if err != nil {
		return nil, err
	}
	d, err := diskOf(mountOf(mounts, m.dir), m.dir)
	return &d, err
}

// times is what a processor did since the machine was started, in ticks.
type times struct{ user, system, idle float64 }

// parseTimes reads /proc/stat, and returns the times of each processor by its
// name. Time of guests is a part of that of users.
func parseTimes(stat string) map[string]times {
	out := map[string]times{}
	for line := range strings.Lines(stat) {
		f := strings.Fields(line)
		if len(f) < 5 || !strings.HasPrefix(f[0], "cpu") || f[0] == "cpu" {
			continue
		}
		// user nice system idle iowait irq softirq steal guest guest_nice
		var v [8]float64
		for i := range min(len(v), len(f)-1) {
			n, err := strconv.ParseUint(f[i+1], 10, 64)
			if err != nil {
				return nil
			}
			v[i] = float64(n)
		}
		out[f[0]] = times{user: v[0] + v[1], system: v[2] + v[5] + v[6] + v[7], idle: v[3] + v[4]}
	}
	return out
}

// usesOf returns what processors did between two measurements, in order of their
// numbers. One for which no tick has passed was idle.
func usesOf(before, now map[string]times) []op.HostCPU {
	out := []op.HostCPU{}
	for name, n := range now {
		b := before[name]
		user, system, idle := max(0, n.user-b.user), max(0, n.system-b.system), max(0, n.idle-b.idle)
		c := op.HostCPU{CPU: name, Idle: 100}
		if all := user + system + idle; all > 0 {
			c.User, c.System, c.Idle = 100*user/all, 100*system/all, 100*idle/all
		}
		out = append(out, c)
	}
	number := func(c op.HostCPU) int { n, _ := strconv.Atoi(strings.TrimPrefix(c.CPU, "cpu")); return n }
	slices.SortFunc(out, func(a, b op.HostCPU) int { return number(a) - number(b) })
	return out
}

// rate returns what part of an interval a growing time is, in percent. One that
// shrank began again.
func rate(before, now, apart time.Duration) float64 {
	if apart <= 0 || now < before {
		return 0
	}
	return 100 * float64(now-before) / float64(apart)
}

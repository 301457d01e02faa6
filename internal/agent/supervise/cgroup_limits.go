package supervise

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"berth"
	"berth/internal/cpuset"
)

// What a cgroup limits. Version 1 has a hierarchy for each controller, or for
// some together, and the task is in a group of each; version 2 has one group,
// with the files of all. The names and units of the files are the kernel's
// (Documentation/admin-guide/cgroup-v1 and cgroup-v2.rst).

// controllers returns the names of the controllers, those of version 1, that the
// start needs.
func (st *Start) controllers() (out []string) {
	l := &st.Limits
	for name, needed := range map[string]bool{
		"cpu": l.CPUShares > 0 || l.CPUQuota > 0, "memory": l.Memory > 0 || l.MemoryMax > 0, "pids": l.MaxProcesses > 0,
		"cpuset": len(st.Cores) > 0, "devices": l.Devices,
	} {
		if needed {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// controllerDirs returns the groups in hierarchies of version 1 that limit.
func (c *cgroup) controllerDirs() (out []string) {
	if c == nil {
		return nil
	}
	for _, dir := range c.controllers {
		if !slices.Contains(out, dir) {
			out = append(out, dir)
		}
	}
	slices.Sort(out)
	return out
}

// file returns the path of a file of a controller: v1 in the group of its
// hierarchy, v2 in the one group. It is "" if the machine offers neither.
func (c *cgroup) file(controller, v1, v2 string) string {
	if c == nil {
		return ""
	}
	if dir, ok := c.controllers[controller]; ok {
		return filepath.Join(dir, v1)
	}
	if c.v2 && v2 != "" && c.offers(controller) {
		return filepath.Join(c.dir, v2)
	}
	return ""
}

// offers reports whether a group of version 2 has a controller. It is handed
// down level by level; it may be already.
func (c *cgroup) offers(controller string) bool {
	parent := filepath.Dir(c.dir)
	for _, dir := range []string{filepath.Dir(parent), parent} {
		_ = os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+controller), 0o644)
	}
	b, err := os.ReadFile(filepath.Join(c.dir, "cgroup.controllers"))
	return err == nil && slices.Contains(strings.Fields(string(b)), controller)
}

// write is a value for a file of a group.
type write struct{ path, value string }

// write returns what sets a value, or an error if no controller can.
func (c *cgroup) write(controller, v1, v2 string, value1, value2 string) (write, error) {
	path, value := c.file(controller, v1, v2), value1
	if path == "" {
		return write{}, berth.Errorf(berth.Unavailable, "the task cannot be limited: the machine has no cgroup controller %q for us", controller)
	}
	if _, ok := c.controllers[controller]; !ok {
		value = value2
	}
	return write{path, value}, nil
}

// apply writes values. A file of version 1 that says that it is busy holds a
// group that uses more than the limit by now.
func apply(writes []write) error {
	for _, w := range writes {
		if err := os.WriteFile(w.path, []byte(w.value), 0o644); err != nil {
			return fmt.Errorf("limit the task: %w", err)
		}
	}
	return nil
}

// setCores keeps the group to some cores. Nothing is done for no cores: a task
// has the same all its life.
func (c *cgroup) setCores(cores []uint16) error {
	if len(cores) == 0 {
		return nil
	}
	if c != nil && c.controllers["cpuset"] != "" {
		// A new group of version 1 has neither cores nor memory of its own. Its
		// parent is ours as well.
		dir := c.controllers["cpuset"]
		for _, d := range []string{filepath.Dir(dir), dir} {
			for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
				if b, err := os.ReadFile(filepath.Join(d, name)); err == nil && strings.TrimSpace(string(b)) != "" {
					continue
				}
				b, err := os.ReadFile(filepath.Join(filepath.Dir(d), name))
				if err == nil {
					err = os.WriteFile(filepath.Join(d, name), b, 0o644)
				}
				if err != nil {
					return err
				}
			}
		}
	}
	w, err := c.write("cpuset", "cpuset.cpus", "cpuset.cpus", cpuset.Format(cores), cpuset.Format(cores))
	if err != nil {
		return err
	}
	return apply([]write{w})
}

// cpuPeriod is the time in which a quota of processor time is counted.
const cpuPeriod = 100_000 // microseconds

// allowedDevices are the device nodes of an isolated task, and terminals. Making
// nodes is no use without the right to open them.
var allowedDevices = []string{"c 1:3 rwm", "c 1:5 rwm", "c 1:7 rwm", "c 1:8 rwm", "c 1:9 rwm", "c 5:0 rwm", "c 5:2 rwm", "c 136:* rwm"}

// limits returns what sets the limits of the group.
func (c *cgroup) limits(l Limits) (writes []write, err error) {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	var errs []error
	set := func(controller, v1, v2, value1, value2 string) {
		w, err := c.write(controller, v1, v2, value1, value2)
		writes, errs = append(writes, w), append(errs, err)
	}
	if l.CPUShares > 0 {
		// Version 1 takes 2 to 262144, version 2 a weight of 1 to 10000.
		shares := min(max(l.CPUShares, 2), 262144)
		set("cpu", "cpu.shares", "cpu.weight", number(shares), number(1+(shares-2)*9999/262142))
	}
	if l.CPUQuota > 0 {
		quota := max(l.CPUQuota*cpuPeriod/1000, 1000)
		if c != nil && c.controllers["cpu"] != "" {
			set("cpu", "cpu.cfs_period_us", "", number(cpuPeriod), "")
		}
		set("cpu", "cpu.cfs_quota_us", "cpu.max", number(quota), fmt.Sprintf("%d %d", quota, cpuPeriod))
	}
	if most := max(l.MemoryMax, l.Memory); most > 0 {
		set("memory", "memory.limit_in_bytes", "memory.max", number(most), number(most))
		if l.Memory > 0 && l.Memory < most {
			set("memory", "memory.soft_limit_in_bytes", "memory.low", number(l.Memory), number(l.Memory))
		}
		writes = append(writes, c.noSwap(most)...)
	}
	if l.MaxProcesses > 0 {
		set("pids", "pids.max", "pids.max", number(l.MaxProcesses), number(l.MaxProcesses))
	}
	// In version 2 it takes a program in the kernel; the task lacks the right to
	// make nodes all the same.
	if l.Devices && c != nil && c.controllers["devices"] != "" {
		set("devices", "devices.deny", "", "a", "")
		more, err := deviceRules(l.MoreDevices)
		errs = append(errs, err)
		for _, d := range append(more, allowedDevices...) {
			set("devices", "devices.allow", "", d, "")
		}
	}
	return writes, errors.Join(errs...)
}

// deviceRules returns what allows the use of devices of the host.
func deviceRules(devices []string) (rules []string, err error) {
	for _, d := range devices {
		path, may, _ := strings.Cut(d, " ")
		var st unix.Stat_t
		if err := unix.Stat(path, &st); err != nil {
			return nil, fmt.Errorf("device %s: %w", path, err)
		}
		kind := "c"
		if st.Mode&unix.S_IFMT == unix.S_IFBLK {
			kind = "b"
		}
		rules = append(rules, fmt.Sprintf("%s %d:%d %s", kind, unix.Major(st.Rdev), unix.Minor(st.Rdev), may))
	}
	return rules, nil
}

// noSwap returns what counts swap with the memory, and has the kernel kill a
// task whole, where the kernel has the files for it.
func (c *cgroup) noSwap(most int64) (out []write) {
	for _, w := range []struct{ v1, v2, value1, value2 string }{
		{"memory.memsw.limit_in_bytes", "memory.swap.max", strconv.FormatInt(most, 10), "0"},
		{"", "memory.oom.group", "", "1"},
	} {
		one, err := c.write("memory", w.v1, w.v2, w.value1, w.value2)
		if st, e := os.Stat(one.path); err == nil && e == nil && st.Mode().IsRegular() {
			out = append(out, one)
		}
	}
	return out
}

// oomKilled reports whether the kernel killed a process of the group because
// the group used more memory than it may.
func (c *cgroup) oomKilled() bool {
	p := c.file("memory", "memory.oom_control", "memory.events")
	if p == "" {
		return false
	}
	b, err := os.ReadFile(p)
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == "oom_kill" {
			return f[1] != "0"
		}
	}
	return false
}

// MissingControllers returns those of the named cgroup controllers that this
// machine does not offer, in either version.
func MissingControllers(names ...string) (missing []string) {
	have := map[string]bool{}
	for _, h := range hierarchies() {
		for _, c := range h.controllers {
			have[c] = true
		}
		if h.v2 {
			b, _ := os.ReadFile(filepath.Join(h.mount, "cgroup.controllers"))
			for _, c := range strings.Fields(string(b)) {
				have[c] = true
			}
		}
	}
	for _, n := range names {
		if !have[n] {
			missing = append(missing, n)
		}
	}
	return missing
}

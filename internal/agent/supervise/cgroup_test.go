//go:build faults

package supervise

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth"
)

// A directory stands in for the file system: what is written where.
func TestATaskIsKeptToItsCores(t *testing.T) {
	mount := t.TempDir()
	c := newCgroup("berth.slice", "alloc.task", []hierarchy{{mount: mount, v2: true}}, []string{"cpuset"})
	if c == nil {
		t.Fatal("no group")
	}
	defer c.fd.Close()
	must(t, c.setCores(nil))
	if _, err := os.Stat(filepath.Join(c.dir, "cpuset.cpus")); err == nil {
		t.Error("a task without cores of its own was kept to some")
	}
	if err := c.setCores([]uint16{1}); berth.KindOf(err) != berth.Unavailable {
		t.Errorf("without the controller: %v", err)
	}
	must(t, os.WriteFile(filepath.Join(c.dir, "cgroup.controllers"), []byte("cpuset cpu io memory pids\n"), 0o644))
	must(t, c.setCores([]uint16{0, 1, 2, 5}))
	for file, want := range map[string]string{
		"cgroup.subtree_control": "+cpuset", "berth.slice/cgroup.subtree_control": "+cpuset", "berth.slice/alloc.task/cpuset.cpus": "0-2,5",
	} {
		if b, err := os.ReadFile(filepath.Join(mount, file)); err != nil || string(b) != want {
			t.Errorf("%s holds %q, %v; want %q", file, b, err, want)
		}
	}
	must(t, os.RemoveAll(c.dir))
	if err := c.setCores([]uint16{1}); err == nil {
		t.Error("the group is gone, and nobody said so")
	}
	for _, none := range []*cgroup{nil, {dir: mount}} {
		if err := none.setCores([]uint16{1}); berth.KindOf(err) != berth.Unavailable {
			t.Errorf("without cgroups: %v", err)
		}
		must(t, none.setCores(nil))
	}
}

// What a limit writes, in either version of cgroups.
func TestLimitsAreWritten(t *testing.T) {
	mount := t.TempDir()
	l := Limits{CPUShares: 500, CPUQuota: 250, Memory: 64 << 20, MemoryMax: 128 << 20, MaxProcesses: 50, Devices: true}
	needed := (&Start{Limits: l}).controllers()
	files := func(c *cgroup, name string) {
		must(t, os.WriteFile(filepath.Join(c.dir, name), nil, 0o644))
	}
	two := newCgroup("berth.slice", "two", []hierarchy{{mount: filepath.Join(mount, "unified"), v2: true}}, needed)
	files(two, "memory.swap.max")
	files(two, "memory.oom.group")
	must(t, os.WriteFile(filepath.Join(two.dir, "cgroup.controllers"), []byte("cpuset cpu io memory pids\n"), 0o644))
	var v1 []hierarchy
	for _, c := range []string{"freezer", "memory", "cpu,cpuacct", "pids", "devices"} {
		v1 = append(v1, hierarchy{mount: filepath.Join(mount, c), controllers: strings.Split(c, ",")})
	}
	one := newCgroup("berth.slice", "one", v1, needed)
	for _, c := range []*cgroup{one, two} {
		writes, err := c.limits(l)
		must(t, err)
		must(t, apply(writes))
	}
	for file, want := range map[string]string{
		"unified/berth.slice/two/cpu.weight": "19", "unified/berth.slice/two/cpu.max": "25000 100000", "unified/berth.slice/two/memory.max": "134217728",
		"unified/berth.slice/two/memory.low": "67108864", "unified/berth.slice/two/memory.swap.max": "0", "unified/berth.slice/two/memory.oom.group": "1",
		"unified/berth.slice/two/pids.max": "50", "cpu,cpuacct/berth.slice/one/cpu.shares": "500", "cpu,cpuacct/berth.slice/one/cpu.cfs_quota_us": "25000",
		"memory/berth.slice/one/memory.limit_in_bytes": "134217728", "memory/berth.slice/one/memory.soft_limit_in_bytes": "67108864",
		"pids/berth.slice/one/pids.max": "50", "devices/berth.slice/one/devices.deny": "a",
	} {
		if b, err := os.ReadFile(filepath.Join(mount, file)); err != nil || string(b) != want {
			t.Errorf("%s holds %q, %v; want %q", file, b, err, want)
		}
	}
	if _, err := newCgroup("berth.slice", "few", v1[:1], needed).limits(l); berth.KindOf(err) != berth.Unavailable {
		t.Errorf("without controllers: %v", err)
	}
	for text, want := range map[string]bool{"oom_kill_disable 0\nunder_oom 0\noom_kill 0\n": false, "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n": true} {
		must(t, os.WriteFile(filepath.Join(mount, "memory/berth.slice/one/memory.oom_control"), []byte(text), 0o644))
		if one.oomKilled() != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}

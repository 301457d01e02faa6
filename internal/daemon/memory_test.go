package daemon

import (
	"testing"
	"testing/fstest"
)

// The memory limit is the lowest on the way up from the agent's own cgroup, in
// both versions of cgroups and in containers.
func TestTheCgroupsMemory(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"version 2":      {map[string]string{"proc/self/cgroup": "0::/system.slice/berth.service\n", "sys/fs/cgroup/system.slice/berth.service/memory.max": "1000000000\n"}, 1_000_000_000},
		"a parent's":     {map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/memory.max": "500\n", "sys/fs/cgroup/a/b/memory.max": "900\n"}, 500},
		"none":           {map[string]string{"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n"}, 0},
		"version 1":      {map[string]string{"proc/self/cgroup": "4:cpu,cpuacct:/x\n3:memory:/docker/abc\n0::/\n", "sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes": "2000\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 2000},
		"version 1 none": {map[string]string{"proc/self/cgroup": "3:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 0},
		"in a container": {map[string]string{"proc/self/cgroup": "0::/../../pod/abc\n", "sys/fs/cgroup/memory.max": "4096\n"}, 4096},
		"no cgroups":     {map[string]string{}, 0},
		"nonsense":       {map[string]string{"proc/self/cgroup": "x\n0::/a\n", "sys/fs/cgroup/a/memory.max": "many\n"}, 0},
	} {
		root := fstest.MapFS{}
		for path, text := range c.files {
			root[path] = &fstest.MapFile{Data: []byte(text)}
		}
		if got := cgroupMemory(root); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

//go:build faults

package supervise

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A directory stands in for the file system: what is written where.
func TestATaskIsKeptToItsCores(t *testing.T) {
	mount := t.TempDir()
	c := newCgroup("berth.slice", "alloc.task", []hierarchy{{mount, true}})
	if c == nil {
		t.Fatal("no group")
	}
	defer c.fd.Close()
	must(t, c.setCores(nil))
	if _, err := os.Stat(filepath.Join(c.dir, "cpuset.cpus")); err == nil {
		t.Error("a task without cores of its own was kept to some")
	}
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
		if err := none.setCores([]uint16{1}); err == nil || !strings.Contains(err.Error(), "version 2") {
			t.Errorf("without cgroups of version 2: %v", err)
		}
		must(t, none.setCores(nil))
	}
}

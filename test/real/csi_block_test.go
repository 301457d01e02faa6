package real

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/test/bed"
)

// needsLoops skips a test where there are no loop devices.
func needsLoops(t *testing.T) {
	t.Helper()
	f, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("block devices of the example plugin are loop devices: %v", err)
	}
	_ = f.Close()
}

// attachedLoops returns the files below a directory that loop devices are attached to.
func attachedLoops(dir string) (out []string) {
	list, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
	for _, name := range list {
		if b, err := os.ReadFile(name); err == nil && strings.HasPrefix(string(b), dir+"/") {
			out = append(out, strings.TrimSpace(string(b)))
		}
	}
	return out
}

// A CSI volume that is a block device moves with its allocation: the task finds the
// device at its destination, with what was written there on the other node. It grows
// while it is used, a snapshot of it has its content, and at the end nothing is
// attached.
func TestABlockDeviceMovesWithItsAllocation(t *testing.T) {
	t.Parallel()
	needsLoops(t)
	w := newCSIWorld(t, csiOptions{})
	t.Cleanup(func() {
		if left := attachedLoops(w.provider); len(left) > 0 {
			t.Errorf("loop devices are left attached to %q", left)
		}
	})
	spec := w.example("raw.volume.hcl")
	w.a.good("volume", "create", w.file("raw.hcl", spec))
	job := func(node string) {
		t.Helper()
		w.a.good("job", "run", "-detach", w.file("raw.nomad", onNode(w.example("raw.nomad.hcl"), "raw", node)))
	}
	counted := func(volume, n string) {
		t.Helper()
		w.until("the device says "+n, func() string {
			b, err := os.ReadFile(filepath.Join(w.provider, "volumes", volume, "disk"))
			if err != nil || len(b) < 8 || strings.TrimSpace(string(b[:8])) != n {
				return bed.Got(w.a.berth("job", "status", "raw").Out + w.a.berth("volume", "status", "-type", "csi", volume).Out)
			}
			return ""
		})
	}
	job("one")
	counted("raw", "1")
	log := []string{"create raw", "attach raw one", "stage raw one", "mount raw one"}
	w.did(log...)

	job("two")
	counted("raw", "2")
	log = append(log, "unmount raw one", "unstage raw one", "detach raw one", "attach raw two", "stage raw two", "mount raw two")
	w.did(log...)

	// The device grows where it is used.
	w.a.good("volume", "create", w.file("raw.hcl", strings.Replace(spec, "1MiB", "2MiB", 1)))
	log = append(log, "expand raw 2097152", "grow raw two")
	w.did(log...)
	size := func() string {
		for _, al := range w.a.allocs("raw") {
			if al.ClientStatus == "running" && al.DesiredStatus == "run" {
				r := w.a.berth("alloc", "exec", al.ID, "/sbin/blockdev", "--getsize64", "/dev/raw")
				return strings.TrimSpace(r.Out) + r.Err
			}
		}
		return "nothing runs"
	}
	w.until("the task sees the new size", func() string {
		if got := size(); got != "2097152" {
			return bed.Got(got)
		}
		return ""
	})

	// A snapshot has the content.
	w.a.good("volume", "snapshot", "create", "raw", "before")
	copied := strings.NewReplacer(`"raw"`, `"copy"`, "type ", "snapshot_id = \"before\"\ntype ").Replace(spec)
	w.a.good("volume", "create", w.file("copy.hcl", copied))
	counted("copy", "2")
	log = append(log, "snapshot raw before", "create copy")
	w.did(log...)

	w.a.good("job", "stop", "-purge", "raw")
	w.until("the volume is deleted", func() string { return w.a.berth("volume", "delete", "-type", "csi", "raw").Err })
	w.did(append(log, "unmount raw two", "unstage raw two", "detach raw two", "delete raw")...)
}

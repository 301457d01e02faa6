//go:build faults

package csi_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"berth"
	"berth/internal/eventually"
	"berth/op"
)

// newBlockWorld is a node whose volume is a block device. At its end no loop device
// is left attached.
func newBlockWorld(t *testing.T) *world {
	t.Setenv("CSI_TEST_BLOCK", "1")
	f, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("block devices of the example plugin are loop devices: %v", err)
	}
	_ = f.Close()
	w := newWorld(t)
	t.Cleanup(func() {
		list, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
		for _, name := range list {
			if b, err := os.ReadFile(name); err == nil && strings.HasPrefix(string(b), w.dir+"/") {
				t.Errorf("%s is left attached to %s", name, b)
			}
		}
	})
	return w
}

// writes writes to the block device at a path.
func (w *world) writes(path string) {
	w.t.Helper()
	var st syscall.Stat_t
	if err := syscall.Lstat(path, &st); err != nil || st.Mode&syscall.S_IFMT != syscall.S_IFBLK {
		w.t.Fatalf("%s is no block device: mode %o, %v", path, st.Mode, err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_SYNC, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write([]byte("x")); err != nil {
		w.t.Fatal(err)
	}
}

// A volume that is a block device is made, attached, published and given back, and
// the plugin is killed at each call. Everything is done once, and nothing is left.
func TestThePluginOfABlockDeviceIsKilledAtEachCall(t *testing.T) {
	for _, method := range []string{"NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"} {
		for _, when := range []string{"before", "after"} {
			t.Run(when+" "+method, func(t *testing.T) {
				w := newBlockWorld(t)
				if err := os.WriteFile(filepath.Join(w.dir, "die"), []byte(when+" "+method), 0o600); err != nil {
					t.Fatal(err)
				}
				w.life("")
			})
		}
	}
}

// The agent is killed at each step of giving an allocation a block device, and of
// taking it back. The next one finishes it.
func TestTheAgentIsKilledAtEachStepOfABlockDevice(t *testing.T) {
	for _, point := range []string{"csi/recorded", "csi/staged", "csi/published", "csi/unpublished", "csi/unstaged"} {
		t.Run(point, func(t *testing.T) { newBlockWorld(t).life(point) })
	}
}

// A volume that was not made as a block device is not given as one, and who asks to
// only read what others write is told that this plugin cannot do it.
func TestWhatIsNoBlockDeviceIsNotGivenAsOne(t *testing.T) {
	w := newBlockWorld(t)
	v := berth.CSIVolume{Namespace: "default", ID: "data", Name: "data", ExternalID: "data", PluginID: "disk"}
	made := v
	made.RequestedCapabilities = []berth.VolumeCapability{{AccessMode: berth.AccessWriter, AttachmentMode: berth.AttachFilesystem}}
	if _, err := w.m.Call(t.Context(), &op.AgentCSI{Do: op.CSICreate, Volume: made}); err != nil {
		t.Fatal(err)
	}
	w.calls(&op.AgentCSI{Do: op.CSIPublish, Volume: v, ExternalNodeID: "n1"})
	if _, err := w.m.Mount(t.Context(), alloc, granted()); berth.KindOf(err) != berth.Conflict || !strings.Contains(err.Error(), "was not made as a block device") {
		t.Errorf("%v", err)
	}
	eventually.True(t, "unmount", func() bool { return act(w.m, "unmount") == nil })
	w.calls(&op.AgentCSI{Do: op.CSIUnpublish, Volume: v, ExternalNodeID: "n1"})
	w.calls(&op.AgentCSI{Do: op.CSIDelete, Volume: v})

	w.calls(&op.AgentCSI{Do: op.CSICreate, Volume: v})
	w.calls(&op.AgentCSI{Do: op.CSIPublish, Volume: v, ExternalNodeID: "n1"})
	reader := granted()
	reader.ReadOnly = true
	if _, err := w.m.Mount(t.Context(), alloc, reader); berth.KindOf(err) != berth.Invalid || !strings.Contains(err.Error(), "can be read-only only with an access mode for readers") {
		t.Errorf("%v", err)
	}
	reader.AccessMode = berth.AccessReader
	eventually.True(t, "unmount", func() bool { return act(w.m, "unmount") == nil })
	path, err := w.m.Mount(t.Context(), alloc, reader)
	if err != nil {
		t.Fatal(err)
	}
	if f, err := os.OpenFile(path, os.O_RDWR|os.O_SYNC, 0); err == nil {
		if _, err := f.Write([]byte("x")); err == nil {
			t.Error("a device for readers can be written")
		}
		_ = f.Close()
	}
	eventually.True(t, "unmount", func() bool { return act(w.m, "unmount") == nil })
}

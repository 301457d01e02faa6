package isolated

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"berth"
	"berth/internal/agent/driver/drivertest"
	"berth/internal/agent/isolate"
	"berth/internal/agent/logs"
	"berth/internal/agent/supervise"
)

// node makes a device node of KVM with a mode and a group.
func node(t *testing.T, mode os.FileMode, gid int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kvm")
	if err := unix.Mknod(path, unix.S_IFCHR|0o600, int(unix.Mkdev(10, 232))); err != nil {
		t.Skip("no device nodes can be made here:", err)
	}
	if err := os.Chown(path, 0, gid); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// A node without KVM says what is missing, and a task that wants it is refused with
// that, by the name of the key.
func TestNoKVM(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{filepath.Join(dir, "none"): "there is no ", file: "is not the device of KVM", "/dev/null": "is not the device of KVM", dir: "cannot be opened"} {
		err := giveKVM(path, &supervise.Start{User: &supervise.User{}, Isolate: &isolate.Spec{}})
		if berth.KindOf(err) != berth.Denied || !strings.HasPrefix(err.Error(), `config.accelerator: "kvm" cannot be used on this node: `) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	needsQemu(t)
	q := NewQemu(QemuConfig{})
	q.kvm = filepath.Join(dir, "none")
	if info := q.Fingerprint(t.Context()); !info.Healthy || info.Attributes["driver.qemu.kvm"] != "" {
		t.Errorf("%+v", info)
	}
	if _, err := (withImages{q}).Start(t.Context(), newMachine(t, boots("run.img", "accelerator", "kvm"))); berth.KindOf(err) != berth.Denied || !strings.Contains(err.Error(), "there is no ") {
		t.Errorf("%v", err)
	}
}

// needsKVM skips a test on machines without KVM.
func needsKVM(t *testing.T) {
	t.Helper()
	if missing := kvmMissing(kvmDevice); missing != "" {
		t.Skip(missing)
	}
}

// Who may use the device gets it; its group is given, but never root's.
func TestWhoMayUseKVM(t *testing.T) {
	for _, c := range []struct {
		mode   uint32
		gid    uint32
		uid    uint32
		groups []uint32
		denied bool
	}{
		{0o666, 0, 65534, []uint32{7}, false},
		{0o660, 1234, 65534, []uint32{7, 1234}, false},
		{0o660, 0, 65534, nil, true},
		{0o640, 1234, 65534, nil, true},
		{0o600, 0, 65534, nil, true},
		{0o600, 0, 0, []uint32{7}, false},
	} {
		st := &supervise.Start{User: &supervise.User{UID: c.uid, Groups: []uint32{7}}, Isolate: &isolate.Spec{}}
		err := lendKVM(kvmDevice, &unix.Stat_t{Mode: unix.S_IFCHR | c.mode, Gid: c.gid}, st)
		if c.denied {
			if berth.KindOf(err) != berth.Denied || !strings.Contains(err.Error(), "cannot be used by user 65534") || len(st.Isolate.Devices) > 0 {
				t.Errorf("%+v: %v, %v", c, err, st.Isolate.Devices)
			}
			continue
		}
		if err != nil || !slices.Equal(st.User.Groups, c.groups) || len(st.Isolate.Devices) != 1 || len(st.Limits.MoreDevices) != 1 {
			t.Errorf("%+v: %v, %+v", c, err, st.User)
		}
	}
}

// A machine with KVM runs, as the task's user, with no more of the host than others.
func TestAMachineWithKVM(t *testing.T) {
	needsKVM(t)
	needsQemu(t)
	q := NewQemu(QemuConfig{})
	if info := q.Fingerprint(t.Context()); info.Attributes["driver.qemu.kvm"] != "1" {
		t.Errorf("%+v", info)
	}
	q.kvm = node(t, 0o660, 1234)
	task := newMachine(t, boots("print.img", "accelerator", "kvm"))
	if x := ended(t, runs(t, q, task)); !x.Success() || !strings.Contains(drivertest.Output(t, task, logs.Stdout), "to stdout") {
		t.Errorf("%+v: %q, %q", x, drivertest.Output(t, task, logs.Stdout), drivertest.Output(t, task, logs.Stderr))
	}
	task = newMachine(t, boots("run.img", "accelerator", "kvm"))
	h := runs(t, q, task)
	if err := h.Stop(t.Context(), syscall.SIGKILL, 0); err != nil {
		t.Error(err)
	}
	ended(t, h)
}

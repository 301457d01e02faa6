package isolated

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"

	"berth"
	"berth/internal/agent/isolate"
	"berth/internal/agent/supervise"
)

// With the accelerator kvm, the processor itself runs the machine. QEMU needs a device
// of the host for that, which is all that it gets beside what it has with tcg.

const (
	kvmDevice = "/dev/kvm"
	// kvmVersion is the version of KVM's interface; no other was ever released.
	kvmVersion = 12
	// kvmGetVersion is the call that asks for it, KVM_GET_API_VERSION.
	kvmGetVersion = 0xae00
)

// kvmMissing returns what the node lacks to run machines with KVM by the device at a
// path, "" if nothing.
func kvmMissing(path string) string {
	if runtime.GOARCH != "amd64" {
		return qemuProgram + " uses KVM on amd64 only"
	}
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return "there is no " + path
	}
	if err != nil {
		return path + " cannot be opened: " + err.Error()
	}
	defer unix.Close(fd)
	switch v, err := unix.IoctlRetInt(fd, kvmGetVersion); {
	case err != nil:
		return path + " is not the device of KVM: " + err.Error()
	case v != kvmVersion:
		return fmt.Sprintf("%s has version %d of KVM's interface; QEMU needs version %d", path, v, kvmVersion)
	}
	return ""
}

// giveKVM gives a task the device, if its user may use it: as everybody, as its owner,
// or by its group, which the task gets unless that is root's.
func giveKVM(path string, st *supervise.Start) error {
	if missing := kvmMissing(path); missing != "" {
		return berth.Errorf(berth.Denied, `config.accelerator: "kvm" cannot be used on this node: %s`, missing)
	}
	var s unix.Stat_t
	if err := unix.Stat(path, &s); err != nil {
		return berth.Errorf(berth.Denied, `config.accelerator: "kvm" cannot be used on this node: %s: %w`, path, err)
	}
	return lendKVM(path, &s, st)
}

// lendKVM is giveKVM for a device that works and has this owner, group and mode.
func lendKVM(path string, s *unix.Stat_t, st *supervise.Start) error {
	user := *st.User
	switch {
	case s.Mode&0o006 == 0o006, user.UID == s.Uid && s.Mode&0o600 == 0o600:
	case s.Gid != 0 && s.Mode&0o060 == 0o060:
		user.Groups = append(slices.Clone(user.Groups), s.Gid)
	default:
		return berth.Errorf(berth.Denied, `config.accelerator: "kvm" cannot be used by user %d: %s has mode %04o, owner %d and group %d; its group, other than root's, or all must be able to read and write it`,
			user.UID, path, s.Mode&0o777, s.Uid, s.Gid)
	}
	st.User = &user
	st.Isolate.Devices = append(st.Isolate.Devices, isolate.Bind{Source: path, Destination: kvmDevice})
	st.Limits.MoreDevices = append(st.Limits.MoreDevices, path+" rw")
	return nil
}

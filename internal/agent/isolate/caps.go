package isolate

import (
	"fmt"
	"math/bits"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"berth"
)

// capabilityNames are the kernel's names by number, without CAP_.
var capabilityNames = []string{
	unix.CAP_CHOWN: "CHOWN", unix.CAP_DAC_OVERRIDE: "DAC_OVERRIDE", unix.CAP_DAC_READ_SEARCH: "DAC_READ_SEARCH", unix.CAP_FOWNER: "FOWNER",
	unix.CAP_FSETID: "FSETID", unix.CAP_KILL: "KILL", unix.CAP_SETGID: "SETGID", unix.CAP_SETUID: "SETUID", unix.CAP_SETPCAP: "SETPCAP",
	unix.CAP_LINUX_IMMUTABLE: "LINUX_IMMUTABLE", unix.CAP_NET_BIND_SERVICE: "NET_BIND_SERVICE", unix.CAP_NET_BROADCAST: "NET_BROADCAST",
	unix.CAP_NET_ADMIN: "NET_ADMIN", unix.CAP_NET_RAW: "NET_RAW", unix.CAP_IPC_LOCK: "IPC_LOCK", unix.CAP_IPC_OWNER: "IPC_OWNER",
	unix.CAP_SYS_MODULE: "SYS_MODULE", unix.CAP_SYS_RAWIO: "SYS_RAWIO", unix.CAP_SYS_CHROOT: "SYS_CHROOT", unix.CAP_SYS_PTRACE: "SYS_PTRACE",
	unix.CAP_SYS_PACCT: "SYS_PACCT", unix.CAP_SYS_ADMIN: "SYS_ADMIN", unix.CAP_SYS_BOOT: "SYS_BOOT", unix.CAP_SYS_NICE: "SYS_NICE",
	unix.CAP_SYS_RESOURCE: "SYS_RESOURCE", unix.CAP_SYS_TIME: "SYS_TIME", unix.CAP_SYS_TTY_CONFIG: "SYS_TTY_CONFIG", unix.CAP_MKNOD: "MKNOD",
	unix.CAP_LEASE: "LEASE", unix.CAP_AUDIT_WRITE: "AUDIT_WRITE", unix.CAP_AUDIT_CONTROL: "AUDIT_CONTROL", unix.CAP_SETFCAP: "SETFCAP",
	unix.CAP_MAC_OVERRIDE: "MAC_OVERRIDE", unix.CAP_MAC_ADMIN: "MAC_ADMIN", unix.CAP_SYSLOG: "SYSLOG", unix.CAP_WAKE_ALARM: "WAKE_ALARM",
	unix.CAP_BLOCK_SUSPEND: "BLOCK_SUSPEND", unix.CAP_AUDIT_READ: "AUDIT_READ", unix.CAP_PERFMON: "PERFMON", unix.CAP_BPF: "BPF",
	unix.CAP_CHECKPOINT_RESTORE: "CHECKPOINT_RESTORE",
}

// AllCapabilities is the name that stands for each of them in a list.
const AllCapabilities = "ALL"

// Capabilities returns the names of a list in one spelling, as
// CAP_NET_BIND_SERVICE; net_bind_service and cap_net_bind_service are names of
// it too. "all" stands for each. An unknown name is an Invalid error.
func Capabilities(names []string) ([]string, error) {
	var out []string
	for _, name := range names {
		n := strings.TrimPrefix(strings.ToUpper(name), "CAP_")
		switch {
		case n == AllCapabilities:
			out = out[:0]
			for _, c := range capabilityNames {
				out = append(out, "CAP_"+c)
			}
			return out, nil
		case n == "" || !slices.Contains(capabilityNames, n):
			return nil, berth.Errorf(berth.Invalid, "unknown capability %q: must be a name such as net_bind_service", name)
		case !slices.Contains(out, "CAP_"+n):
			out = append(out, "CAP_"+n)
		}
	}
	return out, nil
}

// capabilityMask returns the set of capabilities as bits.
func capabilityMask(names []string) (mask uint64, err error) {
	names, err = Capabilities(names)
	for _, n := range names {
		mask |= 1 << slices.Index(capabilityNames, strings.TrimPrefix(n, "CAP_"))
	}
	return mask, err
}

// lastCapability returns the highest number that the kernel knows.
func lastCapability() int {
	b, err := os.ReadFile("/proc/sys/kernel/cap_last_cap")
	n, convErr := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || convErr != nil || n > 63 {
		return len(capabilityNames) - 1
	}
	return n
}

// become makes this thread, and no other, run as who with just these
// capabilities. The program it executes has them as well.
func become(who Identity, caps uint64) error {
	last := lastCapability()
	if n := bits.Len64(caps); n > last+1 {
		// Newer than the kernel: it cannot have them.
		caps &= 1<<(last+1) - 1
	}
	for c := 0; c <= last; c++ {
		if caps&(1<<c) == 0 {
			if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0); err != nil {
				return fmt.Errorf("drop capability %d: %w", c, err)
			}
		}
	}
	// Kept over the change of user, to be cut down right after.
	if err := unix.Prctl(unix.PR_SET_KEEPCAPS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("keep capabilities: %w", err)
	}
	// These change this thread only; those of package syscall change all.
	groups := make([]int, 0, len(who.Groups))
	for _, g := range who.Groups {
		groups = append(groups, int(g))
	}
	if err := unix.Setgroups(groups); err != nil {
		return fmt.Errorf("set groups: %w", err)
	}
	if _, _, e := unix.RawSyscall(unix.SYS_SETRESGID, uintptr(who.GID), uintptr(who.GID), uintptr(who.GID)); e != 0 {
		return fmt.Errorf("set group %d: %w", who.GID, e)
	}
	if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(who.UID), uintptr(who.UID), uintptr(who.UID)); e != 0 {
		return fmt.Errorf("set user %d: %w", who.UID, e)
	}
	low, high := uint32(caps), uint32(caps>>32)
	data := [2]unix.CapUserData{{Effective: low, Permitted: low, Inheritable: low}, {Effective: high, Permitted: high, Inheritable: high}}
	if err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &data[0]); err != nil {
		return fmt.Errorf("set capabilities: %w", err)
	}
	// A user other than root keeps over exec only what is ambient.
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("clear ambient capabilities: %w", err)
	}
	for c := 0; c <= last; c++ {
		if caps&(1<<c) != 0 {
			if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, uintptr(c), 0, 0); err != nil {
				return fmt.Errorf("pass capability %d on: %w", c, err)
			}
		}
	}
	return nil
}

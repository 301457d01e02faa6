package isolate

import (
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"berth"
)

// The filter of system calls. It lists what is allowed: what a later kernel
// brings is refused, as if the kernel did not have it.

// newNamespaces are the flags of clone and unshare that make namespaces.
const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER |
	unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWTIME

// What the filter answers.
const (
	retAllow   = unix.SECCOMP_RET_ALLOW
	retDenied  = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	retUnknown = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	retFamily  = unix.SECCOMP_RET_ERRNO | uint32(unix.EAFNOSUPPORT)
)

// Where the kernel's struct seccomp_data has what a filter looks at: the number
// of the call, the architecture, and the low half of the arguments.
const (
	dataCall = 0
	dataArch = 4
	dataArg0 = 16
	dataArg1 = 24
)

// withCapability are the calls that are of use only with a capability, by its
// number. Programs without it are denied the call before the kernel looks at it.
var withCapability = map[int][]uint32{
	unix.CAP_SYS_ADMIN: {
		unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_SETNS, unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_FSOPEN, unix.SYS_FSCONFIG,
		unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD,
		unix.SYS_FANOTIFY_INIT, unix.SYS_SYSLOG, unix.SYS_PERF_EVENT_OPEN, unix.SYS_BPF, unix.SYS_LOOKUP_DCOOKIE, unix.SYS_CLONE3,
	},
	unix.CAP_SYS_PTRACE:      {unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_KCMP, unix.SYS_PIDFD_GETFD, unix.SYS_PROCESS_MADVISE},
	unix.CAP_SYS_CHROOT:      {unix.SYS_CHROOT},
	unix.CAP_SYS_TIME:        {unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME},
	unix.CAP_SYS_NICE:        {unix.SYS_MOVE_PAGES, unix.SYS_MIGRATE_PAGES},
	unix.CAP_SYS_BOOT:        {unix.SYS_REBOOT},
	unix.CAP_SYS_MODULE:      {unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE},
	unix.CAP_SYS_PACCT:       {unix.SYS_ACCT},
	unix.CAP_SYS_TTY_CONFIG:  {unix.SYS_VHANGUP},
	unix.CAP_SYSLOG:          {unix.SYS_SYSLOG},
	unix.CAP_BPF:             {unix.SYS_BPF},
	unix.CAP_PERFMON:         {unix.SYS_PERF_EVENT_OPEN},
	unix.CAP_DAC_READ_SEARCH: {unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_NAME_TO_HANDLE_AT},
}

// filter returns the program for a set of capabilities.
func filter(caps uint64) []unix.SockFilter {
	has := func(c int) bool { return caps&(1<<c) != 0 }
	calls := slices.Concat(commonCalls, archCalls)
	for c, more := range withCapability {
		if has(c) {
			calls = append(calls, more...)
		}
	}
	p := program{}
	p.load(dataArch)
	p.branch(unix.BPF_JEQ, auditArch, 1, 0)
	p.ret(unix.SECCOMP_RET_KILL_PROCESS)
	p.load(dataCall)
	p.branch(unix.BPF_JGT, unix.SYS_MSEAL, 0, 1) // the last that this list was made for; also the calls of x32
	p.ret(retUnknown)
	if !has(unix.CAP_SYS_ADMIN) {
		// The flags of clone3 are in memory, where a filter cannot look. A
		// library that is told it does not exist uses clone.
		p.only(unix.SYS_CLONE3, func(b *program) { b.ret(retUnknown) })
		for _, call := range []uint32{unix.SYS_CLONE, unix.SYS_UNSHARE} {
			p.only(call, func(b *program) {
				b.load(dataArg0)
				b.branch(unix.BPF_JSET, newNamespaces, 0, 1)
				b.ret(retDenied)
				b.ret(retAllow)
			})
		}
	} else {
		calls = append(calls, unix.SYS_CLONE, unix.SYS_UNSHARE)
	}
	families := []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}
	if has(unix.CAP_NET_RAW) {
		families = append(families, unix.AF_PACKET)
	}
	p.only(unix.SYS_SOCKET, func(b *program) { b.oneOf(dataArg0, families, retAllow, retFamily) })
	// Text pushed into a terminal would be read by the shell behind it.
	p.only(unix.SYS_IOCTL, func(b *program) { b.oneOf(dataArg1, []uint32{unix.TIOCSTI, tioclinux}, retDenied, retAllow) })
	// Linux itself, its 32-bit variant, each with the old version number, and
	// the question which it is. Other personalities weaken the memory layout.
	p.only(unix.SYS_PERSONALITY, func(b *program) { b.oneOf(dataArg0, []uint32{0, 8, 0x20000, 0x20008, 0xffffffff}, retAllow, retDenied) })
	slices.Sort(calls)
	calls = slices.Compact(calls)
	for len(calls) > 0 {
		n := 1
		for n < len(calls) && calls[n] == calls[0]+uint32(n) {
			n++
		}
		p.branch(unix.BPF_JGE, calls[0], 0, 2)
		p.branch(unix.BPF_JGT, calls[n-1], 1, 0)
		p.ret(retAllow)
		calls = calls[n:]
	}
	p.ret(retDenied)
	return p
}

const tioclinux = 0x541c // its subcommands paste into the console

// program is a filter that is being written.
type program []unix.SockFilter

// load loads the word at an offset of seccomp_data.
func (p *program) load(at uint32) {
	*p = append(*p, unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at})
}

// branch skips yes instructions if the comparison holds, else no.
func (p *program) branch(op uint16, k uint32, yes, no uint8) {
	*p = append(*p, unix.SockFilter{Code: unix.BPF_JMP | op | unix.BPF_K, Jt: yes, Jf: no, K: k})
}

// ret ends the filter with an answer.
func (p *program) ret(answer uint32) {
	*p = append(*p, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: answer})
}

// only adds a body, which must end with an answer, for one call.
func (p *program) only(call uint32, body func(*program)) {
	var b program
	body(&b)
	p.branch(unix.BPF_JEQ, call, 0, uint8(len(b)))
	*p = append(*p, b...)
}

// oneOf answers by whether the argument at an offset is one of some values.
func (p *program) oneOf(at uint32, values []uint32, yes, no uint32) {
	p.load(at)
	for i, v := range values {
		p.branch(unix.BPF_JEQ, v, uint8(len(values)-i), 0)
	}
	p.ret(no)
	p.ret(yes)
}

// seccomp puts this thread, and the program it becomes, under the filter.
func seccomp(caps uint64) error {
	if auditArch == 0 {
		return berth.Errorf(berth.Invalid, "system calls cannot be filtered on %s: tasks can be isolated on amd64 and arm64", runtime.GOARCH)
	}
	p := filter(caps)
	prog := unix.SockFprog{Len: uint16(len(p)), Filter: &p[0]}
	if _, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog))); e != 0 {
		return fmt.Errorf("filter system calls: %w", e)
	}
	return nil
}

// Supported reports whether programs can be isolated on this architecture.
func Supported() bool { return auditArch != 0 }

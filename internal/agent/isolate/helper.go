package isolate

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"berth"
)

// Helpers are processes of this executable that work on what others wrote:
// templates, and what is fetched from elsewhere. A helper is confined before it
// reads the first byte of it. What it may do is in its Box.
//
// Landlock and the filter of system calls hold for one thread. So a helper
// confines the thread that it runs on and executes itself again on it: all
// threads of the program that comes of it are confined.

// HelperUser is who helpers run as if the agent is root: a number that no user,
// container or other program has.
const HelperUser = 1_879_050_021

// Box says what a helper may do. The zero Box may only compute.
type Box struct {
	Network bool     // it may connect to others
	Run     bool     // it may execute the programs below Read
	Read    []string // files and directories that it may read; what does not exist is left out
	Write   string   // the one directory that it may change; "" is none
	Open    bool     // without Landlock: it may reach what its user may

	Memory   uint64 // bytes of its data
	FileSize uint64 // bytes of one file that it writes
	CPU      uint64 // seconds
}

// helperOrder is what a helper is told before its own input.
type helperOrder struct {
	Box  Box
	User uint32 // 0: it stays who it is
}

// The files of a helper beside the first three.
const (
	helperOrderFD = 3 // the order; closed before it executes itself again
	// HelperFileFD is the first of the files that RunHelper passes.
	HelperFileFD = 4
)

// Helper is one run of a helper.
type Helper struct {
	Command []string // this executable with the argument that leads to Main
	Word    string   // which helper; begins with "@"
	Box     Box
	Dir     string     // where it works
	Env     []string   // all of its environment
	Input   any        // written to its standard input as JSON, which then ends
	Files   []*os.File // at HelperFileFD and above
	Output  io.Writer  // takes its standard output
}

// mostSaid bounds what is kept of a helper's standard error.
const mostSaid = 4 << 10

// Run runs the helper to its end. The error says how it ended, if not well, and
// what it said last. When ctx ends, it and all that it started are killed.
func (h *Helper) Run(ctx context.Context) error {
	order, ours, err := os.Pipe()
	if err != nil {
		return err
	}
	defer ours.Close()
	defer order.Close()
	input, err := json.Marshal(h.Input)
	if err != nil {
		return err
	}
	command := h.Command
	if command == nil {
		command = []string{"/proc/self/exe", "supervise"}
	}
	args := append(append([]string(nil), command[1:]...), h.Word)
	cmd := exec.CommandContext(ctx, command[0], args...)
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout = h.Dir, append([]string{"GOTRACEBACK=single"}, h.Env...), bytes.NewReader(input), h.Output
	var said tail
	cmd.Stderr = &said
	cmd.ExtraFiles = append([]*os.File{order}, h.Files...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	o := helperOrder{Box: h.Box}
	if os.Geteuid() == 0 {
		o.User = HelperUser
		cmd.SysProcAttr.Cloneflags = unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
		if !h.Box.Network {
			cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWNET
		}
	}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	// A thread that ends would end the helper with it: see Pdeathsig.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start a helper: %w", err)
	}
	_ = order.Close()
	err = json.NewEncoder(ours).Encode(&o)
	_ = ours.Close()
	werr := cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case werr != nil:
		used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		return &HelperError{said: strings.TrimSpace(said.text.String()), err: werr, late: h.Box.CPU > 0 && used >= time.Duration(h.Box.CPU)*time.Second}
	}
	return err
}

// HelperError is how a helper ended that did not end well.
type HelperError struct {
	said string
	err  error
	late bool // it has used up its processor time
}

// Error returns what the helper said last, or how it ended.
func (e *HelperError) Error() string {
	if e.Killed() {
		return "it was ended for what it used of memory, time or disk"
	}
	if e.Lost() {
		return lost
	}
	if e.said != "" {
		return e.said
	}
	return e.err.Error()
}

// Status returns how the helper ended, and nothing that it said.
func (e *HelperError) Status() string {
	if e.Killed() {
		return "it was ended for what it used of memory, time or disk"
	}
	if e.Lost() {
		return lost
	}
	return "it failed: " + e.err.Error()
}

// lost says what is known of a helper that somebody killed.
const lost = "it was killed: by somebody, or because the node has no memory left"

// Lost reports whether the helper was killed (SIGKILL) though it kept within its box.
// Another try may go well.
func (e *HelperError) Lost() bool {
	var exit *exec.ExitError
	if !errors.As(e.err, &exit) || e.late {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// Killed reports whether the kernel, or the runtime for lack of memory, ended
// the helper for what it used.
func (e *HelperError) Killed() bool {
	if e.Lost() {
		return false
	}
	var exit *exec.ExitError
	if !errors.As(e.err, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && (status.Signaled() || exit.ExitCode() == 2 && (strings.Contains(e.said, "out of memory") || strings.Contains(e.said, "SIGXCPU")))
}

// tail keeps the first that is written to it, up to mostSaid. Its buffer is not
// embedded: the buffer's ReadFrom would know no bound.
type tail struct{ text bytes.Buffer }

func (t *tail) Write(p []byte) (int, error) {
	n := len(p)
	if t.text.Len() < mostSaid {
		t.text.Write(p[:min(n, mostSaid-t.text.Len())])
	}
	return n, nil
}

// insideVariable is set in the environment of a helper that is confined.
const insideVariable = "BERTH_HELPER"

// Helped confines this process as it is ordered to be, the first time, and
// returns when that is done, the second. It returns an error if it cannot.
func Helped() error {
	if os.Getenv(insideVariable) != "" {
		_ = os.Unsetenv(insideVariable)
		return nil
	}
	runtime.LockOSThread()
	var o helperOrder
	orders := os.NewFile(helperOrderFD, "order")
	if err := json.NewDecoder(orders).Decode(&o); err != nil {
		return fmt.Errorf("read the order: %w", err)
	}
	_ = orders.Close()
	exe, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	unix.CloseOnExec(int(exe.Fd()))
	if err := o.Box.enter(exe, o.User); err != nil {
		return err
	}
	return execute(exe, os.Args, append(os.Environ(), insideVariable+"=1"))
}

// enter confines this thread.
func (b *Box) enter(exe *os.File, user uint32) error {
	for _, l := range []struct {
		what  int
		limit uint64
	}{{unix.RLIMIT_CORE, 1}, {unix.RLIMIT_DATA, b.Memory}, {unix.RLIMIT_FSIZE, b.FileSize}, {unix.RLIMIT_CPU, b.CPU}} {
		if l.limit == 0 {
			continue
		}
		if l.what == unix.RLIMIT_CORE {
			l.limit = 0
		}
		most := l.limit
		if l.what == unix.RLIMIT_CPU {
			most++ // the signal before SIGKILL tells that it was this
		}
		if err := unix.Setrlimit(l.what, &unix.Rlimit{Cur: l.limit, Max: most}); err != nil {
			return fmt.Errorf("set a limit: %w", err)
		}
	}
	// Opened before the user changes, who may not come this far.
	rules, err := b.rules(exe)
	if err != nil {
		return err
	}
	if user != 0 {
		if err := become(Identity{UID: user, GID: user}, 0); err != nil {
			return err
		}
		// To become another took back that the helper ends with the agent.
		if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
			return fmt.Errorf("end with the agent: %w", err)
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no new privileges: %w", err)
	}
	if rules >= 0 {
		if _, _, e := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(rules), 0, 0); e != 0 {
			return fmt.Errorf("landlock: apply the rules: %w", e)
		}
		_ = unix.Close(rules)
	}
	if auditArch == 0 { // other architectures have Landlock, the user and the limits
		return nil
	}
	return seccomp(0)
}

const (
	landlockRead  = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	landlockFiles = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
)

// rules makes the rules of Landlock; -1 where there is none.
func (b *Box) rules(exe *os.File) (int, error) {
	version := LandlockVersion()
	if b.Open || version == 0 {
		return -1, nil
	}
	attr := unix.LandlockRulesetAttr{Handled_access_fs: landlockFS1}
	size := unsafe.Sizeof(attr.Handled_access_fs)
	if version >= 2 {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if version >= 3 {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if version >= 4 {
		size = unsafe.Offsetof(attr.Handled_access_net) + unsafe.Sizeof(attr.Handled_access_net)
		if !b.Network {
			attr.Handled_access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
		}
	}
	if version >= 6 {
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
		size = unsafe.Offsetof(attr.Scoped) + unsafe.Sizeof(attr.Scoped)
	}
	fd, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if e != 0 {
		return -1, fmt.Errorf("landlock: make the rules: %w", e)
	}
	add := func(at int, rights uint64) error {
		var st unix.Stat_t
		if err := unix.Fstat(at, &st); err != nil {
			return err
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			rights &= landlockFiles
		}
		var rule [12]byte
		*(*uint64)(unsafe.Pointer(&rule[0])) = rights & attr.Handled_access_fs &^ landlockDevices
		*(*int32)(unsafe.Pointer(&rule[8])) = int32(at)
		if _, _, e := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, fd, unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule[0])), 0, 0, 0); e != 0 {
			return fmt.Errorf("landlock: add a rule: %w", e)
		}
		return nil
	}
	if err := add(int(exe.Fd()), unix.LANDLOCK_ACCESS_FS_EXECUTE|unix.LANDLOCK_ACCESS_FS_READ_FILE); err != nil {
		return -1, err
	}
	read := uint64(landlockRead)
	if b.Run {
		read |= unix.LANDLOCK_ACCESS_FS_EXECUTE
	}
	addAll := func(paths []string, rights uint64) error {
		for _, p := range paths {
			real, err := filepath.EvalSymlinks(p)
			if err != nil {
				continue
			}
			at, err := unix.Open(real, unix.O_PATH|unix.O_CLOEXEC, 0)
			if err != nil {
				continue
			}
			err = add(at, rights)
			_ = unix.Close(at)
			if err != nil {
				return err
			}
		}
		return nil
	}
	if err := addAll(b.Read, read); err != nil {
		return -1, err
	}
	if dynamic(exe) {
		if err := addAll([]string{"/lib", "/lib64", "/usr/lib", "/etc/ld.so.cache"}, landlockRead|unix.LANDLOCK_ACCESS_FS_EXECUTE); err != nil {
			return -1, err
		}
	}
	if b.Run { // what programs write to that have nothing to say
		if at, err := unix.Open("/dev/null", unix.O_PATH|unix.O_CLOEXEC, 0); err == nil {
			err = add(at, unix.LANDLOCK_ACCESS_FS_READ_FILE|unix.LANDLOCK_ACCESS_FS_WRITE_FILE)
			_ = unix.Close(at)
			if err != nil {
				return -1, err
			}
		}
	}
	if b.Write != "" {
		at, err := unix.Open(b.Write, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return -1, berth.Errorf(berth.Invalid, "the directory of the helper: %w", err)
		}
		rights := attr.Handled_access_fs
		if !b.Run {
			rights &^= unix.LANDLOCK_ACCESS_FS_EXECUTE
		}
		err = add(at, rights)
		_ = unix.Close(at)
		if err != nil {
			return -1, err
		}
	}
	return int(fd), nil
}

// dynamic reports whether a program needs libraries of the host. What we release
// does not; programs of tests do.
func dynamic(exe *os.File) bool {
	f, err := elf.NewFile(exe)
	if err != nil {
		return false
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return true
		}
	}
	return false
}

// execute makes this process the program of an open file.
func execute(file *os.File, args, env []string) error {
	argv, err := syscall.SlicePtrFromStrings(args)
	if err != nil {
		return err
	}
	envv, err := syscall.SlicePtrFromStrings(env)
	if err != nil {
		return err
	}
	empty := [1]byte{}
	_, _, e := unix.RawSyscall6(unix.SYS_EXECVEAT, file.Fd(), uintptr(unsafe.Pointer(&empty[0])), uintptr(unsafe.Pointer(&argv[0])), uintptr(unsafe.Pointer(&envv[0])), unix.AT_EMPTY_PATH, 0)
	return fmt.Errorf("execute the helper: %w", e)
}

// computing are the calls that a helper which only computes does without once it
// runs.
var computing = []uint32{
	unix.SYS_EXECVE, unix.SYS_EXECVEAT, unix.SYS_SOCKET, unix.SYS_SOCKETPAIR, unix.SYS_CONNECT, unix.SYS_BIND, unix.SYS_LISTEN, unix.SYS_OPENAT, unix.SYS_OPENAT2,
	unix.SYS_KILL, unix.SYS_MKDIRAT, unix.SYS_LINKAT, unix.SYS_SYMLINKAT, unix.SYS_UNLINKAT, unix.SYS_RENAMEAT2, unix.SYS_FCHMODAT, unix.SYS_FCHOWNAT,
}

// OnlyCompute takes from all threads of this process the calls to open files, to
// make connections and to start programs, for good.
func OnlyCompute() error {
	if auditArch == 0 {
		return nil
	}
	var p program
	p.load(dataArch)
	p.branch(unix.BPF_JEQ, auditArch, 1, 0)
	p.ret(unix.SECCOMP_RET_KILL_PROCESS)
	p.load(dataCall)
	for _, c := range computing {
		p.only(c, func(b *program) { b.ret(retDenied) })
	}
	p.ret(retAllow)
	prog := unix.SockFprog{Len: uint16(len(p)), Filter: &p[0]}
	if _, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog))); e != 0 {
		return fmt.Errorf("filter system calls: %w", e)
	}
	return nil
}

package isolate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"berth"
)

// Enter is the order to run a command beside a task. Its standard streams are
// those of the process that gets the order.
type Enter struct {
	PID       int    // the task's first process
	StartTime uint64 // of it, in clock ticks since boot, as in /proc/PID/stat
	Isolated  bool   // the command joins its namespaces and is confined as it is
	User      Identity
	AsUser    bool     // run as User; otherwise as the agent
	Groups    []string // directories of the task's cgroups
	Dir       string   // where a task that is not isolated works
	Command   []string
	Env       []string
	TTY       bool
	Size      Size

	Capabilities []string // of an isolated task
}

// Size is the size of a terminal in characters. Further ones follow an Enter
// with TTY. When the stream of orders ends, the command is killed.
type Size struct{ Rows, Columns uint16 }

// enter runs the command that it is ordered to run, and tells its exit code.
func enter(orders *json.Decoder, status io.Writer) error {
	var o Enter
	if err := orders.Decode(&o); err != nil {
		return fmt.Errorf("read the orders: %w", err)
	}
	if len(o.Command) == 0 || o.Command[0] == "" {
		return berth.Errorf(berth.Invalid, "the command is empty")
	}
	caps, err := capabilityMask(o.Capabilities)
	if err != nil {
		return err
	}
	type forked struct {
		pid    int
		master *os.File
		err    error
	}
	done := make(chan forked, 1)
	go func() {
		// The thread joins the task and cannot come back. It ends with the
		// goroutine.
		runtime.LockOSThread()
		pid, master, err := join(&o, caps)
		done <- forked{pid, master, err}
	}()
	f := <-done
	if f.err != nil {
		return f.err
	}
	tell(status, Result{Started: true})
	var copies sync.WaitGroup
	if f.master != nil {
		go func() { _, _ = io.Copy(f.master, os.Stdin) }()
		copies.Go(func() { _, _ = io.Copy(os.Stdout, f.master) }) // ends when nobody has the terminal any more
	}
	go func() {
		for {
			var size Size
			if orders.Decode(&size) != nil {
				_ = unix.Kill(-f.pid, unix.SIGKILL)
				return
			}
			if f.master != nil {
				resize(f.master, size)
			}
		}
	}()
	var ws unix.WaitStatus
	for {
		if _, err = unix.Wait4(f.pid, &ws, 0, nil); err != unix.EINTR {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("wait for the command: %w", err)
	}
	// What it left behind would hold the terminal open.
	_ = unix.Kill(-f.pid, unix.SIGKILL)
	copies.Wait()
	code := ws.ExitStatus()
	if ws.Signaled() {
		code = 128 + int(ws.Signal())
	}
	tell(status, Result{Started: true, Code: code})
	return nil
}

// join makes this thread part of the task and starts the command from it, with
// a terminal if it is to have one.
func join(o *Enter, caps uint64) (pid int, master *os.File, err error) {
	// The group first: what follows counts as the task's.
	for _, dir := range o.Groups {
		if err := joinGroup(dir); err != nil {
			return 0, nil, fmt.Errorf("join the task's cgroup: %w", err)
		}
	}
	enter := joinNetworkOf
	if o.Isolated {
		enter = joinNamespaces
	}
	if err := enter(o); err != nil {
		return 0, nil, err
	}
	files := []uintptr{0, 1, 2}
	if o.TTY {
		var peer *os.File
		if master, peer, err = terminal(o); err != nil {
			return 0, nil, err
		}
		defer peer.Close()
		defer func() {
			if err != nil {
				_ = master.Close()
			}
		}()
		resize(master, o.Size)
		files = []uintptr{peer.Fd(), peer.Fd(), peer.Fd()}
	}
	attr := &syscall.ProcAttr{Dir: o.Dir, Env: o.Env, Files: files, Sys: &syscall.SysProcAttr{Setsid: true, Setctty: o.TTY}}
	var path string
	if o.Isolated {
		attr.Dir = "/"
		if path, err = findCommand(o.Command[0], o.Env); err != nil {
			return 0, nil, err
		}
		if err := confine(o.User, caps); err != nil {
			return 0, nil, err
		}
	} else {
		if path, err = findOnHost(o); err != nil {
			return 0, nil, err
		}
		if o.AsUser {
			attr.Sys.Credential = &syscall.Credential{Uid: o.User.UID, Gid: o.User.GID, Groups: o.User.Groups}
		}
	}
	pid, err = syscall.ForkExec(path, o.Command, attr)
	if err != nil {
		return 0, nil, Refused("run %q: %w", o.Command[0], err)
	}
	return pid, master, nil
}

// joinGroup puts this thread into a cgroup of version 1. Those of version 2 take
// whole processes.
func joinGroup(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, "cgroup.controllers")); err == nil {
		return os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0)
	}
	return os.WriteFile(filepath.Join(dir, "tasks"), []byte(strconv.Itoa(unix.Gettid())), 0)
}

// joinNamespaces makes the namespaces and the root of the task's first process
// those of this thread.
func joinNamespaces(o *Enter) error {
	fd, err := unix.PidfdOpen(o.PID, 0)
	if err != nil {
		return berth.Errorf(berth.Conflict, "the task's process %d is gone: %w", o.PID, err)
	}
	defer unix.Close(fd)
	// Asked after it was opened: a number that was given to another process
	// meanwhile belongs to one that is younger.
	if startTime(o.PID) != o.StartTime {
		return berth.Errorf(berth.Conflict, "the task's process %d is gone", o.PID)
	}
	// Threads of a process share their root, and only one that does not can
	// change its mounts.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("join the task: %w", err)
	}
	const all = unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWCGROUP
	if err := unix.Setns(fd, all); err != nil {
		return fmt.Errorf("join the namespaces of the task: %w", err)
	}
	return nil
}

// startTime returns when a process was started in clock ticks since boot, 0 if
// there is none.
func startTime(pid int) uint64 {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	// The second field is a name in parentheses that may hold anything.
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(f) < 20 {
		return 0
	}
	n, _ := strconv.ParseUint(f[19], 10, 64)
	return n
}

// findOnHost looks for the command of a task that is not isolated.
func findOnHost(o *Enter) (string, error) {
	name := o.Command[0]
	if filepath.IsAbs(name) {
		return name, nil
	}
	if filepath.Base(name) != name {
		return filepath.Join(o.Dir, name), nil
	}
	for _, dir := range pathOf(o.Env) {
		if p := filepath.Join(dir, name); filepath.IsAbs(p) && executable(p) == nil {
			return p, nil
		}
	}
	return "", berth.Errorf(berth.Invalid, "%q is not in the task's PATH", name)
}

// terminal opens a new terminal, for an isolated task one of its own, and gives
// it to the user.
func terminal(o *Enter) (master, peer *os.File, err error) {
	fd, err := unix.Open("/dev/pts/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil { // the host's may not be open to all there
		fd, err = unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("open a terminal: %w", err)
	}
	// What a task put in its place is not to be talked to.
	var st unix.Statfs_t
	if err = unix.Fstatfs(fd, &st); err == nil && st.Type != unix.DEVPTS_SUPER_MAGIC {
		var node unix.Stat_t
		if err = unix.Fstat(fd, &node); err == nil && node.Rdev != unix.Mkdev(5, 2) {
			err = errors.New("it is no terminal")
		}
	}
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, nil, fmt.Errorf("open a terminal: %w", err)
	}
	p, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if e != 0 {
		_ = unix.Close(fd)
		return nil, nil, fmt.Errorf("open a terminal: %w", e)
	}
	if o.Isolated || o.AsUser {
		_ = unix.Fchown(int(p), int(o.User.UID), -1)
	}
	_ = unix.SetNonblock(fd, true) // so that closing it ends a read
	return os.NewFile(uintptr(fd), "terminal"), os.NewFile(p, "terminal"), nil
}

// resize sets the size of a terminal. Programs in it get SIGWINCH.
func resize(master *os.File, s Size) {
	if s.Rows == 0 || s.Columns == 0 {
		return
	}
	conn, err := master.SyscallConn()
	if err != nil {
		return
	}
	_ = conn.Control(func(fd uintptr) {
		_ = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: s.Rows, Col: s.Columns})
	})
}

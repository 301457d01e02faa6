package supervise

import (
	"bufio"
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/cpuset"
	"berth/internal/saferoot"
)

// cgroup is a control group that holds one task, so that none of its processes
// gets away whatever it does. It limits nothing except, on request, the
// cores. Without one, and a machine may offer none, sessions and marks have to
// do.
type cgroup struct {
	dir string
	v2  bool
	fd  *os.File // of dir, if v2
}

// newCgroup makes a group below the parent in the first hierarchy that lets
// us, and returns nil if none does.
func newCgroup(parent, name string, hierarchies []hierarchy) *cgroup {
	if saferoot.Name(parent) != nil || saferoot.Name(name) != nil {
		return nil
	}
	for _, h := range hierarchies {
		dir := filepath.Join(h.mount, parent, name)
		if os.MkdirAll(dir, 0o755) != nil {
			continue
		}
		c := &cgroup{dir: dir, v2: h.v2}
		if !c.v2 {
			return c
		}
		var err error
		if c.fd, err = os.Open(dir); err == nil {
			return c
		}
		_ = os.Remove(dir)
	}
	return nil
}

// setCores keeps the group to some cores. Nothing is done for no cores: a task
// has the same all its life.
func (c *cgroup) setCores(cores []uint16) error {
	switch {
	case len(cores) == 0:
		return nil
	case c == nil || !c.v2:
		return errors.New("the machine has no cgroups of version 2 for us")
	}
	// A controller is handed down level by level; it may be already.
	parent := filepath.Dir(c.dir)
	var errs []error
	for _, dir := range []string{filepath.Dir(parent), parent} {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+cpuset"), 0o644); err != nil {
			errs = append(errs, err)
		}
	}
	if err := os.WriteFile(filepath.Join(c.dir, "cpuset.cpus"), []byte(cpuset.Format(cores)), 0o644); err != nil {
		return errors.Join(append(errs, err)...)
	}
	return nil
}

// hierarchy is a mounted hierarchy that can hold tasks: the unified one, or
// version 1's freezer.
type hierarchy struct {
	mount string
	v2    bool
}

// hierarchies reads what is mounted, the unified one first.
func hierarchies() (out []hierarchy) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	s := bufio.NewScanner(bytes.NewReader(b))
	for s.Scan() {
		// 36 35 98:0 /root /mount options… - type source super-options
		before, after, ok := strings.Cut(s.Text(), " - ")
		f, g := strings.Fields(before), strings.Fields(after)
		if !ok || len(f) < 5 || len(g) < 3 {
			continue
		}
		switch {
		case g[0] == "cgroup2":
			out = append([]hierarchy{{f[4], true}}, out...)
		case g[0] == "cgroup" && strings.Contains(","+g[2]+",", ",freezer,"):
			out = append(out, hierarchy{f[4], false})
		}
	}
	return out
}

// fork calls start so that the process it makes is in the group from its first
// instruction on.
func (c *cgroup) fork(attr *syscall.SysProcAttr, start func() (int, error)) (int, error) {
	if c == nil {
		return start()
	}
	if c.v2 {
		attr.UseCgroupFD, attr.CgroupFD = true, int(c.fd.Fd())
		return start()
	}
	// In version 1 a thread can be in a group of its own, and a child is where
	// the thread that made it was. The thread is not given back if it cannot
	// leave again: the runtime ends it with its goroutine.
	done := make(chan struct{})
	var pid int
	var err error
	go func() {
		defer close(done)
		runtime.LockOSThread()
		home := filepath.Join(filepath.Dir(filepath.Dir(c.dir)), "tasks")
		if b, e := os.ReadFile("/proc/thread-self/cgroup"); e == nil {
			home = ownTasksFile(string(b), filepath.Dir(filepath.Dir(c.dir)), home)
		}
		tid := []byte(strconv.Itoa(unix.Gettid()))
		if err = os.WriteFile(filepath.Join(c.dir, "tasks"), tid, 0); err != nil {
			return
		}
		pid, err = start()
		if os.WriteFile(home, tid, 0) == nil {
			runtime.UnlockOSThread()
		}
	}()
	<-done
	return pid, err
}

// ownTasksFile returns the tasks file of the freezer group that a thread is in.
func ownTasksFile(cgroups, mount, def string) string {
	for line := range strings.Lines(cgroups) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) == 3 && strings.Contains(","+f[1]+",", ",freezer,") {
			return filepath.Join(mount, f[2], "tasks")
		}
	}
	return def
}

// pids lists the processes in the group.
func (c *cgroup) pids() (out []int) {
	b, err := os.ReadFile(filepath.Join(c.dir, "cgroup.procs"))
	if err != nil {
		return nil
	}
	for _, f := range strings.Fields(string(b)) {
		if pid, err := strconv.Atoi(f); err == nil && pid > 0 {
			out = append(out, pid)
		}
	}
	return out
}

// kill kills every process in the group and waits, for a while, until none is
// listed.
func (c *cgroup) kill() error {
	for wait := time.Millisecond; ; wait *= 2 {
		err := c.killOnce()
		if errors.Is(err, fs.ErrNotExist) || err == nil && len(c.pids()) == 0 {
			return nil
		}
		if wait > time.Second {
			return errors.Join(err, errors.New("processes stay in "+c.dir))
		}
		time.Sleep(wait)
	}
}

// killOnce kills every process that is in the group now. One that forks
// meanwhile may escape, so kill repeats it until the group is empty.
func (c *cgroup) killOnce() error {
	if c.v2 {
		err := os.WriteFile(filepath.Join(c.dir, "cgroup.kill"), []byte("1"), 0)
		if err == nil || errors.Is(err, fs.ErrNotExist) && len(c.pids()) == 0 {
			return err
		} // before Linux 5.14 there is no such file: one by one then
	} else {
		// Frozen, they cannot fork while we go through the list.
		state := filepath.Join(c.dir, "freezer.state")
		_ = os.WriteFile(state, []byte("FROZEN"), 0)
		defer func() { _ = os.WriteFile(state, []byte("THAWED"), 0) }()
	}
	for _, pid := range c.pids() {
		// Version 1 lists us while a thread of ours is on its way out (fork).
		if pid != os.Getpid() {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
	return nil
}

// remove removes the group, in which nothing lives any more, and the groups
// that the task may have made in it. The kernel calls a group busy until it is
// done with each thread that was in it, and that is later than it stops to list
// the process. Nothing tells when, so remove tries again until then; after
// removeTime it gives up and returns the error.
func (c *cgroup) remove() error {
	if c.fd != nil {
		_ = c.fd.Close()
	}
	for end, wait := time.Now().Add(removeTime), time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		err := removeGroup(c.dir)
		if !errors.Is(err, unix.EBUSY) || !time.Now().Before(end) {
			return err
		}
		time.Sleep(wait)
	}
}

// removeTime is how long the removal of a cgroup is tried.
const removeTime = 10 * time.Second

// removeGroup removes a group and those below it. One that is gone is no error.
func removeGroup(dir string) error {
	err := unix.Rmdir(dir)
	if err == nil || err == unix.ENOENT {
		return nil
	}
	below, _ := os.ReadDir(dir)
	for _, e := range below {
		if e.IsDir() {
			_ = removeGroup(filepath.Join(dir, e.Name()))
		}
	}
	if err := unix.Rmdir(dir); err != nil && err != unix.ENOENT {
		return &fs.PathError{Op: "rmdir", Path: dir, Err: err}
	}
	return nil
}

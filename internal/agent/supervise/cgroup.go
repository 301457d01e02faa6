package supervise

import (
	"bufio"
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/saferoot"
)

// cgroup is a control group that holds one task, so that none of its processes
// gets away whatever it does, and that limits it. Without one, and a machine may
// offer none, sessions and marks have to do. A nil cgroup is none.
type cgroup struct {
	dir         string // the group by which the task is found and killed; "" if there is none
	v2          bool
	fd          *os.File          // of dir, if v2
	controllers map[string]string // groups of version 1 that limit, by controller
}

// newCgroup makes a group below the parent in the first hierarchy that lets us,
// and those of the controllers that are needed. It returns nil if none can be
// made.
func newCgroup(parent, name string, hierarchies []hierarchy, needed []string) *cgroup {
	if saferoot.Name(parent) != nil || saferoot.Name(name) != nil {
		return nil
	}
	c := &cgroup{controllers: map[string]string{}}
	for _, h := range hierarchies {
		dir := filepath.Join(h.mount, parent, name)
		for _, controller := range needed {
			if slices.Contains(h.controllers, controller) && os.MkdirAll(dir, 0o755) == nil {
				c.controllers[controller] = dir
			}
		}
		if c.dir != "" || !h.v2 && !slices.Contains(h.controllers, "freezer") || os.MkdirAll(dir, 0o755) != nil {
			continue
		}
		if h.v2 {
			var err error
			if c.fd, err = os.Open(dir); err != nil {
				_ = os.Remove(dir)
				continue
			}
		}
		c.dir, c.v2 = dir, h.v2
	}
	if c.dir == "" && len(c.controllers) == 0 {
		return nil
	}
	return c
}

// hierarchy is a mounted hierarchy: the unified one, or one of version 1.
type hierarchy struct {
	mount       string
	v2          bool
	controllers []string // of version 1
}

// hierarchies reads what is mounted, the unified one first.
func hierarchies() (out []hierarchy) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	seen := map[string]bool{}
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
			out = append([]hierarchy{{mount: f[4], v2: true}}, out...)
		case g[0] == "cgroup" && !seen[g[2]]: // a hierarchy may be mounted at several places
			seen[g[2]] = true
			out = append(out, hierarchy{mount: f[4], controllers: strings.Split(g[2], ",")})
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
	dirs := c.controllerDirs()
	if c.v2 {
		attr.UseCgroupFD, attr.CgroupFD = true, int(c.fd.Fd())
	} else if c.dir != "" && !slices.Contains(dirs, c.dir) {
		dirs = append(dirs, c.dir)
	}
	if len(dirs) == 0 {
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
		own, _ := os.ReadFile("/proc/thread-self/cgroup")
		tid := []byte(strconv.Itoa(unix.Gettid()))
		var home []string
		for _, dir := range dirs {
			if err = os.WriteFile(filepath.Join(dir, "tasks"), tid, 0); err != nil {
				break
			}
			home = append(home, ownTasksFile(string(own), dir))
		}
		if err == nil {
			pid, err = start()
		}
		for _, file := range home {
			if os.WriteFile(file, tid, 0) != nil {
				return
			}
		}
		runtime.UnlockOSThread()
	}()
	<-done
	return pid, err
}

// ownTasksFile returns the tasks file of the group that a thread is in, of the
// hierarchy of version 1 that holds dir; "" if it cannot be found.
func ownTasksFile(cgroups, dir string) string {
	for _, h := range hierarchies() {
		if h.v2 || !strings.HasPrefix(dir, h.mount+"/") {
			continue
		}
		for line := range strings.Lines(cgroups) {
			f := strings.SplitN(strings.TrimSpace(line), ":", 3)
			if len(f) == 3 && slices.Contains(h.controllers, strings.SplitN(f[1], ",", 2)[0]) {
				return filepath.Join(h.mount, f[2], "tasks")
			}
		}
		return filepath.Join(h.mount, "tasks")
	}
	return ""
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
	if c.dir == "" {
		return nil
	}
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
	var errs []error
	for _, dir := range append(c.controllerDirs(), c.dir) {
		if dir != "" {
			errs = append(errs, removeInTime(dir))
		}
	}
	return errors.Join(errs...)
}

// removeInTime removes one group, see remove.
func removeInTime(dir string) error {
	for end, wait := time.Now().Add(removeTime), time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		err := removeGroup(dir)
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

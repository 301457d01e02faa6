package isolate

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"berth"
)

// setup makes this process the task that it is ordered to be. It returns only
// if that failed.
func setup(orders *json.Decoder) error {
	// What follows changes the thread that becomes the program.
	runtime.LockOSThread()
	var o Setup
	if err := orders.Decode(&o); err != nil {
		return fmt.Errorf("read the orders: %w", err)
	}
	s := o.Spec
	if s == nil || !filepath.IsAbs(s.Root) || s.Root == "/" {
		return berth.Errorf(berth.Invalid, "isolate: the task's directory must be an absolute path below the root")
	}
	caps, err := capabilityMask(s.Capabilities)
	if err != nil {
		return err
	}
	if s.OOMScoreAdj != 0 {
		if err := os.WriteFile("/proc/self/oom_score_adj", []byte(strconv.Itoa(s.OOMScoreAdj)), 0); err != nil {
			return fmt.Errorf("oom_score_adj: %w", err)
		}
	}
	// The group of the task is the root of what it sees of groups.
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("cgroup namespace: %w", err)
	}
	if err := joinNetwork(s.NetNS); err != nil {
		return err
	}
	if s.Hostname != "" {
		if err := unix.Sethostname([]byte(s.Hostname)); err != nil {
			return fmt.Errorf("host name %q: %w", s.Hostname, err)
		}
	}
	if err := buildTree(s); err != nil {
		return err
	}
	path, err := findCommand(o.Command, o.Env)
	if err != nil {
		return err
	}
	dir := s.WorkDir
	if dir == "" {
		dir = "/"
	}
	if err := unix.Chdir(dir); err != nil {
		return Refused("config.work_dir: %q in the task's file tree: %w", dir, err)
	}
	if err := confine(o.User, caps); err != nil {
		return err
	}
	err = unix.Exec(path, append([]string{o.Command}, o.Args...), o.Env)
	return Refused("start %q in the task's file tree: %w", path, err)
}

// joinNetwork makes the network namespace this thread's.
func joinNetwork(path string) error {
	if path == "" {
		return nil
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err == nil {
		err = unix.Setns(fd, unix.CLONE_NEWNET)
		_ = unix.Close(fd)
	}
	if err != nil {
		return fmt.Errorf("join the network namespace %s: %w", path, err)
	}
	return nil
}

// confine takes from this thread all that the program is not to have: open
// files, identity, capabilities, core dumps and system calls.
func confine(who Identity, caps uint64) error {
	if err := unix.CloseRange(3, ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("close files: %w", err)
	}
	if err := unix.Prlimit(0, unix.RLIMIT_CORE, &unix.Rlimit{}, nil); err != nil {
		return fmt.Errorf("no core dumps: %w", err)
	}
	if err := become(who, caps); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no new privileges: %w", err)
	}
	if err := landlock(); err != nil {
		return err
	}
	return seccomp(caps)
}

// findCommand looks for the command in the tree, whose root is the process's:
// an absolute path; a path below local/ or the root; or a name in PATH.
func findCommand(command string, env []string) (string, error) {
	if command == "" || strings.ContainsRune(command, 0) {
		return "", berth.Errorf(berth.Invalid, "config.command: %q is not the name of a program", command)
	}
	if filepath.IsAbs(command) {
		return command, executable(command)
	}
	for _, dir := range []string{"/local", "/"} {
		if p := filepath.Join(dir, command); filepath.IsLocal(command) && executable(p) == nil {
			return p, nil
		}
	}
	if !strings.Contains(command, "/") {
		for _, dir := range pathOf(env) {
			if p := filepath.Join(dir, command); filepath.IsAbs(p) && executable(p) == nil {
				return p, nil
			}
		}
	}
	return "", berth.Errorf(berth.Invalid, "config.command: %q is neither in the task's directory nor in its PATH", command)
}

// pathOf returns the directories of the variable PATH.
func pathOf(env []string) (dirs []string) {
	for _, e := range env {
		if list, ok := strings.CutPrefix(e, "PATH="); ok {
			dirs = filepath.SplitList(list)
		}
	}
	return dirs
}

// executable returns nil if p is a file that somebody may execute. Whether the
// task's user may shows when it is started.
func executable(p string) error {
	st, err := os.Stat(p)
	if err != nil {
		return berth.Errorf(berth.Invalid, "config.command: %w in the task's file tree", err)
	}
	if st.IsDir() || st.Mode()&0o111 == 0 {
		return berth.Errorf(berth.Invalid, "config.command: %q cannot be executed", p)
	}
	return nil
}

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
)

// A run takes place in network, mount and process namespaces of its own. There
// it may cut networks and fill disks, its addresses and mounts are nobody
// else's, and when it ends, however it ends, the kernel ends all that it
// started.

// insideVar tells the program which of its two parts it is: the first process
// of the namespaces, which only waits for the others, or the run itself.
const insideVar = "BERTH_FAULTS_INSIDE"

// isInit reports whether this process is the init of the namespaces.
func isInit() bool { return os.Getenv(insideVar) == "init" }

// inside reports whether this process runs inside the namespaces.
func inside() bool { return os.Getenv(insideVar) == "run" }

// enter runs the program again inside new namespaces and returns its exit code.
func enter(args []string) (int, error) {
	if os.Geteuid() != 0 {
		return 1, errors.New("this needs root: it makes namespaces")
	}
	cmd := exec.Command("/proc/self/exe", args[1:]...)
	cmd.Env = append(os.Environ(), insideVar+"=init")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID,
	}
	// An interrupt goes to the init, which ends the run in order.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		return 1, fmt.Errorf("namespaces: %w", err)
	}
	done := make(chan struct{})
	defer close(done)
	go func() {
		for {
			select {
			case s := <-signals:
				_ = cmd.Process.Signal(s)
			case <-done:
				return
			}
		}
	}()
	err := cmd.Wait()
	// Cgroups outlive the namespaces.
	removeCgroups(cgroupPrefix(cmd.Process.Pid))
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		return 1, err
	}
	return cmd.ProcessState.ExitCode(), nil
}

// cgroupPrefix begins the names of the cgroups of a run's agents.
func cgroupPrefix(pid int) string { return fmt.Sprintf("berth-faults-%d-", pid) }

// removeCgroups removes the cgroups of agents that were killed and could not do
// it.
func removeCgroups(prefix string) {
	for _, pattern := range []string{"/sys/fs/cgroup/", "/sys/fs/cgroup/*/"} {
		tops, _ := filepath.Glob(pattern + prefix + "*")
		for _, top := range tops {
			var dirs []string
			_ = filepath.WalkDir(top, func(path string, d os.DirEntry, err error) error {
				if err == nil && d.IsDir() {
					dirs = append(dirs, path)
				}
				return nil
			})
			for i := len(dirs) - 1; i >= 0; i-- {
				_ = os.Remove(dirs[i])
			}
		}
	}
}

// beInit is the first process of the namespaces. It starts the run, collects
// every process that ends, since orphans become its children, and ends with the
// run.
func beInit() int {
	err := errors.Join(os.Setenv(insideVar, "run"), prepare())
	var run int
	if err == nil {
		run, err = syscall.ForkExec("/proc/self/exe", os.Args, &syscall.ProcAttr{
			Env: os.Environ(), Files: []uintptr{0, 1, 2},
		})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		return 1
	}
	// Init ignores signals that it has no handler for.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		for s := range signals {
			_ = syscall.Kill(run, s.(syscall.Signal))
		}
	}()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return 1
		case pid == run && status.Exited():
			return status.ExitStatus()
		case pid == run && status.Signaled():
			return 128 + int(status.Signal())
		}
	}
}

// prepare mounts what the namespaces need.
func prepare() error {
	outer, err := os.Readlink("/proc/self") // still that of outside
	if err != nil {
		return err
	}
	if err := os.Setenv(outerVar, outer); err != nil {
		return err
	}
	for _, m := range []struct {
		from, to, kind string
		flags          uintptr
	}{
		{"none", "/", "", syscall.MS_REC | syscall.MS_PRIVATE},
		{"proc", "/proc", "proc", syscall.MS_NOSUID | syscall.MS_NODEV | syscall.MS_NOEXEC},
		{"tmpfs", "/run", "tmpfs", 0}, // the names of networks are below it
	} {
		if err := syscall.Mount(m.from, m.to, m.kind, m.flags, ""); err != nil {
			return fmt.Errorf("mount %s: %w", m.to, err)
		}
	}
	return nil
}

// outerVar holds the ID of the first process as it is seen from outside. It
// distinguishes the cgroups of different runs.
const outerVar = "BERTH_FAULTS_PID"

// leftovers returns the processes inside that do not belong there.
func leftovers() (out []string) {
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range all {
		pid := filepath.Base(dir)
		if pid == "1" || pid == fmt.Sprint(os.Getpid()) {
			continue
		}
		p := lookAt(dir)
		if p.zombie || p.gone {
			continue
		}
		out = append(out, fmt.Sprintf("%s (%s)", pid, p.args))
	}
	return out
}

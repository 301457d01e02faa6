package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"os/user"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	wire "berth/internal/agent/plugin/pluginwire"
)

// keeperWord makes this program the keeper of one task.
const keeperWord = "keeper"

// keep runs a command and writes down in file how it ended. What it leaves behind
// becomes the keeper's own children, and is killed.
func keep(file, name string, command []string) int {
	tell := os.NewFile(3, "tell")
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		fmt.Fprintln(tell, "subreaper:", err)
		return 1
	}
	orders := make(chan os.Signal, 1)
	signal.Notify(orders, unix.SIGTERM)
	// What was ignored when the agent was started, as SIGHUP under nohup, would be
	// ignored by the task as well. What is caught here is not.
	signal.Notify(make(chan os.Signal, 1), unix.SIGHUP, unix.SIGINT, unix.SIGQUIT)
	c := exec.Command(command[0], command[1:]...)
	c.Stdout, c.Stderr, c.SysProcAttr = os.Stdout, os.Stderr, &syscall.SysProcAttr{Setsid: true}
	if name != "" {
		who, err := credential(name)
		if err != nil {
			fmt.Fprintln(tell, strings.ReplaceAll(err.Error(), " ", "_"))
			return 1
		}
		c.SysProcAttr.Credential = who
	}
	if err := c.Start(); err != nil {
		fmt.Fprintln(tell, strings.ReplaceAll(err.Error(), " ", "_"))
		return 1
	}
	fmt.Fprintln(tell, c.Process.Pid)
	_ = tell.Close()
	go func() {
		<-orders
		_ = syscall.Kill(c.Process.Pid, unix.SIGKILL)
	}()
	_ = c.Wait()
	x := &wire.ExitResult{Code: int32(c.ProcessState.ExitCode())}
	if w, ok := c.ProcessState.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		x.Signal, x.Code = int32(w.Signal()), 128+int32(w.Signal())
	}
	for endChildren() {
	}
	if err := write(file, x); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// endChildren kills this process's children, takes their statuses, and reports
// whether there was one.
func endChildren() bool {
	b, _ := os.ReadFile("/proc/self/task/" + strconv.Itoa(os.Getpid()) + "/children")
	for f := range strings.FieldsSeq(string(b)) {
		if pid, err := strconv.Atoi(f); err == nil {
			_ = syscall.Kill(pid, unix.SIGKILL)
		}
	}
	_, err := syscall.Wait4(-1, nil, 0, nil)
	return err == nil || err == syscall.EINTR
}

// credential returns who a task runs as.
func credential(name string) (*syscall.Credential, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	if err1 != nil || err2 != nil {
		return nil, fmt.Errorf("user %s has no numbers", name)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

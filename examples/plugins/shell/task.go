package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	wire "berth/internal/agent/plugin/pluginwire"
)

// task is one task: a keeper, and below it the script.
type task struct {
	dir, file string
	conf      *wire.TaskConfig
	keeper    int    // its process
	began     string // when that began, in ticks: with the number its identity
	script    int    // the process of the script, which leads a session
}

// memory is what the driver keeps of a task.
type memory struct {
	File           string
	Keeper, Script int
	Began          string
}

func (t *task) state() []byte {
	b, _ := json.Marshal(memory{t.file, t.keeper, t.script, t.began})
	return b
}

func (t *task) read(b []byte) error {
	var m memory
	if err := json.Unmarshal(b, &m); err != nil {
		return err
	}
	t.file, t.keeper, t.script, t.began = m.File, m.Keeper, m.Script, m.Began
	if _, err := t.exit(); err != nil && !t.runs() {
		return errors.New("neither the task nor its exit is there")
	}
	return nil
}

// begin starts the keeper, which tells the number of the script's process.
func (t *task) begin(command []string, more map[string]string) error {
	_ = os.Remove(t.file)
	out, err := os.OpenFile(t.conf.Stdout, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer out.Close()
	errs, err := os.OpenFile(t.conf.Stderr, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer errs.Close()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	c := exec.Command(self, append([]string{keeperWord, t.file, t.conf.User}, command...)...)
	for k, v := range t.conf.Env {
		c.Env = append(c.Env, k+"="+v)
	}
	for k, v := range more {
		c.Env = append(c.Env, k+"="+v)
	}
	c.Dir, c.Stdout, c.Stderr, c.ExtraFiles, c.SysProcAttr = t.dir, out, errs, []*os.File{w}, &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		_ = w.Close()
		return err
	}
	_ = w.Close()
	go func() { _ = c.Wait() }()
	var said string
	if _, err := fmt.Fscanln(r, &said); err != nil {
		return errors.New("the keeper of the task ended at once")
	}
	if t.script, err = strconv.Atoi(said); err != nil {
		return errors.New(said)
	}
	t.keeper = c.Process.Pid
	t.began = began(t.keeper)
	return nil
}

// began returns when a process began, "" if it does not run.
func began(pid int) string {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return ""
	}
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(f) < 20 || f[0] == "Z" || f[0] == "X" {
		return ""
	}
	return f[19]
}

// runs reports whether the keeper does.
func (t *task) runs() bool { return t.began != "" && began(t.keeper) == t.began }

// exit returns what the keeper has written down.
func (t *task) exit() (*wire.ExitResult, error) {
	b, err := os.ReadFile(t.file)
	if err != nil {
		return nil, err
	}
	x := &wire.ExitResult{}
	return x, json.Unmarshal(b, x)
}

// wait waits until the task has ended.
func (t *task) wait(ctx context.Context) (*wire.ExitResult, error) {
	fd, err := unix.PidfdOpen(t.keeper, 0)
	if err == nil {
		defer unix.Close(fd)
	}
	for t.runs() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err != nil { // the kernel has no such descriptors
			_, _ = unix.Poll(nil, 50)
			continue
		}
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 200)
	}
	x, err := t.exit()
	if err != nil {
		return nil, errors.New("its keeper was killed")
	}
	return x, nil
}

// number returns the number of a signal.
func number(name string) syscall.Signal {
	if n, err := strconv.Atoi(name); err == nil {
		return syscall.Signal(n)
	}
	if n := unix.SignalNum(name); n != 0 {
		return n
	}
	return unix.SIGTERM
}

// signal signals the script.
func (t *task) signal(s syscall.Signal) error {
	if !t.runs() {
		return errors.New("the task has ended")
	}
	return syscall.Kill(t.script, s)
}

// stop asks the script to end, and has the keeper kill it after the timeout.
func (t *task) stop(ctx context.Context, s syscall.Signal, timeout time.Duration) error {
	if !t.runs() {
		return nil
	}
	if timeout > 0 {
		_ = syscall.Kill(t.script, s)
		limited, cancel := context.WithTimeout(ctx, timeout)
		_, err := t.wait(limited)
		cancel()
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
	}
	_ = syscall.Kill(t.keeper, unix.SIGTERM) // it kills what is below it
	_, _ = t.wait(ctx)
	return ctx.Err()
}

// memory returns how many bytes the script has resident.
func (t *task) memory() uint64 {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(t.script) + "/statm")
	f := strings.Fields(string(b))
	if err != nil || len(f) < 2 {
		return 0
	}
	n, _ := strconv.ParseUint(f[1], 10, 64)
	return n * uint64(os.Getpagesize())
}

// write replaces a file.
func write(path string, x *wire.ExitResult) error {
	b, err := json.Marshal(x)
	if err != nil {
		return err
	}
	next := filepath.Join(filepath.Dir(path), ".next-"+filepath.Base(path))
	if err := os.WriteFile(next, b, 0o600); err != nil {
		return err
	}
	return os.Rename(next, path)
}

package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	wire "berth/internal/agent/plugin/pluginwire"
)

// exec runs a command beside a task.
func (d *driver) exec(ctx context.Context, next func() (*wire.ExecRequest, error), send func(*wire.ExecResponse) error) error {
	first, err := next()
	if err != nil {
		return err
	}
	if first.Setup == nil || len(first.Setup.Command) == 0 {
		return errors.New("no command")
	}
	t, err := d.find(first.Setup.TaskID)
	if err != nil {
		return err
	}
	if !t.runs() {
		return errors.New("the task has ended")
	}
	c := exec.CommandContext(ctx, first.Setup.Command[0], first.Setup.Command[1:]...)
	c.Dir, c.SysProcAttr = t.dir, &syscall.SysProcAttr{Setsid: true}
	for k, v := range t.conf.Env {
		c.Env = append(c.Env, k+"="+v)
	}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, unix.SIGKILL) }
	var sending sync.Mutex
	pass := func(r io.Reader, message func(*wire.ExecIO) *wire.ExecResponse) {
		buf := make([]byte, 32<<10)
		for {
			n, err := r.Read(buf)
			if n > 0 {
				sending.Lock()
				failed := send(message(&wire.ExecIO{Data: append([]byte(nil), buf[:n]...)}))
				sending.Unlock()
				if failed != nil {
					return
				}
			}
			if err != nil {
				return
			}
		}
	}
	out := func(b *wire.ExecIO) *wire.ExecResponse { return &wire.ExecResponse{Stdout: b} }
	errs := func(b *wire.ExecIO) *wire.ExecResponse { return &wire.ExecResponse{Stderr: b} }
	var copies sync.WaitGroup
	var stdin io.WriteCloser
	var terminal *os.File
	if first.Setup.TTY {
		ours, theirs, err := openTerminal()
		if err != nil {
			return err
		}
		defer ours.Close()
		c.Stdin, c.Stdout, c.Stderr, c.SysProcAttr.Setctty = theirs, theirs, theirs, true
		if err := c.Start(); err != nil {
			_ = theirs.Close()
			return status.Error(codes.InvalidArgument, err.Error())
		}
		_ = theirs.Close()
		terminal, stdin = ours, ours
		copies.Go(func() { pass(ours, out) })
	} else {
		in, err1 := c.StdinPipe()
		o, err2 := c.StdoutPipe()
		e, err3 := c.StderrPipe()
		if err := errors.Join(err1, err2, err3); err != nil {
			return err
		}
		if err := c.Start(); err != nil {
			return status.Error(codes.InvalidArgument, err.Error())
		}
		stdin = in
		copies.Go(func() { pass(o, out) })
		copies.Go(func() { pass(e, errs) })
	}
	go func() {
		for {
			r, err := next()
			switch {
			case err != nil:
				return
			case r.Size != nil && terminal != nil:
				_ = unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(r.Size.Height), Col: uint16(r.Size.Width)})
			case r.Stdin != nil && len(r.Stdin.Data) > 0:
				_, _ = stdin.Write(r.Stdin.Data)
			case r.Stdin != nil && r.Stdin.Close && terminal == nil:
				_ = stdin.Close()
			}
		}
	}()
	copies.Wait()
	_ = c.Wait()
	x := &wire.ExitResult{Code: int32(c.ProcessState.ExitCode())}
	if w, ok := c.ProcessState.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		x.Signal, x.Code = int32(w.Signal()), 128+int32(w.Signal())
	}
	return send(&wire.ExecResponse{Exited: true, Result: x})
}

// openTerminal returns both ends of a new terminal.
func openTerminal() (ours, theirs *os.File, err error) {
	ours, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	zero := 0
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, ours.Fd(), unix.TIOCSPTLCK, uintptr(unsafe.Pointer(&zero))); e != 0 {
		return nil, nil, errors.Join(e, ours.Close())
	}
	fd, _, e := unix.Syscall(unix.SYS_IOCTL, ours.Fd(), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY)
	if e != 0 {
		return nil, nil, errors.Join(e, ours.Close())
	}
	return ours, os.NewFile(fd, "terminal"), nil
}

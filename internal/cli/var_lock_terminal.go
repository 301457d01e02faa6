package cli

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// The terminal of a command that holds a lock. The command has a process group of its
// own, and only one group at a time may read a terminal: the kernel stops a process
// of another that tries. So the command is given the terminal when it first wants it.

// lockTerminal gives the command the terminal from which this program was started.
type lockTerminal struct {
	tty     *os.File // nil: there is none
	own     int      // our process group
	group   int      // that of the command; its first process has the same number
	stopped bool     // the command, and nobody has let it go on
	given   bool     // the command was given the terminal
	events  chan os.Signal
}

// newLockTerminal prepares for a command that is started next.
func newLockTerminal() *lockTerminal {
	t := &lockTerminal{own: unix.Getpgrp(), events: make(chan os.Signal, 1)}
	// Each look finds out by itself what has happened, so one event that is pending
	// is enough. SIGTSTP is among them because it would stop us: then the lock would be
	// lost while the command goes on.
	signal.Notify(t.events, unix.SIGCHLD, unix.SIGCONT, unix.SIGTSTP)
	if f, err := os.OpenFile("/dev/tty", os.O_RDWR|unix.O_NOCTTY, 0); err == nil {
		t.tty = f
	}
	return t
}

// share watches a command that was started, until the result is called. That takes
// the terminal back.
func (t *lockTerminal) share(x *exec.Cmd) (end func()) {
	t.group = x.Process.Pid
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-t.events:
				t.look()
			case <-quit:
				return
			}
		}
	}()
	return func() {
		close(quit)
		<-done
		t.takeBack()
	}
}

// look lets a command that has stopped go on: if it wants the terminal, with the
// terminal. One in the background waits until it is brought to the foreground.
func (t *lockTerminal) look() {
	var news unix.Siginfo
	if err := unix.Waitid(unix.P_PID, t.group, &news, unix.WSTOPPED|unix.WNOHANG, nil); err == nil && news.Signo != 0 {
		t.stopped = true
	}
	if !t.stopped || t.tty == nil {
		return
	}
	front, err := unix.IoctlGetInt(int(t.tty.Fd()), unix.TIOCGPGRP)
	switch {
	case err != nil:
		return
	case front == t.own:
		if unix.IoctlSetPointerInt(int(t.tty.Fd()), unix.TIOCSPGRP, t.group) != nil {
			return
		}
		t.given = true
	case front != t.group:
		return
	}
	t.stopped = false
	_ = unix.Kill(-t.group, unix.SIGCONT)
}

// takeBack takes the terminal back.
func (t *lockTerminal) takeBack() {
	signal.Stop(t.events)
	if t.tty == nil {
		return
	}
	defer t.tty.Close()
	if !t.given {
		return
	}
	// A process in the background that takes the terminal gets this signal.
	signal.Ignore(unix.SIGTTOU)
	defer signal.Reset(unix.SIGTTOU)
	_ = unix.IoctlSetPointerInt(int(t.tty.Fd()), unix.TIOCSPGRP, t.own)
}

// endGroup asks all processes of a group to end, also those that are stopped.
func endGroup(group int) error {
	err := syscall.Kill(-group, unix.SIGTERM)
	_ = syscall.Kill(-group, unix.SIGCONT)
	return err
}

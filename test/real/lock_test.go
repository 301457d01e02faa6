package real

import (
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"berth/test/bed"
)

// A command that holds a lock reads the terminal: it gets what is typed, Ctrl-C ends
// it and nothing suspends it. Afterwards the terminal is that of the script again.
func TestACommandWithALockReadsTheTerminal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.agent("one", both)
	a.joined()
	term := newTerminal(t)
	c := exec.CommandContext(t.Context(), "/bin/sh", "-c", `
		berth var lock locks/a 'echo asks; read x; echo "got $x"'; echo "code $?"
		read y; echo "then $y"
		berth var lock locks/a 'echo asks again; read x'; echo "code $?"
		read y; echo "at last $y"`)
	c.Env = w.Environ("BERTH_ADDR="+a.addr, "PATH="+filepath.Join(bed.SuiteDir())+":/usr/bin:/bin")
	c.Stdin, c.Stdout, c.Stderr = term.slave, term.slave, term.slave
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	look := func(text string) {
		t.Helper()
		w.until(text+" is on the screen", func() string {
			if !term.shows(text) {
				return "it is not"
			}
			return ""
		})
	}
	// reads waits until the command has the terminal, or the script again.
	reads := func(command bool) {
		t.Helper()
		w.until("the right one has the terminal", func() string {
			group, err := unix.IoctlGetInt(int(term.master.Fd()), unix.TIOCGPGRP)
			if err != nil || (group != c.Process.Pid) != command {
				return "another has it"
			}
			return ""
		})
	}
	types := func(text string) {
		t.Helper()
		if _, err := term.master.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	look("asks")
	reads(true)
	types("\x1a") // Ctrl-Z
	types("one\n")
	look("got one")
	look("code 0")
	reads(false)
	types("two\n")
	look("then two")
	look("asks again")
	reads(true)
	types("\x03") // Ctrl-C
	look("code 130")
	reads(false)
	types("three\n")
	look("at last three")
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
}

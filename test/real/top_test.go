package real

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal is a real terminal of 120 columns and 40 rows: what is written to it is
// typed, and what programs write is collected.
type terminal struct {
	master, slave *os.File
	mu            sync.Mutex
	screen        bytes.Buffer
}

func newTerminal(t *testing.T) *terminal {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	term := &terminal{master: os.NewFile(uintptr(fd), "ptmx")}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if term.slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 120}); err != nil {
		t.Fatal(err)
	}
	var reader sync.WaitGroup
	reader.Go(func() {
		b := make([]byte, 4096)
		for {
			n, err := term.master.Read(b)
			term.mu.Lock()
			term.screen.Write(b[:n])
			term.mu.Unlock()
			if err != nil {
				return // no program has the terminal any more
			}
		}
	})
	t.Cleanup(func() {
		term.slave.Close()
		reader.Wait()
		term.master.Close()
	})
	return term
}

// shows reports whether a text has stood on the screen since the last call of fresh.
func (x *terminal) shows(text string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return bytes.Contains(x.screen.Bytes(), []byte(text))
}

func (x *terminal) fresh() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.screen.Reset()
}

// top runs in a real terminal: it lists the jobs, opens the selected one, and leaves
// when it is told to.
func TestTopInATerminal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.agent("one", both)
	a.joined()
	a.good("job", "run", "-detach", w.file("busy.nomad", busy))
	a.running("busy")
	id := a.allocs("busy")[0].ID

	term := newTerminal(t)
	c := exec.CommandContext(t.Context(), w.Binary, "top", "-interval", "200ms")
	c.Env = w.Environ("BERTH_ADDR="+a.addr, "TERM=xterm-256color")
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
	look("busy")
	term.fresh()
	if _, err := term.master.WriteString("\r"); err != nil {
		t.Fatal(err)
	}
	look(id[:8])
	if _, err := term.master.WriteString("q"); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("top ended with %v", err)
	}
}

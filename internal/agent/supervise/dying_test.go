//go:build faults

package supervise

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// taskOpen is a task with files that the kernel closes slowly: sockets that may be
// in use by a packet on its way. When the task is killed, it has lost its memory,
// and so its environment, long before they are all closed.
func taskOpen(ready string) {
	for range 3000 {
		if _, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
			panic(err)
		}
	}
	if err := os.WriteFile(ready, []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		panic(err)
	}
	_, _ = unix.Poll(nil, -1)
}

// Only init is sure to run on the first thread, and what locks it there stays.
func init() {
	if len(os.Args) > 1 && os.Args[1] == "task-headless" {
		runtime.LockOSThread()
	}
}

// taskHeadless is a task whose first thread has ended, while another one works. It
// must be called on the first thread.
func taskHeadless(ready string) {
	first := os.Getpid()
	go func() {
		for {
			if p, ok := readProcess(first); ok && p.state == 'Z' {
				break
			}
			runtime.Gosched()
		}
		if err := os.WriteFile(ready, []byte(strconv.Itoa(first)), 0o600); err != nil {
			panic(err)
		}
		_, _ = unix.Poll(nil, -1)
	}()
	_, _, _ = unix.Syscall(unix.SYS_EXIT, 0, 0, 0)
}

// A process that dies bears no marks any more while its files are closed. The
// task's next launch needs its ports and locks, so it is waited for.
func TestAnOrphanThatDiesIsWaitedFor(t *testing.T) {
	exe, err := os.Executable()
	must(t, err)
	a := newAlloc(t)
	l := a.start("t", 1, Start{Command: exe, Args: []string{"task-open", filepath.Join(a.path, "ready")}, Dir: "/", Logs: Logs{Disabled: true}})
	a.pidFrom("ready")
	a.killSupervisor()
	must(t, (&state{}).save(a.control)) // the marks are all that tells whose it is
	if _, err := a.Find(t.Context(), "t", 1, 0); !errors.Is(err, ErrLost) || alive(l.PID) {
		t.Errorf("%v; alive %v", err, alive(l.PID))
	}
}

// A process whose first thread has ended looks like one that waits to be reaped,
// and works on.
func TestAnOrphanWithoutItsFirstThreadIsEnded(t *testing.T) {
	exe, err := os.Executable()
	must(t, err)
	a := newAlloc(t)
	l := a.start("t", 1, Start{Command: exe, Args: []string{"task-headless", filepath.Join(a.path, "ready")}, Dir: "/", Logs: Logs{Disabled: true}})
	if pid := a.pidFrom("ready"); pid != l.PID {
		t.Fatalf("it is %d, recorded is %d", pid, l.PID)
	}
	a.killSupervisor()
	if _, err := a.Find(t.Context(), "t", 1, 0); !errors.Is(err, ErrLost) {
		t.Error(err)
	}
	if left, _ := os.ReadDir("/proc/" + strconv.Itoa(l.PID) + "/task"); len(left) > 1 {
		t.Errorf("%d threads are left", len(left))
	}
}

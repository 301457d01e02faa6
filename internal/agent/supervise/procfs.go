package supervise

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/environ"
)

// process is what /proc tells of one.
type process struct {
	pid     int
	state   byte // of its first thread: Z and X have ended
	threads int  // that have not ended, the first included until it is reaped
	parent  int
	session int
	start   uint64 // clock ticks since boot
	ticks   uint64 // of processor time used, reaped children's included
	system  uint64 // that part of ticks which was spent in the kernel
	rss     int64  // pages
}

// dead reports whether the process has ended and only waits to be reaped. While
// threads other than the first are left, it works on, or has files open still.
func (p process) dead() bool { return (p.state == 'Z' || p.state == 'X') && p.threads <= 1 }

// readProcess returns false if there is no such process.
func readProcess(pid int) (process, bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, false
	}
	return parseStat(pid, b)
}

// parseStat reads /proc/PID/stat, whose second field is a name in parentheses
// that may hold anything.
func parseStat(pid int, b []byte) (process, bool) {
	i := bytes.LastIndexByte(b, ')')
	if i < 0 {
		return process{}, false
	}
	f := strings.Fields(string(b[i+1:]))
	if len(f) < 20 || len(f[0]) != 1 {
		return process{}, false
	}
	p := process{pid: pid, state: f[0][0]}
	for _, i := range []int{11, 12, 13, 14} {
		n, _ := strconv.ParseUint(f[i], 10, 64)
		p.ticks += n
		if i == 12 || i == 14 {
			p.system += n
		}
	}
	if len(f) > 21 {
		p.rss, _ = strconv.ParseInt(f[21], 10, 64)
	}
	var errs [4]error
	p.parent, errs[0] = strconv.Atoi(f[1])
	p.session, errs[1] = strconv.Atoi(f[3])
	p.threads, errs[2] = strconv.Atoi(f[17])
	p.start, errs[3] = strconv.ParseUint(f[19], 10, 64)
	return p, errs == [4]error{}
}

// processes lists all there are.
func processes() []process {
	d, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	var out []process
	for _, n := range names {
		if pid, err := strconv.Atoi(n); err == nil {
			if p, ok := readProcess(pid); ok {
				out = append(out, p)
			}
		}
	}
	return out
}

// marked reports whether the process has the marks of the allocation and, unless
// it is "", the task in its environment.
func marked(pid int, alloc, task string) bool {
	env := environ.Of(pid)
	return hasVar(env, Mark, alloc) && (task == "" || hasVar(env, TaskMark, task))
}

// hasVar reports whether an environment as in /proc, with a zero byte after
// each variable, has the variable with that value.
func hasVar(env []byte, name, value string) bool {
	want := []byte(name + "=" + value)
	for v := range bytes.SplitSeq(env, []byte{0}) {
		if bytes.Equal(v, want) {
			return true
		}
	}
	return false
}

// endsByDefault reports whether a signal ends a process unless it has a handler
// for it, and the process has none and does not ignore or block it.
func endsByDefault(pid int, sig syscall.Signal) bool {
	switch sig {
	case 0, unix.SIGKILL, unix.SIGSTOP, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGCONT, unix.SIGCHLD, unix.SIGURG, unix.SIGWINCH:
		return false
	}
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return false
	}
	return defaultIn(string(b), sig)
}

// defaultIn reports whether a /proc/PID/status says that a signal is neither
// blocked, ignored nor caught.
func defaultIn(status string, sig syscall.Signal) bool {
	if sig < 1 || sig > 64 {
		return false
	}
	seen := 0
	for line := range strings.Lines(status) {
		name, mask, _ := strings.Cut(line, ":")
		switch name {
		case "SigBlk", "SigIgn", "SigCgt":
			bits, err := strconv.ParseUint(strings.TrimSpace(mask), 16, 64)
			if err != nil || bits&(1<<(sig-1)) != 0 {
				return false
			}
			seen++
		}
	}
	return seen == 3
}

// signalProcess signals just this process: if its number has gone to another
// meanwhile, nobody.
func signalProcess(p process, sig syscall.Signal) error {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err == unix.ENOSYS {
		if now, ok := readProcess(p.pid); !ok || now.start != p.start {
			return unix.ESRCH
		}
		return unix.Kill(p.pid, sig)
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if now, ok := readProcess(p.pid); !ok || now.start != p.start {
		return unix.ESRCH
	}
	return unix.PidfdSendSignal(fd, sig, nil, 0)
}

// BootID names this run of the machine's kernel; "" if it is not known.
func BootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// lives reports whether the process that was found still lives.
func (p process) lives() bool {
	now, ok := readProcess(p.pid)
	return ok && now.start == p.start && !now.dead()
}

// endAll stops processes: asks them, waits for at most grace, kills them, and
// goes on until all that find ever found have ended. It gives up after most. A
// process that dies loses its environment first, so find does not find it any
// more while its ports and files are still open.
func endAll(find func() []process, grace, most time.Duration) error {
	begin := time.Now()
	asked := map[process]bool{} // all that were found and live
	for wait := time.Millisecond; ; wait = min(wait*2, 50*time.Millisecond) {
		for _, p := range find() {
			p = process{pid: p.pid, start: p.start} // the rest changes
			if _, known := asked[p]; !known {
				asked[p] = false
			}
		}
		maps.DeleteFunc(asked, func(p process, _ bool) bool { return !p.lives() })
		if len(asked) == 0 {
			return nil
		}
		since := time.Since(begin)
		for p, was := range asked {
			switch {
			case since > most:
				return fmt.Errorf("%d processes do not end, one of them is %d", len(asked), p.pid)
			case since >= grace:
				_ = signalProcess(p, syscall.SIGKILL)
			case !was:
				_ = signalProcess(p, syscall.SIGTERM)
				asked[p] = true
			}
		}
		time.Sleep(wait)
	}
}

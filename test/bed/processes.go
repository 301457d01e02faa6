package bed

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"berth/internal/environ"
	"berth/internal/eventually"
)

// Mounts returns the mount points below a directory, the deepest first.
func Mounts(dir string) (out []string) {
	text, _ := os.ReadFile("/proc/self/mounts")
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && strings.HasPrefix(f[1], dir+"/") {
			out = append(out, f[1])
		}
	}
	slices.Sort(out)
	slices.Reverse(out)
	return out
}

// UnmountBelow unmounts what agents that were killed left mounted: secrets of tasks
// that ran.
func UnmountBelow(dir string) error {
	var errs []error
	for _, m := range Mounts(dir) {
		errs = append(errs, syscall.Unmount(m, syscall.MNT_DETACH))
	}
	return errors.Join(errs...)
}

// Process is a process that the bed's agents or commands have started, or one
// of those themselves.
type Process struct {
	PID   int
	Alloc string // "" for agents and commands; of a supervisor the one it was started for
	Task  string // "" for agents, commands and supervisors
	Args  string
}

// String returns the process and its task, for messages.
func (p Process) String() string {
	return fmt.Sprintf("%d (%s %.8s %s)", p.PID, p.Args, p.Alloc, p.Task)
}

// Processes lists all processes of the bed.
func (b *Bed) Processes() []Process { return processes(b.Mark, b.Dir, b.Binary) }

// processes lists the processes whose mark has the given prefix, and those of
// the binary, or of one below dir, that work in dir: supervisors have no
// environment.
func processes(mark, dir, binary string) (out []Process) {
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, proc := range all {
		pid, _ := strconv.Atoi(filepath.Base(proc))
		env := environ.Of(pid)
		if !bytes.Contains(append([]byte{0}, env...), []byte("\x00"+MarkVar+"="+mark)) {
			exe, _ := os.Readlink(proc + "/exe")
			cwd, _ := os.Readlink(proc + "/cwd")
			if !strings.HasPrefix(cwd+"/", dir+"/") || exe != binary && !strings.HasPrefix(exe, dir+"/") {
				continue
			}
		}
		if p, ok := look(pid, proc, env); ok {
			out = append(out, p)
		}
	}
	return out
}

// AllProcesses lists all processes except the first and this one. Only a caller
// that is alone in a PID namespace may use it.
func AllProcesses() (out []Process) {
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, proc := range all {
		pid, _ := strconv.Atoi(filepath.Base(proc))
		env := environ.Of(pid)
		if p, ok := look(pid, proc, env); ok && p.PID != 1 && p.PID != os.Getpid() {
			out = append(out, p)
		}
	}
	return out
}

// look reads about a process. ok is false for one that has ended, reaped or not.
func look(pid int, proc string, env []byte) (p Process, ok bool) {
	p.PID = pid
	if !Alive(p.PID) {
		return p, false
	}
	args, _ := os.ReadFile(proc + "/cmdline")
	p.Args = string(bytes.TrimRight(bytes.ReplaceAll(args, []byte{0}, []byte(" ")), " "))
	for v := range strings.SplitSeq(string(env), "\x00") {
		switch name, value, _ := strings.Cut(v, "="); name {
		case "NOMAD_ALLOC_ID":
			p.Alloc = value
		case "NOMAD_TASK_NAME":
			p.Task = value
		}
	}
	if p.Task == "" {
		p.Alloc = ""
		if f := strings.Fields(p.Args); len(f) > 2 && f[0] == "/proc/self/exe" && f[1] == "supervise" {
			p.Alloc = f[2]
		}
	}
	return p, true
}

// Alive reports whether a process runs.
func Alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !bytes.Contains(stat, []byte(") Z ")) && !bytes.Contains(stat, []byte(") X "))
}

// Tasks returns the processes of tasks, by allocation.
func Tasks(all []Process) map[string][]int {
	out := map[string][]int{}
	for _, p := range all {
		if p.Task != "" {
			out[p.Alloc] = append(out[p.Alloc], p.PID)
		}
	}
	for _, pids := range out {
		slices.Sort(pids)
	}
	return out
}

// Supervisors returns the process of each allocation's supervisor, which may
// be that of others too. It is known by the control directories that it has open.
func Supervisors(all []Process) map[string]int {
	out := map[string]int{}
	for _, p := range all {
		if p.Alloc == "" || p.Task != "" {
			continue
		}
		fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", p.PID))
		for _, fd := range fds {
			to, _ := os.Readlink(fd)
			if lock, ok := strings.CutSuffix(to, "/.supervise/lock"); ok {
				out[filepath.Base(lock)] = p.PID
			}
		}
	}
	return out
}

// Cgroups lists the parents of cgroups whose names begin with a mark.
func Cgroups(mark string) (out []string) {
	for _, pattern := range []string{"/sys/fs/cgroup/", "/sys/fs/cgroup/*/"} {
		found, _ := filepath.Glob(pattern + mark + "*slice")
		out = append(out, found...)
	}
	return out
}

// RemoveCgroups removes these cgroups and all below them. A cgroup is busy
// until the kernel has finished with its last process.
func RemoveCgroups(mark string) (err error) {
	for _, top := range Cgroups(mark) {
		var dirs []string
		_ = filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return nil
		})
		for _, dir := range slices.Backward(dirs) {
			err = errors.Join(err, removeCgroup(dir))
		}
	}
	return err
}

// removeCgroup removes a cgroup, which stays busy for a moment after its last
// process has ended. One that does not exist is not an error.
func removeCgroup(dir string) (err error) {
	for end := time.Now().Add(eventually.Limit); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if err = os.Remove(dir); !errors.Is(err, syscall.EBUSY) {
			break
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

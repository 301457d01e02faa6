package real

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// process is one that a test has started, directly or not.
type process struct {
	pid   int
	alloc string // "" is none
	task  string // "" is none: an agent, a command or a supervisor
	args  string
}

func (p process) String() string {
	return fmt.Sprintf("%d (%s %.8s %s)", p.pid, p.args, p.alloc, p.task)
}

// processes lists what has the mark, and the binary in the folder. Supervisors
// get no environment: they stand in the directory of their allocation.
func processes(mark, dir string) (out []process) {
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range all {
		stat, _ := os.ReadFile(d + "/stat")
		if bytes.Contains(stat, []byte(") Z ")) {
			continue
		}
		env, _ := os.ReadFile(d + "/environ")
		args, _ := os.ReadFile(d + "/cmdline")
		exe, _ := os.Readlink(d + "/exe")
		cwd, _ := os.Readlink(d + "/cwd")
		ours := strings.Contains("\x00"+string(env), "\x00"+markVar+"="+mark)
		if !ours && (exe != program("berth") || !strings.HasPrefix(cwd, dir+"/")) && exe != filepath.Join(dir, "berth") {
			continue
		}
		p := process{args: string(bytes.TrimRight(bytes.ReplaceAll(args, []byte{0}, []byte(" ")), " "))}
		p.pid, _ = strconv.Atoi(filepath.Base(d))
		for v := range strings.SplitSeq(string(env), "\x00") {
			switch name, value, _ := strings.Cut(v, "="); name {
			case "NOMAD_ALLOC_ID":
				p.alloc = value
			case "NOMAD_TASK_NAME":
				p.task = value
			}
		}
		if p.task == "" && strings.HasPrefix(p.args, "/proc/self/exe supervise ") {
			p.alloc = strings.Fields(p.args)[2]
		}
		out = append(out, p)
	}
	return out
}

func kill(all []process) {
	for _, p := range all {
		_ = syscall.Kill(p.pid, syscall.SIGKILL)
	}
}

// cgroups lists the parents of a mark's cgroups.
func cgroups(mark string) (out []string) {
	for _, pattern := range []string{"/sys/fs/cgroup/", "/sys/fs/cgroup/*/"} {
		found, _ := filepath.Glob(pattern + mark + "*slice")
		out = append(out, found...)
	}
	return out
}

// tasks returns the processes of the test's tasks, by allocation.
func (w *world) tasks() map[string][]int {
	out := map[string][]int{}
	for _, p := range processes(w.mark, w.dir) {
		if p.task != "" {
			out[p.alloc] = append(out[p.alloc], p.pid)
		}
	}
	for _, pids := range out {
		slices.Sort(pids)
	}
	return out
}

// supervisors returns the process of the supervisor of each allocation.
func (w *world) supervisors() map[string]int {
	out := map[string]int{}
	for _, p := range processes(w.mark, w.dir) {
		if p.alloc != "" && p.task == "" {
			out[p.alloc] = p.pid
		}
	}
	return out
}

// same says how two pictures of the tasks differ, "" if they do not.
func same(was, is map[string][]int) string {
	if maps.EqualFunc(was, is, slices.Equal[[]int]) {
		return ""
	}
	return fmt.Sprintf("processes by allocation were %v and are %v", was, is)
}

// alive says whether a process runs.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !bytes.Contains(stat, []byte(") Z "))
}

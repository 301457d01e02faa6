package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"
	"time"

	"berth/internal/agent/isolate"
	"berth/internal/cpuset"
)

// setupTime bounds the making of an isolated task's file tree. A mount of the
// host that hangs is what can take long.
const setupTime = time.Minute

// fork makes the task's process.
func (p *proc) fork(st *Start) (err error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	outputs := []*os.File{null, null}
	if !st.Logs.Disabled {
		if outputs, err = p.openLogs(&st.Logs); err != nil {
			return err
		}
		defer outputs[0].Close()
		defer outputs[1].Close()
	}
	defer func() {
		if err != nil {
			if p.group != nil {
				_ = p.group.kill()
			}
			p.removeGroup()
			for _, r := range p.reads {
				_ = r.Close()
			}
		}
	}()
	limits, err := p.makeGroup(st)
	if err != nil {
		return err
	}
	std := []uintptr{null.Fd(), outputs[0].Fd(), outputs[1].Fd()}
	var pid int
	if st.Isolate != nil {
		pid, err = p.forkIsolated(st, std, limits)
	} else if err = apply(limits); err == nil {
		pid, err = p.forkPlain(st, std)
	}
	if err != nil {
		return err
	}
	// From here on the process can be found again, by its number and start
	// time.
	p.launch.PID, p.launch.Isolated = pid, st.Isolate != nil
	p.init = st.Isolate != nil && !st.Isolate.HostPID
	if p.group != nil {
		p.launch.Cgroup, p.launch.Controllers = p.group.dir, p.group.controllerDirs()
	}
	if me, ok := readProcess(pid); ok { // there even if it has ended: we have not reaped it
		p.launch.StartTime = me.start
	}
	return nil
}

// makeGroup makes the task's cgroup, if it is to have one, and returns what sets
// its limits.
func (p *proc) makeGroup(st *Start) ([]write, error) {
	if st.Cgroup != "" {
		p.group = newCgroup(st.Cgroup, p.s.state.Alloc+"."+p.launch.Task, p.s.h.cgroups, st.controllers())
	}
	// Cores are a promise to others, not a need of the task: it runs without.
	if err := p.group.setCores(st.Cores); err != nil {
		p.s.log.Warn("the task is not kept to its cores", "task", p.launch.Task, "cores", cpuset.Format(st.Cores), "error", err)
	}
	return p.group.limits(st.Limits)
}

// forkPlain starts the task's program itself.
func (p *proc) forkPlain(st *Start, std []uintptr) (int, error) {
	attr := &syscall.ProcAttr{
		Dir: st.Dir, Env: markedEnv(st.Env, p.s.state.Alloc, p.launch.Task), Files: std, Sys: &syscall.SysProcAttr{Setsid: true},
	}
	// Without a user the task runs as the agent does.
	if u := st.User; u != nil {
		attr.Sys.Credential = &syscall.Credential{Uid: u.UID, Gid: u.GID, Groups: u.Groups}
	}
	pid, err := p.s.h.fork(p.s, func() (int, error) {
		return p.group.fork(attr.Sys, func() (int, error) {
			return isolate.InNetwork(st.NetNS, func() (int, error) {
				pid, err := syscall.ForkExec(st.Command, append([]string{st.Command}, st.Args...), attr)
				if err != nil {
					err = isolate.Refused("start %q in %q: %w", st.Command, st.Dir, err)
				}
				return pid, err
			})
		})
	})
	if err != nil {
		return 0, err
	}
	if st.OOMScoreAdj != 0 {
		// Children that it has by now keep ours.
		if err := os.WriteFile("/proc/"+strconv.Itoa(pid)+"/oom_score_adj", []byte(strconv.Itoa(st.OOMScoreAdj)), 0); err != nil {
			p.s.log.Warn("oom_score_adj is not set", "task", p.launch.Task, "error", err)
		}
	}
	return pid, nil
}

// forkIsolated starts our own executable in new namespaces, where it becomes
// the task's program. It returns when that has happened, or failed. The limits
// are set then: they are the program's, and too tight for what we do before it.
func (p *proc) forkIsolated(st *Start, std []uintptr, limits []write) (pid int, err error) {
	order := isolate.Setup{Spec: st.Isolate, Command: st.Command, Args: st.Args, Env: markedEnv(st.Env, p.s.state.Alloc, p.launch.Task)}
	if u := st.User; u != nil {
		order.User = isolate.Identity{UID: u.UID, GID: u.GID, Groups: u.Groups}
	}
	order.Spec.OOMScoreAdj = st.OOMScoreAdj
	config, ours, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer ours.Close()
	status, theirs, err := os.Pipe()
	if err != nil {
		_ = config.Close()
		return 0, err
	}
	defer status.Close()
	attr := &syscall.ProcAttr{
		Dir: "/", Env: markedEnv([]string{"GOMAXPROCS=1"}, p.s.state.Alloc, p.launch.Task),
		Files: append(std, config.Fd(), theirs.Fd()),
		Sys:   &syscall.SysProcAttr{Setsid: true, Cloneflags: st.Isolate.Flags()},
	}
	args := append(append([]string(nil), os.Args[:len(os.Args)-1]...), isolate.WordSetup)
	pid, err = p.s.h.fork(p.s, func() (int, error) {
		return p.group.fork(attr.Sys, func() (int, error) { return syscall.ForkExec("/proc/self/exe", args, attr) })
	})
	_, _ = config.Close(), theirs.Close()
	if err != nil {
		return 0, fmt.Errorf("start %q in namespaces of its own: %w", st.Command, err)
	}
	end := time.Now().Add(setupTime)
	_, _ = ours.SetWriteDeadline(end), status.SetReadDeadline(end)
	err = json.NewEncoder(ours).Encode(&order)
	_ = ours.Close()
	// The status pipe is closed by exec, without a word.
	word, readErr := io.ReadAll(io.LimitReader(status, 64<<10))
	if len(word) > 0 {
		var r isolate.Result
		err = json.Unmarshal(word, &r)
		err = errors.Join(err, r.Error())
	} else if readErr != nil {
		err = fmt.Errorf("start %q in namespaces of its own: %w", st.Command, readErr)
	}
	if err == nil {
		err = apply(limits)
	}
	if err != nil {
		p.s.h.discard(pid)
		return 0, err
	}
	return pid, nil
}

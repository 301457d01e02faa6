package supervise

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"berth"
	"berth/internal/agent/logs"
	"berth/internal/failpoint"
)

// proc is a launch that has not ended. The server's mu guards it.
type proc struct {
	s      *server
	launch Launch         // as it was when it started
	group  *cgroup        // nil if it has none
	pipes  sync.WaitGroup // those that copy its output
	reads  []*os.File     // the pipes' ends that they read
	reaped bool           // its number may be another's now
	kill   *time.Timer    // set while it is being stopped
	killAt time.Time      // when kill fires
	done   chan struct{}  // closed when its exit is in the state

	killSignal  syscall.Signal // how it is stopped when the lease is over
	killTimeout time.Duration
	cutOff      bool // the lease was over

	init    bool           // it is the first process of a PID namespace
	instead syscall.Signal // what it was killed in place of, see send; 0 if it was not
}

// start starts a launch, or says how it goes if it was started before. The
// caller holds mu.
func (s *server) start(req *request) (*Launch, error) {
	if l := s.state.find(req.Task, req.Launch); l != nil {
		c := *l
		return &c, nil
	}
	if s.ending {
		return nil, berth.Errorf(berth.Unavailable, "the supervisor ends")
	}
	if req.Launch <= s.gone[req.Task] {
		return nil, berth.Errorf(berth.Conflict, "launch %d of task %q was given up before it started", req.Launch, req.Task)
	}
	if p := s.live[req.Task]; p != nil {
		return nil, berth.Errorf(berth.Conflict, "launch %d of task %q still runs", p.launch.Number, req.Task)
	}
	if l := s.state.find(req.Task, 0); l != nil && l.Number > req.Launch {
		return nil, berth.Errorf(berth.Conflict, "launch %d of task %q is older than the last, %d", req.Launch, req.Task, l.Number)
	}
	if req.Start.Until != 0 {
		if err := s.extend(req.Start.Until); err != nil {
			return nil, err
		}
	}
	if s.leaseOver() {
		return nil, errLeaseOver(req.Task)
	}
	before := slices.Clone(s.state.Launches)
	// A later launch says that the agent knows how the earlier ended.
	s.state.Launches = slices.DeleteFunc(s.state.Launches, func(l Launch) bool { return l.Task == req.Task })
	p := &proc{s: s, launch: Launch{Task: req.Task, Number: req.Launch, StartedAt: time.Now()}, done: make(chan struct{})}
	p.keepStopping(req.Start)
	s.used = true
	// Written first: an agent that finds this launch after we were killed in
	// between looks for its process by its marks.
	s.state.Launches = append(s.state.Launches, p.launch)
	err := s.save()
	if err == nil {
		err = failpoint.Hit("supervise/start")
	}
	if err == nil {
		s.h.count(1)
		if err = p.fork(req.Start); err != nil {
			s.h.count(-1)
		}
	}
	if err != nil {
		s.state.Launches = before
		_ = s.save()
		return nil, err
	}
	s.live[req.Task] = p
	*s.state.find(req.Task, req.Launch) = p.launch
	_ = s.save()
	s.stopIfLeaseOver() // the timer may have fired before it was live
	l := p.launch
	return &l, nil
}

// markedEnv makes sure that the marks are there and are ours.
func markedEnv(env []string, alloc, task string) []string {
	out := make([]string, 0, len(env)+2)
	for _, v := range env {
		if name, _, _ := strings.Cut(v, "="); name != Mark && name != TaskMark {
			out = append(out, v)
		}
	}
	return append(out, Mark+"="+alloc, TaskMark+"="+task)
}

// openLogs makes a pipe for each stream, and copies what comes through it to
// the log's files. A disk that is slow makes the task wait.
func (p *proc) openLogs(l *Logs) (writes []*os.File, err error) {
	dir, err := p.s.alloc.Sub(logs.Dir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = dir.Close()
			for _, f := range append(writes, p.reads...) {
				_ = f.Close()
			}
		}
	}()
	// The task writes to pipes, and we to files, so that files can be rotated.
	var writers []*logs.Writer
	for _, stream := range []string{logs.Stdout, logs.Stderr} {
		w, err := logs.NewWriter(dir, p.launch.Task, stream, l.MaxFiles, l.MaxSize)
		if err != nil {
			return writes, err
		}
		writers = append(writers, w)
		in, out, err := os.Pipe()
		if err != nil {
			return writes, err
		}
		p.reads, writes = append(p.reads, in), append(writes, out)
	}
	// Copying goes on until every process that inherited a pipe has closed it.
	var open sync.WaitGroup
	for i, in := range p.reads {
		open.Add(1)
		p.pipes.Go(func() {
			defer open.Done()
			_, _ = io.Copy(slow{writers[i]}, in)
			_ = writers[i].Close()
			_ = in.Close()
		})
	}
	go func() { // as long as the two above
		open.Wait()
		_ = dir.Close()
	}()
	return writes, nil
}

// slow is a writer that a test can make slow.
type slow struct{ w io.Writer }

// Write passes on to the log. Tests make it slow at the fault point.
func (s slow) Write(b []byte) (int, error) {
	_ = failpoint.Hit("supervise/log-write")
	return s.w.Write(b)
}

// signal sends the signal to the task's first process alone. After it is reaped
// its number may be another's: that is a Conflict. The caller holds mu.
func (p *proc) signal(sig syscall.Signal) error {
	if p.reaped {
		return berth.Errorf(berth.Conflict, "task %q has ended", p.launch.Task)
	}
	return p.send(sig)
}

// send sends the signal to the task's first process. The first process of a PID
// namespace gets only what it has a handler for: what would end any other
// process ends it by our hand. The caller holds mu.
func (p *proc) send(sig syscall.Signal) error {
	if p.init && endsByDefault(p.launch.PID, sig) {
		p.instead = sig
		sig = unix.SIGKILL
	}
	return unix.Kill(p.launch.PID, sig)
}

// stop asks the task to end and kills it after the timeout. A second stop can
// only bring the end forward. The caller holds mu.
func (p *proc) stop(sig syscall.Signal, timeout time.Duration) {
	if p.reaped {
		return
	}
	at := time.Now().Add(timeout)
	if p.kill != nil && !at.Before(p.killAt) {
		return
	}
	_ = p.send(sig)
	if p.kill != nil {
		p.kill.Stop()
	}
	p.killAt = at
	p.kill = time.AfterFunc(timeout, func() {
		p.s.mu.Lock()
		defer p.s.mu.Unlock()
		if !p.reaped {
			// The rest of the task follows in ended.
			_ = unix.Kill(-p.launch.PID, unix.SIGKILL)
		}
	})
}

// ended is called when the task's own process was reaped. What else there is
// of the task ends now too; then the exit can be told.
func (p *proc) ended(status unix.WaitStatus) {
	p.reaped = true
	if p.kill != nil {
		p.kill.Stop()
	}
	exit := &Exit{At: time.Now(), CutOff: p.cutOff}
	switch {
	case status.Exited():
		exit.Code = status.ExitStatus()
	case status.Signaled():
		exit.Signal = int(status.Signal())
		if status.Signal() == unix.SIGKILL && p.instead != 0 {
			exit.Signal = int(p.instead)
		}
		exit.Code = 128 + exit.Signal
	default:
		exit.Err = fmt.Sprintf("ended with status %#x", uint32(status))
	}
	go p.finish(exit) // its end is what run waits for: until then p is live
}

// finish kills what the first process has left behind, waits until its output
// is written, and only then makes the exit known. Nothing of the task runs when
// waiters learn of it.
func (p *proc) finish(exit *Exit) {
	_ = failpoint.Hit("supervise/finish")
	if p.group != nil {
		if err := p.group.kill(); err != nil {
			p.s.log.Warn("cannot kill a task's cgroup", "task", p.launch.Task, "error", err)
		}
	}
	if err := endAll(p.rest, 0, 10*time.Second); err != nil {
		p.s.log.Warn("cannot kill all of a task", "task", p.launch.Task, "error", err)
	}
	exit.OOMKilled = !exit.Success() && p.group.oomKilled()
	// Before the exit is told: the task's next launch has a group of this name.
	p.removeGroup()
	drained := make(chan struct{})
	go func() { // ends at the latest when the pipes are closed below
		p.pipes.Wait()
		close(drained)
	}()
	// A process that hid from us may hold a pipe open.
	timer := time.NewTimer(drainTime)
	select {
	case <-drained:
	case <-timer.C:
		for _, r := range p.reads {
			_ = r.SetReadDeadline(time.Now())
		}
		<-drained
	}
	timer.Stop()

	p.s.h.count(-1)
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	delete(p.s.live, p.launch.Task)
	if l := p.s.state.find(p.launch.Task, p.launch.Number); l != nil {
		l.Exit = exit
	}
	_ = p.s.save()
	close(p.done)
	p.s.endIfIdle()
}

// removeGroup removes the task's cgroup, if it has one. A failure leaves an
// empty directory behind and is only logged.
func (p *proc) removeGroup() {
	if p.group == nil {
		return
	}
	if err := p.group.remove(); err != nil {
		p.s.log.Warn("cannot remove a task's cgroup", "task", p.launch.Task, "error", err)
	}
}

// rest finds processes of the task that are not its first: those in its
// session, those that bear its marks, and, if no other task runs, every child
// of ours.
func (p *proc) rest() (out []process) {
	me := os.Getpid()
	var left []process // children of ours that say nothing of whose they are
	for _, q := range processes() {
		switch {
		case q.dead() || q.pid == me || q.pid == p.launch.PID:
		case q.session == p.launch.PID && q.start >= p.launch.StartTime, marked(q.pid, p.s.state.Alloc, p.launch.Task):
			out = append(out, q)
		case q.parent == me:
			left = append(left, q)
		}
	}
	// Asked after the look: a task that was started meanwhile is known now.
	if p.s.h.alone() {
		out = append(out, left...)
	}
	return out
}

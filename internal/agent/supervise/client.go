package supervise

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"berth"
	"berth/internal/failpoint"
	"berth/internal/saferoot"
)

// callTime bounds a call that does not wait for a task.
const callTime = 10 * time.Second

// Dir is an allocation's supervisor as the agent sees it: its control
// directory. It is safe for concurrent use.
type Dir struct {
	alloc   string         // ID of the allocation
	command []string       // of a supervisor, without the allocation's ID
	control *saferoot.Root // the control directory in the allocation's

	pool     *Pool      // nil: it has a process of its own
	spawning sync.Mutex // one supervisor at a time
}

// OpenDir opens the control directory in an allocation's directory, and makes
// it if need be. command runs a supervisor when the allocation's ID is added;
// nil is this executable with the argument supervise.
func OpenDir(allocDir *saferoot.Root, alloc string, command []string) (*Dir, error) {
	if len(command) == 0 {
		// By this name it is found even when another release was installed
		// over it.
		command = []string{"/proc/self/exe", "supervise"}
	}
	if err := allocDir.Mkdir(ControlDir, 0o700); err != nil {
		return nil, err
	}
	control, err := allocDir.Sub(ControlDir)
	if err != nil {
		return nil, err
	}
	return &Dir{alloc: alloc, command: command, control: control}, nil
}

// Close lets go of the directory, and of nothing else.
func (d *Dir) Close() error { return d.control.Close() }

// Start starts a launch of a task, and a supervisor if there is none. To
// repeat it is harmless. An error of kind Invalid says that the command cannot
// be run; after any error but Unavailable nothing of the launch runs.
func (d *Dir) Start(ctx context.Context, task string, number uint64, st Start) (*Launch, error) {
	if err := st.check(); err != nil {
		return nil, err
	}
	req := request{Call: callStart, Task: task, Launch: number, Start: &st}
	if st.Isolate != nil {
		req.Call = callIsolate
	}
	for end := time.Now().Add(callTime); ; { // one may end while we call it
		if err := d.ensure(ctx); err != nil {
			return nil, err
		}
		resp, err := d.call(ctx, req)
		if err == nil {
			return resp.Launch, nil
		}
		if berth.KindOf(err) != berth.Unavailable || ctx.Err() != nil || time.Now().After(end) {
			return nil, err
		}
	}
}

// Find returns the state of a launch; number 0 is the task's newest. After
// ErrUnknown the numbered launch never starts, even if a request to start it is
// still under way. After ErrLost and ErrReboot
// nothing of the task runs; what was left of it had at most grace to end by
// itself. After any other error the launch may be running: ask again.
func (d *Dir) Find(ctx context.Context, task string, number uint64, grace time.Duration) (*Launch, error) {
	for {
		resp, err := d.call(ctx, request{Call: callHello, Task: task, Launch: number})
		if err == nil {
			st := state{Launches: resp.Launches}
			if l := st.find(task, number); l != nil {
				return l, nil
			}
			// A supervisor that was made for another task knows nothing of one
			// whose own was killed before.
			return nil, d.sweep(task, grace)
		}
		if ctx.Err() != nil {
			return nil, err
		}
		lock, lockErr := takeLock(d.control)
		if lockErr == nil { // dead, and none comes while we look
			defer lock.Close()
			return d.findDead(task, number, grace)
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(err, lockErr)
		case <-time.After(20 * time.Millisecond): // it starts, or ends
		}
	}
}

// findDead looks for a launch in what a supervisor that no longer runs has
// left. It returns the launch only with its exit; otherwise it ends what is
// left of the task within grace, and the error tells what became of it.
func (d *Dir) findDead(task string, number uint64, grace time.Duration) (*Launch, error) {
	st, err := readState(d.control)
	if err != nil {
		// What it knew is gone. The marks still tell whether anything runs.
		if e := d.sweep(task, grace); e != ErrUnknown {
			return nil, e
		}
		return nil, fmt.Errorf("%w: %w", ErrLost, err)
	}
	l := st.find(task, number)
	if l != nil && l.Exit != nil {
		return l, nil
	}
	if st.Boot != "" && st.Boot != BootID() {
		if l == nil {
			return nil, ErrUnknown
		}
		return nil, ErrReboot
	}
	if l == nil {
		return nil, d.sweep(task, grace)
	}
	return nil, d.endOrphans(*l, grace)
}

// sweep stops what bears the marks of a task of which nothing is recorded. It
// returns ErrUnknown if there was nothing, else ErrLost.
func (d *Dir) sweep(task string, grace time.Duration) error {
	find := d.orphans(Launch{Task: task})
	if len(find()) == 0 {
		return ErrUnknown
	}
	if err := endAll(find, grace, grace+10*time.Second); err != nil {
		return fmt.Errorf("%w, and %w", ErrLost, err)
	}
	return ErrLost
}

// endOrphans stops what is left of a launch whose supervisor is dead.
func (d *Dir) endOrphans(l Launch, grace time.Duration) error {
	err := endAll(d.orphans(l), grace, grace+10*time.Second)
	if err != nil {
		return fmt.Errorf("%w, and %w", ErrLost, err)
	}
	for _, dir := range append([]string{l.Cgroup}, l.Controllers...) {
		if d.owns(dir) {
			_ = (&cgroup{dir: dir}).remove() // one that stays is empty, and keeps nobody
		}
	}
	return ErrLost
}

// owns reports whether a recorded cgroup is one of the allocation's.
func (d *Dir) owns(cgroup string) bool { return strings.Contains(cgroup, d.alloc) }

// orphans finds the processes of a launch, orphaned or not, by its cgroup, its
// session and the marks in their environment. Task "" is every task of the
// allocation.
func (d *Dir) orphans(l Launch) func() []process {
	return func() (out []process) {
		inGroup := map[int]bool{}
		if d.owns(l.Cgroup) {
			for _, pid := range (&cgroup{dir: l.Cgroup}).pids() {
				inGroup[pid] = true
			}
		}
		for _, p := range processes() {
			// The session is named by the first process's number, which is not
			// given to another while the session has members; that they are
			// not older makes sure.
			session := l.PID != 0 && l.StartTime != 0 && p.session == l.PID && p.start >= l.StartTime
			if !p.dead() && (inGroup[p.pid] || session || marked(p.pid, d.alloc, l.Task)) {
				out = append(out, p)
			}
		}
		return out
	}
}

// Wait returns when the launch has ended, or with an error of [Dir.Find].
func (d *Dir) Wait(ctx context.Context, task string, number uint64, grace time.Duration) (*Exit, error) {
	for {
		resp, err := d.call(ctx, request{Call: callWait, Task: task, Launch: number})
		if err == nil && resp.Launch != nil && resp.Launch.Exit != nil {
			return resp.Launch.Exit, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err == nil {
			err = errors.New("the supervisor answers a wait without an exit")
		}
		l, findErr := d.Find(ctx, task, number, grace)
		if findErr != nil {
			return nil, findErr
		}
		if l.Exit != nil {
			return l.Exit, nil
		}
		select { // it lives and the task runs: the connection broke
		case <-ctx.Done():
			return nil, errors.Join(err, ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Signal signals a launch's first process.
func (d *Dir) Signal(ctx context.Context, task string, number uint64, sig syscall.Signal) error {
	_, err := d.call(ctx, request{Call: callSignal, Task: task, Launch: number, Signal: int(sig)})
	return err
}

// Stop asks a launch to end by sig, and has it killed with all its processes
// after the timeout. The supervisor sees to it even if the agent is gone by
// then. A launch that has ended is no error.
func (d *Dir) Stop(ctx context.Context, task string, number uint64, sig syscall.Signal, timeout time.Duration) error {
	_, err := d.call(ctx, request{Call: callStop, Task: task, Launch: number, Signal: int(sig), Timeout: timeout})
	if err == nil {
		return nil
	}
	l, findErr := d.Find(ctx, task, number, timeout)
	if findErr != nil && ctx.Err() != nil || findErr == nil && l.Exit == nil {
		return err
	}
	return nil // it has ended, or Find has seen to it
}

// Extend sets until when the allocation's tasks may run without another call of
// Extend; the zero time is without limit. After that the supervisor stops them,
// and starts none. It is Unavailable if no supervisor runs, and starts none.
func (d *Dir) Extend(ctx context.Context, until time.Time) error {
	_, err := d.call(ctx, request{Call: callExtend, Until: BootTime(until)})
	return err
}

// Release tells the supervisor that the exit of a launch is recorded. With
// nothing else to do, it ends.
func (d *Dir) Release(ctx context.Context, task string, number uint64) error {
	_, err := d.call(ctx, request{Call: callRelease, Task: task, Launch: number})
	if errors.Is(err, ErrUnknown) || !d.Alive() {
		return nil
	}
	return err
}

// Alive reports whether there is a supervisor.
func (d *Dir) Alive() bool {
	lock, err := takeLock(d.control)
	if err == nil {
		_ = lock.Close()
	}
	return err != nil
}

// StopIfIdle stops a supervisor that was never given a task: the one it was
// started for is not wanted any more. Any other ends by itself.
func (d *Dir) StopIfIdle(ctx context.Context) {
	if resp, err := d.call(ctx, request{Call: callHello}); err == nil && len(resp.Launches) == 0 {
		_, _ = d.call(ctx, request{Call: callEnd}) // without, it gives up by itself after a while
	}
}

// EndAll stops every task of the allocation and what is left of any, and
// returns when nothing runs. It is for allocations of which nothing else is
// known.
func (d *Dir) EndAll(ctx context.Context, grace time.Duration) error {
	for {
		// Errors of calls mean that the supervisor ends, or was killed: then the
		// lock is free soon, and what it left is ended below.
		resp, err := d.call(ctx, request{Call: callHello})
		if err == nil {
			for _, l := range resp.Launches {
				_ = d.Stop(ctx, l.Task, l.Number, syscall.SIGTERM, grace)
			}
			for _, l := range resp.Launches {
				_, _ = d.Wait(ctx, l.Task, l.Number, grace)
			}
			_, _ = d.call(ctx, request{Call: callEnd})
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if lock, err := takeLock(d.control); err == nil {
			defer lock.Close()
			if st, err := readState(d.control); err == nil && st.Boot == BootID() {
				for _, l := range st.Launches {
					if l.Exit == nil {
						if err := d.endOrphans(l, grace); err != ErrLost { // not wrapped: all of it ended
							return err
						}
					}
				}
			}
			return endAll(d.orphans(Launch{}), grace, grace+10*time.Second)
		}
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// call makes one call. A supervisor that is not there is Unavailable.
func (d *Dir) call(ctx context.Context, req request) (*response, error) {
	if err := failpoint.Hit("supervise/call"); err != nil {
		return nil, err
	}
	req.V = version
	dialer := net.Dialer{Timeout: callTime}
	// The path of an allocation's directory may be longer than the address of
	// a socket can be; the open directory's is not.
	conn, err := dialer.DialContext(ctx, "unix", d.control.ProcPath()+"/"+fileSocket)
	if err != nil {
		return nil, berth.Errorf(berth.Unavailable, "supervisor of allocation %s: %w", d.alloc, err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	// A wait takes as long as the task; everything else is answered at once, but
	// an isolated task's file tree has to be built first.
	switch req.Call {
	case callWait:
	case callIsolate:
		_ = conn.SetDeadline(time.Now().Add(setupTime + callTime))
	default:
		_ = conn.SetDeadline(time.Now().Add(callTime))
	}
	if err := writeFrame(conn, &req); err != nil {
		if berth.KindOf(err) != "" {
			return nil, err
		}
		return nil, berth.Errorf(berth.Unavailable, "supervisor of allocation %s: %w", d.alloc, err)
	}
	var resp response
	if err := readFrame(conn, &resp); err != nil {
		return nil, berth.Errorf(berth.Unavailable, "supervisor of allocation %s: %w", d.alloc, err)
	}
	err = resp.err()
	if berth.KindOf(err) == berth.NotFound {
		err = fmt.Errorf("%w: task %q, launch %d", ErrUnknown, req.Task, req.Launch)
	}
	return &resp, err
}

// ensure returns when a supervisor listens.
func (d *Dir) ensure(ctx context.Context) error {
	d.spawning.Lock()
	defer d.spawning.Unlock()
	if _, err := d.call(ctx, request{Call: callHello}); err == nil {
		return nil
	}
	return d.spawn() // which waits for one that ends, and makes way for one that starts
}

// handedOn are the variables of the agent's environment that a supervisor gets:
// those by which tests say how a build for tests behaves. Tasks get them not.
var handedOn = []string{failpoint.Env, "GORACE"}

// spawn has a supervisor listen: one of the pool, or one that is started for it.
func (d *Dir) spawn() error {
	Reap()
	if d.pool != nil {
		return d.pool.place(d)
	}
	ready, _, err := d.begin(false)
	if err != nil {
		return err
	}
	return listens(ready)
}

// begin starts a supervisor. It writes to the pipe when it listens, or why it
// does not. One that is shared takes offers.
func (d *Dir) begin(share bool) (ready *os.File, h *shared, err error) {
	ready, theirs, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	files := []*os.File{nil, nil, nil, theirs}
	defer func() {
		for _, f := range files {
			_ = f.Close()
		}
		if err != nil {
			_ = ready.Close()
			if h != nil {
				_ = h.offers.Close()
			}
		}
	}()
	if files[0], err = os.OpenFile(os.DevNull, os.O_RDWR, 0); err != nil {
		return nil, nil, err
	}
	files[1] = files[0]
	// Its log begins with each supervisor, so it cannot grow over restarts.
	if files[2], err = d.control.OpenFile(fileLog, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600); err != nil {
		return nil, nil, err
	}
	if share {
		ours, far, err := offersPair()
		if err != nil {
			return nil, nil, err
		}
		h, files = &shared{ours}, append(files, far)
	}
	// Nothing else of the agent's environment: it may hold secrets.
	var env []string
	for _, name := range handedOn {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	p, err := os.StartProcess(d.command[0], append(append([]string(nil), d.command...), d.alloc), &os.ProcAttr{
		Dir:   d.control.ProcPath(),
		Env:   append(env, "GOMAXPROCS=2"),
		Files: files,
		Sys:   &syscall.SysProcAttr{Setsid: true}, // a terminal's signals are not for it
	})
	if err != nil {
		return nil, h, fmt.Errorf("start a supervisor: %w", err)
	}
	// It is not waited for. Reap collects it when it has ended.
	children.add(p.Pid)
	_ = p.Release()
	return ready, h, nil
}

// children are the supervisors that this process has started: it has to take
// their statuses, but nobody waits for them.
var children childList

// childList is the supervisors that this process started and must reap.
type childList struct {
	mu   sync.Mutex
	pids []int
}

// add notes a supervisor that was just started.
func (c *childList) add(pid int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pids = append(c.pids, pid)
}

// Reap clears away supervisors of this process that have ended. An agent calls
// it now and then.
func Reap() {
	children.mu.Lock()
	defer children.mu.Unlock()
	kept := children.pids[:0]
	for _, pid := range children.pids {
		if got, err := unix.Wait4(pid, nil, unix.WNOHANG, nil); err == nil && got == 0 || err == unix.EINTR {
			kept = append(kept, pid)
		}
	}
	children.pids = kept
}

// Exists reports whether an allocation's directory has a control directory.
func Exists(allocDir *saferoot.Root) bool {
	st, err := allocDir.Lstat(ControlDir)
	return err == nil && st.IsDir() || err != nil && !errors.Is(err, fs.ErrNotExist)
}

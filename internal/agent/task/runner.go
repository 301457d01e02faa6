package task

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"reflect"
	"sync"
	"time"

	"berth"
	"berth/internal/agent/driver"
	"berth/internal/agent/supervise"
	"berth/internal/failpoint"
	"berth/internal/saferoot"
	"berth/op"
)

// Config is what a Runner needs. All of it is set but where said.
type Config struct {
	Name   string
	Driver driver.Driver // nil if the agent has none of the name that the task asks for

	AllocDir   *saferoot.Root // the allocation's directory
	Supervisor *supervise.Dir // of the allocation
	Place      func() *Place  // what the node offers now

	Restored  []byte          // what Save was last given, nil for a new task
	Adopt     bool            // of a new task: something of it may run already
	Contacted <-chan struct{} // closed when servers were contacted; before, a restored task is not started
	// May reports whether the task may be started now; if not, the channel is
	// closed when to ask again. nil is at once.
	May func() (ok bool, changed <-chan struct{})
	// Over is closed when a task that is dead will not be started again; nil is
	// as soon as it is dead.
	Over <-chan struct{}
	// Network makes the network of the task's allocation, unless it is there, and
	// returns it with the allocation's own address; nil for the host's network.
	// nil stands for a Network that returns that.
	Network func(context.Context) (*driver.Network, *berth.AllocNetworkStatus, error)

	// Disk gives the task's allocation the data of the one that it replaces, unless
	// it has it, and tells what is waited for. nil: there is none.
	Disk func(ctx context.Context, tell func(typ, message string)) error

	// Volumes mounts the CSI volumes of the task's allocation, unless they are, and
	// returns their directories by the name of the volume block. nil: there are none.
	Volumes func(ctx context.Context, tell func(string)) (map[string]string, error)
	Plugins Plugins // nil: a task cannot be a CSI plugin

	// RunUntil returns until when the task may run without contact to servers;
	// the zero time, as well as a nil function, is without limit.
	RunUntil func() time.Time

	Sign Signer // nil: no servers sign identities
	// API serves the HTTP API to the task until the listener is closed; nil: there
	// is no socket for it.
	API     func(net.Listener)
	Reserve Reserver // of devices; nil: there are none
	Inputs  Inputs   // of templates, artifacts and secrets
	// Turn is told whether the task, which runs in a launch, wants to restart in the
	// turn of its allocation, which then restarts it. It may be told the same again.
	// nil: the task restarts at once.
	Turn func(launch uint64, wanted bool)

	Save    func(state []byte) error // records the state; returns when it is safe
	Changed func()                   // called after each change and action; must not block
	Chance  func() float64           // from 0 up to 1
	Log     *slog.Logger
}

// Runner runs one task. Its Run owns the task; the other methods may be called
// from anywhere, also before and after.
type Runner struct {
	c Config

	mu     sync.Mutex
	alloc  *op.Alloc     // the newest version; the task runs by the one it was started with
	state  State         // as it was last decided; may not be recorded yet
	inbox  []Event       // what Run has yet to deal with, oldest first
	handle driver.Handle // of the newest launch; nil before it is started or found
	over   chan struct{} // closed when that launch has ended
	saved  bool          // the state is recorded
	api    net.Listener  // the socket of the Task API; nil while there is none

	wake chan struct{} // has one element when inbox has any
}

// New returns a Runner of a task of the allocation.
func New(c Config, a *op.Alloc) *Runner {
	r := &Runner{c: c, alloc: a, wake: make(chan struct{}, 1)}
	if c.Restored != nil {
		if err := json.Unmarshal(c.Restored, &r.state); err != nil {
			// Its checksum was right, so another release wrote it. The task is
			// taken for new, and what runs of it for ours.
			c.Log.Warn("what is recorded of a task cannot be read", "alloc", a.ID, "task", c.Name, "error", err)
			r.state, r.c.Restored, r.c.Adopt = State{}, nil, true
		}
	}
	if r.state.Task.State == "" {
		r.state.Task.State = berth.TaskPending
	}
	// The first event, whatever is ordered before Run: an order to end must
	// find out first whether anything runs.
	if r.c.Restored == nil {
		r.post(Begin{Adopt: r.c.Adopt})
	} else {
		r.post(Restore{})
	}
	return r
}

// State returns how the task stands.
func (r *Runner) State() State {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state
}

// Unrecorded reports whether the state is not recorded: not yet, or because the
// disk does not take it.
func (r *Runner) Unrecorded() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.saved
}

// spec returns the words of the newest version that matter to Step.
func (r *Runner) spec() (*op.Alloc, *berth.Task, *Spec) {
	r.mu.Lock()
	a := r.alloc
	r.mu.Unlock()
	g := a.Job.Group(a.TaskGroup)
	t, kind := g.Task(r.c.Name), a.Job.Type
	if g.Once != "" {
		kind = berth.TypeBatch // it runs to its end in a service as well
	}
	return a, t, &Spec{
		JobType: kind, Once: t.Lifecycle != nil && !t.Sidecar(), Sidecar: t.Sidecar(), Restart: *t.RestartPolicy, KillSignal: t.KillSignal, KillTimeout: r.c.Place().killTimeout(t), ShutdownDelay: t.ShutdownDelay, Window: windowOf(t),
	}
}

// Run runs the task until it is dead and [Config].Over, and then returns nil; or
// until ctx ends, and leaves the task as it is for the next Run of it.
func (r *Runner) Run(ctx context.Context) error {
	l := &loop{Runner: r}
	defer l.end()
	l.ctx, l.detach = context.WithCancelCause(context.WithoutCancel(ctx))
	for {
		// What has happened so far is dealt with before anything is waited for.
		for _, e := range r.take() {
			l.step(e)
		}
		over := closed
		if r.c.Over != nil {
			over = r.c.Over
		}
		if r.State().Phase != Dead || r.Unrecorded() {
			over = nil
		}
		select {
		case <-over:
			// The release may wait for a supervisor that does not answer. That
			// must not keep the agent from ending.
			stop := context.AfterFunc(ctx, func() { l.detach(driver.ErrDetach) })
			defer stop()
			l.wait.Wait()
			return nil
		default:
		}
		select {
		case <-over:
		case <-r.wake:
		case <-l.alarm():
			r.post(Alarm{})
		case <-l.retry():
			l.save()
		case <-l.window():
			r.post(Schedule{})
		case <-l.renewal():
			l.renewing = true
			l.background(l.renew)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// closed is a channel that is.
var closed = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// loop is one Run.
type loop struct {
	*Runner
	ctx    context.Context // of what is under way; ends with driver.ErrDetach
	detach context.CancelCauseFunc
	wait   sync.WaitGroup

	cancel context.CancelFunc // lets go of preparing or starting
	due    time.Time          // of the alarm; zero for none
	out    *driver.Task       // what the hooks made
	owed   []DoRelease        // put off until the state is recorded

	renewing   bool      // identities are being signed again
	renewAfter time.Time // not earlier, because it failed
}

// end lets go of what is under way. The task itself goes on.
func (l *loop) end() {
	l.detach(driver.ErrDetach)
	l.wait.Wait()
	l.closeAPI()
}

// alarm returns a channel that fires when the alarm is due. It is nil, which
// never fires, when no alarm is set.
func (l *loop) alarm() <-chan time.Time {
	if l.due.IsZero() {
		return nil
	}
	return time.After(time.Until(l.due))
}

// retry tries again to record the state that the disk did not take.
func (l *loop) retry() <-chan time.Time {
	if !l.Unrecorded() {
		return nil
	}
	return time.After(time.Second)
}

// step takes an event: decide, record, act. An event that means nothing costs
// nothing: it is not recorded.
func (l *loop) step(e Event) {
	_, _, spec := l.spec()
	before := l.State()
	next, do := Step(spec, before, e, time.Now(), l.c.Chance())
	// An alarm fires once. Step asks for another if the time is not over.
	if _, ok := e.(Alarm); ok {
		l.due = time.Time{}
	}
	if r, ok := e.(Renewed); ok && r.Renewal {
		l.renewing = false
		if r.Failed {
			l.renewAfter = time.Now().Add(longSignPause)
		}
	}
	if l.saved && len(do) == 0 && reflect.DeepEqual(before, next) {
		return // there is nothing to record, do or tell
	}
	l.mu.Lock()
	l.state = next
	l.mu.Unlock()
	err := l.save()
	_ = failpoint.Hit("task/recorded")
	for _, a := range do {
		if err == nil || !l.putOff(a, err) {
			l.do(a)
		}
	}
	l.c.Changed()
}

// putOff reports whether an action has to wait until the disk takes the state, which
// it did not because of why.
func (l *loop) putOff(a Action, why error) bool {
	switch a := a.(type) {
	case DoStart: // done now, it could be done twice
		l.post(StartFailed{Why: "the agent cannot record the start of launch: " + why.Error(), Recoverable: true})
		l.c.Log.Warn("a start is put off", "task", l.c.Name, "launch", a.Launch, "error", why)
	case DoRelease: // an exit that is neither recorded nor kept by the driver would be lost with the agent
		l.owed = append(l.owed, a)
	default:
		return false
	}
	return true
}

// save records the state, notes whether that worked, and does what was put off
// until it does. It logs the first failure of a series only: retry calls it every
// second.
func (l *loop) save() error {
	b, err := json.Marshal(l.State())
	if err == nil {
		err = l.c.Save(b)
	}
	l.mu.Lock()
	first := err != nil && l.saved
	l.saved = err == nil
	l.mu.Unlock()
	if first {
		l.c.Log.Warn("the state of a task cannot be recorded; trying again", "task", l.c.Name, "error", err)
	}
	for err == nil && len(l.owed) > 0 {
		l.do(l.owed[0])
		l.owed = l.owed[1:]
	}
	return err
}

// do begins what is to be done. Nothing here blocks the loop.
func (l *loop) do(a Action) {
	switch a := a.(type) {
	case DoAlarm:
		l.due = a.At
	case DoCancel:
		if l.cancel != nil {
			l.cancel()
		}
	case DoLook:
		l.background(l.look)
	case DoPrepare:
		l.cancelable(l.prepare)
	case DoStart:
		l.cancelable(func(ctx context.Context) { l.start(ctx, a.Launch) })
	case DoWait:
		// The handle is taken now: the loop may have another when the function
		// runs.
		h := l.current()
		l.background(func(ctx context.Context) { l.await(ctx, h) })
		l.watchTemplates()
	case DoStop:
		// A restored task may be ordered to end before it is found. Found says
		// it again then.
		if h := l.current(); h != nil {
			l.background(func(ctx context.Context) { l.stop(ctx, h, a) })
		}
	case DoSignal:
		h := l.current()
		if h == nil {
			l.c.Log.Warn("a task cannot be signalled before it is found again", "task", l.c.Name, "signal", a.Signal)
			return
		}
		l.background(func(ctx context.Context) {
			if err := h.Signal(ctx, a.Signal); err != nil {
				l.c.Log.Warn("a task cannot be signalled", "task", l.c.Name, "signal", a.Signal, "error", err)
			}
		})
	case DoRelease:
		h := l.current()
		l.background(func(ctx context.Context) { l.release(ctx, h, a.Launch) })
	}
}

// current returns the handle of the newest launch, nil before one was started
// or found.
func (l *loop) current() driver.Handle {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.handle
}

// background runs f beside the loop. Its context ends when Run returns, and Run
// waits for it.
func (l *loop) background(f func(context.Context)) {
	l.wait.Go(func() { f(l.ctx) })
}

// cancelable is background for what DoCancel may interrupt. Only one such
// function runs at a time: Step asks for the next after the answer to the last.
func (l *loop) cancelable(f func(context.Context)) {
	ctx, cancel := context.WithCancel(l.ctx)
	l.cancel = cancel
	l.wait.Go(func() {
		defer cancel()
		f(ctx)
	})
}

// attempt begins a start.
func (l *loop) attempt() *attempt {
	a, t, _ := l.spec()
	place := l.c.Place()
	if l.c.Driver != nil {
		place.Isolation = l.c.Driver.Capabilities().Isolation
	}
	return &attempt{
		alloc: a, task: t, place: place, driver: l.c.Driver, sign: l.c.Sign, network: l.c.Network, disk: l.c.Disk, volumes: l.c.Volumes, plugins: l.c.Plugins, openAPI: l.openAPI,
		inputs: &l.c.Inputs, reserve: l.c.Reserve,
		doing: func(typ, message string, waits ...berth.TaskWait) { l.post(Doing{typ, message, waits}) }, state: l.State(),
		names: Names{Node: place.Node, Region: place.Region},
		out: &driver.Task{
			AllocID: a.ID.String(), Name: t.Name, AllocDir: l.c.AllocDir, Dir: place.TaskDir(t.Name), Supervisor: l.c.Supervisor,
			Cores: grantedCores(a, t.Name), Cgroup: place.Cgroup, Grace: place.killTimeout(t), KillSignal: SignalNumber(t.KillSignal),
			Limits: limits(a, t, place.Node), Progress: func(string) {}, Ports: hostPorts(a, t.Name, place.Node), OwnPorts: len(given(a, t.Name).Ports()), Job: jobOf(a, place.Node),
		},
	}
}

// prepare waits until the task may be started, runs the hooks and posts
// Prepared or PrepareFailed. If the agent ends meanwhile, it posts nothing: the
// next agent prepares again.
func (l *loop) prepare(ctx context.Context) {
	if l.c.Restored != nil || l.c.Adopt {
		select {
		case <-l.c.Contacted: // what is to be stopped by now must not be started
		case <-ctx.Done():
		}
	}
	for l.c.May != nil && ctx.Err() == nil {
		ok, changed := l.c.May()
		if ok {
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	at := l.attempt()
	if err := at.prepare(ctx); err != nil {
		if !driver.Detaching(ctx) {
			l.post(PrepareFailed{Why: err.Error(), Recoverable: driver.IsRecoverable(err), Type: eventOf(err)})
		}
		return
	}
	l.mu.Lock()
	l.out = at.out
	l.mu.Unlock()
	if len(at.identities) > 0 {
		l.post(Renewed{All: at.identities})
	}
	if len(at.rendered) > 0 || at.fetched {
		l.post(Rendered{Texts: at.rendered, Fetched: at.fetched})
	}
	l.post(Prepared{})
}

// start has the driver start what the hooks made and posts Started or
// StartFailed. If the agent ends meanwhile, the next one asks the driver what
// became of the launch.
func (l *loop) start(ctx context.Context, launch uint64) {
	_ = failpoint.Hit("task/start")
	l.mu.Lock()
	t := *l.out
	l.mu.Unlock()
	t.Launch = launch
	var waits []berth.TaskWait
	if image, _ := t.Config["image"].(string); image != "" && l.c.Driver.Capabilities().Isolation == driver.ImageIsolation {
		waits = []berth.TaskWait{{Kind: berth.WaitImage, Name: image}}
	}
	t.Progress = func(message string) { l.post(Progress{launch, message, waits}) }
	if l.c.RunUntil != nil {
		t.RunUntil = l.c.RunUntil()
	}
	h, err := l.c.Driver.Start(ctx, &t)
	_ = failpoint.Hit("task/started")
	switch {
	case err == nil:
		l.hold(h)
		l.post(Started{h.State()})
	case errors.Is(err, driver.ErrUnclear):
		l.c.Log.Warn("it is not known whether a task was started; looking", "task", l.c.Name, "launch", launch, "error", err)
		l.look(l.ctx) // not ctx: an order to end must not end the search
	case !driver.Detaching(ctx):
		l.post(StartFailed{Why: err.Error(), Recoverable: driver.IsRecoverable(err)})
	}
}

// hold makes h the current handle. It is called before the event that tells of
// it, so that an action which follows finds the handle.
func (l *loop) hold(h driver.Handle) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.handle, l.over = h, make(chan struct{})
}

// ended says that the launch of h is over.
func (l *loop) ended(h driver.Handle) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.handle != h {
		return
	}
	select {
	case <-l.over:
	default:
		close(l.over)
	}
}

// jobOf says whose task it is.
func jobOf(a *op.Alloc, n *berth.Node) driver.Job {
	j := driver.Job{ID: string(a.Job.ID), Name: a.Job.Name, Namespace: a.Job.Namespace, Group: a.TaskGroup, Parent: string(a.Job.ParentID)}
	if n != nil {
		j.NodeID, j.NodeName = n.ID.String(), n.Name
	}
	return j
}

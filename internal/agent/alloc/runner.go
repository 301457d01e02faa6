package alloc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"berth"
	"berth/internal/agent/driver"
	"berth/internal/agent/fetch"
	"berth/internal/agent/secretdir"
	"berth/internal/agent/supervise"
	"berth/internal/agent/task"
	"berth/internal/saferoot"
	"berth/internal/streams/connect"
	"berth/op"
)

// Config is what a Runner needs.
type Config struct {
	Dirs    *saferoot.Root                    // holds the directories of all allocations
	Drivers map[string]driver.Driver          // by name
	Place   func(allocDir string) *task.Place // what the node offers an allocation in that directory
	Command []string                          // see supervise.OpenDir
	Pool    *supervise.Pool                   // see supervise.Dir.Share

	Restored  map[string][]byte // what Save was last given for each task; nil for a new allocation
	Contacted <-chan struct{}   // see task.Config

	// Preempted returns those allocations whose room this one was given that
	// have not ended here yet, and whether it may start: not before all of them
	// have. It is asked again after each [Runner.Nudge]. nil lets it start.
	Preempted func(*op.Alloc) (rest []berth.AllocID, ok bool)
	// Contact returns when servers were last reached, and whether by this agent;
	// otherwise an earlier one reached them, or it is not known. nil is always.
	// It must not call the Runner.
	Contact func() (at time.Time, own bool)

	Save   func(task string, state []byte) error // records a task's state; returns when it is safe
	Report func(*op.AllocReport)                 // called when there is news; must not block
	Chance func() float64                        // from 0 up to 1; spreads restarts

	Sign    task.Signer                       // see task.Config
	Reserve task.Reserver                     // likewise
	Inputs  task.Inputs                       // likewise
	TaskAPI func(ln net.Listener, who string) // see agent.Config
	// OwnAddressOnly maps ports of the default host network on the node's own
	// address, not on all.
	OwnAddressOnly bool
	Networks       Networks // nil: allocations have no networks of their own
	// Disk gives an allocation the data of the one that it replaces, in its own
	// directory, before its first task starts, and tells its history what is waited
	// for. Called again it does nothing. nil: there is no such data.
	Disk func(ctx context.Context, a *op.Alloc, dir *saferoot.Root, tell func(typ, message string)) error
	// Volumes mounts the CSI volumes of an allocation and returns their directories
	// by the name of the volume block. Called again it does nothing. nil: there are
	// none. Plugins likewise makes the directories of CSI plugins.
	Volumes  func(ctx context.Context, a *op.Alloc, tell func(string)) (map[string]string, error)
	Plugins  task.Plugins
	Registry Registry // nil: services are not registered
	Turns    Turns    // nil: templates restart tasks at once
	// Stream is who an allocation of a stream job learns its connections from;
	// nil: it is run without.
	Stream connect.Servers
	Log    *slog.Logger
}

// Runner runs one allocation. Its Run owns it; the other methods may be called
// from anywhere.
type Runner struct {
	c  Config
	id string

	mu      sync.Mutex
	alloc   *op.Alloc       // the newest version
	tasks   []*task.Runner  // in the group's order; nil before Run
	names   []string        // of tasks, in the same order
	broken  error           // nothing can be run
	stop    *task.Kill      // everything shall end
	stopAt  time.Time       // when the group's shutdown delay is over
	waits   bool            // for allocations that were preempted for it
	told    map[string]bool // tasks whose history says so
	checks  checks
	served  bool            // it has, or had, services; Run's alone
	refused map[string]bool // IDs of services that were found wanting; Run's alone
	health  *health         // nil if nobody wants to know it, or before Run
	stream  *connections    // nil unless it is of a stream job, or before Run
	round   uint64          // of the newest restart of the whole allocation that was asked for
	final   bool            // no task is started any more
	changed chan struct{}   // closed and replaced when a task may be allowed to start
	network groupNetwork
	turns   turns
	disk    sync.Mutex // one task at a time has the data of the disk taken over

	ready   chan struct{} // closed when tasks may be started
	wake    chan struct{} // has one element when Run is to look again
	updated chan struct{} // has one element when the allocation is newer than keepLease knows
	over    chan struct{} // closed when final is
	done    chan struct{} // closed when Run has returned
}

// New returns a Runner. The allocation must be whole; see [Check].
func New(c Config, a *op.Alloc) *Runner {
	r := &Runner{c: c, id: a.ID.String(), ready: make(chan struct{}), told: map[string]bool{}, refused: map[string]bool{}, wake: make(chan struct{}, 1), updated: make(chan struct{}, 1), changed: make(chan struct{}), over: make(chan struct{}), done: make(chan struct{})}
	r.turns.wants, r.turns.wake = map[string]uint64{}, make(chan struct{}, 1)
	r.Update(a)
	return r
}

// Check refuses an allocation that lacks what running it takes.
func Check(a *op.Alloc) error {
	if a.ID.IsZero() || a.Job == nil {
		return berth.Errorf(berth.Invalid, "allocation %q comes without an ID or a job", a.ID)
	}
	g := a.Job.Group(a.TaskGroup)
	if g == nil || len(g.Tasks) == 0 {
		return berth.Errorf(berth.Invalid, "job %q of allocation %s has no tasks in a group %q", a.Job.ID, a.ID, a.TaskGroup)
	}
	for _, t := range g.Tasks {
		if t == nil || t.Resources == nil || t.RestartPolicy == nil || t.LogConfig == nil {
			return berth.Errorf(berth.Invalid, "a task in group %q of allocation %s lacks resources, restart policy or logs", a.TaskGroup, a.ID)
		}
	}
	return nil
}

// Update gives the allocation a newer version: it may say that all shall end.
// A version that changed the tasks themselves would be another allocation; what
// it says of tasks that are not there, or no more, is not looked at.
func (r *Runner) Update(a *op.Alloc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// The tasks that were built are kept, whatever the new version says.
	if r.alloc != nil {
		for _, n := range r.names {
			if a.Job.Group(a.TaskGroup).Task(n) == nil {
				a = withGroup(a, r.alloc)
				break
			}
		}
	}
	r.alloc = a
	for _, t := range r.tasks {
		t.Update(a)
	}
	// Orders to end come with the allocation. An order is never taken back.
	switch {
	case a.DesiredStatus != berth.DesiredRun:
		why := a.DesiredDescription
		if why == "" {
			why = "the servers want it to " + a.DesiredStatus.String()
		}
		more := a.DesiredTransition.NoShutdownDelay
		r.order(task.Kill{Reason: why, NoDelay: more != nil && *more})
	case a.ClientStatus == berth.ClientLost:
		r.order(task.Kill{Reason: "the servers have given it up as lost"})
	}
	r.nudge()
	select {
	case r.updated <- struct{}{}:
	default:
	}
}

// withGroup returns a with the job of old, as far as tasks are concerned.
func withGroup(a, old *op.Alloc) *op.Alloc {
	b := *a
	b.Job, b.TaskGroup = old.Job, old.TaskGroup
	return &b
}

// Stop ends all tasks, for good.
func (r *Runner) Stop(reason string, noDelay bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.order(task.Kill{Reason: reason, NoDelay: noDelay})
	r.nudge()
}

// Fail ends all tasks at once, for good. The allocation has failed then.
func (r *Runner) Fail(reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.order(task.Kill{Reason: reason, NoDelay: true, Failed: true})
	r.nudge()
}

// order is called with mu held. A second order can only make it sooner.
func (r *Runner) order(k task.Kill) {
	if r.stop != nil && (r.stop.NoDelay || !k.NoDelay) {
		return
	}
	r.stop, r.stopAt = &k, time.Now()
	if !k.NoDelay {
		r.stopAt = r.stopAt.Add(r.alloc.Job.Group(r.alloc.TaskGroup).ShutdownDelay)
	}
}

// Nudge has the Runner look again at what it waits for.
func (r *Runner) Nudge() { r.nudge() }

// nudge wakes Run. It never blocks: one wake that is pending is enough.
func (r *Runner) nudge() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Done is closed when Run has returned.
func (r *Runner) Done() <-chan struct{} { return r.done }

// Ended reports whether all tasks are dead.
func (r *Runner) Ended() bool {
	s, _ := Status(r.states())
	return s.Ended()
}

// Unrecorded reports whether the allocation has ended, for good, and Run only waits
// until the disk takes the record of it.
func (r *Runner) Unrecorded() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.final && slices.ContainsFunc(r.tasks, (*task.Runner).Unrecorded)
}

// TaskDead reports whether the task will write no more; so does one that is not
// there.
func (r *Runner) TaskDead(name string) bool {
	s := r.states()[name]
	return s == nil || s.State == berth.TaskDead
}

// Usages are what tasks use of the machine, by task.
type Usages = map[string]driver.Usage

// Usage measures the tasks that run.
func (r *Runner) Usage(ctx context.Context) (Usages, error) {
	r.mu.Lock()
	tasks, names := r.tasks, r.names
	r.mu.Unlock()
	out := Usages{}
	for i, t := range tasks {
		if t.State().Phase != task.Running {
			continue
		}
		u, err := t.Usage(ctx)
		if err != nil {
			return nil, fmt.Errorf("task %q: %w", names[i], err)
		}
		out[names[i]] = u
	}
	return out, nil
}

// states returns how each task fares, also before Run and if nothing can run.
func (r *Runner) states() map[string]*berth.TaskState {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[string]*berth.TaskState{}
	for i, t := range r.tasks {
		s := t.State().Task
		out[r.names[i]] = &s
	}
	if r.tasks != nil {
		return out
	}
	for _, t := range r.alloc.Job.Group(r.alloc.TaskGroup).Tasks {
		s := &berth.TaskState{State: berth.TaskPending}
		if r.broken != nil {
			e := berth.NewTaskEvent(berth.EventSetupFailure, time.Now())
			e.DisplayMessage = r.broken.Error()
			s = &berth.TaskState{State: berth.TaskDead, Failed: true, FinishedAt: time.Now(), Events: []berth.TaskEvent{e}}
		}
		out[t.Name] = s
	}
	return out
}

// News returns how the allocation fares now.
func (r *Runner) News() *op.AllocReport {
	states := r.states()
	r.mu.Lock()
	a, verdict := r.alloc, r.verdict()
	r.mu.Unlock()
	n := &op.AllocReport{NetworkStatus: r.network.status(), ID: a.ID, NodeID: a.NodeID, Namespace: a.Namespace, JobID: a.JobID, TaskStates: states, DeploymentStatus: verdict}
	n.ClientStatus, n.ClientDescription = Status(states)
	if why := r.because(n.ClientStatus); why != "" {
		n.ClientDescription = why
	}
	return n
}

// Known reports whether what News tells is how the tasks fare: before Run has
// taken them up it is not.
func (r *Runner) Known() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tasks != nil || r.broken != nil
}

// Run runs the allocation until all its tasks are dead, and then returns nil;
// or until ctx ends, and leaves the tasks as they are.
func (r *Runner) Run(ctx context.Context) error {
	defer close(r.done)
	// Without its directory the allocation cannot run: it fails, once and for
	// all.
	dir, sup, adopt, err := r.open()
	if err != nil {
		r.c.Log.Warn("an allocation cannot be run", "alloc", r.id, "error", err)
		r.mu.Lock()
		r.broken = err
		r.mu.Unlock()
		r.c.Report(r.News())
		return nil
	}
	defer dir.Close()
	defer sup.Close()
	r.recallNetwork()
	r.build(dir, sup, adopt)
	r.restoreHealth()
	r.restoreTurn()
	// Until its end is reported, the allocation's services and connections
	// stay.
	ended := false
	disconnect := r.connect(ctx, dir)
	defer func() { disconnect(ended) }()
	defer func() { r.endServices(ended) }()
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, t := range r.tasks {
		wg.Go(func() { _ = t.Run(ctx) }) // nil, or ctx's own error
	}
	leased, endLease := context.WithCancel(ctx)
	var lease sync.WaitGroup
	lease.Go(func() { r.keepLease(leased, sup) })
	defer lease.Wait()
	defer endLease()
	lease.Go(func() { r.keepTurns(leased) })
	for {
		// Each turn looks at everything again: wakes carry no news of their
		// own.
		rewire := r.rewire(time.Now())
		r.admit()
		again := r.act()
		r.serve(ctx, dir.Path())
		if at := r.watchHealth(time.Now()); !at.IsZero() {
			again = sooner(again, at)
		}
		if !rewire.IsZero() {
			again = sooner(again, rewire)
		}
		if ended = r.conclude(); ended {
			r.removeNetwork(ctx) // before its end is reported: then its ports may be given away
			r.dropSecrets(dir)
		}
		if n := r.News(); ended || !n.ClientStatus.Ended() { // else it ends just now, or is about to be started again
			r.c.Report(n)
		}
		if ended {
			wg.Wait()
			sup.StopIfIdle(ctx) // a task that was stopped as it started has left it idle
			return nil
		}
		var alarm <-chan time.Time
		if !again.IsZero() {
			alarm = time.After(time.Until(again))
		}
		select {
		case <-r.wake:
		case <-alarm:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// open opens the allocation's directory. adopt says that it was there before.
func (r *Runner) open() (dir *saferoot.Root, sup *supervise.Dir, adopt bool, err error) {
	if err := r.c.Dirs.Mkdir(r.id, 0o711); err != nil {
		return nil, nil, false, err
	}
	if dir, err = r.c.Dirs.Sub(r.id); err != nil {
		return nil, nil, false, err
	}
	adopt = supervise.Exists(dir)
	if err := fetch.Sweep(dir); err != nil { // an agent may have been killed as it fetched
		r.c.Log.Warn("what an earlier agent was fetching cannot be removed", "alloc", r.id, "error", err)
	}
	if sup, err = supervise.OpenDir(dir, r.id, r.c.Command); err != nil {
		_ = dir.Close()
		return nil, nil, false, fmt.Errorf("control directory: %w", err)
	}
	sup.Share(r.c.Pool)
	if err := r.join(dir); err != nil {
		_ = errors.Join(sup.Close(), dir.Close())
		return nil, nil, false, fmt.Errorf("connections: %w", err)
	}
	return dir, sup, adopt, nil
}

// build makes a Runner for each task of the group, in the job's order. adopt is
// whether something of the tasks may run already. Run calls it once.
func (r *Runner) build(dir *saferoot.Root, sup *supervise.Dir, adopt bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	place := func() *task.Place {
		p := r.c.Place(dir.Path())
		p.Stream, p.Network = r.stream.env(), r.network.status()
		return p
	}
	for _, t := range r.alloc.Job.Group(r.alloc.TaskGroup).Tasks {
		r.names = append(r.names, t.Name)
		r.tasks = append(r.tasks, task.New(task.Config{
			Name: t.Name, Driver: r.c.Drivers[t.Driver], AllocDir: dir, Supervisor: sup, Place: place, Network: r.makeNetwork, Disk: r.takeDisk(dir), Volumes: r.mountVolumes(), Plugins: r.c.Plugins,
			Restored: r.c.Restored[t.Name], Adopt: adopt, Contacted: r.c.Contacted, RunUntil: func() time.Time { until, _ := r.runUntil(); return until },
			Save: func(state []byte) error { return r.c.Save(t.Name, state) }, Changed: r.changes, Chance: r.c.Chance, Sign: r.c.Sign, API: r.taskAPI(t.Name), Inputs: r.c.Inputs, Reserve: r.c.Reserve, Turn: r.turnOf(t.Name),
			May: func() (bool, <-chan struct{}) { return r.may(t.Name) }, Over: r.over, Log: r.c.Log.With("alloc", r.id),
		}, r.alloc))
	}
}

// takeDisk returns what gives the allocation the data of the one that it replaces.
func (r *Runner) takeDisk(dir *saferoot.Root) func(context.Context, func(typ, message string)) error {
	if r.c.Disk == nil {
		return nil
	}
	return func(ctx context.Context, tell func(typ, message string)) error {
		r.disk.Lock()
		defer r.disk.Unlock()
		r.mu.Lock()
		a := r.alloc
		r.mu.Unlock()
		return r.c.Disk(ctx, a, dir, tell)
	}
}

// dropSecrets drops the secrets of all tasks, which have ended.
func (r *Runner) dropSecrets(dir *saferoot.Root) {
	if err := secretdir.UnmountAll(dir); err != nil {
		r.c.Log.Warn("the secrets of an allocation that has ended cannot be unmounted", "alloc", r.id, "error", err)
	}
}

// mountVolumes returns what mounts the allocation's CSI volumes.
func (r *Runner) mountVolumes() func(context.Context, func(string)) (map[string]string, error) {
	if r.c.Volumes == nil {
		return nil
	}
	return func(ctx context.Context, tell func(string)) (map[string]string, error) {
		r.mu.Lock()
		a := r.alloc
		r.mu.Unlock()
		return r.c.Volumes(ctx, a, tell)
	}
}

// taskAPI returns what serves the Task API to a task; nil: nothing does.
func (r *Runner) taskAPI(task string) func(net.Listener) {
	if r.c.TaskAPI == nil {
		return nil
	}
	return func(ln net.Listener) { r.c.TaskAPI(ln, fmt.Sprintf("task %q of allocation %s", task, r.id)) }
}

// act gives the orders that the rules ask for now, and returns when to look
// again; zero is when something changes.
func (r *Runner) act() (again time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	again = r.limits(now)
	stop := r.stop
	if stop != nil && now.Before(r.stopAt) {
		stop, again = nil, sooner(again, r.stopAt)
	}
	ms := r.members()
	kills := orders(ms, stop)
	for i, t := range r.tasks {
		if k, ok := kills[r.names[i]]; ok {
			t.Kill(k)
		} else if ms.all[i].behind(ms.round()) {
			t.Join(ms.round(), restartReason)
		}
	}
	r.tellWaits(ms)
	return again
}

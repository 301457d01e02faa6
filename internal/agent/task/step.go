// Package task runs one task of an allocation. What happens to it is decided by
// a step function, [Step]: from what is known of the task and an event to what
// is known then and what is to be done about it. The [Runner] does it: it
// records the state first and acts then, so an agent that is killed anywhere
// goes on from where it was. What has to be done before a start (directories,
// environment, interpolation) is an ordered list of small hooks, run again at
// every start.
//
// Allocations (leader, siblings, the group's shutdown delay) are package
// alloc's business; processes are the driver's.
package task

import (
	"cmp"
	"maps"
	"time"

	"berth"
	"berth/internal/agent/driver"
	"berth/internal/cron"
)

// Phase is where a task stands. [berth.TaskState] shows less of it.
type Phase string

// The phases.
const (
	Pending   Phase = ""          // nothing was done yet
	Looking   Phase = "looking"   // nothing is known; the driver is asked what runs
	Preparing Phase = "preparing" // the hooks run
	Starting  Phase = "starting"  // the driver starts it
	Running   Phase = "running"   //
	Delaying  Phase = "delaying"  // it is to be stopped when its shutdown delay is over
	Stopping  Phase = "stopping"  // it has been asked to end
	Waiting   Phase = "waiting"   // for its restart
	Paused    Phase = "paused"    // until its schedule, or somebody, lets it run
	Dead      Phase = "dead"      // it never runs again
)

// State is all that must be known of a task after a restart of the agent. A
// State never changes; Step returns another.
type State struct {
	Phase  Phase
	Task   berth.TaskState
	Launch uint64    // number of the newest start
	Handle []byte    `json:",omitempty"` // what the driver wants to know to find it again
	Window Window    // of restarts
	Until  time.Time `json:",omitzero"`  // end of Delaying or Waiting
	Kill   *Kill     `json:",omitempty"` // the order to end; nil while it should run
	Again  bool      `json:",omitempty"` // it is stopped in order to be started again
	Unfit  bool      `json:",omitempty"` // it is stopped because it does not work, which counts as its failure
	Begun  time.Time `json:",omitzero"`  // when the agent took it up; kept over restarts
	Pause  bool      `json:",omitempty"` // it is stopped in order to be paused
	Order  string    `json:",omitempty"` // what its schedule is made to do, as in berth.ScheduleFollow; "" is to be followed
	Round  uint64    `json:",omitempty"` // of the newest restart of the whole allocation that it took part in
	Up     bool      `json:",omitempty"` // it ran in this round

	Identities map[string]Validity `json:",omitempty"` // by name, as last signed
	Rendered   []string            `json:",omitempty"` // hashes of the texts of its templates
	Fetched    bool                `json:",omitempty"` // its artifacts are there
}

// Kill is an order to end a task.
type Kill struct {
	Reason  string // a sentence for the operator
	Event   string `json:",omitempty"` // type of an event that says why, besides Killing; "" for none
	Sibling string `json:",omitempty"` // the task whose failure is the reason
	NoDelay bool   `json:",omitempty"` // without the shutdown delay
	Failed  bool   `json:",omitempty"` // the task has failed then
}

// CutOffReason is the reason of a task that ended because no server was reached.
const CutOffReason = "no server was reached for as long as stop_on_client_after lets it run"

// Spec is what a task's job says that matters here.
type Spec struct {
	JobType       string
	Once          bool // it runs to its end, whatever the job's type
	Sidecar       bool // it is started again when it ends, whatever the job's type
	Restart       berth.RestartPolicy
	KillSignal    string        // "" is SIGINT
	KillTimeout   time.Duration // from the signal to the kill
	ShutdownDelay time.Duration // from the order to the signal
	Window        *cron.Window  // when it may run; nil is always
}

// ends reports whether the task may end: of a stream job, servers decide
// whether it is launched again.
func (s *Spec) ends() bool {
	switch {
	case s.Once, s.Sidecar:
		return s.Once
	}
	return s.JobType == berth.TypeBatch || s.JobType == berth.TypeSysbatch || s.JobType == berth.TypeStream
}

// Step is what an event makes of a task. chance, from 0 up to 1, spreads
// restarts in time. An event that means nothing in a phase changes nothing.
func Step(spec *Spec, s State, e Event, now time.Time, chance float64) (State, []Action) {
	st := step{spec: spec, State: s, now: now, chance: chance}
	st.Task.Events = st.Task.Events[:len(st.Task.Events):len(st.Task.Events)] // s keeps its own
	switch e := e.(type) {
	case Begin:
		st.begin(e)
	case Restore:
		st.restore()
	case Found:
		st.found(e)
	case NotFound:
		st.notFound()
	case Lost:
		st.lost(e)
	case Prepared:
		st.prepared()
	case PrepareFailed:
		if st.Phase == Preparing {
			st.failed(cmp.Or(e.Type, berth.EventSetupFailure), e.Why, e.Recoverable)
		}
	case Started:
		if st.Phase == Starting {
			st.started(e.Handle, now)
		}
	case StartFailed:
		if st.Phase == Starting {
			st.failed(berth.EventDriverFailure, e.Why, e.Recoverable)
		}
	case Progress:
		st.progress(e)
	case Exited:
		st.exited(&e.Exit)
	case Alarm:
		st.alarm()
	case Order:
		st.order(e.Kill)
	case Again:
		st.again(e)
	case Signal:
		st.signal(e)
	case Note:
		st.tell(e)
	case Renewed:
		st.renewed(e)
	case Schedule:
		st.schedule(e)
	case Doing:
		st.doing(e)
	case Told:
		st.told(e)
	case Rendered:
		st.Rendered, st.Fetched = e.Texts, st.Fetched || e.Fetched
	}
	return st.State, st.actions
}

// step is one run of Step: a copy of the state that its methods change, and the
// actions that they ask for.
type step struct {
	State
	spec    *Spec
	now     time.Time
	chance  float64  // from 0 up to 1
	actions []Action // in the order in which they are to begin
}

// do asks for an action. The Runner begins actions in this order, once the
// state is recorded.
func (s *step) do(a Action) { s.actions = append(s.actions, a) }

// renewed remembers until when identities are valid.
func (s *step) renewed(e Renewed) {
	all := maps.Clone(s.Identities) // the state before keeps its own
	if all == nil {
		all = map[string]Validity{}
	}
	maps.Copy(all, e.All)
	s.Identities = all
}

// begin takes up a new task: it looks for what may run of it already, or
// prepares the first start.
func (s *step) begin(e Begin) {
	if s.Phase != Pending {
		return
	}
	s.Task.State, s.Begun = berth.TaskPending, s.now
	s.note(berth.NewTaskEvent(berth.EventReceived, s.now))
	if e.Adopt {
		s.Phase = Looking
		s.do(DoLook{})
		return
	}
	s.prepare(true)
}

// prepare runs the hooks. It is told before the first launch only, as people
// know it from Nomad: few events are kept, and of a task that fails again and
// again those that say why count. Again after a restart of the agent, it is
// not told either.
func (s *step) prepare(tell bool) {
	if held, why := s.held(); held {
		s.paused(why)
		return
	}
	s.Phase, s.Until, s.State.Again = Preparing, time.Time{}, false
	if tell && s.Launch == 0 {
		s.note(berth.NewTaskEvent(berth.EventTaskSetup, s.now))
	}
	s.do(DoPrepare{})
}

// prepared starts the next launch. The launch is counted before it is started,
// so that its number is recorded and never used twice.
func (s *step) prepared() {
	switch {
	case s.Phase != Preparing:
	case s.Kill != nil:
		s.killed()
	case s.State.Again: // others may have to start first now
		s.prepare(true)
	case s.State.Pause:
		s.resumeOrPause()
	default:
		s.Phase = Starting
		s.Launch++
		s.Handle = nil
		s.do(DoStart{s.Launch})
	}
}

// started takes over a launch that runs since the time at. A kill that was
// ordered meanwhile is carried out now.
func (s *step) started(handle []byte, at time.Time) {
	s.Phase, s.Handle = Running, handle
	s.Task.State, s.Task.StartedAt, s.Task.FinishedAt = berth.TaskRunning, at, time.Time{}
	s.note(berth.NewTaskEvent(berth.EventStarted, s.now))
	s.do(DoWait{})
	switch {
	case s.Kill != nil:
		s.stop(s.Kill.NoDelay)
	case s.State.Again, s.State.Pause:
		s.Phase = Stopping
		s.askToEnd()
	default:
		s.Up = true
		s.schedule(Schedule{})
	}
}

// restore goes on after a restart of the agent.
func (s *step) restore() {
	if s.Begun.IsZero() && s.Phase != Pending { // recorded by a release that did not keep it
		if s.Begun = s.Task.StartedAt; s.Begun.IsZero() {
			s.Begun = s.now
		}
	}
	switch s.Phase {
	case Pending:
		s.begin(Begin{Adopt: true})
	case Preparing:
		if s.Kill != nil {
			s.killed()
			return
		}
		s.release() // of the launch before
		s.prepare(false)
	case Looking, Starting, Running, Delaying, Stopping:
		s.bound()
		s.do(DoLook{})
	case Waiting:
		s.bound()
		s.release()
		s.do(DoAlarm{s.Until})
	case Paused:
		s.release()
		s.schedule(Schedule{}) // its time may have come meanwhile
	case Dead:
		s.release()
	}
}

// bound makes a delay that an earlier agent began no longer than it can be: the
// clock may have been put back since. From now on the delay does not depend on how
// the clock is set.
func (s *step) bound() {
	if s.Until.IsZero() {
		return
	}
	longest := longestDelay(&s.spec.Restart)
	if s.Phase == Delaying {
		longest = s.spec.ShutdownDelay
	}
	s.Until = s.now.Add(min(s.Until.Sub(s.now), longest)) // by the monotonic clock of now
}

// release says again what the last agent may not have come to say.
func (s *step) release() {
	if s.Launch > 0 {
		s.do(DoRelease{s.Launch})
	}
}

// found takes over what the driver has of the task after a restart of the
// agent, and goes on with the stop or the delay that was under way.
func (s *step) found(e Found) {
	// The driver's newest may be one before that which we wanted to start.
	if e.Launch < s.Launch {
		s.notFound()
		return
	}
	switch s.Phase {
	case Looking, Starting:
		s.Launch = e.Launch
		s.started(e.Handle, s.now)
	case Running, Delaying, Stopping:
		s.Launch, s.Handle = e.Launch, e.Handle
		s.do(DoWait{})
		switch s.Phase {
		case Running:
			s.schedule(Schedule{})
		case Delaying:
			s.do(DoAlarm{s.Until})
		case Stopping:
			s.askToEnd()
		}
	}
}

// notFound starts the task if it never ran. A task that is recorded as running
// is lost: it may have run to its end.
func (s *step) notFound() {
	switch s.Phase {
	case Looking, Starting: // it never ran
		if s.Kill != nil {
			s.killed()
			return
		}
		s.prepare(s.Phase == Looking)
	case Running, Delaying, Stopping:
		s.lost(Lost{Why: "the driver knows nothing of it"})
	}
}

// lost ends a task whose exit cannot be known. Only a restart of the machine is
// a reason to start it again here.
func (s *step) lost(e Lost) {
	switch s.Phase {
	case Looking, Starting, Running, Delaying, Stopping:
	default:
		return
	}
	s.note(lostEvent(s.now, e.Why))
	switch {
	case s.Kill != nil:
		s.killed()
	case e.Reboot:
		s.restartNow("the machine was restarted")
	default:
		// It is not started again here: it may have been told to the servers
		// as lost, and have been replaced.
		s.note(notRestartingEvent(s.now, e.Why))
		s.dead(true)
	}
}

// exited records the exit, lets the driver forget it, and decides what comes
// next: the end, a restart that was asked for, or one by the policy.
func (s *step) exited(x *driver.Exit) {
	switch s.Phase {
	case Running, Delaying, Stopping:
	default:
		return
	}
	if x.CutOff && s.Kill == nil { // the supervisor did what the agent could not
		s.Kill, s.State.Again, s.Unfit = &Kill{Event: berth.EventCutOff, Reason: CutOffReason, NoDelay: true}, false, false
		s.note(becauseEvent(berth.EventCutOff, s.now, CutOffReason))
	}
	s.note(terminatedEvent(s.now, x))
	s.do(DoRelease{s.Launch})
	switch {
	case s.Kill != nil:
		s.killed()
	case s.State.Pause:
		s.State.Again, s.Unfit = false, false
		s.resumeOrPause()
	case s.State.Again:
		s.restartNow("asked for")
	case s.Unfit:
		s.Unfit = false
		s.restart()
	case x.Success() && s.spec.ends():
		s.dead(false)
	default:
		s.restart()
	}
}

// failed is a start that did not come to be.
func (s *step) failed(typ, why string, recoverable bool) {
	switch {
	case s.Kill != nil:
		s.killed()
		return
	case s.State.Again: // its start was cancelled for that
		s.prepare(true)
		return
	case s.State.Pause:
		s.resumeOrPause()
		return
	}
	s.note(failureEvent(typ, s.now, why))
	if !recoverable {
		s.note(notRestartingEvent(s.now, "the failure would only repeat"))
		s.dead(true)
		return
	}
	s.restart()
}

// restart starts the task again if its policy lets it.
func (s *step) restart() {
	window, delay, ok, why := s.Window.Next(&s.spec.Restart, s.now, s.chance)
	if !ok {
		s.note(notRestartingEvent(s.now, why))
		s.dead(true)
		return
	}
	s.Window = window
	s.Phase, s.Until = Waiting, s.now.Add(delay)
	s.Task.State, s.Task.LastRestart = berth.TaskPending, s.now
	s.Task.Restarts++
	s.note(restartingEvent(s.now, delay, why))
	s.do(DoAlarm{s.Until})
}

// restartNow starts the task again without counting it against its policy.
func (s *step) restartNow(why string) {
	s.State.Again = false
	s.Task.State, s.Task.LastRestart = berth.TaskPending, s.now
	s.Task.Restarts++
	s.note(restartingEvent(s.now, 0, why))
	s.prepare(true)
}

// alarm goes on when the restart delay or the shutdown delay is over. One that
// comes too early is set again.
func (s *step) alarm() {
	if s.now.Before(s.Until) {
		if s.Phase == Delaying || s.Phase == Waiting {
			s.do(DoAlarm{s.Until})
		}
		return
	}
	switch s.Phase {
	case Waiting:
		s.prepare(true)
	case Delaying:
		s.Phase, s.Until = Stopping, time.Time{}
		s.askToEnd()
	}
}

package task

import (
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"berth"
)

// order begins the end of the task. A second order can only make it sooner.
func (s *step) order(k Kill) {
	if s.Phase == Dead {
		return
	}
	if s.Kill != nil {
		s.hurry(k)
		return
	}
	// From here on the task is not started again, whatever was asked before.
	s.Kill, s.State.Again, s.State.Pause, s.Unfit = &k, false, false, false
	if k.Event != "" {
		var details []string
		if k.Sibling != "" {
			details = []string{berth.DetailFailedSibling, k.Sibling}
		}
		s.note(becauseEvent(k.Event, s.now, k.Reason, details...))
	}
	s.note(killingEvent(s.now, k.Reason, s.spec.KillTimeout))
	switch s.Phase {
	case Pending, Waiting, Paused:
		s.killed()
	// Whether the start was still stopped shows in its answer.
	case Preparing, Starting:
		s.do(DoCancel{}) // and see what comes back
	case Running:
		s.stop(k.NoDelay)
	}
}

// hurry takes up an order to end of a task that has one: it may do away with the
// shutdown delay. That is kept in the state, so nobody orders it again.
func (s *step) hurry(k Kill) {
	if !k.NoDelay || s.Kill.NoDelay {
		return
	}
	now := *s.Kill // the state before keeps its own
	now.NoDelay = true
	s.Kill = &now
	if s.Phase == Delaying {
		s.Phase, s.Until = Stopping, time.Time{}
		s.askToEnd()
	}
}

// stop begins to end a task that runs, after its shutdown delay if it has one.
func (s *step) stop(noDelay bool) {
	if s.spec.ShutdownDelay > 0 && !noDelay {
		s.Phase, s.Until = Delaying, s.now.Add(s.spec.ShutdownDelay)
		s.do(DoAlarm{s.Until})
		return
	}
	s.Phase = Stopping
	s.askToEnd()
}

// askToEnd has the driver send the kill signal, and kill the task after its
// kill timeout. It can be repeated.
func (s *step) askToEnd() { s.do(DoStop{SignalNumber(s.spec.KillSignal), s.spec.KillTimeout}) }

// killed ends a task that was ordered to.
func (s *step) killed() {
	s.note(berth.NewTaskEvent(berth.EventKilled, s.now))
	s.dead(s.Kill != nil && s.Kill.Failed)
}

// dead ends the task for good. failed is what servers judge the allocation by.
func (s *step) dead(failed bool) {
	s.Phase, s.Until, s.Handle, s.State.Again, s.State.Pause, s.Unfit = Dead, time.Time{}, nil, false, false, false
	s.Task.State, s.Task.FinishedAt = berth.TaskDead, s.now
	s.Task.Failed = failed
}

// SignalNumber returns the signal of that name. "" and what is no signal on
// this machine are SIGINT, the default of kill_signal.
func SignalNumber(name string) syscall.Signal {
	if sig := unix.SignalNum(strings.ToUpper(name)); sig != 0 {
		return sig
	}
	return syscall.SIGINT
}

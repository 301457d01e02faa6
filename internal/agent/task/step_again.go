package task

import "berth"

// What a task is told while it runs: to start again, alone or with all others
// of its allocation, to be signalled, and what its history is to say.

// again stops a task that runs so that it is started again, or cuts short the
// wait of one that is about to. An order to end comes first.
func (s *step) again(e Again) {
	switch {
	case s.Kill != nil, e.Launch > 0 && e.Launch != s.Launch:
		return
	case e.Round > 0:
		s.round(e)
		return
	}
	switch s.Phase {
	case Running:
		s.State.Again, s.Unfit = !e.Failed, e.Failed
		s.note(becauseEvent(berth.EventRestartSignaled, s.now, e.Reason))
		s.Phase = Stopping
		s.askToEnd()
	case Waiting:
		if e.Failed {
			return // it is about to
		}
		s.note(becauseEvent(berth.EventRestartSignaled, s.now, e.Reason))
		s.prepare(true)
	}
}

// round has the task take part in a restart of the whole allocation. What runs
// of it is stopped, what is under way is begun again, and a task that has ended
// is started once more: which of them goes first is the allocation's business.
func (s *step) round(e Again) {
	if e.Round <= s.Round {
		return
	}
	s.Round, s.Up = e.Round, false
	if s.Phase == Pending {
		return
	}
	s.note(becauseEvent(berth.EventRestartSignaled, s.now, e.Reason))
	switch s.Phase {
	case Looking, Preparing, Starting:
		s.State.Again = true
		s.do(DoCancel{})
	case Paused: // it takes part when it is let run
	case Running:
		s.Phase, s.State.Again = Stopping, true
		s.askToEnd()
	case Stopping: // for a restart
		s.State.Again, s.Unfit = true, false
	case Waiting:
		s.prepare(true)
	case Dead:
		s.Task.Failed = false
		s.restartNow("asked for")
	}
}

// tell adds an event, unless it is the last one already: an agent that was
// restarted tells the same again.
func (s *step) tell(e Note) {
	if s.Launch > 0 || s.Phase == Dead || s.Kill != nil {
		return
	}
	if n := len(s.Task.Events); n == 0 || s.Task.Events[n-1].Type != e.Type {
		s.note(event(e.Type, s.now, e.Message))
	}
}

// signal sends the signal to a task that runs. In other phases nothing is there
// to receive it.
func (s *step) signal(e Signal) {
	if s.Phase == Running {
		s.note(signalingEvent(s.now, e.Name, e.Reason))
		s.do(DoSignal{SignalNumber(e.Name)})
	}
}

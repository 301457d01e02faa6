package task

import (
	"time"

	"berth"
	"berth/internal/cron"
)

// When a task may run: as its schedule says, or as somebody has ordered. A task
// that may not is paused. It is stopped as for a restart, and started again when
// its time comes; its restart policy counts neither.

// The reasons that the history of a task gives.
const (
	pausedByHand  = "somebody paused it"
	pausedByTime  = "outside the times of its schedule"
	resumedByHand = "somebody let it run"
	resumedByTime = "its schedule lets it run"
)

// windowOf returns when a task may run; nil is always. What is wrong with a
// schedule was refused when the job was registered; one that cannot be read all
// the same holds nothing back.
func windowOf(t *berth.Task) *cron.Window {
	if t.Schedule == nil || t.Schedule.Cron == nil {
		return nil
	}
	w, err := cron.NewWindow(t.Schedule.Cron)
	if err != nil {
		return nil
	}
	return w
}

// held reports whether the task may not run now, and why.
func (s *step) held() (bool, string) {
	switch {
	case s.State.Order == berth.SchedulePause:
		return true, pausedByHand
	case s.State.Order == berth.ScheduleRun || s.spec.Window == nil:
		return false, ""
	}
	open, _ := s.spec.Window.At(s.now)
	return !open, pausedByTime
}

// schedule stops a task that may not run any more, and starts one that may
// again. It changes nothing if the task is as it should be.
func (s *step) schedule(e Schedule) {
	if s.Phase == Dead {
		return
	}
	if e.Order != "" {
		s.State.Order = e.Order
		if e.Order == berth.ScheduleFollow {
			s.State.Order = ""
		}
	}
	held, why := s.held()
	switch {
	case s.Kill != nil:
	case !held:
		if s.Phase == Paused {
			s.resume()
		}
	case s.Phase == Waiting:
		s.paused(why)
	case s.State.Pause: // it is being stopped for that
	case s.Phase == Preparing || s.Phase == Starting:
		s.State.Pause = true
		s.do(DoCancel{})
	case s.Phase == Running:
		s.State.Pause = true
		s.note(becauseEvent(berth.EventPausing, s.now, "Task is being stopped: "+why))
		s.Phase = Stopping
		s.askToEnd()
	case s.Phase == Stopping: // for a restart
		s.State.Pause = true
	}
}

// resumeOrPause goes on with a task that was stopped, or not started, because it
// was to be paused: meanwhile it may have been let run again.
func (s *step) resumeOrPause() {
	s.State.Pause = false
	if held, why := s.held(); held {
		s.paused(why)
		return
	}
	s.resume()
}

// paused leaves the task until it may run.
func (s *step) paused(why string) {
	s.Phase, s.Until, s.State.Again, s.State.Pause = Paused, time.Time{}, false, false
	s.Task.State = berth.TaskPending
	s.note(becauseEvent(berth.EventPaused, s.now, "Task is paused: "+why))
}

// resume starts a task that was paused.
func (s *step) resume() {
	why := resumedByTime
	if s.State.Order == berth.ScheduleRun || s.spec.Window == nil {
		why = resumedByHand
	}
	s.note(becauseEvent(berth.EventResuming, s.now, "Task is started: "+why))
	s.prepare(true)
}

// nextChange returns when a task's schedule wants something else than at a time;
// zero is never.
func nextChange(w *cron.Window, order string, now time.Time) time.Time {
	if w == nil || order != "" {
		return time.Time{}
	}
	_, until := w.At(now)
	return until
}

// maxWindowWait bounds a wait for the schedule, so that a clock that is set is
// noticed.
const maxWindowWait = time.Minute

// window returns a channel that fires when the task's schedule may want
// something else. It is nil, which never fires, if it has none.
func (l *loop) window() <-chan time.Time {
	s := l.State()
	if s.Phase == Dead {
		return nil
	}
	_, t, _ := l.spec()
	if t.Schedule == nil {
		return nil
	}
	now := time.Now()
	until := nextChange(windowOf(t), s.Order, now)
	if until.IsZero() {
		return nil
	}
	return time.After(min(max(until.Sub(now), 0), maxWindowWait))
}

// ScheduleState returns what the task's schedule is made to do.
func (r *Runner) ScheduleState() string {
	if s := r.State(); s.Order != "" {
		return s.Order
	}
	return berth.ScheduleFollow
}

// Schedule says what the task's schedule is made to do: berth.ScheduleFollow or
// one of its siblings.
func (r *Runner) Schedule(order string) { r.post(Schedule{Order: order}) }

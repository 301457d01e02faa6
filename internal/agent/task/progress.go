package task

import (
	"slices"

	"berth"
)

// progress shows in the task's history what a start is doing. News replace what
// was told before: a long start must not push out the rest of the history.
func (s *step) progress(e Progress) {
	if s.Phase != Starting || e.Launch != s.Launch {
		return
	}
	if n := len(s.Task.Events); n > 0 && s.Task.Events[n-1].Type == berth.EventDriver {
		s.Task.Events = slices.Clone(s.Task.Events[:n-1])
	}
	s.note(event(berth.EventDriver, s.now, e.Message, "driver_message", e.Message))
}

// doing shows what is done or waited for before a start. As with progress, news
// replace what was told before.
func (s *step) doing(e Doing) {
	if s.Phase != Preparing {
		return
	}
	if n := len(s.Task.Events); n > 0 && s.Task.Events[n-1].Type == e.Type {
		s.Task.Events = slices.Clone(s.Task.Events[:n-1])
	}
	s.note(event(e.Type, s.now, e.Message))
}

package task

import (
	"slices"
	"strings"

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
	s.note(event(berth.EventDriver, s.now, e.Message, append(waitsFor(e.Waits), "driver_message", e.Message)...))
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
	s.note(event(e.Type, s.now, e.Message, waitsFor(e.Waits)...))
}

// told shows what became of the templates of a task that runs.
func (s *step) told(e Told) {
	if s.Phase != Running {
		return
	}
	if n := len(s.Task.Events); n > 0 && s.Task.Events[n-1].Details[berth.DetailWaitsFor] != "" {
		s.Task.Events = slices.Clone(s.Task.Events[:n-1])
	}
	s.note(event(berth.EventTemplate, s.now, e.Message, waitsFor(e.Waits)...))
}

// mostWaits bounds how many things an event names that a task waits for, and
// mostWaitName the bytes of the name of each.
const (
	mostWaits    = 8
	mostWaitName = 200
)

// waitsFor returns the details of an event that say what the task waits for.
func waitsFor(waits []berth.TaskWait) []string {
	if len(waits) == 0 {
		return nil
	}
	var text strings.Builder
	for _, w := range waits[:min(len(waits), mostWaits)] {
		w.Name = strings.Map(func(r rune) rune {
			if r < ' ' {
				return ' '
			}
			return r
		}, berth.Clip(w.Name, mostWaitName))
		text.WriteString(w.Kind + " " + w.Name + "\n")
	}
	return []string{berth.DetailWaitsFor, text.String()}
}

package task

import (
	"strings"
	"testing"
	"time"

	"berth"
)

// What a task waits for is in its last event as data, until it goes on.
func TestWaitsAreData(t *testing.T) {
	s := step{spec: &Spec{}, now: time.Unix(1, 0)}
	s.Phase, s.Task.State = Preparing, berth.TaskPending
	s.doing(Doing{Type: berth.EventTemplate, Message: "Missing: variable nomad/jobs/a b, service db", Waits: []berth.TaskWait{{Kind: berth.WaitVariable, Name: "nomad/jobs/a b"}, {Kind: berth.WaitService, Name: "db"}}})
	if w := s.Task.Waits(); len(w) != 2 || w[0].String() != "variable nomad/jobs/a b" || w[1] != (berth.TaskWait{Kind: "service", Name: "db"}) {
		t.Errorf("it waits for %v", w)
	}
	// A name cannot pretend to be another wait, nor fill the history.
	s.doing(Doing{Type: berth.EventTemplate, Message: "Missing", Waits: []berth.TaskWait{{Kind: berth.WaitFile, Name: "a\nservice db"}, {Kind: berth.WaitFile, Name: strings.Repeat("x", 9999)}}})
	if w := s.Task.Waits(); len(w) != 2 || w[0].Name != "a service db" || len(w[1].Name) > 300 {
		t.Errorf("it waits for %.400v", w)
	}
	if len(s.Task.Events) != 1 {
		t.Errorf("%d events tell of one wait", len(s.Task.Events))
	}
	s.doing(Doing{Type: berth.EventTemplate, Message: "Rendered"})
	if w := s.Task.Waits(); w != nil {
		t.Errorf("it still waits for %v", w)
	}
	// An image is waited for while the driver gets it.
	s.Phase, s.Launch = Starting, 3
	s.progress(Progress{3, "Pulling fs layer", []berth.TaskWait{{Kind: berth.WaitImage, Name: "redis:7"}}})
	if w := s.Task.Waits(); len(w) != 1 || w[0].String() != "image redis:7" {
		t.Errorf("it waits for %v", w)
	}
	s.Task.State = berth.TaskRunning
	if w := s.Task.Waits(); w != nil {
		t.Errorf("a task that runs waits for %v", w)
	}
}

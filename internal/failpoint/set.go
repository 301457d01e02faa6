//go:build faults

package failpoint

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// When a point of a set acts.
const (
	Before = "before" // the deed was not begun
	After  = "after"  // it is done, and nobody was told
)

// What a point of a set does.
const (
	Exit     = "exit"      // the process ends
	Hang     = "hang"      // who does it waits until the point is taken back
	StepDown = "step-down" // this server hands its leadership over
	Off      = "off"       // the point is taken back, and who hangs at it goes on
)

// Point is what an operator arms. The zero Nth is 1.
type Point struct {
	Name   string
	When   string // before or after
	Nth    int    // acts at this pass, counted from when it was armed
	Action string // exit, hang, step-down, or off
	Once   bool   // it is taken back when it acted; else the count begins anew
}

// Set holds the points of one server, which are armed while it runs. A nil set
// has none and costs nothing.
type Set struct {
	names []string // that there are
	some  atomic.Bool

	mu    sync.Mutex
	armed map[place]*armed
	freed map[place]chan struct{} // closed when the point is taken back
}

type place struct{ name, when string }

type armed struct {
	Point
	passes int
}

// NewSet returns a set in which points of these names can be armed.
func NewSet(names []string) *Set {
	return &Set{names: names, armed: map[place]*armed{}, freed: map[place]chan struct{}{}}
}

// Armed says whether any point is.
func (s *Set) Armed() bool { return s != nil && s.some.Load() }

// Arm arms a point, in place of what was armed there, or takes it back.
func (s *Set) Arm(p Point) error {
	if p.Nth == 0 {
		p.Nth = 1
	}
	for _, x := range []struct {
		field, value string
		allowed      []string
	}{
		{"Name", p.Name, s.names}, {"When", p.When, []string{Before, After}}, {"Action", p.Action, []string{Exit, Hang, StepDown, Off}},
	} {
		if !slices.Contains(x.allowed, x.value) {
			return fmt.Errorf("%s %.64q: allowed are %s", x.field, x.value, strings.Join(x.allowed, ", "))
		}
	}
	if p.Nth < 1 {
		return fmt.Errorf("%s %d: passes count from 1", "Nth", p.Nth)
	}
	at := place{p.Name, p.When}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.armed, at)
	if free := s.freed[at]; free != nil {
		close(free)
		delete(s.freed, at)
	}
	if p.Action != Off {
		s.armed[at] = &armed{Point: p}
	}
	s.some.Store(len(s.armed)+len(s.freed) > 0)
	return nil
}

// Pass passes a point n times at once, and returns what is to be done there, ""
// for nothing. For a hang it returns when that is over or ctx ends.
func (s *Set) Pass(ctx context.Context, name, when string, n int) (action string) {
	action, free := s.pass(place{name, when}, n)
	if free != nil {
		select {
		case <-free:
		case <-ctx.Done():
		}
	}
	return action
}

// Held returns what is closed when those who hang at a point go on; nil if
// nobody hangs there, or did when what it was part of ended.
func (s *Set) Held(name, when string) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.freed[place{name, when}]
}

// Hanging returns the points at which something hangs, or did when what it was
// part of ended, as "before addPes", in order.
func (s *Set) Hanging() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []string{}
	for at := range s.freed {
		out = append(out, at.when+" "+at.name)
	}
	slices.Sort(out)
	return out
}

func (s *Set) pass(at place, n int) (action string, free chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.armed[at]
	if p == nil {
		return "", nil
	}
	p.passes += n
	if p.passes < p.Nth {
		return "", nil
	}
	p.passes = 0
	if p.Once {
		delete(s.armed, at)
	}
	if p.Action == Hang {
		if s.freed[at] == nil {
			s.freed[at] = make(chan struct{})
		}
		free = s.freed[at]
	}
	s.some.Store(len(s.armed)+len(s.freed) > 0)
	return p.Action, free
}

// Points returns what is armed, in order of name.
func (s *Set) Points() (out []Point) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.armed {
		out = append(out, p.Point)
	}
	slices.SortFunc(out, func(a, b Point) int { return strings.Compare(a.Name+a.When, b.Name+b.When) })
	return out
}

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
	Before = "before" // the operation has not begun
	After  = "after"  // it is done, and nobody has been told
)

// The actions of a point in a set.
const (
	Exit     = "exit"      // the process ends
	Hang     = "hang"      // the goroutine that passes waits until the point is cleared
	StepDown = "step-down" // this server gives up leadership
	Off      = "off"       // the point is cleared, and what hangs at it continues
)

// Point is a point that an operator arms. The zero Nth is 1.
type Point struct {
	Name   string
	When   string // before or after
	Nth    int    // acts at this pass, counted since it was armed
	Action string // exit, hang, step-down, or off
	Once   bool   // it is cleared after it acted; otherwise the count starts over
}

// Set holds the points of one server, which are armed while it runs. A nil set
// has none and costs nothing.
type Set struct {
	names []string // the existing points
	some  atomic.Bool

	mu    sync.Mutex
	armed map[place]*armed
	freed map[place]chan struct{} // closed when the point is cleared
}

type place struct{ name, when string }

type armed struct {
	Point
	passes int
}

// NewSet returns a set with the points that can be armed.
func NewSet(names []string) *Set {
	return &Set{names: names, armed: map[place]*armed{}, freed: map[place]chan struct{}{}}
}

// Armed reports whether any point is armed.
func (s *Set) Armed() bool { return s != nil && s.some.Load() }

// Arm arms a point, replacing what was armed there, or clears it.
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
			return fmt.Errorf("%s: unknown value %.64q, want one of %s", x.field, x.value, strings.Join(x.allowed, ", "))
		}
	}
	if p.Nth < 1 {
		return fmt.Errorf("%s: must be at least 1, got %d", "Nth", p.Nth)
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

// Pass passes a point n times at once, and returns the action to take, "" for
// none. For a hang it returns when that is over or ctx ends.
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

// Held returns a channel that is closed when what hangs at a point continues,
// or nil if nothing has hung there. What hung there may have ended meanwhile
// with its context.
func (s *Set) Held(name, when string) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.freed[place{name, when}]
}

// Hanging returns the points at which something hangs, or hung until its
// context ended, as "before addPes", in order.
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

// Points returns the armed points, in order of name.
func (s *Set) Points() (out []Point) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.armed {
		out = append(out, p.Point)
	}
	slices.SortFunc(out, func(a, b Point) int { return strings.Compare(a.Name+a.When, b.Name+b.When) })
	return out
}

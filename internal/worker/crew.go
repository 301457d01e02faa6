package worker

import (
	"context"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
)

// Crew is a server's pool of workers: how many there are, and which types of evaluations they take. It can be changed
// while they work.
type Crew struct {
	mu      sync.Mutex
	now     Staffing
	changed chan struct{}
}

// Staffing is the size of a pool and what its workers do.
type Staffing struct {
	Leading   int      // number of workers while the server leads
	Following int      // and while another server leads
	Types     []string // types of evaluations that they take, a subset of Types
}

// NewCrew returns a pool.
func NewCrew(s Staffing) *Crew { return &Crew{now: s, changed: make(chan struct{})} }

// Staffing returns the current settings.
func (c *Crew) Staffing() Staffing {
	s, _ := c.current()
	return s
}

func (c *Crew) current() (Staffing, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now, c.changed
}

// Change changes the pool. Workers that are no longer needed, or that take other types, finish their evaluations and
// stop.
func (c *Crew) Change(s Staffing) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.Leading == c.now.Leading && s.Following == c.now.Following && slices.Equal(s.Types, c.now.Types) {
		return
	}
	c.now = s
	close(c.changed)
	c.changed = make(chan struct{})
}

// Lead runs the pool of a server that leads, with workers made by hire, until ctx ends or one of them fails.
func (c *Crew) Lead(ctx context.Context, hire func(types []string) *Worker) error {
	return c.work(ctx, func(s *Staffing) int { return s.Leading }, hire)
}

// follow is Lead for a server that does not lead.
func (c *Crew) follow(ctx context.Context, hire func(types []string) *Worker) error {
	return c.work(ctx, func(s *Staffing) int { return s.Following }, hire)
}

func (c *Crew) work(ctx context.Context, count func(*Staffing) int, hire func(types []string) *Worker) error {
	for ctx.Err() == nil {
		s, changed := c.current()
		taking, stop := context.WithCancel(ctx)
		g, life := errgroup.WithContext(ctx)
		for range count(&s) {
			g.Go(func() error { return hire(s.Types).run(life, taking) })
		}
		select {
		case <-changed:
		case <-life.Done():
		}
		stop()
		if err := g.Wait(); err != nil {
			return err
		}
	}
	return ctx.Err()
}

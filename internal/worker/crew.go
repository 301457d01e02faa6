package worker

import (
	"context"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
)

// Crew is how many workers a server has, and which types of evaluations they
// take. It can be changed while they work.
type Crew struct {
	mu      sync.Mutex
	now     Staffing
	changed chan struct{}
}

// Staffing is what a crew is like at a time.
type Staffing struct {
	Leading   int      // workers while the server leads
	Following int      // and while another does
	Types     []string // of evaluations that they take: some of Types
}

// NewCrew returns a crew.
func NewCrew(s Staffing) *Crew { return &Crew{now: s, changed: make(chan struct{})} }

// Staffing returns what the crew is like now.
func (c *Crew) Staffing() Staffing {
	s, _ := c.current()
	return s
}

func (c *Crew) current() (Staffing, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now, c.changed
}

// Change makes the crew another. Workers that are too many, or take other types,
// end what they have in hand and stop.
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

// Lead has the crew of a server that leads work, each member as hire made it,
// until ctx ends or one of them fails.
func (c *Crew) Lead(ctx context.Context, hire func(types []string) *Worker) error {
	return c.work(ctx, func(s *Staffing) int { return s.Leading }, hire)
}

// follow is Lead for a server that does not.
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

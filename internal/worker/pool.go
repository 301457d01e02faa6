package worker

import (
	"context"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
)

// Pool is a server's pool of workers: how many there are, and which types of
// evaluations they take. It can be changed while they work.
type Pool struct {
	mu      sync.Mutex
	now     Settings
	changed chan struct{}
}

// Settings is the size of a pool and what its workers do.
type Settings struct {
	Leading   int      // number of workers while the server leads
	Following int      // and while another server leads
	Types     []string // types of evaluations that they take, a subset of Types
}

// NewPool returns a pool.
func NewPool(s Settings) *Pool { return &Pool{now: s, changed: make(chan struct{})} }

// Settings returns the current settings.
func (c *Pool) Settings() Settings {
	s, _ := c.current()
	return s
}

// current returns the settings and a channel that is closed when they change.
func (c *Pool) current() (Settings, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now, c.changed
}

// Change changes the pool. Workers that are no longer needed, or that take
// other types, finish their evaluations and stop.
func (c *Pool) Change(s Settings) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.Leading == c.now.Leading && s.Following == c.now.Following && slices.Equal(s.Types, c.now.Types) {
		return
	}
	c.now = s
	close(c.changed)
	c.changed = make(chan struct{})
}

// Lead runs the pool of a server that leads, with workers made by hire, until
// ctx ends or one of them fails.
func (c *Pool) Lead(ctx context.Context, hire func(types []string) *Worker) error {
	return c.work(ctx, func(s *Settings) int { return s.Leading }, hire)
}

// follow is Lead for a server that does not lead.
func (c *Pool) follow(ctx context.Context, hire func(types []string) *Worker) error {
	return c.work(ctx, func(s *Settings) int { return s.Following }, hire)
}

// work runs as many workers as count asks for. When the settings change it hires
// the new ones at once; the old ones take nothing more, and leave when they are
// done with what they hold. It returns the first error of a worker.
func (c *Pool) work(ctx context.Context, count func(*Settings) int, hire func(types []string) *Worker) error {
	g, life := errgroup.WithContext(ctx)
	for life.Err() == nil {
		s, changed := c.current()
		taking, stop := context.WithCancel(life)
		for range count(&s) {
			g.Go(func() error { return hire(s.Types).run(life, taking) })
		}
		select {
		case <-changed:
		case <-life.Done():
		}
		stop()
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

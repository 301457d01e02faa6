package agent

import (
	"context"
	"time"

	"berth/internal/wire"
)

// After servers were restarted one by one, the first of them would have all agents
// and the last none, for as long as no session fails. So each agent goes to a
// random server now and then.

const (
	// stayMost is the mean time that an agent stays with a server, in a cluster
	// that is not large.
	stayMost = 5 * time.Minute
	// movesMost is how many agents of a large cluster move in a second.
	movesMost = 50
)

// spread has the agent go to a random server, perhaps the one that it has, if it
// has been with that one for long enough.
func (c *Cluster) spread(now time.Time, nodes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.due.IsZero() || c.session == nil || len(c.named) < 2 {
		c.due = now.Add(c.stay(nodes))
		return
	}
	if now.Before(c.due) {
		return
	}
	c.due = now.Add(c.stay(nodes))
	if to := c.named[c.pick(len(c.named))]; to != c.at {
		go c.move(c.session, to)
	}
}

// stay returns how long to stay with a server: the mean time give or take a half,
// so that agents that came together do not leave together.
func (c *Cluster) stay(nodes int) time.Duration {
	mean := max(stayMost, time.Duration(nodes)*time.Second/movesMost)
	return mean/2 + time.Duration(c.pick(int(mean)))
}

// move replaces a session by one to another server. What is in progress on the old
// one, such as a command in a task, goes on.
func (c *Cluster) move(from *wire.Session, to string) {
	c.dialing.Lock()
	defer c.dialing.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), dialTime)
	defer cancel()
	s, err := c.dialer.Dial(ctx, to)
	if err != nil {
		c.log.Debug("stays with its server: another one cannot be reached", "server", to, "error", err)
		return
	}
	c.mu.Lock()
	if c.closed || c.session != from {
		c.mu.Unlock()
		_ = s.Close()
		return
	}
	c.log.Info("goes to another server, so that agents are spread among servers", "from", c.at, "to", to)
	c.session, c.at = s, to
	c.retired[from] = true
	c.mu.Unlock()
	from.Retire()
	go func() { // ends with the session
		<-from.Done()
		c.mu.Lock()
		delete(c.retired, from)
		c.mu.Unlock()
	}()
}

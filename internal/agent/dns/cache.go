package dns

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"berth"
)

// staleFor is how long the last answer is given while servers do not answer:
// tasks go on without them, so their names do as well.
const staleFor = time.Hour

// maxCached bounds the services that are remembered.
const maxCached = 10_000

// cache remembers the instances of services. It asks once for all who wait for
// the same service.
type cache struct {
	ttl time.Duration

	asking singleflight.Group
	mu     sync.Mutex
	known  map[string]cached
}

// cached is what servers said of a service.
type cached struct {
	at   time.Time
	list []berth.ServiceRegistration
}

// get returns the instances of a service, at most as old as the TTL if servers
// answer.
func (c *cache) get(ctx context.Context, namespace, name string, lookup func(context.Context, string, string) ([]berth.ServiceRegistration, error)) ([]berth.ServiceRegistration, error) {
	key := namespace + "\x00" + name
	c.mu.Lock()
	old, have := c.known[key]
	c.mu.Unlock()
	if have && time.Since(old.at) < c.ttl {
		return old.list, nil
	}
	// The question outlives the one who asked first: others may wait for it.
	asked := c.asking.DoChan(key, func() (any, error) {
		own, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookupTime)
		defer cancel()
		list, err := lookup(own, namespace, name)
		if err == nil {
			c.put(key, cached{time.Now(), list})
		}
		return list, err
	})
	select {
	case r := <-asked:
		if r.Err == nil {
			return r.Val.([]berth.ServiceRegistration), nil
		}
		if have && time.Since(old.at) < staleFor {
			return old.list, nil
		}
		return nil, r.Err
	case <-ctx.Done():
		if have && time.Since(old.at) < staleFor {
			return old.list, nil
		}
		return nil, ctx.Err()
	}
}

// put remembers an answer. When there are too many, what is too old to be given
// goes, and if that is nothing, all.
func (c *cache) put(key string, v cached) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) >= maxCached {
		for k, old := range c.known {
			if time.Since(old.at) > c.ttl {
				delete(c.known, k)
			}
		}
		if len(c.known) >= maxCached {
			clear(c.known)
		}
	}
	if c.known == nil {
		c.known = map[string]cached{}
	}
	c.known[key] = v
}

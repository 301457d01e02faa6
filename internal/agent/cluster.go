package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"berth"
	"berth/internal/peer"
	"berth/internal/wire"
	"berth/op"
)

// Cluster is the servers over the wire: it keeps a session to one of them and
// goes to another when that one fails. Over the session servers can call the
// agent in return. It implements [Servers].
type Cluster struct {
	seeds    []string // of the configuration; always worth a try
	log      *slog.Logger
	handlers *wire.Server
	dialer   wire.Dialer

	dialing sync.Mutex // one session at a time

	mu      sync.Mutex
	addrs   []string      // in the order to try them
	named   []string      // those that servers gave for themselves, unlike seeds one for each
	session *wire.Session // nil if there is none
	at      string        // its address
	due     time.Time     // when the agent may go to another server; see spread
	retired map[*wire.Session]bool
	closed  bool // for good

	pick func(n int) int // a random number below n
}

// answerTime is how long a server may take to answer what does not wait for
// news. It holds a call for 5 s when no leader is known. One that takes longer
// is stuck, and the node would be taken for lost if it had only that one.
const answerTime = 8 * time.Second

// dialTime bounds the search for one server.
const dialTime = 5 * time.Second

// NewCluster returns the servers of the region that can be found at the
// addresses, host and port, or that those name. secure is for TLS; nil: none.
func NewCluster(addrs []string, region string, secure *tls.Config, log *slog.Logger) *Cluster {
	handlers := wire.New(wire.Config{Log: log, Region: region})
	c := &Cluster{
		seeds: slices.Clone(addrs), log: log, handlers: handlers, addrs: slices.Clone(addrs),
		dialer: wire.Dialer{Handlers: handlers, TLS: secure}, retired: map[*wire.Session]bool{}, pick: rand.IntN,
	}
	rand.Shuffle(len(c.addrs), func(i, j int) { c.addrs[i], c.addrs[j] = c.addrs[j], c.addrs[i] })
	return c
}

// Attach implements [Servers].
func (c *Cluster) Attach(a *Agent) {
	for _, register := range a.serving.wires {
		register(c.handlers)
	}
}

// Connect returns a way to a server for what people ask this agent and it cannot
// answer itself.
func (c *Cluster) Connect(ctx context.Context) (peer.Conn, error) {
	s, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	return peer.OfAgent(s), nil
}

// Call implements [Servers]. It asks another server if one cannot be reached:
// every call of an agent may be repeated. Each server is tried once.
func (c *Cluster) Call(ctx context.Context, method string, in, out any) error {
	c.mu.Lock()
	tries := max(1, len(c.addrs))
	c.mu.Unlock()
	var errs []error
	for range tries {
		s, err := c.connect(ctx)
		if err == nil {
			if err = ask(ctx, s, method, in, out); err == nil {
				if a, ok := out.(*op.NodeAnswer); ok {
					c.learn(a.Servers)
					c.spread(time.Now(), int(a.NumNodes))
				}
				return nil
			}
		}
		// A server without a leader may be cut off from one that others know.
		k := berth.KindOf(err)
		if ctx.Err() != nil || k != berth.Unavailable && (k != berth.NoLeader || tries == 1) {
			return err
		}
		errs = append(errs, err)
		c.leave(s)
	}
	return errors.Join(errs...)
}

// ask calls a method at one server, and takes one that does not answer in time
// for one that cannot be reached.
func ask(ctx context.Context, s *wire.Session, method string, in, out any) error {
	if w, ok := in.(wire.Waiter); ok && w.Wait() > 0 {
		return s.Call(ctx, method, in, out)
	}
	within, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	err := s.Call(within, method, in, out)
	if within.Err() != nil && ctx.Err() == nil && err != nil {
		return berth.Errorf(berth.Unavailable, "%s: the server has not answered for %v", method, answerTime)
	}
	return err
}

// connect returns the session, or opens one to the next server.
func (c *Cluster) connect(ctx context.Context) (*wire.Session, error) {
	c.dialing.Lock()
	defer c.dialing.Unlock()
	// One dials at a time; those who waited find its session.
	c.mu.Lock()
	s, closed := c.session, c.closed
	var addr string
	if len(c.addrs) > 0 {
		addr = c.addrs[0]
	}
	c.mu.Unlock()
	switch {
	case closed:
		return nil, berth.Errorf(berth.Unavailable, "the agent ends")
	case s != nil:
		return s, nil
	case addr == "":
		return nil, berth.Errorf(berth.Unavailable, "no server is known")
	}
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	s, err := c.dialer.Dial(ctx, addr)
	c.mu.Lock()
	defer c.mu.Unlock()
	// The next attempt goes to another server.
	if err != nil {
		c.last(addr)
		return nil, berth.Errorf(berth.Unavailable, "%w", err)
	}
	c.session, c.at = s, addr
	return s, nil
}

// last puts an address behind the others. The caller holds mu.
func (c *Cluster) last(addr string) {
	if i := slices.Index(c.addrs, addr); i >= 0 {
		c.addrs = append(slices.Delete(c.addrs, i, i+1), addr)
	}
}

// leave gives up a session that failed, unless another caller has.
func (c *Cluster) leave(s *wire.Session) {
	if s == nil {
		return
	}
	c.mu.Lock()
	if c.session == s {
		c.last(c.at)
		c.session = nil
	}
	c.mu.Unlock()
	_ = s.Close()
}

// learn takes over the servers that one has named.
func (c *Cluster) learn(servers []op.ServerAddr) {
	if len(servers) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var wanted []string
	for _, s := range servers {
		if s.RPCAdvertiseAddr != "" && !slices.Contains(wanted, s.RPCAdvertiseAddr) {
			wanted = append(wanted, s.RPCAdvertiseAddr)
		}
	}
	c.named = slices.Clone(wanted)
	for _, s := range c.seeds {
		if !slices.Contains(wanted, s) {
			wanted = append(wanted, s)
		}
	}
	kept := slices.DeleteFunc(slices.Clone(c.addrs), func(a string) bool { return !slices.Contains(wanted, a) })
	for _, a := range wanted {
		if !slices.Contains(kept, a) {
			kept = append(kept, a)
		}
	}
	c.addrs = kept
}

// Close implements [Servers].
func (c *Cluster) Close() {
	c.mu.Lock()
	all := slices.Collect(maps.Keys(c.retired))
	if c.session != nil {
		all = append(all, c.session)
	}
	c.session, c.closed = nil, true
	c.mu.Unlock()
	for _, s := range all {
		_ = s.Close()
	}
}

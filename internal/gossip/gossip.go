// Package gossip tracks the servers of all regions. Servers tell each other
// over serf who they are, who joined, who left and who failed. Clients do not
// gossip.
//
// A pool admits only servers of this system, only those of one cluster per
// region, and only one server per name. In an encrypted pool a server without a
// key can neither join nor read messages. Members publish no secrets. What
// follows from a member joining or leaving is decided elsewhere (package
// server); nothing here knows of Raft.
package gossip

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"berth"

	"github.com/hashicorp/memberlist"
	"github.com/hashicorp/serf/serf"
)

// Config configures how a server gossips and what it publishes about itself.
type Config struct {
	Name       string // of the agent; the member is "<name>.<region>"
	Region     string
	Datacenter string
	ID         string // the server's ID in Raft
	RPC        string // host:port of its RPC port
	Cluster    string // ID of its cluster; "" if it has none yet, see SetCluster
	Expect     int    // bootstrap_expect
	Voter      bool   // false if it never votes
	Build      string // its version as a semantic version
	Berth      string // its version for people; "" to publish none
	LogVersion int    // the log version that it supports; 0 to publish none

	Bind      string // an IP address
	Port      int    // UDP and TCP port; 0 means any free one
	Advertise string // host:port that others are told; "" means the address it listens on
	// Keys encrypt the gossip; the first is used to send, all are used to
	// receive. Without keys anyone who can reach the port can read and forge
	// messages. A keyring in Dir is newer and takes precedence.
	Keys [][]byte
	Dir  string // directory of the keyring and of the members to rejoin after a restart; "" to store nothing
	// RejoinAfterLeave lets a server that left rejoin the others when it is
	// started again. A server that was stopped without leaving always rejoins.
	RejoinAfterLeave bool

	MaxConns int // to the port at a time; 0: no limit
	Logger   *slog.Logger
	Timing   Timing // zero means LAN
}

// Pool is this server's membership among the servers.
type Pool struct {
	config  Config
	log     *slog.Logger
	self    string                    // name of the member
	serf    atomic.Pointer[serf.Serf] // nil until Start
	net     *transport
	host    string // advertised with port
	port    int
	ring    *memberlist.Keyring // nil: nothing is encrypted
	events  chan serf.Event
	changed chan struct{}
	running atomic.Bool
	calls   sync.WaitGroup         // calls that their callers may stop waiting for
	cluster atomic.Pointer[string] // newer than the one in config; nil if it has none yet
	logged  conflicts
}

// New returns a pool that listens and gossips. It is its only member, or
// contacts the members that it knew before it was stopped. Run or Close must
// follow.
func New(c Config) (*Pool, error) {
	p, err := Listen(c)
	if err != nil {
		return nil, err
	}
	if err := p.Start(); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// Listen returns a pool that has its address and its keys but sends nothing:
// until Start no other server hears of this one. Start or Close must follow; of
// the other methods only Members may be called before.
func Listen(c Config) (*Pool, error) {
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Timing == (Timing{}) {
		c.Timing = LAN
	}
	p := &Pool{
		config: c, log: c.Logger, self: c.Name + "." + c.Region,
		events: make(chan serf.Event, 1024), changed: make(chan struct{}, 1),
	}
	if c.Cluster != "" {
		p.cluster.Store(&c.Cluster)
	}
	if err := p.listen(); err != nil {
		return nil, fmt.Errorf("gossip: %w", err)
	}
	return p, nil
}

// listen prepares the keyring and the advertised address and opens the port. A
// port of zero in the configuration becomes the one that was opened.
func (p *Pool) listen() (err error) {
	c := &p.config
	if c.Dir != "" {
		if err := os.MkdirAll(c.Dir, 0o700); err != nil {
			return err
		}
	}
	if p.ring, err = c.keyring(); err != nil {
		return err
	}
	if p.host, p.port, err = c.advertised(); err != nil {
		return err
	}
	if p.net, err = listen(c.Bind, c.Port, c.MaxConns, p.log); err != nil {
		return err
	}
	p.port = cmp.Or(p.port, p.net.port())
	return nil
}

// Start makes this server known to the others. Run or Close must follow.
func (p *Pool) Start() error {
	c := &p.config
	logger := newLogger(p.log, c.knewOthers(p.self))
	m := memberlist.DefaultLANConfig()
	c.Timing.memberlist(m)
	m.Transport, m.BindAddr, m.BindPort, m.AdvertiseAddr, m.AdvertisePort = p.net, c.Bind, p.net.port(), p.host, p.port
	m.Keyring, m.Logger, m.LogOutput = p.ring, logger, nil
	// Both gates refuse strangers: when they exchange states, and when they are
	// announced.
	m.Merge, m.Alive = gate{p}, gate{p}
	s := serf.DefaultConfig()
	c.Timing.serf(s)
	s.MemberlistConfig, s.NodeName, s.Tags, s.EventCh, s.Logger, s.LogOutput = m, p.self, c.tags(), p.events, logger, nil
	// Serf would stop one of two servers with the same name by vote. The gates
	// report them instead.
	s.EnableNameConflictResolution, s.DisableCoordinates = false, true
	s.RejoinAfterLeave = c.RejoinAfterLeave
	// The snapshot lets a server find the others again after a restart.
	if c.Dir != "" {
		s.SnapshotPath = c.snapshotPath()
		if p.ring != nil {
			s.KeyringFile = c.keyringFile()
		}
	}
	made, err := serf.Create(s)
	if err != nil {
		return fmt.Errorf("gossip: %w", err)
	}
	p.serf.Store(made)
	return nil
}

// advertised returns the address that others are told; port 0 means the port it
// listens on.
func (c *Config) advertised() (host string, port int, err error) {
	if c.Advertise == "" {
		if ip := net.ParseIP(c.Bind); ip == nil || ip.IsUnspecified() {
			return "", 0, berth.Errorf(berth.Invalid, "the address to advertise is not set, and others cannot connect to %q", c.Bind)
		}
		return c.Bind, 0, nil
	}
	host, text, err := net.SplitHostPort(c.Advertise)
	if err == nil {
		port, err = strconv.Atoi(text)
	}
	if err != nil {
		return "", 0, berth.Errorf(berth.Invalid, "advertise %q: %w", c.Advertise, err)
	}
	if net.ParseIP(host) != nil {
		return host, port, nil
	}
	ips, err := net.LookupIP(host)
	if err != nil || len(ips) == 0 {
		return "", 0, fmt.Errorf("advertise %q: cannot resolve the name: %w", c.Advertise, err)
	}
	return c.reachable(ips).String(), port, nil
}

// reachable returns the first address of the family that the server listens on,
// or the first of all if none exists.
func (c *Config) reachable(ips []net.IP) net.IP {
	bind := net.ParseIP(c.Bind)
	for _, ip := range ips {
		if v4 := ip.To4() != nil; v4 == (bind.To4() != nil) || bind.Equal(net.IPv6unspecified) {
			return ip
		}
	}
	return ips[0]
}

// Run takes part in the pool until ctx ends and then stops at once. To the
// others the server has failed, unless it left before ([Pool.Leave]). Run
// returns when nothing of the pool is running any more.
func (p *Pool) Run(ctx context.Context) error {
	if !p.running.CompareAndSwap(false, true) {
		panic("gossip: Run called twice")
	}
	s := p.serf.Load()
	over := make(chan struct{})
	var g sync.WaitGroup
	g.Go(func() { p.watch(over) })
	var err error
	select {
	case <-ctx.Done():
	case <-s.ShutdownCh():
		err = errors.New("gossip: serf stopped unexpectedly")
	}
	p.net.hangUp()
	err = errors.Join(err, s.Shutdown())
	p.calls.Wait()
	close(over) // only now: until it is shut down, serf waits for the reader of its events
	g.Wait()
	return err
}

// Close ends a pool that was never run.
func (p *Pool) Close() error {
	if p.serf.Load() == nil {
		return p.net.Shutdown()
	}
	ctx, end := context.WithCancel(context.Background())
	end()
	return p.Run(ctx)
}

// watch reports members that joined, left or failed.
func (p *Pool) watch(over <-chan struct{}) {
	for {
		select {
		case <-over:
			return
		case e := <-p.events:
			if m, ok := e.(serf.MemberEvent); ok {
				p.logEvent(m)
				p.wake()
			}
		}
	}
}

// logEvent logs what happened to other servers. The level is a warning only for
// failures.
func (p *Pool) logEvent(e serf.MemberEvent) {
	for _, m := range e.Members {
		if m.Name == p.self {
			continue
		}
		addr := address(m.Addr, m.Port)
		switch e.Type {
		case serf.EventMemberJoin:
			p.log.Info("a server joined", "server", m.Name, "address", addr)
		case serf.EventMemberLeave:
			p.log.Info("a server left", "server", m.Name, "address", addr)
		case serf.EventMemberFailed:
			p.log.Warn("a server failed", "server", m.Name, "address", addr)
		case serf.EventMemberReap:
			p.log.Info("a server was removed after a long absence", "server", m.Name, "address", addr)
		}
	}
}

// wake reports that the members changed. It never blocks: signals that were not
// received yet count as one.
func (p *Pool) wake() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// Changed returns a channel that holds a token if members joined, left or
// changed since it was last read.
func (p *Pool) Changed() <-chan struct{} { return p.changed }

// Members returns the servers of all regions, sorted by name. Servers that left
// or failed are included for a day. Before Start the list is empty.
func (p *Pool) Members() []Member {
	s := p.serf.Load()
	if s == nil {
		return nil
	}
	var out []Member
	for _, m := range s.Members() {
		out = append(out, memberOf(&m))
	}
	slices.SortFunc(out, func(a, b Member) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Self returns this server as a member.
func (p *Pool) Self() Member {
	m := p.serf.Load().LocalMember()
	return memberOf(&m)
}

// SetCluster publishes the cluster that this server belongs to, once it belongs
// to one. Two servers of one region that belong to different clusters reject
// each other, because their logs have nothing in common.
func (p *Pool) SetCluster(id string) error {
	old := p.cluster.Swap(&id) // set it first: from here on servers of other clusters are rejected
	if old != nil && *old == id {
		return nil
	}
	c := p.config
	c.Cluster = id
	if err := p.serf.Load().SetTags(c.tags()); err != nil {
		p.cluster.Store(old)
		return fmt.Errorf("gossip: %w", err)
	}
	return nil
}

// Leave tells the others that this server leaves for good, and waits until they
// were told or ctx ends. After that it does not rejoin by itself, unless
// RejoinAfterLeave is set.
func (p *Pool) Leave(ctx context.Context) error {
	return p.call(ctx, func() error { return p.serf.Load().Leave() })
}

// ForceLeave declares that a failed member has left; with prune all members
// also forget it at once. A member that is alive refutes it. The name of a
// server of this region may omit the region.
func (p *Pool) ForceLeave(name string, prune bool) error {
	m, ok := p.find(name)
	switch {
	case !ok:
		return berth.Errorf(berth.NotFound, "no server named %q", name)
	case m.Name == p.self:
		return berth.Errorf(berth.Invalid, "cannot force this server itself, %s, to leave", m.Name)
	case prune:
		return p.prune(m.Name)
	}
	return p.serf.Load().RemoveFailedNode(m.Name)
}

// prune makes all members forget one. A member ignores a message with a Lamport
// time that is not later than the one it knows, and serf adds one to that time
// whenever two members exchange their whole state. So any other member may be
// ahead of this one, by up to the number of other members. Each message has a
// Lamport time one later, so it is sent until it is ahead of all.
func (p *Pool) prune(name string) error {
	for _, m := range p.Members() {
		if m.Status != Alive {
			continue
		}
		if err := p.serf.Load().RemoveFailedNodePrune(name); err != nil {
			return err
		}
	}
	return nil
}

// find returns the member with a name. The name may be without the region, if
// it is this server's own.
func (p *Pool) find(name string) (found Member, ok bool) {
	for _, m := range p.Members() {
		if m.Name == name || m.Name == name+"."+p.config.Region {
			return m, true
		}
	}
	return found, false
}

// call runs f, which cannot be interrupted, and waits for it or for ctx. Run
// waits for f in any case.
func (p *Pool) call(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	p.calls.Go(func() { done <- f() })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

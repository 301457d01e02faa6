// Package gossip knows which servers there are. Servers of all regions tell
// each other over serf who they are, who came, who left and who fell silent;
// agents do not gossip.
//
// What it keeps true: a pool only takes in servers of this system, only those
// of one cluster of a region, and only one of a name. Whoever does not hold a key of an encrypted pool neither
// joins it nor reads what it says. Members say no secrets of themselves. What
// follows from a member that came or went is decided elsewhere (package
// server): here nothing knows of Raft.
package gossip

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"berth"

	"github.com/hashicorp/memberlist"
	"github.com/hashicorp/serf/serf"
)

// Config is how a server gossips, and what it says of itself.
type Config struct {
	Name       string // of the agent; the member is "<name>.<region>"
	Region     string
	Datacenter string
	ID         string // by which consensus knows this server
	RPC        string // host:port at which its RPC port is reached
	Cluster    string // of which it is part; "": it is part of none yet, see SetCluster
	Expect     int    // bootstrap_expect
	Voter      bool   // false: it never votes
	Build      string // its version, as a semantic one
	Berth      string // its version, as people know it; "": it does not say
	LogDialect int    // the dialect of the log that it knows; 0: it does not say

	Bind      string // an IP address
	Port      int    // of UDP and TCP; 0: any that is free
	Advertise string // host:port that others are told; "" is the address it listens at
	// Keys encrypt; the first is used to send, all are used to read. None: what
	// is said can be read and forged by all who reach the port. A keyring in Dir
	// is newer than Keys, and wins.
	Keys [][]byte
	Dir  string // of the keyring and of whom to find again after a restart; "": nothing lasts
	// RejoinAfterLeave lets a server that left find the others again when it is
	// started anew. One that was stopped without leaving always does.
	RejoinAfterLeave bool

	Logger *slog.Logger
	Timing Timing // zero: LAN
}

// Pool is this server among the others.
type Pool struct {
	config  Config
	log     *slog.Logger
	self    string                    // name of the member
	serf    atomic.Pointer[serf.Serf] // nil until Start
	net     *transport
	host    string // that others are told, with the port
	port    int
	ring    *memberlist.Keyring // nil: nothing is encrypted
	events  chan serf.Event
	changed chan struct{}
	running atomic.Bool
	calls   sync.WaitGroup         // what callers wait for and may give up on
	cluster atomic.Pointer[string] // newer than what config says; nil: it is part of none yet
	told    conflicts
}

// New returns a pool that listens, and is its only member, or asks those whom
// it knew before it was stopped. Run or Close must follow.
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

// Listen returns a pool that has its address and its keys, and is silent: until
// Start nobody hears of this server. Start or Close must follow; of the other
// methods only Members may be called before.
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
	if p.net, err = listen(c.Bind, c.Port, newLogger(p.log)); err != nil {
		return err
	}
	p.port = cmp.Or(p.port, p.net.port())
	return nil
}

// Start lets the others hear of this server. Run or Close must follow.
func (p *Pool) Start() error {
	c, logger := &p.config, newLogger(p.log)
	m := memberlist.DefaultLANConfig()
	c.Timing.memberlist(m)
	m.Transport, m.BindAddr, m.BindPort, m.AdvertiseAddr, m.AdvertisePort = p.net, c.Bind, p.net.port(), p.host, p.port
	m.Keyring, m.Logger, m.LogOutput = p.ring, logger, nil
	m.Merge, m.Alive = gate{p}, gate{p}
	s := serf.DefaultConfig()
	c.Timing.serf(s)
	s.MemberlistConfig, s.NodeName, s.Tags, s.EventCh, s.Logger, s.LogOutput = m, p.self, c.tags(), p.events, logger, nil
	s.EnableNameConflictResolution, s.DisableCoordinates = false, true
	s.RejoinAfterLeave = c.RejoinAfterLeave
	if c.Dir != "" {
		s.SnapshotPath = filepath.Join(c.Dir, "snapshot")
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

// advertised returns what others are told; 0 is the port that it listens at.
func (c *Config) advertised() (host string, port int, err error) {
	if c.Advertise == "" {
		if ip := net.ParseIP(c.Bind); ip == nil || ip.IsUnspecified() {
			return "", 0, berth.Errorf(berth.Invalid, "an address to advertise is missing: %q is none that others could call", c.Bind)
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
		return "", 0, fmt.Errorf("advertise %q: the address of this name cannot be found: %w", c.Advertise, err)
	}
	return c.reached(ips).String(), port, nil
}

// reached returns the first of some addresses that is of the kind listened at;
// the first of all if there is none.
func (c *Config) reached(ips []net.IP) net.IP {
	bind := net.ParseIP(c.Bind)
	for _, ip := range ips {
		if v4 := ip.To4() != nil; v4 == (bind.To4() != nil) || bind.Equal(net.IPv6unspecified) {
			return ip
		}
	}
	return ips[0]
}

// Run is part of the pool until ctx ends, and then is gone at once: to the
// others the server failed, unless it left before ([Pool.Leave]). It returns
// when nothing of the pool is left.
func (p *Pool) Run(ctx context.Context) error {
	if !p.running.CompareAndSwap(false, true) {
		panic("gossip: Run was called twice")
	}
	s := p.serf.Load()
	over := make(chan struct{})
	var g sync.WaitGroup
	g.Go(func() { p.watch(over) })
	var err error
	select {
	case <-ctx.Done():
	case <-s.ShutdownCh():
		err = errors.New("gossip: it ended by itself")
	}
	p.net.hangUp()
	err = errors.Join(err, s.Shutdown())
	p.calls.Wait()
	close(over) // only now: until it is shut down, serf waits for whoever hears its events
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

// watch tells of members that came and went.
func (p *Pool) watch(over <-chan struct{}) {
	for {
		select {
		case <-over:
			return
		case e := <-p.events:
			if m, ok := e.(serf.MemberEvent); ok {
				p.tell(m)
				p.wake()
			}
		}
	}
}

func (p *Pool) tell(e serf.MemberEvent) {
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
			p.log.Warn("a server fell silent", "server", m.Name, "address", addr)
		case serf.EventMemberReap:
			p.log.Info("a server is forgotten", "server", m.Name, "address", addr)
		}
	}
}

func (p *Pool) wake() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// Changed holds a token when members came, went or changed since it was last
// taken.
func (p *Pool) Changed() <-chan struct{} { return p.changed }

// Members returns the servers of all regions, those that left or failed too
// until they are forgotten a day later, in order of name. Before Start there
// are none.
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

// Encrypted says whether there is a key.
func (p *Pool) Encrypted() bool { return p.ring != nil }

// SetCluster tells the others which cluster of its region this server is part
// of, once it is part of one. Two servers of one region that are parts of
// different clusters keep each other out: their logs have nothing in common.
func (p *Pool) SetCluster(id string) error {
	old := p.cluster.Swap(&id) // before it is told: nobody else is taken in from here on
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

// Leave tells the others that this server goes for good, and waits until they
// were told or ctx ends. Without RejoinAfterLeave it does not find them again
// by itself after that.
func (p *Pool) Leave(ctx context.Context) error {
	return p.call(ctx, func() error { return p.serf.Load().Leave() })
}

// ForceLeave declares that a failed member has left; with prune all members also
// forget it at once. A member that is alive refutes it. The region may be left
// out of the name of a server of this region.
func (p *Pool) ForceLeave(name string, prune bool) error {
	m, ok := p.find(name)
	switch {
	case !ok:
		return berth.Errorf(berth.NotFound, "no server is named %q", name)
	case m.Name == p.self:
		return berth.Errorf(berth.Invalid, "%s is this server itself; only another can be made to leave", m.Name)
	case prune:
		return p.prune(m.Name)
	}
	return p.serf.Load().RemoveFailedNode(m.Name)
}

// prune makes all members forget one. A member ignores news with a Lamport time
// that is not later than the one it knows, and serf adds one to that time
// whenever two members exchange their whole state. So any of the others may be
// ahead of this member, by as many steps as there are others. Each time the news
// is sent its Lamport time is one later; it is sent until it is ahead of all.
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

func (p *Pool) find(name string) (found Member, ok bool) {
	for _, m := range p.Members() {
		if m.Name == name || m.Name == name+"."+p.config.Region {
			return m, true
		}
	}
	return found, false
}

// call waits for what cannot be interrupted, or for ctx. Run waits for it in
// any case.
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

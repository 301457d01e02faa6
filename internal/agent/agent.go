// Package agent is one machine's life in the cluster: it tells servers what the
// machine is and that it lives, asks them what it shall run, runs that, and
// reports how it fares. It sees servers through one small interface and nothing
// else of them.
//
// What it keeps true: it runs what servers want of its node and nothing else;
// it never acts on an answer older than one it has acted on, and stops nothing
// unless it was told to or it is gone from an answer newer than itself; what
// happened to an allocation is reported until servers have taken it; and to
// restart the agent, or to kill it anywhere, disturbs no task and loses nothing
// of this. Its parts stand in the packages below; here they are put together.
package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"berth"
	"berth/internal/agent/alloc"
	"berth/internal/agent/cloud"
	"berth/internal/agent/csi"
	"berth/internal/agent/dns"
	"berth/internal/agent/driver"
	"berth/internal/agent/driver/docker"
	"berth/internal/agent/driver/isolated"
	"berth/internal/agent/driver/podman"
	"berth/internal/agent/driver/raw"
	"berth/internal/agent/fetch"
	"berth/internal/agent/fingerprint"
	"berth/internal/agent/host"
	"berth/internal/agent/hostvolume"
	"berth/internal/agent/local"
	"berth/internal/agent/network"
	"berth/internal/agent/plugin"
	"berth/internal/agent/ship"
	"berth/internal/agent/supervise"
	"berth/internal/agent/task"
	"berth/internal/claim"
	"berth/internal/saferoot"
	"berth/op"
)

// Servers are the servers as an agent sees them. A call returns when it is
// answered, has failed, or ctx ends. Errors have their kinds: NotFound of
// op.NodeRegister and op.NodeBeat means that the servers do not know the node.
type Servers interface {
	op.Caller
	// Attach lets servers call the agent in return: for the output of tasks, and
	// to restart and signal them.
	Attach(*Agent)
	// Close ends all calls for good.
	Close()
}

// Config is what an agent is told. Zero values are the defaults, except for
// Servers and DataDir.
type Config struct {
	Servers  Servers
	DataDir  string   // AllocDir and StateDir are made in it unless they are set
	AllocDir string   // of the allocations' directories
	StateDir string   // of what the agent must know after a restart
	Folders  *Folders // AllocDir and StateDir, held, which New takes over; nil: New holds them

	Region     string // berth.DefaultRegion
	Datacenter string // dc1
	Name       string // of the node; the host's
	NodeClass  string // "" is no class
	NodePool   string // berth.DefaultNodePool
	Meta       map[string]string
	HTTPAddr   string // where the agent's HTTP API is reached, as the node tells it
	TLSEnabled bool   // whether by https
	Version    string // of this program
	Compatible string // what ${attr.nomad.version} says

	NetworkInterface string                       // see fingerprint.Config
	LoopbackOnly     bool                         // ports are given on 127.0.0.1
	MaxAllocs        int                          // that run at a time; 0 is any number
	Clouds           map[string]cloud.Fingerprint // that are asked for attributes, by the label of their block
	CPUTotalCompute  int                          // MHz; 0 is what is found, as are the two below
	MemoryTotalMB    int
	DiskTotalMB      int
	HostUUID         bool // the ID of a new node is made from that of the machine
	DiskFreeMB       int  // what allocations can have of the disk; 0 is what is free
	PreferIPv6       bool // ports are given on an IPv6 address, if the interface has one
	OwnAddressOnly   bool // ports of the default host network that are mapped are open on the node's own address only
	Reserved         berth.NodeReservedResources
	ReservableCores  []uint16 // nil is all
	HostVolumes      map[string]berth.HostVolumeInfo
	// HostVolumesDir has the volumes that plugins make, "" is host_volumes beside
	// AllocDir; HostVolumePluginDir has the plugins, with "", only mkdir is there.
	HostVolumesDir, HostVolumePluginDir string
	SecretProviderDir                   string // has the programs that secrets of tasks come from; "": there are none

	HostNetworks   map[string]berth.HostNetworkInfo
	Networks       network.Config // how networks of groups are made; StateDir is filled in. Without plugins there are none
	DNS            DNSConfig
	LogSinks       map[string]ship.Config // where output of tasks is sent, by name
	MinDynamicPort int                    // 0 is berth.MinDynamicPort
	MaxDynamicPort int                    // 0 is berth.MaxDynamicPort; in the range
	CgroupParent   string                 // berth.slice; "-" for no cgroup

	RawExec    raw.Config
	Exec       isolated.Config // of the driver exec
	Java       isolated.Config
	Qemu       isolated.QemuConfig
	MockDriver bool     // whether mock_driver may start tasks
	Drivers    []string // only these drivers may start tasks; nil is all
	NoDrivers  []string // and not these
	// PluginDir has the programs of external drivers and device plugins, and
	// Plugins what their blocks say, by the program.
	PluginDir string
	Plugins   map[string]plugin.Block
	// Docker and Podman are nil in an agent without the driver. Their node and log
	// are set here.
	Docker *docker.Config
	Podman *podman.Config

	// StopTasksOnExit ends all tasks when Run ends, as a development agent
	// does. Otherwise they stay.
	StopTasksOnExit bool
	// MaxKillTimeout bounds how long a task may take to end, whatever its job
	// says; 0 is no bound.
	MaxKillTimeout time.Duration
	IntroToken     string // introduces a new node; "" is what intro_token.jwt in StateDir says, if anything
	// TaskAPI serves the HTTP API on a task's own socket until the listener is
	// closed; nil: tasks have none. who names the task, for people.
	TaskAPI func(ln net.Listener, who string)
	// Artifacts says what fetching may take; its command and cache are filled in.
	Artifacts     fetch.Config
	DenyFunctions []string // functions that templates may not use, beside those that none may
	// TemplateWait is for templates without a wait block, TemplateWaitBounds for
	// those with one; nil: there are none.
	TemplateWait, TemplateWaitBounds *berth.WaitConfig
	GC                               GC   // when directories of ended allocations are removed
	LimitDisks                       bool // fail allocations that outgrow their ephemeral_disk
	// SecretsInMemory mounts the directory of secrets of each task in memory, if
	// this process may mount.
	SecretsInMemory bool

	// Diagnostics looks into this process; nil: nothing does.
	Diagnostics Diagnostics

	Supervisor []string // command of a supervisor; nil is this executable with the argument supervise
	// SharedBy is how many allocations share a supervisor's process; 0 is
	// [DefaultShared].
	SharedBy int
	Log      *slog.Logger
}

// DefaultShared is how many allocations share a supervisor's process: few enough
// that one that is killed takes little with it, docs/decisions/0009.
const DefaultShared = 16

// defaultCgroup is the parent of the tasks' cgroups.
const defaultCgroup = "berth.slice"

// complete checks the configuration and fills in defaults. New calls it before
// anything else looks at the configuration.
func (c *Config) complete() error {
	if c.Servers == nil {
		return berth.Errorf(berth.Invalid, "agent: no servers are given")
	}
	if c.DataDir == "" && (c.AllocDir == "" || c.StateDir == "") {
		return berth.Errorf(berth.Invalid, "agent: data_dir is missing")
	}
	for name, dir := range map[string]*string{"alloc": &c.AllocDir, "client": &c.StateDir} {
		*dir = cmp.Or(*dir, filepath.Join(c.DataDir, name))
		if !filepath.IsAbs(*dir) {
			return berth.Errorf(berth.Invalid, "agent: %q must be an absolute path", *dir)
		}
	}
	low, high := cmp.Or(c.MinDynamicPort, berth.MinDynamicPort), cmp.Or(c.MaxDynamicPort, berth.MaxDynamicPort)
	if low < 1 || high > berth.MaxPort || low > high {
		return berth.Errorf(berth.Invalid, "agent: dynamic ports %d to %d: want a range within 1 to %d", low, high, berth.MaxPort)
	}
	if err := checkInterface(c.NetworkInterface); err != nil {
		return err
	}
	c.Region = cmp.Or(c.Region, berth.DefaultRegion)
	c.GC.complete()
	c.volumeDirs()
	switch c.CgroupParent {
	case "":
		c.CgroupParent = defaultCgroup
	case "-":
		c.CgroupParent = ""
	}
	if c.CgroupParent != "" {
		if err := saferoot.Name(c.CgroupParent); err != nil {
			return fmt.Errorf("agent: cgroup_parent: %w", err)
		}
	}
	c.Log = cmp.Or(c.Log, slog.Default())
	return nil
}

// Agent is one agent. New makes it, Run runs it once; the other methods may be
// called from anywhere at any time.
type Agent struct {
	c       Config
	log     *slog.Logger
	drivers map[string]driver.Driver // by name
	id      berth.NodeID
	secret  string // proves to servers that a request is the node's own

	identity nodeIdentity

	dirs    *saferoot.Root // of the allocations
	db      *local.DB      // from Run on
	reports *reporter

	pool     *supervise.Pool // of supervisors; nil: each allocation has one of its own
	services *registry
	fetcher  *fetch.Fetcher
	serving  *serving            // what servers may ask
	volumes  *hostvolume.Volumes // dynamic host volumes
	plugins  *plugins
	csi      *csi.Manager      // plugins, and what they have mounted
	restored atomic.Bool       // what an earlier agent ran is known
	networks *network.Networks // nil if this agent makes none
	dns      *dns.Server       // nil if this agent answers no names
	sinks    logSinks
	execs    running // commands beside tasks
	forwards running // connections to their ports

	secretsInMemory bool

	meter     *host.Meter   // measures the machine
	someEnded chan struct{} // has one element when an allocation has ended

	metaTurn sync.Mutex         // one changes the metadata at a time; taken before mu
	meta     map[string]*string // the changes; see changedMeta

	registered chan struct{} // closed when servers know the node
	contacted  chan struct{} // closed when one of their answers was acted on

	lives context.Context // of the allocations' runners: ends after Run's own
	wait  sync.WaitGroup  // for the runners, and what clears up after them

	contact contact // with servers

	mu            sync.Mutex
	node          *berth.Node        // replaced, never changed in place
	allocs        map[string]*held   // by ID; also those that have ended
	acted         uint64             // the highest index of an answer acted on
	waiting       map[string]bool    // allocations that wait for those preempted for them
	ttl           time.Duration      // of the last heartbeat
	contactTTL    time.Duration      // of the last contact, also of an earlier agent's; 0 is not known
	lastHeartbeat time.Time          // when servers last answered
	change        chan struct{}      // closed and replaced when node was
	driverNews    []*berth.NodeEvent // that servers were not told yet
}

// New reads the node's identity, which it makes if need be, and describes the
// machine. It has its directories to itself until Run has returned.
func New(c Config) (*Agent, error) {
	err := c.complete()
	if err == nil && c.Folders == nil {
		c.Folders, err = Hold(c.StateDir, c.AllocDir, claim.ForRestart(c.Log))
	}
	if err != nil {
		return nil, err
	}
	a := &Agent{
		c: c, log: c.Log, allocs: map[string]*held{}, waiting: map[string]bool{}, reports: newReporter(), services: newRegistry(),
		registered: make(chan struct{}), contacted: make(chan struct{}), change: make(chan struct{}), someEnded: make(chan struct{}, 1),
		drivers: c.drivers(), contact: contact{clock: bootClock},
	}
	if a.id, a.secret, err = local.Identity(c.StateDir, c.HostUUID, a.log); err != nil {
		err = fmt.Errorf("identity of the node: %w", err)
	} else {
		a.dirs, err = saferoot.Open(c.AllocDir)
	}
	if err != nil {
		return nil, errors.Join(err, c.Folders.Close())
	}
	c.Artifacts.Command, c.Artifacts.Cache = c.Supervisor, filepath.Join(c.StateDir, "artifacts")
	a.fetcher = fetch.New(c.Artifacts)
	a.addContainers()
	if err := a.openPlugins(context.Background()); err != nil {
		return nil, errors.Join(err, c.Folders.Close())
	}
	if c.Networks.Bridge != "" {
		c.Networks.StateDir, c.Networks.Resolver = filepath.Join(c.StateDir, "networks"), c.DNS.Enabled
		if a.networks, err = network.New(c.Networks); err != nil {
			return nil, errors.Join(err, a.plugins.close(), c.Folders.Close())
		}
		a.c.Networks = c.Networks
	}
	if err := errors.Join(a.openSinks(), a.listenDNS()); err != nil {
		return nil, errors.Join(err, a.plugins.close(), c.Folders.Close())
	}
	a.secretsInMemory = a.trySecrets()
	a.pool = supervise.NewPool(cmp.Or(c.SharedBy, DefaultShared))
	a.loadMeta()
	a.loadIdentity()
	a.openVolumes()
	a.openCSI()
	a.node = a.describe(context.Background())
	a.plugins.devices.Notify(a.devicesChanged)
	a.meter = host.New(a.dirs.Path(), speed(a.node))
	a.serving = a.serve()
	c.Servers.Attach(a)
	return a, nil
}

// describe looks at the machine.
func (a *Agent) describe(ctx context.Context) *berth.Node {
	c := &a.c
	n := fingerprint.Node(ctx, &fingerprint.Config{
		ID: a.id, Secret: a.secret, Name: c.Name, Datacenter: c.Datacenter, NodeClass: c.NodeClass, NodePool: c.NodePool, Meta: mergedMeta(c.Meta, a.meta),
		HTTPAddr: c.HTTPAddr, TLSEnabled: c.TLSEnabled, Version: c.Version, NomadVersion: c.Compatible, CgroupParent: c.CgroupParent, MaxAllocs: c.MaxAllocs,
		Interface: c.NetworkInterface, Loopback: c.LoopbackOnly,
		CPUTotalCompute: c.CPUTotalCompute, MemoryTotalMB: c.MemoryTotalMB, DiskTotalMB: c.DiskTotalMB, DiskFreeMB: c.DiskFreeMB, PreferIPv6: c.PreferIPv6, Reserved: c.Reserved,
		ReservableCores: c.ReservableCores, HostVolumes: c.HostVolumes, HostNetworks: c.HostNetworks,
		MinDynamicPort: c.MinDynamicPort, MaxDynamicPort: c.MaxDynamicPort, Groups: a.offer(ctx), Bridge: c.Networks.Bridge,
	}, a.dirs, a.drivers, a.log)
	a.addVolumes(ctx, n)
	stampDrivers(n.Drivers, nil, time.Now())
	n.Attributes["storage.secrets"] = "disk"
	if a.secretsInMemory {
		n.Attributes["storage.secrets"] = "memory"
	}
	n.NodeResources.Devices = a.plugins.devices.Groups()
	n.CSIControllerPlugins, n.CSINodePlugins = a.csi.Plugins()
	return n
}

// NodeID returns the node's ID.
func (a *Agent) NodeID() berth.NodeID { return a.id }

// Node returns the node as it is told to servers. It must not be changed.
func (a *Agent) Node() *berth.Node {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.node
}

// Run runs the agent until ctx ends, or the state directory cannot be used.
// Tasks stay, unless StopTasksOnExit is set.
func (a *Agent) Run(ctx context.Context) error {
	defer a.c.Folders.Close()
	defer a.dirs.Close()
	defer a.c.Servers.Close()
	db, records, damage, err := local.Open(a.c.StateDir, a.log)
	if err != nil {
		return fmt.Errorf("agent state: %w", err)
	}
	defer db.Close()
	a.db = db
	for _, d := range damage {
		a.log.Warn("the agent's record of an allocation is damaged and was set aside", "alloc", d.ID, "error", d.Err)
	}
	// What is done for tasks outlives ctx: when the agent ends, the tasks are
	// let go of in order.
	lives, end := context.WithCancel(context.WithoutCancel(ctx))
	defer a.plugins.close()
	defer a.pool.Close()
	defer a.wait.Wait()
	defer end()
	a.lives = lives
	// What was recorded is taken up before servers are asked, so that nothing
	// that runs is started twice.
	a.loadContact()
	a.restore(records)
	a.restored.Store(true)

	// When one of these ends, all do.
	g, gctx := errgroup.WithContext(ctx)
	for _, f := range []func(context.Context) error{a.keepRegistered, a.watchAllocs, a.report, a.registerServices, a.watchDrivers, a.watchContainers, a.tidy, a.collect, a.serveDNS, a.shipLogs, a.returnToWork, a.limitDisks, a.csi.Run, a.askClouds} {
		g.Go(func() error { return f(gctx) })
	}
	err = g.Wait()
	if a.c.StopTasksOnExit {
		a.stopAll(lives)
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// restore takes up the allocations that an earlier agent ran.
func (a *Agent) restore(records []local.Record) {
	var all []*held
	for _, r := range records {
		if err := alloc.Check(r.Alloc); err != nil {
			a.log.Warn("an allocation's record is not whole", "error", err)
			continue
		}
		a.mu.Lock()
		a.acted = max(a.acted, r.Alloc.ModifyIndex)
		a.mu.Unlock()
		if r.Alloc.ClientStatus != berth.ClientUnknown { // else it may be that they were not told again
			a.reports.taken(r.ID, r.Reported)
		}
		all = append(all, a.enter(r.Alloc, r.Tasks))
	}
	a.sweepNetworks()
	for _, h := range all { // once all are known: one may wait for another
		a.run(h)
	}
}

// enter makes an allocation's runner. restored is nil for one that is new.
func (a *Agent) enter(al *op.Alloc, restored map[string][]byte) *held {
	id := al.ID.String()
	h := &held{alloc: al, runner: alloc.New(alloc.Config{
		Dirs: a.dirs, Drivers: a.drivers, Command: a.c.Supervisor, Pool: a.pool, Restored: restored, Contacted: a.contacted,
		Place: func(dir string) *task.Place {
			return &task.Place{AllocDir: dir, Node: a.Node(), Region: a.c.Region, Host: hostEnv(), Cgroup: a.c.CgroupParent, MaxKill: a.c.MaxKillTimeout, SecretsInMemory: a.secretsInMemory}
		},
		Save:      func(name string, state []byte) error { return a.db.PutTask(id, name, state) },
		Report:    func(n *op.AllocReport) { a.reports.put(n) },
		Preempted: a.preempted, Contact: func() (time.Time, bool) { return *a.contact.at.Load(), a.contact.own.Load() },
		Chance: rand.Float64, Sign: a.sign, Inputs: a.inputs(), Reserve: a.reserve, TaskAPI: a.c.TaskAPI, Networks: a.groupNetworks(), OwnAddressOnly: a.c.OwnAddressOnly, Disk: a.takeDisk, Volumes: a.mountVolumes, Plugins: a.csi, Registry: a.services, Turns: a.turn, Stream: peers{a, al.ID}, Log: a.log,
	}, al)}
	a.mu.Lock()
	a.allocs[id] = h
	a.mu.Unlock()
	return h
}

// run has an allocation's runner run.
func (a *Agent) run(h *held) {
	a.followLogs(h.alloc)
	a.watchPlugins(h)
	a.wait.Go(func() {
		_ = h.runner.Run(a.lives) // nil, or the context's own error
		a.mu.Lock()
		h.ended = time.Now()
		a.mu.Unlock()
		a.csi.Kick()
		select {
		case a.someEnded <- struct{}{}:
		default:
		}
		a.admitWaiting()
	})
}

// hostEnv is the part of this process's environment that tasks see.
var hostEnv = sync.OnceValue(task.OwnEnv)

// stopAll ends every task and waits until they have, for at most as long as
// the slowest may take.
func (a *Agent) stopAll(ctx context.Context) {
	// The agent waits as long as the slowest task may take.
	longest := 5 * time.Second
	var all []*alloc.Runner
	a.mu.Lock()
	for _, h := range a.allocs {
		if h.runner == nil {
			continue
		}
		all = append(all, h.runner)
		for _, t := range h.alloc.Job.Group(h.alloc.TaskGroup).Tasks {
			longest = max(longest, t.KillTimeout)
		}
	}
	a.mu.Unlock()
	// All are told before the first is waited for: they end at the same time.
	for _, r := range all {
		r.Stop("the agent ends", true)
	}
	ctx, cancel := context.WithTimeout(ctx, longest+10*time.Second)
	defer cancel()
	for _, r := range all {
		select {
		case <-r.Done():
		case <-ctx.Done():
			a.log.Warn("tasks did not end in time and stay", "node", a.id)
			return
		}
	}
}

package cli

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"time"

	"berth"
	"berth/internal/agent"
	"berth/internal/api"
	"berth/internal/config"
	"berth/internal/consensus"
	"berth/internal/events"
	"berth/internal/failpoint"
	"berth/internal/gossip"
	"berth/internal/leader"
	"berth/internal/leader/collector"
	"berth/internal/leader/heartbeat"
	"berth/internal/schedule"
	"berth/internal/server"
	"berth/internal/state"
	"berth/internal/wire/certs"
	"berth/op"

	"golang.org/x/sync/errgroup"
)

// agentProcess is what an agent's configuration asks for, put together: the
// server and the node, each if it is wanted, and the HTTP API before them.
type agentProcess struct {
	conf    *config.Config
	log     *slog.Logger
	tls     *certs.Material // nil if there is no TLS
	http    net.Listener
	rpc     net.Listener   // nil without a server
	pool    *gossip.Pool   // nil without a server, and in development
	folder  *server.Folder // nil without a server
	folders *agent.Folders // nil without a node
	server  *server.Server
	cluster *agent.Cluster
	agent   *agent.Agent
	handler http.Handler
	started time.Time
}

// newAgentProcess opens everything that can fail: folders, addresses, the log.
func newAgentProcess(conf *config.Config, log *slog.Logger) (*agentProcess, error) {
	a := &agentProcess{conf: conf, log: log, started: time.Now()}
	if err := a.open(); err != nil {
		a.close()
		return nil, err
	}
	return a, nil
}

// open opens what only this machine sees before what others see: an agent that
// is started twice by mistake, or whose folder is damaged, is never heard of.
func (a *agentProcess) open() (err error) {
	conf := a.conf
	if err := a.loadTLS(); err != nil {
		return err
	}
	if conf.Server.Enabled {
		if a.folder, err = server.Hold(conf.Server.DataDir); err != nil {
			return err
		}
	}
	if conf.Client.Enabled {
		if a.folders, err = agent.Hold(conf.Client.StateDir, conf.Client.AllocDir); err != nil {
			return err
		}
	}
	if a.http, err = listen("ports.http", conf.HTTP); err != nil {
		return err
	}
	if conf.Server.Enabled {
		if a.rpc, err = listen("ports.rpc", conf.RPC); err != nil {
			return err
		}
	}
	if conf.Client.Enabled {
		if err := a.newNode(); err != nil {
			return err
		}
	}
	if conf.Server.Enabled {
		if err := a.newServer(); err != nil {
			return err
		}
		a.handler = a.server.Handler()
		return nil
	}
	a.handler = api.NewAgent(api.AgentConfig{
		Region: conf.Region, Logger: a.log, Self: a.self, Health: a.health, Metrics: server.ProcessMetrics(),
		Has: a.agent.Has, Logs: a.agent, Node: a.agent.NodeID, Dial: a.cluster.Tunnel, Servers: a.cluster,
	})
	return nil
}

// listen says which key is to blame when an address is taken. Every address of
// IPv4 is not every address of IPv6.
func listen(key string, e config.Endpoint) (net.Listener, error) {
	network := "tcp"
	if net.ParseIP(e.Addr).To4() != nil {
		network = "tcp4"
	}
	ln, err := net.Listen(network, e.Listen())
	if err != nil {
		return nil, berth.Errorf(berth.Invalid, "%s: %w", key, err)
	}
	return ln, nil
}

// close lets go of what others see. The rest ends with the process.
func (a *agentProcess) close() {
	for _, ln := range []net.Listener{a.http, a.rpc} {
		if ln != nil {
			ln.Close()
		}
	}
	if a.pool != nil {
		a.pool.Close()
	}
}

func (a *agentProcess) newServer() (err error) {
	s := &a.conf.Server
	c := server.Config{
		Region: a.conf.Region, Datacenter: a.conf.Datacenter, DataDir: s.DataDir, Folder: a.folder, RPC: a.rpc, Advertise: a.conf.RPC.Advertise, TLS: a.serverTLS(),
		MaxConns: a.conf.Limits.RPCMaxConns, Handshake: a.conf.Limits.RPCHandshake, Workers: s.NumSchedulers, FollowerWorkers: s.NumSchedulers, Schedulers: s.Schedulers,
		Heartbeat: heartbeat.Options{
			MinTTL: s.MinHeartbeatTTL, MaxPerSec: s.MaxHeartbeatsPerSec, Grace: s.HeartbeatGrace, FailoverTTL: s.FailoverHeartbeatTTL,
			Brake: heartbeat.Brake{
				Nodes: s.SilenceBrakeNodes, Share: float64(s.SilenceBrakePercent) / 100, Window: heartbeat.DefaultBrake.Window, Pace: s.SilenceBrakePace,
			},
		},
		Collect: collector.Options{Interval: s.JobGCInterval, Ages: schedule.Ages{
			Evals: s.EvalGCThreshold, BatchEvals: s.BatchEvalGCThreshold, Jobs: s.JobGCThreshold, Nodes: s.NodeGCThreshold,
			Deployments: s.DeploymentGCThreshold,
		}},
		Consensus: consensus.Config{
			Timing: consensus.Multiplied(s.RaftMultiplier), SnapshotEvery: uint64(s.RaftSnapshotThreshold),
			SnapshotInterval: s.RaftSnapshotInterval, TrailingLogs: uint64(s.RaftTrailingLogs),
		},
		Events: events.Limits{Sets: s.EventBufferSize}, Scheduler: s.Scheduler, Autopilot: &s.Autopilot, TrackedVersions: s.TrackedVersions, Logger: a.log, Self: a.self, Health: a.health,
	}
	if a.agent != nil {
		c.Local, c.LocalTasks, c.LocalNode, c.LocalServers = a.agent, a.agent, a.agent.NodeID, a.cluster
	}
	if s.Failpoints {
		c.Failpoints = failpoint.NewSet(leader.FailpointNames)
	}
	if c.Cluster, err = a.openGossip(); err != nil {
		return err
	}
	if a.server, err = server.New(c); err != nil {
		return err
	}
	if a.pool != nil { // only now others hear of it: its data can be used
		err = a.pool.Start()
	}
	return err
}

func (a *agentProcess) newNode() (err error) {
	c := &a.conf.Client
	servers := c.Servers
	if len(servers) == 0 {
		servers = []string{a.rpc.Addr().String()}
	}
	a.cluster = agent.NewCluster(servers, a.conf.Region, a.serverTLS().Dial, a.log)
	a.agent, err = agent.New(agent.Config{
		Servers: a.cluster, DataDir: a.conf.DataDir, AllocDir: c.AllocDir, StateDir: c.StateDir, Folders: a.folders,
		Region: a.conf.Region, Datacenter: a.conf.Datacenter, Name: a.conf.Name, NodeClass: c.NodeClass, NodePool: c.NodePool, Meta: c.Meta,
		HTTPAddr: a.advertisedHTTP(), TLSEnabled: a.conf.TLS.HTTP, Version: Version, Compatible: NomadVersion,
		NetworkInterface: c.NetworkInterface, LoopbackOnly: a.conf.Dev && c.NetworkInterface == "",
		CPUTotalCompute: c.CPUTotalCompute, MemoryTotalMB: c.MemoryTotalMB, DiskTotalMB: c.DiskTotalMB,
		Reserved: berth.NodeReservedResources{
			Cpu:      berth.NodeReservedCpuResources{CpuShares: uint64(c.Reserved.CPU), ReservedCpuCores: c.Reserved.Cores},
			Memory:   berth.NodeReservedMemoryResources{MemoryMB: uint64(c.Reserved.MemoryMB)},
			Disk:     berth.NodeReservedDiskResources{DiskMB: uint64(c.Reserved.DiskMB)},
			Networks: berth.NodeReservedNetworkResources{ReservedHostPorts: c.Reserved.Ports},
		},
		ReservableCores: c.ReservableCores, HostVolumes: hostVolumes(c), HostNetworks: hostNetworks(c),
		MinDynamicPort: c.MinDynamicPort, MaxDynamicPort: c.MaxDynamicPort, CgroupParent: c.CgroupParent,
		RawExec: a.conf.Plugins.RawExec, MockDriver: a.conf.Plugins.MockDriver,
		StopTasksOnExit: a.conf.Dev, MaxDeadAllocs: c.GCMaxAllocs, MaxKillTimeout: c.MaxKillTimeout, Log: a.log,
	})
	return err
}

// hostVolumes and hostNetworks are what the configuration says of the host, as
// the node tells it.

func hostVolumes(c *config.Client) map[string]berth.HostVolumeInfo {
	out := map[string]berth.HostVolumeInfo{}
	for name, v := range c.HostVolumes {
		out[name] = berth.HostVolumeInfo{Path: v.Path, ReadOnly: v.ReadOnly}
	}
	return out
}

func hostNetworks(c *config.Client) map[string]berth.HostNetworkInfo {
	out := map[string]berth.HostNetworkInfo{}
	for name, n := range c.HostNetworks {
		out[name] = berth.HostNetworkInfo{Name: name, CIDR: n.CIDR, Interface: n.Interface, ReservedPorts: n.ReservedPorts}
	}
	return out
}

// run runs the agent until ctx ends or a part of it fails. The node ends
// before the server, so that the last reports of its tasks are taken.
func (a *agentProcess) run(ctx context.Context) error {
	node, nodeEnds := context.WithCancel(ctx)
	defer nodeEnds()
	rest, restEnds := context.WithCancel(context.WithoutCancel(ctx))
	defer restEnds()
	g, rest := errgroup.WithContext(rest)
	g.Go(func() error {
		limits := api.Limits{MaxConns: a.conf.Limits.HTTPMaxConns, HeaderTime: a.conf.Limits.HTTPHandshake, TLS: a.httpTLS()}
		return api.Serve(rest, a.http, a.handler, limits, a.log)
	})
	if a.server != nil {
		g.Go(func() error { return a.server.Run(rest) })
		a.gossip(rest, g)
	}
	g.Go(func() error {
		defer restEnds()
		stop := context.AfterFunc(rest, nodeEnds)
		defer stop()
		defer a.leave(ctx)
		if a.agent != nil {
			return a.agent.Run(node)
		}
		<-node.Done()
		return nil
	})
	err := g.Wait()
	if errors.Is(err, context.Canceled) || errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	a.log.Info("the agent has ended", "error", err)
	return err
}

func (a *agentProcess) httpAddr() string {
	if a.conf.TLS.HTTP {
		return "https://" + a.http.Addr().String()
	}
	return "http://" + a.http.Addr().String()
}
func (a *agentProcess) rpcAddr() string { return a.rpc.Addr().String() }

// advertisedHTTP is the address at which others call this agent's HTTP API.
func (a *agentProcess) advertisedHTTP() string {
	if adv := a.conf.HTTP.Advertise; adv != "" {
		return adv
	}
	return a.http.Addr().String()
}

// health tells how both sides fare.
func (a *agentProcess) health() op.AgentHealth {
	var h op.AgentHealth
	if a.server != nil {
		h.Server = &op.Health{Ok: true, Message: "ok"}
		if !a.server.KnowsLeader() {
			h.Server = &op.Health{Message: "No cluster leader"}
		}
	}
	if a.agent != nil {
		h.Client = &op.Health{Ok: true, Message: "ok"}
		if err := a.agent.Alive(); err != nil {
			h.Client = &op.Health{Message: err.Error()}
		}
	}
	return h
}

// self tells what this agent is.
func (a *agentProcess) self() op.AgentSelf {
	c := a.conf
	s := op.AgentSelf{
		Config: c.Public(),
		Member: op.AgentMember{
			Name: c.Name + "." + c.Region, Addr: c.RPC.Addr, Port: uint16(c.Serf.Port), Status: "alive",
			Tags: map[string]string{
				"role": "nomad", "region": c.Region, "dc": c.Datacenter, "build": NomadVersion, "berth": Version, "raft_vsn": "3", "log_dialect": strconv.Itoa(state.Dialect), "expect": strconv.Itoa(c.Server.BootstrapExpect),
			},
			ProtocolMin: 1, ProtocolMax: 5, ProtocolCur: 2, DelegateMin: 2, DelegateMax: 5, DelegateCur: 4,
		},
		Stats: map[string]map[string]string{"runtime": a.runtimeStats()},
	}
	s.Config["Version"] = map[string]any{"Version": NomadVersion, "Berth": Version}
	if a.server != nil {
		_, port, _ := net.SplitHostPort(a.rpcAddr())
		s.Member.Tags["port"] = port
		s.Stats["nomad"] = map[string]string{
			"server": "true", "leader": strconv.FormatBool(a.server.Leads()), "leader_addr": a.server.Leading(), "bootstrap": strconv.FormatBool(c.Server.BootstrapExpect == 1),
			"known_regions": strconv.Itoa(len(a.server.Regions())),
		}
	}
	if a.pool != nil {
		s.Stats["raft"] = a.server.RaftStats()
	}
	if a.agent != nil {
		s.Stats["client"] = a.agent.Stats()
	}
	return s
}

func (a *agentProcess) runtimeStats() map[string]string {
	return map[string]string{
		"kernel.name": runtime.GOOS, "arch": runtime.GOARCH, "version": runtime.Version(), "max_procs": strconv.Itoa(runtime.GOMAXPROCS(0)),
		"cpu_count": strconv.Itoa(runtime.NumCPU()), "goroutines": strconv.Itoa(runtime.NumGoroutine()), "pid": strconv.Itoa(os.Getpid()),
		"uptime": time.Since(a.started).Round(time.Second).String(),
	}
}

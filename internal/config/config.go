// Package config reads how an agent is to be: files in HCL or JSON with the
// keys of Nomad's agent configuration, flags, and defaults, into one complete
// value.
//
// What it keeps true: nothing that is written is ignored. An unknown key
// refuses, and so does every key whose behaviour is not built (unbuilt.go)
// unless its value asks for nothing. All problems are told at once, each with
// its file and line. Nothing listens beyond this machine unless the
// configuration says so, and then [Config.Warnings] says what is unprotected.
//
// Files are merged in the order they are named, those of a folder by name:
// later scalars and lists replace earlier ones, blocks and maps merge by key,
// a plugin block replaces the earlier one of the same plugin. A later false or
// 0 counts, unlike with Nomad, where it could not take back what an earlier
// file said.
package config

import (
	"crypto/tls"
	"log/slog"
	"maps"
	"net"
	"strconv"
	"time"

	"berth"
	"berth/internal/cpuset"
)

// Config is how an agent is to be. It is complete: no field stands for a
// default that others would have to know, unless it says so.
type Config struct {
	Dev        bool // everything for one person's machine; data does not outlive the agent
	Region     string
	Datacenter string
	Name       string // of this agent; the host's name
	DataDir    string // absolute
	TempData   bool   // DataDir was made for this run; whoever ends it removes it

	BindAddr  string
	HTTP      Endpoint
	RPC       Endpoint
	Serf      Endpoint // of the gossip; only of a server
	LogLevel  slog.Level
	LogJSON   bool
	LogTrace  bool // the level was "trace", which logs as debug does
	Telemetry Telemetry
	Limits    Limits
	TLS       TLS

	LeaveOnInterrupt bool
	LeaveOnTerminate bool

	Server  Server
	Client  Client
	Plugins Plugins

	// Warnings say what an operator should know of a configuration that is
	// obeyed.
	Warnings []string
	// Files are those that were read, in order.
	Files []string
}

// Endpoint is one address that the agent listens at.
type Endpoint struct {
	Addr      string // an IP address
	Port      int    // 0: any that is free
	Advertise string // host:port that others are told; "" with a Port of 0: that of the listener
}

// Listen returns host:port to listen at.
func (e Endpoint) Listen() string { return net.JoinHostPort(e.Addr, strconv.Itoa(e.Port)) }

// Loopback says whether only this machine reaches the endpoint.
func (e Endpoint) Loopback() bool { return net.ParseIP(e.Addr).IsLoopback() }

// NoLimit is what a limit that was switched off is.
const NoLimit = 1<<31 - 1

// Limits bound what one client address may do.
type Limits struct {
	HTTPMaxConns  int
	RPCMaxConns   int
	HTTPHandshake time.Duration
	RPCHandshake  time.Duration
}

// TLS is how the agent and those who call it prove who they are. Files are PEM.
type TLS struct {
	HTTP                 bool // of the HTTP API
	RPC                  bool // between agents
	UpgradeMode          bool // with RPC: connections without TLS are taken all the same
	VerifyServerHostname bool // whether a certificate must say what its holder is, here and there
	VerifyHTTPSClient    bool // whether people must show a certificate
	CAFile               string
	CertFile             string
	KeyFile              string
	MinHTTPS             uint16 // the least version over HTTP, of crypto/tls; between agents it is 1.3
}

// Enabled says whether there is any.
func (t *TLS) Enabled() bool { return t.HTTP || t.RPC }

// Telemetry is about metrics. Both formats are always served.
type Telemetry struct {
	PrometheusMetrics  bool
	CollectionInterval time.Duration
	DisableHostname    bool
	UseNodeName        bool
}

// NoSchedulers is how many workers a server has that leaves decisions to others.
const NoSchedulers = -1

// Server is how the server in this agent is to be.
type Server struct {
	Enabled              bool
	DataDir              string
	BootstrapExpect      int      // servers that make up a new cluster together; 1 is this alone, 0 is that it joins one
	NumSchedulers        int      // 0: the server chooses; or NoSchedulers
	Schedulers           []string // the types of evaluations that are decided here; nil is all
	HeartbeatGrace       time.Duration
	MinHeartbeatTTL      time.Duration
	MaxHeartbeatsPerSec  float64
	FailoverHeartbeatTTL time.Duration
	// When more nodes than so many, or more than this part of all, fall silent
	// within a minute, they are given up one by one, at this pace. 0 of both: never.
	SilenceBrakeNodes     int
	SilenceBrakePercent   int
	SilenceBrakePace      time.Duration
	EventBufferSize       int    // changes whose events are kept, within a bound of bytes
	EncryptKey            []byte // of the gossip; nil: it is not encrypted
	Join                  Join
	RejoinAfterLeave      bool // find the others again though this server left
	NonVoting             bool
	RaftMultiplier        int                   // how much more patient servers are with each other than by default
	RaftSnapshotThreshold int                   // entries that may gather before the state is saved
	RaftSnapshotInterval  time.Duration         // how often it is seen whether so many have
	RaftTrailingLogs      int                   // entries that are kept behind a saved state
	Autopilot             berth.AutopilotConfig // of a cluster of which no operator ever said it
	TrackedVersions       int                   // of each job, without those that have a tag; the leader's counts
	// Scheduler is how a cluster of which no operator ever said it is scheduled;
	// nil is as by default.
	Scheduler *berth.SchedulerConfig

	// How long what has ended is kept, and how often it is looked for.

	NodeGCThreshold       time.Duration
	JobGCInterval         time.Duration
	JobGCThreshold        time.Duration
	EvalGCThreshold       time.Duration
	BatchEvalGCThreshold  time.Duration
	DeploymentGCThreshold time.Duration
}

// Client is how the node in this agent is to be.
type Client struct {
	Enabled           bool
	Servers           []string // host:port; by default that of the server in this agent, none if its Port is 0
	StateDir          string
	AllocDir          string
	NodeClass         string
	NodePool          string
	Meta              map[string]string
	Reserved          Reserved
	CPUTotalCompute   int // MHz; 0 is what is found, as are the two below
	MemoryTotalMB     int
	DiskTotalMB       int
	MinDynamicPort    int
	MaxDynamicPort    int
	NetworkInterface  string // "" is that of the default route; in development the loopback
	MaxKillTimeout    time.Duration
	GCMaxAllocs       int // directories of ended allocations kept
	CgroupParent      string
	DisableRemoteExec bool
	ReservableCores   []uint16               // cores that tasks may have for themselves; nil is all that there are
	HostVolumes       map[string]HostVolume  // by name; nil if there are none, as below
	HostNetworks      map[string]HostNetwork // by name
}

// HostVolume is a directory of the host that jobs may ask for by its name.
type HostVolume struct {
	Path     string // absolute; it exists
	ReadOnly bool
}

// HostNetwork names addresses of the host, those of an interface, in a network
// or both, so that jobs can ask for ports on them.
type HostNetwork struct {
	CIDR          string // "203.0.113.0/24"; "" is every address
	Interface     string // "" is every interface
	ReservedPorts string // "22,80": kept back on these addresses
}

// Reserved is what is kept back from allocations.
type Reserved struct {
	CPU      int // MHz
	MemoryMB int
	DiskMB   int
	Ports    string // "22,80,8500-8600"
	Cores    []uint16
}

// Plugins says which drivers may run tasks.
type Plugins struct {
	RawExec    bool
	MockDriver bool
}

// mostTrackedVersions is what the servers' state allows.
const mostTrackedVersions = 1000

// defaults returns what holds where nothing is said. Figures are those of
// Nomad's documentation, with two exceptions. Nothing listens beyond this
// machine unasked. And after a restart a node has a minute to be heard, not
// five: agents try again within half a minute, and until it is given up nothing
// replaces what a dead node ran.
func defaults(dev bool) *Config {
	return &Config{
		Dev:        dev,
		Region:     "global",
		Datacenter: "dc1",
		BindAddr:   "127.0.0.1",
		HTTP:       Endpoint{Port: 4646},
		RPC:        Endpoint{Port: 4647},
		Serf:       Endpoint{Port: 4648},
		LogLevel:   slog.LevelInfo,
		Telemetry:  Telemetry{CollectionInterval: time.Second},
		Limits:     Limits{HTTPMaxConns: 100, RPCMaxConns: 100, HTTPHandshake: 5 * time.Second, RPCHandshake: 5 * time.Second},
		TLS:        TLS{VerifyServerHostname: true, MinHTTPS: tls.VersionTLS13},
		Server: Server{
			Enabled: dev, BootstrapExpect: 1, Join: defaultJoin, Autopilot: defaultAutopilot,
			HeartbeatGrace: 10 * time.Second, MinHeartbeatTTL: 10 * time.Second, MaxHeartbeatsPerSec: 50, FailoverHeartbeatTTL: time.Minute,
			SilenceBrakeNodes: 10, SilenceBrakePercent: 25, SilenceBrakePace: 10 * time.Second,
			EventBufferSize: 16384,
			TrackedVersions: 6,
			RaftMultiplier:  1, RaftSnapshotThreshold: 8192, RaftSnapshotInterval: 2 * time.Minute, RaftTrailingLogs: 10240,
			NodeGCThreshold: 24 * time.Hour, JobGCInterval: 5 * time.Minute, JobGCThreshold: 4 * time.Hour,
			EvalGCThreshold: time.Hour, BatchEvalGCThreshold: 24 * time.Hour, DeploymentGCThreshold: time.Hour,
		},
		Client: Client{
			Enabled: dev, NodePool: "default", MinDynamicPort: 20000, MaxDynamicPort: 32000,
			MaxKillTimeout: 30 * time.Second, GCMaxAllocs: 50,
		},
	}
}

// Public returns the configuration as /v1/agent/self shows it. There are no
// secrets in it: none are built, and those that are not are never kept.
func (c *Config) Public() map[string]any {
	endpoints := func(of func(Endpoint) any) map[string]any {
		return map[string]any{"HTTP": of(c.HTTP), "RPC": of(c.RPC), "Serf": of(c.Serf)}
	}
	return map[string]any{
		"DevMode":        c.Dev,
		"Region":         c.Region,
		"Datacenter":     c.Datacenter,
		"NodeName":       c.Name,
		"DataDir":        c.DataDir,
		"BindAddr":       c.BindAddr,
		"Ports":          endpoints(func(e Endpoint) any { return e.Port }),
		"Addresses":      endpoints(func(e Endpoint) any { return e.Addr }),
		"AdvertiseAddrs": endpoints(func(e Endpoint) any { return e.Advertise }),
		"LogLevel":       c.levelName(),
		"LogJson":        c.LogJSON,
		"EnableDebug":    false,
		"LeaveOnInt":     c.LeaveOnInterrupt,
		"LeaveOnTerm":    c.LeaveOnTerminate,
		"Files":          append([]string{}, c.Files...),
		"ACL":            map[string]any{"Enabled": false},
		"TLSConfig": map[string]any{
			"EnableHTTP": c.TLS.HTTP, "EnableRPC": c.TLS.RPC, "RPCUpgradeMode": c.TLS.UpgradeMode,
			"VerifyServerHostname": c.TLS.VerifyServerHostname, "VerifyHTTPSClient": c.TLS.VerifyHTTPSClient,
			"CAFile": c.TLS.CAFile, "CertFile": c.TLS.CertFile, "KeyFile": c.TLS.KeyFile, "TLSMinVersion": tlsVersion(c.TLS.MinHTTPS),
		},
		"Limits": map[string]any{
			"HTTPMaxConnsPerClient": c.Limits.HTTPMaxConns, "RPCMaxConnsPerClient": c.Limits.RPCMaxConns,
			"HTTPSHandshakeTimeout": c.Limits.HTTPHandshake.String(), "RPCHandshakeTimeout": c.Limits.RPCHandshake.String(),
		},
		"Telemetry": map[string]any{
			"PrometheusMetrics": c.Telemetry.PrometheusMetrics, "CollectionInterval": c.Telemetry.CollectionInterval.String(),
			"DisableHostname": c.Telemetry.DisableHostname, "UseNodeName": c.Telemetry.UseNodeName,
		},
		"Server": map[string]any{
			"Enabled": c.Server.Enabled, "DataDir": c.Server.DataDir, "BootstrapExpect": c.Server.BootstrapExpect,
			"NumSchedulers": max(0, c.Server.NumSchedulers), "EnabledSchedulers": append([]string{}, c.Server.Schedulers...), "HeartbeatGrace": c.Server.HeartbeatGrace, "MinHeartbeatTTL": c.Server.MinHeartbeatTTL,
			"MaxHeartbeatsPerSecond": c.Server.MaxHeartbeatsPerSec, "FailoverHeartbeatTTL": c.Server.FailoverHeartbeatTTL,
			"EventBufferSize": c.Server.EventBufferSize, "RejoinAfterLeave": c.Server.RejoinAfterLeave, "NonVotingServer": c.Server.NonVoting,
			"ServerJoin": map[string]any{
				"RetryJoin": append([]string{}, c.Server.Join.Retry...), "StartJoin": append([]string{}, c.Server.Join.Start...),
				"RetryMaxAttempts": c.Server.Join.Max, "RetryInterval": c.Server.Join.Interval,
			},
			"JobTrackedVersions": c.Server.TrackedVersions, "NodeGCThreshold": c.Server.NodeGCThreshold, "JobGCInterval": c.Server.JobGCInterval, "JobGCThreshold": c.Server.JobGCThreshold,
			"EvalGCThreshold": c.Server.EvalGCThreshold, "BatchEvalGCThreshold": c.Server.BatchEvalGCThreshold,
			"DeploymentGCThreshold": c.Server.DeploymentGCThreshold, "DefaultSchedulerConfig": c.Server.Scheduler,
		},
		"Client": map[string]any{
			"Enabled": c.Client.Enabled, "Servers": append([]string{}, c.Client.Servers...), "StateDir": c.Client.StateDir, "AllocDir": c.Client.AllocDir,
			"NodeClass": c.Client.NodeClass, "NodePool": c.Client.NodePool, "Meta": maps.Clone(c.Client.Meta),
			"CpuCompute": c.Client.CPUTotalCompute, "MemoryMB": c.Client.MemoryTotalMB, "DiskTotalMB": c.Client.DiskTotalMB,
			"MinDynamicPort": c.Client.MinDynamicPort, "MaxDynamicPort": c.Client.MaxDynamicPort,
			"NetworkInterface": c.Client.NetworkInterface, "MaxKillTimeout": c.Client.MaxKillTimeout.String(), "GCMaxAllocs": c.Client.GCMaxAllocs,
			"Reserved": map[string]any{
				"CPU": c.Client.Reserved.CPU, "MemoryMB": c.Client.Reserved.MemoryMB, "DiskMB": c.Client.Reserved.DiskMB, "ReservedPorts": c.Client.Reserved.Ports,
				"Cores": cpuset.Format(c.Client.Reserved.Cores),
			},
			"ReservableCores": cpuset.Format(c.Client.ReservableCores),
			"HostVolumes":     maps.Clone(c.Client.HostVolumes), "HostNetworks": maps.Clone(c.Client.HostNetworks),
		},
		"Plugins": map[string]any{"raw_exec": c.Plugins.RawExec, "mock_driver": c.Plugins.MockDriver},
	}
}

func (c *Config) levelName() string {
	if c.LogTrace {
		return "TRACE"
	}
	return c.LogLevel.String()
}

// Package config reads the configuration of an agent: files in HCL or JSON with
// the keys of Nomad's agent configuration, flags, and defaults, merged into one
// complete value.
//
// No setting is silently ignored. An unknown key is an error, and so is a key
// that Berth does not support (unsupported.go), unless its value asks for
// nothing. All problems are reported together, each with its file and line. The
// agent listens only on loopback unless the configuration says otherwise; then
// [Config.Warnings] says what is unprotected.
//
// Files are merged in the given order, those of a directory by name. Later
// scalars and lists replace earlier ones, blocks and maps merge by key, and a
// plugin block replaces an earlier one of the same plugin. Unlike in Nomad, a
// later false or 0 overrides an earlier value; only -dev runs a server and a
// client whatever the files say.
package config

import (
	"crypto/tls"
	"log/slog"
	"maps"
	"net"
	"strconv"
	"time"

	"berth"
	"berth/internal/agent/cloud"
	"berth/internal/agent/driver/docker"
	"berth/internal/agent/driver/podman"
	"berth/internal/agent/plugin"
	"berth/internal/agent/ship"
	"berth/internal/cpuset"
)

// Config is the configuration of an agent. It is complete: no field stands for
// a default that others would have to know, unless its comment says so.
type Config struct {
	Dev        bool // local development; data ends with the agent
	Region     string
	Datacenter string
	Name       string // of this agent; defaults to the host name
	DataDir    string // absolute
	TempData   bool   // DataDir was created for this run; the caller removes it

	BindAddr  string
	HTTP      Endpoint
	RPC       Endpoint
	Serf      Endpoint // gossip; servers only
	HTTPHosts []string // names for the HTTP API besides the agent's own, as sameorigin.Policy takes them
	LogLevel  slog.Level
	LogJSON   bool
	LogTrace  bool // the level was "trace", which logs like debug
	Log       Log
	// EnableDebug serves profiles at /debug/pprof/, and without access control at
	// /v1/agent/pprof/.
	EnableDebug bool
	// ResponseHeaders are added to every answer of the HTTP API; nil: none.
	ResponseHeaders map[string]string
	Telemetry       Telemetry
	ACL             ACL
	Limits          Limits
	TLS             TLS
	DNS             DNS
	UI              UI
	LogSinks        map[string]ship.Config // where output of tasks is sent, by name
	Audit           Audit

	LeaveOnInterrupt bool // leave the cluster on SIGINT
	LeaveOnTerminate bool // leave the cluster on SIGTERM

	Keyring Keyring
	Server  Server
	Client  Client
	Plugins Plugins
	// PluginDir has the programs of external drivers and device plugins; "" is
	// plugins in DataDir.
	PluginDir string

	// Warnings are what an operator should know about a valid configuration.
	Warnings []string
	// Files are the files that were read, in order.
	Files []string
}

// Endpoint is one listening address of the agent.
type Endpoint struct {
	Addr      string // an IP address
	Port      int    // 0: any free port
	Advertise string // host:port given to others; "" with Port 0: that of the listener
}

// Listen returns the host:port to listen on.
func (e Endpoint) Listen() string { return net.JoinHostPort(e.Addr, strconv.Itoa(e.Port)) }

// Loopback reports whether only this machine can reach the endpoint.
func (e Endpoint) Loopback() bool { return net.ParseIP(e.Addr).IsLoopback() }

// NoLimit is the value of a disabled limit.
const NoLimit = 1<<31 - 1

// Log says where the log goes, besides the standard output, and how.
type Log struct {
	File           string        // "": none
	RotateBytes    int           // 0: files of any size
	RotateDuration time.Duration // of one file
	RotateFiles    int           // older files that are kept; 0: all, -1: none
	Syslog         bool
	Facility       string // of syslog
	Location       bool   // add file and line of the code
}

// Limits apply to each client address.
type Limits struct {
	HTTPMaxConns  int           // per client address; or NoLimit
	RPCMaxConns   int           // per client address; or NoLimit
	HTTPHandshake time.Duration // time for TLS
	RPCHandshake  time.Duration // time for TLS

	// How many writes a second one token may make, and all tokens in one
	// namespace, on one server. Ten seconds of them may come at once. With access
	// control only.
	TokenWrites, NamespaceWrites int
}

// TLS is the TLS configuration. Files are PEM.
type TLS struct {
	HTTP                 bool // for the HTTP API
	RPC                  bool // between agents
	UpgradeMode          bool // with RPC: also accept connections without TLS
	VerifyServerHostname bool // require certificates with a role name, on both sides
	VerifyHTTPSClient    bool // require client certificates for the HTTP API
	CAFile               string
	CertFile             string
	KeyFile              string
	MinHTTPS             uint16 // lowest version for HTTP, from crypto/tls; between agents it is 1.3
}

// Enabled reports whether TLS is used anywhere.
func (t *TLS) Enabled() bool { return t.HTTP || t.RPC }

// ACL configures access control.
type ACL struct {
	Enabled          bool
	MinTTL, MaxTTL   time.Duration // bounds of how long tokens that expire are valid
	ReplicationToken string        // a management token of the authoritative region; "": none
}

// Telemetry configures metrics. Both formats are always served.
type Telemetry struct {
	PrometheusMetrics  bool
	CollectionInterval time.Duration
	DisableHostname    bool
	UseNodeName        bool
	PublishAllocs      bool // there are metrics of each task of the node

	// Where metrics are sent each CollectionInterval, as host:port; "" is nowhere.
	Statsd, Statsite, Datadog string
	DatadogTags               []string // such as "env:test"
	// PrefixFilter says which metrics there are, by how their names begin:
	// "+nomad.raft" or "-nomad.state". The longest that fits decides; FilterDefault
	// is for those that none fits.
	PrefixFilter  []string
	FilterDefault bool

	Traces Traces
}

// Traces says where traces of jobs are sent, as OTLP over HTTP.
type Traces struct {
	Address string            // a URL; "": there are none
	Headers map[string]string // of the requests; secrets
	CAFile  string            // PEM; "" is the machine's authorities
	Sample  float64           // the share of traces that is sent, above 0 to 1
}

// NoSchedulers is the number of workers of a server that runs none.
const NoSchedulers = -1

// Server configures the server in this agent.
type Server struct {
	Enabled              bool
	DataDir              string
	BootstrapExpect      int           // servers that bootstrap a new cluster; 1: this one alone, 0: join one
	NumSchedulers        int           // 0: the server chooses; or NoSchedulers
	Schedulers           []string      // types of evaluations processed here; nil: all
	HeartbeatGrace       time.Duration // added to each TTL before a node counts as silent
	MinHeartbeatTTL      time.Duration // the TTL of a small cluster
	MaxHeartbeatsPerSec  float64       // larger clusters get longer TTLs to stay below it
	FailoverHeartbeatTTL time.Duration // for all nodes after a change of leader
	// If more nodes than this number, or than this share of all nodes, stop
	// sending heartbeats within a minute, they are marked down one by one at
	// this pace. If both are 0, never.
	SilenceBrakeNodes     int
	SilenceBrakePercent   int
	SilenceBrakePace      time.Duration
	NoEvents              bool // serve no stream of events
	Search                Search
	Jobs                  JobLimits
	Rejection             PlanRejection
	EventBufferSize       int    // changes whose events are kept; there is a limit in bytes too
	EncryptKey            []byte // for gossip; nil: not encrypted
	Join                  Join
	RejoinAfterLeave      bool   // rejoin the others even if this server left
	Issuer                string // of identities: an address that tools of OpenID Connect find this API at; "": none
	AuthoritativeRegion   string // "": each region decides for itself
	Introduction          Introduction
	NonVoting             bool
	RaftMultiplier        int                   // scales the timeouts between servers
	RaftSnapshotThreshold int                   // log entries between snapshots
	RaftSnapshotInterval  time.Duration         // how often the threshold is checked
	RaftTrailingLogs      int                   // log entries kept after a snapshot
	Autopilot             berth.AutopilotConfig // until an operator changes it
	TrackedVersions       int                   // stored versions per job, not counting tagged ones; the leader's setting applies
	// Scheduler is the scheduler configuration until an operator changes it;
	// nil: the default.
	Scheduler *berth.SchedulerConfig

	// How long ended objects are kept, and how often they are collected.

	TokenGCThreshold time.Duration // of expired tokens
	// How old a root key becomes before the next one replaces it, and when keys
	// that were replaced and are of no use any more are removed.
	RootKeyRotation, RootKeyGCThreshold, RootKeyGCInterval time.Duration

	NodeGCThreshold       time.Duration
	JobGCInterval         time.Duration
	JobGCThreshold        time.Duration
	LostClaims            time.Duration // how long a node is down before its claims on CSI volumes are given up
	EvalGCThreshold       time.Duration
	BatchEvalGCThreshold  time.Duration
	DeploymentGCThreshold time.Duration
}

// Client configures the node in this agent.
type Client struct {
	Enabled  bool
	Servers  []string // host:port; defaults to the server in this agent, empty if its Port is 0
	StateDir string   // absolute; what the agent must know after a restart
	AllocDir string   // absolute; one directory per allocation
	// HostVolumesDir has the dynamic host volumes, and HostVolumePluginDir the
	// programs that make them; both absolute.
	HostVolumesDir, HostVolumePluginDir string
	// CommonPluginDir has, in its directory secrets, the programs that secrets of
	// tasks come from; absolute.
	CommonPluginDir string

	NodeClass         string // "": it has no class
	NodePool          string
	IntroToken        string // that lets the node join, if it is new; a secret
	Meta              map[string]string
	Reserved          Reserved
	CPUTotalCompute   int // MHz; 0: as detected, like the two below
	MemoryTotalMB     int
	DiskTotalMB       int
	MinDynamicPort    int           // lowest port given to tasks
	MaxDynamicPort    int           // highest port given to tasks
	NetworkInterface  string        // "": that of the default route, or loopback with -dev
	MaxKillTimeout    time.Duration // upper bound of a task's kill_timeout
	MaxAllocs         int           // that the node runs at a time; 0: any number
	GCMaxAllocs       int           // directories of ended allocations kept
	GCInterval        time.Duration // between looks at their disk
	GCDisk, GCInodes  float64       // percent in use above which such directories are removed
	GCParallel        int           // removals at a time
	CgroupParent      string
	SharedBy          int // how many allocations share a supervisor's process; 0 is the agent's default
	DisableRemoteExec bool
	LimitDisks        bool     // allocations that outgrow their ephemeral_disk fail
	DiskFreeMB        int      // the disk that allocations can have; 0: what is free. DiskTotalMB goes first
	NoHostUUID        bool     // a new node's ID is random, and not made from that of the machine
	BindWildcard      bool     // ports of the default host network that are mapped are open on all addresses
	PreferredFamily   string   // of the address that ports are given on: "ipv4", "ipv6" or "", the former
	ReservableCores   []uint16 // cores that tasks can reserve; nil: all
	// ChrootEnv is what tasks with a file tree of their own see of the host, as
	// place in the tree by path of the host; nil is a default.
	ChrootEnv map[string]string
	// DriverAllow and DriverDeny are the drivers that may and may not start
	// tasks; a nil DriverAllow is all.
	DriverAllow, DriverDeny []string
	// UserDeny are the users that tasks of the drivers UserCheck must not run
	// as.
	UserDeny, UserCheck []string
	// DrainOnShutdown drains the node before an agent ends that leaves (see
	// LeaveOnTerminate).
	DrainOnShutdown DrainOnShutdown
	// Users are the numbers of tasks with a file tree of their own that have no
	// user; a High of 0: they run as nobody.
	Users struct{ Low, High int }

	Fingerprints  map[string]cloud.Fingerprint // of clouds, by the label of the block; nil if none
	NoClouds      []string                     // labels of clouds that are not asked
	HostVolumes   map[string]HostVolume        // by name; nil if none, as below
	HostNetworks  map[string]HostNetwork       // by name
	GroupNetworks GroupNetworks
	Inputs        Inputs
}

// DrainOnShutdown is how a node is drained before its agent ends.
type DrainOnShutdown struct {
	Enabled          bool
	Deadline         time.Duration // 0: no deadline
	Force            bool          // everything is stopped at once
	IgnoreSystemJobs bool
}

// HostVolume is a directory of the host that jobs can request by name.
type HostVolume struct {
	Path     string // absolute, exists
	ReadOnly bool
}

// HostNetwork names addresses of the host, by interface, network or both, so
// that jobs can request ports on them.
type HostNetwork struct {
	CIDR          string // "203.0.113.0/24"; "": every address
	Interface     string // "": every interface
	ReservedPorts string // "22,80": not available on these addresses
}

// Reserved is what allocations cannot use.
type Reserved struct {
	CPU      int    // MHz
	MemoryMB int    // MiB
	DiskMB   int    // MiB
	Ports    string // "22,80,8500-8600"
	Cores    []uint16
}

// Plugins are the drivers: which are enabled, and what they allow.
type Plugins struct {
	RawExec    bool
	MockDriver bool
	Raw        RawPlugin
	Exec       IsolatedPlugin // of the driver exec
	Java       IsolatedPlugin
	Qemu       QemuPlugin
	Docker     docker.Config           // without the node
	Podman     podman.Config           // without the node
	External   map[string]plugin.Block // of programs in PluginDir, by name
}

// RawPlugin is what plugin "raw_exec" says besides.
type RawPlugin struct {
	NoCgroups  bool
	DeniedEnv  []string
	DeniedUIDs string // such as "0,100-200"
	DeniedGIDs string
}

// QemuPlugin is what plugin "qemu" says.
type QemuPlugin struct {
	ImagePaths []string // directories of the host with images that tasks may use
	Args       []string // options that tasks may give to QEMU; nil is any
}

// IsolatedPlugin is what plugin "exec" or "java" says.
type IsolatedPlugin struct {
	AllowCaps  []string // nil is the default
	PIDMode    string   // "private" or "host"; "" is private
	IPCMode    string
	DeniedUIDs string // such as "0,100-200"
	DeniedGIDs string
}

// mostTrackedVersions is the limit of the servers' state.
const mostTrackedVersions = 1000

// defaults returns the default configuration. Values are those of Nomad's
// documentation, with two exceptions. The agent listens only on loopback. And
// after a restart of the servers, a node has one minute to send a heartbeat,
// not five: agents retry within half a minute, and until a dead node is marked
// down, nothing replaces its allocations.
func defaults(dev bool) *Config {
	return &Config{
		Dev:        dev,
		Region:     "global",
		Datacenter: "dc1",
		BindAddr:   "127.0.0.1",
		HTTP:       Endpoint{Port: 4646},
		RPC:        Endpoint{Port: 4647},
		Serf:       Endpoint{Port: 4648},
		Keyring:    Keyring{Active: ProviderAEAD, Signing: berth.SignEdDSA},
		LogLevel:   slog.LevelInfo,
		Log:        Log{RotateDuration: 24 * time.Hour, Facility: "LOCAL0"},
		Telemetry:  Telemetry{CollectionInterval: time.Second, FilterDefault: true, Traces: Traces{Sample: 1}},
		ACL:        ACL{MinTTL: time.Minute, MaxTTL: 24 * time.Hour},
		Limits:     Limits{HTTPMaxConns: 100, RPCMaxConns: 100, HTTPHandshake: 5 * time.Second, RPCHandshake: 5 * time.Second, TokenWrites: 500, NamespaceWrites: 2000},
		TLS:        TLS{VerifyServerHostname: true, MinHTTPS: tls.VersionTLS13},
		DNS:        dnsDefaults,
		UI:         UI{Enabled: true},
		Server: Server{
			Enabled: dev, Join: defaultJoin, Autopilot: defaultAutopilot,
			HeartbeatGrace: 10 * time.Second, MinHeartbeatTTL: 10 * time.Second, MaxHeartbeatsPerSec: 1000, FailoverHeartbeatTTL: time.Minute,
			SilenceBrakeNodes: 10, SilenceBrakePercent: 25, SilenceBrakePace: 10 * time.Second,
			EventBufferSize: 16384,
			Search:          Search{Fuzzy: true, LimitQuery: 20, LimitResults: 100, MinTermLength: 2},
			Jobs:            JobLimits{DefaultPriority: berth.DefaultPriority, MaxPriority: berth.MaxPriority, MaxCount: 50_000, MaxSource: 1 << 20},
			Rejection:       PlanRejection{NodeThreshold: 100, NodeWindow: 5 * time.Minute},
			TrackedVersions: 6,
			RaftMultiplier:  1, RaftSnapshotThreshold: 8192, RaftSnapshotInterval: 2 * time.Minute, RaftTrailingLogs: 10240,
			Introduction:     Introduction{Enforcement: IntroductionWarn, DefaultTTL: 5 * time.Minute, MaxTTL: 30 * time.Minute},
			TokenGCThreshold: time.Hour, RootKeyRotation: 720 * time.Hour, RootKeyGCThreshold: time.Hour, RootKeyGCInterval: 10 * time.Minute,
			NodeGCThreshold: 24 * time.Hour, JobGCInterval: 5 * time.Minute, JobGCThreshold: 4 * time.Hour, LostClaims: 5 * time.Minute,
			EvalGCThreshold: time.Hour, BatchEvalGCThreshold: 24 * time.Hour, DeploymentGCThreshold: time.Hour,
		},
		Client: Client{
			Inputs:  defaultInputs(),
			Enabled: dev, NodePool: "default", NoHostUUID: true, BindWildcard: true, MinDynamicPort: 20000, MaxDynamicPort: 32000,
			MaxKillTimeout: 30 * time.Second, GCMaxAllocs: 50, GCInterval: time.Minute, GCDisk: 80, GCInodes: 70, GCParallel: 2, GroupNetworks: groupNetworks,
			UserDeny: []string{"root", "Administrator"}, UserCheck: []string{"exec", "java", "qemu"},
		},
		Plugins: Plugins{Docker: docker.Defaults(), Podman: podman.Defaults()},
	}
}

// Public returns the configuration as /v1/agent/self shows it. It contains no
// secrets: the encryption key is left out, and values of unsupported keys are
// never kept.
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
		"HTTPHosts":      append([]string{}, c.HTTPHosts...),
		"LogLevel":       c.levelName(),
		"LogJson":        c.LogJSON,
		"EnableDebug":    c.EnableDebug,
		"EnableSyslog":   c.Log.Syslog, "SyslogFacility": c.Log.Facility, "LogFile": c.Log.File, "LogIncludeLocation": c.Log.Location,
		"LogRotateBytes": c.Log.RotateBytes, "LogRotateDuration": c.Log.RotateDuration.String(), "LogRotateMaxFiles": c.Log.RotateFiles,
		"HTTPAPIResponseHeaders": maps.Clone(c.ResponseHeaders),
		"LeaveOnInt":             c.LeaveOnInterrupt,
		"LeaveOnTerm":            c.LeaveOnTerminate,
		"Files":                  append([]string{}, c.Files...),
		"ACL":                    map[string]any{"Enabled": c.ACL.Enabled},
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
			"StatsdAddr": c.Telemetry.Statsd, "StatsiteAddr": c.Telemetry.Statsite, "DataDogAddr": c.Telemetry.Datadog,
			"DataDogTags": append([]string{}, c.Telemetry.DatadogTags...), "PrefixFilter": append([]string{}, c.Telemetry.PrefixFilter...), "FilterDefault": c.Telemetry.FilterDefault,
			"TracesAddr": withoutUser(c.Telemetry.Traces.Address),
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
			"Enabled": c.Client.Enabled, "Servers": append([]string{}, c.Client.Servers...), "StateDir": c.Client.StateDir, "AllocDir": c.Client.AllocDir, "HostVolumesDir": c.Client.HostVolumesDir, "HostVolumePluginDir": c.Client.HostVolumePluginDir, "CommonPluginDir": c.Client.CommonPluginDir,
			"NodeClass": c.Client.NodeClass, "NodePool": c.Client.NodePool, "Meta": maps.Clone(c.Client.Meta),
			"CpuCompute": c.Client.CPUTotalCompute, "MemoryMB": c.Client.MemoryTotalMB, "DiskTotalMB": c.Client.DiskTotalMB,
			"MinDynamicPort": c.Client.MinDynamicPort, "MaxDynamicPort": c.Client.MaxDynamicPort,
			"NetworkInterface": c.Client.NetworkInterface, "MaxKillTimeout": c.Client.MaxKillTimeout.String(), "GCMaxAllocs": c.Client.GCMaxAllocs,
			"GCInterval": c.Client.GCInterval, "GCDiskUsageThreshold": c.Client.GCDisk, "GCInodeUsageThreshold": c.Client.GCInodes, "GCParallelDestroys": c.Client.GCParallel,
			"Reserved": map[string]any{
				"CPU": c.Client.Reserved.CPU, "MemoryMB": c.Client.Reserved.MemoryMB, "DiskMB": c.Client.Reserved.DiskMB, "ReservedPorts": c.Client.Reserved.Ports,
				"Cores": cpuset.Format(c.Client.Reserved.Cores),
			},
			"ReservableCores": cpuset.Format(c.Client.ReservableCores),
			"HostVolumes":     maps.Clone(c.Client.HostVolumes), "HostNetworks": maps.Clone(c.Client.HostNetworks),
			"BridgeNetworkName": c.Client.GroupNetworks.Bridge, "BridgeNetworkAllocSubnet": c.Client.GroupNetworks.Subnet,
			"BridgeNetworkAllocSubnetIPv6": c.Client.GroupNetworks.SubnetIPv6, "BridgeNetworkHairpinMode": c.Client.GroupNetworks.Hairpin,
			"CNIPath": c.Client.GroupNetworks.Plugins, "CNIConfigDir": c.Client.GroupNetworks.ConfigDir,
		},
		"PluginDir": c.PluginDir, "Plugins": map[string]any{"raw_exec": c.Plugins.RawExec, "mock_driver": c.Plugins.MockDriver, "docker": !c.Plugins.Docker.Disabled, "podman": !c.Plugins.Podman.Engine.Disabled},
	}
}

// levelName returns the log level as the API shows it. slog has no trace level,
// so LogTrace marks it.
func (c *Config) levelName() string {
	if c.LogTrace {
		return "TRACE"
	}
	return c.LogLevel.String()
}

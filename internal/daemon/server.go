package daemon

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"berth/internal/api"
	"berth/internal/consensus"
	"berth/internal/events"
	"berth/internal/leader/collector"
	"berth/internal/leader/heartbeat"
	"berth/internal/leader/planner"
	"berth/internal/leader/rotate"
	"berth/internal/schedule"
	"berth/internal/server"
)

// newServer opens the server on the RPC listener and the data directory that
// open took before. If the agent has a node too, the server reaches it without
// the network, so newNode must come first. It joins gossip last.
func (d *Daemon) newServer() (err error) {
	s := &d.conf.Server
	c := server.Config{
		Region: d.conf.Region, Datacenter: d.conf.Datacenter, DataDir: s.DataDir, Folder: d.folder, RPC: d.rpc, Advertise: d.conf.RPC.Advertise, TLS: d.serverTLS(),
		MaxConns: d.conf.Limits.RPCMaxConns, MaxTotal: d.ports.RPC, Handshake: d.conf.Limits.RPCHandshake, Workers: s.NumSchedulers, FollowerWorkers: s.NumSchedulers, Schedulers: s.Schedulers,
		Heartbeat: heartbeat.Options{
			MinTTL: s.MinHeartbeatTTL, MaxPerSec: s.MaxHeartbeatsPerSec, Grace: s.HeartbeatGrace, FailoverTTL: s.FailoverHeartbeatTTL,
			Limiter: heartbeat.Limiter{
				Nodes: s.SilenceBrakeNodes, Share: float64(s.SilenceBrakePercent) / 100, Window: heartbeat.DefaultLimiter.Window, Pace: s.SilenceBrakePace,
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
		Issuer: s.Issuer, NoEvents: s.NoEvents, Diagnostics: diagnostics{d},
		Search: api.SearchLimits{FuzzyOff: !s.Search.Fuzzy, LimitQuery: s.Search.LimitQuery, LimitResults: s.Search.LimitResults, MinTermLength: s.Search.MinTermLength},
		Jobs: api.JobLimits{
			DefaultPriority: s.Jobs.DefaultPriority, MaxPriority: s.Jobs.MaxPriority,
			MaxCount: s.Jobs.MaxCount, MaxSource: s.Jobs.MaxSource, NoSource: s.Jobs.MaxSource == 0,
		},
		Rejection: planner.Tracker{Threshold: s.Rejection.NodeThreshold, Window: s.Rejection.NodeWindow, Disable: s.Rejection.Enabled},
		API:       d.serves, KeepTokens: s.TokenGCThreshold, LostClaims: s.LostClaims, KeyAges: rotate.Ages{Rotate: s.RootKeyRotation, Remove: s.RootKeyGCThreshold, Interval: s.RootKeyGCInterval},
		Events: events.Limits{Sets: s.EventBufferSize}, Scheduler: s.Scheduler, Autopilot: &s.Autopilot, TrackedVersions: s.TrackedVersions,
		Logger: d.log, Self: d.self, Health: d.health, Metrics: metricsFilter(&d.conf.Telemetry),
		ACL: d.conf.ACL.Enabled, MinTokenTTL: d.conf.ACL.MinTTL, MaxTokenTTL: d.conf.ACL.MaxTTL, ResetIndex: resetIndex(s.DataDir),
		Authority: server.Authority{Region: s.AuthoritativeRegion, Token: d.conf.ACL.ReplicationToken},
	}
	if d.agent != nil {
		c.LocalAgent, c.LocalHost, c.LocalNode, c.LocalServers = d.agent, d.agent, d.agent.NodeID, d.cluster
	}
	if d.traces, err = d.newTraces(); err != nil {
		return err
	}
	c.Traces = d.traces
	if err := d.keyring(&c); err != nil {
		return err
	}
	// This binds the gossip port, as server.New needs the list of members.
	// Gossip itself starts last.
	if c.Cluster, err = d.openGossip(); err != nil {
		return err
	}
	if d.server, err = server.New(c); err != nil {
		return err
	}
	if d.pool != nil { // the others may see this server only once its data has been read
		err = d.pool.Start()
	}
	return err
}

// resetFile is the file in a server's data directory that allows another
// bootstrap of access control. It has the index of the last one.
const resetFile = "acl-bootstrap-reset"

// resetIndex returns a function that reads the file.
func resetIndex(dir string) func() uint64 {
	return func() uint64 {
		text, err := os.ReadFile(filepath.Join(dir, resetFile))
		if err != nil {
			return 0
		}
		n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
		if err != nil {
			return 0
		}
		return n
	}
}

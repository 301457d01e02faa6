package op

import (
	"net/http"
	"time"

	"berth"
	"berth/internal/acl"
	"berth/internal/decode"
)

// Duration is a length of time that the API writes as text, such as "200ms".
type Duration time.Duration

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = Duration(v)
	return err
}

// AutopilotConfig answers ReadAutopilot: berth.AutopilotConfig as the API shows
// it.
type AutopilotConfig struct {
	CleanupDeadServers      bool
	LastContactThreshold    Duration
	MaxTrailingLogs         uint64
	MinQuorum               uint
	ServerStabilizationTime Duration
	EnableRedundancyZones   bool // this and the next two are not supported: false
	DisableUpgradeMigration bool
	EnableCustomUpgrades    bool
	CreateIndex             uint64
	ModifyIndex             uint64
}

// SetAutopilot says how the cluster is to look after its servers: all of it,
// what is left out is as in a new cluster.
type SetAutopilot struct {
	berth.AutopilotConfig
	CAS *uint64 `query:"cas"` // only if the configuration was last changed at this index
	Write
}

// Shape has what the body leaves out be the default.
func (s *SetAutopilot) Shape(body decode.Tree) decode.Tree {
	s.AutopilotConfig = berth.DefaultAutopilotConfig
	return body
}

// AutopilotHealth answers ReadAutopilotHealth: how the leader sees the servers.
type AutopilotHealth struct {
	Healthy          bool
	FailureTolerance int // how many healthy servers may be lost before nothing can be written
	Servers          []ServerHealth
	Leader           string // ID
	Voters           []string
}

// Also reports whether the answer has the other status that ReadAutopilotHealth
// declares, as probes expect: whether a server is not healthy.
func (h *AutopilotHealth) Also() bool { return !h.Healthy }

// ServerHealth is how the leader sees a server.
type ServerHealth struct {
	ID          string
	Name        string
	Address     string
	SerfStatus  string // alive, failed or left
	Version     string
	Leader      bool
	LastContact Duration // how long ago it heard the leader
	LastTerm    uint64
	LastIndex   uint64 // of its log
	Healthy     bool
	Voter       bool
	StableSince time.Time // since when it is as healthy as it is
}

// The operations on how the cluster looks after its servers. Of servers that
// are not healthy the last one is answered with 429.
var (
	ReadAutopilot       = define[Query, AutopilotConfig]("autopilot.read", "GET /v1/operator/autopilot/configuration", "", acl.OperatorRead, acl.NoSpace)
	WriteAutopilot      = define[SetAutopilot, bool]("autopilot.write", "PUT /v1/operator/autopilot/configuration", "", acl.OperatorWrite, acl.NoSpace)
	ReadAutopilotHealth = define[Query, AutopilotHealth]("autopilot.health", "GET /v1/operator/autopilot/health", "", acl.OperatorRead, acl.NoSpace,
		leader, also(http.StatusTooManyRequests))
)

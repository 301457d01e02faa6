package op

import (
	"net/http"
	"time"

	"berth"
	"berth/internal/acl"
	"berth/internal/decode"
)

// Duration is a duration that the API writes as text, such as "200ms".
type Duration time.Duration

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = Duration(v)
	return err
}

// AutopilotConfig answers ReadAutopilot. It is berth.AutopilotConfig as the API
// shows it.
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

// SetAutopilot replaces the whole Autopilot configuration. A field that is left
// out gets the default of a new cluster.
type SetAutopilot struct {
	berth.AutopilotConfig
	CAS *uint64 `query:"cas"` // change it only if it was last changed at this index
	Write
}

// Shape fills in the default for each field that the body leaves out.
func (s *SetAutopilot) Shape(body decode.Tree) decode.Tree {
	s.AutopilotConfig = berth.DefaultAutopilotConfig
	return body
}

// AutopilotHealth answers ReadAutopilotHealth: the servers' health as seen by
// the leader.
type AutopilotHealth struct {
	Healthy          bool
	FailureTolerance int // how many healthy servers can fail before writes stop
	Servers          []ServerHealth
	Leader           string // ID
	Voters           []string
}

// Also reports whether the answer has the second status that
// ReadAutopilotHealth declares, for probes: a server is not healthy.
func (h *AutopilotHealth) Also() bool { return !h.Healthy }

// ServerHealth is one server's health as seen by the leader.
type ServerHealth struct {
	ID          string
	Name        string
	Address     string
	SerfStatus  string // alive, failed or left
	Version     string // the version of Nomad whose API it serves, which tools compare
	Berth       string // its own version; "" if gossip does not know it
	Leader      bool
	LastContact Duration // how long ago it last heard from the leader
	LastTerm    uint64   // of its log
	LastIndex   uint64   // last index of its log
	Healthy     bool
	Voter       bool      // it has a vote in Raft
	StableSince time.Time // when Healthy last changed
}

// The Autopilot operations. ReadAutopilotHealth answers 429 if a server is not
// healthy.
var (
	ReadAutopilot       = define[Query, AutopilotConfig]("autopilot.read", "GET /v1/operator/autopilot/configuration", "", acl.OperatorRead, acl.NoSpace)
	WriteAutopilot      = define[SetAutopilot, bool]("autopilot.write", "PUT /v1/operator/autopilot/configuration", "", acl.OperatorWrite, acl.NoSpace)
	ReadAutopilotHealth = define[Query, AutopilotHealth]("autopilot.health", "GET /v1/operator/autopilot/health", "", acl.OperatorRead, acl.NoSpace,
		leader, also(http.StatusTooManyRequests))
)

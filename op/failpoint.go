//go:build faults

package op

import (
	"berth/internal/acl"
	"berth/internal/decode"
	"berth/internal/failpoint"
)

// ArmFailpoint has the server that leads fail at a point, or the one that is
// asked, or takes that back: servers whose configuration does not enable it
// refuse.
type ArmFailpoint struct {
	failpoint.Point
	Write
}

// ArmedFailpoints is all that is armed now.
type ArmedFailpoints struct {
	Failpoints []failpoint.Point
	Hanging    []string // where something hangs, "before addPes", and goes on when the point is taken back
	Meta
}

// LogEntry is a command of a leader that is proposed as it stands, so that
// tests can have the log refuse what no leader proposes. Servers that refuse
// failpoints refuse it.
type LogEntry struct {
	Command string         // by its name, as LaunchPE
	Fields  decode.RawTree // of the command
	Write
}

// EntryMade answers LogEntry: it was not refused.
type EntryMade struct {
	EntryIndex uint64 // at which it was applied
	Meta
}

// The ways in which tests have servers fail on purpose.
var (
	WriteFailpoint     = define[ArmFailpoint, ArmedFailpoints]("failpoint.write", "PUT /v1/operator/failpoint", "", acl.Management, acl.NoSpace)
	WriteFailpointHere = define[ArmFailpoint, ArmedFailpoints]("failpoint.here", "PUT /v1/agent/failpoint", "", acl.Management, acl.NoSpace, local)
	ReadFailpoints     = define[Query, ArmedFailpoints]("failpoint.read", "GET /v1/agent/failpoint", "", acl.Management, acl.NoSpace, local)
	WriteEntry         = define[LogEntry, EntryMade]("failpoint.entry", "PUT /v1/operator/failpoint/entry", "", acl.Management, acl.NoSpace)
)

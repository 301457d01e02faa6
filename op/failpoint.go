//go:build faults

package op

import (
	"berth/internal/acl"
	"berth/internal/decode"
	"berth/internal/failpoint"
)

// ArmFailpoint makes a server fail at a point, or takes that back. The server
// is the leader or the one that is asked. Servers that are not configured for
// fault points refuse it.
type ArmFailpoint struct {
	failpoint.Point
	Write
}

// ArmedFailpoints lists the fault points that are armed.
type ArmedFailpoints struct {
	Failpoints []failpoint.Point
	Hanging    []string // where something hangs, such as "before addPes", until the point is disarmed
	Meta
}

// LogEntry is a command that the leader proposes unchecked, so that tests can
// see the log refuse what no leader proposes. Servers that refuse fault points
// refuse it too.
type LogEntry struct {
	Command string         // name of the command, such as LaunchPE
	Fields  decode.RawTree // of the command
	Write
}

// EntryMade answers a LogEntry that was applied.
type EntryMade struct {
	EntryIndex uint64 // index at which it was applied
	Meta
}

// The operations with which tests make servers fail on purpose.
var (
	WriteFailpoint     = define[ArmFailpoint, ArmedFailpoints]("failpoint.write", "PUT /v1/operator/failpoint", "", acl.Management, acl.NoSpace)
	WriteFailpointHere = define[ArmFailpoint, ArmedFailpoints]("failpoint.here", "PUT /v1/agent/failpoint", "", acl.Management, acl.NoSpace, local)
	ReadFailpoints     = define[Query, ArmedFailpoints]("failpoint.read", "GET /v1/agent/failpoint", "", acl.Management, acl.NoSpace, local)
	WriteEntry         = define[LogEntry, EntryMade]("failpoint.entry", "PUT /v1/operator/failpoint/entry", "", acl.Management, acl.NoSpace)
)

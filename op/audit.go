package op

import (
	"time"

	"berth/internal/acl"
)

// This file has no counterpart in Nomad's API: reading the audit log of an agent.

// AuditQuery asks for a part of an agent's audit log, the newest entries first.
type AuditQuery struct {
	Since     string `query:"since"`     // only entries from then on, in RFC 3339
	Until     string `query:"until"`     // only entries before then
	User      string `query:"user"`      // the name or accessor ID of a token, or the name of a task or node
	Operation string `query:"operation"` // the name of an operation, such as job.register, an HTTP method or a path; * stands for any text
	Stage     string `query:"stage"`     // AuditAnswered (default), AuditReceived or AuditBoth
	Query
}

// The values of AuditQuery.Stage.
const (
	AuditAnswered = "answered" // one entry for each request that has ended
	AuditReceived = "received"
	AuditBoth     = "both"
)

// AuditEntry is one line of the audit log. It holds no secret.
type AuditEntry struct {
	Line       uint64 // its number in the log
	Time       time.Time
	Stage      string // AuditReceived or AuditAnswered
	RequestID  string // both entries of a request have the same
	User       string // name of the token, task or node; "" if it has none
	AccessorID string
	Type       string // of the caller: client, management, workload, anonymous, invalid or unknown
	Method     string
	Path       string
	Operation  string            // "" if the path is none of an operation
	Object     map[string]string `json:",omitempty"` // what the request names: JobID, AllocID, Task
	Namespace  string
	Address    string // of the caller
	UserAgent  string
	Agent      string  // that took the request
	Status     int     // of the answer; 0: none
	Error      string  // the kind of the error
	Millis     float64 // how long it took
	// Problem says that the line was changed, or that lines before it are missing
	// or were exchanged. Then nothing else is known of it but perhaps its number.
	Problem string `json:",omitempty"`
}

// ReadAudit reads the audit log of the agent that is asked. It checks the hash of
// each line that it goes through, and that it follows the line before it.
var ReadAudit = define[AuditQuery, []AuditEntry]("agent.audit", "GET /v1/agent/audit", "", acl.Management, acl.NoSpace, local)

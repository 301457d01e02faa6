package op

import (
	"berth"
	"berth/internal/acl"
)

// EventQuery asks for events. Query's MinQueryIndex is the first index to
// return: 0 means all events that are kept; a future index means only events
// from then on.
//
// With Every, and without rows, the stream is a digest for those who read what
// changed anyway: at most one message in that time, and in it the newest event of
// each topic that was asked for.
type EventQuery struct {
	Topics  []string `query:"topic"`   // Job, Job:web, *, *:web; empty is all
	Payload *bool    `query:"payload"` // false: events without their rows, for those who read what changed anyway
	Every   string   `query:"every"`   // such as 250ms, at most 10s; only with payload=false
	Query
}

// Events is one object of the event stream: the events of one command. An empty
// one keeps the connection alive; one with an Error is the last.
type Events struct {
	Index  uint64  `json:",omitempty"`
	Events []Event `json:",omitempty"`

	// Error is why no more events follow: the next ones are no longer kept.
	// Oldest is the first index from which all events are available.
	Error  string `json:",omitempty"`
	Oldest uint64 `json:",omitempty"`
	// Err repeats Error for Nomad's Go client, which ignores Error. Its
	// field Err cannot be decoded from JSON, so its stream ends with an
	// error instead of an end of file.
	Err string `json:",omitempty"`
}

// Event is one change of one row.
type Event struct {
	EventHead
	Payload EventPayload
}

// EventHead says what changed, without the row.
type EventHead struct {
	Topic      string
	Type       string
	Key        string
	Namespace  string
	FilterKeys []string
	Index      uint64
}

// EventPayload is the row as the API shows it, under the name of its topic. For
// a deleted row it is the last value.
type EventPayload struct {
	Job        *Job                       `json:",omitempty"`
	Evaluation *Eval                      `json:",omitempty"`
	Allocation *Alloc                     `json:",omitempty"` // without its job
	Deployment *berth.Deployment          `json:",omitempty"`
	Node       *Node                      `json:",omitempty"`
	NodePool   *berth.NodePool            `json:",omitempty"`
	Service    *berth.ServiceRegistration `json:",omitempty"`
	Resource   *ResourceEvent             `json:",omitempty"`
	Volume     *berth.HostVolume          `json:",omitempty"`

	ACLToken        *ACLToken              `json:",omitempty"` // without its secret
	ACLPolicy       *berth.ACLPolicy       `json:",omitempty"`
	ACLRole         *berth.ACLRole         `json:",omitempty"`
	ACLAuthMethod   *AuthMethod            `json:",omitempty"` // its client secret is Redacted
	ACLBindingRule  *BindingRule           `json:",omitempty"`
	Variable        *VariableStub          `json:",omitempty"` // without its items and the ID of its lock
	SchedulerConfig *berth.SchedulerConfig `json:",omitempty"`

	CSIVolume *CSIVolume  `json:",omitempty"`
	Plugin    *PluginStub `json:",omitempty"`
	Deleted   bool        `json:",omitempty"`
}

// ResourceEvent is a stream job or an object that it owns.
type ResourceEvent struct {
	Kind        string // Job, or one of berth.StreamKinds
	Name        string
	JobID       berth.JobID
	UID         string
	OwnerUID    string `json:",omitempty"` // "": it has no owner, or was orphaned
	Generation  uint64
	Cause       string // why it changed: register, plan, submission, launch, report, complete, fail, recover, scale, revert, tag, stability, stop, delete, user, gc, finalize
	Phase       string `json:",omitempty"` // of a job
	Deleting    bool   `json:",omitempty"` // of a job: its deletion in the foreground has begun
	LaunchCount uint64 `json:",omitempty"` // of a processing element
	// Connectivity is how many of its connections a processing element has:
	// none, partial or full.
	Connectivity string `json:",omitempty"`
}

// StreamEvents streams objects of type Events. Most topics need the capability
// declared here; nodes need acl.NodeRead, node pools acl.NodePoolRead, variables
// acl.VariablesList of their path, access control acl.Management.
var StreamEvents = define[EventQuery, Events]("event.stream", "GET /v1/event/stream", "", acl.ReadJob, acl.EventSpace)

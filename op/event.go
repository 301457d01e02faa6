package op

import (
	"berth"
	"berth/internal/acl"
)

// EventQuery asks for events. Index, of Query, is the first to return: 0
// means all that are kept, and a future index means from then on.
type EventQuery struct {
	Topics []string `query:"topic"` // Job, Job:web, *, *:web; none is all
	Query
}

// Events is one object of the event stream: those of one command. An empty
// one keeps the connection alive, and one with an Error is the last.
type Events struct {
	Index  uint64  `json:",omitempty"`
	Events []Event `json:",omitempty"`

	// Error says why no more events follow: some that should come next are
	// gone. Oldest is the index from which on all are there.
	Error  string `json:",omitempty"`
	Oldest uint64 `json:",omitempty"`
	// Err is Error once more. Nomad's Go client has a field of that name which
	// no JSON fits, so its stream ends with an error that is not the end of
	// file; the name Error it would pass over.
	Err string `json:",omitempty"`
}

// Event is one change of one row.
type Event struct {
	Topic      string
	Type       string
	Key        string
	Namespace  string
	FilterKeys []string
	Index      uint64
	Payload    EventPayload
}

// EventPayload is the row as the API shows it, under the name of its topic.
// Of a row that was deleted it is what the row was.
type EventPayload struct {
	Job        *Job                       `json:",omitempty"`
	Evaluation *Eval                      `json:",omitempty"`
	Allocation *Alloc                     `json:",omitempty"` // without its job
	Deployment *berth.Deployment          `json:",omitempty"`
	Node       *Node                      `json:",omitempty"`
	NodePool   *berth.NodePool            `json:",omitempty"`
	Service    *berth.ServiceRegistration `json:",omitempty"`
	Resource   *ResourceEvent             `json:",omitempty"`
	Deleted    bool                       `json:",omitempty"`
}

// ResourceEvent is a stream job, or what it owns, as an object with an owner.
type ResourceEvent struct {
	Kind        string // Job, or one of berth.StreamKinds
	Name        string
	JobID       berth.JobID
	UID         string
	OwnerUID    string `json:",omitempty"` // "": it has none, or was left to itself
	Generation  uint64
	Cause       string // why it changed: register, plan, submission, launch, report, complete, fail, recover, scale, revert, tag, stability, stop, delete, user, gc, finalize
	Phase       string `json:",omitempty"` // of a job
	Deleting    bool   `json:",omitempty"` // of a job: from now on it is being deleted in the foreground
	LaunchCount uint64 `json:",omitempty"` // of a processing element
	// Connectivity is, of a processing element, which of its connections it has.
	Connectivity string `json:",omitempty"`
}

// StreamEvents streams: what comes out are objects of type Events. The
// capability is that of most topics; nodes need acl.NodeRead, node pools
// acl.NodePoolRead.
var StreamEvents = define[EventQuery, Events]("event.stream", "GET /v1/event/stream", "", acl.ReadJob, acl.EventSpace)

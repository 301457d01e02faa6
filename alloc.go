package berth

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Alloc (allocation) is one instance of a group on one node. There can be
// millions, so it holds only what cannot be derived; package op has the rest.
// The job and group it points to are the version it was placed or last updated
// in place with.
type Alloc struct {
	ID     AllocID
	NodeID NodeID
	EvalID EvalID     // the evaluation that placed it or updated it in place
	Job    *Job       // the version that it was placed with or updated to
	Group  *TaskGroup // of Job

	Index   uint32 // of its name: job.group[Index]
	Ordinal uint32 // with CreateIndex its UID

	Desired  DesiredStatus // what the servers want
	Client   ClientStatus  // what its agent reported, or what servers concluded
	Orphaned bool          // its job was deleted and left it running

	Score float32 // of its node when it was placed

	CreateIndex      uint64
	ModifyIndex      uint64
	AllocModifyIndex uint64 // of the last change that its agent must see
	CreateTime       int64  // ns since 1970
	ModifyTime       int64

	Ports []uint16       // dynamic ports, in the order of the group's dynamic port labels
	Tasks TaskStatesPack // what its agent last reported
	More  *AllocMore     // nil for most
}

// AllocMore holds fields that few allocations use.
type AllocMore struct {
	Previous           AllocID    // the allocation this one replaces
	Next               AllocID    // the allocation that replaces this one
	FollowupEval       EvalID     // the delayed evaluation that will replace it
	DesiredDescription string     // why it stops, as people read it
	StopReason         StopReason `msgpack:"-"` // why it stops; it is stored as DesiredDescription
	ClientDescription  string     // why, as people read it
	DeploymentID       DeploymentID
	DeploymentStatus   *AllocDeploymentStatus
	Network            *AllocNetworkStatus
	NoShutdownDelay    bool // it is stopped without the delay of its group

	Cores     []uint16      // see Grant
	Devices   []DeviceGrant // see Grant
	MemoryMax bool          // its tasks may use their memory_max: oversubscription was on when it was placed
	Evicted   []AllocID     // the victims that this one preempted
	EvictedBy AllocID       // the allocation that preempted this one

	// Migrate, Reschedule and ForceReschedule ask for a replacement elsewhere:
	// because the node is drained, because the allocation failed, or against its
	// reschedule policy.
	Migrate, Reschedule, ForceReschedule bool

	// Relocate asks for the allocation to be stopped and placed again on any
	// suitable node, its own included.
	Relocate bool

	PE *PERef // for a stream job: the launch it belongs to

	UnknownSince int64 // ns since 1970: the last contact with its node, while the client status is unknown
}

// noMore stands in for the More of allocations that have none. It must not be
// changed.
var noMore AllocMore

// Rest returns a.More, or an empty value; it must not be changed.
func (a *Alloc) Rest() *AllocMore {
	if a.More == nil {
		return &noMore
	}
	return a.More
}

// With returns a copy of the allocation whose More is its own to change.
func (a *Alloc) With() (*Alloc, *AllocMore) {
	b, m := *a, *a.Rest()
	b.More = &m
	return &b, &m
}

// Grant returns what the allocation was given by name.
func (a *Alloc) Grant() Grant {
	m := a.Rest()
	return Grant{a.Ports, m.Cores, m.Devices}
}

// UID returns the identity of the allocation.
func (a *Alloc) UID() UID { return UID{a.CreateIndex, a.Ordinal} }

// Key returns the name of the allocation's job.
func (a *Alloc) Key() JobKey { return a.Job.Key() }

// Name returns job.group[index].
func (a *Alloc) Name() string { return AllocName(a.Job.ID, a.Group.Name, a.Index) }

// AllocName returns job.group[index].
func AllocName(job JobID, group string, index uint32) string {
	return string(job) + "." + group + "[" + strconv.FormatUint(uint64(index), 10) + "]"
}

// Wanted reports whether the allocation should run.
func (a *Alloc) Wanted() bool { return a.Desired == DesiredRun }

// Ended reports whether its agent confirmed, or a lost node implies, that nothing
// of it runs any more.
func (a *Alloc) Ended() bool { return a.Client.Ended() }

// Live reports whether the allocation should run and has not ended.
func (a *Alloc) Live() bool { return a.Wanted() && !a.Ended() }

// Occupies reports whether the allocation uses capacity of its node: until its
// end is confirmed, also while it is being stopped.
func (a *Alloc) Occupies() bool { return !a.Client.Ended() }

// DesiredStatus is what servers decided for an allocation.
type DesiredStatus uint8

// The desired statuses. They only move forward: what should stop never should
// run again.
const (
	DesiredRun DesiredStatus = iota // the zero value
	DesiredStop
	DesiredEvict // preempted
)

// desiredNames are the statuses as the API writes them, by their value.
var desiredNames = []string{"run", "stop", "evict"}

// String returns the status as the API writes it.
func (s DesiredStatus) String() string { return enumName(desiredNames, int(s)) }

// MarshalText implements encoding.TextMarshaler.
func (s DesiredStatus) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *DesiredStatus) UnmarshalText(b []byte) error {
	i, err := enumIndex("desired status", desiredNames, string(b))
	*s = DesiredStatus(i)
	return err
}

// MarshalBinary returns the text, as the wire has it.
func (s DesiredStatus) MarshalBinary() ([]byte, error) { return s.MarshalText() }

// UnmarshalBinary reads what MarshalBinary wrote.
func (s *DesiredStatus) UnmarshalBinary(b []byte) error { return s.UnmarshalText(b) }

// ClientStatus is an allocation's status on its node.
type ClientStatus uint8

// The client statuses.
const (
	ClientPending ClientStatus = iota // not reported as started so far
	ClientRunning
	ClientComplete // all tasks ended well
	ClientFailed
	ClientLost    // its node went down
	ClientUnknown // its node is disconnected
)

// clientNames are the statuses as the API writes them, by their value.
var clientNames = []string{"pending", "running", "complete", "failed", "lost", "unknown"}

// Ended reports whether the status is final: no report changes it any more.
func (s ClientStatus) Ended() bool {
	return s == ClientComplete || s == ClientFailed || s == ClientLost
}

// String returns the status as the API writes it.
func (s ClientStatus) String() string { return enumName(clientNames, int(s)) }

// MarshalText implements encoding.TextMarshaler.
func (s ClientStatus) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. An empty text is pending,
// as agents send it when nothing happened yet.
func (s *ClientStatus) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*s = ClientPending
		return nil
	}
	i, err := enumIndex("client status", clientNames, string(b))
	*s = ClientStatus(i)
	return err
}

// MarshalBinary returns the text, as the wire has it.
func (s ClientStatus) MarshalBinary() ([]byte, error) { return s.MarshalText() }

// UnmarshalBinary reads what MarshalBinary wrote.
func (s *ClientStatus) UnmarshalBinary(b []byte) error { return s.UnmarshalText(b) }

// enumName returns the name of value i. A value from a newer version has none
// and shows its number.
func enumName(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return fmt.Sprintf("unknown(%d)", i)
}

// enumIndex returns the value with name s; an unknown name is Invalid. what
// names the enum in the error.
func enumIndex(what string, names []string, s string) (int, error) {
	for i, n := range names {
		if n == s {
			return i, nil
		}
	}
	return 0, Errorf(Invalid, "unknown %s %q: want one of %s", what, Clip(s, 64), strings.Join(names, ", "))
}

// AllocDeploymentStatus is an allocation's health in its deployment.
type AllocDeploymentStatus struct {
	Healthy     *bool     // nil: not decided
	Timestamp   time.Time // when Healthy was set
	Canary      bool      // it was placed as one
	ModifyIndex uint64    // of the last change of Healthy
}

// AllocNetworkStatus is an allocation's own address.
type AllocNetworkStatus struct {
	InterfaceName string
	Address       string
	AddressIPv6   string
	DNS           *DNSConfig
}

// RescheduleEvent is one replacement of a failed allocation.
type RescheduleEvent struct {
	RescheduleTime int64 // ns since 1970
	PrevAllocID    AllocID
	PrevNodeID     NodeID
	Delay          time.Duration // waited before the replacement
}

// Spent reports whether a drain stopped an allocation of a batch or sysbatch
// job. It is not replaced: it had until the deadline of the drain to end.
func (a *Alloc) Spent() bool {
	if a.Wanted() || a.Job.Type != TypeBatch && a.Job.Type != TypeSysbatch {
		return false
	}
	m := a.Rest()
	return m.StopReason == StopMigrated && m.Next.IsZero()
}

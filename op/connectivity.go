package op

import (
	"berth"
	"berth/internal/acl"
	"berth/internal/streams"
)

// ConnectivityQuery asks what a processing element of a stream job, of which
// the node has an allocation, is to be told of its connections, and waits until
// that is something else than what the agent has.
type ConnectivityQuery struct {
	NodeID   berth.NodeID
	SecretID string
	AllocID  berth.AllocID
	Have     string // the mark of the newest answer; "": none
	Query           // MinQueryIndex is the index of that
}

// ConnectivityAnswer is what it is told. Index is that of the state it is
// from. One that is lower than the caller's MinQueryIndex is from a server that
// lags, and says nothing.
type ConnectivityAnswer struct {
	File *ConnectivityFile // without a version: that is the agent's
	Mark string            // of the answer, for the next query
	Meta
}

// ReportConnectivity tells which of its connections a launch of a processing
// element has.
type ReportConnectivity struct {
	NodeID   berth.NodeID
	SecretID string
	AllocID  berth.AllocID
	PE       string // UID
	Launch   uint64
	State    string // none, partial or full
	Write
}

// ConnectivityFile is the file in which the tasks of a processing element find
// its connections.
type ConnectivityFile = streams.Document

// The operations of agents that run processing elements.
var (
	PullConnectivity = define[ConnectivityQuery, ConnectivityAnswer]("stream.pull", "", "Stream.Connectivity", acl.Node, acl.NoSpace)
	TellConnectivity = define[ReportConnectivity, Nothing]("stream.report", "", "Stream.ReportConnectivity", acl.Node, acl.NoSpace, write)
)

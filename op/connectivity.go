package op

import (
	"berth"
	"berth/internal/acl"
	"berth/internal/streams"
)

// ConnectivityQuery asks for the connections of a processing element that has
// an allocation on the node. It waits until they differ from what the agent
// has.
type ConnectivityQuery struct {
	NodeID   berth.NodeID
	SecretID string
	AllocID  berth.AllocID
	Have     string // Mark of the newest answer; "" if there was none
	Query           // MinQueryIndex is the Index of that answer
}

// ConnectivityAnswer answers ConnectivityQuery. Index is that of the state it
// is from. An answer whose index is below the caller's MinQueryIndex is from a
// server that lags, and must be ignored.
type ConnectivityAnswer struct {
	File *ConnectivityFile // without a version, which the agent assigns
	Mark string            // identifies the answer in the next query
	Meta
}

// ReportConnectivity reports which of its connections a launch of a processing
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

// ConnectivityFile is the content of the file from which the tasks of a
// processing element read its connections.
type ConnectivityFile = streams.Document

// The operations that agents call for processing elements.
var (
	PullConnectivity = define[ConnectivityQuery, ConnectivityAnswer]("stream.pull", "", "Stream.Connectivity", acl.Node, acl.NoSpace)
	TellConnectivity = define[ReportConnectivity, Nothing]("stream.report", "", "Stream.ReportConnectivity", acl.Node, acl.NoSpace, write)
)

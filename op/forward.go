package op

import (
	"time"

	"berth"
	"berth/internal/acl"
)

// Scope limits where the receiver of a forwarded operation may forward it.
type Scope string

// The scopes.
const (
	ScopeAny    Scope = ""       // anywhere, as if the request had arrived there
	ScopeRegion Scope = "region" // to any server of the receiver's region
	ScopeLeader Scope = "leader" // nowhere: the receiver must be the leader
)

// View is the form of an answer that the caller asked for.
type View struct {
	Pretty bool // indent JSON
	Gzip   bool // compression is allowed
	Head   bool // the caller wants only the head
}

// Forwarded is an operation that one server sends to another on behalf of a
// caller. The caller's token is in the input.
type Forwarded struct {
	Name   string // of the operation
	In     []byte // its input in wire format
	Scope  Scope
	Remote string // the caller's address; trusted only from a server of the cluster
	RPC    bool   // answer in wire format instead of JSON
	Seen   uint64 // the state index that the answer must include; 0: any will do
	View          // for a stream
}

// Wait returns how long the operation may wait, which is added to the time
// limit of the call.
func (*Forwarded) Wait() time.Duration { return MaxWait + MaxWait/16 }

// Answer is the result of a forwarded operation.
type Answer struct {
	Meta         // after a failure, of the state that showed it
	Body  []byte // the answer, in the requested form
	Also  bool   // the operation answered with its second status
	Large bool   // the answer is too large for one message and must be read as a stream
	Failure
}

// Failure is why an operation failed; the zero value means that it did not.
type Failure struct {
	Kind      berth.Kind // of the error; "" is a fault of the server
	Code      berth.Code // of the error, "" if it has none
	Error     string
	NotLeader bool // it was meant for the leader, which this server is not; nothing was done
}

// StreamHead begins the answer to a forwarded stream operation, or asks for the
// body of its request.
type StreamHead struct {
	Continue bool // send the body; another head follows
	Status   int
	Header   map[string][]string
	Failure
}

// The operations that carry other operations to the server that answers them.
// Agents forward requests that they received over HTTP; they are answered with
// the rights of the original caller.
var (
	Forward            = define[Forwarded, Answer]("server.forward", "", "Server.Forward", acl.Server, acl.NoSpace, servers)
	ForwardStream      = define[Forwarded, StreamHead]("server.forward_stream", "", "Server.ForwardStream", acl.Server, acl.NoSpace, servers)
	ForwardDuplex      = define[Forwarded, Nothing]("server.forward_duplex", "", "Server.ForwardDuplex", acl.Server, acl.NoSpace, servers)
	AgentForward       = define[Forwarded, Answer]("agent.forward", "", "Agent.Forward", acl.Node, acl.NoSpace, forwards)
	AgentForwardStream = define[Forwarded, StreamHead]("agent.forward_stream", "", "Agent.ForwardStream", acl.Node, acl.NoSpace, forwards)
	AgentForwardDuplex = define[Forwarded, Nothing]("agent.forward_duplex", "", "Agent.ForwardDuplex", acl.Node, acl.NoSpace, forwards)
)

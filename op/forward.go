package op

import (
	"time"

	"berth"
	"berth/internal/acl"
)

// Scope is how far an operation that was forwarded may go from there.
type Scope string

// The scopes.
const (
	ScopeAny    Scope = ""       // anywhere, as if it had been asked for there
	ScopeRegion Scope = "region" // to any server of the region that it was sent to
	ScopeLeader Scope = "leader" // nowhere: it was sent to the leader
)

// View is how an answer is to look.
type View struct {
	Pretty bool // JSON is indented
	Gzip   bool // it may be compressed
	Head   bool // the caller wants no more than the head
}

// Forwarded is an operation that one server asks of another for its caller. The
// caller's token is in the input.
type Forwarded struct {
	Name   string // of the operation
	In     []byte // its input, as the wire has it
	Scope  Scope
	Remote string // the caller's address; only a server of the cluster is believed
	RPC    bool   // answer as on the wire; else as JSON
	View          // of a stream
}

// Wait returns how much more time than another call this one has: what its
// operation may wait, whatever that is.
func (*Forwarded) Wait() time.Duration { return MaxWait + MaxWait/16 }

// Answer is what came of a forwarded operation.
type Answer struct {
	Meta
	Body  []byte // what the operation answers, in the form that was wanted
	Also  bool   // it answers with the other status that it has
	Large bool   // a read whose answer is too large for one message, and comes as a stream
	Failure
}

// Failure is why an operation failed; the zero value is that it did not.
type Failure struct {
	Kind      berth.Kind // of the error; "" is a fault of the server
	Code      berth.Code // of the error, "" if it has none
	Error     string
	NotLeader bool // it was sent to the leader, and this server does not lead: nothing was done
}

// StreamHead begins the answer to a forwarded operation that is a stream, or
// asks for the body of its request.
type StreamHead struct {
	Continue bool // send the body; another head follows
	Status   int
	Header   map[string][]string
	Failure
}

// How operations get to the server that answers them. What agents forward is
// what people ask them over HTTP, and is answered with the rights of those.
var (
	Forward            = define[Forwarded, Answer]("server.forward", "", "Server.Forward", acl.Server, acl.NoSpace, servers)
	ForwardStream      = define[Forwarded, StreamHead]("server.forward_stream", "", "Server.ForwardStream", acl.Server, acl.NoSpace, servers)
	AgentForward       = define[Forwarded, Answer]("agent.forward", "", "Agent.Forward", acl.Node, acl.NoSpace, forwards)
	AgentForwardStream = define[Forwarded, StreamHead]("agent.forward_stream", "", "Agent.ForwardStream", acl.Node, acl.NoSpace, forwards)
)

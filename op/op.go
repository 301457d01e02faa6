// Package op lists the operations of the system, each declared once: its HTTP
// route, its RPC name where agents use it, what goes in and what comes out,
// the right it needs. Servers, the Go client, the CLI and the agents all use
// these values, so none of them can disagree.
//
// Beside each operation stand its views: what the API shows of a stored row
// beyond the row itself. Names and shapes are those of Nomad's public HTTP API
// and of the protocol that its client agents speak.
package op

import (
	"cmp"
	"context"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"time"

	"berth/internal/acl"
)

// Op is one operation. Path segments in braces of the route, and parameters
// with a query tag, are fields of In; the body of a write is the rest of In.
type Op[In, Out any] struct{ *Info }

// Info is what can be said of an operation without its types.
type Info struct {
	Name     string // for metrics, errors and the capability table: "job.read"
	Method   string // GET for a read; PUT for a write, where POST does as well; or DELETE. RPC alone has one, too
	Path     string // "/v1/job/{JobID}/allocations"; "" if it is not served over HTTP
	RPC      string // "Node.Register"; "" if it is called over HTTP alone
	Need     acl.Capability
	Space    acl.Space
	MaxBody  int64 // bytes of body that are read, and no more; 0: a stream, of which each piece is used and let go
	Local    bool  // about this agent, not the cluster: never forwarded
	Leader   bool  // a read of what only the leader knows; a stale one does without
	Body     bool  // a DELETE that says in its body what to delete
	Bytes    bool  // the body, or of a read the answer, is bytes of any number and not JSON
	Also     int   // an HTTP status with which it answers as well as with 200; 0: none
	Deposes  bool  // the server that answers it may not lead any more when it does
	Servers  bool  // its RPC is for other servers alone
	Forwards bool  // its RPC is for agents that forward what they are asked
	Agents   bool  // its RPC is served by agents, and called by servers

	In, Out reflect.Type
}

// IsRead reports whether the operation changes nothing.
func (i *Info) IsRead() bool { return i.Method == "GET" }

// Limits of bodies (S-25).
const (
	MaxJobBody = 4 << 20
	MaxBody    = 256 << 10
)

var all []*Info

// All returns every operation, in order of name.
func All() []*Info {
	return slices.SortedFunc(slices.Values(all), func(a, b *Info) int { return strings.Compare(a.Name, b.Name) })
}

// define makes an operation. route is "GET /v1/nodes", or "" for RPC alone.
func define[In, Out any](name, route, rpc string, need acl.Capability, space acl.Space, more ...func(*Info)) Op[In, Out] {
	method, path, _ := strings.Cut(route, " ")
	i := &Info{
		Name: name, Method: cmp.Or(method, "GET"), Path: path, RPC: rpc, Need: need, Space: space, MaxBody: MaxBody,
		In: reflect.TypeFor[In](), Out: reflect.TypeFor[Out](),
	}
	for _, f := range more {
		f(i)
	}
	all = append(all, i)
	return Op[In, Out]{i}
}

// The options of define. jobBody allows bodies of up to MaxJobBody bytes, local
// keeps an operation on the agent that is asked, and leader marks a read of what
// only the leader knows.
func jobBody(i *Info) { i.MaxBody = MaxJobBody }
func local(i *Info)   { i.Local = true }
func leader(i *Info)  { i.Leader = true }

// bytes marks an operation whose answer is bytes, or of a write its body: a
// stream that nobody holds in full, so that it may be of any size.
func bytes(i *Info) {
	i.Bytes = true
	if !i.IsRead() {
		i.MaxBody = 0
	}
}

// also marks an operation that answers with another status as well.
func also(status int) func(*Info) { return func(i *Info) { i.Also = status } }

// withBody marks a DELETE whose input is in its body.
func withBody(i *Info) { i.Body = true }

// deposes marks an operation that ends the term in which it is done.
func deposes(i *Info) { i.Deposes = true }

// servers marks an operation that only servers call, by RPC.
func servers(i *Info) { i.Servers = true }

// forwards marks an operation that only agents call, for what they are asked.
func forwards(i *Info) { i.Forwards = true }

// agents marks an operation whose RPC agents serve.
func agents(i *Info) { i.Agents = true }

// write marks an operation without a route as one that changes state.
func write(i *Info) { i.Method = "PUT" }

// Caller calls a method at the far end of a connection and reads the answer
// into out, a pointer.
type Caller interface {
	Call(ctx context.Context, method string, in, out any) error
}

// Call calls an operation that has an RPC name over a connection. An error of
// the far end has the kind that it has there.
func Call[In, Out any](ctx context.Context, c Caller, o Op[In, Out], in *In) (*Out, error) {
	out := new(Out)
	if err := c.Call(ctx, o.RPC, in, out); err != nil {
		return nil, err
	}
	return out, nil
}

// Query is what every read may say besides what it asks for. Over HTTP it is
// parameters and headers, over RPC it is fields of the argument.
type Query struct {
	Region        string
	Namespace     string
	MinQueryIndex uint64        // wait until something newer than this is there
	MaxQueryTime  time.Duration // how long to wait; at most 300 s
	AllowStale    bool
	AuthToken     string
	Prefix        string
	Filter        string
	PerPage       int32
	NextToken     string
	Reverse       bool
}

// Opts returns q, so that it can be read from any struct that embeds Query.
func (q *Query) Opts() *Query { return q }

// Wait returns how long the query may wait for something newer than
// MinQueryIndex; 0 if it does not wait. Up to a sixteenth is added by chance, so
// that queries that began together do not all end together.
func (q *Query) Wait() time.Duration {
	if q.MinQueryIndex == 0 {
		return 0
	}
	d := q.MaxQueryTime
	if d <= 0 || d > MaxWait {
		d = MaxWait
	}
	return d + rand.N(d/16+1)
}

// Write is what every write may say besides what it changes.
type Write struct {
	Region           string
	Namespace        string
	AuthToken        string
	IdempotencyToken string
}

// Opts returns w, so that it can be read from any struct that embeds Write.
func (w *Write) Opts() *Write { return w }

// Meta is what every answer says besides what was asked. Over HTTP it is
// headers, over RPC it is fields of the reply.
type Meta struct {
	Index       uint64 // of the state that the answer is from
	LastContact time.Duration
	KnownLeader bool
	NextToken   string
}

// Of returns m, so that it can be read from any struct that embeds Meta.
func (m *Meta) Of() *Meta { return m }

// Nothing is the input or output of an operation that has none.
type Nothing struct{}

// Header names of the HTTP API.
const (
	HeaderToken       = "X-Nomad-Token"
	HeaderIndex       = "X-Nomad-Index"
	HeaderLastContact = "X-Nomad-LastContact"
	HeaderKnownLeader = "X-Nomad-KnownLeader"
	HeaderNextToken   = "X-Nomad-NextToken"
	HeaderKind        = "X-Berth-Kind" // of an error: a berth.Kind; Nomad has no such header
	HeaderCode        = "X-Berth-Code" // of a refusal that has one of berth.Codes; Nomad has no such header
)

// Limits of waiting and paging (S-26).
const (
	MaxWait     = 300 * time.Second
	MaxPage     = 1000
	DefaultPage = 0 // all, as Nomad has it
)

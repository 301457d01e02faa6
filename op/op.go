// Package op lists the operations of the system, each declared once: its HTTP
// route, its RPC name if agents use it, its input and output, and the right it
// needs. Servers, the Go client, the CLI and the agents all use these values,
// so they cannot disagree.
//
// Each operation's views are declared next to it: what the API shows of a
// stored row beyond the row itself. Names and shapes are those of Nomad's
// public HTTP API and of the protocol that its client agents speak.
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

// Op is one operation. Path segments in braces and query parameters are fields
// of In; the body of a write is the rest of In.
type Op[In, Out any] struct{ *Info }

// Info describes an operation without its Go types.
type Info struct {
	Name     string         // for metrics, errors and the capability table: "job.read"
	Method   string         // GET for a read; PUT for a write, which accepts POST too; or DELETE; also set for RPC-only operations
	Path     string         // "/v1/job/{JobID}/allocations"; "" if it is not served over HTTP
	RPC      string         // "Node.Register"; "" if it is only called over HTTP
	Need     acl.Capability // what the caller's token must allow
	Space    acl.Space      // which namespace Need applies to
	MaxBody  int64          // largest body in bytes; 0: no limit, for a body that is processed as it arrives
	Local    bool           // about this agent, not the cluster: never forwarded
	Leader   bool           // a read of what only the leader knows; a stale read leaves that out
	Body     bool           // a DELETE whose body names what to delete
	Posted   bool           // a read that comes as PUT or POST with its input in the body; with Any, also as GET
	Bytes    bool           // the body of a write, or the answer to a read, is bytes of any length instead of JSON
	Also     int            // a second HTTP status that it can answer with besides 200; 0: none
	Deposes  bool           // it can end the leadership of the server that answers it
	Servers  bool           // only servers may call its RPC
	Forwards bool           // agents call its RPC to forward requests
	Agents   bool           // agents serve its RPC and servers call it
	Payload  bool           // the body of a write is its field Payload, as it is
	Any      bool           // over HTTP, PUT and POST do the same as GET

	In, Out reflect.Type
}

// IsRead reports whether the operation changes nothing.
func (i *Info) IsRead() bool { return i.Method == "GET" }

// Verb returns the method that clients use over HTTP.
func (i *Info) Verb() string {
	if i.Posted {
		return "POST"
	}
	return i.Method
}

// Limits of bodies (S-25).
const (
	MaxJobBody = 4 << 20
	MaxBody    = 256 << 10
)

// all is filled by define while the package is initialized, and only read
// afterwards.
var all []*Info

// All returns every operation, in order of name.
func All() []*Info {
	return slices.SortedFunc(slices.Values(all), func(a, b *Info) int { return strings.Compare(a.Name, b.Name) })
}

// define declares an operation. route is "GET /v1/nodes", or "" for an
// operation that is only called over RPC.
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

// bytes marks a read whose answer, or a write whose body, is a stream of bytes.
// It is never held in memory in full, so it may have any size.
func bytes(i *Info) {
	i.Bytes = true
	if !i.IsRead() {
		i.MaxBody = 0
	}
}

// also marks an operation that can answer with a second status.
func also(status int) func(*Info) { return func(i *Info) { i.Also = status } }

// withBody marks a DELETE whose input is in its body.
func withBody(i *Info) { i.Body = true }

// posted marks a read whose input is in the body of a PUT or POST.
func posted(i *Info) { i.Posted = true }

// payload marks a write whose body is its field Payload.
func payload(i *Info) { i.Payload = true }

// deposes marks an operation that can end the current term.
func deposes(i *Info) { i.Deposes = true }

// servers marks an operation that only servers call, by RPC.
func servers(i *Info) { i.Servers = true }

// forwards marks an operation that agents call to forward requests.
func forwards(i *Info) { i.Forwards = true }

// anyMethod marks a GET that may be asked for as a write too.
func anyMethod(i *Info) { i.Any = true }

// agents marks an operation whose RPC is served by agents.
func agents(i *Info) { i.Agents = true }

// write marks an operation without a route as one that changes state.
func write(i *Info) { i.Method = "PUT" }

// Caller calls a method at the far end of a connection and reads the answer
// into out, a pointer.
type Caller interface {
	Call(ctx context.Context, method string, in, out any) error
}

// Call calls an operation over a connection; it must have an RPC name. Errors
// keep their kind across the connection.
func Call[In, Out any](ctx context.Context, c Caller, o Op[In, Out], in *In) (*Out, error) {
	out := new(Out)
	if err := c.Call(ctx, o.RPC, in, out); err != nil {
		return nil, err
	}
	return out, nil
}

// Query holds the options of every read. Over HTTP they are parameters and
// headers, over RPC fields of the argument.
type Query struct {
	Region        string
	Namespace     string
	MinQueryIndex uint64        // wait until there is something newer than this
	MaxQueryTime  time.Duration // how long to wait; at most 300 s
	AllowStale    bool          // any server may answer, as old as its state is
	AuthToken     string
	Prefix        string // only IDs or names with this prefix
	Filter        string // an expression that the items must meet
	PerPage       int32  // items per page; 0 is DefaultPage
	NextToken     string // of the previous page; "" is the first page
	Reverse       bool   // newest first, or in descending order
}

// Opts returns q, so that it can be read from any struct that embeds Query.
func (q *Query) Opts() *Query { return q }

// Wait returns how long the query may wait for something newer than
// MinQueryIndex; 0 if it does not wait. A random sixteenth at most is added, so
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

// Write holds the options of every write.
type Write struct {
	Region           string
	Namespace        string
	AuthToken        string
	IdempotencyToken string
}

// Opts returns w, so that it can be read from any struct that embeds Write.
func (w *Write) Opts() *Write { return w }

// Meta accompanies every answer. Over HTTP it is headers, over RPC fields of
// the reply.
type Meta struct {
	Index       uint64        // of the state that the answer is from
	LastContact time.Duration // how long ago the server last heard from the leader
	KnownLeader bool
	NextToken   string // for the next page; "" on the last one
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
	HeaderKind        = "X-Berth-Kind" // a berth.Kind, on errors; Nomad has no such header
	HeaderCode        = "X-Berth-Code" // one of berth.Codes, on refusals that have one; Nomad has no such header
)

// Limits of waiting and paging (S-26).
const (
	MaxWait     = 300 * time.Second
	MaxPage     = 1000
	DefaultPage = 0 // all, as in Nomad
)

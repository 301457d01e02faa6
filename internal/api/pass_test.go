package api_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth"
	"berth/internal/api"
	"berth/internal/peer"
	"berth/internal/state"
	"berth/op"
)

// follower is a server that does not lead: who leads, and how the leader is
// reached, is up to the test.
type follower struct {
	api.Peers
	mu      sync.Mutex
	leader  string
	over    chan struct{} // closed when another one leads
	connect func(ctx context.Context, addr string) (peer.Conn, error)
}

func newFollower() *follower { return &follower{leader: "old:1", over: make(chan struct{})} }

func (*follower) Leader() (api.Leader, error)               { return nil, state.ErrLost }
func (*follower) Address() string                           { return "f" }
func (*follower) Sync(context.Context, time.Duration) error { return state.ErrLost }

func (f *follower) Route(context.Context, bool) (string, <-chan struct{}, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.leader, f.over, nil
}

func (f *follower) Connect(ctx context.Context, addr string) (peer.Conn, error) {
	return f.connect(ctx, addr)
}

// leads has another server lead.
func (f *follower) leads(addr string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.over)
	f.leader, f.over = addr, make(chan struct{})
}

// answering is a way to a server that answers by a function.
type answering func(context.Context, *op.Forwarded) (*op.Answer, error)

func (a answering) Forward(ctx context.Context, r *op.Forwarded) (*op.Answer, error) {
	return a(ctx, r)
}

func (answering) Stream(context.Context, *op.Forwarded, io.Reader) (*peer.Stream, error) {
	return nil, peer.ErrDropped
}

func (answering) Duplex(context.Context, *op.Forwarded) (op.Duplex, error) {
	return nil, peer.ErrDropped
}

// good answers everything with an empty object.
var good = answering(func(context.Context, *op.Forwarded) (*op.Answer, error) { return &op.Answer{Body: []byte("{}")}, nil })

func passing(t *testing.T, f *follower) *api.Server {
	s, _ := serve(t, func(c *api.Config) { c.Cluster, c.Peers = f, f })
	return s
}

const aJob = `{"Job":{"ID":"web","TaskGroups":[{"Name":"g","Tasks":[{"Name":"t","Driver":"raw_exec","Config":{"command":"x"}}]}]}}`

// While a server dials the leader that was, another is elected: nothing was
// sent, so the request goes to that one.
func TestAnotherLeadsBeforeARequestIsSent(t *testing.T) {
	f := newFollower()
	f.connect = func(ctx context.Context, addr string) (peer.Conn, error) {
		if addr == "new:1" {
			return good, nil
		}
		f.leads("new:1")
		<-ctx.Done()
		return nil, fmt.Errorf("%w: %w", peer.ErrUnreached, ctx.Err())
	}
	if w := ask(passing(t, f), http.MethodPut, "/v1/jobs", aJob); w.Code != http.StatusOK {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// The leader is lost while it has a write: nobody knows what became of it, so
// it is not repeated. A read is.
func TestWhatMayHaveBeenDoneIsNotRepeated(t *testing.T) {
	for _, method := range []string{http.MethodPut, http.MethodGet} {
		f := newFollower()
		var sent atomic.Int32
		lost := answering(func(context.Context, *op.Forwarded) (*op.Answer, error) {
			f.leads("new:1")
			return nil, peer.ErrDropped
		})
		f.connect = func(_ context.Context, addr string) (peer.Conn, error) {
			sent.Add(1)
			if addr == "new:1" {
				return good, nil
			}
			return lost, nil
		}
		path, body := "/v1/jobs", aJob
		if method == http.MethodGet {
			path, body = "/v1/evaluation/00000000-0000-0000-0000-000000000001", ""
		}
		w := ask(passing(t, f), method, path, body)
		if method == http.MethodPut && (w.Code != http.StatusInternalServerError || sent.Load() != 1) {
			t.Errorf("%s: %d %s after %d attempts", method, w.Code, w.Body, sent.Load())
		}
		if method == http.MethodGet && (w.Code != http.StatusOK || sent.Load() != 2) {
			t.Errorf("%s: %d %s after %d attempts", method, w.Code, w.Body, sent.Load())
		}
	}
}

// Who led a moment ago says what came of the write that it has, though another
// leads already: that it was done, or that nothing was, and then the next is
// asked.
func TestWhoLedHasTheLastWord(t *testing.T) {
	for _, c := range []struct {
		name string
		last error
		sent int32
	}{{"it was done", nil, 1}, {"nothing was done", peer.ErrNotLeader, 2}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFollower()
				var sent atomic.Int32
				old := answering(func(ctx context.Context, r *op.Forwarded) (*op.Answer, error) {
					f.leads("new:1")
					select {
					case <-time.After(500 * time.Millisecond): // what it has takes a while to end
					case <-ctx.Done():
						return nil, peer.ErrDropped
					}
					if c.last != nil {
						return nil, c.last
					}
					return good(ctx, r)
				})
				f.connect = func(_ context.Context, addr string) (peer.Conn, error) {
					sent.Add(1)
					if addr == "new:1" {
						return good, nil
					}
					return old, nil
				}
				if w := ask(passing(t, f), http.MethodPut, "/v1/jobs", aJob); w.Code != http.StatusOK || sent.Load() != c.sent {
					t.Errorf("%d %s after %d attempts", w.Code, w.Body, sent.Load())
				}
			})
		})
	}
}

// A leader that says nothing any more is not waited for long.
func TestWhoLedIsNotWaitedForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFollower()
		silent := answering(func(ctx context.Context, _ *op.Forwarded) (*op.Answer, error) {
			f.leads("new:1")
			<-ctx.Done()
			return nil, peer.ErrDropped
		})
		f.connect = func(context.Context, string) (peer.Conn, error) { return silent, nil }
		asked := time.Now()
		w := ask(passing(t, f), http.MethodPut, "/v1/jobs", aJob)
		if took := time.Since(asked); w.Code != http.StatusInternalServerError || took != time.Second {
			t.Errorf("%d %s after %v", w.Code, w.Body, took)
		}
	})
}

// A server that is not reached did nothing, and the next is asked.
func TestTheNextIsAskedIfALeaderIsNotReached(t *testing.T) {
	f := newFollower()
	f.connect = func(_ context.Context, addr string) (peer.Conn, error) {
		if addr == "new:1" {
			return good, nil
		}
		f.leads("new:1")
		return nil, errors.Join(peer.ErrUnreached, errors.New("connection refused"))
	}
	if w := ask(passing(t, f), http.MethodPut, "/v1/jobs", aJob); w.Code != http.StatusOK {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// direct is a way to a server in the same process.
func direct(s *api.Server) answering {
	return func(ctx context.Context, r *op.Forwarded) (*op.Answer, error) {
		a := s.Forwarded(ctx, r, false)
		if a.Error != "" {
			return a, &berth.Error{Kind: a.Kind, Code: a.Code, Err: errors.New(a.Error)}
		}
		return a, nil
	}
}

// What a leader refuses is refused in its words, and with its code, by the server
// that was asked.
func TestARefusalKeepsItsCode(t *testing.T) {
	f := newFollower()
	leads, log := serve(t, nil)
	_, err := log.Propose(t.Context(), small(t, "web", 1))
	if err != nil {
		t.Fatal(err)
	}
	f.connect = func(context.Context, string) (peer.Conn, error) { return direct(leads), nil }
	w := ask(passing(t, f), "DELETE", "/v1/job/web?purge=true&uid=j-0000000000000001-00", "")
	if w.Code != http.StatusConflict || w.Header().Get(op.HeaderCode) != string(berth.CodeUIDMismatch) {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
}

// The answer to a request that is forwarded is, byte for byte, what the leader
// answers itself.
func TestAForwardedAnswerIsTheSame(t *testing.T) {
	synctest.Test(t, answersAlike) // at one and the same time
}

func answersAlike(t *testing.T) {
	f := newFollower()
	leads, log := serve(t, nil)
	if _, err := log.Propose(t.Context(), small(t, "web", 1)); err != nil {
		t.Fatal(err)
	}
	f.connect = func(context.Context, string) (peer.Conn, error) { return direct(leads), nil }
	s := passing(t, f)
	for _, line := range []string{
		"GET /v1/evaluations", "GET /v1/evaluations?pretty", "GET /v1/evaluations?per_page=1", "GET /v1/job/web/evaluations", "GET /v1/job/none/explain",
		"GET /v1/evaluations?filter=((", "PUT /v1/validate/job", "PUT /v1/job/web/plan", "PUT /v1/jobs/parse",
	} {
		method, path := line[:3], line[4:]
		body := aJob
		if path == "/v1/jobs/parse" {
			body = `{"JobHCL": "job \"web\" { group \"g\" { count = 2 } }"}`
		}
		a, b := ask(leads, method, path, body), ask(s, method, path, body)
		if a.Code != b.Code || a.Body.String() != b.Body.String() {
			t.Errorf("%s: %d %s\nforwarded: %d %s", line, a.Code, a.Body, b.Code, b.Body)
		}
		for name := range a.Header() {
			if a.Header().Get(name) != b.Header().Get(name) {
				t.Errorf("%s: %s is %q, forwarded %q", line, name, a.Header().Get(name), b.Header().Get(name))
			}
		}
	}
}

// An operation that this build does not have is refused by its name; and what an
// agent forwards is what people may ask it.
func TestForwardedOperationsAreChecked(t *testing.T) {
	s, _ := serve(t, nil)
	for _, c := range []struct {
		in    op.Forwarded
		agent bool
		want  string
	}{
		{op.Forwarded{Name: "job.invent"}, false, `unknown operation "job.invent": the server that forwards it runs another build`},
		{op.Forwarded{Name: op.NodeBeat.Name, In: []byte{0x80}}, true, `unknown operation "node.beat"`},
		{op.Forwarded{Name: op.ReadAlloc.Name, In: []byte{0x80}}, true, "{AllocID} is missing"},
		{op.Forwarded{Name: op.ReadAlloc.Name, In: []byte{0xc1}}, true, "alloc.read"},
		{op.Forwarded{Name: op.ListAllocs.Name, In: make([]byte, 1<<20)}, true, "the body is larger"},
		{op.Forwarded{Name: op.StreamEvents.Name, In: []byte{0x80}}, false, "is a stream"},
	} {
		a := s.Forwarded(t.Context(), &c.in, c.agent)
		if !strings.Contains(a.Error, c.want) || a.Kind != berth.Invalid && a.Kind != berth.TooLarge {
			t.Errorf("%s: %+v, not %s", c.in.Name, a.Failure, c.want)
		}
	}
}

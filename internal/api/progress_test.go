package api_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth"
	"berth/internal/api"
	"berth/internal/msgpack"
	"berth/internal/peer"
	"berth/internal/state"
	"berth/internal/state/statetest"
	"berth/op"
)

// connection is a client's connection to a server: its requests share a
// progress.
type connection struct {
	http.Handler
	ctx context.Context
}

func connect(t *testing.T, h http.Handler) *connection {
	return &connection{h, api.WithProgress(t.Context())}
}

func (c *connection) ask(method, target, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	c.ServeHTTP(w, httptest.NewRequestWithContext(c.ctx, method, target, strings.NewReader(body)))
	return w
}

// lagging returns a follower that has not applied yet what the leader answers,
// and both logs.
func lagging(t *testing.T) (s *api.Server, own, leads *statetest.Log) {
	leader, leads := serve(t, nil, statetest.AddNode(1, 4000, 4000))
	f := newFollower()
	f.connect = func(context.Context, string) (peer.Conn, error) { return direct(leader), nil }
	s, own = serve(t, func(c *api.Config) { c.Cluster, c.Peers = f, f }, statetest.AddNode(1, 4000, 4000))
	return s, own, leads
}

func (f *follower) Contact() (time.Duration, bool) { return 0, true }

// Who wrote through a follower, and who was refused through it, reads nothing
// older on the same connection, however stale a read may be: the follower
// answers when it has applied what the leader showed. Others do not wait.
func TestNobodyReadsOlderThanTheirOwnWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, own, leads := lagging(t)
		mine, other := connect(t, s), connect(t, s)
		if w := mine.ask("PUT", "/v1/jobs", aJob); w.Code != http.StatusOK {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		answer := make(chan *httptest.ResponseRecorder, 1)
		go func() { answer <- mine.ask("GET", "/v1/job/web?stale", "") }()
		synctest.Wait()
		select {
		case w := <-answer:
			t.Fatalf("the follower answers before it knows the job: %d %s", w.Code, w.Body)
		default:
		}
		if w := other.ask("GET", "/v1/job/web?stale", ""); w.Code != http.StatusNotFound {
			t.Errorf("on another connection: %d %s", w.Code, w.Body)
		}
		own.Must(t, small(t, "web", 1)) // the follower hears of it
		if w := <-answer; w.Code != http.StatusOK {
			t.Errorf("after the follower has the job: %d %s", w.Code, w.Body)
		}

		leads.Must(t, small(t, "other", 2))
		if w := other.ask("DELETE", "/v1/job/none?uid=j-0000000000000001-00", ""); w.Code != http.StatusNotFound {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		go func() { answer <- other.ask("GET", "/v1/job/other?stale", "") }()
		synctest.Wait()
		own.Must(t, small(t, "other", 2))
		if w := <-answer; w.Code != http.StatusOK {
			t.Errorf("after a refusal that showed a later state: %d %s", w.Code, w.Body)
		}

		leads.Must(t, small(t, "third", 3))
		if w := other.ask("DELETE", "/v1/job/none", ""); w.Code != http.StatusOK { // it is gone already
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		go func() { answer <- other.ask("GET", "/v1/job/third?stale", "") }()
		synctest.Wait()
		own.Must(t, small(t, "third", 3))
		if w := <-answer; w.Code != http.StatusOK {
			t.Errorf("after an answer that changed nothing: %d %s", w.Code, w.Body)
		}
	})
}

// A read that a follower is too far behind for is answered by the leader. If that is
// out of reach, the follower says that it lags behind.
func TestAFollowerThatDoesNotCatchUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, own, leads := lagging(t)
		c := connect(t, s)
		c.ask("PUT", "/v1/jobs", aJob)
		for _, path := range []string{"/v1/job/web?stale", "/v1/jobs?stale", "/v1/job/web/evaluations?stale&index=1"} {
			began := time.Now()
			w := c.ask("GET", path, "")
			if took := time.Since(began); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"web"`) || took != api.Patience {
				t.Errorf("after %v, %s: %d %s", took, path, w.Code, w.Body)
			}
		}
		if own.Tip().Job(berth.JobKey{Namespace: "default", ID: "web"}) != nil || leads.Tip().Index == own.Tip().Index {
			t.Error("the follower has caught up: that shows nothing")
		}
	})
	synctest.Test(t, func(t *testing.T) {
		leader, _ := serve(t, nil)
		f := newFollower()
		f.connect = func(context.Context, string) (peer.Conn, error) { return direct(leader), nil }
		s, _ := serve(t, func(c *api.Config) { c.Cluster, c.Peers = f, f })
		c := connect(t, s)
		c.ask("PUT", "/v1/jobs", aJob)
		f.connect = func(context.Context, string) (peer.Conn, error) { return nil, peer.ErrUnreached }
		began := time.Now()
		w := c.ask("GET", "/v1/job/web?stale", "")
		if took := time.Since(began); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "lags behind") || took < api.Hold || took > 2*api.Hold {
			t.Errorf("after %v, stale: %d %s", took, w.Code, w.Body)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		f := newFollower()
		f.connect = func(context.Context, string) (peer.Conn, error) { return nil, peer.ErrUnreached }
		behind := api.Behind{Without: berth.Errorf(berth.NoLeader, "%w: it lags behind", state.ErrLost)}
		s, _ := serve(t, func(c *api.Config) { c.Cluster, c.Peers = late{f, behind}, f })
		began := time.Now()
		w := ask(s, "GET", "/v1/jobs", "")
		if took := time.Since(began); w.Code != http.StatusInternalServerError || w.Body.String() != "No cluster leader: it lags behind" || took > 2*api.Hold {
			t.Errorf("after %v: %d %s", took, w.Code, w.Body)
		}
	})
}

// late is a follower that has not caught up.
type late struct {
	*follower
	err error
}

func (l late) Sync(context.Context, time.Duration) error { return l.err }

// pulling is an agent's call on a connection.
type pulling struct {
	in       any
	progress *atomic.Uint64
}

func (p pulling) Decode(in any) error {
	switch to := in.(type) {
	case *op.RegisterNode:
		*to = *p.in.(*op.RegisterNode)
	case *op.NodeAllocIndexes:
		*to = *p.in.(*op.NodeAllocIndexes)
	}
	return nil
}
func (pulling) Remote() string             { return "10.0.0.1:1" }
func (p pulling) Progress() *atomic.Uint64 { return p.progress }

// An agent that registered its node through a follower is not told by that
// follower that there is no such node.
func TestAnAgentThatRegisteredIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, own, _ := lagging(t)
		node := statetest.Node(2, 4000, 4000)
		node.Status = berth.NodeReady
		progress := new(atomic.Uint64)
		if _, err := s.RPC()[op.NodeRegister.RPC](t.Context(), pulling{&op.RegisterNode{Node: node}, progress}); err != nil {
			t.Fatal(err)
		}
		answer := make(chan error, 1)
		go func() {
			in := &op.NodeAllocIndexes{NodeID: node.ID, SecretID: node.SecretID, Query: op.Query{AllowStale: true}}
			_, err := s.RPC()[op.NodePull.RPC](t.Context(), pulling{in, progress})
			answer <- err
		}()
		synctest.Wait()
		own.Must(t, &state.RegisterNode{Node: statetest.Node(2, 4000, 4000), Now: 1})
		if err := <-answer; err != nil {
			t.Errorf("the node registered and its agent asks: %v", err)
		}
	})
}

// An agent that is no server passes on what its callers have seen, so that the
// next server that it asks is not behind the last.
func TestAForwardedReadNamesWhatItsCallerHasSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, log := serve(t, nil)
		log.Must(t, small(t, "web", 1))
		seen := log.Tip().Index + 1
		answer := make(chan *op.Answer, 1)
		arg, err := msgpack.Append(nil, &op.JobRef{JobID: "web", Query: op.Query{AllowStale: true}})
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			in := &op.Forwarded{Name: op.ReadJob.Name, In: arg, Seen: seen}
			answer <- s.Forwarded(t.Context(), in, false)
		}()
		synctest.Wait()
		select {
		case a := <-answer:
			t.Fatalf("answered from state index %d, want %d: %s", a.Index, seen, a.Body)
		default:
		}
		log.Must(t, small(t, "other", 2))
		if a := <-answer; a.Error != "" {
			t.Error(a.Error)
		}
	})
}

package api_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth"
	"berth/internal/api"
	"berth/internal/state"
	"berth/internal/state/statetest"
	"berth/op"
)

// ending is the leader of a term that is over, though the server does not know
// yet; its log answers every command with err.
type ending struct {
	leader
	err   error
	asked atomic.Int32
}

func (e *ending) Propose(context.Context, ...state.Command) ([]state.Result, error) {
	e.asked.Add(1)
	return nil, e.err
}

// deposed is a server that leads until a command was proposed, and knows of the
// next leader from then on.
type deposed struct {
	*ending
	dial func() net.Conn
	api.Others
}

func (d *deposed) Leader() (api.Leader, error) {
	if d.asked.Load() > 0 {
		return nil, state.ErrLost
	}
	return d.ending, nil
}

func (d *deposed) Route(_ context.Context, passed bool) (string, error) {
	switch {
	case d.asked.Load() == 0:
		return "", nil
	case passed:
		return "", api.ErrUnled
	}
	return "new:1", nil
}

func (d *deposed) While(ctx context.Context, _ string) (context.Context, context.CancelFunc) {
	return context.WithCancel(ctx)
}

func (d *deposed) Dial(context.Context, string) (net.Conn, error) { return d.dial(), nil }

func (d *deposed) Call(context.Context, string, string, api.RPC) (any, error) {
	return "from the next", nil
}

// arg is a call's argument.
type arg struct{ op.BeatNode }

func (a arg) Decode(in any) error { *in.(*op.BeatNode) = a.BeatNode; return nil }
func (arg) Remote() string        { return "10.0.0.1:1" }

var (
	errOver    = fmt.Errorf("%w: the term is over", state.ErrLost)
	errPerhaps = fmt.Errorf("%w: %w: the term is over", state.ErrLost, state.ErrUnknown)
)

// overAt returns the API of a server whose term ends with the next command, for
// a reason.
func overAt(t *testing.T, err error) (*api.Server, *deposed) {
	d := &deposed{ending: &ending{err: err}}
	d.dial = answering(t, func(c net.Conn) {
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\nfrom the next")
	})
	s, log := serve(t, func(c *api.Config) { c.Cluster, c.Others = d, d }, statetest.AddNode(1, 100, 100))
	d.leader = leader{log}
	return s, d
}

// A write comes to a leader whose term is over, before anybody knows. Nothing
// was proposed, so it goes to the next leader, once, and its answer is the
// answer. What may have been proposed goes nowhere, and the answer says so.
func TestAWriteInTheMomentThatATermEnds(t *testing.T) {
	s, d := overAt(t, errOver)
	if w := ask(s, http.MethodPut, "/v1/jobs", aJob); w.Code != http.StatusOK || w.Body.String() != "from the next" || d.asked.Load() != 1 {
		t.Errorf("nothing was proposed: %d %s after %d proposals", w.Code, w.Body, d.asked.Load())
	}
	s, d = overAt(t, errPerhaps)
	if w := ask(s, http.MethodPut, "/v1/jobs", aJob); w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "unknown whether") || d.asked.Load() != 1 {
		t.Errorf("it may have been proposed: %d %s after %d proposals", w.Code, w.Body, d.asked.Load())
	}
}

// The same for calls of agents.
func TestACallInTheMomentThatATermEnds(t *testing.T) {
	call := arg{op.BeatNode{NodeID: statetest.Node(1, 100, 100).ID, SecretID: statetest.Node(1, 100, 100).SecretID, Status: berth.NodeDown}}
	s, d := overAt(t, errOver)
	if out, err := s.RPC()[op.NodeBeat.RPC](t.Context(), call); err != nil || out != "from the next" || d.asked.Load() != 1 {
		t.Errorf("nothing was proposed: %v %v after %d proposals", out, err, d.asked.Load())
	}
	s, d = overAt(t, errPerhaps)
	if out, err := s.RPC()[op.NodeBeat.RPC](t.Context(), call); err == nil || !strings.Contains(err.Error(), "unknown whether") || d.asked.Load() != 1 {
		t.Errorf("it may have been proposed: %v %v after %d proposals", out, err, d.asked.Load())
	}
}

// Whoever passed a write on to that leader is told that nothing came of it, and
// looks for the next itself.
func TestAWritePassedOnInTheMomentThatATermEnds(t *testing.T) {
	s, d := overAt(t, errOver)
	r := func(h http.Handler) (int, string, string) {
		r := httptest.NewRequest(http.MethodPut, "/v1/jobs", strings.NewReader(aJob))
		r.Header.Set("X-Berth-Passed", "leader")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code, w.Header().Get("X-Berth-Unled"), w.Body.String()
	}
	if code, unled, text := r(s.Passed()); code != http.StatusInternalServerError || unled != "true" || d.asked.Load() != 1 {
		t.Errorf("nothing was proposed: %d %q %s", code, unled, text)
	}
	s, _ = overAt(t, errPerhaps)
	if code, unled, text := r(s.Passed()); code != http.StatusInternalServerError || unled != "" || !strings.Contains(text, "unknown whether") {
		t.Errorf("it may have been proposed: %d %q %s", code, unled, text)
	}
}

// stuck is a server that believes that it leads, for ever.
type stuck struct{ *deposed }

func (s stuck) Leader() (api.Leader, error)               { return s.ending, nil }
func (stuck) Route(context.Context, bool) (string, error) { return "", nil }

// If no other server comes to lead, the caller is told so within the time for
// which requests are held.
func TestATermThatEndsForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &deposed{ending: &ending{err: errOver}}
		s, log := serve(t, func(c *api.Config) { c.Cluster, c.Others = stuck{d}, stuck{d} })
		d.leader = leader{log}
		began := time.Now()
		w := ask(s, http.MethodPut, "/v1/jobs", aJob)
		if took := time.Since(began); w.Code != http.StatusInternalServerError || !strings.HasPrefix(w.Body.String(), "No cluster leader") || took < api.Hold || took > api.Hold+time.Second {
			t.Errorf("%d %s after %v", w.Code, w.Body, took)
		}
	})
}

package api_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth"
	"berth/internal/api"
	"berth/internal/decode"
	"berth/internal/msgpack"
	"berth/internal/peer"
	"berth/internal/state"
	"berth/internal/state/statetest"
	"berth/internal/wire"
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
	api.Peers
}

func (d *deposed) Leader() (api.Leader, error) {
	if d.asked.Load() > 0 {
		return nil, state.ErrLost
	}
	return d.ending, nil
}

func (d *deposed) Route(_ context.Context, asLeader bool) (string, <-chan struct{}, error) {
	over := make(chan struct{})
	switch {
	case d.asked.Load() == 0:
		close(over) // the term ends at once
		return "", over, nil
	case asLeader:
		return "", nil, peer.ErrNotLeader
	}
	return "new:1", over, nil
}

func (d *deposed) Connect(context.Context, string) (peer.Conn, error) {
	return answering(func(context.Context, *op.Forwarded) (*op.Answer, error) {
		return &op.Answer{Body: []byte("from the next")}, nil
	}), nil
}

// arg is a call's argument.
type arg struct{ op.BeatNode }

func (a arg) Decode(in any) error    { *in.(*op.BeatNode) = a.BeatNode; return nil }
func (arg) Remote() string           { return "10.0.0.1:1" }
func (arg) Progress() *atomic.Uint64 { return nil }

var (
	errOver    = fmt.Errorf("%w: the term is over", state.ErrLost)
	errPerhaps = fmt.Errorf("%w: %w: the term is over", state.ErrLost, state.ErrUnknown)
)

// overAt returns the API of a server whose term ends with the next command, for
// a reason.
func overAt(t *testing.T, err error) (*api.Server, *deposed) {
	d := &deposed{ending: &ending{err: err}}
	s, log := serve(t, func(c *api.Config) { c.Cluster, c.Peers = d, d }, statetest.AddNode(1, 100, 100))
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
	if out, err := s.RPC()[op.NodeBeat.RPC](t.Context(), call); err != nil || string(out.(wire.Raw)) != "from the next" || d.asked.Load() != 1 {
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
	tree, err := decode.ParseJSON([]byte(aJob))
	if err != nil {
		t.Fatal(err)
	}
	in, err := msgpack.Append(nil, &op.RegisterJob{Job: tree["Job"].(decode.Tree)})
	if err != nil {
		t.Fatal(err)
	}
	forwarded := &op.Forwarded{Name: op.Register.Name, In: in, Scope: op.ScopeLeader}
	if a := s.Forwarded(t.Context(), forwarded, false); !a.NotLeader || a.Kind != berth.NoLeader || d.asked.Load() != 1 {
		t.Errorf("nothing was proposed: %+v", a)
	}
	s, _ = overAt(t, errPerhaps)
	if a := s.Forwarded(t.Context(), forwarded, false); a.NotLeader || !strings.Contains(a.Error, "unknown whether") {
		t.Errorf("it may have been proposed: %+v", a)
	}
}

// stuck is a server that believes that it leads, for ever.
type stuck struct{ *deposed }

func (s stuck) Leader() (api.Leader, error) { return s.ending, nil }
func (stuck) Route(context.Context, bool) (string, <-chan struct{}, error) {
	return "", make(chan struct{}), nil
}

// If no other server comes to lead, the caller is told so within the time for
// which requests are held.
func TestATermThatEndsForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &deposed{ending: &ending{err: errOver}}
		s, log := serve(t, func(c *api.Config) { c.Cluster, c.Peers = stuck{d}, stuck{d} })
		d.leader = leader{log}
		began := time.Now()
		w := ask(s, http.MethodPut, "/v1/jobs", aJob)
		if took := time.Since(began); w.Code != http.StatusInternalServerError || !strings.HasPrefix(w.Body.String(), "No cluster leader") || took < api.Hold || took > api.Hold+time.Second {
			t.Errorf("%d %s after %v", w.Code, w.Body, took)
		}
	})
}

package api_test

import (
	"context"
	"testing"
	"time"

	"berth"
	"berth/internal/api"
	"berth/internal/state"
	"berth/internal/state/statetest"
	"berth/op"
)

// forgetful is a leader that gives up a node while a heartbeat of it is answered.
type forgetful struct {
	leader
	t     *testing.T
	times int // how often yet
	beats int
}

func (f *forgetful) Leader() (api.Leader, error) { return f, nil }

func (f *forgetful) Beat(ctx context.Context, id berth.NodeID) (ttl time.Duration, err error) {
	f.beats++
	if f.times > 0 {
		f.times--
		f.Must(f.t, &state.SetNodeStatus{ID: id, Status: berth.NodeDown, Now: 1})
	}
	return f.leader.Beat(ctx, id)
}

// A node is given up while its agent reports that it is ready: the agent is not
// told that nothing has happened until its next heartbeat. The heartbeat is
// decided again, so the node is ready again when it is answered, and its
// allocations are looked at.
func TestAHeartbeatOfANodeThatIsBeingGivenUp(t *testing.T) {
	for _, c := range []struct {
		name   string
		times  int
		status string
		kind   berth.Kind
	}{
		{"once", 1, berth.NodeReady, ""},
		{"again and again", 100, berth.NodeDown, berth.Conflict},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &forgetful{t: t, times: c.times}
			s, log := serve(t, func(c *api.Config) { f.leader, c.Cluster = c.Cluster.(leader), f }, statetest.AddNode(1, 4000, 4000))
			node := statetest.Node(1, 4000, 4000)
			out, err := s.RPC()[op.NodeBeat.RPC](t.Context(), arg{op.BeatNode{NodeID: node.ID, SecretID: node.SecretID, Status: berth.NodeReady}})
			if berth.KindOf(err) != c.kind {
				t.Fatalf("%v, %v", out, err)
			}
			if now := log.Tip().Node(node.ID); now.Status != c.status || f.beats < 2 {
				t.Errorf("the node is %s after %d tries", now.Status, f.beats)
			}
		})
	}
}

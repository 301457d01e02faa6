package consensus_test

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"berth/internal/consensus"

	"github.com/hashicorp/raft"
)

// A server that lost its data comes back at its old address with a new ID. It
// must not vote in place of its former self, whose votes it has forgotten.
func TestAServerThatLostItsDataDoesNotVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		forgot := false
		c := newCluster(t, func(conf *consensus.Config) {
			if forgot {
				conf.ID = "s4"
			}
		})
		defer c.close()
		c.boot(3)
		leader := c.leader()
		c.converge()
		term := leader.Raft().CurrentTerm()
		last := leader.Raft().LastIndex()
		for _, id := range names(3) {
			c.halt(id)
		}
		if err := os.RemoveAll(filepath.Join(c.dir, "s3")); err != nil {
			t.Fatal(err)
		}
		forgot = true
		c.start("s3")
		late := c.net.Transport("late")
		defer late.Close()
		req := &raft.RequestVoteRequest{
			RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte("s1"), Addr: []byte("s1")},
			Term:      term + 1, LastLogIndex: last + 1, LastLogTerm: term,
		}
		var resp raft.RequestVoteResponse
		if err := late.RequestVote("s3", "s3", req, &resp); err == nil && resp.Granted {
			t.Error("it voted, though its former self may have voted for another server")
		}
	})
}

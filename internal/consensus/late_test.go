package consensus_test

import (
	"bytes"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/raft"
)

// A late snapshot, from a leader that sent it twice, does not reset a server.
// Raft would restore it and drop what the server had acknowledged since.
func TestLateSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		defer c.close()
		c.boot(3)
		leader := c.leader()
		write := func(n int) {
			for range n {
				if err := c.propose(t.Context(), leader.leading().Log); err != nil {
					t.Fatal(err)
				}
			}
			c.converge()
		}
		write(20)
		var old bytes.Buffer
		if err := leader.store.Snapshot().Save(&old); err != nil {
			t.Fatal(err)
		}
		term, index := leader.Raft().CurrentTerm(), leader.Raft().AppliedIndex()
		conf := leader.Raft().GetConfiguration()
		if err := conf.Error(); err != nil {
			t.Fatal(err)
		}
		write(20)

		late := c.net.Transport("late")
		defer late.Close()
		for _, id := range []string{"s1", "s2", "s3"} {
			if id == leader.id {
				continue
			}
			store := c.servers[id].store
			before := store.Snapshot().Index
			req := &raft.InstallSnapshotRequest{
				RPCHeader:       raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(leader.id), Addr: []byte(leader.id)},
				SnapshotVersion: raft.SnapshotVersionMax, Term: term, Leader: []byte(leader.id), LastLogIndex: index, LastLogTerm: term,
				Configuration: raft.EncodeConfiguration(conf.Configuration()), ConfigurationIndex: 1, Size: int64(old.Len()),
			}
			var resp raft.InstallSnapshotResponse
			if err := late.InstallSnapshot(raft.ServerID(id), raft.ServerAddress(id), req, &resp, bytes.NewReader(old.Bytes())); err != nil || !resp.Success {
				t.Errorf("%s answered %+v, %v", id, resp, err)
			}
			if after := store.Snapshot().Index; after < before {
				t.Errorf("%s was at index %d and is at %d", id, before, after)
			}
		}
		write(20)
	})
}

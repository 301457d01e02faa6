package consensus_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/consensus"

	"github.com/hashicorp/raft"
)

// tapped is a transport whose heartbeats a test can send itself.
type tapped struct {
	raft.Transport
	heartbeat func(raft.RPC)
}

func (n *tapped) SetHeartbeatHandler(h func(raft.RPC)) {
	n.heartbeat = h
	n.Transport.SetHeartbeatHandler(h)
}

func (n *tapped) RequestPreVote(id raft.ServerID, to raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	return n.Transport.(raft.WithPreVote).RequestPreVote(id, to, args, resp)
}

func (n *tapped) Close() error { return n.Transport.(raft.WithClose).Close() }

// A server that stops while a heartbeat is being handled closes its log
// afterwards: a heartbeat may bring a new term, and raft panics if it cannot
// store that. What arrives later is refused.
func TestTheLogIsNotClosedUnderAHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		taps := map[string]*tapped{}
		c := newCluster(t, func(conf *consensus.Config) {
			taps[conf.ID] = &tapped{Transport: conf.Transport}
			conf.Transport = taps[conf.ID]
		})
		defer c.close()
		c.boot(3)
		leader := c.leader()
		m := c.at(c.others(leader.id)[0])
		term := leader.Stats().Term
		// The answer has no room, so the heartbeat lasts until it is read.
		beat := func(term uint64) chan raft.RPCResponse {
			answer := make(chan raft.RPCResponse)
			go taps[m.id].heartbeat(raft.RPC{RespChan: answer, Command: &raft.AppendEntriesRequest{
				RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(leader.id), Addr: []byte(leader.id)}, Term: term}})
			return answer
		}
		answer := beat(term)
		synctest.Wait()
		m.stop()
		time.Sleep(time.Minute)
		if len(m.ended) > 0 {
			t.Error("the server ended while a heartbeat was being handled")
		}
		if a := <-answer; a.Error != nil {
			t.Errorf("the heartbeat was answered with %v", a.Error)
		}
		if err := <-m.ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the server ended: %v", err)
		}
		c.mu.Lock()
		delete(c.servers, m.id)
		c.mu.Unlock()
		if a := <-beat(term + 5); a.Error == nil {
			t.Error("a heartbeat after the end was handled")
		}
		c.start(m.id)
		c.converge()
	})
}

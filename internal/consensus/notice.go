package consensus

import (
	"sync"

	"github.com/hashicorp/raft"
)

// Followers learn of a commit with the next entry or, if none exists, with a
// message that raft sends once per Timing.Commit. A caller that waits on a
// follower for what the leader just answered would wait that long. So the
// leader sends that message at once: an empty append after the committed entry.

// noticer tells followers what is committed in a term. It has one message per
// follower on the way; a later one waits and carries the newest index. Messages
// may arrive after the term, which the receiver notices. The server waits for
// them when it closes.
type noticer struct {
	server *Server
	raft   *raft.Raft
	term   uint64 // raft's

	mu sync.Mutex
	// busy holds the servers to which a notice is on its way.
	busy map[raft.ServerID]bool
	sent uint64 // the newest index that was sent
	end  bool
}

// newNoticer returns a noticer for the term that r is in now.
func (s *Server) newNoticer(r *raft.Raft) *noticer {
	return &noticer{server: s, raft: r, term: r.CurrentTerm(), busy: map[raft.ServerID]bool{}}
}

// notice tells the followers what is committed by now, unless a newer entry
// follows that will do so. It is called after an entry of this term was
// committed, so the newest committed entry is of this term.
func (n *noticer) notice() {
	commit := n.raft.CommitIndex()
	if n.raft.LastIndex() != commit {
		return
	}
	peers := n.raft.GetConfiguration().Configuration().Servers
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.end {
		return
	}
	n.sent = max(n.sent, commit)
	for _, p := range peers {
		if string(p.ID) != n.server.config.ID && !n.busy[p.ID] {
			n.busy[p.ID] = true
			n.server.notices.Go(func() { n.send(p, commit) })
		}
	}
}

// send sends the committed index to one follower until there is nothing newer.
func (n *noticer) send(p raft.Server, commit uint64) {
	link := n.server.link
	self := raft.ServerID(n.server.config.ID)
	here := link.EncodePeer(self, link.LocalAddr())
	for {
		var resp raft.AppendEntriesResponse
		err := link.AppendEntries(p.ID, p.Address, &raft.AppendEntriesRequest{
			RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(self), Addr: here},
			Term:      n.term, Leader: here, PrevLogEntry: commit, PrevLogTerm: n.term, LeaderCommitIndex: commit,
		}, &resp)
		n.mu.Lock()
		if err != nil || n.end || n.sent == commit { // raft repeats what failed
			n.busy[p.ID] = false
			n.mu.Unlock()
			return
		}
		commit = n.sent
		n.mu.Unlock()
	}
}

// close stops the noticer.
func (n *noticer) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.end = true
}

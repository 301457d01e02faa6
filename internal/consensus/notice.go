package consensus

import (
	"sync"

	"github.com/hashicorp/raft"
)

// Followers learn of a commit with the next entry, or when they are told, once
// in Timing.Commit, that there is none. Whoever waits on a follower for what
// the leader just answered would wait for that. So the leader says so at once,
// by the message that the library would send later: an append of nothing behind
// the entry that is committed.

// noticer tells followers what is committed in a term. While one message to a
// follower is on its way, a later one waits, and says the newest. Messages may
// outlive the term, which the receiver sees; the server waits for them.
type noticer struct {
	server *Server
	raft   *raft.Raft
	term   uint64 // raft's

	mu   sync.Mutex
	busy map[raft.ServerID]bool
	told uint64 // the newest that was told
	end  bool
}

func (s *Server) newNoticer(r *raft.Raft) *noticer {
	return &noticer{server: s, raft: r, term: r.CurrentTerm(), busy: map[raft.ServerID]bool{}}
}

// notice tells the followers of all that is committed by now, unless an entry
// is behind it that will. It is called after an entry of this term committed,
// so the newest is of this term.
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
	n.told = max(n.told, commit)
	for _, p := range peers {
		if string(p.ID) != n.server.config.ID && !n.busy[p.ID] {
			n.busy[p.ID] = true
			n.server.notices.Go(func() { n.tell(p, commit) })
		}
	}
}

// tell tells one follower, until there is nothing newer to tell.
func (n *noticer) tell(p raft.Server, commit uint64) {
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
		if err != nil || n.end || n.told == commit { // what fails the library tells again
			n.busy[p.ID] = false
			n.mu.Unlock()
			return
		}
		commit = n.told
		n.mu.Unlock()
	}
}

// close makes the noticer tell nothing any more.
func (n *noticer) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.end = true
}

package consensus

import (
	"errors"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// Limits of the transport. A pool of three connections to a peer serves what
// does not go through its pipeline; a stream of entries may have 64 requests on
// their way; an answer that takes ten seconds is none.
const (
	pooledConns = 3
	inPipeline  = 64
	rpcTimeout  = 10 * time.Second
)

// NewTransport returns the transport to the other servers over streams that
// layer opens and accepts. The server that gets it closes it.
func NewTransport(layer raft.StreamLayer, log *slog.Logger) raft.Transport {
	return raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: layer, MaxPool: pooledConns, MaxRPCsInFlight: inPipeline, Timeout: rpcTimeout, Logger: logger(log),
	})
}

// link stands between raft and the transport. It keeps quiet a server that
// must not lead, or must not speak at all, which the library cannot; and it
// outlives raft, so that raft can begin anew when a full disk has room again.
type link struct {
	raft.Transport
	in chan raft.RPC

	still    atomic.Bool                                   // it must not campaign, nor be made the leader
	mute     atomic.Bool                                   // it must not say anything: a leader that cannot work
	ended    atomic.Bool                                   // neither while raft ends, nor while there is none
	votes    atomic.Bool                                   // false: it must not vote
	has      atomic.Pointer[func(index, term uint64) bool] // whether this server has applied an entry
	member   atomic.Pointer[func() bool]                   // whether the configuration that this server knows has it
	handler  atomic.Pointer[func(raft.RPC)]
	closing  chan struct{}
	closed   sync.Once
	pumped   chan struct{}
	protocol raft.RPCHeader

	installing atomic.Uint64 // the last entry in the snapshot that raft is given; 0: none
}

var (
	_ raft.Transport   = (*link)(nil)
	_ raft.WithPreVote = (*link)(nil)
)

var (
	errMute     = errors.New("this server keeps quiet: its disk does not work")
	errStill    = errors.New("this server does not campaign: its disk is short of room, or not all it knew is back")
	errStranger = errors.New("this server does not vote: it is not one of the servers that it knows of")
	errVotes    = errors.New("this server does not vote: not all it knew is back yet")
)

func newLink(t raft.Transport) *link {
	l := &link{
		Transport: t, in: make(chan raft.RPC, 1), closing: make(chan struct{}), pumped: make(chan struct{}),
		protocol: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax},
	}
	l.votes.Store(true)
	t.SetHeartbeatHandler(func(rpc raft.RPC) {
		if h := l.handler.Load(); h != nil && !l.ended.Load() {
			(*h)(rpc)
		} else {
			rpc.Respond(nil, errMute)
		}
	})
	go l.pump()
	return l
}

// pump passes on what comes in until the link is closed.
func (l *link) pump() {
	defer close(l.pumped)
	for {
		select {
		case rpc := <-l.Transport.Consumer():
			if err := l.refuses(rpc.Command); err != nil {
				rpc.Respond(nil, err)
				continue
			}
			pass := l.pass
			if _, ok := rpc.Command.(*raft.InstallSnapshotRequest); ok {
				pass = l.install
			}
			if !pass(rpc) {
				return
			}
		case <-l.closing:
			return
		}
	}
}

// pass hands a request to raft. It returns false when the link is closed.
func (l *link) pass(rpc raft.RPC) bool {
	select {
	case l.in <- rpc:
		return true
	case <-l.closing:
		rpc.Respond(nil, raft.ErrRaftShutdown)
		return false
	}
}

// install is pass of a snapshot. Raft would restore one that holds less than
// this server has: it would fall back and forget what it acknowledged since.
// A leader sends such a one if it sends two, as when a server that lags is
// removed and added again. It is told that all in it is here, as is true.
// Nothing else is passed on meanwhile, so that no entry comes in between.
func (l *link) install(rpc raft.RPC) bool {
	req := rpc.Command.(*raft.InstallSnapshotRequest)
	if l.holds(req.LastLogIndex, req.LastLogTerm) {
		_, _ = io.Copy(io.Discard, rpc.Reader)
		rpc.Respond(&raft.InstallSnapshotResponse{RPCHeader: l.protocol, Term: req.Term, Success: true}, nil)
		return true
	}
	l.installing.Store(req.LastLogIndex)
	defer l.installing.Store(0)
	answer := make(chan raft.RPCResponse, 1)
	own := rpc
	own.RespChan = answer
	if !l.pass(own) {
		rpc.Respond(nil, raft.ErrRaftShutdown)
		return false
	}
	select {
	case a := <-answer:
		rpc.Respond(a.Response, a.Error)
		return true
	case <-l.closing:
		rpc.Respond(nil, raft.ErrRaftShutdown)
		return false
	}
}

// holds says whether this server has applied an entry.
func (l *link) holds(index, term uint64) bool {
	has := l.has.Load()
	return has != nil && (*has)(index, term)
}

// refuses says why a request from another server is not passed on.
func (l *link) refuses(request any) error {
	switch request.(type) {
	case *raft.TimeoutNowRequest:
		if l.still.Load() || l.silent() {
			return errStill
		}
	case *raft.RequestVoteRequest, *raft.RequestPreVoteRequest:
		if !l.votes.Load() {
			return errVotes
		}
		// A server that lost its data is reached at the address of the one that it
		// was, and has forgotten whom that one voted for and what it acknowledged.
		if member := l.member.Load(); member != nil && !(*member)() {
			return errStranger
		}
	}
	return nil
}

func (l *link) silent() bool { return l.mute.Load() || l.ended.Load() }

// elect makes raft campaign at once, as if a leader had handed over to this
// server. It is for a server that is its own majority.
func (l *link) elect() {
	select {
	case l.in <- raft.RPC{Command: &raft.TimeoutNowRequest{RPCHeader: l.protocol}, RespChan: make(chan raft.RPCResponse, 1)}:
	case <-l.closing:
	}
}

// close ends the link and the transport.
func (l *link) close() error {
	var err error
	l.closed.Do(func() {
		close(l.closing)
		<-l.pumped
		if c, ok := l.Transport.(raft.WithClose); ok {
			err = c.Close()
		}
	})
	return err
}

// Consumer implements raft.Transport.
func (l *link) Consumer() <-chan raft.RPC { return l.in }

// SetHeartbeatHandler implements raft.Transport.
func (l *link) SetHeartbeatHandler(h func(raft.RPC)) { l.handler.Store(&h) }

// AppendEntries implements raft.Transport.
func (l *link) AppendEntries(id raft.ServerID, to raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	if l.silent() {
		return errMute
	}
	return l.Transport.AppendEntries(id, to, args, resp)
}

// AppendEntriesPipeline implements raft.Transport.
func (l *link) AppendEntriesPipeline(id raft.ServerID, to raft.ServerAddress) (raft.AppendPipeline, error) {
	if l.silent() {
		return nil, errMute
	}
	p, err := l.Transport.AppendEntriesPipeline(id, to)
	if err != nil {
		return nil, err
	}
	return pipeline{p, l}, nil
}

type pipeline struct {
	raft.AppendPipeline
	link *link
}

// AppendEntries implements raft.AppendPipeline.
func (p pipeline) AppendEntries(args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	if p.link.silent() {
		return nil, errMute
	}
	return p.AppendPipeline.AppendEntries(args, resp)
}

// RequestVote implements raft.Transport.
func (l *link) RequestVote(id raft.ServerID, to raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	if l.still.Load() || l.silent() {
		return errStill
	}
	return l.Transport.RequestVote(id, to, args, resp)
}

// RequestPreVote implements raft.WithPreVote.
func (l *link) RequestPreVote(id raft.ServerID, to raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	if l.still.Load() || l.silent() {
		return errStill
	}
	t, ok := l.Transport.(raft.WithPreVote)
	if !ok {
		return errors.New("the transport knows no pre-vote")
	}
	return t.RequestPreVote(id, to, args, resp)
}

// InstallSnapshot implements raft.Transport.
func (l *link) InstallSnapshot(id raft.ServerID, to raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	if l.silent() {
		return errMute
	}
	return l.Transport.InstallSnapshot(id, to, args, resp, data)
}

// TimeoutNow implements raft.Transport.
func (l *link) TimeoutNow(id raft.ServerID, to raft.ServerAddress, args *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse) error {
	if l.silent() {
		return errMute
	}
	return l.Transport.TimeoutNow(id, to, args, resp)
}

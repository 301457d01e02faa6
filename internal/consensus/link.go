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

// Limits of the transport. Three pooled connections to a peer serve the
// requests that do not go through its pipeline. A pipeline may have 64 entries
// without an answer. An answer that takes ten seconds is given up.
const (
	pooledConns = 3
	inPipeline  = 64
	rpcTimeout  = 10 * time.Second
)

// NewTransport returns a transport to the other servers over connections that
// layer opens and accepts. The server that gets it closes it.
func NewTransport(layer raft.StreamLayer, log *slog.Logger) raft.Transport {
	return raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: layer, MaxPool: pooledConns, MaxRPCsInFlight: inPipeline, Timeout: rpcTimeout, Logger: logger(log),
	})
}

// link stands between raft and the transport. It silences a server that must
// not lead, or must not send at all, which raft cannot do. It outlives raft, so
// that raft can start again when a full disk has space again.
type link struct {
	raft.Transport
	in chan raft.RPC

	noCampaign atomic.Bool                                   // must not campaign or become leader
	muted      atomic.Bool                                   // must not send anything: a leader that cannot work
	ended      atomic.Bool                                   // raft is shutting down or not running: nothing is sent
	mayVote    atomic.Bool                                   // false: must not vote
	hasApplied atomic.Pointer[func(index, term uint64) bool] // whether this server has applied an entry
	isMember   atomic.Pointer[func() bool]                   // whether this server is in the newest configuration that it knows
	handler    atomic.Pointer[func(raft.RPC)]
	beating    chan struct{} // holds a token while a heartbeat is handled
	closing    chan struct{}
	closed     sync.Once
	pumped     chan struct{}
	protocol   raft.RPCHeader

	kept       holds         // of the log, for servers that are sent snapshots
	installing atomic.Uint64 // the last entry of the snapshot that raft is installing; 0 if none
}

var (
	_ raft.Transport   = (*link)(nil)
	_ raft.WithPreVote = (*link)(nil)
)

var (
	errMuted       = errors.New("this server is silent: its disk does not work")
	errNoCampaign  = errors.New("this server does not campaign: disk space is low, or its data is not restored yet")
	errNotMember   = errors.New("this server does not vote: it is not in the configuration that it knows")
	errNotRefilled = errors.New("this server does not vote: its data is not restored yet")
)

// newLink wraps t and starts to pass its messages on. Heartbeats go past the
// queue; until a handler is set, and after the link has ended, they are
// answered with errMuted.
func newLink(t raft.Transport) *link {
	l := &link{
		Transport: t, in: make(chan raft.RPC, 1), closing: make(chan struct{}), pumped: make(chan struct{}), beating: make(chan struct{}, 1),
		protocol: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax},
	}
	l.mayVote.Store(true)
	t.SetHeartbeatHandler(func(rpc raft.RPC) {
		l.beating <- struct{}{}
		defer func() { <-l.beating }()
		if h := l.handler.Load(); h != nil && !l.ended.Load() {
			(*h)(rpc)
		} else {
			rpc.Respond(nil, errMuted)
		}
	})
	go l.pump()
	return l
}

// drained waits for the end of the heartbeat that raft is handling, if there is
// one. Once the link has ended no other begins. Raft handles heartbeats on the goroutines of
// the transport and does not wait for them when it shuts down.
func (l *link) drained() {
	l.beating <- struct{}{}
	<-l.beating
}

// pump passes incoming requests on until the link is closed.
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

// pass gives a request to raft. It returns false when the link is closed.
func (l *link) pass(rpc raft.RPC) bool {
	select {
	case l.in <- rpc:
		return true
	case <-l.closing:
		rpc.Respond(nil, raft.ErrRaftShutdown)
		return false
	}
}

// install is pass for a snapshot. Raft would restore a snapshot that holds less
// than this server has, and so forget what it acknowledged since. A leader
// sends such a snapshot if it sends two, as when a lagging server is removed
// and added again. The answer to it is success, because everything in it is
// here. Nothing else is passed on meanwhile, so that no entry comes in between.
func (l *link) install(rpc raft.RPC) bool {
	req := rpc.Command.(*raft.InstallSnapshotRequest)
	if l.holds(req.LastLogIndex, req.LastLogTerm) {
		_, _ = io.Copy(io.Discard, rpc.Reader)
		rpc.Respond(&raft.InstallSnapshotResponse{RPCHeader: l.protocol, Term: req.Term, Success: true}, nil)
		return true
	}
	l.installing.Store(req.LastLogIndex)
	defer l.installing.Store(0)
	// Raft's answer is intercepted, to know when the restoring is over.
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

// holds reports whether this server has applied an entry.
func (l *link) holds(index, term uint64) bool {
	has := l.hasApplied.Load()
	return has != nil && (*has)(index, term)
}

// refuses returns why a request from another server is not passed on, or nil.
func (l *link) refuses(request any) error {
	switch request.(type) {
	case *raft.TimeoutNowRequest:
		if l.noCampaign.Load() || l.silent() {
			return errNoCampaign
		}
	case *raft.RequestVoteRequest, *raft.RequestPreVoteRequest:
		if !l.mayVote.Load() {
			return errNotRefilled
		}
		// A server that lost its data still has its old address, but has
		// forgotten whom it voted for and what it acknowledged.
		if member := l.isMember.Load(); member != nil && !(*member)() {
			return errNotMember
		}
	}
	return nil
}

// silent reports whether the link neither sends nor answers: it is muted for a
// time, or it has ended.
func (l *link) silent() bool { return l.muted.Load() || l.ended.Load() }

// elect makes raft campaign at once, as if a leader had handed over to this
// server. It is for a server that is its own majority.
func (l *link) elect() {
	select {
	case l.in <- raft.RPC{Command: &raft.TimeoutNowRequest{RPCHeader: l.protocol}, RespChan: make(chan raft.RPCResponse, 1)}:
	case <-l.closing:
	}
}

// close closes the link and the transport.
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
		return errMuted
	}
	l.kept.progress(id, args.PrevLogEntry)
	return l.Transport.AppendEntries(id, to, args, resp)
}

// AppendEntriesPipeline implements raft.Transport.
func (l *link) AppendEntriesPipeline(id raft.ServerID, to raft.ServerAddress) (raft.AppendPipeline, error) {
	if l.silent() {
		return nil, errMuted
	}
	p, err := l.Transport.AppendEntriesPipeline(id, to)
	if err != nil {
		return nil, err
	}
	return pipeline{p, l, id}, nil
}

// pipeline drops what it should send while the link is silent.
type pipeline struct {
	raft.AppendPipeline
	link *link
	to   raft.ServerID
}

// AppendEntries implements raft.AppendPipeline.
func (p pipeline) AppendEntries(args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	if p.link.silent() {
		return nil, errMuted
	}
	p.link.kept.progress(p.to, args.PrevLogEntry)
	return p.AppendPipeline.AppendEntries(args, resp)
}

// RequestVote implements raft.Transport.
func (l *link) RequestVote(id raft.ServerID, to raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	if l.noCampaign.Load() || l.silent() {
		return errNoCampaign
	}
	return l.Transport.RequestVote(id, to, args, resp)
}

// RequestPreVote implements raft.WithPreVote.
func (l *link) RequestPreVote(id raft.ServerID, to raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	if l.noCampaign.Load() || l.silent() {
		return errNoCampaign
	}
	t, ok := l.Transport.(raft.WithPreVote)
	if !ok {
		return errors.New("the transport does not support pre-votes")
	}
	return t.RequestPreVote(id, to, args, resp)
}

// InstallSnapshot implements raft.Transport.
func (l *link) InstallSnapshot(id raft.ServerID, to raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	if l.silent() {
		return errMuted
	}
	l.kept.begin(id, args.LastLogIndex)
	err := l.Transport.InstallSnapshot(id, to, args, resp, data)
	l.kept.sent(id, err)
	return err
}

// TimeoutNow implements raft.Transport.
func (l *link) TimeoutNow(id raft.ServerID, to raft.ServerAddress, args *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse) error {
	if l.silent() {
		return errMuted
	}
	return l.Transport.TimeoutNow(id, to, args, resp)
}

// Package consensustest connects servers of package consensus without sockets:
// a network in memory whose links a test cuts and heals, one direction at a
// time. It waits only on channels and timers, so it works in testing/synctest
// bubbles, where delays cost no time.
package consensustest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// rpcTimeout is how long a caller waits for a missing answer.
const rpcTimeout = time.Second

// ErrUnreachable is returned at once if there is no server at the address. Over
// a link that is cut the caller waits and gets ErrTimeout, as on a real
// network.
var (
	ErrUnreachable = errors.New("consensustest: no server at the address")
	ErrTimeout     = errors.New("consensustest: no answer in time")
)

// Network holds the links between servers. Its methods may be called from any
// goroutine.
type Network struct {
	mu    sync.Mutex
	peers map[raft.ServerAddress]*Transport
	// cut holds the directions in which nothing arrives; delay applies to all.
	cut   map[direction]bool
	names map[raft.ServerAddress]raft.ServerAddress // aliases
	delay time.Duration
	// slow is how long a snapshot takes, and installs counts those sent to a
	// server.
	slow     time.Duration
	installs map[raft.ServerAddress]int
}

// direction is a way between two servers; each can be cut alone.
type direction struct{ from, to raft.ServerAddress }

// NewNetwork returns a network without delays and cuts.
func NewNetwork() *Network {
	return &Network{peers: map[raft.ServerAddress]*Transport{}, cut: map[direction]bool{}, names: map[raft.ServerAddress]raft.ServerAddress{}, installs: map[raft.ServerAddress]int{}}
}

// Transport adds a server to the network; its ID is its address. It replaces an
// earlier server with that ID. The transport leaves the network when it is
// closed.
func (n *Network) Transport(id string) *Transport {
	t := &Transport{net: n, addr: raft.ServerAddress(id), in: make(chan raft.RPC), gone: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	if old := n.peers[t.addr]; old != nil {
		old.leave()
	}
	n.peers[t.addr] = t
	return t
}

// Alias makes a server reachable at another address, too.
func (n *Network) Alias(address, id string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.names[raft.ServerAddress(address)] = raft.ServerAddress(id)
}

// Cut drops everything that a sends to b, requests and answers alike. What b
// sends still reaches a.
func (n *Network) Cut(a, b string) { n.set(a, b, true) }

// Split cuts the links between each server of one side and each of the other,
// in both directions.
func (n *Network) Split(one, other []string) {
	for _, a := range one {
		for _, b := range other {
			n.set(a, b, true)
			n.set(b, a, true)
		}
	}
}

// set cuts or restores the direction from a to b; the other direction stays as
// it is.
func (n *Network) set(a, b string, cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut[direction{raft.ServerAddress(a), raft.ServerAddress(b)}] = cut
}

// Heal undoes all cuts.
func (n *Network) Heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.cut)
}

// Connected reports whether what a sends reaches b.
func (n *Network) Connected(a, b string) bool {
	to, cut, _ := n.look(raft.ServerAddress(a), raft.ServerAddress(b))
	return to != nil && !cut
}

// Delay delays everything that is sent by d.
func (n *Network) Delay(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.delay = d
}

// SlowSnapshots makes each snapshot take d, from its first byte to the answer.
func (n *Network) SlowSnapshots(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.slow = d
}

// Installs returns how many snapshots were sent to a server.
func (n *Network) Installs(id string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.installs[raft.ServerAddress(id)]
}

// look returns the receiver b, and whether the link from a to b is cut or
// delayed.
func (n *Network) look(a, b raft.ServerAddress) (to *Transport, cut bool, delay time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if name, ok := n.names[b]; ok {
		b = name
	}
	return n.peers[b], n.cut[direction{a, b}], n.delay
}

// Transport is a server's access to the network; it implements raft.Transport.
type Transport struct {
	net  *Network
	addr raft.ServerAddress
	in   chan raft.RPC
	gone chan struct{}
	once sync.Once

	mu        sync.Mutex
	heartbeat func(raft.RPC)
}

var (
	_ raft.Transport   = (*Transport)(nil)
	_ raft.WithPreVote = (*Transport)(nil)
	_ raft.WithClose   = (*Transport)(nil)
)

// leave takes the transport off the network. It may be called more than once.
func (t *Transport) leave() { t.once.Do(func() { close(t.gone) }) }

// Close implements raft.WithClose.
func (t *Transport) Close() error {
	t.leave()
	t.net.mu.Lock()
	defer t.net.mu.Unlock()
	if t.net.peers[t.addr] == t {
		delete(t.net.peers, t.addr)
	}
	return nil
}

// Consumer implements raft.Transport.
func (t *Transport) Consumer() <-chan raft.RPC { return t.in }

// LocalAddr implements raft.Transport.
func (t *Transport) LocalAddr() raft.ServerAddress { return t.addr }

// EncodePeer implements raft.Transport.
func (t *Transport) EncodePeer(_ raft.ServerID, addr raft.ServerAddress) []byte { return []byte(addr) }

// DecodePeer implements raft.Transport.
func (t *Transport) DecodePeer(b []byte) raft.ServerAddress { return raft.ServerAddress(b) }

// SetHeartbeatHandler implements raft.Transport.
func (t *Transport) SetHeartbeatHandler(h func(raft.RPC)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.heartbeat = h
}

// call sends a request and waits for the answer.
func (t *Transport) call(to raft.ServerAddress, request any, data io.Reader, timeout time.Duration) (any, error) {
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	peer, cut, delay := t.net.look(t.addr, to)
	if peer == nil {
		return nil, fmt.Errorf("%w: %s", ErrUnreachable, to)
	}
	if err := t.travel(cut, delay, deadline.C); err != nil {
		return nil, err
	}
	// The channel has room for one, so that a late answer blocks nobody.
	answer := make(chan raft.RPCResponse, 1)
	if err := peer.take(raft.RPC{Command: request, Reader: data, RespChan: answer}, deadline.C, t.gone); err != nil {
		return nil, err
	}
	select {
	case a := <-answer:
		// The way back may have been cut in the meantime.
		_, cut, delay := t.net.look(to, t.addr)
		if err := t.travel(cut, delay, deadline.C); err != nil {
			return nil, err
		}
		return a.Response, a.Error
	case <-peer.gone:
		return nil, fmt.Errorf("%w: %s", ErrUnreachable, to)
	case <-t.gone:
		return nil, raft.ErrTransportShutdown
	case <-deadline.C:
		return nil, ErrTimeout
	}
}

// travel waits as long as a message takes.
func (t *Transport) travel(cut bool, delay time.Duration, deadline <-chan time.Time) error {
	var arrives <-chan time.Time
	switch {
	case cut:
	case delay == 0:
		return nil
	default:
		arrives = time.After(delay)
	}
	select {
	case <-arrives:
		return nil
	case <-deadline:
		return ErrTimeout
	case <-t.gone:
		return raft.ErrTransportShutdown
	}
}

// take passes a request to the server. Heartbeats bypass its queue.
func (t *Transport) take(rpc raft.RPC, deadline <-chan time.Time, callerGone <-chan struct{}) error {
	t.mu.Lock()
	heartbeat := t.heartbeat
	t.mu.Unlock()
	if a, ok := rpc.Command.(*raft.AppendEntriesRequest); ok && heartbeat != nil && isHeartbeat(a) {
		select {
		case <-t.gone:
			return ErrUnreachable
		default:
			heartbeat(rpc)
			return nil
		}
	}
	select {
	case t.in <- rpc:
		return nil
	case <-t.gone:
		return ErrUnreachable
	case <-callerGone:
		return raft.ErrTransportShutdown
	case <-deadline:
		return ErrTimeout
	}
}

// isHeartbeat reports whether a is a heartbeat. Raft has no type for it; a
// heartbeat carries a term and nothing else.
func isHeartbeat(a *raft.AppendEntriesRequest) bool {
	return a.Term != 0 && a.PrevLogEntry == 0 && a.PrevLogTerm == 0 && len(a.Entries) == 0 && a.LeaderCommitIndex == 0
}

// ask calls a server and copies the answer.
func ask[T any](t *Transport, to raft.ServerAddress, request any, data io.Reader, timeout time.Duration, into *T) error {
	a, err := t.call(to, request, data, timeout)
	if err != nil {
		return err
	}
	*into = *a.(*T)
	return nil
}

// AppendEntries implements raft.Transport.
func (t *Transport) AppendEntries(_ raft.ServerID, to raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	return ask(t, to, copied(args), nil, rpcTimeout, resp)
}

// copied returns a request with its own copy of the entries, as a real
// transport would deliver it.
func copied(args *raft.AppendEntriesRequest) *raft.AppendEntriesRequest {
	own := *args
	own.Entries = make([]*raft.Log, len(args.Entries))
	for i, l := range args.Entries {
		e := *l
		e.Data, e.Extensions = bytes.Clone(l.Data), bytes.Clone(l.Extensions)
		own.Entries[i] = &e
	}
	return &own
}

// RequestVote implements raft.Transport.
func (t *Transport) RequestVote(_ raft.ServerID, to raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	return ask(t, to, args, nil, rpcTimeout, resp)
}

// RequestPreVote implements raft.WithPreVote.
func (t *Transport) RequestPreVote(_ raft.ServerID, to raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	return ask(t, to, args, nil, rpcTimeout, resp)
}

// TimeoutNow implements raft.Transport.
func (t *Transport) TimeoutNow(_ raft.ServerID, to raft.ServerAddress, args *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse) error {
	return ask(t, to, args, nil, rpcTimeout, resp)
}

// InstallSnapshot implements raft.Transport. If the link is cut meanwhile, the
// transfer breaks off.
func (t *Transport) InstallSnapshot(_ raft.ServerID, to raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	t.net.mu.Lock()
	t.net.installs[to]++
	slow := t.net.slow
	t.net.mu.Unlock()
	return ask(t, to, args, &stream{data, t, to, slow}, slow+10*rpcTimeout, resp)
}

// stream is a snapshot on its way. It breaks when its direction is cut.
type stream struct {
	io.Reader
	from  *Transport
	to    raft.ServerAddress
	pause time.Duration // before the first byte
}

// Read implements io.Reader.
func (s *stream) Read(b []byte) (int, error) {
	if peer, cut, _ := s.from.net.look(s.from.addr, s.to); cut || peer == nil {
		return 0, io.ErrUnexpectedEOF
	}
	if s.pause > 0 {
		select {
		case <-time.After(s.pause):
			s.pause = 0
		case <-s.from.gone:
			return 0, raft.ErrTransportShutdown
		}
	}
	return s.Reader.Read(b[:min(len(b), 4096)])
}

// AppendEntriesPipeline implements raft.Transport.
func (t *Transport) AppendEntriesPipeline(_ raft.ServerID, to raft.ServerAddress) (raft.AppendPipeline, error) {
	p := &pipeline{t: t, to: to, queue: make(chan *flight, 64), done: make(chan raft.AppendFuture, 64), closed: make(chan struct{})}
	go p.run()
	return p, nil
}

// pipeline sends requests one after the other without waiting for answers.
type pipeline struct {
	t      *Transport
	to     raft.ServerAddress
	queue  chan *flight
	done   chan raft.AppendFuture
	closed chan struct{}
	once   sync.Once
}

// flight is a request that has no answer yet; it implements raft.AppendFuture.
type flight struct {
	at time.Time
	// args belongs to the caller; sent is a copy that the receiver may keep.
	args *raft.AppendEntriesRequest
	sent *raft.AppendEntriesRequest
	resp *raft.AppendEntriesResponse
	err  error
	end  chan struct{}
}

// Error waits for the answer and returns the error of the request.
func (f *flight) Error() error { <-f.end; return f.err }

// Start returns when the request was sent.
func (f *flight) Start() time.Time { return f.at }

// Request returns the request.
func (f *flight) Request() *raft.AppendEntriesRequest { return f.args }

// Response returns the answer. It is complete once Error has returned.
func (f *flight) Response() *raft.AppendEntriesResponse { return f.resp }

// run sends the queued requests one after the other, so that they arrive in
// order. It returns when the pipeline is closed.
func (p *pipeline) run() {
	for {
		select {
		case f := <-p.queue:
			f.err = ask(p.t, p.to, f.sent, nil, rpcTimeout, f.resp)
			close(f.end)
			select {
			case p.done <- f:
			case <-p.closed:
				return
			}
		case <-p.closed:
			return
		}
	}
}

// AppendEntries implements raft.AppendPipeline.
func (p *pipeline) AppendEntries(args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	f := &flight{at: time.Now(), args: args, sent: copied(args), resp: resp, end: make(chan struct{})}
	select {
	case p.queue <- f:
		return f, nil
	case <-p.closed:
		return nil, raft.ErrPipelineShutdown
	}
}

// Consumer implements raft.AppendPipeline.
func (p *pipeline) Consumer() <-chan raft.AppendFuture { return p.done }

// Close implements raft.AppendPipeline.
func (p *pipeline) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

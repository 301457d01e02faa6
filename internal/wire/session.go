package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/yamux"

	"berth/internal/limit"
)

// Session is an open yamux session, at either end: both may call the other.
// It is safe for use by many goroutines.
type Session struct {
	mux    *yamux.Session
	below  *muxConn // the connection
	server *Server  // what the far end may call
	peer   *Peer
	room   *share        // for large frames; nil: not counted
	seq    atomic.Uint64 // of the last call
	ended  chan struct{} // closed when serve has returned

	slots chan struct{}   // one for each stream that this end has opened
	idle  chan *rpcStream // kept for later calls, each with its slot

	mu sync.Mutex
	retirement
	open   map[*yamux.Stream]bool // in use for reading or writing
	ending bool                   // wake was called
}

// longAgo, as a deadline, ends what is waiting.
var longAgo = time.Unix(1, 0)

// nobody is the server of a session whose far end may call nothing.
var nobody = New(Config{})

// newSession begins yamux on a connection, as its client or its server. The
// caller must run serve; conn stays the caller's if there is an error.
func newSession(conn net.Conn, server *Server, peer *Peer, room *share, client bool) (*Session, error) {
	cfg := yamux.DefaultConfig()
	cfg.LogOutput = nil
	cfg.Logger = muxLog{server.cfg.Log, peer.Addr}
	cfg.ConnectionWriteTimeout = 10 * time.Second // for a frame to be queued; also until a ping is answered
	s := &Session{server: server, peer: peer, room: room, ended: make(chan struct{}), open: map[*yamux.Stream]bool{},
		slots: make(chan struct{}, streamsOpened), idle: make(chan *rpcStream, idleMost)}
	below := &muxConn{Conn: conn, patient: server.cfg.FrameTime, ending: s.wake}
	below.greeted.Store(client) // servers may be silent at first
	open := yamux.Server
	if client {
		open = yamux.Client
	}
	mux, err := open(below, cfg)
	if err != nil {
		return nil, fmt.Errorf("yamux: %w", err)
	}
	s.mux, s.below = mux, below
	peer.session = s
	return s, nil
}

// hold marks a stream as in use; drop ends that.
func (s *Session) hold(st *yamux.Stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[st] = true; s.ending {
		st.SetDeadline(longAgo)
	}
}

// drop ends what hold began.
func (s *Session) drop(st *yamux.Stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, st)
}

// wake ends all reads and writes on the session's streams. It must run before
// yamux ends the session: from then on, yamux 0.1.2 makes waiting callers spin
// until it has locked each stream once, which takes long with many streams and
// few processors.
func (s *Session) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ending = true
	for st := range s.open {
		st.SetDeadline(longAgo)
	}
}

// over returns errSessionEnded instead of err if the session has ended: the
// streams then return a timeout.
func (s *Session) over(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil || !s.ending && !s.mux.IsClosed() {
		return err
	}
	return errSessionEnded
}

// errSessionEnded is why calls fail that a session's end interrupts.
var errSessionEnded = errors.New("the session has ended")

// shut ends the session. It does not wait for handlers, as Close does.
func (s *Session) shut() error {
	s.wake()
	return s.mux.Close()
}

// serve answers what the far end calls, until the session ends. It waits for
// the handlers, and returns an error if the peer was at fault.
func (s *Session) serve(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var streams sync.WaitGroup
	defer close(s.ended)
	defer streams.Wait()
	defer cancel(nil)
	defer s.shut()
	defer context.AfterFunc(ctx, func() { s.shut() })()
	// Counted here, as yamux counts the streams of both ends.
	var open, refused atomic.Int64
	for {
		st, err := s.mux.AcceptStream()
		if err != nil {
			if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
				return cause
			}
			if err == io.EOF || errors.Is(err, yamux.ErrSessionShutdown) {
				err = nil
			}
			return err
		}
		if err := s.mayOpen(open.Add(1)); err != nil {
			open.Add(-1)
			// The caller is told that nothing was done, unless there are too many to
			// tell.
			if refused.Add(1) <= refusalsMost {
				streams.Go(func() {
					defer refused.Add(-1)
					defer st.Close()
					s.hold(st)
					defer s.drop(st)
					s.server.refuseStream(st, s.room)
				})
			} else {
				refused.Add(-1)
				st.Close()
			}
			// Streams that are closed on our side alone still count for yamux.
			if s.mux.NumStreams() > 2*streamsKnown {
				return err
			}
			streamsLimit.Refuse("address", s.peer.Addr)
			s.server.warn.Warn("stream refused: the session has too many", "address", s.peer.Addr, "open", s.mux.NumStreams())
			continue
		}
		streams.Go(func() {
			defer open.Add(-1)
			defer st.Close()
			s.hold(st)
			defer s.drop(st)
			// A malformed frame costs the peer its session.
			err := s.server.serveStream(ctx, st, s.peer, s.room)
			if bad := (errFrame{}); errors.As(err, &bad) {
				cancel(err)
			} else if err = s.over(err); err != errSessionEnded {
				s.server.complain(s.peer.Addr, err)
			}
		})
	}
}

// refusalsMost is how many callers of a session are told at a time that it has
// too many streams.
const refusalsMost = 64

var streamsLimit = limit.Declare(limit.Info{
	Name: "rpc_streams_per_session", Of: "Calls and streams of one session that are open; 32 until the peer has shown who it is", Unit: limit.Count, Default: streamsKnown,
	Beyond: "our agents and servers wait up to 10 s, and servers open up to seven more sessions; then 429, and nothing was done",
})

// mayOpen returns an error if the far end may not have n streams open.
// Strangers may have fewer.
func (s *Session) mayOpen(n int64) error {
	most := int64(streamsStranger)
	if s.peer.known() || s.server == nobody {
		most = streamsKnown
	}
	streamsLimit.Use(n, most, "address", s.peer.Addr)
	if n > most {
		return badFrame("too many streams: the limit is %d", most)
	}
	return nil
}

// Peer returns the far end.
func (s *Session) Peer() *Peer { return s.peer }

// Done returns a channel that is closed when the session has broken or was
// closed.
func (s *Session) Done() <-chan struct{} { return s.mux.CloseChan() }

// Close ends the session. Calls in progress fail; handlers of what the far end
// called are cancelled, and Close waits for them, so that none of them may
// call it.
func (s *Session) Close() error {
	err := s.shut()
	<-s.ended
	return err
}

// muxLog writes yamux's messages to the log: mostly how connections ended.
type muxLog struct {
	log *slog.Logger
	who net.Addr
}

// Print implements yamux.Logger.
func (l muxLog) Print(v ...any) { l.say(fmt.Sprint(v...)) }

// Printf implements yamux.Logger.
func (l muxLog) Printf(f string, v ...any) { l.say(fmt.Sprintf(f, v...)) }

// Println implements yamux.Logger.
func (l muxLog) Println(v ...any) { l.say(fmt.Sprint(v...)) }

// say logs one message at debug level: broken connections are everyday events.
func (l muxLog) say(s string) { l.log.Debug(strings.TrimSpace(s), "address", l.who) }

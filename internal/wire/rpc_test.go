package wire

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/rpc"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/yamux"

	"berth"
	"berth/internal/eventually"
	"berth/op"
)

func TestAnAgentCallsAServer(t *testing.T) {
	s := New(quiet(t))
	s.Handle("Node.UpdateStatus", func(ctx context.Context, c *Call) (any, error) {
		var in op.BeatNode
		if err := c.Decode(&in); err != nil {
			return nil, err
		}
		if in != *aBeat {
			t.Errorf("decoded %+v", in)
		}
		return beat(ctx, c)
	})
	sess := dial(t, start(t, s), nil)
	for range 3 {
		var out op.NodeAnswer
		if err := sess.Call(t.Context(), "Node.UpdateStatus", aBeat, &out); err != nil {
			t.Fatal(err)
		}
		if out.HeartbeatTTL != 10*time.Second || out.Index != 7 || !out.KnownLeader {
			t.Errorf("answered %+v", out)
		}
	}
	if n := sess.mux.NumStreams(); n != 1 {
		t.Errorf("three calls, one after the other, left %d streams open, not 1", n)
	}
}

// oldCodec is how Go's net/rpc speaks through the library that Nomad's agents
// use, none of our own code in between.
type oldCodec struct {
	io.Closer
	enc *codec.Encoder
	dec *codec.Decoder
	w   *bufio.Writer
}

func newOldCodec(conn net.Conn) *oldCodec {
	h := theirs(false)
	w := bufio.NewWriter(conn)
	return &oldCodec{conn, codec.NewEncoder(w, h), codec.NewDecoder(bufio.NewReader(conn), h), w}
}

func (c *oldCodec) WriteRequest(r *rpc.Request, body any) error {
	return errors.Join(c.enc.Encode(r), c.enc.Encode(body), c.w.Flush())
}
func (c *oldCodec) ReadResponseHeader(r *rpc.Response) error { return c.dec.Decode(r) }
func (c *oldCodec) ReadResponseBody(body any) error {
	if body == nil {
		body = new(any)
	}
	return c.dec.Decode(body)
}

func TestAnAgentOfAnotherMakeCallsAServer(t *testing.T) {
	s := New(quiet(t))
	s.Handle("Node.UpdateStatus", beat)
	s.Handle("Node.Register", func(context.Context, *Call) (any, error) {
		return nil, berth.Errorf(berth.NoLeader, "no server can take writes")
	})
	addr := start(t, s)
	try := func(t *testing.T, conn net.Conn) {
		if _, err := conn.Write([]byte{firstRPC}); err != nil {
			t.Fatal(err)
		}
		c := rpc.NewClientWithCodec(newOldCodec(conn))
		defer c.Close()
		var out op.NodeAnswer
		if err := c.Call("Node.UpdateStatus", aBeat, &out); err != nil || out.HeartbeatTTL != 10*time.Second {
			t.Errorf("answered %+v, %v", out, err)
		}
		if err := c.Call("Node.Register", aBeat, &out); err == nil || err.Error() != "No cluster leader: no server can take writes" {
			t.Errorf("a server without a leader answered %v", err)
		}
		if err := c.Call("Node.Dance", aBeat, &out); err == nil || err.Error() != "rpc: can't find method Node.Dance" {
			t.Errorf("a method that is not there answered %v", err)
		}
		// Several calls are sent at once and answered one by one.
		calls := make(chan *rpc.Call, 20)
		for range cap(calls) {
			c.Go("Node.UpdateStatus", aBeat, new(op.NodeAnswer), calls)
		}
		for range cap(calls) {
			if call := <-calls; call.Error != nil || call.Reply.(*op.NodeAnswer).Index != 7 {
				t.Errorf("pipelined: %+v, %v", call.Reply, call.Error)
			}
		}
	}
	t.Run("plain", func(t *testing.T) { try(t, connect(t, addr)) })
	t.Run("yamux", func(t *testing.T) { try(t, openMux(t, addr)) })
}

func connect(t testing.TB, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(eventually.Limit))
	return conn
}

// openMux opens a stream of a session made with yamux alone.
func openMux(t testing.TB, addr string) net.Conn {
	t.Helper()
	conn := connect(t, addr)
	conn.Write([]byte{firstMux})
	conn.SetDeadline(time.Time{})
	cfg := yamux.DefaultConfig()
	cfg.LogOutput = io.Discard
	mux, err := yamux.Client(conn, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mux.Close() })
	st, err := mux.Open()
	if err != nil {
		t.Fatal(err)
	}
	st.SetDeadline(time.Now().Add(eventually.Limit))
	return st
}

func TestErrorsKeepTheirKind(t *testing.T) {
	s := New(quiet(t))
	var answer error
	s.Handle("X", func(context.Context, *Call) (any, error) { return &op.NodeAnswer{}, answer })
	sess := dial(t, start(t, s), nil)
	for _, c := range []struct {
		err  error
		kind berth.Kind
		text string
	}{
		{berth.Errorf(berth.Denied, "the node's secret is wrong"), berth.Denied, "Permission denied: the node's secret is wrong"},
		{berth.Errorf(berth.Denied, "Permission denied"), berth.Denied, "Permission denied"},
		{berth.Errorf(berth.NotFound, "node not found"), berth.NotFound, "node not found"},
		{berth.Errorf(berth.Conflict, "changed"), berth.Conflict, "changed"},
		{errors.New("our fault"), "", "our fault"},
		{errors.New(""), "", "unknown error"},
		{context.DeadlineExceeded, berth.Unavailable, "context deadline exceeded"},
	} {
		answer = c.err
		err := sess.Call(t.Context(), "X", nil, nil)
		if berth.KindOf(err) != c.kind || err.Error() != c.text {
			t.Errorf("%q came as kind %q: %v", c.err, berth.KindOf(err), err)
		}
	}
	answer = fmt.Errorf("late: %w", berth.Refusef(berth.CodeStaleLaunch, "it was launched again"))
	if err := sess.Call(t.Context(), "X", nil, nil); berth.CodeOf(err) != berth.CodeStaleLaunch || berth.KindOf(err) != berth.Conflict || err.Error() != answer.Error() {
		t.Errorf("%q came as %q with code %q", answer, err, berth.CodeOf(err))
	}
	answer = fmt.Errorf("the term ended: %w", berth.ErrNoLeader)
	if err := sess.Call(t.Context(), "X", nil, nil); berth.KindOf(err) != berth.NoLeader {
		t.Errorf("%q came as %q of kind %q", answer, err, berth.KindOf(err))
	}
	if code := berth.CodeOf((failure{text: "x", kind: berth.Conflict, code: "made-up"}).error()); code != "" {
		t.Errorf("a code that is made up is taken: %q", code)
	}
	// A server of another make sends no kind.
	for text, kind := range map[string]berth.Kind{
		"No cluster leader":            berth.NoLeader,
		"rpc error: Permission denied": berth.Denied,
		"node not found":               berth.NotFound,
		"something else":               "",
	} {
		if err := (failure{text: text}).error(); berth.KindOf(err) != kind || err.Error() != text {
			t.Errorf("%q is read as kind %q", text, berth.KindOf(err))
		}
	}
	if kind := berth.KindOf((failure{text: "x", kind: "made up"}).error()); kind != "" {
		t.Errorf("a kind that is made up is taken: %q", kind)
	}
}

func TestAServerCallsAnAgentBack(t *testing.T) {
	agent := New(quiet(t))
	agent.Handle("ClientStats.Stats", func(context.Context, *Call) (any, error) {
		return map[string]any{"Uptime": 42}, nil
	})
	agent.HandleStream("FileSystem.Logs", func(_ context.Context, c *Call, s *Stream) error {
		var in op.LogsQuery
		if err := c.Decode(&in); err != nil {
			return err
		}
		return s.Send([]byte("logs of " + in.Task))
	})
	server := New(quiet(t))
	peers := make(chan *Peer, 1)
	server.Handle("Node.Register", func(_ context.Context, c *Call) (any, error) {
		c.Peer.Remember("node-1")
		peers <- c.Peer
		return nil, nil
	})
	sess := dial(t, start(t, server), agent)
	if err := sess.Call(t.Context(), "Node.Register", nil, nil); err != nil {
		t.Fatal(err)
	}
	p := <-peers
	if p.Value() != "node-1" {
		t.Errorf("the server remembers %v", p.Value())
	}
	var stats map[string]any
	if err := p.Session().Call(t.Context(), "ClientStats.Stats", nil, &stats); err != nil || stats["Uptime"] != int64(42) {
		t.Errorf("stats %v, %v", stats, err)
	}
	st, err := p.Session().Stream(t.Context(), "FileSystem.Logs", &op.LogsQuery{Task: "web"})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if b, err := st.Recv(); string(b) != "logs of web" || err != nil {
		t.Errorf("received %q, %v", b, err)
	}
	if _, err := st.Recv(); err != io.EOF {
		t.Errorf("after the end: %v", err)
	}
}

func TestAnAgentThatServesNothingRefuses(t *testing.T) {
	server := New(quiet(t))
	server.Handle("X", func(ctx context.Context, c *Call) (any, error) {
		return nil, c.Peer.Session().Call(ctx, "Anything", nil, nil)
	})
	sess := dial(t, start(t, server), nil)
	err := sess.Call(t.Context(), "X", nil, nil)
	if err == nil || !strings.Contains(err.Error(), "can't find method Anything") {
		t.Errorf("answered %v", err)
	}
}

// waiter is a method that waits for its context, and tells when it began and
// why it ended.
func waiter(s *Server) (began chan struct{}, ended chan error) {
	began, ended = make(chan struct{}, 100), make(chan error, 100)
	s.Handle("Wait", func(ctx context.Context, c *Call) (any, error) {
		if err := c.Decode(new(op.Query)); err != nil {
			return nil, err
		}
		began <- struct{}{}
		<-ctx.Done()
		ended <- ctx.Err()
		return nil, ctx.Err()
	})
	return began, ended
}

var aWait = &op.NodeAllocIndexes{Query: op.Query{MinQueryIndex: 1, MaxQueryTime: time.Minute}}

func TestACallThatIsGivenUpEndsAtBothEnds(t *testing.T) {
	s := New(quiet(t))
	began, ended := waiter(s)
	sess := dial(t, start(t, s), nil)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-began; cancel() }()
	if err := sess.Call(ctx, "Wait", aWait, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("the caller got %v", err)
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the handler got %v", err)
	}
}

func TestACallEndsWithItsSession(t *testing.T) {
	s := New(quiet(t))
	began, ended := waiter(s)
	sess := dial(t, start(t, s), nil)
	go func() { <-began; sess.Close() }()
	err := sess.Call(t.Context(), "Wait", aWait, nil)
	if berth.KindOf(err) != berth.Unavailable {
		t.Errorf("the caller got %q: %v", berth.KindOf(err), err)
	}
	<-ended
	<-sess.Done()
	if err := sess.Call(t.Context(), "Wait", aWait, nil); berth.KindOf(err) != berth.Unavailable {
		t.Errorf("a call on a closed session got %v", err)
	}
	if _, err := Dial(t.Context(), "127.0.0.1:1", nil); berth.KindOf(err) != berth.Unavailable {
		t.Errorf("dialling nobody got %v", err)
	}
}

func TestCallsOfOneSessionRunSideBySide(t *testing.T) {
	s := New(quiet(t))
	var inside atomic.Int32
	all := make(chan struct{})
	s.Handle("Meet", func(ctx context.Context, c *Call) (any, error) {
		c.Peer.Remember(true)
		if inside.Add(1) == 100 {
			close(all)
		}
		select {
		case <-all:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	s.Handle("First", func(_ context.Context, c *Call) (any, error) {
		c.Peer.Remember(true)
		return nil, nil
	})
	sess := dial(t, start(t, s), nil)
	if err := sess.Call(t.Context(), "First", nil, nil); err != nil {
		t.Fatal(err)
	}
	var calls sync.WaitGroup
	for range 100 {
		calls.Go(func() {
			if err := sess.Call(t.Context(), "Meet", nil, nil); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	if n := len(sess.idle); n != idleMost {
		t.Errorf("%d streams are kept, not %d", n, idleMost)
	}
}

func TestAPanicFailsItsCallAlone(t *testing.T) {
	var log bytes.Buffer
	s := New(Config{Log: slog.New(slog.NewTextHandler(&log, nil))})
	s.Handle("Panic", func(context.Context, *Call) (any, error) { panic("oh") })
	s.Handle("Node.UpdateStatus", beat)
	sess := dial(t, start(t, s), nil)
	if err := sess.Call(t.Context(), "Panic", nil, nil); err == nil || err.Error() != "Panic: internal error" {
		t.Errorf("answered %v", err)
	}
	if err := sess.Call(t.Context(), "Node.UpdateStatus", aBeat, nil); err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), "panic=oh") {
		t.Errorf("the log says %q", &log)
	}
}

func TestAMethodHasACapOfCalls(t *testing.T) {
	s := New(quiet(t))
	began, _ := waiter(s)
	s.Limit("Wait", 2, 100)
	sess := dial(t, start(t, s), nil)
	ctx, cancel := context.WithCancel(t.Context())
	var calls sync.WaitGroup
	for range 2 {
		calls.Go(func() { sess.Call(ctx, "Wait", map[string]int{"MinQueryIndex": 1}, nil) })
		<-began
	}
	err := sess.Call(t.Context(), "Wait", map[string]int{"MinQueryIndex": 1}, nil)
	if berth.KindOf(err) != berth.Limited {
		t.Errorf("the third got %v", err)
	}
	err = sess.Call(t.Context(), "Wait", map[string]string{"A": strings.Repeat("x", 100)}, nil)
	if berth.KindOf(err) != berth.TooLarge {
		t.Errorf("a large argument got %v", err)
	}
	cancel()
	calls.Wait()
}

func TestAStrangersArgumentIsSmall(t *testing.T) {
	s := New(quiet(t))
	s.Handle("Prove", func(_ context.Context, c *Call) (any, error) {
		c.Peer.Remember("a node")
		return nil, nil
	})
	s.Handle("Report", func(context.Context, *Call) (any, error) { return nil, nil })
	sess := dial(t, start(t, s), nil)
	large := map[string]string{"Text": strings.Repeat("x", argStranger)}
	if err := sess.Call(t.Context(), "Report", large, nil); berth.KindOf(err) != berth.TooLarge {
		t.Errorf("before: %v", err)
	}
	if err := sess.Call(t.Context(), "Prove", nil, nil); err != nil {
		t.Error(err)
	}
	if err := sess.Call(t.Context(), "Report", large, nil); err != nil {
		t.Errorf("after: %v", err)
	}
}

func TestAnAnswerMayBeLargerThanAQuestion(t *testing.T) {
	s := New(quiet(t))
	size := MaxFrame + 1
	s.Handle("Large", func(context.Context, *Call) (any, error) {
		return map[string]string{"Text": strings.Repeat("x", size)}, nil
	})
	sess := dial(t, start(t, s), nil)
	var out map[string]string
	if err := sess.Call(t.Context(), "Large", nil, &out); err != nil || len(out["Text"]) != size {
		t.Errorf("%d bytes, %v", len(out["Text"]), err)
	}
	size = MaxReply
	if err := sess.Call(t.Context(), "Large", nil, &out); berth.KindOf(err) != berth.TooLarge {
		t.Errorf("past the limit: %v", err)
	}
	if err := sess.Call(t.Context(), "Large", map[string]string{"Text": strings.Repeat("x", MaxFrame)}, nil); berth.KindOf(err) != berth.TooLarge {
		t.Errorf("a question past the limit: %v", err)
	}
	size = 1
	if err := sess.Call(t.Context(), "Large", nil, nil); err != nil {
		t.Errorf("the session did not outlive it: %v", err)
	}
}

func TestWhatCannotBeSentIsTheCallersFault(t *testing.T) {
	s := New(quiet(t))
	s.Handle("Odd", func(context.Context, *Call) (any, error) { return map[string]any{"F": func() {}}, nil })
	sess := dial(t, start(t, s), nil)
	if err := sess.Call(t.Context(), "Odd", make(chan int), nil); berth.KindOf(err) != berth.Invalid {
		t.Errorf("a channel: %v", err)
	}
	if err := sess.Call(t.Context(), "Odd", nil, nil); err == nil || !strings.Contains(err.Error(), "cannot encode a func()") {
		t.Errorf("a reply that cannot be encoded: %v", err)
	}
}

package wire

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"berth"
	"berth/internal/eventually"
	"berth/op"
)

// inMemory serves s over pipes until the test ends. The returned function opens
// a session as another server does.
func inMemory(t *testing.T, s *Server) func() *Session {
	ctx, cancel := context.WithCancel(context.Background())
	ln, ended := make(pipes), make(chan error)
	go func() { ended <- s.Serve(ctx, ln) }()
	var open []*Session
	t.Cleanup(func() {
		for _, sess := range open {
			sess.Close()
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return func() *Session {
		near, far := net.Pipe()
		go func() { ln <- far }()
		d := &Dialer{Server: true, Connect: func(context.Context, string) (net.Conn, error) { return near, nil }}
		sess, err := d.Dial(t.Context(), "memory")
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, sess)
		return sess
	}
}

// Calls that wait for something new are not in progress: however many agents
// wait for their allocations, another one is served.
func TestWaitingCallsCostNoSlot(t *testing.T) {
	const most, waiting, perSession = 256, 1000, 250
	s := New(Config{Log: quiet(t).Log, MaxCalls: most, FrameTime: eventually.Limit})
	news := make(chan struct{})
	var idle atomic.Int64
	s.Handle("Node.GetClientAllocs", func(ctx context.Context, c *Call) (any, error) {
		var q op.Query
		if err := c.Decode(&q); err != nil {
			return nil, err
		}
		if q.MinQueryIndex > 0 {
			defer Idle(ctx)()
			idle.Add(1)
			select {
			case <-news:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		return nil, nil
	})
	connect := inMemory(t, s)
	var g sync.WaitGroup
	var mu sync.Mutex
	failed := map[string]int{}
	for range waiting / perSession {
		sess := connect()
		for range perSession {
			g.Go(func() {
				if err := sess.Call(t.Context(), "Node.GetClientAllocs", &op.Query{MinQueryIndex: 1, MaxQueryTime: time.Hour}, nil); err != nil {
					mu.Lock()
					defer mu.Unlock()
					failed[err.Error()]++
				}
			})
		}
	}
	waitFor(t, func() bool { return idle.Load() == waiting })
	if n := s.methods["Node.GetClientAllocs"].inProcess.Load(); n != 0 {
		t.Errorf("with nothing but waiting calls, %d are in progress", n)
	}
	if err := connect().Call(t.Context(), "Node.GetClientAllocs", &op.Query{}, nil); err != nil {
		t.Errorf("call %d: %v", waiting+1, err)
	}
	close(news)
	g.Wait()
	if len(failed) > 0 {
		t.Errorf("calls that waited: %v", failed)
	}
}

// hold adds a method whose calls last until the returned channel is closed.
func hold(s *Server) (end chan struct{}) {
	end = make(chan struct{})
	s.Handle("Hold", func(ctx context.Context, _ *Call) (any, error) {
		select {
		case <-end:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	return end
}

// calls makes n calls of Hold at a time, and returns a channel of their errors.
// It returns once as many are in progress as may be.
func calls(t *testing.T, s *Server, sess *Session, n int) chan error {
	errs := make(chan error, n)
	for range n {
		go func() { errs <- sess.Call(t.Context(), "Hold", nil, nil) }()
	}
	waitFor(t, func() bool { return s.methods["Hold"].inProcess.Load() == int64(min(n, cap(sess.slots), streamsKnown)) })
	return errs
}

// A session takes as many calls as it has streams for; the next ones wait for
// those to end, and are made then.
func TestCallsWaitForAFullSession(t *testing.T) {
	s := New(Config{Log: quiet(t).Log})
	end := hold(s)
	sess := inMemory(t, s)()
	const n = 2000
	errs := calls(t, s, sess, n)
	if got := s.methods["Hold"].inProcess.Load(); got != streamsOpened || !sess.Full() {
		t.Errorf("%d calls are in progress, want %d", got, streamsOpened)
	}
	close(end)
	for range n {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if sess.Full() {
		t.Error("the session is full after all calls have ended")
	}
}

// A call that finds no stream for too long was certainly not made, and says so.
func TestAFullSessionRefuses(t *testing.T) {
	s := New(Config{Log: quiet(t).Log})
	end := hold(s)
	sess := inMemory(t, s)()
	errs := calls(t, s, sess, streamsOpened)
	sess.server = New(Config{Log: quiet(t).Log, fullTime: time.Nanosecond})
	err := sess.Call(t.Context(), "Hold", nil, nil)
	if !errors.Is(err, ErrUnsent) || berth.KindOf(err) != berth.Limited {
		t.Error(err)
	}
	if _, err := sess.Stream(t.Context(), "Hold", nil); !errors.Is(err, ErrUnsent) || berth.KindOf(err) != berth.Limited {
		t.Errorf("a stream: %v", err)
	}
	sess.server = New(quiet(t))
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := sess.Call(ctx, "Hold", nil, nil); !errors.Is(err, ErrUnsent) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with less time: %v", err)
	}
	close(end)
	for range streamsOpened {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// A peer that opens more streams than it may is told that nothing was done, in
// an answer, instead of being left with the end of a stream.
func TestTooManyStreamsAreAnswered(t *testing.T) {
	s := New(Config{Log: quiet(t).Log})
	end := hold(s)
	sess := inMemory(t, s)()
	sess.slots = make(chan struct{}, 1<<16) // as earlier versions
	const beyond = refusalsMost
	errs := calls(t, s, sess, streamsKnown)
	for range beyond {
		err := sess.Call(t.Context(), "Hold", nil, nil)
		if berth.KindOf(err) != berth.Limited {
			t.Fatalf("a call beyond the limit: %v", err)
		}
	}
	if _, err := sess.Stream(t.Context(), "Hold", nil); berth.KindOf(err) != berth.Limited {
		t.Errorf("a stream beyond the limit: %v", err)
	}
	close(end)
	for range streamsKnown {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

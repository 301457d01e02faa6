package server

import (
	"context"
	"log/slog"
	"net"
	"runtime"
	"testing"

	"berth"
	"berth/internal/eventually"
	"berth/internal/wire"
)

// Two agents with one identity that take turns, as on a cloned disk, leave
// nothing behind but their two sessions.
func TestOneIdentityOnTwoSessions(t *testing.T) {
	s := wire.New(wire.Config{Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	s.Handle("Hello", func(context.Context, *wire.Call) (any, error) { return nil, nil })
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- s.Serve(ctx, ln) }()
	var two [2]*wire.Session
	for i := range two {
		if two[i], err = wire.Dial(ctx, ln.Addr().String(), nil); err != nil {
			t.Fatal(err)
		}
	}
	var known sessions
	id, other := berth.NodeID{1}, berth.NodeID{2}
	before := runtime.NumGoroutine()
	for i := range 10_000 {
		known.keep(id, two[i%2])
		if known.of(id) != two[i%2] {
			t.Fatal("the last session is not the one that is called")
		}
	}
	// The sessions themselves may have started some of theirs after the count.
	const own = 20
	eventually.True(t, "no goroutine is left but those of the sessions", func() bool { return runtime.NumGoroutine()-before <= own })
	known.keep(other, two[1])
	if known.of(id) != nil || known.of(other) != two[1] || len(known.byNode) != 1 {
		t.Errorf("a session that proved another node is kept as %v", known.byNode)
	}
	for _, sess := range two {
		sess.Close()
	}
	for len(known.all()) > 0 { // the goroutines forget them
		runtime.Gosched()
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// all returns the nodes of all sessions.
func (s *sessions) all() (out []berth.NodeID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range s.node {
		out = append(out, id)
	}
	return out
}

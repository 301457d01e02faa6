package server

import (
	"io"
	"log/slog"
	"testing"

	"berth/internal/gossip"
	"berth/internal/state"
)

// tip is a log whose newest command is not committed yet.
type tip struct {
	snap *state.Snapshot
	ask  func()
}

// Tip returns the state after what is on its way.
func (t tip) Tip() *state.Snapshot {
	if t.ask != nil {
		t.ask()
	}
	return t.snap
}

// A server that joins is compared with what is on its way to the log, not only
// with what is committed; and from before that on, nothing newer than it
// understands may be proposed. Otherwise it would get a command that makes it end.
func TestAServerJoinsWhileALogVersionBegins(t *testing.T) {
	s := &Server{config: Config{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}, store: state.New()}
	old := gossip.Member{ID: "old", Name: "s4.global", Berth: "0.1.0", RPC: "10.0.0.4:4647", LogVersion: 1}
	newer := *s.store.Snapshot()
	newer.LogVersion = 2
	if !s.tooOldToJoin(tip{snap: &newer}, old) {
		t.Error("a server joins that does not understand what is on its way")
	}
	if n := len(s.joining.all()); n != 0 {
		t.Errorf("%d refused servers count for the log version", n)
	}
	counted := 0
	if s.tooOldToJoin(tip{snap: s.store.Snapshot(), ask: func() { counted = len(s.joining.all()) }}, old) {
		t.Error("a server that understands the log may not join")
	}
	if counted != 1 {
		t.Error("a server counts only after the log was asked: a newer command can come between")
	}
	if list := s.joining.all(); len(list) != 1 || list[0].logVersion != 1 || list[0].name != old.Name {
		t.Errorf("counted are %+v", list)
	}
	s.joining.keep(func(id string) bool { return id != "old" }) // it is in the Raft configuration now, or gone
	if n := len(s.joining.all()); n != 0 {
		t.Errorf("%d servers still count", n)
	}
}

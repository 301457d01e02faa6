package consensus

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"berth/internal/throttle"
)

// The Raft library complains of each server that is down again and again: of each
// one line is written in a period, with what the library says about it.
func TestLinesAboutAServerThatIsDownAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		l := logger(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}})))
		down := errors.New("connection refused")
		for range 5 {
			l.Error("failed to heartbeat to", "peer", "a:1", "backoff time", time.Second, "error", down)
			l.Error("failed to heartbeat to", "peer", "b:1", "backoff time", time.Second, "error", down)
			l.Error("failed to appendEntries to", "peer", raft.Server{Suffrage: raft.Voter, ID: "s", Address: "a:1"}, "error", down)
			l.Warn("heartbeat timeout reached")
			l.Info("entering follower state")
		}
		time.Sleep(throttle.Every)
		l.Error("failed to heartbeat to", "peer", "a:1", "backoff time", time.Second, "error", down)
		l.Error("unexpected", "command", hclog.Fmt("%#v", 1))
		want := `level=ERROR msg="raft: failed to heartbeat to" peer=a:1 backoff_time=1s error="connection refused"
level=ERROR msg="raft: failed to heartbeat to" peer=b:1 backoff_time=1s error="connection refused"
level=ERROR msg="raft: failed to appendEntries to" peer=a:1 error="connection refused"
level=ERROR msg="raft: failed to heartbeat to" peer=a:1 backoff_time=1s error="connection refused" more_like_it=4
level=ERROR msg="raft: unexpected" command=1
`
		if out.String() != want {
			t.Errorf("logged\n%s", &out)
		}
	})
}

package wire

import (
	"context"
	"testing"
	"time"
)

// A retired session ends when nothing is in progress on it: neither a call of this
// end, nor a call or a stream of the far end. Until then they go on.
func TestARetiredSessionEndsWhatHasBegun(t *testing.T) {
	for _, what := range []string{"nothing", "a call", "a call of the far end", "a stream", "a stream of the far end"} {
		t.Run(what, func(t *testing.T) {
			release, begun := make(chan struct{}), make(chan struct{}, 1)
			waits := func(context.Context, *Call) (any, error) {
				begun <- struct{}{}
				<-release
				return "late", nil
			}
			talks := func(_ context.Context, _ *Call, st *Stream) error {
				begun <- struct{}{}
				<-release
				return st.Send([]byte("late"))
			}
			peers := make(chan *Peer, 1)
			far := New(quiet(t))
			far.Handle("Hello", func(_ context.Context, c *Call) (any, error) { peers <- c.Peer; c.Peer.Remember(1); return nil, nil })
			far.Handle("Waits", waits)
			far.HandleStream("Talks", talks)
			addr := start(t, far)
			cfg := quiet(t)
			cfg.retireTime = 200 * time.Millisecond // for the far end to read the answer
			near := New(cfg)
			near.Handle("Waits", waits)
			near.HandleStream("Talks", talks)
			s := dial(t, addr, near)
			if err := s.Call(t.Context(), "Hello", nil, nil); err != nil {
				t.Fatal(err)
			}
			back := (<-peers).Session()
			call := func(s *Session) error {
				var out string
				err := s.Call(t.Context(), "Waits", nil, &out)
				if err == nil && out != "late" {
					t.Errorf("the answer is %q", out)
				}
				return err
			}
			stream := func(s *Session) error {
				st, err := s.Stream(t.Context(), "Talks", nil)
				if err != nil {
					return err
				}
				defer st.Close()
				b, err := st.Recv()
				if string(b) != "late" {
					t.Errorf("the stream sent %q", b)
				}
				return err
			}
			ended := make(chan error, 1)
			switch what {
			case "a call":
				go func() { ended <- call(s) }()
			case "a call of the far end":
				go func() { ended <- call(back) }()
			case "a stream":
				go func() { ended <- stream(s) }()
			case "a stream of the far end":
				go func() { ended <- stream(back) }()
			default:
				begun <- struct{}{}
				ended <- nil
			}
			<-begun
			s.Retire()
			if what != "nothing" {
				select {
				case <-s.Done():
					t.Error("the session has ended before what was in progress")
				default:
				}
			}
			close(release)
			if err := <-ended; err != nil {
				t.Errorf("%s: %v", what, err)
			}
			<-s.Done()
		})
	}
}

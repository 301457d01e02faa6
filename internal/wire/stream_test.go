package wire

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-msgpack/v2/codec"

	"berth"
	"berth/internal/eventually"
)

func TestFramesGoBothWays(t *testing.T) {
	s := New(quiet(t))
	s.HandleStream("Echo", func(_ context.Context, c *Call, st *Stream) error {
		for {
			b, err := st.Recv()
			if err == io.EOF {
				return st.Send([]byte("bye"))
			}
			if err != nil {
				return err
			}
			if string(b) == "fail" {
				return berth.Errorf(berth.Conflict, "as you like")
			}
			if err := st.Send(append([]byte("echo "), b...)); err != nil {
				return err
			}
		}
	})
	sess := dial(t, start(t, s), nil)
	open := func() *Stream {
		st, err := sess.Stream(t.Context(), "Echo", nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { st.Close() })
		return st
	}

	st := open()
	large := strings.Repeat("x", 1<<20)
	for _, text := range []string{"a", large, "b"} {
		if err := st.Send([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if b, err := st.Recv(); string(b) != "echo "+text || err != nil {
			t.Fatalf("received %.20q, %v", b, err)
		}
	}
	if err := st.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if b, err := st.Recv(); string(b) != "bye" || err != nil {
		t.Errorf("after the half close: %q, %v", b, err)
	}
	if _, err := st.Recv(); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
	if err := st.Send(nil); berth.KindOf(err) != berth.Unavailable {
		t.Errorf("sending after CloseSend: %v", err)
	}

	st = open()
	st.Send([]byte("fail"))
	if _, err := st.Recv(); berth.KindOf(err) != berth.Conflict || err.Error() != "as you like" {
		t.Errorf("the stream ended with %v", err)
	}
}

func TestAStreamIsRefused(t *testing.T) {
	s := New(quiet(t))
	s.HandleStream("No", func(context.Context, *Call, *Stream) error {
		return berth.Errorf(berth.NotFound, "no such allocation")
	})
	s.HandleStream("Empty", func(context.Context, *Call, *Stream) error { return nil })
	sess := dial(t, start(t, s), nil)
	if _, err := sess.Stream(t.Context(), "No", nil); berth.KindOf(err) != berth.NotFound || err.Error() != "no such allocation" {
		t.Errorf("refused with %v", err)
	}
	if _, err := sess.Stream(t.Context(), "Nowhere", nil); berth.KindOf(err) != berth.Invalid {
		t.Errorf("a method that is not there: %v", err)
	}
	st, err := sess.Stream(t.Context(), "Empty", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if _, err := st.Recv(); err != io.EOF {
		t.Errorf("an empty stream: %v", err)
	}
}

// A handler that only sends learns that the caller is gone, however it went.
func TestAHandlerThatOnlySendsEndsWithItsCaller(t *testing.T) {
	s := New(quiet(t))
	ended := make(chan error, 1)
	s.HandleStream("Follow", func(ctx context.Context, _ *Call, st *Stream) error {
		st.Send([]byte("line"))
		<-ctx.Done()
		ended <- ctx.Err()
		return ctx.Err()
	})
	addr := start(t, s)
	for name, leave := range map[string]func(*Session, *Stream, context.CancelFunc){
		"close":   func(_ *Session, st *Stream, _ context.CancelFunc) { st.Close() },
		"context": func(_ *Session, _ *Stream, cancel context.CancelFunc) { cancel() },
		"session": func(s *Session, _ *Stream, _ context.CancelFunc) { s.Close() },
	} {
		sess := dial(t, addr, nil)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		st, err := sess.Stream(ctx, "Follow", nil)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := st.Recv(); string(b) != "line" || err != nil {
			t.Fatalf("received %q, %v", b, err)
		}
		leave(sess, st, cancel)
		select {
		case err := <-ended:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: the handler got %v", name, err)
			}
		case <-time.After(eventually.Limit):
			t.Fatalf("%s: the handler goes on", name)
		}
		if _, err := st.Recv(); err == nil {
			t.Errorf("%s: something more was received", name)
		}
		st.Close()
	}
}

// The bytes of a stream, seen by a caller that has nothing of ours.
func TestAStreamOfPlainTCP(t *testing.T) {
	s := New(quiet(t))
	s.HandleStream("Cat", func(_ context.Context, c *Call, st *Stream) error {
		var in struct{ Greeting string }
		if err := c.Decode(&in); err != nil {
			return err
		}
		if err := st.Send([]byte(in.Greeting)); err != nil {
			return err
		}
		b, err := st.Recv()
		if err != nil {
			return err
		}
		return errors.New("got " + string(b))
	})
	conn := connect(t, start(t, s))
	conn.Write([]byte{firstStream})
	enc, dec := codec.NewEncoder(conn, theirs(false)), codec.NewDecoder(conn, theirs(false))
	enc.MustEncode(map[string]string{"Method": "Cat"})
	enc.MustEncode(map[string]string{"Greeting": "hello"})
	enc.MustEncode(map[string]any{"Payload": []byte("a line"), "Error": nil})
	conn.(*net.TCPConn).CloseWrite()
	for i, want := range []map[string]any{
		{"Error": nil},
		{"Error": nil, "Payload": "hello"},
		{"Error": "got a line"},
	} {
		var got map[string]any
		if err := dec.Decode(&got); err != nil {
			t.Fatal(err)
		}
		if len(got) != len(want) || got["Error"] != want["Error"] || got["Payload"] != want["Payload"] {
			t.Errorf("frame %d is %v, not %v", i, got, want)
		}
	}
	if n, err := conn.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("after the end: %d, %v", n, err)
	}
}

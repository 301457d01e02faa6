package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/yamux"

	"berth"
	"berth/internal/accept"
	"berth/internal/eventually"
	"berth/internal/msgpack"
	_ "berth/internal/onethread"
	"berth/op"
)

// The cases of F-39: whatever a stranger sends, the connection ends, and what
// it cost is bounded.

// call returns the bytes of a call whose argument is arg.
func call(arg ...byte) []byte {
	return append(appendRequest([]byte{firstRPC}, "Node.UpdateAlloc", 1), arg...)
}

func length(first byte, n uint32) []byte { return binary.BigEndian.AppendUint32([]byte{first}, n) }

func field(name string, value ...byte) []byte {
	return append(msgpack.AppendString([]byte{0x81}, name), value...)
}

var bombs = map[string][]byte{
	"a list that claims 4 G":           call(length(0xdd, 1<<32-1)...),
	"a map that claims 4 G":            call(length(0xdf, 1<<32-1)...),
	"a string that claims 4 G":         call(length(0xdb, 1<<32-1)...),
	"bytes that claim 4 G":             call(length(0xc6, 1<<32-1)...),
	"an extension that claims 4 G":     call(length(0xc9, 1<<32-1)...),
	"a string that claims 8 M":         call(append(field("Region"), length(0xdb, MaxFrame)...)...),
	"a list in a field, of 4 G":        call(append(field("Alloc"), length(0xdd, 1<<32-1)...)...),
	"a list of 7 M empty maps":         call(append(append(field("Alloc"), length(0xdd, 7<<20)...), bytes.Repeat([]byte{0x80}, 7<<20)...)...),
	"a list of 7 M nils":               call(append(append(field("Alloc"), length(0xdd, 7<<20)...), bytes.Repeat([]byte{0xc0}, 7<<20)...)...),
	"lists in lists, 1 M deep":         call(bytes.Repeat([]byte{0x91}, 1<<20)...),
	"maps in maps, 1 M deep":           call(bytes.Repeat(field("a"), 1<<20)...),
	"deep in a field nobody knows":     call(append(field("Nobody"), bytes.Repeat([]byte{0x91}, 1<<20)...)...),
	"maps as keys of maps":             call(bytes.Repeat([]byte{0x81}, 50)...),
	"NaN":                              call(field("Nobody", 0xcb, 0x7f, 0xf8, 0, 0, 0, 0, 0, 1)...),
	"infinity":                         call(field("Nobody", 0xca, 0x7f, 0x80, 0, 0)...),
	"a byte that begins nothing":       call(0xc1),
	"a header that is a list":          {firstRPC, 0x92, 0xa1, 'a', 0x01},
	"a header that is a number":        {firstRPC, 0x01},
	"a header whose method is a map":   append([]byte{firstRPC}, field("ServiceMethod", 0x80)...),
	"a header whose number is text":    append([]byte{firstRPC}, field("Seq", 0xa1, '1')...),
	"a header whose number is below 0": append([]byte{firstRPC}, field("Seq", 0xff)...),
	"a header of 5,000 bytes":          append([]byte{firstRPC}, field("ServiceMethod", append(length(0xdb, 5000), make([]byte, 5000)...)...)...),
	"a stream's header of 5,000":       append([]byte{firstStream}, field("Method", append(length(0xdb, 5000), make([]byte, 5000)...)...)...),
	"a stream's argument of 4 G":       append(append([]byte{firstStream}, field("Method", 0xa1, 'x')...), length(0xdb, 1<<32-1)...),
}

func TestBombs(t *testing.T) {
	cfg := quiet(t)
	s := New(cfg)
	s.Handle("Node.UpdateAlloc", func(_ context.Context, c *Call) (any, error) {
		var in op.ReportAllocs
		if err := c.Decode(&in); err != nil {
			return nil, err
		}
		t.Errorf("a handler was given %d allocations", len(in.Alloc))
		return nil, nil
	})
	addr := start(t, s)
	for name, bomb := range bombs {
		t.Run(name, func(t *testing.T) {
			for _, over := range []func() net.Conn{
				func() net.Conn { return connect(t, addr) },
				func() net.Conn { return openMux(t, addr) },
			} {
				conn := over()
				before := allocated()
				if _, ok := conn.(*yamux.Stream); ok {
					bomb = bomb[:min(len(bomb), 64<<10)] // else most of the cost is that of yamux in the test
				}
				go conn.Write(bomb)
				answer, err := io.ReadAll(conn)
				if isTimeout(err) {
					t.Fatalf("%T: the connection is not closed; it answered %q", conn, answer)
				}
				conn.Close()
				if grew := allocated() - before; grew > 1<<20 { // with what the test takes
					t.Errorf("%T: it cost %d bytes", conn, grew)
				}
			}
		})
	}
}

// allocated returns how many bytes this process has ever allocated.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

func TestRandomBytes(t *testing.T) {
	s := New(quiet(t))
	s.Handle("Node.UpdateAlloc", func(_ context.Context, c *Call) (any, error) {
		var in op.ReportAllocs
		return nil, c.Decode(&in)
	})
	s.HandleStream("x", func(_ context.Context, c *Call, st *Stream) error {
		var in op.ReportAllocs
		if err := c.Decode(&in); err != nil {
			return err
		}
		_, err := st.Recv()
		return err
	})
	addr := start(t, s)
	rnd := rand.New(rand.NewPCG(1, 2))
	const rounds = 300
	before := allocated()
	for i := range rounds {
		junk := make([]byte, 1+rnd.IntN(3000))
		for i := range junk {
			junk[i] = byte(rnd.Uint32())
		}
		var b []byte
		switch i % 5 {
		case 0: // from the first byte
			b = junk
		case 1:
			b = append([]byte{firstRPC}, junk...)
		case 2:
			b = append(call(), junk...)
		case 3:
			b = append([]byte{firstMux}, junk...)
		case 4:
			b = append(append([]byte{firstStream}, field("Method", 0xa1, 'x')...), junk...)
		}
		conn := connect(t, addr)
		conn.Write(b)
		conn.(*net.TCPConn).CloseWrite()
		if _, err := io.ReadAll(conn); isTimeout(err) {
			t.Fatalf("round %d: the connection is not closed after %x", i, b)
		}
		conn.Close()
	}
	if each := (allocated() - before) / rounds; each > 256<<10 {
		t.Errorf("each cost %d bytes", each)
	}
}

// A value of the wrong type is the caller's mistake: it is told, and the
// connection goes on.
func TestWrongTypes(t *testing.T) {
	s := New(quiet(t))
	s.Handle("Node.Register", func(_ context.Context, c *Call) (any, error) {
		var in op.RegisterNode
		return nil, c.Decode(&in)
	})
	sess := dial(t, start(t, s), nil)
	for _, arg := range []any{
		"text", 7, true, 1.5, []any{1, 2},
		map[string]any{"Node": "text"},
		map[string]any{"Node": []any{1}},
		map[string]any{"Node": map[string]any{"ID": 7}},
		map[string]any{"Node": map[string]any{"ID": "not a UUID"}},
		map[string]any{"Node": map[string]any{"ID": []byte{0xff}}},
		map[string]any{"Node": map[string]any{"Attributes": []any{"a"}}},
		map[string]any{"Node": map[string]any{"Attributes": map[string]any{"a": map[string]any{}}}},
		map[string]any{"Node": map[string]any{"StatusUpdatedAt": 1.5}},
		map[string]any{"Node": map[string]any{"Events": []any{map[string]any{"Timestamp": "short"}}}},
		map[string]any{"Node": map[string]any{"NodeResources": map[string]any{"MinDynamicPort": "high"}}},
		map[string]any{"Node": map[string]any{"NodeResources": map[string]any{"Cpu": map[string]any{"TotalCpuCores": 1 << 20}}}},
		map[string]any{"Node": map[string]any{"TLSEnabled": 7}},
	} {
		if err := sess.Call(t.Context(), "Node.Register", arg, nil); berth.KindOf(err) != berth.Invalid {
			t.Errorf("%v: %v", arg, err)
		}
	}
	// Unknown keys, and nil for anything, are no mistakes.
	for _, arg := range []any{
		nil, map[string]any{}, map[string]any{"Unknown": map[string]any{"A": []any{1, 2.5, nil}}},
		map[string]any{"Node": nil, "Region": nil},
		map[string]any{"Node": map[string]any{"ID": nil, "TLSEnabled": nil, "Events": nil, "NodeResources": nil}},
	} {
		if err := sess.Call(t.Context(), "Node.Register", arg, nil); err != nil {
			t.Errorf("%v: %v", arg, err)
		}
	}
}

func TestAdvisory_C39_TheHundredAndFirstConnectionIsRefused(t *testing.T) {
	s := New(quiet(t))
	s.Handle("Node.UpdateStatus", beat)
	addr := start(t, s)
	var all []*Session
	for range 100 {
		sess := dial(t, addr, nil)
		if err := sess.Call(t.Context(), "Node.UpdateStatus", aBeat, nil); err != nil {
			t.Fatal(err)
		}
		all = append(all, sess)
	}
	// The 101st may say who it is, and does not say that it is a server.
	last := connect(t, addr)
	last.Write([]byte{firstMux})
	if n, err := last.Read(make([]byte, 1)); n > 0 || isTimeout(err) {
		t.Errorf("the 101st connection is open: %v", err)
	}
	// When one ends, another may come; the server needs a moment to see it.
	all[0].Close()
	for deadline := time.Now().Add(eventually.Limit); ; {
		sess, err := Dial(t.Context(), addr, nil)
		if err == nil {
			err = sess.Call(t.Context(), "Node.UpdateStatus", aBeat, nil)
			sess.Close()
		}
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("no room after one has left: %v", err)
		}
	}
}

func TestAStrangerMayOpenFewStreams(t *testing.T) {
	s := New(quiet(t))
	waiter(s)
	addr := start(t, s)
	first := openMux(t, addr)
	mux := first.(*yamux.Stream).Session()
	var streams []*yamux.Stream
	for range streamsStranger + 3 {
		st, err := mux.OpenStream()
		if err != nil {
			t.Fatal(err)
		}
		st.Write(append(appendRequest([]byte{firstRPC}, "Wait", 1), field("MinQueryIndex", 1)...))
		streams = append(streams, st)
	}
	for i, st := range streams {
		refused := i >= streamsStranger-1 // the one that says nothing counts too
		wait := eventually.Limit
		if !refused {
			wait = time.Millisecond // those that wait say nothing
		}
		st.SetReadDeadline(time.Now().Add(wait))
		if _, err := io.ReadAll(st); isTimeout(err) == refused {
			t.Errorf("stream %d: %v", i, err)
		}
	}
}

// A peer that never reads is dropped, and what it asked for with it.
func TestAPeerThatNeverReads(t *testing.T) {
	large := strings.Repeat("x", 1<<20)
	newServer := func(t *testing.T) string {
		cfg := quiet(t)
		cfg.FrameTime = 300 * time.Millisecond
		s := New(cfg)
		s.Handle("Large", func(context.Context, *Call) (any, error) { return map[string]string{"Text": large}, nil })
		s.HandleStream("Large", func(_ context.Context, _ *Call, st *Stream) error {
			for {
				if err := st.Send([]byte(large)); err != nil {
					return err
				}
			}
		})
		return start(t, s)
	}
	calls := bytes.Repeat(append(appendRequest(nil, "Large", 1), 0x80), 100)
	stream := append(field("Method", msgpack.AppendString(nil, "Large")...), 0x80)
	for name, b := range map[string][]byte{
		"calls":    append([]byte{firstRPC}, calls...),
		"a stream": append([]byte{firstStream}, stream...),
	} {
		t.Run(name+" on TCP", func(t *testing.T) {
			conn := connect(t, newServer(t))
			conn.Write(b)
			untilReset(t, conn)
		})
		t.Run(name+" below yamux", func(t *testing.T) {
			conn := connect(t, newServer(t))
			conn.Write([]byte{firstMux})
			for id := uint32(1); id < 60; id += 2 { // the windows of many streams are more than TCP takes
				conn.Write(muxFrame(1, 1, id, 0))     // window update, SYN
				conn.Write(muxFrame(1, 0, id, 8<<20)) // and room for all of the answer
				conn.Write(append(muxFrame(0, 0, id, uint32(len(b))), b...))
			}
			untilReset(t, conn)
		})
	}
}

// The same with a yamux that reads, and streams that are not read from.
func TestStreamsThatAreNeverRead(t *testing.T) {
	cfg := quiet(t)
	cfg.FrameTime = 300 * time.Millisecond
	s := New(cfg)
	large := []byte(strings.Repeat("x", 100<<10))
	peers, gone := make(chan *Peer, 1), make(chan error, 1)
	s.HandleStream("Large", func(_ context.Context, c *Call, st *Stream) error {
		peers <- c.Peer
		for {
			if err := st.Send(large); err != nil {
				gone <- err
				return err
			}
		}
	})
	s.Handle("Large", func(context.Context, *Call) (any, error) { return map[string][]byte{"Text": large}, nil })
	sess := dial(t, start(t, s), nil)
	st, err := sess.mux.Open()
	if err != nil {
		t.Fatal(err)
	}
	st.Write(append([]byte{firstRPC}, bytes.Repeat(append(appendRequest(nil, "Large", 1), 0x80), 1000)...))
	follow, err := sess.Stream(t.Context(), "Large", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer follow.Close()
	far := (<-peers).Session()
	if err := <-gone; !isTimeout(err) {
		t.Errorf("Send ended with %v", err)
	}
	waitFor(t, func() bool {
		far.mu.Lock()
		defer far.mu.Unlock()
		return len(far.open) == 0
	})
	if n, err := io.Copy(io.Discard, st); n > 256<<10 || err != nil {
		t.Errorf("of the calls %d bytes are left: %v", n, err)
	}
	frames := 0
	for err == nil {
		_, err = follow.Recv()
		frames++
	}
	if frames > 5 {
		t.Errorf("of the stream %d frames are left, and %v", frames, err)
	}
}

// The handshake has a deadline below and within yamux, too. A session that was
// set up in time stays open although it is idle: it is older than the
// connections that are dropped, and outlives them.
func TestTheSilentAreDroppedWithYamux(t *testing.T) {
	cfg := quiet(t)
	cfg.Handshake = 3 * time.Second // a busy machine needs some of it to set up a session
	addr := start(t, New(cfg))
	sess := dial(t, addr, nil)
	sess.Call(t.Context(), "X", nil, nil)
	conn := connect(t, addr)
	conn.Write([]byte{firstMux})
	stream := openMux(t, addr)
	if _, err := io.ReadAll(conn); isTimeout(err) {
		t.Error("no yamux after the first byte: not dropped")
	}
	if _, err := io.ReadAll(stream); isTimeout(err) {
		t.Error("a stream without a first byte: not dropped")
	}
	select {
	case <-sess.Done():
		t.Error("a session was dropped after its handshake")
	default:
	}
}

func muxFrame(kind byte, flags uint16, id, n uint32) []byte {
	b := []byte{0, kind}
	b = binary.BigEndian.AppendUint16(b, flags)
	b = binary.BigEndian.AppendUint32(b, id)
	return binary.BigEndian.AppendUint32(b, n)
}

// untilReset waits until the far end has dropped a connection from which
// nothing is read.
func untilReset(t *testing.T, conn net.Conn) {
	t.Helper()
	waitFor(t, func() bool {
		_, err := conn.Write([]byte{0})
		return err != nil && !isTimeout(err)
	})
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(eventually.Limit); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not happen")
		}
	}
}

// Raft, TLS, HTTP and everything else is closed at once.
func TestOtherProtocolsAreRefused(t *testing.T) {
	addr := start(t, New(quiet(t)))
	for _, first := range []string{"\x02", "\x03\x16\x03\x01", "\x04", "\x00", "GET / HTTP/1.1\r\n\r\n", "\xff"} {
		conn := connect(t, addr)
		conn.Write([]byte(first))
		if b, err := io.ReadAll(conn); len(b) > 0 || isTimeout(err) {
			t.Errorf("%q: answered %q, %v", first, b, err)
		}
	}
}

// pipes is a listener in memory, so that a test's clock is its own.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (p pipes) Close() error   { defer func() { recover() }(); close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// Each of these sends its bytes and then nothing: it is dropped after the time
// that it has.
func TestTheSilentAreDropped(t *testing.T) {
	for _, c := range []struct {
		name  string
		bytes []byte
		after time.Duration
	}{
		{"says nothing", nil, 5 * time.Second},
		{"no request after the first byte", []byte{firstRPC}, 5 * time.Second},
		{"half a header", []byte{firstRPC, 0x82, 0xad, 'S'}, 5 * time.Second},
		{"no stream after the first byte", []byte{firstStream}, 5 * time.Second},
		{"no argument", call(), 5 * time.Second},
		{"half an argument, after a call", append(append(call(0x80), call()[1:]...), 0x82, 0xa1), 30 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := New(Config{Log: quiet(t).Log})
				s.Handle("Node.UpdateAlloc", func(context.Context, *Call) (any, error) { return nil, nil })
				ctx, cancel := context.WithCancel(t.Context())
				ln := make(pipes)
				ended := make(chan error)
				go func() { ended <- s.Serve(ctx, ln) }()
				near, far := net.Pipe()
				ln <- far
				began := time.Now()
				if len(c.bytes) > 0 {
					go near.Write(c.bytes)
				}
				io.Copy(io.Discard, near)
				if took := time.Since(began); took != c.after {
					t.Errorf("dropped after %v, not %v", took, c.after)
				}
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A byte now and then does not keep a request alive for ever.
func TestSlowBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{Log: quiet(t).Log})
		s.Handle("Node.UpdateAlloc", func(context.Context, *Call) (any, error) { return nil, nil })
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		near, far := net.Pipe()
		go func() {
			defer far.Close()
			s.serveConn(ctx, far, s.guests.enter(far.RemoteAddr(), 1))
		}()
		go io.Copy(io.Discard, near)
		near.Write(call(0x80)) // the handshake is done
		began := time.Now()
		for _, b := range call(bytes.Repeat([]byte{0x91}, 90)...)[1:] {
			time.Sleep(time.Second)
			if _, err := near.Write([]byte{b}); err != nil {
				break
			}
		}
		if took := time.Since(began); took < 30*time.Second || took > 33*time.Second {
			t.Errorf("dropped after %v, not 30 s", took)
		}
	})
}

// A call has a deadline though nobody gave it one.
func TestDeadlinesOfHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{Log: quiet(t).Log})
		s.Handle("Wait", func(ctx context.Context, c *Call) (any, error) {
			if err := c.Decode(new(op.Query)); err != nil {
				return nil, err
			}
			<-ctx.Done()
			return nil, ctx.Err()
		})
		near, far := net.Pipe()
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			defer far.Close()
			s.serveConn(ctx, far, s.guests.enter(far.RemoteAddr(), 1))
		}()
		near.Write([]byte{firstRPC})
		r := &frameReader{conn: near, patient: time.Minute}
		for _, c := range []struct {
			in          any
			least, most time.Duration
		}{
			{nil, time.Minute, time.Minute},
			{&op.Query{MaxQueryTime: time.Hour}, time.Minute, time.Minute}, // it does not wait for an index
			{&op.Query{MinQueryIndex: 5, MaxQueryTime: 16 * time.Second}, 76 * time.Second, 77 * time.Second},
			{&op.Query{MinQueryIndex: 5}, 6 * time.Minute, 379 * time.Second},
			{&op.Query{MinQueryIndex: 5, MaxQueryTime: time.Hour}, 6 * time.Minute, 379 * time.Second},
			{&op.Query{MinQueryIndex: 5, MaxQueryTime: -1}, 6 * time.Minute, 379 * time.Second},
		} {
			b, err := msgpack.Append(appendRequest(nil, "Wait", 1), c.in)
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			near.Write(b)
			frame, err := r.next(maxHeader, false)
			if err != nil {
				t.Fatal(err)
			}
			h, _, err := readHeader(frame, nil)
			r.next(1, true)
			r.done()
			if d := time.Since(began); d < c.least || d > c.most || h.kind != berth.Unavailable || err != nil {
				t.Errorf("%+v: the handler had %v, not %v to %v: %+v, %v", c.in, d, c.least, c.most, h, err)
			}
			if c.in != nil {
				if p := patience(c.in) + time.Minute; p < c.least || p > c.most {
					t.Errorf("%+v: the caller waits %v, not %v to %v", c.in, p, c.least, c.most)
				}
			}
		}
		cancel()
		near.Close()
	})
}

// A far end that never answers: the caller's own clock ends the call.
func TestDeadlinesOfCallers(t *testing.T) {
	s := New(quiet(t))
	expired, done := make(chan struct{}), make(chan bool)
	s.Handle("Hang", func(context.Context, *Call) (any, error) { // breaks its promise to end with ctx
		close(expired)
		<-done
		return nil, nil
	})
	sess := dial(t, start(t, s), nil)
	defer close(done)
	if err := sess.Call(expiring{t.Context(), expired}, "Hang", nil, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the call ended with %v", err)
	}
}

// expiring is a context whose deadline passes when expired is closed.
type expiring struct {
	context.Context
	expired chan struct{}
}

func (e expiring) Done() <-chan struct{} { return e.expired }

func (e expiring) Err() error {
	select {
	case <-e.expired:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

func TestTheRoomForLargeFramesIsShared(t *testing.T) {
	var g guests
	local := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}
	in := g.enter(local, 1)
	if in == nil || in.trial {
		t.Fatal("the first is refused")
	}
	for i := range trialsMost + 1 {
		more := g.enter(&net.TCPAddr{IP: local.IP, Port: 2}, 1)
		if (more != nil && more.trial) != (i < trialsMost) {
			t.Errorf("connection %d of the same address: %+v", i+2, more)
		}
		if more != nil {
			defer more.leave()
		}
	}
	mine := &share{&g.large, &in.guest.large}
	if !mine.take(largeGuest) || mine.take(1) {
		t.Error("one guest has other than its quarter")
	}
	for range 3 {
		if other := (&share{&g.large, &(&guest{}).large}); !other.take(largeGuest) {
			t.Error("another guest does not get its quarter")
		}
	}
	if other := (&share{&g.large, &(&guest{}).large}); other.take(1) {
		t.Error("more is given than there is")
	}
	mine.give(largeGuest)
	if !mine.take(5) || g.large.Load() != 3*largeGuest+5 {
		t.Error("what was given back is not there")
	}
	other := g.enter(&net.TCPAddr{IP: net.IPv4(10, 0, 0, 1)}, 1)
	if !other.trust(1) || g.enter(&net.TCPAddr{IP: net.IPv4(10, 0, 0, 1)}, 1).trial {
		t.Error("a server's connection counts with those of others")
	}
	in.leave()
	if c := g.conns[accept.Host(local)]; c.plain != 0 || c.trials != trialsMost {
		t.Errorf("left are %+v", c)
	}
}

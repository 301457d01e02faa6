package wire

import (
	"context"
	"io"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"berth/internal/msgpack"
)

// seeds adds the golden questions and the bombs that begin with the byte.
func seeds(f *testing.F, first byte) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		f.Fatal("no golden files: ", err)
	}
	var all [][]byte
	for _, file := range files {
		sent, _ := readGolden(f, file)
		all = append(all, sent)
	}
	for _, b := range bombs {
		all = append(all, b[:min(len(b), 1<<10)])
	}
	for _, b := range all {
		if b[0] == first {
			f.Add(b[1:], uint16(len(b)))
		}
	}
}

var silent = slog.New(slog.NewTextHandler(io.Discard, nil))

// warm makes the plans of all messages, which cost what no frame should.
func warm() {
	for _, m := range messages {
		for _, kind := range m {
			msgpack.Append(nil, kind)
			msgpack.Decode([]byte{0xc0}, reflect.New(reflect.TypeOf(kind)).Interface())
		}
	}
}

// within fails if f took much more memory than the bytes that came.
func within(t *testing.T, bytes int, f func()) {
	before := allocated()
	f()
	if grew := allocated() - before; grew > 1<<20+100*uint64(bytes) {
		t.Errorf("%d bytes cost %d", bytes, grew)
	}
}

// FuzzFrame sends bytes to a server as one RPC stream: they cost little, and
// nothing but the connection breaks. What the scanner lets through is decoded
// or refused as every message.
func FuzzFrame(f *testing.F) {
	seeds(f, firstRPC)
	warm()
	s := New(Config{Log: silent})
	for name := range messages {
		s.Handle(name, func(_ context.Context, c *Call) (any, error) {
			var last any
			for _, m := range messages {
				in := reflect.New(reflect.TypeOf(m[0]))
				if err := c.Decode(in.Interface()); err == nil {
					last = in.Interface()
				}
				c.Decode(reflect.New(reflect.TypeOf(m[1])).Interface())
			}
			var x any
			if err := c.Decode(&x); err != nil {
				return last, err
			}
			b, err := msgpack.Append(nil, x)
			if err != nil {
				t := reflect.TypeOf(x)
				panic("what was decoded cannot be encoded: " + t.String())
			}
			var y any
			if err := decode(b, &y); err != nil || !reflect.DeepEqual(x, y) {
				panic("what was decoded comes back otherwise")
			}
			return last, nil
		})
	}
	f.Fuzz(func(t *testing.T, b []byte, most uint16) {
		conn := &choppy{rest: b, most: 1 + int(most), r: rand.New(rand.NewPCG(1, 1))}
		r := &frameReader{conn: conn, patient: time.Minute}
		within(t, len(b), func() { s.serveKind(t.Context(), firstRPC, r, &Peer{Addr: conn.RemoteAddr()}) })
		if n := s.methods["Node.Register"].inProcess.Load(); n != 0 {
			t.Errorf("%d calls are still in progress", n)
		}
	})
}

// FuzzStream sends bytes to a server as one streaming RPC.
func FuzzStream(f *testing.F) {
	seeds(f, firstStream)
	f.Add(append(append(field("Method", 0xa4, 'E', 'c', 'h', 'o'), 0x80), field("Payload", 0xa1, 'x')...), uint16(9))
	s := New(Config{Log: silent})
	s.HandleStream("Echo", func(_ context.Context, c *Call, st *Stream) error {
		var in map[string]any
		if err := c.Decode(&in); err != nil {
			return err
		}
		for {
			b, err := st.Recv()
			if err != nil {
				return err
			}
			if err := st.Send(b); err != nil {
				return err
			}
		}
	})
	f.Fuzz(func(t *testing.T, b []byte, most uint16) {
		conn := &choppy{rest: b, most: 1 + int(most), r: rand.New(rand.NewPCG(1, 1))}
		r := &frameReader{conn: conn, patient: time.Minute}
		within(t, len(b), func() { s.serveKind(t.Context(), firstStream, r, &Peer{Addr: conn.RemoteAddr()}) })
	})
}

// FuzzAnswer reads bytes as a caller reads an answer.
func FuzzAnswer(f *testing.F) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		_, back := readGolden(f, file)
		f.Add(back)
	}
	warm()
	f.Fuzz(func(t *testing.T, b []byte) {
		within(t, len(b), func() {
			r := &frameReader{conn: &choppy{rest: b, most: 1 << 20, r: rand.New(rand.NewPCG(1, 1))}, patient: time.Minute}
			frame, err := r.next(maxHeader, false)
			if err != nil {
				return
			}
			h, _, err := readHeader(frame, nil)
			if err != nil {
				return
			}
			if h.text != "" {
				_ = h.error().Error()
			}
			if frame, err = r.next(MaxReply, true); err != nil {
				return
			}
			for _, m := range messages {
				decode(frame, reflect.New(reflect.TypeOf(m[1])).Interface())
			}
		})
	})
}

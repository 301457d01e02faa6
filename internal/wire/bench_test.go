package wire

import (
	"testing"

	"github.com/hashicorp/go-msgpack/v2/codec"

	"berth"
	"berth/internal/msgpack"
	"berth/op"
)

// A small call over real TCP: a heartbeat.
func BenchmarkCall(b *testing.B) {
	s := New(quiet(b))
	s.Handle("Node.UpdateStatus", beat)
	sess := dial(b, start(b, s), nil)
	b.ReportAllocs()
	for b.Loop() {
		var out op.NodeAnswer
		if err := sess.Call(b.Context(), "Node.UpdateStatus", aBeat, &out); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCallParallel(b *testing.B) {
	s := New(quiet(b))
	s.Handle("Node.UpdateStatus", beat)
	sess := dial(b, start(b, s), nil)
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			var out op.NodeAnswer
			if err := sess.Call(b.Context(), "Node.UpdateStatus", aBeat, &out); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// The answer with 50 allocations, the job encoded in each, and once.
func BenchmarkEncodeAllocs(b *testing.B) {
	a := fifty(b)
	run := func(e *msgpack.Codec) func(b *testing.B) {
		return func(b *testing.B) {
			var buf []byte
			var err error
			b.ReportAllocs()
			for b.Loop() {
				if buf, err = e.Append(buf[:0], a); err != nil {
					b.Fatal(err)
				}
			}
			b.SetBytes(int64(len(buf)))
		}
	}
	b.Run("each", run(msgpack.NewProtocol()))
	b.Run("once", run(msgpack.NewProtocol(msgpack.Once[berth.Job]())))
	b.Run("go-msgpack", func(b *testing.B) {
		var buf []byte
		e := codec.NewEncoderBytes(&buf, theirs(false))
		b.ReportAllocs()
		for b.Loop() {
			buf = buf[:0]
			e.ResetBytes(&buf)
			e.MustEncode(a)
		}
		b.SetBytes(int64(len(buf)))
	})
}

func BenchmarkDecodeAllocs(b *testing.B) {
	buf, err := msgpack.Append(nil, fifty(b))
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(buf)))
	b.Run("scan", func(b *testing.B) {
		var s msgpack.Scanner
		for b.Loop() {
			s.Reset()
			if n, err := s.Scan(buf, MaxFrame); n != len(buf) {
				b.Fatal(n, err)
			}
		}
		b.SetBytes(int64(len(buf)))
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var out op.GetAllocsAnswer
			if err := decode(buf, &out); err != nil {
				b.Fatal(err)
			}
		}
		b.SetBytes(int64(len(buf)))
	})
}

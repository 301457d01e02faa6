package logstore

import (
	"bytes"
	"maps"
	"testing"

	"github.com/hashicorp/raft"
)

// FuzzDecodeRecord reads arbitrary bytes as a record. Nothing panics or takes
// memory beyond them, and what is accepted is what would be written.
func FuzzDecodeRecord(f *testing.F) {
	for _, l := range []*raft.Log{entry(1, 1, 0), entry(7, 300, 90), {Index: 7, Extensions: []byte("x"), Data: []byte("y")}} {
		from := newBody(l)
		b := make([]byte, recordSize(&from))
		encodeRecord(b, place{l.Index, 0, uint16(from.parts())}, stamp{1, 2}, &from)
		f.Add(b, l.Index, uint16(0))
	}
	f.Fuzz(func(t *testing.T, b []byte, index uint64, part uint16) {
		share, parts, at, err := decodeRecord(b, index, part)
		if err != nil {
			return
		}
		again := make([]byte, len(b))
		encodeRecord(again, place{index, part, parts}, at, &body{data: share})
		if !bytes.Equal(again, b) {
			t.Fatalf("accepted %x, which would be written as %x", b, again)
		}
	})
}

// FuzzDecodeBody does the same with an entry whose parts were all intact.
func FuzzDecodeBody(f *testing.F) {
	for _, l := range []*raft.Log{entry(1, 1, 0), entry(7, 300, 90), {Index: 7, Extensions: []byte("x"), Data: []byte("y")}} {
		from := newBody(l)
		b := make([]byte, from.size())
		from.take(b)
		f.Add(b)
	}
	f.Add([]byte{1, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, b []byte) {
		var l, again raft.Log
		if decodeBody(bytes.Clone(b), 3, &l) != nil {
			return
		}
		from := newBody(&l)
		c := make([]byte, from.size())
		from.take(c)
		if err := decodeBody(c, 3, &again); err != nil || !equal(&l, &again) {
			t.Fatalf("%+v came back as %+v: %v", l, again, err)
		}
	})
}

// FuzzDecodeMeta reads arbitrary bytes as the file meta.
func FuzzDecodeMeta(f *testing.F) {
	for _, m := range []meta{{}, {4, 1001, 2000, 17, map[string][]byte{"CurrentTerm": {0, 0, 0, 0, 0, 0, 0, 7}, "": nil}}} {
		f.Add(m.encode())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeMeta(b)
		if err != nil {
			return
		}
		again, err := decodeMeta(m.encode())
		if err != nil || !maps.EqualFunc(m.Keys, again.Keys, bytes.Equal) || m.Session != again.Session || m.First != again.First || m.Last != again.Last || m.Seq != again.Seq {
			t.Fatalf("%+v came back as %+v: %v", m, again, err)
		}
	})
}

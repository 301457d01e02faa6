package codec

import (
	"encoding/binary"
	"fmt"
)

// Writer appends to a log entry or snapshot record. The zero Writer is ready to
// use.
type Writer struct{ buf []byte }

// NewWriter returns a Writer that appends to b.
func NewWriter(b []byte) *Writer { return &Writer{b} }

// Buf returns the written bytes.
func (w *Writer) Buf() []byte { return w.buf }

// Reset drops what was written and keeps the memory.
func (w *Writer) Reset() { w.buf = w.buf[:0] }

// Uint writes v in as few bytes as possible.
func (w *Writer) Uint(v uint64) { w.buf = binary.AppendUvarint(w.buf, v) }

// Int writes v in as few bytes as possible.
func (w *Writer) Int(v int64) { w.buf = binary.AppendVarint(w.buf, v) }

// Byte writes one byte.
func (w *Writer) Byte(v byte) { w.buf = append(w.buf, v) }

// ID writes the 16 bytes of an ID.
func (w *Writer) ID(v [16]byte) { w.buf = append(w.buf, v[:]...) }

// Bytes writes the length of v and v.
func (w *Writer) Bytes(v []byte) { w.Uint(uint64(len(v))); w.buf = append(w.buf, v...) }

// Text writes the length of v and v.
func (w *Writer) Text(v string) { w.Uint(uint64(len(v))); w.buf = append(w.buf, v...) }

// Optional writes an ID that is usually zero; zero takes one byte.
func (w *Writer) Optional(id [16]byte) {
	if id == [16]byte{} {
		w.Byte(0)
		return
	}
	w.Byte(1)
	w.ID(id)
}

// Raw writes b without its length.
func (w *Writer) Raw(b []byte) { w.buf = append(w.buf, b...) }

// Bool writes one byte.
func (w *Writer) Bool(v bool) {
	if v {
		w.Byte(1)
	} else {
		w.Byte(0)
	}
}

// Reader reads what a Writer wrote. After an error it reads zeros; callers
// check Err once, at the end. It never reads past its bytes, and makes no list
// longer than they could fill.
type Reader struct {
	buf []byte // not read yet
	err error  // the first error
}

// NewReader returns a Reader of b.
func NewReader(b []byte) *Reader { return &Reader{buf: b} }

// Err returns the first error, or nil.
func (r *Reader) Err() error { return r.err }

// Left returns how many bytes are left.
func (r *Reader) Left() int { return len(r.buf) }

// End returns the first error. Bytes that are left over are one.
func (r *Reader) End() error {
	if r.err == nil && len(r.buf) > 0 {
		r.Damaged(fmt.Sprintf("%d bytes are left over", len(r.buf)))
	}
	return r.err
}

// Fail records an error that the reader cannot detect itself.
func (r *Reader) Fail(err error) {
	if r.err == nil && err != nil {
		r.err, r.buf = err, nil
	}
}

// Damaged records that no writer can have written what was read.
func (r *Reader) Damaged(what string) { r.Fail(fmt.Errorf("damaged: %s", what)) }

// Uint reads a number.
func (r *Reader) Uint() uint64 {
	v, n := binary.Uvarint(r.buf)
	if n <= 0 {
		r.Damaged("number")
		return 0
	}
	r.buf = r.buf[n:]
	return v
}

// Int reads a signed number.
func (r *Reader) Int() int64 {
	v, n := binary.Varint(r.buf)
	if n <= 0 {
		r.Damaged("number")
		return 0
	}
	r.buf = r.buf[n:]
	return v
}

// Below reads a number below limit.
func (r *Reader) Below(limit uint64, what string) uint64 {
	v := r.Uint()
	if v >= limit {
		r.Damaged(what)
		return 0
	}
	return v
}

// Length reads the length of a list whose items take at least each bytes.
func (r *Reader) Length(each int) int {
	n := r.Uint()
	if n > uint64(len(r.buf)/each) {
		r.Damaged("length")
		return 0
	}
	return int(n)
}

// Take returns the next n bytes, without a copy.
func (r *Reader) Take(n int) []byte {
	if n > len(r.buf) {
		r.Damaged("end")
		return make([]byte, min(n, 16))
	}
	b := r.buf[:n]
	r.buf = r.buf[n:]
	return b
}

// Byte reads one byte.
func (r *Reader) Byte() byte { return r.Take(1)[0] }

// Bool reads one byte.
func (r *Reader) Bool() bool { return r.Byte() != 0 }

// ID reads the 16 bytes of an ID.
func (r *Reader) ID() [16]byte { return [16]byte(r.Take(16)) }

// Text reads text.
func (r *Reader) Text() string { return string(r.Take(r.Length(1))) }

// Optional reads an ID that may be zero.
func (r *Reader) Optional() [16]byte {
	if r.Byte() == 0 {
		return [16]byte{}
	}
	return r.ID()
}

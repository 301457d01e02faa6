package msgpack

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync"
)

// Bounds of a value.
const (
	maxNesting = 100
	// A byte can stand for a value of a few hundred bytes: an empty map in a
	// list of structs. Real messages contain field names, so they have at most
	// one container for every 30 bytes; a message with many more is an attack.
	freeContainers    = 1024
	bytesPerContainer = 16
)

// MalformedError is the error for bytes that no legitimate encoder writes.
type MalformedError struct{ text string }

// Error returns what is wrong with the input.
func (e *MalformedError) Error() string { return e.text }

// malformed returns a MalformedError with a formatted text.
func malformed(format string, args ...any) error {
	return &MalformedError{fmt.Sprintf(format, args...)}
}

// TooLargeError is the error for a value longer than allowed.
type TooLargeError struct{ Limit int }

// Error returns a text that names the limit in bytes.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("larger than the %d bytes allowed", e.Limit)
}

// A Scanner finds the end of a value whose bytes arrive in pieces: msgpack has
// no length in front. It also refuses everything harmful about a value, before
// a byte of it is decoded and before a claimed length has cost memory. The zero
// value is ready for use.
type Scanner struct {
	dense bool // accept any number of containers, and floats that are not finite

	pos        int      // of the next token
	open       []uint64 // for each open container: the values still to come, times two, plus one for a map
	containers int
}

// Reset makes the scanner ready for another value.
func (s *Scanner) Reset() { s.pos, s.open, s.containers = 0, s.open[:0], 0 }

// Scan walks b, which holds the part of the value that has arrived, and perhaps
// more. It returns the length of the value, or 0 if more must arrive. A value
// longer than limit is a [TooLargeError] as soon as its length is known; bytes
// that are not a legitimate value are a [MalformedError].
func (s *Scanner) Scan(b []byte, limit int) (size int, err error) {
	for {
		end, items := s.pos, uint64(0)
		if n := shortToken(b, s.pos); n > 0 {
			end += n
		} else if end, items, err = s.longToken(b, limit); err != nil || end == 0 {
			return 0, err
		}
		if end > limit {
			return 0, &TooLargeError{limit}
		}
		s.pos = end
		if items > 0 {
			continue
		}
		for { // a value is complete; it may be the last of its container
			n := len(s.open)
			if n == 0 {
				return s.pos, nil
			}
			if s.open[n-1] -= 2; s.open[n-1] > 1 {
				break
			}
			s.open = s.open[:n-1]
		}
	}
}

// shortToken returns the length of the most common tokens, which need no check:
// small numbers, bools, short strings; 0 for others.
func shortToken(b []byte, at int) int {
	if at >= len(b) {
		return 0
	}
	switch c := b[at]; {
	case c <= 0x7f || c >= 0xe0 || c == 0xc2 || c == 0xc3:
		return 1
	case c >= 0xa0 && c <= 0xbf && at+int(c&0x1f) < len(b):
		return 1 + int(c&0x1f)
	}
	return 0
}

// longToken checks the next token, and opens it if it is a container. end is 0
// if it has not arrived completely.
func (s *Scanner) longToken(b []byte, limit int) (end int, items uint64, err error) {
	head, body, items, err := token(b[s.pos:])
	if err != nil {
		return 0, 0, err
	}
	if head == 0 { // the length of the token has not arrived
		if s.pos >= limit {
			return 0, 0, &TooLargeError{limit}
		}
		return 0, 0, nil
	}
	far := uint64(s.pos) + uint64(head) + body
	if far+items > uint64(limit) { // an item takes at least one byte
		return 0, 0, &TooLargeError{limit}
	}
	if far > uint64(len(b)) {
		return 0, 0, nil
	}
	c := b[s.pos]
	if err := s.check(c, b[s.pos:far]); err != nil {
		return 0, 0, err
	}
	if items > 0 {
		if len(s.open) == maxNesting {
			return 0, 0, malformed("nested deeper than %d", maxNesting)
		}
		s.open = append(s.open, items<<1|mapBit(c))
	}
	return int(far), items, nil
}

// check refuses tokens that are well formed but never legitimate.
func (s *Scanner) check(c byte, whole []byte) error {
	inList, isKey := false, false
	if n := len(s.open); n > 0 {
		inList = s.open[n-1]&1 == 0
		isKey = !inList && s.open[n-1]>>1&1 == 0
	}
	switch {
	case isContainer(c):
		if isKey {
			return malformed("a list or map as the key of a map")
		}
		s.containers++
	case s.dense:
	case c == codeNil && inList: // nil is the zero value of a list of structs
		s.containers++
	case c == 0xca:
		if f := math.Float32frombits(binary.BigEndian.Uint32(whole[1:])); f != f || math.IsInf(float64(f), 0) {
			return malformed("the number %v is not finite", f)
		}
	case c == 0xcb:
		if f := math.Float64frombits(binary.BigEndian.Uint64(whole[1:])); f != f || math.IsInf(f, 0) {
			return malformed("the number %v is not finite", f)
		}
	}
	if !s.dense && s.containers > freeContainers+s.pos/bytesPerContainer {
		return malformed("too many containers: %d lists and maps in %d bytes", s.containers, s.pos)
	}
	return nil
}

// scanners are for complete, which would otherwise allocate for each value.
var scanners = sync.Pool{New: func() any { return &Scanner{dense: true} }}

// complete returns nil if b is exactly one value, however dense.
func complete(b []byte) error {
	s := scanners.Get().(*Scanner)
	defer scanners.Put(s)
	s.Reset()
	n, err := s.Scan(b, len(b))
	_, claims := err.(*TooLargeError)
	switch {
	case claims || err == nil && n == 0:
		return malformed("%d bytes are fewer than the value needs", len(b))
	case err != nil:
		return err
	case n < len(b):
		return malformed("%d bytes follow the value", len(b)-n)
	}
	return nil
}

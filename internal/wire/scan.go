package wire

import (
	"encoding/binary"
	"math"

	"berth"
)

// A frame is one msgpack value: a header, an argument, a reply. The stream has
// no lengths, so a frame's end is found by walking its tokens. The walk also
// settles everything about a frame that could hurt, before a byte of it is
// decoded and before any claimed length has cost memory.
const (
	maxNesting = 100
	// One byte can stand for a value of a few hundred bytes: an empty map in a
	// list of structs. Real frames spell field names, so they have a container
	// for every 30 bytes or more; a frame with many more is a bomb.
	freeContainers    = 1024
	bytesPerContainer = 16
)

// errFrame wraps what makes a frame one that nobody sane sends. After it the
// connection cannot be trusted to be at the beginning of a frame.
type errFrame struct{ err error }

func (e errFrame) Error() string { return "malformed frame: " + e.err.Error() }
func (e errFrame) Unwrap() error { return e.err }

func badFrame(format string, args ...any) error {
	return errFrame{berth.Errorf(berth.Invalid, format, args...)}
}

// scanner walks one value, in as many pieces as it arrives.
type scanner struct {
	pos        int      // of the next token
	open       []uint64 // for each open container: the values still to come, times two, plus one for a map
	containers int
}

func (s *scanner) reset() { s.pos, s.open, s.containers = 0, s.open[:0], 0 }

// scan walks b, which holds what has arrived of the value and perhaps more. It
// returns the length of the value, or 0 if more has to arrive. A value longer
// than limit is an error as soon as it says so.
func (s *scanner) scan(b []byte, limit int) (size int, err error) {
	for {
		end, items := s.pos, uint64(0)
		if n := shortToken(b, s.pos); n > 0 {
			end += n
		} else if end, items, err = s.longToken(b, limit); err != nil || end == 0 {
			return 0, err
		}
		if end > limit {
			return 0, errTooLarge(limit)
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

// shortToken returns the length of the commonest tokens, which nothing is
// wrong with: small numbers, bools, short strings; 0 for others.
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
// if it has not arrived.
func (s *scanner) longToken(b []byte, limit int) (end int, items uint64, err error) {
	head, body, items, err := token(b[s.pos:])
	if err != nil {
		return 0, 0, err
	}
	if head == 0 { // how long the token is has not arrived
		if s.pos >= limit {
			return 0, 0, errTooLarge(limit)
		}
		return 0, 0, nil
	}
	far := uint64(s.pos) + uint64(head) + body
	if far+items > uint64(limit) { // an item takes a byte at least
		return 0, 0, errTooLarge(limit)
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
			return 0, 0, badFrame("nested deeper than %d", maxNesting)
		}
		s.open = append(s.open, items<<1|mapBit(c))
	}
	return int(far), items, nil
}

// check refuses tokens that are well formed and still never meant.
func (s *scanner) check(c byte, whole []byte) error {
	inList, isKey := false, false
	if n := len(s.open); n > 0 {
		inList = s.open[n-1]&1 == 0
		isKey = !inList && s.open[n-1]>>1&1 == 0
	}
	switch {
	case isContainer(c):
		if isKey {
			return badFrame("a list or map is the key of a map")
		}
		s.containers++
	case c == 0xc0 && inList: // nil is the zero value of a list of structs
		s.containers++
	case c == 0xca:
		if f := math.Float32frombits(binary.BigEndian.Uint32(whole[1:])); f != f || math.IsInf(float64(f), 0) {
			return badFrame("a number is %v", f)
		}
	case c == 0xcb:
		if f := math.Float64frombits(binary.BigEndian.Uint64(whole[1:])); f != f || math.IsInf(f, 0) {
			return badFrame("a number is %v", f)
		}
	}
	if s.containers > freeContainers+s.pos/bytesPerContainer {
		return badFrame("%d lists and maps in %d bytes", s.containers, s.pos)
	}
	return nil
}

// errTooLarge ends the stream, but a caller that asks for too much at a time
// is not insane: its other streams go on.
func errTooLarge(limit int) error {
	return berth.Errorf(berth.TooLarge, "the frame is larger than the %d bytes that are allowed", limit)
}

func isContainer(c byte) bool {
	return c >= 0x80 && c <= 0x9f || c >= 0xdc && c <= 0xdf
}

func mapBit(c byte) uint64 {
	if c <= 0x8f || c >= 0xde {
		return 1
	}
	return 0
}

// token reads the beginning of one token: how long its head is, how many bytes
// of content follow, how many values it contains. head is 0 if b is too short
// to say. Both forms of msgpack are read.
func token(b []byte) (head int, body, items uint64, err error) {
	if len(b) == 0 {
		return 0, 0, 0, nil
	}
	c := b[0]
	switch {
	case c <= 0x7f || c >= 0xe0:
		return 1, 0, 0, nil
	case c <= 0x8f:
		return 1, 0, uint64(c&0x0f) * 2, nil
	case c <= 0x9f:
		return 1, 0, uint64(c & 0x0f), nil
	case c <= 0xbf:
		return 1, uint64(c & 0x1f), 0, nil
	}
	t := tokens[c-0xc0]
	if t.lenSize == 0 {
		if c == 0xc1 {
			return 0, 0, 0, badFrame("the byte 0xc1 begins no value")
		}
		return 1, t.body, 0, nil
	}
	head = 1 + t.lenSize
	if len(b) < head {
		return 0, 0, 0, nil
	}
	var n uint64
	for _, x := range b[1:head] {
		n = n<<8 | uint64(x)
	}
	return head, t.body + n*t.each, n * t.items, nil
}

// tokens describes the first bytes 0xc0 to 0xdf: the size of a length that
// follows, the bytes of content beside or for each of that length, the values
// contained for each of it.
var tokens = [32]struct {
	lenSize           int
	body, each, items uint64
}{
	0x04: {lenSize: 1, each: 1}, 0x05: {lenSize: 2, each: 1}, 0x06: {lenSize: 4, each: 1}, // bin
	0x07: {1, 1, 1, 0}, 0x08: {2, 1, 1, 0}, 0x09: {4, 1, 1, 0}, // ext, with one byte of type
	0x0a: {body: 4}, 0x0b: {body: 8}, // float
	0x0c: {body: 1}, 0x0d: {body: 2}, 0x0e: {body: 4}, 0x0f: {body: 8}, // uint
	0x10: {body: 1}, 0x11: {body: 2}, 0x12: {body: 4}, 0x13: {body: 8}, // int
	0x14: {body: 2}, 0x15: {body: 3}, 0x16: {body: 5}, 0x17: {body: 9}, 0x18: {body: 17}, // fixext
	0x19: {lenSize: 1, each: 1}, 0x1a: {lenSize: 2, each: 1}, 0x1b: {lenSize: 4, each: 1}, // str8, raw
	0x1c: {lenSize: 2, items: 1}, 0x1d: {lenSize: 4, items: 1}, // list
	0x1e: {lenSize: 2, items: 2}, 0x1f: {lenSize: 4, items: 2}, // map
}

// fields reads a header: a small map of text to text or whole numbers. Other
// values, and keys that each does not know, are passed over.
func fields(frame []byte, each func(key, value []byte) error) error {
	head, _, items, err := token(frame)
	if err != nil {
		return err
	}
	if c := frame[0]; !isContainer(c) || mapBit(c) == 0 {
		return badFrame("a header is not a map")
	}
	rest := frame[head:]
	for range items / 2 {
		var key, value []byte
		key, rest = cut(rest)
		value, rest = cut(rest)
		if k, ok := textOf(key); ok {
			if err := each(k, value); err != nil {
				return err
			}
		}
	}
	return nil
}

// cut returns the first value of b, which a scanner has walked before.
func cut(b []byte) (value, rest []byte) {
	rest = b
	for values := uint64(1); values > 0; values-- {
		head, body, items, err := token(rest)
		if n := uint64(head) + body; err == nil && head > 0 && n <= uint64(len(rest)) {
			rest, values = rest[n:], values+items
			continue
		}
		return nil, nil
	}
	return b[:len(b)-len(rest)], rest
}

// textOf returns the content of a string or of bytes, in either form.
func textOf(value []byte) ([]byte, bool) {
	if len(value) == 0 {
		return nil, false
	}
	switch c := value[0]; {
	case c >= 0xa0 && c <= 0xbf, c >= 0xc4 && c <= 0xc6, c >= 0xd9 && c <= 0xdb:
		head, _, _, _ := token(value)
		return value[head:], true
	case c == 0xc0:
		return nil, true
	}
	return nil, false
}

// wholeOf returns a whole number that is not negative.
func wholeOf(value []byte) (n uint64, ok bool) {
	if len(value) == 0 {
		return 0, false
	}
	c := value[0]
	switch {
	case c <= 0x7f:
		return uint64(c), true
	case c >= 0xcc && c <= 0xd3:
		for _, x := range value[1:] {
			n = n<<8 | uint64(x)
		}
		signed := c >= 0xd0
		return n, !signed || value[1] < 0x80
	}
	return 0, false
}

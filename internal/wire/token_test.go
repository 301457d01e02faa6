package wire

import (
	"encoding/binary"
	"math"
)

// token reads the head of one msgpack token: its length, how many bytes of
// content follow, how many values it contains, and its kind, "" if there is
// none. It is written apart from package msgpack, which the tests check by it.
func token(b []byte) (head, body, items int, kind string) {
	size := func(n int) int { // of a length of n bytes
		head = 1 + n
		var wide [8]byte
		copy(wide[8-n:], b[1:1+n])
		return int(binary.BigEndian.Uint64(wide[:]))
	}
	head = 1
	switch c := b[0]; {
	case c <= 0x7f || c >= 0xe0:
		kind = "integer"
	case c <= 0x8f:
		items, kind = 2*int(c&0x0f), "map"
	case c <= 0x9f:
		items, kind = int(c&0x0f), "list"
	case c <= 0xbf:
		body, kind = int(c&0x1f), "string"
	case c == 0xc0:
		kind = "nil"
	case c == 0xc2 || c == 0xc3:
		kind = "bool"
	case c >= 0xc4 && c <= 0xc6:
		body, kind = size(1<<(c-0xc4)), "string"
	case c >= 0xc7 && c <= 0xc9:
		body, kind = 1+size(1<<(c-0xc7)), "extension"
	case c == 0xca || c == 0xcb:
		body, kind = 4<<(c-0xca), "float"
	case c >= 0xcc && c <= 0xcf:
		body, kind = 1<<(c-0xcc), "integer"
	case c >= 0xd0 && c <= 0xd3:
		body, kind = 1<<(c-0xd0), "integer"
	case c >= 0xd4 && c <= 0xd8:
		body, kind = 1+1<<(c-0xd4), "extension"
	case c >= 0xd9 && c <= 0xdb:
		body, kind = size(1<<(c-0xd9)), "string"
	case c == 0xdc || c == 0xdd:
		items, kind = size(2<<(c-0xdc)), "list"
	case c == 0xde || c == 0xdf:
		items, kind = 2*size(2<<(c-0xde)), "map"
	}
	return head, body, items, kind
}

// floatOf returns the number of a float token.
func floatOf(one []byte) float64 {
	if one[0] == 0xca {
		return float64(math.Float32frombits(binary.BigEndian.Uint32(one[1:])))
	}
	return math.Float64frombits(binary.BigEndian.Uint64(one[1:]))
}

package codec

import (
	"encoding/binary"
	"errors"

	"berth"
)

// deepest is how deep msgpack of the state nests: the values that a job file
// says itself no deeper than a tree does, within the lists that hold them.
const deepest = berth.MaxNesting + 32

var (
	errCutShort  = errors.New("msgpack: it ends in the middle, or claims more than it holds")
	errTooDeep   = errors.New("msgpack: it nests too deep")
	errNoMeaning = errors.New("msgpack: a byte that means nothing")
	errLeftOver  = errors.New("msgpack: more follows its end")
)

// sound returns nil if b is one msgpack value as a whole. The decoder makes
// room for as many items as a list claims and calls itself for each level, so
// what it is given must be known to be no more than its bytes.
func sound(b []byte) error {
	var left [deepest]uint64 // items to come on each level
	left[0] = 1
	for level := 0; ; {
		if left[level] == 0 {
			if level--; level < 0 {
				break
			}
			continue
		}
		left[level]--
		if len(b) == 0 {
			return errCutShort
		}
		size, items, ok := head(b)
		switch {
		case !ok:
			return errNoMeaning
		case size > uint64(len(b)) || items > uint64(len(b))-size:
			return errCutShort
		}
		b = b[size:]
		if items > 0 {
			if level++; level == deepest {
				return errTooDeep
			}
			left[level] = items
		}
	}
	if len(b) > 0 {
		return errLeftOver
	}
	return nil
}

// head returns how many bytes the value at the beginning of b takes, without
// the items that follow it, and how many of these there are. b is not empty.
func head(b []byte) (size, items uint64, ok bool) {
	c := b[0]
	switch {
	case c <= 0x7f || c >= 0xe0: // a small number
		return 1, 0, true
	case c <= 0x8f:
		return 1, 2 * uint64(c&0xf), true
	case c <= 0x9f:
		return 1, uint64(c & 0xf), true
	case c <= 0xbf:
		return 1 + uint64(c&0x1f), 0, true
	case c >= 0xca && c <= 0xd3: // numbers of 1 to 8 bytes
		return 1 + [...]uint64{4, 8, 1, 2, 4, 8, 1, 2, 4, 8}[c-0xca], 0, true
	case c >= 0xd4 && c <= 0xd8: // extensions of 1 to 16 bytes
		return 2 + 1<<(c-0xd4), 0, true
	}
	switch c {
	case 0xc0, 0xc2, 0xc3: // nil, false, true
		return 1, 0, true
	case 0xc4, 0xc5, 0xc6: // bytes
		n, size := number(b, c-0xc4)
		return size + n, 0, true
	case 0xc7, 0xc8, 0xc9: // extensions
		n, size := number(b, c-0xc7)
		return size + 1 + n, 0, true
	case 0xd9, 0xda, 0xdb: // text
		n, size := number(b, c-0xd9)
		return size + n, 0, true
	case 0xdc, 0xdd: // lists
		items, size = number(b, c-0xdc+1)
		return size, items, true
	case 0xde, 0xdf: // maps
		items, size = number(b, c-0xde+1)
		return size, 2 * items, true
	}
	return 0, 0, false
}

// number reads the length after the first byte, of 1, 2 or 4 bytes as width is
// 0, 1 or 2, and returns how many bytes the two take. One that is cut short
// reads as 0 and takes more than there is.
func number(b []byte, width byte) (n, size uint64) {
	size = 1 + 1<<width
	if uint64(len(b)) < size {
		return 0, size
	}
	switch width {
	case 0:
		n = uint64(b[1])
	case 1:
		n = uint64(binary.BigEndian.Uint16(b[1:]))
	default:
		n = uint64(binary.BigEndian.Uint32(b[1:]))
	}
	return n, size
}

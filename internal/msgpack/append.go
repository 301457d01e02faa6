package msgpack

import (
	"encoding/binary"
	"math"
)

// Single first bytes; the others are ranges.
const (
	codeNil   = 0xc0
	codeFalse = 0xc2
	codeTrue  = 0xc3
	codeBin8  = 0xc4
)

// AppendString appends a string in the protocol's form.
func AppendString(b []byte, s string) []byte { return append(AppendRawHead(b, len(s)), s...) }

// AppendRawHead appends the head of a string or bytes of length n. The protocol
// does not distinguish them, and has no one-byte length.
func AppendRawHead(b []byte, n int) []byte {
	switch {
	case n < 32:
		return append(b, 0xa0|byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(b, 0xda), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(b, 0xdb), uint32(n))
}

// appendText appends a string in the current form.
func appendText(b []byte, s string) []byte {
	if n := len(s); n >= 32 && n <= math.MaxUint8 {
		return append(append(b, 0xd9, byte(n)), s...)
	}
	return AppendString(b, s)
}

// appendBytes appends bytes in the current form.
func appendBytes(b, v []byte) []byte {
	switch n := len(v); {
	case n <= math.MaxUint8:
		b = append(b, codeBin8, byte(n))
	case n <= math.MaxUint16:
		b = binary.BigEndian.AppendUint16(append(b, codeBin8+1), uint16(n))
	default:
		b = binary.BigEndian.AppendUint32(append(b, codeBin8+2), uint32(n))
	}
	return append(b, v...)
}

// AppendMapHead begins a map of n entries.
func AppendMapHead(b []byte, n int) []byte { return appendHead(b, n, 0x80, 0xde) }

// appendListHead appends the head of a list of n values, which must follow.
func appendListHead(b []byte, n int) []byte { return appendHead(b, n, 0x90, 0xdc) }

// appendHead appends the shortest head for n entries: in the low bits of short
// below 16, then long with 16 bits, then long+1 with 32 bits.
func appendHead(b []byte, n int, short, long byte) []byte {
	switch {
	case n < 16:
		return append(b, short|byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(b, long), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(b, long+1), uint32(n))
}

// AppendUint appends a number in as few bytes as possible.
func AppendUint(b []byte, n uint64) []byte {
	switch {
	case n <= 0x7f:
		return append(b, byte(n))
	case n <= math.MaxUint8:
		return append(b, 0xcc, byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(b, 0xcd), uint16(n))
	case n <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(b, 0xce), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(b, 0xcf), n)
}

// appendInt appends n in its shortest form; a positive number is written as an
// unsigned one.
func appendInt(b []byte, n int64) []byte {
	switch {
	case n >= 0:
		return AppendUint(b, uint64(n))
	case n >= -32:
		return append(b, byte(n))
	case n >= math.MinInt8:
		return append(b, 0xd0, byte(n))
	case n >= math.MinInt16:
		return binary.BigEndian.AppendUint16(append(b, 0xd1), uint16(n))
	case n >= math.MinInt32:
		return binary.BigEndian.AppendUint32(append(b, 0xd2), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(b, 0xd3), uint64(n))
}

// appendBool appends true or false as one byte.
func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, codeTrue)
	}
	return append(b, codeFalse)
}

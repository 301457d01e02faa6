package msgpack

// isContainer reports whether a value with first byte c is a list or a map.
func isContainer(c byte) bool {
	return c >= 0x80 && c <= 0x9f || c >= 0xdc && c <= 0xdf
}

// mapBit returns 1 if container code c begins a map, 0 if it begins a list.
// Other codes give no meaningful result.
func mapBit(c byte) uint64 {
	if c <= 0x8f || c >= 0xde {
		return 1
	}
	return 0
}

// token reads the head of a token: its length, how many bytes of content
// follow, and how many values it contains. head is 0 if b is too short to say.
func token(b []byte) (head int, body, items uint64, err error) {
	if len(b) == 0 {
		return 0, 0, 0, nil
	}
	c := b[0]
	// Small values have their length in the first byte,
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
	// the others in lenSize bytes after it.
	t := tokens[c-0xc0]
	if t.lenSize == 0 {
		if c == 0xc1 {
			return 0, 0, 0, malformed("no value begins with the byte 0xc1")
		}
		return 1, t.body, 0, nil
	}
	head = 1 + t.lenSize
	// Cut short: the caller sees a head of 0.
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
// follows, the bytes of content in addition to or for each unit of that length,
// and the values contained for each unit.
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

// Fields calls each with the keys and values of an encoded map whose keys are
// strings; entries with other keys are skipped. It stops at the first error.
func Fields(value []byte, each func(key, value []byte) error) error {
	if !IsMap(value) {
		return malformed("not a map")
	}
	head, _, items, err := token(value)
	if err != nil {
		return err
	}
	rest := value[head:]
	for range items / 2 {
		var key, value []byte
		key, rest = cut(rest)
		value, rest = cut(rest)
		// Keys that are no text name no field.
		if k, ok := Text(key); ok {
			if err := each(k, value); err != nil {
				return err
			}
		}
	}
	return nil
}

// IsMap reports whether value is a map.
func IsMap(value []byte) bool {
	return len(value) > 0 && isContainer(value[0]) && mapBit(value[0]) == 1
}

// cut returns the first value of b and the rest of b; nil, nil if b does not
// hold a value.
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

// Text returns the content of a string or of bytes, in either form, or of nil.
// ok reports whether value is one of these.
func Text(value []byte) (content []byte, ok bool) {
	if len(value) == 0 {
		return nil, false
	}
	switch c := value[0]; {
	case c >= 0xa0 && c <= 0xbf, c >= 0xc4 && c <= 0xc6, c >= 0xd9 && c <= 0xdb:
		head, _, _, _ := token(value)
		return value[head:], true
	case c == codeNil:
		return nil, true
	}
	return nil, false
}

// Uint returns a non-negative integer. ok reports whether value is one.
func Uint(value []byte) (n uint64, ok bool) {
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

package berth

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// ID names one object of the kind T forever. Its text form is a UUID; the zero
// ID means "none" and its text is empty. IDs of different kinds are different
// types.
type ID[T any] [16]byte

// The IDs of the system.
type (
	NodeID       = ID[Node]
	EvalID       = ID[Eval]
	AllocID      = ID[Alloc]
	DeploymentID = ID[Deployment]
)

// IsZero reports whether the ID names nothing.
func (id ID[T]) IsZero() bool { return id == ID[T]{} }

// String returns the UUID, or "" for the zero ID.
func (id ID[T]) String() string {
	if id.IsZero() {
		return ""
	}
	var b [36]byte
	id.put(&b)
	return string(b[:])
}

// Short returns the first eight characters, which lists show and commands
// accept.
func (id ID[T]) Short() string {
	if id.IsZero() {
		return ""
	}
	return id.String()[:8]
}

// put writes the ID in the form of a UUID.
func (id ID[T]) put(b *[36]byte) {
	hex.Encode(b[0:8], id[0:4])
	b[8] = '-'
	hex.Encode(b[9:13], id[4:6])
	b[13] = '-'
	hex.Encode(b[14:18], id[6:8])
	b[18] = '-'
	hex.Encode(b[19:23], id[8:10])
	b[23] = '-'
	hex.Encode(b[24:36], id[10:16])
}

// AppendText implements encoding.TextAppender.
func (id ID[T]) AppendText(b []byte) ([]byte, error) {
	if id.IsZero() {
		return b, nil
	}
	var t [36]byte
	id.put(&t)
	return append(b, t[:]...), nil
}

// MarshalText implements encoding.TextMarshaler.
func (id ID[T]) MarshalText() ([]byte, error) { return id.AppendText(nil) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (id *ID[T]) UnmarshalText(b []byte) error {
	v, err := ParseID[T](string(b))
	if err == nil {
		*id = v
	}
	return err
}

// AppendBinary appends the text: on the wire to agents an ID is a string.
func (id ID[T]) AppendBinary(b []byte) ([]byte, error) { return id.AppendText(b) }

// MarshalBinary returns the text.
func (id ID[T]) MarshalBinary() ([]byte, error) { return id.AppendText(nil) }

// UnmarshalBinary reads what MarshalBinary wrote.
func (id *ID[T]) UnmarshalBinary(b []byte) error { return id.UnmarshalText(b) }

// ParseID reads a UUID; "" is the zero ID. Upper case is accepted.
func ParseID[T any](s string) (id ID[T], err error) {
	if s == "" {
		return id, nil
	}
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return id, Errorf(Invalid, "%q is not a UUID (8-4-4-4-12 hexadecimal digits)", Clip(s, 64))
	}
	var digits [32]byte
	n := 0
	for i := range len(s) {
		if s[i] != '-' && n < len(digits) {
			digits[n] = s[i]
			n++
		}
	}
	if _, err := hex.Decode(id[:], digits[:]); err != nil || n != len(digits) {
		return ID[T]{}, Errorf(Invalid, "%q is not a UUID (8-4-4-4-12 hexadecimal digits)", Clip(s, 64))
	}
	return id, nil
}

// IDPrefix is the beginning of an ID as people type it: at least one digit,
// dashes where a UUID has them.
type IDPrefix struct {
	text string
}

// ParseIDPrefix reads the beginning of a UUID.
func ParseIDPrefix(s string) (IDPrefix, error) {
	if s == "" || len(s) > 36 {
		return IDPrefix{}, Errorf(Invalid, "%q is not the beginning of a UUID", Clip(s, 64))
	}
	lower := []byte(s)
	for i, c := range lower {
		dash := i == 8 || i == 13 || i == 18 || i == 23
		switch {
		case dash && c == '-', !dash && (c >= '0' && c <= '9' || c >= 'a' && c <= 'f'):
		case !dash && c >= 'A' && c <= 'F':
			lower[i] = c - 'A' + 'a'
		default:
			return IDPrefix{}, Errorf(Invalid, "%q is not the beginning of a UUID", Clip(s, 64))
		}
	}
	return IDPrefix{string(lower)}, nil
}

// Lowest returns the smallest ID that has the prefix, where a scan begins.
func (p IDPrefix) Lowest() [16]byte {
	const zero = "00000000-0000-0000-0000-000000000000"
	id, _ := ParseID[struct{}](p.text + zero[len(p.text):])
	return id
}

// Highest returns the largest ID that has the prefix.
func (p IDPrefix) Highest() [16]byte {
	const ones = "ffffffff-ffff-ffff-ffff-ffffffffffff"
	id, _ := ParseID[struct{}](p.text + ones[len(p.text):])
	return id
}

// Matches reports whether the ID begins with the prefix.
func (p IDPrefix) Matches(id [16]byte) bool {
	var b [36]byte
	ID[struct{}](id).put(&b)
	return string(b[:len(p.text)]) == p.text
}

// UID is the identity of one incarnation of an object: the state index of the
// command that made it and its ordinal in that command. It is given in Apply,
// equal on all servers, never reused and never chosen by a caller. A job that
// is purged and registered again keeps its ID and gets a new UID.
type UID struct {
	Index   uint64
	Ordinal uint32
}

// IsZero reports whether the UID names nothing.
func (u UID) IsZero() bool { return u == UID{} }

// Text returns the UID with the letter of its kind: j-0000000000000a31-00.
func (u UID) Text(kind byte) string {
	if u.IsZero() {
		return ""
	}
	return fmt.Sprintf("%c-%016x-%02x", kind, u.Index, u.Ordinal)
}

// MarshalText writes the UID without the letter of its kind.
func (u UID) MarshalText() ([]byte, error) {
	if u.IsZero() {
		return nil, nil
	}
	return fmt.Appendf(nil, "%016x-%02x", u.Index, u.Ordinal), nil
}

// UnmarshalText reads a UID with or without the letter of its kind.
func (u *UID) UnmarshalText(b []byte) error {
	s := string(b)
	if s == "" {
		*u = UID{}
		return nil
	}
	if len(s) > 2 && s[1] == '-' {
		s = s[2:]
	}
	index, ordinal, _ := strings.Cut(s, "-")
	i, err1 := strconv.ParseUint(index, 16, 64)
	o, err2 := strconv.ParseUint(ordinal, 16, 32)
	if err1 != nil || err2 != nil || len(index) != 16 {
		return Errorf(Invalid, "%q is not a UID", Clip(string(b), 64))
	}
	*u = UID{i, uint32(o)}
	return nil
}

// Words returns the two halves of an ID as ordered words.
func (id ID[T]) Words() (hi, lo uint64) {
	return binary.BigEndian.Uint64(id[:8]), binary.BigEndian.Uint64(id[8:])
}

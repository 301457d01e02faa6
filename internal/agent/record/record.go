// Package record is how the agent and its supervisors write what must outlive
// them: JSON with a version and a checksum, so that damage is found before it
// is acted on. A file holds one record or several, each two lines:
//
//	berth 1 8f2c01ab supervisor
//	{"Boot":"…"}
//
// The first line names the version of this format, the checksum, and what the
// record is. The checksum covers that too, so a record that got into the place
// of another is found out. How files are written and replaced is up to the
// caller.
package record

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"

	"berth"
)

// magic begins every record: the program and the version of the format.
const magic = "berth 1 "

// castagnoli is the table of the checksum, which most processors compute in
// hardware.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sum returns the checksum (CRC-32C) of a record: of its body and of what it
// says it is, so that neither can be exchanged.
func sum(what string, body []byte) uint32 {
	return crc32.Update(crc32.Checksum([]byte(what+"\n"), castagnoli), castagnoli, body)
}

// Append appends a record of v to b. what says what it is, without a newline.
func Append(b []byte, what string, v any) ([]byte, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return b, fmt.Errorf("record of %s: %w", what, err)
	}
	b = fmt.Appendf(b, "%s%08x %s\n", magic, sum(what, body), what)
	b = append(b, body...)
	return append(b, '\n'), nil
}

// Next returns the first record of b, and what follows it. The error is io.EOF
// if b is empty, io.ErrUnexpectedEOF if b ends before the record does, as it
// does when an append was interrupted, and of kind Invalid if the record is
// damaged.
func Next(b []byte) (what string, body, rest []byte, err error) {
	if len(b) == 0 {
		return "", nil, nil, io.EOF
	}
	head, rest, ok := bytes.Cut(b, []byte("\n"))
	if ok {
		body, rest, ok = bytes.Cut(rest, []byte("\n"))
	}
	if !ok {
		return "", nil, nil, io.ErrUnexpectedEOF
	}
	if len(head) > len(magic)+9 {
		what = string(head[len(magic)+9:])
	}
	if string(head) != fmt.Sprintf("%s%08x %s", magic, sum(what, body), what) {
		return "", nil, nil, berth.Errorf(berth.Invalid, "the record is damaged")
	}
	return what, body, rest, nil
}

// Decode reads a file that is one record. The error is of kind Invalid if it is
// not one of what.
func Decode(b []byte, what string, v any) error {
	got, body, rest, err := Next(b)
	if err != nil || got != what || len(rest) > 0 {
		return berth.Errorf(berth.Invalid, "the record of the %s is damaged", what)
	}
	if err := json.Unmarshal(body, v); err != nil {
		return berth.Errorf(berth.Invalid, "the record of the %s: %w", what, err)
	}
	return nil
}

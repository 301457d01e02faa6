package codec

import (
	"encoding/binary"
	"errors"
	"fmt"

	"berth"

	"github.com/klauspost/compress/s2"
)

// The log carries a command as its number and its fields. A number is never
// reused, and a server that meets an unknown one refuses to start: it must not
// go on without a change that others made. What else a server must know is in
// version.go.

// EntryVersion is the newest version of log entries that this build writes and
// reads. It reads older ones, and writes the oldest one that fits.
const EntryVersion = entryWithLogVersion

// The versions of entries.
const (
	entryWithoutBase    = iota + 1 // does not say on which state it was made
	entryWithBase                  // says on which state it was made
	entryWithLogVersion            // also says which log version a server must know to read it
)

// Flags of an entry.
const entryCompressed = 1

// MaxEntry is the limit for gathering commands into one entry, in bytes (known
// bug class N24). A single command may be larger, up to MaxCommand.
const (
	MaxEntry   = 512 << 10
	MaxCommand = 8 << 20
)

// AppendCommand appends a command's number and fields in the encoding of
// entries.
func AppendCommand(b []byte, number uint64, fields []byte) []byte {
	w := Writer{b}
	w.Uint(number)
	w.Bytes(fields)
	return w.buf
}

// EncodeEntry returns an entry with the commands that AppendCommand appended.
// It can be applied to any state.
func EncodeEntry(cmds []byte) []byte { return encodeEntry([]byte{entryWithoutBase, 0}, cmds) }

// EncodeEntryOn returns an entry with commands that were applied to the state
// at index base, which EntryBase returns, and that need a log version. A server
// that does not know the log version refuses the entry, even if it knows all
// numbers.
func EncodeEntryOn(base uint64, logVersion int, cmds []byte) []byte {
	if logVersion == 1 {
		return encodeEntry(binary.AppendUvarint([]byte{entryWithBase, 0}, base), cmds)
	}
	head := binary.AppendUvarint([]byte{entryWithLogVersion, 0}, base)
	return encodeEntry(binary.AppendUvarint(head, uint64(logVersion)), cmds)
}

// encodeEntry returns a log entry from its head and its commands, compressed if
// that makes it smaller. Short ones are not tried.
func encodeEntry(head, cmds []byte) []byte {
	const worthwhile = 256
	if len(cmds) >= worthwhile {
		out := make([]byte, len(head)+s2.MaxEncodedLen(len(cmds)))
		n := copy(out, head)
		out[1] |= entryCompressed
		n += len(s2.EncodeBetter(out[n:], cmds))
		if n < len(cmds) {
			return out[:n]
		}
	}
	return append(head, cmds...)
}

// EntryBase returns the index of the state that an entry's commands were
// applied to. ok is false if the entry does not have it.
func EntryBase(b []byte) (index uint64, ok bool) {
	if len(b) < 3 || b[0] < entryWithBase || b[0] > EntryVersion {
		return 0, false
	}
	index, n := binary.Uvarint(b[2:])
	return index, n > 0
}

// DecodeEntry calls each for the commands of an entry, in order, until one
// fails. An entry of a newer build is an error of kind Unavailable.
func DecodeEntry(b []byte, each func(number uint64, fields []byte) error) error {
	body, err := entryBody(b)
	if err != nil {
		return err
	}
	r := Reader{buf: body}
	for len(r.buf) > 0 && r.err == nil {
		n := r.Uint()
		// Each command has its length, so that its decoder cannot read into the
		// next.
		fields := r.Take(r.Length(1))
		if r.err != nil {
			break
		}
		if err := each(n, fields); err != nil {
			return err
		}
	}
	if r.err != nil {
		return fmt.Errorf("log entry: %w", r.err)
	}
	return nil
}

// entryBody returns the commands of an entry, without its header.
func entryBody(b []byte) ([]byte, error) {
	if len(b) < 2 {
		return nil, fmt.Errorf("log entry: too short, %d bytes", len(b))
	}
	if b[0] == 0 || b[0] > EntryVersion {
		return nil, fmt.Errorf("log entry: version %d is unknown; this build reads 1 to %d", b[0], EntryVersion)
	}
	// Old entries have neither a base index nor a log version.
	body := b[2:]
	if b[0] > entryWithoutBase {
		_, n := binary.Uvarint(body)
		if n <= 0 {
			return nil, errors.New("log entry: the base index is missing")
		}
		body = body[n:]
	}
	if b[0] >= entryWithLogVersion {
		version, n := binary.Uvarint(body)
		switch {
		case n <= 0 || version < 1:
			return nil, errors.New("log entry: the log version is missing")
		case version > LogVersion:
			return nil, berth.Errorf(berth.Unavailable, "log entry: log version %d, written by a newer build; this build reads 1 to %d", version, LogVersion)
		}
		body = body[n:]
	}
	switch b[1] {
	case 0:
		return body, nil
	case entryCompressed:
		// Check the length before memory is taken for it.
		n, err := s2.DecodedLen(body)
		if err == nil && n > MaxEntry+MaxCommand {
			err = fmt.Errorf("%d bytes", n)
		}
		if err == nil {
			body, err = s2.Decode(nil, body)
		}
		if err != nil {
			return nil, fmt.Errorf("log entry: %w", err)
		}
		return body, nil
	}
	return nil, fmt.Errorf("log entry: unknown flags %d", b[1])
}

package wire

import (
	"errors"

	"berth"
	"berth/internal/msgpack"
)

// Raw is an argument or reply that is already encoded.
type Raw = msgpack.Raw

// errFrame wraps the error of a malformed frame. After it, the position of the
// next frame is unknown, so the connection cannot be used any more.
type errFrame struct{ err error }

// Error implements error.
func (e errFrame) Error() string { return "malformed frame: " + e.err.Error() }

// Unwrap returns what is malformed.
func (e errFrame) Unwrap() error { return e.err }

// badFrame returns the error of a malformed frame. It costs the far end its
// connection.
func badFrame(format string, args ...any) error {
	return errFrame{berth.Errorf(berth.Invalid, format, args...)}
}

// frameError gives the errors of a scanner their kinds. A frame that is too
// large ends its stream, but is not malformed: the other streams of the session
// go on.
func frameError(err error) error {
	if large, ok := errors.AsType[*msgpack.TooLargeError](err); ok {
		return berth.Errorf(berth.TooLarge, "the frame is larger than the limit of %d bytes", large.Limit)
	}
	if bad, ok := errors.AsType[*msgpack.MalformedError](err); ok {
		return badFrame("%w", bad)
	}
	return err
}

// decode decodes an argument or a reply that a scanner has walked into v, a
// pointer to a zero value. What does not fit its type is Invalid.
func decode(frame []byte, v any) error {
	if err := msgpack.Decode(frame, v); err != nil {
		return berth.Errorf(berth.Invalid, "%w", err)
	}
	return nil
}

// fields reads a header: a small map.
func fields(frame []byte, each func(key, value []byte) error) error {
	if !msgpack.IsMap(frame) {
		return badFrame("a header is not a map")
	}
	return msgpack.Fields(frame, each)
}

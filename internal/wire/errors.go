package wire

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"berth"
	"berth/internal/msgpack"
)

// In Nomad's protocol an error is a text. Our servers add its kind and its code
// under keys that other clients ignore. An error without a kind, which comes
// from another server, is given the kind that its first words stand for in that
// protocol: here, and nowhere else, a text decides something.

// ErrUnsent is in the error of a call of which nothing was sent.
var ErrUnsent = errors.New("nothing was sent")

// openings are the first words that clients of the protocol act on, and their
// kinds. An error of one of the first two kinds is sent with its opening.
var openings = []struct {
	text string
	kind berth.Kind
}{
	{berth.ErrNoLeader.Error(), berth.NoLeader},
	{"Permission denied", berth.Denied},
	{"node not found", berth.NotFound},
	{"rpc: can't find ", berth.Invalid},
}

// failure is an error as it is sent. The text is empty if there is none.
type failure struct {
	text string
	kind berth.Kind
	code berth.Code
}

// failureOf returns what is sent of an error. An error without a kind is our own
// fault; its text goes out all the same, as nothing secret is put into errors.
func failureOf(err error) failure {
	f := failure{err.Error(), berth.PublicKind(err), berth.CodeOf(err)}
	if f.kind == "" && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)) {
		f.kind = berth.Unavailable
	}
	for _, o := range openings[:2] {
		if f.kind == o.kind && !strings.HasPrefix(f.text, o.text) {
			f.text = o.text + ": " + f.text
		}
	}
	if f.text == "" {
		f.text = "unknown error"
	}
	return f
}

// error returns the error that was received.
func (f failure) error() error {
	if f.kind == "" {
		plain := strings.TrimPrefix(f.text, "rpc error: ")
		for _, o := range openings {
			if strings.HasPrefix(plain, o.text) {
				f.kind = o.kind
			}
		}
	}
	if !f.kind.Known() {
		return errors.New(f.text)
	}
	if !f.code.Known() {
		f.code = ""
	}
	return &berth.Error{Kind: f.kind, Code: f.code, Err: errors.New(f.text)}
}

// extra is how many fields appendExtra appends.
func (f failure) extra() (n byte) {
	if f.kind != "" {
		n++
	}
	if f.code != "" {
		n++
	}
	return n
}

// appendExtra appends the fields that Nomad's protocol does not have.
func (f failure) appendExtra(b []byte) []byte {
	if f.kind != "" {
		b = msgpack.AppendString(msgpack.AppendString(b, "Kind"), string(f.kind))
	}
	if f.code != "" {
		b = msgpack.AppendString(msgpack.AppendString(b, "Code"), string(f.code))
	}
	return b
}

// broken returns why a call did not come to an answer: the caller's context if
// it ended, else that the far end cannot be reached.
func broken(ctx context.Context, what string, err error) error {
	if cause := ctx.Err(); cause != nil {
		return fmt.Errorf("%s: %w", what, cause)
	}
	if berth.KindOf(err) == berth.TooLarge {
		return fmt.Errorf("%s: %w", what, err)
	}
	return berth.Errorf(berth.Unavailable, "%s: %w", what, err)
}

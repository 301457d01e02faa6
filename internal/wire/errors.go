package wire

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"berth"
)

// Errors travel as text. Beside the text our servers send the kind, under a
// key that other clients pass over; what comes from another server has its
// kind guessed from the beginnings that the protocol gives a meaning.

// ErrUnsent is in the error of a call of which nothing was sent.
var ErrUnsent = errors.New("nothing was sent")

// beginnings are texts that clients act on, and the kinds they stand for. An
// error of one of the first two kinds is given its beginning if it lacks it.
var beginnings = []struct {
	text string
	kind berth.Kind
}{
	{"No cluster leader", berth.NoLeader},
	{"Permission denied", berth.Denied},
	{"node not found", berth.NotFound},
	{"rpc: can't find ", berth.Invalid},
}

// errorText returns what is sent of an error: its text and kind. An error
// without a kind is our own fault; its text goes out all the same, as nothing
// secret is put into errors.
func errorText(err error) (text string, kind berth.Kind) {
	text, kind = err.Error(), berth.KindOf(err)
	switch {
	case kind != "":
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		kind = berth.Unavailable
	case strings.Contains(text, beginnings[0].text): // the log's own error has no kind
		kind = berth.NoLeader
	}
	for _, b := range beginnings[:2] {
		if kind == b.kind && !strings.HasPrefix(text, b.text) {
			text = b.text + ": " + text
		}
	}
	if text == "" {
		text = "unknown error" // an empty text means success
	}
	return text, kind
}

// errorFrom returns the error that text and kind stand for. kind is empty if
// the far end sent none.
func errorFrom(text string, kind berth.Kind) error {
	if kind == "" {
		plain := strings.TrimPrefix(text, "rpc error: ")
		for _, b := range beginnings {
			if strings.HasPrefix(plain, b.text) {
				kind = b.kind
			}
		}
	}
	if !known(kind) {
		return errors.New(text)
	}
	return &berth.Error{Kind: kind, Err: errors.New(text)}
}

// known says whether a kind is one of ours: a far end may claim anything.
func known(k berth.Kind) bool {
	switch k {
	case berth.Invalid, berth.Denied, berth.NotFound, berth.Conflict, berth.TooLarge, berth.Limited, berth.NoLeader, berth.Unavailable:
		return true
	}
	return false
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

package driver

import (
	"context"
	"errors"
)

// ErrDetach is the cause that a context of Start ends with when the agent goes
// away and its tasks stay: then what was started is left to the next agent.
var ErrDetach = errors.New("the agent goes away")

// Detaching reports whether ctx ended with ErrDetach.
func Detaching(ctx context.Context) bool { return errors.Is(context.Cause(ctx), ErrDetach) }

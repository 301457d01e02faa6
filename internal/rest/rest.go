// Package rest sleeps until a time is over or a context ends.
package rest

import (
	"context"
	"time"
)

// For waits for d. It returns early, with the context's error, when ctx ends.
func For(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

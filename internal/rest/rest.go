// Package rest waits, and stops waiting when there is no reason to any more.
package rest

import (
	"context"
	"time"
)

// For waits for so long. It returns earlier, with the context's error, when ctx
// ends.
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

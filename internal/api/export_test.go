package api

import "context"

// WithProgress returns the context of a new connection, as Serve makes it.
func WithProgress(ctx context.Context) context.Context { return withProgress(ctx, nil) }

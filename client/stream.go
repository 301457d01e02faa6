package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"

	"berth/op"
)

// Stream runs an operation that answers with frames and yields them as they
// arrive, without the empty ones that keep the connection alive. It ends when
// the server ends it, after yielding an error, or when the caller stops. If ctx
// ends, the error is its cause. The connection is always closed.
func Stream[In any](ctx context.Context, c *Client, o op.Op[In, op.StreamFrame], in In) iter.Seq2[*op.StreamFrame, error] {
	return func(yield func(*op.StreamFrame, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel() // closing the body alone would first read the rest of it
		resp, err := send(ctx, c, o.Info, &in)
		if err != nil {
			yield(nil, err)
			return
		}
		defer resp.Body.Close()
		frames := json.NewDecoder(resp.Body)
		for {
			f := new(op.StreamFrame)
			switch err := frames.Decode(f); {
			case errors.Is(err, io.EOF):
				return
			case err != nil && ctx.Err() != nil:
				yield(nil, context.Cause(ctx))
				return
			case err != nil:
				yield(nil, fmt.Errorf("%s: the stream from %s broke off: %w", o.Name, c.config.Address, err))
				return
			}
			if len(f.Data) == 0 && f.FileEvent == "" {
				continue
			}
			if !yield(f, nil) {
				return
			}
		}
	}
}

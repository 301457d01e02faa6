// Package peer is how servers and agents ask each other for operations of
// package op. One that has an RPC name is called by op.Call and served by
// Handle.
package peer

import (
	"context"

	"berth/internal/wire"
	"berth/op"
)

// Handle serves an operation that has an RPC name: to servers alone, or to
// agents too, as its declaration says.
func Handle[In, Out any](s *wire.Server, o op.Op[In, Out], f func(context.Context, *wire.Call, *In) (*Out, error)) {
	serve := s.Handle
	if o.Servers {
		serve = s.HandleServers
	}
	serve(o.RPC, func(ctx context.Context, c *wire.Call) (any, error) {
		in := new(In)
		if err := c.Decode(in); err != nil {
			return nil, err
		}
		out, err := f(ctx, c, in)
		if err != nil {
			return nil, err
		}
		return out, nil
	})
}

// HandleStream serves an operation that is a stream of bytes.
func HandleStream[In, Out any](s *wire.Server, o op.Op[In, Out], f func(context.Context, *wire.Call, *In, *wire.Stream) error) {
	serve := s.HandleStream
	if o.Servers {
		serve = s.HandleStreamServers
	}
	serve(o.RPC, func(ctx context.Context, c *wire.Call, st *wire.Stream) error {
		in := new(In)
		if err := c.Decode(in); err != nil {
			return err
		}
		return f(ctx, c, in, st)
	})
}

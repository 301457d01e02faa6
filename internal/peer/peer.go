// Package peer is how servers and agents ask each other for operations of
// package op. One that has an RPC name is called by op.Call and served by
// Handle. Any other is forwarded, as its name and its input, to the server that
// answers it, and its answer is handed on as that server encoded it: Conn asks,
// and package api answers. An error says whether something may have come of what
// was asked. Only what is a stream goes as a stream of bytes. Who may forward
// what is for package server to check.
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

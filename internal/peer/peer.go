// Package peer lets servers and agents call each other's operations, those of
// package op. An operation with an RPC name is called with op.Call and served
// with Handle. Any other is forwarded, by name and input, to the server that
// answers it, and its answer is passed on as that server encoded it: Conn
// sends, package api answers. The error shows whether the operation may have
// had an effect. Streams are forwarded as streams of bytes. Package server
// checks who may forward what.
package peer

import (
	"context"
	"strings"

	"berth/internal/wire"
	"berth/op"
)

// Handle serves an operation that has an RPC name. Its declaration decides
// whether agents may call it, or servers only.
func Handle[In, Out any](s *wire.Server, o op.Op[In, Out], f func(context.Context, *wire.Call, *In) (*Out, error)) {
	serve := s.Handle
	if o.Servers {
		serve = s.HandleServers
	}
	for _, name := range names(o.Info) {
		serve(name, func(ctx context.Context, c *wire.Call) (any, error) {
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
}

// names returns the names by which an operation is called. Servers of earlier
// versions call what agents do with allocations by another name.
func names(info *op.Info) []string {
	if rest, ok := strings.CutPrefix(info.RPC, "Allocations."); ok && info.Agents {
		return []string{info.RPC, "ClientAllocations." + rest}
	}
	return []string{info.RPC}
}

// HandleStream serves an operation that is a stream of bytes.
func HandleStream[In, Out any](s *wire.Server, o op.Op[In, Out], f func(context.Context, *wire.Call, *In, *wire.Stream) error) {
	serve := s.HandleStream
	if o.Servers {
		serve = s.HandleStreamServers
	}
	for _, name := range names(o.Info) {
		serve(name, func(ctx context.Context, c *wire.Call, st *wire.Stream) error {
			in := new(In)
			if err := c.Decode(in); err != nil {
				return err
			}
			return f(ctx, c, in, st)
		})
	}
}

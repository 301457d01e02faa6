package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"berth"
	"berth/op"
)

// files serves the files of allocations, which their agents read. The agents are
// not told the caller's token.
func (s *Server) files() {
	for _, x := range []*operation{
		add(s, op.ListFiles, func(ctx context.Context, who Caller, in *op.FileQuery) (out []op.FileInfo, m op.Meta, err error) {
			node, err := s.nodeOf(ctx, op.ListFiles.Info, who, in.Opts(), in.AllocID)
			if err != nil {
				return nil, m, err
			}
			list, err := callAgent(ctx, s, node, op.AgentListFiles, &op.FileQuery{AllocID: in.AllocID, Path: in.Path})
			if err != nil {
				return nil, m, err
			}
			return list.List, op.Meta{KnownLeader: true}, nil
		}),
		add(s, op.StatFile, func(ctx context.Context, who Caller, in *op.FileQuery) (out op.FileInfo, m op.Meta, err error) {
			node, err := s.nodeOf(ctx, op.StatFile.Info, who, in.Opts(), in.AllocID)
			if err != nil {
				return out, m, err
			}
			st, err := callAgent(ctx, s, node, op.AgentStatFile, &op.FileQuery{AllocID: in.AllocID, Path: in.Path})
			if err != nil {
				return out, m, err
			}
			return *st, op.Meta{KnownLeader: true}, nil
		}),
		addStream(s, op.CatFile, func(ctx context.Context, who Caller, in *op.FileQuery, x *exchange) error {
			return s.streamFile(ctx, op.CatFile.Info, who, in.Opts(), x, true, &op.FileSection{AllocID: in.AllocID, Path: in.Path})
		}),
		addStream(s, op.ReadFile, func(ctx context.Context, who Caller, in *op.FileRead, x *exchange) error {
			return s.streamFile(ctx, op.ReadFile.Info, who, in.Opts(), x, true, &op.FileSection{AllocID: in.AllocID, Path: in.Path, Offset: in.Offset, Limit: in.Limit})
		}),
		addStream(s, op.FollowFile, func(ctx context.Context, who Caller, in *op.FileFollow, x *exchange) error {
			follow := in.Follow == nil || *in.Follow
			return s.streamFile(ctx, op.FollowFile.Info, who, in.Opts(), x, in.Plain, &op.FileSection{AllocID: in.AllocID, Path: in.Path, Offset: in.Offset, Origin: in.Origin, Follow: follow})
		}),
	} {
		x.regional = true
		s.ofAlloc(x)
	}
}

// streamFile streams a file from the agent of an allocation, as bytes or as
// frames, until the caller loses the right. It returns an error only while nothing
// has been sent, or if what was sent is not all.
func (s *Server) streamFile(ctx context.Context, info *op.Info, who Caller, q *op.Query, x *exchange, plain bool, in *op.FileSection) error {
	at, err := s.locate(ctx, info, who, q, in.AllocID)
	if err != nil {
		return err
	}
	if in.Offset < 0 {
		return berth.Errorf(berth.Invalid, "offset: must not be negative, got %d", in.Offset)
	}
	if s.Agents == nil {
		return unreachable(at.node)
	}
	ctx, lost, stop := s.whileIn(ctx, info, who, at.namespace)
	defer stop()
	from, err := s.Agents.Open(ctx, at.node, op.AgentReadFile.RPC, in)
	if err == nil {
		defer from.Close()
		err = sendFile(x.w, plain, from)
	}
	if refused := lost(); refused != nil {
		return refused
	}
	return err
}

// sendFile sends what an agent reads to the caller.
func sendFile(w http.ResponseWriter, plain bool, from op.Duplex) error {
	return receive(from, &frames{w: w, flush: http.NewResponseController(w), plain: plain, raw: plain})
}

// receive sends on what an agent streams until the stream ends.
func receive(from op.Duplex, out *frames) error {
	for {
		b, err := from.Recv()
		if errors.Is(err, io.EOF) {
			if !out.began {
				out.begin()
			}
			return nil
		}
		var f op.StreamFrame
		if err == nil {
			err = json.Unmarshal(b, &f)
		}
		if err == nil {
			err = out.send(&f)
		}
		if err != nil {
			return err
		}
	}
}

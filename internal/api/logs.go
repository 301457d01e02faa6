package api

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"berth"
	"berth/op"
)

// logs serves the output of tasks: as a run of JSON frames, or as bytes.
func (s *Server) logs() {
	addStream(s, op.ReadLogs, s.streamLogs).regional = true
}

// streamLogs streams the output of a task from the agent that runs it.
func (s *Server) streamLogs(ctx context.Context, who Caller, in *op.LogsQuery, x *exchange) error {
	if err := s.admit(ctx, op.ReadLogs.Info, who, in.Opts()); err != nil {
		return err
	}
	a, err := s.newRead(who, in.Opts()).alloc(in.AllocID, op.ReadLogs.Need)
	if s.guard != nil && berth.KindOf(err) == berth.Denied {
		return err
	}
	if err := checkLogs(in); err != nil {
		return err
	}
	if err != nil {
		return err
	}
	if a.Group.Task(in.Task) == nil {
		return berth.Errorf(berth.NotFound, "allocation %s has no task %q", a.ID.Short(), in.Task)
	}
	ctx, _, stop := s.whileIn(ctx, op.ReadLogs.Info, who, a.Job.Namespace)
	defer stop()
	return s.sendLogs(ctx, x.w, in, a.NodeID)
}

// sendLogs streams the output of a task to a caller. After the headers were sent,
// an error shows the caller only that the output is not whole.
func (s *Server) sendLogs(ctx context.Context, w http.ResponseWriter, in *op.LogsQuery, node berth.NodeID) error {
	if s.Agents == nil {
		return unreachable(node)
	}
	arg := *in
	arg.AuthToken = "" // agents are not told the caller's token
	from, err := s.Agents.Open(ctx, node, op.AgentLogs.RPC, &arg)
	if err != nil {
		return err
	}
	defer from.Close()
	err = receive(from, &frames{w: w, flush: http.NewResponseController(w), plain: in.Plain})
	if err == nil && ctx.Err() != nil {
		err = berth.Errorf(berth.Unavailable, "this agent ends: %w", context.Cause(ctx))
	}
	return err
}

// checkLogs refuses a request for output that makes no sense, and fills in the
// default origin.
func checkLogs(in *op.LogsQuery) error {
	var ps berth.Problems
	if in.Task == "" {
		ps.Addf("task", "must provide task name")
	}
	if in.Type != "stdout" && in.Type != "stderr" {
		ps.Addf("type", "must be stdout or stderr, got %q", berth.Clip(in.Type, 64))
	}
	if in.Origin == "" {
		in.Origin = "start"
	}
	if in.Origin != "start" && in.Origin != "end" {
		ps.Addf("origin", "must be start or end, got %q", berth.Clip(in.Origin, 64))
	}
	if in.Offset < 0 {
		ps.Addf("offset", "must not be negative, got %d", in.Offset)
	}
	return ps.Err()
}

// frames writes a stream to a caller, who must take each piece in time.
type frames struct {
	w     http.ResponseWriter
	flush *http.ResponseController // of w
	plain bool                     // bytes as they are, not JSON frames
	raw   bool                     // with plain: of any type, so a browser must only save them
	began bool                     // the headers were sent
}

// begin sends the headers. From then on, errors cannot be reported by a status.
func (f *frames) begin() {
	f.began = true
	// What a task prints is nothing that a browser should run.
	f.w.Header().Set("X-Content-Type-Options", "nosniff")
	if f.raw {
		f.w.Header().Set("Content-Type", "application/octet-stream")
	} else if f.plain {
		f.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	} else {
		f.w.Header().Set("Content-Type", "application/json")
	}
	f.w.WriteHeader(http.StatusOK)
	f.flush.Flush()
}

// send writes one frame, and the headers before the first. The caller has
// writeTimeout to take it. A plain stream has no empty frames.
func (f *frames) send(frame *op.StreamFrame) error {
	if !f.began {
		f.begin()
	}
	f.flush.SetWriteDeadline(time.Now().Add(writeTimeout))
	if f.plain {
		if len(frame.Data) == 0 {
			return nil
		}
		if _, err := f.w.Write(frame.Data); err != nil {
			return err
		}
		return f.flush.Flush()
	}
	if err := json.NewEncoder(f.w).Encode(frame); err != nil {
		return err
	}
	return f.flush.Flush()
}

package api

import (
	"context"

	"berth"
	"berth/op"
)

// execs serves what runs beside tasks: commands, and connections to ports.
func (s *Server) execs() {
	for _, x := range []*operation{
		addDuplex(s, op.Exec, func(ctx context.Context, who Caller, in *op.ExecTask, from op.Incoming) error {
			at, err := s.locate(ctx, op.Exec.Info, who, in.Opts(), in.AllocID)
			if err != nil {
				return err
			}
			if _, err := in.Words(); err != nil {
				return err
			}
			return s.openAgent(ctx, op.Exec.Info, who, at, op.AgentExec.RPC, &op.ExecTask{AllocID: in.AllocID, Task: in.Task, Command: in.Command, TTY: in.TTY, Handshake: in.Handshake}, from)
		}),
		addDuplex(s, op.PortForward, func(ctx context.Context, who Caller, in *op.ForwardPort, from op.Incoming) error {
			at, err := s.locate(ctx, op.PortForward.Info, who, in.Opts(), in.AllocID)
			if err != nil {
				return err
			}
			if in.Port == "" {
				return berth.Errorf(berth.Invalid, "port: missing: want the label or the number of a port of the allocation")
			}
			return s.openAgent(ctx, op.PortForward.Info, who, at, op.AgentPortForward.RPC, &op.ForwardPort{AllocID: in.AllocID, Port: in.Port}, from)
		}),
	} {
		x.regional = true
		s.ofAlloc(x)
	}
}

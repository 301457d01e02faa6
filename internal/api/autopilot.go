package api

import (
	"berth/internal/state"
	"berth/op"
)

// autopilot registers the operations on autopilot's configuration and on the
// health of the servers.
func (s *Server) autopilot() {
	read(s, op.ReadAutopilot, readAutopilot)
	write(s, op.WriteAutopilot, writeAutopilot)
	read(s, op.ReadAutopilotHealth, func(r *Read, _ *op.Query) (out op.AutopilotHealth, err error) {
		r.At(r.Index)
		if s.Operator == nil {
			return out, errNoOperator
		}
		return s.Operator.ServersHealth()
	}).always = true
}

// readAutopilot returns the configuration in force, which is the default one
// until it is changed.
func readAutopilot(r *Read, _ *op.Query) (op.AutopilotConfig, error) {
	c := r.AutopilotConfig()
	r.At(max(c.ModifyIndex, 1)) // nothing to wait for: the state tells nobody of its change
	return op.AutopilotConfig{
		CleanupDeadServers: c.CleanupDeadServers, LastContactThreshold: op.Duration(c.LastContactThreshold), MaxTrailingLogs: c.MaxTrailingLogs,
		MinQuorum: c.MinQuorum, ServerStabilizationTime: op.Duration(c.ServerStabilizationTime), CreateIndex: c.CreateIndex, ModifyIndex: c.ModifyIndex,
	}, nil
}

// writeAutopilot answers whether the configuration was changed.
func writeAutopilot(_ *Write, in *op.SetAutopilot) (Change[bool], error) {
	c := &state.SetAutopilotConfig{Config: in.AutopilotConfig}
	ch := propose(c, func(*Outcome) bool { return true })
	if in.CAS != nil {
		c.Enforce, c.Index = true, *in.CAS
		ch.Refused = unlessConflict[bool]
	}
	return ch, nil
}

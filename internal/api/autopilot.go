package api

import (
	"net/http"

	"berth/internal/state"
	"berth/op"
)

func (s *Server) autopilot() {
	read(s, op.ReadAutopilot, readAutopilot)
	write(s, op.WriteAutopilot, writeAutopilot)
	s.served[op.ReadAutopilotHealth.Name] = true
	s.routes.add(op.ReadAutopilotHealth.Info, s.autopilotHealth)
}

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

// autopilotHealth answers 429 if a server is not healthy, as probes expect.
func (s *Server) autopilotHealth(w http.ResponseWriter, r *http.Request, path values) {
	info := op.ReadAutopilotHealth.Info
	_, q, err := decodeQuery[op.Query](r, path, s.Region)
	if err == nil && s.passOn(w, r, info, true) {
		return
	}
	var out op.AutopilotHealth
	var meta op.Meta
	if err == nil {
		out, meta, err = answer(r.Context(), s, info, caller(r, q.AuthToken), q, func(rd *Read) (op.AutopilotHealth, error) {
			rd.At(rd.Index)
			if s.Operator == nil {
				return out, errNoOperator
			}
			return s.Operator.ServersHealth()
		})
	}
	if err != nil {
		s.fail(w, err)
		return
	}
	if !out.Healthy {
		w = &statusWriter{ResponseWriter: w, status: info.Also}
	}
	s.reply(w, r, out, &meta)
}

// statusWriter answers with another status than 200.
type statusWriter struct {
	http.ResponseWriter
	status int
	began  bool
}

// Write implements io.Writer.
func (w *statusWriter) Write(b []byte) (int, error) {
	if !w.began {
		w.began = true
		w.WriteHeader(w.status)
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

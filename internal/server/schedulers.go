package server

import (
	"slices"
	"time"

	"berth/internal/worker"
	"berth/op"
)

// kinds returns the evaluation types in the API's terms: those of the workers,
// and _core, which only the leader decides.
func kinds(types []string) []string { return append(slices.Clone(op.ShownTypes(types)), "_core") }

// SchedulerConfig implements api.SchedulerSource.
func (s *Server) SchedulerConfig() op.WorkerConfig {
	now := s.pool.Settings()
	n := now.Following
	if s.Leads() {
		n = now.Leading
	}
	return op.WorkerConfig{ServerID: s.config.Self().Member.Name, NumSchedulers: n, EnabledSchedulers: kinds(now.Types)}
}

// SetSchedulerConfig implements api.SchedulerSource.
func (s *Server) SetSchedulerConfig(n int, types []string) {
	s.config.Logger.Info("workers changed until the next restart of this server", "num_schedulers", n, "enabled_schedulers", types)
	s.pool.Change(worker.Settings{Leading: n, Following: n, Types: types})
}

// SchedulerWorkers implements api.SchedulerSource.
func (s *Server) SchedulerWorkers() op.Workers {
	out := op.Workers{ServerID: s.config.Self().Member.Name, Schedulers: []op.Worker{}}
	for _, w := range s.workers.Workers() {
		out.Schedulers = append(out.Schedulers, op.Worker{
			ID: w.ID.String(), EnabledSchedulers: kinds(w.Types), Started: w.Started.UTC().Format(time.RFC3339Nano), Status: "Started", WorkloadStatus: w.Doing,
		})
	}
	return out
}

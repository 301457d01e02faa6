package server

import (
	"time"

	"berth/internal/worker"
	"berth/op"
)

// kinds are the types of evaluations that are decided here, as the API calls
// them: those of the workers, and the system's own, which the leader decides.
func kinds(types []string) []string { return append(append([]string{}, types...), "_core") }

// SchedulerConfig implements api.SchedulerSource.
func (s *Server) SchedulerConfig() op.WorkerConfig {
	now := s.crew.Settings()
	n := now.Following
	if s.Leads() {
		n = now.Leading
	}
	return op.WorkerConfig{ServerID: s.config.Self().Member.Name, NumSchedulers: n, EnabledSchedulers: kinds(now.Types)}
}

// SetSchedulerConfig implements api.SchedulerSource.
func (s *Server) SetSchedulerConfig(n int, types []string) {
	s.config.Logger.Info("workers are changed until this server is started again", "num_schedulers", n, "enabled_schedulers", types)
	s.crew.Change(worker.Settings{Leading: n, Following: n, Types: types})
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

package server

import (
	"time"

	"berth/op"
	"berth/worker"
)

// kinds are the types of evaluations that are decided here, as the API calls
// them: those of the workers, and the system's own, which the leader decides.
func kinds(types []string) []string { return append(append([]string{}, types...), "_core") }

// SchedulerConfig implements api.SchedulerSource.
func (s *Server) SchedulerConfig() op.WorkerConfig {
	n := s.config.FollowerWorkers
	if s.Leads() {
		n = s.config.Workers
	}
	return op.WorkerConfig{ServerID: s.config.Self().Member.Name, NumSchedulers: n, EnabledSchedulers: kinds(worker.Types)}
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

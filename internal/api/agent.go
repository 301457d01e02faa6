package api

import (
	"context"
	"net/http"

	"berth"
	"berth/internal/acl"
	"berth/op"
)

// MetricsSource serves the metrics of this agent in both formats. Metrics with a
// label "namespace" are left out if visible is false of its value.
type MetricsSource interface {
	// ServeJSON returns the metrics as a value to encode, in the form that
	// Nomad's clients read.
	ServeJSON(visible func(namespace string) bool) any
	// ServePrometheus writes the whole answer, its headers included.
	ServePrometheus(w http.ResponseWriter, r *http.Request, visible func(namespace string) bool)
}

// SchedulerSource reads and changes the workers of this server.
type SchedulerSource interface {
	// SchedulerConfig returns how many workers run now, and for which job
	// types.
	SchedulerConfig() op.WorkerConfig
	// SchedulerWorkers returns what each of them is doing.
	SchedulerWorkers() op.Workers
	// SetSchedulerConfig has n workers decide evaluations of the types, some of
	// worker.Types, until this server is started again.
	SetSchedulerConfig(n int, types []string)
}

// agent registers the operations about this agent: its workers, itself, and the
// servers and regions that it knows.
func (s *Server) agent() {
	read(s, op.ReadWorkerConfig, func(*Read, *op.Query) (op.WorkerConfig, error) {
		if s.Schedulers == nil {
			return op.WorkerConfig{}, errNoWorkers
		}
		return s.Schedulers.SchedulerConfig(), nil
	})
	act(s, op.WriteWorkerConfig, func(_ context.Context, in *op.ChangeWorkers) (op.WorkerConfig, error) {
		if s.Schedulers == nil {
			return op.WorkerConfig{}, errNoWorkers
		}
		types, err := in.Types()
		if err != nil {
			return op.WorkerConfig{}, err
		}
		s.Schedulers.SetSchedulerConfig(in.NumSchedulers, types)
		return s.Schedulers.SchedulerConfig(), nil
	})
	read(s, op.ReadWorkers, func(*Read, *op.Query) (op.Workers, error) {
		if s.Schedulers == nil {
			return op.Workers{}, errNoWorkers
		}
		return s.Schedulers.SchedulerWorkers(), nil
	})
	read(s, op.ReadSelf, func(r *Read, _ *op.Query) (op.AgentSelf, error) { return s.Self(), nil })
	// Without a leader the answer is "", not an error.
	read(s, op.ReadLeader, func(r *Read, _ *op.Query) (string, error) {
		if s.Peers != nil {
			return s.Peers.Leading(), nil
		}
		if _, err := s.Cluster.Leader(); err != nil {
			return "", nil
		}
		return s.Cluster.Address(), nil
	})
	read(s, op.ReadPeers, func(r *Read, _ *op.Query) ([]string, error) {
		if s.Peers != nil {
			return s.Peers.Addresses()
		}
		return []string{s.Cluster.Address()}, nil
	})
	read(s, op.Regions, func(r *Read, _ *op.Query) ([]string, error) {
		if s.Peers != nil {
			return s.Peers.Regions(), nil
		}
		return []string{s.Region}, nil
	})
	read(s, op.Ping, func(*Read, *op.Nothing) (op.Nothing, error) { return op.Nothing{}, nil })
	s.auditLog()
	s.health()
	s.metrics()
}

// errNoWorkers answers for the workers of an agent that is not a server.
var errNoWorkers = berth.Errorf(berth.Unavailable, "no workers run in this agent")

// health answers 500 if a part that the request names is unhealthy, as probes
// expect.
func (s *Server) health() {
	s.served[op.ReadHealth.Name] = true
	s.routes.add(op.ReadHealth.Info, func(w http.ResponseWriter, r *http.Request, path values) {
		in := new(op.HealthQuery)
		err := decodeQuery(in, r, path, nil)
		if err == nil && in.Type != "" && in.Type != "client" && in.Type != "server" {
			err = berth.Errorf(berth.Invalid, "type: must be client or server, got %q", berth.Clip(in.Type, 64))
		}
		if err != nil {
			s.fail(w, err)
			return
		}
		// The part that was not asked for must not decide the status.
		h := s.Health()
		if in.Type == "client" {
			h.Server = nil
		} else if in.Type == "server" {
			h.Client = nil
		}
		// Probes look at the status alone; the text is for people.
		a := &answered{Meta: op.Meta{KnownLeader: true}, value: h}
		if h.Client == nil && h.Server == nil || h.Client != nil && !h.Client.Ok || h.Server != nil && !h.Server.Ok {
			a.status = http.StatusInternalServerError
		}
		s.reply(w, viewOf(r), a)
	})
}

// metrics registers the metrics of this agent, as JSON or in the text format of
// Prometheus. It replies with an error if the agent has none.
func (s *Server) metrics() {
	s.served[op.Metrics.Name] = true
	s.routes.add(op.Metrics.Info, func(w http.ResponseWriter, r *http.Request, path values) {
		in := new(op.MetricsQuery)
		err := decodeQuery(in, r, path, nil)
		switch {
		case err != nil:
			s.fail(w, err)
		case s.Metrics == nil:
			s.fail(w, berth.Errorf(berth.Unavailable, "this agent has no metrics"))
		case in.Format == "prometheus":
			s.Metrics.ServePrometheus(w, r, s.mayRead(r, in))
		case in.Format == "":
			s.reply(w, viewOf(r), &answered{Meta: op.Meta{KnownLeader: true}, value: s.Metrics.ServeJSON(s.mayRead(r, in))})
		default:
			s.fail(w, berth.Errorf(berth.Invalid, "format: must be prometheus, or absent for JSON, got %q", berth.Clip(in.Format, 64)))
		}
	})
}

// mayRead returns a function that reports whether the jobs of a namespace may be
// shown to who asks for metrics. It is for one goroutine.
func (s *Server) mayRead(r *http.Request, in *op.MetricsQuery) func(namespace string) bool {
	who, known := Caller{Token: in.AuthToken, Remote: r.RemoteAddr}, map[string]bool{}
	return func(namespace string) bool {
		may, ok := known[namespace]
		if !ok {
			may = s.Authorize(who, acl.ReadJob, namespace) == nil
			known[namespace] = may
		}
		return may
	}
}

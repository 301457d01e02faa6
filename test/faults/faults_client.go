package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"berth/internal/rest"
)

// Faults of agents: killed, cut off, or all there at once.

const (
	crowdJob  = "crowd"
	crowdSize = 20
	awayJob   = "away"
)

var killAgent = &Fault{
	ID: "F-22", Kind: "client", Name: "an agent with running tasks is killed, and started 1 to 4 s later",
	Says: "not one task is started again, and all are held again within 10 s",
	Start: func(ctx context.Context, r *round) error {
		r.work.still.Store(true) // updates replace tasks
		a := r.agents[r.rng.IntN(len(r.agents))]
		j := job(crowdJob, "service", "real", crowdSize, sh("exec sleep 100000"), nil)
		j["Constraints"] = []object{{"LTarget": "${node.unique.name}", "RTarget": a.name, "Operand": "="}}
		if _, err := r.call(ctx, r.anyone(), "PUT", "/v1/jobs", object{"Job": j}, nil); err != nil {
			return err
		}
		if err := until(ctx, settleLimit, "the crowd runs", func() string { return r.runs(ctx, crowdJob, crowdSize) }); err != nil {
			return err
		}
		if err := r.settled(ctx); err != nil {
			return err
		}
		r.tasks = tasks()
		a.kill()
		r.victim = a
		r.history.note("%s is killed", a.name)
		return rest.For(ctx, time.Duration(1+r.number%4)*time.Second)
	},
	Stop: func(_ context.Context, r *round) error {
		if r.victim == nil || r.victim.running() {
			return nil
		}
		r.history.note("%s is started", r.victim.name)
		return r.victim.start()
	},
	After: func(ctx context.Context, r *round) error {
		if is := tasks(); !maps.EqualFunc(r.tasks, is, slices.Equal[[]int]) {
			return fmt.Errorf("I-35: the processes by allocation were %v, and are %v", r.tasks, is)
		}
		if _, err := r.call(ctx, r.anyone(), "DELETE", "/v1/job/"+crowdJob+"?purge=true", nil, nil); err != nil {
			return err
		}
		return r.settled(ctx)
	},
}

var agentAway = &Fault{
	ID: "F-26", Kind: "client", Name: "an agent is cut off for 4 or 14 s, with tasks that may be away and tasks that may not",
	Says:  "what is replaced, and which of two stays, is as the job's disconnect block says; settled within 30 s",
	Falls: true,
	Start: func(ctx context.Context, r *round) error {
		kept := []string{"best_score", "keep_original", "keep_replacement", "longest_running"}[r.number%4]
		j := job(awayJob, "service", "real", 3, sh("exec sleep 100000"), nil)
		j["TaskGroups"].([]object)[0]["Disconnect"] = object{"LostAfter": int64(time.Hour), "Replace": true, "Reconcile": kept}
		if _, err := r.call(ctx, r.anyone(), "PUT", "/v1/jobs", object{"Job": j}, nil); err != nil {
			return err
		}
		if err := until(ctx, settleLimit, "it runs", func() string { return r.runs(ctx, awayJob, 3) }); err != nil {
			return err
		}
		a := r.agents[r.rng.IntN(len(r.agents))]
		if err := r.part(hosts(a), hosts(r.servers...)); err != nil {
			return err
		}
		away := []time.Duration{14 * time.Second, 4 * time.Second}[(r.number-1)%2]
		r.history.note("%s is cut off for %v; %s", a.name, away, kept)
		return rest.For(ctx, away)
	},
	Stop: heal,
	After: func(ctx context.Context, r *round) error {
		if err := until(ctx, 30*time.Second, "three are there", func() string { return r.runs(ctx, awayJob, 3) }); err != nil {
			return err
		}
		if _, err := r.call(ctx, r.anyone(), "DELETE", "/v1/job/"+awayJob+"?purge=true", nil, nil); err != nil {
			return err
		}
		return r.settled(ctx)
	},
}

var allRegister = &Fault{
	ID: "F-28", Kind: "client", Name: "all simulated nodes register again within 5 s after the leader was killed",
	Says:   "all are ready within 120 s, none is taken for down, and the new leader stays",
	Setup:  Setup{Many: true},
	Limits: []Limit{{firstWrite, 3, 6}, {"all registered", 0, 120}},
	Start: func(ctx context.Context, r *round) error {
		m, err := r.wait(ctx)
		if err != nil {
			return err
		}
		r.down(m)
		if err := until(ctx, settleLimit, "another leads", func() string {
			if r.leader(ctx, r.others(m)) == nil {
				return "nobody does"
			}
			return ""
		}); err != nil {
			return err
		}
		from := time.Now()
		r.fleet.registerAnew(5 * time.Second)
		err = until(ctx, 2*time.Minute, "all nodes have registered again", func() string {
			if n := r.fleet.unregistered(from); n > 0 {
				return fmt.Sprintf("%d have not", n)
			}
			return ""
		})
		r.figures["all registered"] = time.Since(from).Seconds()
		return err
	},
	Stop: func(_ context.Context, r *round) error { return r.up() },
}

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"berth/internal/rest"
)

// Faults of the network. Whatever is cut, every server can still be called by
// people, who are elsewhere.

// hosts returns the hosts of machines.
func hosts(list ...*machine) (out []*host) {
	for _, m := range list {
		out = append(out, m.host)
	}
	return out
}

// heal is the Stop of faults that only cut connections: the round restores all
// of them.
func heal(context.Context, *round) error { return nil }

var leaderApart = &Fault{
	ID: "F-08", Kind: "network", Name: "the leader is cut off from the other servers, but not from people and nodes",
	Says:   "another leads within 6 s; the old one acknowledges nothing and reads nothing that is old, and says of stale answers that they are",
	Hold:   7 * time.Second,
	Limits: []Limit{{firstWrite, 3, 6}},
	Start: func(ctx context.Context, r *round) error {
		m, err := r.wait(ctx)
		if err != nil {
			return err
		}
		r.victim = m
		err = r.part(hosts(m), hosts(r.others(m)...))
		r.gone(m) // only writes after this moment count
		return err
	},
	Stop:  heal,
	After: honest,
}

// honest checks what a server that was cut off from the leader reported about
// the age of its answers.
func honest(_ context.Context, r *round) error {
	const settled = 2500 * time.Millisecond // how long it may take to notice
	n := 0
	for _, c := range r.history.calls {
		if c.Kind != stale || c.Outcome != done || c.Server != r.victim.name || c.Call < r.killed+settled || c.Return > r.killed+r.fault.Hold {
			continue
		}
		if n++; c.Known && c.Contact < 500*time.Millisecond {
			return fmt.Errorf("I-37: %s was cut off at %v, and at %v its answer was said to be %v old", c.Server, r.killed, c.Call, c.Contact)
		}
	}
	if n == 0 {
		return fmt.Errorf("%s gave no stale answer while it was cut off", r.victim.name)
	}
	return nil
}

var minority = &Fault{
	ID: "F-09", Kind: "network", Name: "one server and one agent are cut off from the others, until the agent's tasks were replaced",
	Says:  "after that all is as it should be within a minute, and nothing runs twice",
	Hold:  14 * time.Second,
	Falls: true,
	Start: func(ctx context.Context, r *round) error {
		m, a := r.servers[r.rng.IntN(len(r.servers))], r.agents[r.rng.IntN(len(r.agents))]
		r.history.note("%s and %s are cut off", m.name, a.name)
		var rest []*machine
		for _, o := range r.machines() {
			if o != m && o != a {
				rest = append(rest, o)
			}
		}
		return r.part(hosts(m, a), hosts(rest...))
	},
	Stop: heal,
}

var deafServer = &Fault{
	ID: "F-10", Kind: "network", Name: "a server hears nobody, but is heard",
	Says: "there is one leader for 95 % of the time that begins 4 s later, and terms grow by no more than 5",
	Hold: 12 * time.Second,
	Start: func(ctx context.Context, r *round) error {
		m, err := r.wait(ctx)
		if err != nil {
			return err
		}
		leads := r.number%2 == 1
		if !leads {
			m = r.others(m)[0]
		}
		r.victim = m
		r.terms = r.term(ctx, r.others(m)[0])
		r.from = r.history.now()
		r.history.note("%s hears no other server", m.name)
		var errs []error
		for _, o := range r.others(m) {
			errs = append(errs, r.cut(o.host, m.host))
		}
		if leads {
			r.gone(m)
		}
		return errors.Join(errs...)
	},
	Stop: func(ctx context.Context, r *round) error {
		r.figures["terms (count)"] = float64(r.term(ctx, r.others(r.victim)[0]) - r.terms)
		return nil
	},
	After: func(_ context.Context, r *round) error {
		if n := r.figures["terms (count)"]; n > 5 {
			return fmt.Errorf("%g terms went by", n)
		}
		from, to := r.from+4*time.Second, r.from+r.fault.Hold
		share := r.led(from, to, r.victim)
		r.figures["led (share)"] = share
		if share < 0.95 {
			return fmt.Errorf("there was one leader for %.0f %% of the time", 100*share)
		}
		return nil
	},
}

// term returns the term that a server reports, or 0.
func (r *round) term(ctx context.Context, m *machine) int { return r.raftStat(ctx, m, "term") }

// raftStat returns a figure that a server reports about Raft.
func (r *round) raftStat(ctx context.Context, m *machine, name string) int {
	var self struct {
		Stats map[string]map[string]string `json:"stats"`
	}
	_ = r.get(ctx, m, "/v1/agent/self", &self)
	n, _ := strconv.Atoi(self.Stats["raft"][name])
	return n
}

// led returns the share of a period in which the servers, except one, agreed on
// a leader.
func (r *round) led(from, to time.Duration, but *machine) float64 {
	seen, agreed := 0, 0
	for _, l := range r.looks {
		if l.at < from || l.at > to {
			continue
		}
		seen++
		at, ok := "", true
		for _, m := range r.others(but) {
			if l.leader[m.name] == "" || at != "" && l.leader[m.name] != at {
				ok = false
			}
			at = l.leader[m.name]
		}
		if ok {
			agreed++
		}
	}
	if seen == 0 {
		return 0
	}
	return float64(agreed) / float64(seen)
}

var flap = &Fault{
	ID: "F-11", Kind: "network", Name: "a server is cut off and comes back every second",
	Says: "nothing is stuck or done twice",
	Start: func(ctx context.Context, r *round) error {
		m := r.servers[r.rng.IntN(len(r.servers))]
		if l := r.leader(ctx, r.servers); l != nil && r.number%2 == 0 {
			m = l
		}
		r.history.note("%s comes and goes", m.name)
		for range 5 {
			if err := errors.Join(r.part(hosts(m), hosts(r.others(m)...)), rest.For(ctx, time.Second), r.cluster.heal(), rest.For(ctx, time.Second)); err != nil {
				return err
			}
		}
		return nil
	},
	Stop: heal,
}

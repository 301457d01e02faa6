package main

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"berth"
	"berth/internal/consensus"
	"berth/internal/invariant"
	"berth/internal/state"
	"berth/op"
)

// What must be so after a fault has ended: first all is well again, within a
// time; then the state of every server is looked at as a whole.

const (
	settleLimit = 60 * time.Second // for the cluster to recover from a fault
	equalLimit  = 30 * time.Second // for all servers to be seen at the same index
)

// ready waits until every server votes and answers, every node is ready, and no
// evaluation is pending.
func (c *cluster) ready(ctx context.Context, limit time.Duration) error {
	return until(ctx, limit, "the cluster is well", func() string {
		for _, look := range []func(context.Context) string{c.leaderless, c.voteless, c.nodeless, c.pendingEvals} {
			if amiss := look(ctx); amiss != "" {
				return amiss
			}
		}
		return ""
	})
}

// anyone returns a running server.
func (c *cluster) anyone() *machine {
	for _, m := range c.servers {
		if m.running() {
			return m
		}
	}
	return c.servers[0]
}

// others returns the servers except one.
func (c *cluster) others(m *machine) (out []*machine) {
	for _, s := range c.servers {
		if s != m {
			out = append(out, s)
		}
	}
	return out
}

// leader returns the leader on which all the given servers agree, or nil. A
// server that does not answer does not agree.
func (c *cluster) leader(ctx context.Context, among []*machine) *machine {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	said := ""
	for _, m := range among {
		var at string
		if c.get(ctx, m, "/v1/status/leader", &at) != nil || at == "" || said != "" && at != said {
			return nil
		}
		said = at
	}
	for _, m := range c.servers {
		if said == m.addr+":4647" {
			return m
		}
	}
	return nil
}

// leaderless returns why the servers do not all follow one leader, or "".
func (c *cluster) leaderless(ctx context.Context) string {
	for _, m := range c.servers {
		if !m.running() {
			return m.name + " does not run"
		}
	}
	if c.leader(ctx, c.servers) == nil {
		return "the servers do not agree on who leads"
	}
	return ""
}

// voteless returns which server does not vote, or "" if all do and Raft counts
// on no other.
func (c *cluster) voteless(ctx context.Context) string {
	var raft struct {
		Servers []struct {
			Node, Address string
			Voter         bool
		}
	}
	if err := c.get(ctx, c.anyone(), "/v1/operator/raft/configuration", &raft); err != nil {
		return err.Error()
	}
	voters := 0
	for _, s := range raft.Servers {
		if s.Node == op.UnknownNode { // no member has its ID, as after a loss of data
			return "Raft counts on a server at " + s.Address + " that the gossip does not know"
		}
		if s.Voter {
			voters++
		}
	}
	if voters != len(c.servers) || len(raft.Servers) != voters {
		return fmt.Sprintf("%d of %d servers vote", voters, len(raft.Servers))
	}
	return ""
}

// nodeList returns the names of the ready nodes, and the others with their
// status.
func (c *cluster) nodeList(ctx context.Context, m *machine, query string) (ready, other []string, err error) {
	var list []struct{ Name, Status string }
	if err := c.get(ctx, m, "/v1/nodes"+query, &list); err != nil {
		return nil, nil, err
	}
	for _, n := range list {
		if n.Status == "ready" {
			ready = append(ready, n.Name)
		} else {
			other = append(other, n.Name+" "+n.Status)
		}
	}
	return ready, other, nil
}

// nodeless returns how many nodes are not ready, or "".
func (c *cluster) nodeless(ctx context.Context) string {
	ready, other, err := c.nodeList(ctx, c.anyone(), "")
	switch want := len(c.agents) + len(c.fleet.nodes); {
	case err != nil:
		return err.Error()
	case len(ready) != want || len(other) > 0:
		return fmt.Sprintf("%d of %d nodes are ready; %.100s", len(ready), want, strings.Join(other, ", "))
	}
	return ""
}

// pendingEvals returns which evaluations are still to be decided, or "". Those
// that wait for a time to come do not count.
func (c *cluster) pendingEvals(ctx context.Context) string {
	var list []struct {
		ID, JobID, TriggeredBy string
		WaitUntil              time.Time
	}
	if err := c.get(ctx, c.anyone(), "/v1/evaluations?status=pending", &list); err != nil {
		return err.Error()
	}
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].WaitUntil.After(time.Now()) { // it is not due yet
			list = slices.Delete(list, i, i+1)
		}
	}
	if len(list) > 0 {
		return fmt.Sprintf("%d evaluations wait, as of %s, %s: %s", len(list), list[0].JobID, list[0].TriggeredBy, c.evalSeenBy(ctx, list[0].ID))
	}
	return ""
}

// evalSeenBy returns what each server says of an evaluation. The one that leads
// also knows where it is in the queues.
func (c *cluster) evalSeenBy(ctx context.Context, id string) string {
	var says []string
	for _, m := range c.servers {
		var e op.Eval
		if err := c.get(ctx, m, "/v1/evaluation/"+id+"?stale", &e); err != nil {
			says = append(says, m.name+": "+err.Error())
			continue
		}
		says = append(says, fmt.Sprintf("%s: %s %s at index %d, decided on %d, %+v", m.name, e.Status, e.QuasiStatus, e.ModifyIndex, e.SnapshotIndex, e.Timeline))
	}
	return strings.Join(says, "; ")
}

// probe registers a job, and waits until it has run.
func (c *cluster) probe(ctx context.Context, id string) error {
	if _, err := c.call(ctx, c.anyone(), "PUT", "/v1/jobs", object{"Job": job(id, "batch", "real", 1, sh("true"), nil)}, nil); err != nil {
		return fmt.Errorf("the probe: %w", err)
	}
	return until(ctx, settleLimit, "the probe has run", func() string {
		var list []stub
		if err := c.get(ctx, c.anyone(), "/v1/job/"+id+"/allocations", &list); err != nil {
			return err.Error()
		}
		if !slices.ContainsFunc(list, func(a stub) bool { return a.ClientStatus == "complete" }) {
			return fmt.Sprint(list)
		}
		return ""
	})
}

// settled waits until the tasks on the agents are exactly those that must run.
func (c *cluster) settled(ctx context.Context) error {
	return until(ctx, settleLimit, "the tasks that run are those that are to run (I-33)", func() string {
		if amiss := c.runs(ctx, serviceJob, serviceCount) + c.runs(ctx, herdJob, min(len(c.fleet.nodes), 30)); amiss != "" {
			return amiss
		}
		var list []stub
		if err := c.get(ctx, c.anyone(), "/v1/allocations?filter="+url.QueryEscape(`ClientStatus == "running" and JobID != "`+herdJob+`"`), &list); err != nil {
			return err.Error()
		}
		// The processes are compared with what the servers say runs.
		want := map[string]bool{}
		for _, a := range list {
			if a.DesiredStatus == "run" {
				want[a.ID] = true
			}
		}
		is := tasks()
		for id := range want {
			if len(is[id]) == 0 {
				return "no process of allocation " + id
			}
		}
		for id := range is {
			if !want[id] {
				return "allocation " + id + " runs and is not to run, or not any more"
			}
		}
		return ""
	})
}

// saved is the state of one server at one time.
type saved struct {
	*state.Snapshot
	hash uint64
}

// states returns the states of all servers at the same index. Each server is
// asked at the same time, and what it was at before counts too: something may be
// written whenever one looks.
func (c *cluster) states(ctx context.Context) (out map[string]*saved, err error) {
	seen := map[uint64]map[string]*saved{} // by index and server
	err = until(ctx, equalLimit, "all servers are seen at one index", func() string {
		now := make([]*saved, len(c.servers))
		var asked errgroup.Group
		for i, m := range c.servers {
			asked.Go(func() (err error) {
				now[i], err = c.state(ctx, m)
				return err
			})
		}
		if err := asked.Wait(); err != nil {
			return err.Error()
		}
		var at []string
		out = map[string]*saved{}
		for i, s := range now {
			out[c.servers[i].name] = s
			if seen[s.Index] == nil {
				seen[s.Index] = map[string]*saved{}
			}
			seen[s.Index][c.servers[i].name] = s
			at = append(at, fmt.Sprint(s.Index))
			if len(seen[s.Index]) == len(c.servers) {
				out = seen[s.Index]
				return ""
			}
		}
		return "they are at " + strings.Join(at, ", ")
	})
	if err != nil {
		return out, fmt.Errorf("I-38: %w", err) // what each server was at last is looked at all the same
	}
	return out, nil
}

// state returns the present state of one server.
func (c *cluster) state(ctx context.Context, m *machine) (*saved, error) {
	a, err := c.call(ctx, m, "GET", "/v1/operator/snapshot?stale=true", nil, nil)
	if err != nil {
		return nil, err
	}
	_, snap, err := consensus.ReadBackup(bytes.NewReader(a.body))
	if err != nil {
		return nil, fmt.Errorf("the snapshot of %s: %w", m.name, err)
	}
	return &saved{snap, snap.Hash()}, nil
}

// judgeStates checks the state of each server, against the others and against
// the round before.
func (c *cluster) judgeStates(ctx context.Context, calls []*call) (out []string) {
	now, err := c.states(ctx)
	if err != nil {
		out = append(out, err.Error())
	}
	var first *saved
	for _, m := range c.servers {
		s := now[m.name]
		if s == nil {
			continue
		}
		if first == nil {
			first = s
		}
		// Servers at one index must have one state.
		if s.Index == first.Index && s.hash != first.hash {
			out = append(out, fmt.Sprintf("I-38: at index %d %s has the state %016x, and %s has %016x", s.Index, m.name, s.hash, c.servers[0].name, first.hash))
		}
		if s != first && s.Index == first.Index && s.hash == first.hash {
			continue // an equal state was checked already
		}
		found := append(invariant.Check(s.Snapshot), invariant.Scheduled(s.Snapshot)...)
		// The state of the round before is the base for what must not go back.
		if was := c.before[m.name]; was != nil {
			found = append(found, invariant.Between(was.Snapshot, s.Snapshot)...)
		}
		for i, v := range found {
			if i == 10 {
				out = append(out, fmt.Sprintf("%s: and %d more", m.name, len(found)-i))
				break
			}
			out = append(out, fmt.Sprintf("%s: %v", m.name, v))
		}
		out = append(out, judgeAcknowledged(m.name, s.Snapshot, calls)...)
		out = append(out, judgeLaunches(m.name, s.Snapshot)...)
	}
	// An incomplete set of states would be a wrong base.
	if err == nil {
		c.before = now
	}
	return out
}

// judgeAcknowledged checks that what callers were told exists does exist.
// Registers are judged by their history, whose last reads come after all
// writes.
func judgeAcknowledged(server string, s *state.Snapshot, calls []*call) (out []string) {
	lost := func(c *call, what string) {
		out = append(out, fmt.Sprintf("I-36: %s: %s of %s was acknowledged at %v, and %s is not there", server, c.Kind, c.Key, c.Return.Round(time.Millisecond), what))
	}
	for _, c := range calls {
		if c.Outcome != done {
			continue
		}
		if c.Eval != "" {
			var id berth.EvalID
			if id.UnmarshalText([]byte(c.Eval)) != nil || s.Eval(id) == nil {
				lost(c, "its evaluation "+c.Eval)
			}
		}
		if c.Kind == dispatch && s.Job(berth.JobKey{Namespace: berth.DefaultNamespace, ID: berth.JobID(c.Value)}) == nil {
			lost(c, "the child "+c.Value)
		}
	}
	return out
}

// judgeLaunches checks that each child was launched for one token, or for one
// time at which its parent was due.
func judgeLaunches(server string, s *state.Snapshot) (out []string) {
	tokens := map[string]berth.JobID{}
	for j := range s.ChildrenOf(berth.JobKey{Namespace: berth.DefaultNamespace, ID: workJob}) {
		if was, ok := tokens[j.DispatchIdempotencyToken]; ok {
			out = append(out, fmt.Sprintf("I-23: %s: %s and %s were both dispatched for the token %s", server, was, j.ID, j.DispatchIdempotencyToken))
		}
		tokens[j.DispatchIdempotencyToken] = j.ID
	}
	for j := range s.ChildrenOf(berth.JobKey{Namespace: berth.DefaultNamespace, ID: periodicJob}) {
		var due int64
		if _, err := fmt.Sscanf(string(j.ID), periodicJob+berth.PeriodicInfix+"%d", &due); err != nil || due%2 != 0 {
			out = append(out, fmt.Sprintf("I-23: %s: %s was launched, and its parent was not due then: it is launched once every other second", server, j.ID))
		}
	}
	return out
}

// judgeLogs searches the logs for what no process may ever print.
func (c *cluster) judgeLogs() (out []string) {
	for _, m := range c.machines() {
		text := m.said(c.logs[m.name])
		c.logs[m.name] += int64(len(text))
		for line := range strings.Lines(text) {
			for _, bad := range []string{"panic:", "DATA RACE", "fatal error:", "broke its promise", "goroutine leak"} {
				if strings.Contains(line, bad) {
					out = append(out, m.name+" said: "+strings.TrimSpace(line))
				}
			}
		}
	}
	return out
}

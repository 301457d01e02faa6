package agent

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"time"

	"berth"
	"berth/internal/failpoint"
	"berth/op"
)

const (
	firstRetry = time.Second
	lastRetry  = 30 * time.Second
	watchEvery = 15 * time.Second // for drivers that change
)

// keepRegistered registers the node, again whenever servers do not know it or it
// has changed, and sends its heartbeats.
func (a *Agent) keepRegistered(ctx context.Context) error {
	if err := a.askRequiredClouds(ctx); err != nil {
		return err
	}
	for {
		changed, err := a.register(ctx)
		if err != nil {
			return err
		}
		if err := a.sendHeartbeats(ctx, changed); err != nil {
			return err
		}
	}
}

// register tells servers of the node until they have taken it. What it returns
// is closed when the node is not what was told any more.
func (a *Agent) register(ctx context.Context) (changed <-chan struct{}, err error) {
	for n := 0; ; n++ {
		// The channel and the node are read together: a change after this is
		// seen.
		a.mu.Lock()
		node := *a.node
		changed = a.change
		a.mu.Unlock()
		node.Status = berth.NodeInit
		in := &op.RegisterNode{Node: &node, Write: a.write()}
		in.AuthToken = a.introduction()
		sent := time.Now()
		answer, err := op.Call(ctx, a.c.Servers, op.NodeRegister, in)
		if err == nil {
			a.reached(sent, answer)
			a.log.Info("the node is registered", "node", a.id, "name", node.Name, "ttl", answer.HeartbeatTTL)
			a.tellDrivers(ctx)
			return changed, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if code := berth.CodeOf(err); code == berth.CodeWrongSecret || code == berth.CodeNotIntroduced {
			if code == berth.CodeWrongSecret {
				a.sayWrongSecret()
			} else if a.unproved() {
				continue // the introduction token may do
			} else {
				a.sayNotIntroduced(err)
			}
			if err := backoff(ctx, n, firstRetry, lastRetry); err != nil {
				return nil, err
			}
			continue
		}
		level := slog.LevelWarn
		if n == 0 && berth.KindOf(err) == berth.NoLeader {
			level = slog.LevelDebug // a server that starts beside the agent takes a moment
		}
		a.log.Log(ctx, level, "servers do not take the node; trying again", "node", a.id, "error", err)
		if err := backoff(ctx, n, firstRetry, lastRetry); err != nil {
			return nil, err
		}
	}
}

// sayWrongSecret says how an agent is mended whose secret is not the one that
// servers know. It goes on trying, and its tasks go on running.
func (a *Agent) sayWrongSecret() {
	a.log.Error("servers know this node with another secret than the one in secret-id and refuse all that this agent says; its tasks run on here, "+
		"but when the node counts as down they are replaced elsewhere. To mend it: stop the agent, put secret-id back from a backup, and start the agent again. "+
		"Without a backup: delete client-id, secret-id and allocs in the same directory instead; the agent then is a new node, and what runs here is ended",
		"node", a.id, "file", filepath.Join(a.c.StateDir, "secret-id"))
}

// sayNotIntroduced says what an agent needs whose node is new to servers that
// take only nodes with an introduction token. It goes on trying.
func (a *Agent) sayNotIntroduced(err error) {
	a.log.Error("servers refuse the node, because it is new and shows no valid introduction token. To make one: berth node intro create -node-pool POOL. "+
		"Write it into intro_token.jwt in the state directory, or set client.intro_token, and start the agent again", "node", a.id, "pool", a.Node().NodePool,
		"file", filepath.Join(a.c.StateDir, "intro_token.jwt"), "error", err)
}

// sendHeartbeats returns nil when the node must be registered again.
func (a *Agent) sendHeartbeats(ctx context.Context, changed <-chan struct{}) error {
	failures := 0
	for {
		// The first makes the node ready.
		in := &op.BeatNode{NodeID: a.id, Status: berth.NodeReady, UpdatedAt: time.Now().Unix(), SecretID: a.secret, RenewIdentity: a.wantsIdentity(), Write: a.write()}
		err := failpoint.Hit("agent/beat")
		var answer *op.NodeAnswer
		sent := time.Now()
		if err == nil {
			answer, err = op.Call(ctx, a.c.Servers, op.NodeBeat, in)
		}
		// The last TTL that servers gave limits how long a retry may wait.
		a.mu.Lock()
		ttl := a.ttl
		a.mu.Unlock()
		var wait time.Duration
		switch {
		case err == nil:
			failures = 0
			a.reached(sent, answer)
			a.markRegistered()
			wait = interval(answer.HeartbeatTTL)
		case ctx.Err() != nil:
			return ctx.Err()
		case berth.KindOf(err) == berth.NotFound:
			a.log.Warn("servers do not know the node; it registers again", "node", a.id)
			a.reportAgain() // they may have forgotten more than the node
			if err := backoff(ctx, 0, firstRetry, firstRetry); err != nil {
				return err
			}
			return nil
		default:
			a.log.Warn("a heartbeat failed; trying again", "node", a.id, "error", err)
			if err := backoff(ctx, failures, min(firstRetry, interval(ttl)), max(firstRetry, interval(ttl))); err != nil {
				return err
			}
			failures++
			continue
		}
		// A changed node is registered again at once.
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-changed:
			timer.Stop()
			return nil
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// interval is the time to the next heartbeat: well within the TTL, and not the
// same for all agents.
func interval(ttl time.Duration) time.Duration {
	ttl = max(ttl, 100*time.Millisecond)
	return ttl/2 + rand.N(ttl/4)
}

// markRegistered lets the allocations be asked for: servers know the node.
func (a *Agent) markRegistered() {
	select {
	case <-a.registered:
	default:
		close(a.registered) // only this goroutine does
	}
}

// write is what goes with every write of this node.
func (a *Agent) write() op.Write { return op.Write{Region: a.c.Region, AuthToken: a.credential()} }

// query is what goes with every read.
func (a *Agent) query() op.Query {
	return op.Query{Region: a.c.Region, AuthToken: a.credential(), AllowStale: true}
}

// renode has the node registered again as another. The caller holds mu.
func (a *Agent) renode(n *berth.Node) {
	a.node = n
	close(a.change)
	a.change = make(chan struct{})
}

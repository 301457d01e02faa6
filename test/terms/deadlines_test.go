//go:build faults

package terms

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"berth"
	"berth/internal/state"
)

// now returns the state of the leader.
func (c *cluster) now() *state.Snapshot { return c.list[c.leader()].Store().Snapshot() }

// until waits until cond holds of the leader's state, and returns when that
// was.
func (c *cluster) until(what string, limit time.Duration, cond func(*state.Snapshot) bool) time.Time {
	c.t.Helper()
	for end := time.Now().Add(limit); !cond(c.now()); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			c.t.Fatalf("not within %v: %s", limit, what)
		}
	}
	return time.Now()
}

// within asks that something happened between two times.
func within(t *testing.T, what string, at, first, last time.Time) {
	t.Helper()
	if at.Before(first) || at.After(last) {
		t.Errorf("%s %v after it was to be at the earliest; it may take %v", what, at.Sub(first), last.Sub(first))
	}
}

// newest returns the newest deployment of a job, nil if there is none.
func newest(s *state.Snapshot, k berth.JobKey) (d *berth.Deployment) {
	for x := range s.DeploymentsOf(k) {
		if d == nil || x.CreateIndex > d.CreateIndex {
			d = x
		}
	}
	return d
}

// nothing is what happens meanwhile, mostly.
func nothing() {}

// A node falls silent, and then the leader changes, in each of the ways: the
// node is down neither before the time that the leader before gave it nor after
// the time that the new one gives to all. Those that beat stay up.
func TestASilentNodeGoesDownOnceAcrossALeaderChange(t *testing.T) {
	for how := range ways {
		bubbled(t, func(t *testing.T) {
			c := newCluster(t, 3, uint64(how))
			ctx, cancel := context.WithCancel(t.Context())
			var agents sync.WaitGroup
			silent, quiet := context.WithCancel(ctx)
			last := c.agent(4)
			for n := range 3 {
				agents.Go(func() { c.agent(n + 1).run(ctx) })
			}
			agents.Go(func() { last.run(silent) })
			ready := func(s *state.Snapshot) (n int) {
				for x := range s.Nodes() {
					if x.Status == berth.NodeReady {
						n++
					}
				}
				return n
			}
			c.until("all nodes are ready", time.Minute, func(s *state.Snapshot) bool { return ready(s) == 4 })
			time.Sleep(time.Minute)
			quiet()
			fell := time.Now()
			time.Sleep(5 * time.Second)
			c.depose(how, nothing)
			changed := time.Now()
			down := c.until("the silent node is down", 5*time.Minute, func(s *state.Snapshot) bool {
				if ready(s) < 3 {
					t.Fatal("a node is down that beats")
				}
				return s.Node(last.ID).Status == berth.NodeDown
			})
			within(t, "the node is down", down, fell.Add(10*time.Second), changed.Add(time.Minute+5*time.Second))
			at := c.now().Node(last.ID).ModifyIndex
			c.depose(handed, nothing)
			time.Sleep(2 * time.Minute) // longer than the new leader gives to all
			if n := c.now().Node(last.ID); n.Status != berth.NodeDown || n.ModifyIndex != at {
				t.Errorf("the node that was down is %s; it changed at index %d, and again at %d", n.Status, at, n.ModifyIndex)
			}
			cancel()
			agents.Wait()
			c.end()
		})
	}
}

// A deployment makes no progress. It fails when its deadline is over, to the
// second, however often the leader changes until then.
func TestAProgressDeadlineAcrossLeaderChanges(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		c := newCluster(t, 3, 7)
		ctx, cancel := context.WithCancel(t.Context())
		var agents sync.WaitGroup
		mute := c.agent(1)
		mute.mute.Store(true)
		agents.Go(func() { mute.run(ctx) })
		c.until("the node is ready", time.Minute, func(s *state.Snapshot) bool { n := s.Node(mute.ID); return n != nil && n.Status == berth.NodeReady })
		deadline := 5 * time.Minute
		c.must(http.MethodPut, "/v1/jobs", strings.Replace(job("web", 2), `"Update":{"MaxParallel":0}`,
			fmt.Sprintf(`"Update":{"MaxParallel":1,"HealthyDeadline":%d,"ProgressDeadline":%d}`, time.Minute, deadline), 1))
		key := berth.JobKey{Namespace: berth.DefaultNamespace, ID: "web"}
		began := c.until("there is a deployment", time.Minute, func(s *state.Snapshot) bool { return newest(s, key) != nil })
		for k := 0; time.Since(began) < deadline-40*time.Second; k++ {
			c.depose(k%ways, nothing)
			if s := newest(c.now(), key).Status; s != berth.DeploymentRunning {
				t.Fatalf("the deployment is %s after %v", s, time.Since(began))
			}
			time.Sleep(20 * time.Second)
		}
		failed := c.until("the deployment fails", time.Hour, func(s *state.Snapshot) bool {
			return newest(s, key).Status == berth.DeploymentFailed
		})
		within(t, "the deployment fails", failed, began.Add(deadline-time.Second), began.Add(deadline+time.Second))
		cancel()
		agents.Wait()
		c.end()
	})
}

// A job is launched every minute, while the leader changes, mostly when it is
// due: each time it is launched, and once.
func TestPeriodicLaunchesAcrossLeaderChanges(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		c := newCluster(t, 3, 9)
		c.must(http.MethodPut, "/v1/jobs", `{"Job":{"ID":"cron","Type":"batch","Datacenters":["dc1"],"Periodic":{"Enabled":true,"SpecType":"cron","Spec":"* * * * *"},"TaskGroups":[{"Name":"g","Count":1,"Tasks":[
			{"Name":"t","Driver":"raw_exec","Config":{"command":"x"},"Resources":{"CPU":10,"MemoryMB":10}}]}]}}`)
		first := time.Now().Truncate(time.Minute).Add(time.Minute)
		const minutes = 12 // each way at each of the times below
		for k := range minutes {
			due := first.Add(time.Duration(k) * time.Minute)
			// A little before, at, and a little after the time, in turn; how long
			// it takes until another leads differs.
			time.Sleep(time.Until(due.Add(time.Duration(k%4-2) * time.Second)))
			c.depose(k%ways, nothing)
		}
		time.Sleep(time.Until(first.Add(minutes*time.Minute - 10*time.Second)))
		var jobs []struct{ ID, ParentID string }
		if err := json.Unmarshal([]byte(c.must(http.MethodGet, "/v1/jobs?prefix=cron/", "")), &jobs); err != nil {
			t.Fatal(err)
		}
		launches := map[string]int{}
		for _, j := range jobs {
			if j.ParentID == "cron" {
				launches[j.ID]++
			}
		}
		for k := range minutes {
			id := fmt.Sprintf("cron/periodic-%d", first.Add(time.Duration(k)*time.Minute).Unix())
			if launches[id] != 1 {
				t.Errorf("%s was launched %d times", id, launches[id])
			}
		}
		if len(launches) != minutes {
			t.Errorf("%d launches in %d minutes: %v", len(launches), minutes, launches)
		}
		c.end()
	})
}

// A drain is stuck, for what replaces the node's allocations is never healthy.
// When its deadline comes all of them are stopped: not before, and not later
// because the leader changed.
func TestADrainDeadlineAcrossLeaderChanges(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		c := newCluster(t, 3, 11)
		ctx, cancel := context.WithCancel(t.Context())
		var agents sync.WaitGroup
		old, other := c.agent(1), c.agent(2)
		other.mute.Store(true)
		agents.Go(func() { old.run(ctx) })
		key := berth.JobKey{Namespace: berth.DefaultNamespace, ID: "web"}
		wanted := func(s *state.Snapshot) (n int) {
			for a := range s.AllocsOn(old.ID) {
				if a.Wanted() && a.Client == berth.ClientRunning {
					n++
				}
			}
			return n
		}
		c.until("the node is ready", time.Minute, func(s *state.Snapshot) bool { n := s.Node(old.ID); return n != nil && n.Status == berth.NodeReady })
		c.must(http.MethodPut, "/v1/jobs", job("web", 4))
		c.until("the job runs", time.Minute, func(s *state.Snapshot) bool { return wanted(s) == 4 })
		agents.Go(func() { other.run(ctx) })
		c.until("the other node is ready", time.Minute, func(s *state.Snapshot) bool { n := s.Node(other.ID); return n != nil && n.Status == berth.NodeReady })
		time.Sleep(30 * time.Second)
		deadline := 4 * time.Minute
		began := time.Now()
		c.must(http.MethodPut, "/v1/node/"+old.ID.String()+"/drain", fmt.Sprintf(`{"DrainSpec":{"Deadline":%d}}`, deadline))
		for k := 0; time.Since(began) < deadline-40*time.Second; k++ {
			c.depose(k%ways, nothing)
			if n := wanted(c.now()); n == 0 {
				t.Fatalf("all are stopped after %v", time.Since(began))
			}
			time.Sleep(20 * time.Second)
		}
		over := c.until("all are stopped", time.Hour, func(s *state.Snapshot) bool { return wanted(s) == 0 })
		within(t, "all are stopped", over, began.Add(deadline-time.Second), began.Add(deadline+2*time.Second))
		c.until("the drain is over", time.Minute, func(s *state.Snapshot) bool { return s.Node(old.ID).DrainStrategy == nil })
		c.depose(stopped, nothing)
		n := 0
		for a := range c.now().AllocsOf(key) {
			if a.NodeID == other.ID && a.Wanted() {
				n++
			}
		}
		if n != 4 {
			t.Errorf("%d run on the other node, want 4", n)
		}
		cancel()
		agents.Wait()
		c.end()
	})
}

package server_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"berth"
	"berth/internal/invariant"
	"berth/internal/leader/heartbeat"
	"berth/internal/server"
	"berth/op"

	nomad "github.com/hashicorp/nomad/api"
)

// beats lets the node be heard until what it returns is called.
func (x *node) beats() (stop func()) {
	ctx, cancel := context.WithCancel(x.t.Context())
	var done sync.WaitGroup
	done.Go(func() {
		for ctx.Err() == nil {
			var out op.NodeAnswer
			_ = x.session.Call(ctx, "Node.UpdateStatus", &op.BeatNode{NodeID: x.ID, SecretID: x.SecretID, Status: berth.NodeReady}, &out)
			select {
			case <-time.After(10 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	})
	var once sync.Once
	stop = func() { once.Do(func() { cancel(); done.Wait() }) }
	x.t.Cleanup(stop)
	return stop
}

// impatient is a server that gives nodes up soon.
func impatient(t testing.TB) *running {
	return startWith(t, t.TempDir(), func(c *server.Config) {
		c.Heartbeat = heartbeat.Options{MinTTL: 20 * time.Millisecond, MaxPerSec: 1000, Grace: 500 * time.Millisecond, FailoverTTL: time.Second}
	})
}

// patientJob is a job of one instance that waits for a client that is not
// heard.
func patientJob(id string, lostAfter time.Duration, reconcile nomad.ReconcileOption) *nomad.Job {
	j := sleeper(id, 1)
	j.TaskGroups[0].Disconnect = &nomad.DisconnectStrategy{LostAfter: &lostAfter, Reconcile: &reconcile}
	return j
}

// alloc returns the job's allocation on a node when there is one that fares so.
func (r *running) alloc(job string, n *node, client, desired string) *nomad.Allocation {
	r.t.Helper()
	var found *nomad.Allocation
	r.until(fmt.Sprintf("an allocation of %s on %s is %s, desired %s", job, n.Name, client, desired), func() bool {
		for _, a := range must[[]*nomad.AllocationListStub, *nomad.QueryMeta](r.t)(r.api.Jobs().Allocations(job, false, nil)) {
			if a.NodeID == n.ID.String() && a.ClientStatus == client && a.DesiredStatus == desired {
				found = must[*nomad.Allocation, *nomad.QueryMeta](r.t)(r.api.Allocations().Info(a.ID, nil))
			}
		}
		return found != nil
	})
	return found
}

// nodeIs waits until a node has a status, as the list of nodes and itself say.
func (r *running) nodeIs(n *node, status string) {
	r.t.Helper()
	r.until(n.Name+" is "+status, func() bool {
		list := must[[]*nomad.NodeListStub, *nomad.QueryMeta](r.t)(r.api.Nodes().List(&nomad.QueryOptions{Filter: `Status == "` + status + `"`}))
		for _, s := range list {
			if s.ID == n.ID.String() {
				return must[*nomad.Node, *nomad.QueryMeta](r.t)(r.api.Nodes().Info(s.ID, nil)).Status == status
			}
		}
		return false
	})
}

// A client that is not heard and comes back: what it ran was unknown and was
// replaced, and of the two the one stays that the job says.
func TestRowsOfClientsThatAreAway(t *testing.T) {
	for _, keep := range []nomad.ReconcileOption{nomad.ReconcileOptionKeepOriginal, nomad.ReconcileOptionKeepReplacement} {
		t.Run(string(keep), func(t *testing.T) { comesBack(t, keep) })
	}
}

func comesBack(t testing.TB, keep nomad.ReconcileOption) {
	r := impatient(t)
	away := r.node(1)
	stop := away.beats()
	r.becomes(r.register(patientJob("web", time.Hour, keep)), "complete")
	away.says(berth.ClientRunning)
	first := r.alloc("web", away, "running", "run")
	stays := r.node(2)
	stays.beats()
	stop()

	// node-update: it is unknown, and replaced.
	r.nodeIs(away, "disconnected")
	r.becomes(r.eval("web", "node-update").ID, "complete")
	unknown := r.alloc("web", away, "unknown", "run")
	second := r.alloc("web", stays, "pending", "run")
	stays.says(berth.ClientRunning)
	if second.PreviousAllocation != first.ID || second.Name != first.Name || unknown.NextAllocation != second.ID {
		t.Errorf("%s stands in for %s, which is replaced by %s", second.ID, second.PreviousAllocation, unknown.NextAllocation)
	}
	if code, _, text := r.send("GET", "/v1/allocation/"+first.ID, nil); code != 200 || !strings.Contains(text, `"UnknownSince":`) {
		t.Errorf("%d %s", code, text)
	}
	if job := must[*nomad.Job, *nomad.QueryMeta](t)(r.api.Jobs().Info("web", nil)); *job.Status != "running" {
		t.Errorf("the job is %s", *job.Status)
	}
	if s := must[*nomad.JobSummary, *nomad.QueryMeta](t)(r.api.Jobs().Summary("web", nil)).Summary["g"]; s.Unknown != 1 || s.Lost != 0 {
		t.Errorf("its summary is %+v", s)
	}
	// max-disconnect-timeout: it waits for its time.
	later := r.eval("web", "max-disconnect-timeout")
	if later.ID != unknown.FollowupEvalID || later.PreviousEval == "" || time.Until(later.WaitUntil) < 50*time.Minute || later.Status != "pending" {
		t.Errorf("%+v", later)
	}

	// reconnect: the agent sees that servers do not know how it fares, and
	// tells them.
	away.beats()
	r.nodeIs(away, "ready")
	if a := away.fetch(first.ID); a.ClientStatus != berth.ClientUnknown || a.DesiredStatus != berth.DesiredRun || a.AllocModifyIndex <= first.AllocModifyIndex {
		t.Errorf("the agent is told %s, desired %s, at %d", a.ClientStatus, a.DesiredStatus, a.AllocModifyIndex)
	}
	away.says(berth.ClientRunning)
	if e := r.becomes(r.eval("web", "reconnect").ID, "complete"); e.NodeID != away.ID.String() {
		t.Errorf("%+v", e)
	}
	if keep == nomad.ReconcileOptionKeepOriginal {
		r.alloc("web", away, "running", "run")
		r.alloc("web", stays, "running", "stop")
	} else {
		r.alloc("web", away, "running", "stop")
		r.alloc("web", stays, "running", "run")
	}
	for _, v := range invariant.Check(r.server.Store().Snapshot()) {
		t.Error(v)
	}
}

// fetch is what an agent asks for when an allocation has changed.
func (x *node) fetch(id string) *op.Alloc {
	x.t.Helper()
	var out op.GetAllocsAnswer
	x.call("Alloc.GetAllocs", &op.GetAllocs{AllocIDs: []string{id}, SecretID: x.SecretID}, &out)
	if len(out.Allocs) != 1 {
		x.t.Fatalf("%d allocations are given", len(out.Allocs))
	}
	return out.Allocs[0]
}

// A client that does not come back in time: what it ran is lost, and it is
// down.
func TestRowsOfClientsThatStayAway(t *testing.T) {
	r := impatient(t)
	away := r.node(1)
	r.becomes(r.register(patientJob("web", 300*time.Millisecond, nomad.ReconcileOptionBestScore)), "complete")
	away.says(berth.ClientRunning)
	stays := r.node(2)
	stays.beats()
	r.eval("web", "max-disconnect-timeout") // another one may come before it is decided, and do its work
	r.alloc("web", away, "lost", "stop")
	second := r.alloc("web", stays, "pending", "run")
	r.nodeIs(away, "down")
	if all := must[[]*nomad.AllocationListStub, *nomad.QueryMeta](t)(r.api.Jobs().Allocations("web", false, nil)); len(all) != 2 {
		t.Errorf("there are %d allocations", len(all))
	}
	if second.PreviousAllocation == "" {
		t.Error("it replaces nothing")
	}
}

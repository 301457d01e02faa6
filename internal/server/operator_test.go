package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"berth/client"
	"berth/internal/consensus"
	"berth/op"

	"github.com/google/go-cmp/cmp"
	nomad "github.com/hashicorp/nomad/api"
)

// save returns a snapshot, as the Go client gets it.
func (r *running) save(q *nomad.QueryOptions) []byte {
	r.t.Helper()
	s, err := r.api.Operator().Snapshot(q)
	if err != nil {
		r.t.Fatal(err)
	}
	defer s.Close()
	all, err := io.ReadAll(s) // its checksum is looked at where it ends
	if err != nil {
		r.t.Fatal(err)
	}
	return all
}

// hash returns the hash of a server's own state when that has come to an index.
func (r *running) hash(index uint64) (out op.StateHash) {
	r.t.Helper()
	resp, err := http.Get(fmt.Sprintf("%s/v1/operator/state-hash?index=%d", r.http, index))
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil || resp.StatusCode != 200 {
		r.t.Fatal(resp.Status, err)
	}
	return out
}

// A server that is alone for ever is a cluster of one.
func TestOperatorOfOne(t *testing.T) {
	r := start(t, t.TempDir())
	o := r.api.Operator()
	conf, err := o.RaftGetConfiguration(nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []*nomad.RaftServer{{ID: r.server.ID(), Node: "s1.global", Address: r.rpc, Leader: true, Voter: true, RaftProtocol: "3"}}
	if d := cmp.Diff(want, conf.Servers); d != "" {
		t.Error(d)
	}
	h, _, err := o.AutopilotServerHealth(nil)
	if err != nil || !h.Healthy || h.FailureTolerance != 0 || h.Leader != r.server.ID() || len(h.Voters) != 1 || len(h.Servers) != 1 {
		t.Fatalf("%+v, %v", h, err)
	}
	if s := h.Servers[0]; s.Name != "s1.global" || s.SerfStatus != "alive" || !s.Leader || !s.Voter || !s.Healthy || s.LastIndex == 0 || s.LastTerm == 0 || s.StableSince.IsZero() {
		t.Errorf("%+v", s)
	}
	if err := o.RaftTransferLeadershipByID(r.server.ID(), nil); err != nil {
		t.Errorf("it leads already: %v", err)
	}
	refused(t, "nobody to lead", o.RaftTransferLeadershipByID("x", nil), 404, `id "x" was not found in the Raft configuration`)
	refused(t, "nobody there", o.RaftRemovePeerByAddress("10.0.0.1:4647", nil), 404, `address "10.0.0.1:4647" was not found in the Raft configuration`)
	refused(t, "the last one", o.RaftRemovePeerByID(r.server.ID(), nil), 400, "is the only voter and cannot be removed")
	for path, method := range map[string]string{"raft/peer": "DELETE", "raft/transfer-leadership": "PUT"} {
		for _, query := range []string{"", "?id=a&address=b"} {
			req, _ := http.NewRequest(method, r.http+"/v1/operator/"+path+query, nil)
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != 400 {
				t.Errorf("%s%s: %s", path, query, resp.Status)
			}
		}
	}
}

// The configuration of autopilot is read, changed, and changed only if it is
// as it was.
func TestAutopilotConfiguration(t *testing.T) {
	r := start(t, t.TempDir())
	o := r.api.Operator()
	c, _, err := o.AutopilotGetConfiguration(nil)
	if err != nil {
		t.Fatal(err)
	}
	want := &nomad.AutopilotConfiguration{CleanupDeadServers: true, LastContactThreshold: 200 * time.Millisecond, MaxTrailingLogs: 250, ServerStabilizationTime: 10 * time.Second}
	if d := cmp.Diff(want, c); d != "" {
		t.Error(d)
	}
	c.CleanupDeadServers, c.MinQuorum, c.LastContactThreshold = false, 3, 2*time.Second
	if ok, _, err := o.AutopilotCASConfiguration(c, nil); err != nil || !ok {
		t.Fatalf("as it was: %v, %v", ok, err)
	}
	if ok, _, err := o.AutopilotCASConfiguration(c, nil); err != nil || ok {
		t.Errorf("as it was not: %v, %v", ok, err)
	}
	now, _, err := o.AutopilotGetConfiguration(nil)
	if err != nil || now.ModifyIndex == 0 || now.CreateIndex != now.ModifyIndex {
		t.Errorf("%+v, %v", now, err)
	}
	now.CreateIndex, now.ModifyIndex = 0, 0
	if d := cmp.Diff(c, now); d != "" {
		t.Error(d)
	}
	now.LastContactThreshold = 0
	_, err = o.AutopilotSetConfiguration(now, nil)
	refused(t, "no threshold", err, 400, "LastContactThreshold: must be above 0s, got 0s")
	now.LastContactThreshold, now.EnableCustomUpgrades = time.Second, true
	_, err = o.AutopilotSetConfiguration(now, nil)
	refused(t, "what is not built", err, 400, "EnableCustomUpgrades")

	// What a body leaves out is as in a new cluster.
	req, _ := http.NewRequest("PUT", r.http+"/v1/operator/autopilot/configuration", strings.NewReader(`{"MaxTrailingLogs": 7}`))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	now, _, err = o.AutopilotGetConfiguration(nil)
	if err != nil || !now.CleanupDeadServers || now.MaxTrailingLogs != 7 || now.LastContactThreshold != 200*time.Millisecond {
		t.Errorf("%+v, %v", now, err)
	}
}

// Saved, changed, restored: the old state is there, no index fell, and agents
// and schedulers go on.
func TestSnapshotIsRestored(t *testing.T) {
	r := start(t, t.TempDir())
	n := r.node(1)
	reg := must[*nomad.JobRegisterResponse, *nomad.WriteMeta](t)
	r.settled(reg(r.api.Jobs().Register(sleeper("old", 2), nil)).EvalID)
	saved := r.save(nil)
	b, before, err := consensus.ReadBackup(bytes.NewReader(saved))
	if err != nil || b.Rows["jobs"] != 1 || before.Index != b.Index {
		t.Fatalf("%+v, %v", b, err)
	}
	r.settled(reg(r.api.Jobs().Register(sleeper("new", 2), nil)).EvalID)
	if _, _, err := r.api.Jobs().Deregister("old", true, nil); err != nil {
		t.Fatal(err)
	}
	r.until("the old job is gone", func() bool { _, _, err := r.api.Jobs().Info("old", nil); return err != nil })

	// Somebody waits for a change of the jobs, and the agent for its work.
	list, meta, err := r.api.Jobs().List(nil)
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	type seen struct {
		jobs []*nomad.JobListStub
		meta *nomad.QueryMeta
		err  error
	}
	news := make(chan seen, 1)
	go func() {
		list, meta, err := r.api.Jobs().List(&nomad.QueryOptions{WaitIndex: meta.LastIndex, WaitTime: op.MaxWait, AllowStale: true})
		news <- seen{list, meta, err}
	}()
	at := r.server.Store().Snapshot().Index
	w, err := r.api.Operator().SnapshotRestore(bytes.NewReader(saved), nil)
	if err != nil {
		t.Fatal(err)
	}
	if w.LastIndex <= at {
		t.Errorf("restored at index %d, after %d", w.LastIndex, at)
	}
	if s := <-news; s.err != nil || s.meta.LastIndex <= at || len(s.jobs) != 1 || s.jobs[0].ID != "old" {
		t.Errorf("who waited: %+v", s)
	}
	job, meta, err := r.api.Jobs().Info("old", nil)
	if err != nil || *job.Stop || meta.LastIndex <= at {
		t.Errorf("%+v, %+v, %v", job, meta, err)
	}
	if _, _, err := r.api.Jobs().Info("new", nil); err == nil {
		t.Error("what came after the snapshot is there")
	}

	// The agent goes on over the same connection, and gets its old work.
	var beat op.NodeAnswer
	n.call("Node.UpdateStatus", &op.BeatNode{NodeID: n.ID, SecretID: n.SecretID, Status: "ready"}, &beat)
	var pulled op.NodeAllocIndexesAnswer
	n.call("Node.GetClientAllocs", &op.NodeAllocIndexes{NodeID: n.ID, SecretID: n.SecretID}, &pulled)
	if len(pulled.Allocs) != 2 || beat.HeartbeatTTL <= 0 || pulled.Index <= at {
		t.Errorf("%+v, %+v", pulled, beat)
	}
	for id, version := range pulled.Allocs { // it may have seen them as they were later
		if version <= at {
			t.Errorf("allocation %s is of version %d; the state was restored after %d", id, version, at)
		}
	}
	// So do the schedulers.
	if e := r.settled(reg(r.api.Jobs().Register(sleeper("next", 1), nil)).EvalID); e.Status != "complete" || e.QueuedAllocations["g"] != 0 {
		t.Errorf("%+v", e)
	}
	r.sound()

	// What is no whole snapshot changes nothing.
	hash := r.hash(0)
	for what, bad := range map[string][]byte{
		"no snapshot": []byte("gzip"), "nothing": nil, "cut short": saved[:len(saved)-9], "damaged": append(bytes.Clone(saved[:len(saved)/2]), append([]byte{saved[len(saved)/2] ^ 1}, saved[len(saved)/2+1:]...)...),
	} {
		_, err := r.api.Operator().SnapshotRestore(bytes.NewReader(bad), nil)
		refused(t, what, err, 400, "snapshot")
	}
	if now := r.hash(hash.Index); now != hash {
		t.Errorf("the state was %+v and is %+v", hash, now)
	}
}

// Every server answers operators, whichever leads.
func TestOperatorOfThree(t *testing.T) {
	c := startSeveral(t, 3)
	ids := map[string]int{}
	for i, r := range c.list {
		ids[r.server.ID()] = i
	}
	one := c.list[c.follower()]
	for i, r := range c.list {
		conf, err := r.api.Operator().RaftGetConfiguration(nil)
		if err != nil || len(conf.Servers) != 3 {
			t.Fatalf("%+v, %v", conf, err)
		}
		for _, s := range conf.Servers {
			k := ids[s.ID]
			if s.Node != fmt.Sprintf("s%d.global", k) || s.Address != c.list[k].rpc || !s.Voter || s.Leader != (k == c.leader()) {
				t.Errorf("server %d says %+v", i, s)
			}
		}
		r.until("the servers are healthy", func() bool {
			h, _, err := r.api.Operator().AutopilotServerHealth(nil)
			return err == nil && h.Healthy && h.FailureTolerance == 1 && len(h.Servers) == 3 && len(h.Voters) == 3
		})
	}

	// Leadership goes where it is wanted, asked of a server that does not lead.
	next := c.follower()
	if err := one.api.Operator().RaftTransferLeadershipByID(c.list[next].server.ID(), nil); err != nil {
		t.Fatal(err)
	}
	one.until("the other leads", func() bool { return c.list[next].server.Leads() })

	// A snapshot is saved and restored by a follower; all have the same state.
	one = c.list[c.follower()]
	one.until("it knows who leads", func() bool { now, err := one.api.Status().Leader(); return err == nil && now == c.list[next].rpc })
	reg := must[*nomad.JobRegisterResponse, *nomad.WriteMeta](t)
	one.node(1)
	one.settled(reg(one.api.Jobs().Register(napper("old", 2), nil)).EvalID)
	saved := one.save(nil)
	if stale := one.save(&nomad.QueryOptions{AllowStale: true}); len(stale) == 0 {
		t.Error("the follower's own snapshot is empty")
	}
	last := reg(one.api.Jobs().Register(napper("new", 2), nil))
	one.settled(last.EvalID)
	w, err := one.api.Operator().SnapshotRestore(bytes.NewReader(saved), nil)
	if err != nil || w.LastIndex <= last.JobModifyIndex {
		t.Fatalf("%+v, %v", w, err)
	}
	for i, r := range c.list {
		list, _, err := r.api.Jobs().List(nil)
		if err != nil || len(list) != 1 || list[0].ID != "old" {
			t.Errorf("server %d has %+v, %v", i, list, err)
		}
	}
	one.until("all servers have the same state", func() bool {
		a := c.list[0].hash(w.LastIndex)
		return a == c.list[1].hash(a.Index) && a == c.list[2].hash(a.Index)
	})
	// A damaged one is refused by the leader, through the follower.
	_, err = one.api.Operator().SnapshotRestore(bytes.NewReader(saved[:len(saved)-1]), nil)
	refused(t, "cut short", err, 400, "snapshot")

	// A server that failed is not healthy, which is 429; it is taken out by ID.
	keep := &nomad.AutopilotConfiguration{LastContactThreshold: time.Second, MaxTrailingLogs: 1000, ServerStabilizationTime: time.Second}
	if _, err := one.api.Operator().AutopilotSetConfiguration(keep, nil); err != nil {
		t.Fatal(err)
	}
	gone := c.follower()
	id := c.list[gone].server.ID()
	c.stop(gone)
	one = c.list[c.follower()]
	one.until("a server is missed", func() bool {
		_, _, err := one.api.Operator().AutopilotServerHealth(nil)
		e, ok := err.(nomad.UnexpectedResponseError)
		return ok && e.StatusCode() == 429 && strings.Contains(e.Body(), `"SerfStatus":"failed"`)
	})
	ours, err := client.New(client.Config{Address: one.http})
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	h, _, err := client.Call(t.Context(), ours, op.ReadAutopilotHealth, op.Query{})
	if err != nil || h.Healthy || len(h.Servers) != 3 {
		t.Errorf("our client takes 429 for an answer: %+v, %v", h, err)
	}
	if err := one.api.Operator().RaftRemovePeerByID(id, nil); err != nil {
		t.Fatal(err)
	}
	after, err := one.api.Operator().RaftGetConfiguration(nil)
	if err != nil || len(after.Servers) != 2 {
		t.Errorf("%+v, %v", after, err)
	}
}

// Without a leader a stale answer is there, and no other.
func TestOperatorWithoutALeader(t *testing.T) {
	c := startSeveral(t, 3)
	c.stop(c.leader())
	c.stop(c.leaderless())
	r := c.list[c.leaderless()]
	r.until("no leader is known", func() bool {
		conf, err := r.api.Operator().RaftGetConfiguration(&nomad.QueryOptions{AllowStale: true})
		if err != nil || len(conf.Servers) != 3 {
			t.Fatalf("%+v, %v", conf, err)
		}
		for _, s := range conf.Servers {
			if s.Leader {
				return false
			}
		}
		return true
	})
	_, err := r.api.Operator().RaftGetConfiguration(nil)
	refused(t, "the configuration", err, 500, "No cluster leader")
	saved := r.save(&nomad.QueryOptions{AllowStale: true})
	_, err = r.api.Operator().SnapshotRestore(bytes.NewReader(saved), nil)
	refused(t, "a restore", err, 500, "No cluster leader")
}

//go:build faults

package terms

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"berth"
	"berth/internal/consensus"
	"berth/internal/failpoint"
	"berth/internal/server"
	"berth/internal/state"
	"berth/op"

	"github.com/hashicorp/raft"
)

// on returns an allocation of a group of the job that runs, and its agent.
func (s *streams) on(group string) (*berth.Alloc, *agent) {
	s.t.Helper()
	for a := range s.now().AllocsOf(telemetryKey) {
		if a.Group.Name != group || !a.Live() {
			continue
		}
		for _, x := range s.nodes {
			if x.ID == a.NodeID {
				return a, x
			}
		}
	}
	s.t.Fatalf("nothing of %s runs", group)
	return nil, nil
}

// R18: a node is cut off that has an allocation of a job which is deleted in the
// foreground. By force the job goes before the node is down. When that is heard
// again, its agent stops what it ran, and says so to no effect.
func TestForcedDeletion(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		s := newStreams(t, 41, 5)
		first := s.register()
		s.submitted(telemetryKey, 5, 1)
		held, cut := s.on("sink")
		cut.away.Store(true)
		s.pass(3 * time.Second) // what was on its way
		if code, text := s.remove("propagation=foreground"); code != http.StatusOK {
			t.Fatalf("%d %s", code, text)
		}
		s.pass(2 * time.Second)
		if now := s.now(); now.Job(telemetryKey) == nil || now.Blocking(telemetryKey, first) != 1 {
			t.Errorf("held by %d", now.Blocking(telemetryKey, first))
		}
		var list []op.Resource
		if err := json.Unmarshal([]byte(s.must(http.MethodGet, "/v1/resources?job=telemetry&kind=Allocation", "")), &list); err != nil {
			t.Fatal(err)
		}
		if len(list) != 1 || list[0].ID != held.ID.String() || !list[0].OwnerRefs[0].Block {
			t.Errorf("what holds it is %+v", list)
		}
		code, text := s.remove("propagation=foreground&force=true&wait=30s")
		if code != http.StatusOK || strings.Contains(text, "Deletion") {
			t.Fatalf("%d %s", code, text)
		}
		now := s.now()
		if n := now.Node(cut.ID); n.Status != berth.NodeReady {
			t.Errorf("its node is %s: that was waited for", n.Status)
		}
		if a := now.Alloc(held.ID); now.Job(telemetryKey) != nil || a.Client != berth.ClientLost || a.Rest().ClientDescription != berth.StopForced.String() {
			t.Errorf("it is %s, %s", a.Client, a.Rest().ClientDescription)
		}
		s.quiet(now, first)

		cut.away.Store(false)
		s.wait("its agent is told to stop it", func(*state.Snapshot) bool { return fmt.Sprint(cut.told(held.ID)) == "stop" })
		s.pass(5 * time.Second)
		if a := s.now().Alloc(held.ID); a.Client != berth.ClientLost {
			t.Errorf("its agent says that it is %s", a.Client)
		}
		second := s.register()
		s.recovered(s.submitted(telemetryKey, 5, 1), second, 0)
		s.quiet(s.now(), first)
	})
}

// Who deletes a job that is about to begin again is told when it has gone, as of
// any other.
func TestAUserWaitsForTheEndOfARecovery(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		s := newStreams(t, 42, 4, slowly(10*time.Second))
		s.arm("addAlloc", failpoint.After, 3, failpoint.Exit)
		first := s.register()
		s.marked(first)
		s.wait("all servers are there", func(*state.Snapshot) bool { return len(s.back) == 0 })
		code, text := s.remove("propagation=foreground")
		if code != http.StatusOK || !strings.Contains(text, `"Deletion":{`) {
			t.Errorf("%d %s", code, text)
		}
		code, text = s.remove("propagation=foreground&wait=60s")
		if code != http.StatusOK || strings.Contains(text, `"Deletion"`) || s.now().Job(telemetryKey) != nil {
			t.Errorf("%d %s", code, text)
		}
		s.gone(first)
	})
}

// installs counts the snapshots that a server sends to those behind it.
type installs struct {
	raft.Transport
	count *atomic.Int32
}

// RequestPreVote implements raft.WithPreVote.
func (x installs) RequestPreVote(id raft.ServerID, to raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	return x.Transport.(raft.WithPreVote).RequestPreVote(id, to, args, resp)
}

// Close implements raft.WithClose.
func (x installs) Close() error { return x.Transport.(raft.WithClose).Close() }

// InstallSnapshot implements raft.Transport.
func (x installs) InstallSnapshot(id raft.ServerID, to raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	x.count.Add(1)
	return x.Transport.InstallSnapshot(id, to, args, resp, data)
}

// events brings so many entries into the log, with whoever leads.
func (s *streams) events(n int) {
	s.t.Helper()
	s.wait("the log grows", func(*state.Snapshot) bool {
		if err := s.propose(&state.AddNodeEvents{ID: s.nodes[0].ID, Events: []berth.NodeEvent{{Message: "something"}}}); err == nil {
			n--
		}
		return n == 0
	})
}

// R25: a server that was away while a job was marked, and gets the state whole
// since the log is not kept for so long, knows of the mark; when it leads, it
// brings the deletion, or the recovery, to its end.
func TestAServerIsRefilledWhileAJobIsDeleted(t *testing.T) {
	for _, recovering := range []bool{false, true} {
		bubbled(t, func(t *testing.T) {
			s := newStreams(t, 43, 4, slowly(2*time.Minute))
			var sent atomic.Int32
			adjust := s.adjust
			s.adjust = func(i int, c *server.Config) {
				adjust(i, c)
				c.Consensus = consensus.Config{SnapshotEvery: 20, SnapshotInterval: time.Second, TrailingLogs: 20}
				c.Cluster.Transport = installs{c.Cluster.Transport, &sent}
			}
			for i := range s.list {
				s.halt(i)
				delete(s.seen, s.list[i].addr)
				s.start(i)
				s.pass(5 * time.Second)
			}
			if recovering {
				s.arm("addAlloc", failpoint.After, 3, failpoint.Exit)
			}
			first := s.register()
			if recovering {
				s.marked(first)
				s.wait("all servers are there", func(*state.Snapshot) bool { return len(s.back) == 0 })
			} else {
				s.submitted(telemetryKey, 5, 1)
			}
			away := (s.leader() + 1) % len(s.list)
			s.halt(away)
			delete(s.seen, s.list[away].addr)
			if !recovering {
				if code, text := s.remove("propagation=foreground"); code != http.StatusOK {
					t.Fatalf("%d %s", code, text)
				}
			}
			before := sent.Load()
			s.events(100)
			s.pass(10 * time.Second)
			s.start(away)
			s.wait("it has caught up", func(now *state.Snapshot) bool { return s.list[away].Store().Snapshot().Index >= now.Index })
			if sent.Load() == before {
				t.Error("it was not sent the state whole")
			}
			if d := s.list[away].Store().Snapshot().Deletion(telemetryKey); d == nil || d.UID != first {
				t.Fatalf("of the deletion it knows %+v", d)
			}
			if s.leader() != away { // which it does for certain if the third falls behind
				third := 3 - s.leader() - away
				s.raft.Split([]string{s.list[third].addr}, []string{s.list[away].addr, s.list[s.leader()].addr})
				s.events(1)
				s.depose(handed, nothing)
				s.raft.Heal()
			}
			if s.leader() != away {
				t.Fatal("it does not lead")
			}
			if s.now().Deletion(telemetryKey) == nil {
				t.Fatal("it was over before")
			}
			if recovering {
				s.waitFor("it is submitted anew", 5*time.Minute, func(now *state.Snapshot) bool {
					row := now.StreamOf(telemetryKey)
					return row != nil && row.UID != first && row.Phase == berth.PhaseSubmitted
				})
				s.recovered(s.submitted(telemetryKey, 5, 1), first, 1)
			} else {
				s.waitFor("it is gone", 5*time.Minute, func(now *state.Snapshot) bool { return now.Job(telemetryKey) == nil })
			}
			s.quiet(s.now(), first)
			lead := s.now()
			s.wait("all have the same", func(now *state.Snapshot) bool {
				for _, x := range s.list {
					if at := x.Store().Snapshot(); at.Index != now.Index || at.Hash() != now.Hash() {
						return false
					}
				}
				return now.Index >= lead.Index
			})
		})
	}
}

// R22: what waits for a node that an exclusive pool keeps is placed when the pool
// has gone, though that goes after all that ran there.
func TestAPoolSetsItsNodesFree(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		s := newStreams(t, 44, 2)
		alone := []string{`"Size":2`, `"Size":2,"Mode":"exclusive"`, `"Placement":{"Colocate":["hot"]}`, `"Placement":{"Pool":"edge"}`, `"Placement":{"Isolated":true}`, `"Placement":{"Pool":"edge"}`}
		s.register(alone...)
		s.submitted(telemetryKey, 5, 1)
		other := `{"Job":{"ID":"other","Type":"stream","Datacenters":["dc1"],"Stream":{},"TaskGroups":[{"Name":"g","Stream":{},"Tasks":[
			{"Name":"t","Driver":"raw_exec","Config":{"command":"x"},"Resources":{"CPU":10,"MemoryMB":10}}]}]}}`
		s.must(http.MethodPut, "/v1/jobs", other)
		key := berth.JobKey{Namespace: berth.DefaultNamespace, ID: "other"}
		s.wait("it waits", func(now *state.Snapshot) bool {
			for range now.OpenEvalsOf(key, berth.EvalBlocked) {
				return true
			}
			return false
		})
		s.pass(5 * time.Second)
		if code, text := s.remove("propagation=foreground"); code != http.StatusOK {
			t.Fatalf("%d %s", code, text)
		}
		s.submitted(key, 1, 1)
	})
}

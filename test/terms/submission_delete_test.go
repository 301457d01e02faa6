package terms

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"berth"
	"berth/internal/failpoint"
	"berth/state"
)

// marked waits until the job is marked to begin anew.
func (s *streams) marked(uid berth.UID) {
	s.t.Helper()
	s.wait("it is marked", func(now *state.Snapshot) bool {
		d := now.Deletion(telemetryKey)
		return d != nil && d.UID == uid && d.Deletion.Intent == berth.IntentRecover
	})
}

// gone waits until there is no job, and sees that there is none for a minute,
// across a change of leader.
func (s *streams) gone(uid berth.UID) {
	s.t.Helper()
	s.wait("it is gone", func(now *state.Snapshot) bool { return now.Job(telemetryKey) == nil && now.StreamJob(uid) == nil })
	for n := range 2 {
		for range 30 {
			s.pass(time.Second)
			if i := s.lead(); i >= 0 && s.list[i].Store().Snapshot().Job(telemetryKey) != nil {
				s.t.Fatal("the job is back")
			}
		}
		if n == 0 {
			s.depose(handed, nothing)
		}
	}
	s.quiet(s.now(), uid)
	for id, owner := range s.ever {
		if owner != uid {
			s.t.Errorf("allocation %s is of %v", id, owner)
		}
	}
}

// leaderIsLost stops the leader, and starts it again.
func (s *streams) leaderIsLost() {
	i := s.leader()
	s.halt(i)
	delete(s.seen, s.list[i].addr)
	s.back[i] = time.Now().Add(restart)
}

func (s *streams) remove(query string) (int, string) {
	return s.do(s.any(), http.MethodDelete, "/v1/job/telemetry?purge=true&"+query, "")
}

// S3: what was reported and launched in the incarnation that is given up is not
// seen in the next.
func TestS3StaleStateDoesNotLeak(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		s := newStreams(t, 3, 4)
		s.arm("addAlloc", failpoint.Before, 4, failpoint.Hang)
		first := s.register()
		var stopped *berth.Alloc
		s.wait("three run", func(now *state.Snapshot) bool {
			n := 0
			for a := range now.AllocsOf(telemetryKey) {
				if a.Client == berth.ClientRunning {
					n++
					stopped = a
				}
			}
			return n == 3
		})
		s.must(http.MethodPut, "/v1/allocation/"+stopped.ID.String()+"/stop", "")
		for a := range s.now().AllocsOf(telemetryKey) {
			if a.ID != stopped.ID && a.Live() {
				if err := s.propose(&state.SetConnectivity{Alloc: a.ID, PE: a.Rest().PE.UID, Launch: a.Rest().PE.Launch, State: berth.ConnectivityFull, Now: 1}); err != nil {
					t.Error(err)
				}
			}
		}
		s.pass(time.Second)
		s.leaderIsLost()
		s.wait("another incarnation", func(now *state.Snapshot) bool {
			j := now.Job(telemetryKey)
			if j == nil || j.UID == first {
				return false
			}
			for pe := range now.ResourcesOf(j.UID, berth.KindPE) {
				if pe.PE.Launch > 1 || pe.PE.Connectivity != berth.ConnectivityNone {
					t.Errorf("%s: %+v", pe.Name, pe.PE)
				}
			}
			row := now.StreamOf(telemetryKey)
			return row.Phase == berth.PhaseSubmitted
		})
		s.recovered(s.submitted(telemetryKey, 5, 1), first, 1)
	})
}

// propose proposes a command at the leader, as who is not its own.
func (s *streams) propose(c state.Command) error {
	l, err := s.list[s.leader()].Leader()
	if err != nil {
		return err
	}
	_, err = l.Propose(s.t.Context(), c)
	return err
}

// S8: a user deletes the job while it is recovered. Nothing follows it.
func TestS8UserDeletesDuringRecovery(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		s := newStreams(t, 8, 4, slowly(10*time.Second))
		s.arm("addAlloc", failpoint.After, 3, failpoint.Exit)
		first := s.register()
		s.marked(first)
		if code, text := s.remove("propagation=foreground&uid=" + first.Text('j')); code != http.StatusOK {
			t.Fatalf("%d %s", code, text)
		}
		if d := s.now().Deletion(telemetryKey); d == nil || d.Deletion.Intent != berth.IntentUser {
			t.Errorf("%+v", d)
		}
		s.gone(first)
	})
}

// S9: what a user deletes in the foreground during its submission is not taken
// for something to recover.
func TestS9ForegroundDeleteIsNoRecovery(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		s := newStreams(t, 9, 4)
		s.arm("addPes", failpoint.After, 1, failpoint.Hang)
		first := s.register()
		s.wait("the processing elements are there", func(now *state.Snapshot) bool {
			return now.ResourceNamed(first, berth.KindPE, "telemetry.sink[0]") != nil
		})
		if code, text := s.remove("propagation=foreground"); code != http.StatusOK {
			t.Fatalf("%d %s", code, text)
		}
		s.leaderIsLost()
		s.gone(first)
	})
}

// S10: a deletion that names the incarnation before is refused, and says which
// there is.
func TestS10DeleteWithAnOldUID(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		s := newStreams(t, 10, 4)
		s.arm("addAlloc", failpoint.After, 3, failpoint.Exit)
		first := s.register()
		row := s.submitted(telemetryKey, 5, 1)
		s.recovered(row, first, 1)
		code, text := s.remove("uid=" + first.Text('j'))
		if code != http.StatusConflict || !strings.Contains(text, "uid-mismatch") || !strings.Contains(text, row.UID.Text('j')) {
			t.Errorf("%d %s", code, text)
		}
		if now := s.submitted(telemetryKey, 5, 1); now.ModifyIndex != row.ModifyIndex {
			t.Errorf("%+v after %+v", now, row)
		}
	})
}

// S11: a leader that is cut off with a placement in hand. When it is back, what
// it decided reaches nothing.
func TestS11DeposedLeader(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		s := newStreams(t, 11, 4)
		old := s.leader()
		s.arm("addAlloc", failpoint.Before, 4, failpoint.Hang)
		first := s.register()
		s.wait("three are placed", func(now *state.Snapshot) bool {
			n := 0
			for range now.AllocsOf(telemetryKey) {
				n++
			}
			return n == 3
		})
		term := s.now().Term
		pe := s.now().ResourceNamed(first, berth.KindPE, "telemetry.source[0]")
		x := s.list[old].addr
		var others []string
		for _, a := range s.servers {
			if a != x {
				others = append(others, a)
			}
		}
		s.raft.Split([]string{x}, others)
		row := s.submitted(telemetryKey, 5, 1)
		s.recovered(row, first, 1)
		s.raft.Heal()
		s.armAt(old, "addAlloc", failpoint.Before, 1, failpoint.Off)
		s.pass(10 * time.Second)
		s.submitted(telemetryKey, 5, 1)
		s.quiet(s.now(), first)
		for code, c := range map[string]state.Command{
			"stale-epoch":      &state.LaunchPE{ByLeader: state.ByLeader{Term: term}, PE: pe.UID, Expect: 1},
			"owner-missing":    &state.EnsureResources{Key: telemetryKey, UID: first, Kind: berth.KindPE, Names: []string{pe.Name}},
			"stale-generation": &state.CompleteSubmission{Key: telemetryKey, UID: row.UID, Generation: 7},
		} {
			if err := s.propose(c); err == nil || !strings.Contains(err.Error(), code) {
				t.Errorf("want %s; it is %v", code, err)
			}
		}
	})
}

// S13: what is deleted in the foreground is there until the last of what it owns
// has ended; in the background it is gone at once, and its name is free.
func TestS13ForegroundAndBackground(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		s := newStreams(t, 13, 4, slowly(5*time.Second))
		first := s.register()
		s.submitted(telemetryKey, 5, 1)
		if code, text := s.remove("propagation=foreground"); code != http.StatusOK {
			t.Fatalf("%d %s", code, text)
		}
		code, text := s.do(s.any(), http.MethodPut, "/v1/jobs", telemetry())
		if code != http.StatusConflict || !strings.Contains(text, "deleting") {
			t.Errorf("registered again while it is deleted: %d %s", code, text)
		}
		s.wait("it is gone", func(now *state.Snapshot) bool {
			ended := 0
			for a := range now.AllocsOf(telemetryKey) {
				if a.Ended() {
					ended++
				}
			}
			switch j := now.Job(telemetryKey); {
			case j == nil && ended < 5:
				t.Fatalf("it is gone, and %d of its allocations have ended", ended)
			case j != nil:
				return false
			}
			return true
		})
		s.quiet(s.now(), first)

		second := s.register()
		s.submitted(telemetryKey, 5, 1)
		if code, text := s.remove("propagation=background"); code != http.StatusOK {
			t.Fatalf("%d %s", code, text)
		}
		now := s.now()
		if now.Job(telemetryKey) != nil || now.Dependents(second) == 0 {
			t.Errorf("deleted in the background: job %v, %d dependents", now.Job(telemetryKey), now.Dependents(second))
		}
		old := map[berth.UID]bool{}
		for pe := range now.ResourcesOf(second, berth.KindPE) {
			old[pe.UID] = true
		}
		third := s.register()
		row := s.submitted(telemetryKey, 5, 1)
		if third == second || row.UID != third {
			t.Errorf("%v follows %v", third, second)
		}
		for pe := range s.now().ResourcesOf(third, berth.KindPE) {
			if old[pe.UID] {
				t.Errorf("%s was there before", pe.Name)
			}
		}
		s.wait("nothing of the second is left", func(now *state.Snapshot) bool { return now.StreamJob(second) == nil })
		s.quiet(s.now(), second)
	})
}

// S14: what is left to itself runs on, and nobody does anything for it.
func TestS14Orphan(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		s := newStreams(t, 14, 6)
		first := s.register()
		s.submitted(telemetryKey, 5, 1)
		if code, text := s.remove("propagation=orphan"); code != http.StatusOK {
			t.Fatalf("%d %s", code, text)
		}
		s.pass(10 * time.Second)
		now := s.now()
		var left []*berth.Alloc
		for a := range now.Allocs() {
			if a.Orphaned && a.Client == berth.ClientRunning && a.Wanted() {
				left = append(left, a)
			}
		}
		pes := 0
		var pe *berth.Resource
		for r := range now.OrphanedResources() {
			if r.Kind == berth.KindPE {
				pes++
				pe = r
			}
		}
		if now.Job(telemetryKey) != nil || now.StreamJob(first) != nil || len(left) != 5 || pes != 5 {
			t.Fatalf("%d allocations and %d processing elements are left", len(left), pes)
		}
		var victim *berth.Alloc
		for _, a := range left {
			if a.Rest().PE.UID != pe.UID {
				victim = a
			}
		}
		s.must(http.MethodPut, "/v1/allocation/"+victim.ID.String()+"/stop", "")
		s.wait("it is stopped", func(now *state.Snapshot) bool { return now.Alloc(victim.ID).Ended() })
		s.pass(10 * time.Second)
		if n := s.now().Count(state.Allocs); n != 5 {
			t.Errorf("there are %d allocations", n)
		}
		second := s.register()
		s.submitted(telemetryKey, 5, 1)
		if second == first {
			t.Error("the same incarnation")
		}
		if code, text := s.do(s.any(), http.MethodDelete, "/v1/resource/"+pe.UID.Text('p'), ""); code != http.StatusOK {
			t.Errorf("%d %s", code, text)
		}
		s.wait("what ran of it is stopped", func(now *state.Snapshot) bool {
			for a := range now.AllocsOfPE(pe) {
				if !a.Ended() {
					return false
				}
			}
			return true
		})
	})
}

// S17: a user stops an allocation, and deletes a processing element, of a job
// that is recovered: nothing is made for it.
func TestS17VoluntaryDeletionWhileRecovering(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		s := newStreams(t, 17, 4, slowly(10*time.Second))
		s.arm("addAlloc", failpoint.After, 3, failpoint.Exit)
		first := s.register()
		s.marked(first)
		var live *berth.Alloc
		for a := range s.now().AllocsOf(telemetryKey) {
			if !a.Ended() {
				live = a
			}
		}
		s.must(http.MethodPut, "/v1/allocation/"+live.ID.String()+"/stop", "")
		if r := s.now().Resource(live.Rest().PE.UID); r != nil {
			if code, text := s.do(s.any(), http.MethodDelete, "/v1/resource/"+r.UID.Text('p'), ""); code != http.StatusOK {
				t.Errorf("%d %s", code, text)
			}
		}
		row := s.submitted(telemetryKey, 5, 1)
		s.recovered(row, first, 1)
		s.quiet(s.now(), first)
	})
}

// S26: a node is cut off that has an allocation of a job that is deleted in the
// foreground. The job waits until the node is down; when that is back, its agent
// stops what it ran.
func TestS26UnreachableClient(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		s := newStreams(t, 26, 4)
		first := s.register()
		s.submitted(telemetryKey, 5, 1)
		var cut *agent
		var held *berth.Alloc
		for a := range s.now().AllocsOf(telemetryKey) {
			if a.Group.Name == "sink" {
				held = a
			}
		}
		for _, x := range s.nodes {
			if x.ID == held.NodeID {
				cut = x
			}
		}
		cut.away.Store(true)
		s.pass(3 * time.Second) // what was on its way
		if code, text := s.remove("propagation=foreground"); code != http.StatusOK {
			t.Fatalf("%d %s", code, text)
		}
		s.pass(5 * time.Second)
		if now := s.now(); now.Job(telemetryKey) == nil || now.Blocking(telemetryKey, first) != 1 {
			t.Errorf("held by %d", now.Blocking(telemetryKey, first))
		}
		s.waitFor("it is gone", 5*time.Minute, func(now *state.Snapshot) bool { return now.Job(telemetryKey) == nil })
		if a := s.now().Alloc(held.ID); a.Client != berth.ClientLost {
			t.Errorf("it is %s", a.Client)
		}
		s.quiet(s.now(), first)
		cut.away.Store(false)
		s.pass(5 * time.Second)
		if got := fmt.Sprint(cut.told(held.ID)); got != "stop" {
			t.Errorf("its agent was told %s", got)
		}
		err := s.propose(&state.SetConnectivity{Alloc: held.ID, PE: held.Rest().PE.UID, Launch: 1, State: berth.ConnectivityFull})
		if err == nil || !strings.Contains(err.Error(), "stale-launch") {
			t.Errorf("its report: %v", err)
		}
	})
}

//go:build faults

package terms

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"berth"
	"berth/internal/failpoint"
	"berth/internal/state"
	"berth/op"
)

// marked waits until the job is marked to begin again.
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
	s.went(uid, "")
	if next := s.jobs("Added", s.record.Index("Added", uid.Text('j'))); len(next) > 0 {
		s.t.Errorf("it was followed by %q", next)
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
		s.wait("what was stopped is launched again", func(now *state.Snapshot) bool {
			pe := now.Resource(stopped.Rest().PE.UID)
			return pe.PE.Launch == 2 && pe.PE.Connectivity == berth.ConnectivityNone
		})
		full, old := 0, map[string]bool{}
		for pe := range s.now().ResourcesOf(first, berth.KindPE) {
			if pe.PE.Connectivity == berth.ConnectivityFull {
				full++
			}
			for _, addr := range s.addrs(pe.Name) {
				old[addr] = true
			}
		}
		if delete(old, ""); full != 2 || len(old) == 0 {
			t.Errorf("%d are full, their files lead to %v", full, old)
		}
		leaks := func(now *state.Snapshot, uid berth.UID) {
			for pe := range now.ResourcesOf(uid, berth.KindPE) {
				for _, addr := range s.addrs(pe.Name) {
					if old[addr] && !s.runsAt(now, uid, addr) {
						t.Errorf("%s leads to %s, which was before", pe.Name, addr)
					}
				}
			}
		}
		s.leaderIsLost()
		var looked uint64
		s.wait("another incarnation", func(now *state.Snapshot) bool {
			j := now.Job(telemetryKey)
			if j != nil && j.UID != first && now.LastChange(state.Allocs) > looked {
				looked = now.LastChange(state.Allocs)
				leaks(now, j.UID)
			}
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
		row := s.submitted(telemetryKey, 5, 1)
		s.recovered(row, first, 1)
		leaks(s.now(), row.UID)
	})
}

// addrs are where the file of a processing element leads to; "" is nowhere yet.
func (s *streams) addrs(pe string) (out []string) {
	s.t.Helper()
	code, text := s.do(s.any(), http.MethodGet, "/v1/stream/pe/"+url.PathEscape(pe)+"/connectivity-file", "")
	if code != http.StatusOK { // the element has gone meanwhile
		return nil
	}
	var d op.ConnectivityFile
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		s.t.Fatal(err)
	}
	for _, o := range d.Outputs {
		for _, to := range o.To {
			out = append(out, to.Addr)
		}
	}
	return out
}

// runsAt reports whether an allocation of an incarnation listens at an address.
func (s *streams) runsAt(now *state.Snapshot, uid berth.UID, addr string) bool {
	for a := range now.AllocsOf(telemetryKey) {
		if a.Job.UID != uid {
			continue
		}
		for _, m := range a.PortMappings(now.Node(a.NodeID)) {
			if net.JoinHostPort(m.HostIP, strconv.Itoa(m.Value)) == addr {
				return true
			}
		}
	}
	return false
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
		w := ask(s.any(), http.MethodPut, "/v1/jobs", telemetry())
		if w.Code != http.StatusConflict || !strings.HasPrefix(w.Body.String(), "deleting:") || w.Header().Get(op.HeaderCode) != string(berth.CodeDeleting) || w.Header().Get("Retry-After") == "" {
			t.Errorf("registered again while it is deleted: %d %s %v", w.Code, w.Body, w.Header())
		}
		s.wait("it is gone", func(now *state.Snapshot) bool {
			code, text := s.do(s.any(), http.MethodGet, "/v1/job/telemetry", "")
			if code == http.StatusOK && !strings.Contains(text, `"Deletion":{"Policy":"foreground","Intent":"user"`) {
				t.Errorf("it is being deleted, and said to be %s", text)
			}
			ended := 0
			for a := range s.now().AllocsOf(telemetryKey) {
				if a.Ended() {
					ended++
				}
			}
			if code == http.StatusNotFound && ended < 5 {
				t.Fatalf("it is gone, and %d of its allocations have ended", ended)
			}
			return code == http.StatusNotFound
		})
		s.quiet(s.now(), first)
		s.went(first, "")

		second := s.register()
		s.submitted(telemetryKey, 5, 1)
		if code, text := s.remove("propagation=background"); code != http.StatusOK {
			t.Fatalf("%d %s", code, text)
		}
		now := s.now()
		if now.Job(telemetryKey) != nil || now.Dependents(second) == 0 {
			t.Errorf("deleted in the background: job %v, %d dependents", now.Job(telemetryKey), now.Dependents(second))
		}
		if code, text := s.do(s.any(), http.MethodGet, "/v1/job/telemetry", ""); code != http.StatusNotFound {
			t.Errorf("%d %s", code, text)
		}
		var left []op.Resource
		s.read("/v1/resources?recursive=true&owner="+second.Text('j'), &left)
		count := map[string]int{}
		for _, r := range left {
			count[r.Kind+" "+r.Status]++
		}
		if count[berth.KindPE+" none"] == 0 || count[berth.KindAlloc+" running"] == 0 {
			t.Errorf("it left %v", count)
		}
		old := map[berth.UID]bool{}
		for pe := range now.ResourcesOf(second, berth.KindPE) {
			old[pe.UID] = true
		}
		third := s.register()
		s.dangling = true
		row := s.submitted(telemetryKey, 5, 1)
		s.dangling = false
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
		if s.read("/v1/resources?recursive=true&owner="+second.Text('j'), &left); len(left) > 0 {
			t.Errorf("listed are %+v", left)
		}
	})
}

// S14: what is left to itself runs on, and nobody does anything for it.
func TestS14Orphan(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		s := newStreams(t, 14, 6)
		s.must(http.MethodPut, "/v1/jobs", alerts())
		s.submitted(alertsKey, 1, 1)
		first := s.register()
		s.submitted(telemetryKey, 5, 1)
		s.wantRoutes("before", all...)
		if code, text := s.remove("propagation=orphan"); code != http.StatusOK {
			t.Fatalf("%d %s", code, text)
		}
		s.wantRoutes("of orphans")
		if code, text := s.do(s.any(), http.MethodGet, "/v1/job/telemetry", ""); code != http.StatusNotFound {
			t.Errorf("%d %s", code, text)
		}
		s.pass(10 * time.Second)
		var listed []op.Resource
		s.read("/v1/resources?orphaned=true", &listed)
		count := map[string]int{}
		for _, r := range listed {
			if count[r.Kind]++; !r.Orphaned || r.Kind == berth.KindPE && len(r.OwnerRefs) > 0 || r.Kind == berth.KindAlloc && (len(r.OwnerRefs) != 1 || r.Status != "running") {
				t.Errorf("%+v", r)
			}
		}
		if count[berth.KindPE] != 5 || count[berth.KindAlloc] != 5 {
			t.Errorf("listed are %v", count)
		}
		now := s.now()
		before := map[berth.UID]bool{}
		for r := range now.OrphanedResources() {
			before[r.UID] = true
		}
		var left []*berth.Alloc
		for a := range now.Allocs() {
			if a.Orphaned && a.Client == berth.ClientRunning && a.Wanted() {
				left = append(left, a)
			}
		}
		pes := 0
		var pe *berth.Object
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
		if n := s.now().Count(state.Allocs); n != 6 { // that of alerts is the sixth
			t.Errorf("there are %d allocations", n)
		}
		second := s.register()
		s.submitted(telemetryKey, 5, 1)
		if second == first {
			t.Error("the same incarnation")
		}
		for r := range s.now().ResourcesOf(second, "") {
			if before[r.UID] {
				t.Errorf("%s %s was there before", r.Kind, r.Name)
			}
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
		mark := s.now().Deletion(telemetryKey).Deletion.RequestIndex
		s.must(http.MethodPut, "/v1/allocation/"+live.ID.String()+"/stop", "")
		s.must(http.MethodDelete, "/v1/resource/"+live.Rest().PE.UID.Text('p'), "")
		row := s.submitted(telemetryKey, 5, 1)
		s.recovered(row, first, 1)
		s.quiet(s.now(), first)
		if made := s.told().Made(first.Text('j'), mark); len(made) > 0 {
			t.Errorf("made after the mark: %v", made)
		}
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
		if text := s.must(http.MethodGet, "/v1/stream/job/telemetry/tree", ""); !strings.Contains(text, held.ID.String()) || !strings.Contains(text, `"Deleting":true`) {
			t.Errorf("the tree does not name %s: %s", held.ID, text)
		}
		if text := s.must(http.MethodGet, "/v1/job/telemetry", ""); !strings.Contains(text, `"Deletion":{"Policy":"foreground"`) {
			t.Errorf("%s", text)
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

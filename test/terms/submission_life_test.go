//go:build faults

package terms

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"berth"
	"berth/internal/failpoint"
	"berth/internal/state"
	streamjobs "berth/internal/streams"
	"berth/internal/streams/submit"
	"berth/op"
)

// pe returns a processing element of the job by the end of its name.
func (s *streams) pe(now *state.Snapshot, name string) *berth.Object {
	s.t.Helper()
	row := now.StreamOf(telemetryKey)
	if row == nil {
		s.t.Fatal("there is no job")
		return nil
	}
	r := now.ResourceNamed(row.UID, berth.KindPE, "telemetry."+name)
	if r == nil {
		s.t.Fatalf("there is no %s", name)
	}
	return r
}

// runs returns what a processing element runs, nil if it runs nothing.
func runs(now *state.Snapshot, pe *berth.Object) *berth.Alloc {
	for a := range now.AllocsOfPE(pe) {
		if a.Live() {
			return a
		}
	}
	return nil
}

// S16: a user stops an allocation of a job that runs: the same processing
// element is launched once more, and placed when the old one has ended.
func TestS16VoluntaryStop(t *testing.T) {
	for _, restart := range []bool{true, false} {
		bubbled(t, func(t *testing.T) {
			s := newStreams(t, 16, 4, slowly(4*time.Second))
			first := s.register(`"Colocate":["hot"]}`, fmt.Sprintf(`"Colocate":["hot"]},"Policy":{"RestartDeleted":%t}`, restart))
			row := s.submitted(telemetryKey, 5, 1)
			pe := s.pe(s.now(), "transform[1]")
			old := runs(s.now(), pe)
			for a := range s.now().AllocsOf(telemetryKey) {
				if err := s.propose(&state.SetConnectivity{Alloc: a.ID, PE: a.Rest().PE.UID, Launch: 1, State: berth.ConnectivityFull}); err != nil {
					t.Fatal(err)
				}
			}
			s.wantReady(true)
			peer := s.nodeOf(runs(s.now(), s.pe(s.now(), "source[0]")).NodeID)
			file := s.pull(peer, "source[0]", op.ConnectivityAnswer{})
			was := leadsTo(&file, "telemetry.transform[1]")
			s.must(http.MethodPut, "/v1/allocation/"+old.ID.String()+"/stop", "")
			s.waitFor("the old one has ended, and the new one runs", time.Minute, func(now *state.Snapshot) bool {
				x := runs(now, s.pe(now, "transform[1]"))
				if x != nil && x.ID != old.ID && !now.Alloc(old.ID).Ended() {
					t.Errorf("%s is placed, and what was before has not ended", x.Name())
				}
				if !restart {
					return now.Alloc(old.ID).Ended()
				}
				return x != nil && x.ID != old.ID && x.Client == berth.ClientRunning
			})
			s.pass(5 * time.Second)
			now := s.now()
			is := s.pe(now, "transform[1]")
			s.wantReady(false)
			next := s.pull(peer, "source[0]", file)
			to := leadsTo(&next, is.Name)
			switch {
			case next.Index <= file.Index || next.Mark == file.Mark:
				t.Errorf("its peer is told nothing newer: %+v", next)
			case restart && (to.Addr == "" || to.Addr == was.Addr || to.LaunchCount != 2):
				t.Errorf("its peer is told %+v after %+v", to, was)
			case !restart && to.Addr != "":
				t.Errorf("its peer is told %+v, and it does not run", to)
			}
			s.wantPhases(first, "plan 0", "complete 0")
			if got := s.told().Connectivity(pe.UID.Text('p')); restart && !slices.Equal(got, []string{"none", "full", "none"}) {
				t.Errorf("its connectivity was %q", got)
			}
			want := uint64(1)
			if restart {
				want = 2
				if is.PE.Connectivity != berth.ConnectivityNone {
					t.Errorf("its connectivity is %s", is.PE.Connectivity)
				}
			} else if runs(now, is) != nil {
				t.Error("it runs")
			}
			after := now.StreamOf(telemetryKey)
			if is.UID != pe.UID || is.PE.Launch != want || after.UID != first || after.Phase != berth.PhaseSubmitted || after.Generation != row.Generation {
				t.Errorf("%+v, %+v", is.PE, after)
			}
		})
	}
}

func (s *streams) wantReady(want bool) {
	s.t.Helper()
	var v op.StreamStanding
	if s.read("/v1/stream/job/telemetry", &v); v.Ready != want || v.Phase != berth.PhaseSubmitted {
		s.t.Errorf("want ready %t: %+v", want, v)
	}
}

func (s *streams) nodeOf(id berth.NodeID) *agent {
	return s.nodes[slices.IndexFunc(s.nodes, func(a *agent) bool { return a.ID == id })]
}

// pull asks as the agent of a processing element does what that is connected
// with, when it has an answer already.
func (s *streams) pull(a *agent, name string, have op.ConnectivityAnswer) (out op.ConnectivityAnswer) {
	s.t.Helper()
	session, err := a.dialer.Dial(s.life, a.servers[s.leader()])
	if err != nil {
		s.t.Fatal(err)
	}
	defer session.Close()
	in := op.ConnectivityQuery{NodeID: a.ID, SecretID: a.SecretID, AllocID: runs(s.now(), s.pe(s.now(), name)).ID, Have: have.Mark}
	in.MinQueryIndex, in.MaxQueryTime = have.Index, time.Second
	if err := session.Call(s.life, op.PullConnectivity.RPC, &in, &out); err != nil {
		s.t.Fatal(err)
	}
	return out
}

// leadsTo returns the end of an answer that is at a processing element.
func leadsTo(a *op.ConnectivityAnswer, pe string) streamjobs.DocumentTarget {
	for _, o := range a.File.Outputs {
		for _, to := range o.To {
			if to.PE == pe {
				return to
			}
		}
	}
	return streamjobs.DocumentTarget{}
}

// S18: what ends is launched again as its policy says; what is drained is,
// whatever that says.
func TestS18RestartPolicies(t *testing.T) {
	for _, x := range []struct {
		status berth.ClientStatus
		policy string
		again  bool
	}{
		{berth.ClientFailed, `"RestartFailed":true`, true}, {berth.ClientFailed, `"RestartFailed":false`, false},
		{berth.ClientComplete, `"RestartCompleted":true`, true}, {berth.ClientComplete, `"RestartCompleted":false`, false},
	} {
		bubbled(t, func(t *testing.T) {
			var mu sync.Mutex
			var ends berth.AllocID
			s := newStreams(t, 18, 4, func(a *agent) {
				a.says = func(_ string, id berth.AllocID, status berth.ClientStatus) (berth.ClientStatus, bool) {
					mu.Lock()
					defer mu.Unlock()
					if id == ends {
						return x.status, true
					}
					return status, true
				}
			})
			s.register(`"Isolated":true}`, `"Isolated":true},"Policy":{`+x.policy+`}`)
			s.submitted(telemetryKey, 5, 1)
			old := runs(s.now(), s.pe(s.now(), "sink[0]"))
			mu.Lock()
			ends = old.ID
			mu.Unlock()
			s.pass(20 * time.Second)
			pe := s.pe(s.now(), "sink[0]")
			if a := s.now().Alloc(old.ID); a.Client != x.status {
				t.Fatalf("it is %s", a.Client)
			}
			if again := runs(s.now(), pe) != nil && pe.PE.Launch == 2; again != x.again {
				t.Errorf("%s with %s: launched %d times", x.status, x.policy, pe.PE.Launch)
			}
		})
	}
	bubbled(t, func(t *testing.T) {
		s := newStreams(t, 18, 5)
		s.register(`"Isolated":true}`, `"Isolated":true},"Policy":{"RestartFailed":false,"RestartDeleted":false}`)
		s.submitted(telemetryKey, 5, 1)
		old := runs(s.now(), s.pe(s.now(), "sink[0]"))
		s.must(http.MethodPut, "/v1/node/"+old.NodeID.String()+"/drain", `{"DrainSpec":{"Deadline":3600000000000}}`)
		s.wait("it runs elsewhere", func(now *state.Snapshot) bool {
			a := runs(now, s.pe(now, "sink[0]"))
			return a != nil && a.NodeID != old.NodeID && a.Client == berth.ClientRunning && s.pe(now, "sink[0]").PE.Launch == 2
		})
		s.wait("the drain is over", func(now *state.Snapshot) bool { return now.Node(old.NodeID).DrainStrategy == nil })
	})
}

// S18: with delete_failed = false what failed stays listed as zombie beside what
// follows it, and counts for nothing; it outlives garbage collection, but for
// those of long ago, until its processing element is gone.
func TestS18Zombies(t *testing.T) {
	for _, keep := range []bool{true, false} {
		bubbled(t, func(t *testing.T) {
			var mu sync.Mutex
			failing := false
			s := newStreams(t, 18, 4, func(a *agent) {
				a.says = func(name string, _ berth.AllocID, status berth.ClientStatus) (berth.ClientStatus, bool) {
					mu.Lock()
					defer mu.Unlock()
					if failing && name == "telemetry.sink[0]" {
						return berth.ClientFailed, true
					}
					return status, true
				}
			})
			s.register(`"Isolated":true}`, fmt.Sprintf(`"Isolated":true},"Policy":{"DeleteFailed":%t}`, !keep))
			s.submitted(telemetryKey, 5, 1)
			mu.Lock()
			failing = true
			mu.Unlock()
			sink := s.pe(s.now(), "sink[0]")
			s.must(http.MethodPut, "/v1/allocation/"+runs(s.now(), sink).ID.String()+"/stop", "") // what follows fails
			s.waitFor("it was launched again and again", 10*time.Minute, func(now *state.Snapshot) bool { return s.pe(now, "sink[0]").PE.Launch > state.MaxZombies+3 })
			mu.Lock()
			failing = false
			mu.Unlock()
			s.waitFor("it runs", 2*time.Minute, func(now *state.Snapshot) bool { return runs(now, s.pe(now, "sink[0]")) != nil })
			row := s.submitted(telemetryKey, 5, 0)
			if p := submit.Position(s.now(), row); len(p.Missing)+len(p.Stale) > 0 || p.Observed[berth.KindAlloc] != 5 || p.Expected[berth.KindAlloc] != 5 {
				t.Errorf("%+v", p)
			}
			s.must(http.MethodPut, "/v1/system/gc", "")
			s.pass(5 * time.Second)
			var pe op.PE
			s.read("/v1/stream/pe/"+url.PathEscape(sink.Name), &pe)
			want := 0
			if keep {
				want = state.MaxZombies
			}
			if len(pe.Zombies) != want || pe.Allocation == nil || pe.Allocation.ClientStatus != berth.ClientRunning {
				t.Fatalf("%d zombies are listed, want %d: %+v", len(pe.Zombies), want, pe)
			}
			for i, z := range pe.Zombies {
				var a op.Alloc
				s.read("/v1/allocation/"+z.ID.String(), &a)
				if z.ClientStatus != berth.ClientFailed || z.LaunchCount+uint64(i)+1 != pe.LaunchCount || !a.PE.Zombie || a.OwnerRefs[0].UID != pe.UID || a.OwnerRefs[0].Block {
					t.Errorf("%+v of %+v", z, a.OwnerRefs)
				}
			}
			var owned []op.Resource
			s.read("/v1/resources?owner="+pe.UID, &owned)
			listed := map[string]int{}
			for _, o := range owned {
				listed[o.Status]++
			}
			if listed[op.StatusZombie] != want || listed["running"] != 1 {
				t.Errorf("the processing element owns %v", listed)
			}
			s.remove("propagation=foreground")
			now := s.wait("it is gone", func(now *state.Snapshot) bool { return now.Job(telemetryKey) == nil })
			s.quiet(now, row.UID)
			s.must(http.MethodPut, "/v1/system/gc", "")
			s.wait("nothing is left", func(now *state.Snapshot) bool { return now.Count(state.Allocs) == 0 })
		})
	}
}

// S19: whatever a user deletes of a job that runs is there again, under another
// UID.
func TestS19DependentsRestored(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		s := newStreams(t, 19, 4)
		s.must(http.MethodPut, "/v1/jobs", alerts())
		s.submitted(alertsKey, 1, 1)
		first := s.register(withImport...)
		s.submitted(telemetryKey, 5, 1)
		for _, kind := range berth.StreamKinds {
			var r *berth.Object
			for r = range s.now().ResourcesOf(first, kind) {
				break
			}
			if code, text := s.do(s.any(), http.MethodDelete, "/v1/resource/"+r.UID.Text(berth.KindLetter(kind)), ""); code != http.StatusOK {
				t.Fatalf("%s: %d %s", kind, code, text)
			}
			s.wait(kind+" is there again", func(now *state.Snapshot) bool {
				is := now.ResourceNamed(first, kind, r.Name)
				return is != nil && is.UID != r.UID && (is.PE == nil || is.PE.Launch == 2 && runs(now, is) != nil)
			})
			s.wantRoutes("when "+kind+" is there again", all...)
		}
		s.submitted(telemetryKey, 5, 0)
	})
}

// S20: what a user registers during a submission becomes the next generation;
// during a recovery it is what starts again.
func TestS20SpecUpdate(t *testing.T) {
	newer := []string{`"command":"x"`, `"command":"y"`}
	command := func(s *streams) string {
		for a := range s.now().AllocsOf(telemetryKey) {
			if a.Live() {
				return fmt.Sprint(a.Group.Tasks[0].Config["command"])
			}
		}
		return ""
	}
	bubbled(t, func(t *testing.T) {
		s := newStreams(t, 20, 4)
		lead := s.leader()
		s.arm("addPes", failpoint.After, 1, failpoint.Hang)
		first := s.register()
		s.wait("the processing elements are there", func(now *state.Snapshot) bool {
			return now.ResourceNamed(first, berth.KindPE, "telemetry.sink[0]") != nil
		})
		s.register(newer...)
		s.armAt(lead, "addPes", failpoint.After, 1, failpoint.Off)
		row := s.submitted(telemetryKey, 5, 2)
		s.recovered(row, first, 0)
		s.wantPhases(first, "plan 0", "complete 0", "plan 1", "complete 1")
		if command(s) != "y" {
			t.Errorf("it runs %q", command(s))
		}
	})
	bubbled(t, func(t *testing.T) {
		s := newStreams(t, 20, 4, slowly(10*time.Second))
		s.arm("addAlloc", failpoint.After, 3, failpoint.Exit)
		first := s.register()
		s.marked(first)
		s.must(http.MethodPut, "/v1/jobs", telemetry(newer...))
		row := s.submitted(telemetryKey, 5, 1)
		s.recovered(row, first, 1)
		if row.Generation != 0 || command(s) != "y" {
			t.Errorf("generation %d runs %q", row.Generation, command(s))
		}
	})
}

// S24: pools, and who goes where.
func TestS24HostPools(t *testing.T) {
	for why, change := range map[string][]string{
		"needs 9 nodes": {`"Size":2`, `"Size":9`},
		`"elsewhere"`:   {`"Tags":["ssd"],"Size":2`, `"Hosts":["elsewhere"]`},
	} {
		bubbled(t, func(t *testing.T) {
			s := newStreams(t, 24, 4)
			s.register(change...)
			s.wait("it is given up", func(now *state.Snapshot) bool {
				row := now.StreamOf(telemetryKey)
				return row.Phase == berth.PhaseFailed && strings.Contains(row.LastError, why) && now.Dependents(row.UID) == 0
			})
			s.must(http.MethodGet, "/v1/job/telemetry", "")
		})
	}
	bubbled(t, func(t *testing.T) {
		tags := func(a *agent) {
			if a.Name == "n1" || a.Name == "n2" {
				a.Meta = map[string]string{"tags": "ssd,rack-a"}
			}
		}
		s := newStreams(t, 24, 4, tags, slowly(5*time.Second))
		exclusive := []string{`"Tags":["ssd"],"Size":2`, `"Tags":["rack-a","ssd"],"Mode":"exclusive"`, `{"Colocate":["hot"]}`, `{"Pool":"edge","Colocate":["hot"]}`, `{"Isolated":true}`, `{"Pool":"edge","Isolated":true}`}
		lead := s.leader()
		s.armAt(lead, "addAlloc", failpoint.After, 4, failpoint.Exit)
		s.register(exclusive...)
		other := berth.JobKey{Namespace: berth.DefaultNamespace, ID: "other"}
		s.must(http.MethodPut, "/v1/jobs", telemetry(append(exclusive, `"ID":"telemetry"`, `"ID":"other"`)...))
		var mine, theirs map[berth.NodeID]bool
		apart := func(now *state.Snapshot) {
			mine, theirs = map[berth.NodeID]bool{}, map[berth.NodeID]bool{}
			for a := range now.Allocs() {
				switch {
				case a.Ended():
				case a.Key() == other:
					theirs[a.NodeID] = true
				default:
					mine[a.NodeID] = true
				}
			}
			for n := range mine {
				if theirs[n] {
					t.Errorf("both are on %s", now.Node(n).Name)
				}
			}
		}
		s.waitFor("one of them runs", 2*time.Minute, func(now *state.Snapshot) bool {
			apart(now)
			a, b := now.StreamOf(telemetryKey), now.StreamOf(other)
			return len(s.back) == 0 && s.deaths == 1 && a != nil && b != nil && (a.Phase == berth.PhaseSubmitted || b.Phase == berth.PhaseSubmitted)
		})
		k, rest := telemetryKey, other
		if s.now().StreamOf(other).Phase == berth.PhaseSubmitted {
			k, rest = other, telemetryKey
		}
		now := s.now()
		at := map[string]berth.NodeID{}
		for a := range now.AllocsOf(k) {
			if a.Live() {
				at[strings.TrimPrefix(a.Name(), string(k.ID)+".")] = a.NodeID
				if n := now.Node(a.NodeID).Name; n != "n1" && n != "n2" {
					t.Errorf("%s is on %s", a.Name(), n)
				}
			}
		}
		if at["transform[0]"] != at["transform[1]"] || at["transform[1]"] != at["transform[2]"] || at["sink[0]"] == at["source[0]"] || at["sink[0]"] == at["transform[0]"] {
			t.Errorf("%v", at)
		}
		s.must(http.MethodDelete, "/v1/job/"+string(k.ID)+"?purge=true&propagation=foreground", "")
		s.waitFor("the other runs", 2*time.Minute, func(now *state.Snapshot) bool {
			apart(now)
			return now.StreamOf(rest).Phase == berth.PhaseSubmitted
		})
		if e := s.told().Meeting("telemetry", "other"); e != nil {
			t.Errorf("the other was there: %v", e)
		}
	})
}

// S24: what excludes itself is on different nodes, the channels of one group,
// too.
func TestS24Exlocation(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		s := newStreams(t, 24, 5)
		s.register(`{"Colocate":["hot"]}`, `{"Exlocate":["ingest"]}`, `{"Isolated":true}`, `{"Exlocate":["ingest"]}`)
		s.submitted(telemetryKey, 5, 1)
		at := map[berth.NodeID]string{}
		for a := range s.now().AllocsOf(telemetryKey) {
			if other := at[a.NodeID]; other != "" {
				t.Errorf("%s is where %s is", a.Name(), other)
			}
			at[a.NodeID] = a.Name()
		}
	})
}

// S25: there is no room, and no more time.
func TestS25TimeoutAndGiveUp(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		s := newStreams(t, 25, 4)
		s.register(`"Timeout":300000000000`, `"Timeout":5000000000,"MaxRetries":2`, `"MemoryMB":10`, `"MemoryMB":90000`)
		row := s.wait("it is given up", func(now *state.Snapshot) bool {
			row := now.StreamOf(telemetryKey)
			return row != nil && row.Phase == berth.PhaseFailed && now.Dependents(row.UID) == 0
		}).StreamOf(telemetryKey)
		if row.Recovery.Count != 2 || row.LastError == "" {
			t.Errorf("%+v", row)
		}
		s.must(http.MethodGet, "/v1/job/telemetry", "")
		s.must(http.MethodPut, "/v1/jobs", telemetry())
		if now := s.submitted(telemetryKey, 5, 1); now.UID == row.UID || now.Recovery.Count != 0 {
			t.Errorf("%+v", now)
		}
	})
}

// settledOf is what a change of leader must not change.
func settledOf(now *state.Snapshot) map[string]string {
	out := map[string]string{}
	for row := range now.StreamJobs() {
		out["job "+string(row.Key.ID)] = fmt.Sprint(row.UID, row.StreamID, row.Generation, row.Phase)
	}
	for r := range now.Resources() {
		out[r.UID.Text('r')] = fmt.Sprint(r.Kind, r.Name, r.Generation, r.PE)
	}
	for a := range now.Allocs() {
		out[a.ID.String()] = fmt.Sprint(a.Name(), a.Desired, a.Client, a.Rest().PE)
	}
	return out
}

// S27: jobs that are submitted are left alone when leaders are lost.
func TestS27SettledJobsAreLeftAlone(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		s := newStreams(t, 27, 4)
		for n := range 20 {
			s.must(http.MethodPut, "/v1/jobs", telemetry(`"ID":"telemetry"`, fmt.Sprintf(`"ID":"t%d"`, n), `{"Isolated":true}`, `{}`))
		}
		for n := range 5 {
			s.must(http.MethodPut, "/v1/jobs", job(fmt.Sprint("web", n), 2))
		}
		s.waitFor("all run", 2*time.Minute, func(now *state.Snapshot) bool {
			n := 0
			for a := range now.Allocs() {
				if a.Client == berth.ClientRunning {
					n++
				}
			}
			for row := range now.StreamJobs() {
				if row.Phase != berth.PhaseSubmitted {
					return false
				}
			}
			return n == 110
		})
		s.pass(5 * time.Second)
		before := settledOf(s.now())
		for range 5 {
			s.leaderIsLost()
			s.wait("it is back", func(*state.Snapshot) bool { return len(s.back) == 0 })
			s.pass(5 * time.Second)
		}
		if after := settledOf(s.now()); !maps.Equal(before, after) {
			for k, v := range after {
				if before[k] != v {
					t.Errorf("%s: %s was %s", k, v, before[k])
				}
			}
		}
		for _, e := range s.told().Events() {
			if e.Type == "Deleted" || e.Type == "Retired" {
				t.Errorf("%v", &e)
			}
		}
		s.register()
		if row := s.submitted(telemetryKey, 5, 1); row.StreamID != 21 {
			t.Errorf("the next has the number %d", row.StreamID)
		}
	})
}

// S28: all servers are stopped and started while a job is recovered, or restored
// from a snapshot of that time.
func TestS28RestartOfEverything(t *testing.T) {
	for _, restored := range []bool{false, true} {
		bubbled(t, func(t *testing.T) {
			s := newStreams(t, 28, 4, slowly(10*time.Second))
			s.arm("addAlloc", failpoint.After, 3, failpoint.Exit)
			first := s.register()
			s.marked(first)
			s.wait("all servers are there", func(*state.Snapshot) bool { return len(s.back) == 0 })
			if s.now().Deletion(telemetryKey) == nil {
				t.Fatal("it is over")
			}
			if restored {
				saved := ask(s.list[s.leader()], http.MethodGet, "/v1/operator/snapshot", "")
				s.pass(30 * time.Second)
				clear(s.seen)
				s.record.Forget()
				s.must(http.MethodPut, "/v1/operator/snapshot", bytes.NewBuffer(saved.Body.Bytes()).String())
				clear(s.seen)
			} else {
				for i := range s.list {
					s.halt(i)
				}
				clear(s.seen)
				for i := range s.list {
					s.start(i)
				}
				s.leader()
			}
			row := s.submitted(telemetryKey, 5, 1)
			s.recovered(row, first, 1)
			s.quiet(s.now(), first)
		})
	}
}

//go:build faults

package terms

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"berth"
	"berth/internal/failpoint"
	"berth/internal/leader"
	"berth/internal/state"
	"berth/op"
)

// S11: a leader that is cut off with a placement in hand. When it is back, what
// it decided reaches nothing: not as its own, not when it leads again, and not
// by way of another.
func TestS11DeposedLeader(t *testing.T) {
	for _, again := range []bool{false, true} {
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
			s.wait("the fourth hangs", func(*state.Snapshot) bool { return s.sets[old].Held("addAlloc", failpoint.Before) != nil })
			term := s.now().Term
			pe := s.now().ResourceNamed(first, berth.KindPE, "telemetry.source[0]")
			x := s.list[old]
			s.raft.Split([]string{x.addr}, slices.DeleteFunc(slices.Clone(s.servers), func(a string) bool { return a == x.addr }))
			row := s.submitted(telemetryKey, 5, 1)
			s.recovered(row, first, 1)
			s.raft.Heal()
			s.wait("the server is back", func(now *state.Snapshot) bool { return x.Store().Snapshot().Index >= now.Index })
			for again && !x.Leads() {
				_ = s.list[s.leader()].TransferLeadership(t.Context(), x.ID())
				s.pass(time.Second)
			}
			if lines := s.said.of("addAlloc"); len(lines) > 0 {
				t.Errorf("what hangs went on: %q", lines)
			}
			s.here(old, "addAlloc", failpoint.Before, failpoint.Off)
			s.pass(10 * time.Second)
			if lines := s.said.of("before addAlloc"); len(lines) != 1 || !strings.Contains(lines[0], state.ErrLost.Error()) {
				t.Errorf("what hung was proposed: %q", lines)
			}
			s.submitted(telemetryKey, 5, 1)
			s.quiet(s.now(), first)
			if made := s.told().Made(first.Text('j'), s.record.Index("Deleted", first.Text('j'))); len(made) > 0 {
				t.Errorf("made for what is gone: %v", made)
			}
			index := s.now().Index
			s.refused("stale-epoch", "LaunchPE", `{"Term":%d,"PE":%q,"Expect":1}`, term, pe.UID.Text('p'))
			s.refused("owner-missing", "EnsureResources", `{"Term":%d,"Key":{"Namespace":"default","ID":"telemetry"},"UID":%q,"Kind":%q,"Names":[%q]}`, s.now().Term, first.Text('j'), pe.Kind, pe.Name)
			s.refused("stale-generation", "CompleteSubmission", `{"Key":{"Namespace":"default","ID":"telemetry"},"UID":%q,"Generation":7}`, row.UID.Text('j'))
			if now := s.now().Index; now != index {
				t.Errorf("what was refused changed something: index %d after %d", now, index)
			}
			s.counted("stale-epoch", "owner-missing", "stale-generation")
			a := runs(s.now(), s.pe(s.now(), "sink[0]"))
			s.must(http.MethodPut, "/v1/operator/failpoint/entry", fmt.Sprintf(`{"Command":"SetConnectivity","Fields":{"Alloc":%q,"PE":%q,"Launch":1,"State":"full"}}`, a.ID, a.Rest().PE.UID.Text('p')))
			if pe := s.pe(s.now(), "sink[0]"); pe.PE.Connectivity != berth.ConnectivityFull || pe.ModifyIndex <= index {
				t.Errorf("what is not refused is made: %+v", pe.PE)
			}
		})
	}
}

// refused proposes a command as it stands, and wants it to be refused with a
// code.
func (s *streams) refused(code, command, fields string, args ...any) {
	s.t.Helper()
	w := ask(s.any(), http.MethodPut, "/v1/operator/failpoint/entry", fmt.Sprintf(`{"Command":%q,"Fields":%s}`, command, fmt.Sprintf(fields, args...)))
	if w.Code != http.StatusConflict || w.Header().Get(op.HeaderCode) != code || !strings.HasPrefix(w.Body.String(), code+":") {
		s.t.Errorf("%s, which is to be refused as %s: %d %s", command, code, w.Code, w.Body)
	}
}

// here arms a point at one server, once.
func (s *streams) here(i int, name, when, action string) {
	s.t.Helper()
	code, text := s.do(s.list[i], http.MethodPut, "/v1/agent/failpoint", fmt.Sprintf(`{"Name":%q,"When":%q,"Action":%q,"Once":true}`, name, when, action))
	if code != http.StatusOK {
		s.t.Fatalf("%d %s", code, text)
	}
}

// S12: a worker of another server has an evaluation of an incarnation in hand
// and hangs, until long after that is recovered. Its plan comes late, and makes
// nothing.
func TestS12LatePlacement(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		s := newStreams(t, 12, 4)
		lead := s.leader()
		first, hangs := s.inAFollowersHands(lead)
		now := s.now()
		var late *berth.Eval
		for e := range now.OpenEvals(berth.EvalPending) {
			if e.TriggeredBy == berth.TriggerPELaunch && e.JobUID == first {
				late = e
			}
		}
		if late == nil || now.StreamOf(telemetryKey).Phase != berth.PhaseSubmission {
			t.Fatalf("no evaluation is pending\n%s", s.tell())
		}
		s.leaderIsLost()
		row := s.submitted(telemetryKey, 5, 1)
		s.recovered(row, first, 1)
		for _, i := range hangs {
			s.here(i, leader.PlanAlloc, failpoint.Before, failpoint.Off)
		}
		s.pass(10 * time.Second)
		lines := s.said.of("before " + leader.PlanAlloc)
		if len(lines) == 0 || slices.ContainsFunc(lines, func(l string) bool { return !strings.Contains(l, state.ErrLost.Error()) }) {
			t.Errorf("of the late plan it is said: %q", lines)
		}
		s.counted(string(berth.CodeStaleEpoch))
		// Nor would the log take it, of whatever term it said to be.
		for _, term := range []uint64{0, now.Term, s.now().Term} {
			plan := &state.ApplyPlan{Eval: late.ID, Place: []berth.Placement{{Group: 1, Index: 2, NodeID: s.nodes[0].ID}}}
			plan.Stamp(term)
			if err := s.propose(plan); err == nil {
				t.Errorf("something of %v was placed by a plan of term %d", first, term)
			}
		}
		if e := s.now().Eval(late.ID); e != nil && e.Status != berth.EvalCanceled {
			t.Errorf("the evaluation is %s", e.Status)
		}
		s.submitted(telemetryKey, 5, 1)
		s.quiet(s.now(), first)
		if made := s.told().Made(first.Text('j'), now.Index); len(made) > 0 {
			t.Errorf("%v", made)
		}
	})
}

// A server that does not lead dies before, or after, one of its workers hands in
// a plan. The leader is not lost, so that nothing starts again and nothing is
// placed twice.
func TestAFollowersWorkerDies(t *testing.T) {
	for _, when := range []string{failpoint.Before, failpoint.After} {
		bubbled(t, func(t *testing.T) {
			s := newStreams(t, 45, 4)
			dies := (s.leader() + 1) % len(s.list)
			for i := range s.list {
				if i != dies {
					s.rests(i)
				}
			}
			s.here(dies, leader.PlanAlloc, when, failpoint.Exit)
			first := s.register()
			row := s.submitted(telemetryKey, 5, 1)
			s.recovered(row, first, 0)
			if n := len(s.told().Placed(first.Text('j'))); n != 5 {
				t.Errorf("%d were placed", n)
			}
			if s.deaths != 1 {
				t.Errorf("%d servers died", s.deaths)
			}
		})
	}
}

// rests has the workers of a server decide nothing until it is started again.
func (s *streams) rests(i int) {
	s.t.Helper()
	if code, text := s.do(s.list[i], http.MethodPut, "/v1/agent/schedulers/config", `{"num_schedulers":0}`); code != http.StatusOK {
		s.t.Fatalf("%d %s", code, text)
	}
	s.pass(11 * time.Second) // what a worker asks the leader for is asked for ten
}

// inAFollowersHands submits the job and has a worker of a server that does not
// lead hang before it hands in a plan for it.
func (s *streams) inAFollowersHands(lead int) (first berth.UID, hang []int) {
	s.t.Helper()
	s.rests(lead)
	for i := range s.list {
		if i != lead {
			s.here(i, leader.PlanAlloc, failpoint.Before, failpoint.Hang)
		}
	}
	first = s.register()
	s.wait("a plan hangs", func(*state.Snapshot) bool {
		for i := range s.list {
			if s.sets[i].Held(leader.PlanAlloc, failpoint.Before) != nil {
				hang = append(hang, i)
			}
		}
		return len(hang) > 0
	})
	for i := range s.list {
		if i != lead && !slices.Contains(hang, i) {
			s.here(i, leader.PlanAlloc, failpoint.Before, failpoint.Off)
		}
	}
	s.pass(2 * time.Second)
	return first, hang
}

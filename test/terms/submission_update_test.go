//go:build faults

package terms

import (
	"net/http"
	"slices"
	"testing"

	"berth"
	"berth/internal/failpoint"
)

func (s *streams) wantPhases(uid berth.UID, want ...string) {
	s.t.Helper()
	if got := s.told().Phases(uid.Text('j')); !slices.Equal(got, want) {
		s.t.Errorf("its phases were %q, want %q", got, want)
	}
}

var alone = []string{`{"Name":"sink"`, `{"Name":"alone","Stream":{},"Tasks":[{"Name":"t","Driver":"raw_exec","Config":{"command":"x"},"Resources":{"CPU":10,"MemoryMB":10}}]},{"Name":"sink"`}

// S22: a region gets wider, and narrower.
func TestS22WidthChange(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		s := newStreams(t, 22, 6)
		first := s.register(alone...)
		s.submitted(telemetryKey, 6, 1)
		before := map[string]*berth.Object{}
		for pe := range s.now().ResourcesOf(first, berth.KindPE) {
			before[pe.Name] = pe
		}
		stays := runs(s.now(), before["telemetry.alone[0]"])
		s.register(append(slices.Clone(alone), `"Width":3`, `"Width":5`)...)
		row := s.submitted(telemetryKey, 8, 0)
		if row.UID != first || row.Generation != 1 {
			t.Errorf("%+v", row)
		}
		now := s.now()
		for r := range now.ResourcesOf(first, "") {
			if r.Generation != 1 {
				t.Errorf("%s %s is of generation %d", r.Kind, r.Name, r.Generation)
			}
			if r.PE == nil {
				continue
			}
			switch old := before[r.Name]; {
			case old == nil:
				if r.PE.Launch != 1 || r.Object.PE.ID != 6 && r.Object.PE.ID != 7 {
					t.Errorf("%s, number %d, was launched %d times", r.Name, r.Object.PE.ID, r.PE.Launch)
				}
			case r.UID != old.UID || r.Object.PE.ID != old.Object.PE.ID:
				t.Errorf("%s is another one", r.Name)
			case r.Name == "telemetry.alone[0]":
				if r.PE.Launch != 1 || runs(now, r).ID != stays.ID {
					t.Errorf("%s was launched %d times", r.Name, r.PE.Launch)
				}
			case r.PE.Launch != 2:
				t.Errorf("%s was launched %d times", r.Name, r.PE.Launch)
			}
		}
		s.wantPhases(first, "plan 0", "complete 0", "plan 1", "complete 1")
		s.register(append(slices.Clone(alone), `"Width":3`, `"Width":2`)...)
		s.submitted(telemetryKey, 5, 0)
		for pe := range s.now().ResourcesOf(first, berth.KindPE) {
			if id := pe.Object.PE.ID; id == before["telemetry.transform[2]"].Object.PE.ID || id > 5 {
				t.Errorf("%s has the number %d", pe.Name, id)
			}
		}
		s.register(append(slices.Clone(alone), `"Width":3`, `"Width":3`)...)
		s.submitted(telemetryKey, 6, 0)
		if id := s.pe(s.now(), "transform[2]").Object.PE.ID; id != 8 {
			t.Errorf("transform[2] has the number %d", id)
		}
	})
	bubbled(t, func(t *testing.T) {
		s := newStreams(t, 22, 6)
		live := []string{`"Stream":{"Placement":{"Pool"`, `"Stream":{"LiveRewire":true,"Placement":{"Pool"`, `"Stream":{"Placement":{"Isolated"`, `"Stream":{"LiveRewire":true,"Placement":{"Isolated"`}
		s.register(live...)
		s.submitted(telemetryKey, 5, 1)
		before := s.now()
		s.register(append(live, `"Width":3`, `"Width":5`)...)
		s.submitted(telemetryKey, 7, 0)
		for _, name := range []string{"source[0]", "sink[0]"} {
			old, is := s.pe(before, name), s.pe(s.now(), name)
			if is.UID != old.UID || is.PE.Launch != 1 || runs(s.now(), is).ID != runs(before, old).ID {
				t.Errorf("%s was launched %d times", name, is.PE.Launch)
			}
		}
		if got := s.addrs("telemetry.source[0]"); len(got) != 5 || slices.Contains(got, "") {
			t.Errorf("the source leads to %q", got)
		}
	})
}

// The leader dies in the middle of an update that leaves nothing as it was,
// before and after each kind of step in which what was planned before goes.
func TestKillAtEveryStepOfASweep(t *testing.T) {
	for _, name := range sweepSteps {
		for _, when := range []string{failpoint.Before, failpoint.After} {
			t.Run(name+" "+when, func(t *testing.T) {
				bubbled(t, func(t *testing.T) {
					s := newStreams(t, 44, 6)
					s.always = telemetryKey
					first := s.register(append(slices.Clone(alone), withImport...)...)
					s.submitted(telemetryKey, 6, 1)
					s.arm(name, when, 1, failpoint.Exit)
					s.must(http.MethodPut, "/v1/jobs", telemetry(`"Name":"score"`, `"Name":"other"`, `"Name":"edge"`, `"Name":"outer"`, `"Pool":"edge"`, `"Pool":"outer"`, `{"Name":"by-name"`, `{"Name":"new-name"`))
					s.died(1)
					row := s.submitted(telemetryKey, 5, 0)
					s.recovered(row, first, 0)
					s.wantPhases(first, "plan 0", "complete 0", "plan 1", "complete 1")
					for r := range s.now().Resources() {
						if r.Generation != 1 {
							t.Errorf("%s %s is of generation %d", r.Kind, r.Name, r.Generation)
						}
					}
				})
			})
		}
	}
}

// S23: the leader dies in the middle of a change of width.
func TestS23WidthChangeInterrupted(t *testing.T) {
	for _, how := range []string{berth.InterruptResume, berth.InterruptRecreate} {
		bubbled(t, func(t *testing.T) {
			s := newStreams(t, 23, 6)
			policy := []string{`"Timeout":300000000000`, `"Timeout":300000000000,"InterruptedUpdate":"` + how + `"`}
			s.always = telemetryKey
			first := s.register(policy...)
			s.submitted(telemetryKey, 5, 1)
			s.arm("launchPe", failpoint.After, 2, failpoint.Exit)
			s.must(http.MethodPut, "/v1/jobs", telemetry(append(policy, `"Width":3`, `"Width":5`)...))
			s.died(1)
			row := s.submitted(telemetryKey, 7, 0)
			if how == berth.InterruptRecreate {
				s.recovered(row, first, 1)
				s.submitted(telemetryKey, 7, 1)
				return
			}
			s.recovered(row, first, 0)
			for pe := range s.now().ResourcesOf(row.UID, berth.KindPE) {
				want := uint64(2)
				if id := pe.Object.PE.ID; id > 4 { // they came with the width
					want = 1
				}
				if pe.PE.Launch != want {
					t.Errorf("%s was launched %d times, want %d", pe.Name, pe.PE.Launch, want)
				}
			}
		})
	}
}

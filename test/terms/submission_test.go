//go:build faults

package terms

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"berth"
	"berth/internal/failpoint"
	"berth/internal/leader"
	"berth/internal/state"
	"berth/internal/streams/submit"
)

// S1: a plain submission goes through its states in order, and is whole.
func TestS1PlainSubmission(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		s := newStreams(t, 1, 4)
		steps := [][2]string{
			{"planJob", submit.StatePlan}, {"addConfigs", submit.StateWaitConfigs}, {"addEndpoints", submit.StateWaitEndpoints},
			{"addHostPools", submit.StateWaitHostPools}, {"addExports", submit.StateWaitExports}, {"addImports", submit.StateWaitImports},
			{"addParallelRegions", submit.StateWaitRegions}, {"addPes", submit.StateWaitPEs}, {"launchPe", submit.StateWaitAllocs},
			{"completeJob", submit.StateSubmitted},
		}
		for _, x := range steps {
			s.arm(x[0], failpoint.Before, 1, failpoint.Hang)
		}
		first := s.register(withImport...)
		for _, x := range steps {
			s.pass(time.Second)
			if at := submit.Position(s.now(), s.now().StreamOf(telemetryKey)).State; at != x[1] {
				t.Errorf("before %s it is in state %s, want %s", x[0], at, x[1])
			}
			s.armAt(s.leader(), x[0], failpoint.Before, 1, failpoint.Off)
		}
		row := s.submitted(telemetryKey, 5, 1)
		s.recovered(row, first, 0)
		p := submit.Position(s.now(), row)
		if len(p.Missing)+len(p.Stale) > 0 || fmt.Sprint(p.Expected) != fmt.Sprint(p.Observed) {
			t.Errorf("%+v", p)
		}
	})
}

// S2: five processing elements, three of them placed when the leader dies.
func TestS2TheSeedsCase(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		s := newStreams(t, 2, 4)
		s.arm("addAlloc", failpoint.After, 3, failpoint.Exit)
		s.always = telemetryKey
		s.must(http.MethodPut, "/v1/jobs", telemetry())
		var first berth.UID
		s.wait("it is marked", func(now *state.Snapshot) bool {
			j := now.Job(telemetryKey)
			if first.IsZero() && j != nil {
				first = j.UID
			}
			d := now.Deletion(telemetryKey)
			return d != nil && d.UID == first && d.Deletion.Intent == berth.IntentRecover && d.Deletion.Policy == berth.Foreground
		})
		row := s.submitted(telemetryKey, 5, 1)
		s.recovered(row, first, 1)
		s.quiet(s.now(), first)
		old, all := 0, 0
		for _, uid := range s.ever {
			all++
			if uid == first {
				old++
			}
		}
		if old != 3 || all != 8 {
			t.Errorf("%d allocations were there, %d of them of the first incarnation", all, old)
		}
	})
}

// S4: the leader dies before and after each kind of step.
func TestS4KillAtEveryStep(t *testing.T) {
	for _, name := range submissionSteps {
		for _, when := range []string{failpoint.Before, failpoint.After} {
			t.Run(name+" "+when, func(t *testing.T) {
				bubbled(t, func(t *testing.T) {
					s := newStreams(t, 4, 4)
					s.arm(name, when, 1, failpoint.Exit)
					s.always = telemetryKey
					first := s.register(withImport...)
					s.died(1)
					row := s.submitted(telemetryKey, 5, 1)
					count := 1
					if name == "planJob" && when == failpoint.Before || name == "completeJob" && when == failpoint.After {
						count = 0
					}
					s.recovered(row, first, count)
				})
			})
		}
	}
}

// S5: the second leader dies when the first things were collected, the third
// when something has ended; it is one recovery all the same.
func TestS5CrashInsideTheRecovery(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		s := newStreams(t, 5, 4, slowly(time.Second))
		lead := s.leader()
		s.armAt(lead, "addAlloc", failpoint.After, 3, failpoint.Exit)
		for i := range s.list {
			if i != lead {
				s.armAt(i, "gcStep", failpoint.After, 1, failpoint.Exit)
			}
		}
		s.always = telemetryKey
		first := s.register()
		s.died(2)
		for i, x := range s.list {
			if x.stop != nil {
				s.armAt(i, "gcStep", failpoint.After, 1, failpoint.Off)
				s.armAt(i, "retireAlloc", failpoint.After, 1, failpoint.Exit)
			}
		}
		s.died(3)
		row := s.submitted(telemetryKey, 5, 1)
		s.recovered(row, first, 1)
	})
}

// S6: the leader dies before, or after, the job is removed and created again.
// It is never missed.
func TestS6CrashBetweenRemovalAndRecreation(t *testing.T) {
	for _, when := range []string{failpoint.Before, failpoint.After} {
		bubbled(t, func(t *testing.T) {
			s := newStreams(t, 6, 4)
			lead := s.leader()
			s.armAt(lead, "addAlloc", failpoint.After, 3, failpoint.Exit)
			for i := range s.list {
				if i != lead {
					s.armAt(i, "finalizeJob", when, 1, failpoint.Exit)
				}
			}
			s.always = telemetryKey
			first := s.register()
			s.died(2)
			row := s.submitted(telemetryKey, 5, 1)
			// After: the incarnation that follows was not planned yet.
			s.recovered(row, first, 1)
		})
	}
}

// The leader that recovers a job dies before and after each kind of step of
// that. It is one recovery all the same.
func TestKillAtEveryStepOfARecovery(t *testing.T) {
	for _, name := range recoverySteps {
		for _, when := range []string{failpoint.Before, failpoint.After} {
			t.Run(name+" "+when, func(t *testing.T) {
				bubbled(t, func(t *testing.T) {
					s := newStreams(t, 41, 4, slowly(time.Second))
					lead := s.leader()
					s.armAt(lead, "addAlloc", failpoint.After, 3, failpoint.Exit)
					for i := range s.list {
						if i != lead {
							s.armAt(i, name, when, 1, failpoint.Exit)
						}
					}
					s.always = telemetryKey
					first := s.register()
					s.died(2)
					s.recovered(s.submitted(telemetryKey, 5, 1), first, 1)
				})
			})
		}
	}
}

// A leader that hands over in the middle is as one that is lost: what it began
// starts again, at the leader itself if that leads again.
func TestStepDownInTheMiddle(t *testing.T) {
	for _, x := range []struct {
		name, when string
		count      int
	}{
		{"planJob", failpoint.Before, 0}, {"addPes", failpoint.Before, 1}, {"addPes", failpoint.After, 1}, {"addAlloc", failpoint.After, 1},
		{"completeJob", failpoint.Before, 1}, {"completeJob", failpoint.After, 0},
	} {
		t.Run(x.name+" "+x.when, func(t *testing.T) {
			bubbled(t, func(t *testing.T) {
				s := newStreams(t, 42, 4)
				lead, term := s.leader(), s.now().Term
				s.arm(x.name, x.when, 1, failpoint.StepDown)
				s.always = telemetryKey
				first := s.register()
				s.wait("another leads", func(now *state.Snapshot) bool { return now.Term > term && s.lead() != lead })
				s.recovered(s.submitted(telemetryKey, 5, 1), first, x.count)
				if s.deaths > 0 {
					t.Errorf("%d servers ended", s.deaths)
				}
			})
		})
	}
}

// The third placement is the third, also when several jobs are placed at once.
func TestPassesAreCountedExactly(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		s := newStreams(t, 43, 4)
		s.arm("addAlloc", failpoint.After, 3, failpoint.Exit)
		for n := range 6 {
			s.must(http.MethodPut, "/v1/jobs", telemetry(`"ID":"telemetry"`, fmt.Sprintf(`"ID":"t%d"`, n), `{"Isolated":true}`, `{}`))
		}
		s.died(1)
		s.wait("it is known what the leader left", func(now *state.Snapshot) bool { return now.Index > 0 && s.lead() >= 0 })
		n := 0
		for _, e := range s.record.Events() {
			if e.Type == "Placed" && e.Index <= s.now().TermIndex {
				n++
			}
		}
		if n != 3 {
			t.Errorf("%d were placed before the leader ended", n)
		}
	})
}

// recoverySteps and sweepSteps are the points of what follows a submission.
var (
	submissionSteps = []string{"planJob", "addConfigs", "addEndpoints", "addHostPools", "addExports", "addImports", "addParallelRegions", "addPes", "launchPe", "addAlloc", "completeJob"}
	recoverySteps   = []string{"markJob", "gcStep", "retireAlloc", "finalizeJob"}
	sweepSteps      = []string{"deletePes", "deleteImports", "deleteExports", "deleteEndpoints", "deleteConfigs", "deleteHostPools", "deleteParallelRegions"}
)

// Each point there is, is one at which a server dies in a test.
func TestEveryPointIsTried(t *testing.T) {
	tried := slices.Concat(submissionSteps, recoverySteps, sweepSteps, []string{leader.PlanAlloc})
	all := slices.Clone(leader.FailpointNames)
	slices.Sort(tried)
	slices.Sort(all)
	if !slices.Equal(tried, all) {
		t.Errorf("tried are %q, and there are %q", tried, all)
	}
}

// S7: three leaders die in the middle, one after another.
func TestS7RepeatedInterruption(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		s := newStreams(t, 7, 4)
		s.always = telemetryKey
		s.arm("addAlloc", failpoint.After, 2, failpoint.Exit)
		first := s.register()
		for k := range 3 {
			s.died(k + 1)
			if k < 2 {
				for i := range s.list {
					if s.list[i].stop != nil {
						s.armAt(i, "addAlloc", failpoint.After, 2, failpoint.Exit)
					}
				}
			}
			s.wait("it is back", func(*state.Snapshot) bool { return len(s.back) == 0 })
		}
		row := s.submitted(telemetryKey, 5, 1)
		s.recovered(row, first, 3)
		if n := s.record.Most("telemetry"); n > 5 {
			t.Errorf("%d allocations were live at a time", n)
		}
	})
}

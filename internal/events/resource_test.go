package events

import (
	"fmt"
	"slices"
	"testing"

	"berth"
	"berth/internal/admit"
	"berth/internal/state"
	"berth/internal/state/statetest"
	"berth/internal/streams"
)

// flow is a stream job, of which all is there but allocations.
func flow(t *testing.T) (*state.Store, *statetest.Log, *berth.StreamJob) {
	t.Helper()
	store, log := statetest.New(t)
	j := flowJob(t)
	log.Must(t, &state.RegisterJob{Job: j, Now: 1})
	row := log.Tip().StreamOf(j.Key())
	p, err := streams.Expand(log.Tip().Job(j.Key()), nil)
	if err != nil {
		t.Fatal(err)
	}
	log.Must(t, &state.PlanSubmission{Key: row.Key, UID: row.UID, Plan: p, Now: 2})
	for _, kind := range berth.StreamKinds {
		var names []string
		for _, o := range p.Of(kind) {
			names = append(names, o.Name)
		}
		if names != nil {
			log.Must(t, &state.EnsureResources{Key: row.Key, UID: row.UID, Kind: kind, Names: names, Now: 3})
		}
	}
	return store, log, row
}

func flowJob(t *testing.T) *berth.Job {
	t.Helper()
	j, err := admit.ParseJob([]byte(statetest.StreamText("flow", 1, 100, "")))
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// The three ways to delete a job differ in what is told of it and of what it
// owns, and in which order.
func TestDeletionsAreTold(t *testing.T) {
	for policy, want := range map[berth.Propagation][]string{
		berth.Background: {"Deleted Job by delete", "Deleted dependents of j by gc"},
		berth.Orphan:     {"Modified dependents of nobody by delete", "Deleted Job by delete"},
		berth.Foreground: {"Modified Job by delete, deleting", "Deleted dependents of j by gc", "Deleted Job by finalize"},
	} {
		t.Run(string(policy), func(t *testing.T) {
			store, log, row := flow(t)
			seen := store.Commit()
			var all []berth.UID
			for o := range log.Tip().ResourcesOf(row.UID, "") {
				all = append(all, o.UID)
			}
			log.Must(t, &state.DeleteJob{Key: row.Key, Policy: policy, Intent: berth.IntentUser, Now: 4})
			if policy != berth.Orphan {
				log.Must(t, &state.CollectResources{UIDs: all})
			}
			if policy == berth.Foreground {
				log.Must(t, &state.FinalizeDeletions{Jobs: []state.JobRef{{Key: row.Key, UID: row.UID}}})
			}
			var got []string
			dependents := 0
			for next := seen.TryNext(); next != nil; next = next.TryNext() {
				for _, s := range sets(next) {
					for i := range s.Events {
						e := &s.Events[i]
						if e.Topic != Resource {
							continue
						}
						kind, _, uid, owner := e.Object()
						line := fmt.Sprintf("%s Job by %s", e.Type, e.Cause())
						switch {
						case kind != berth.KindJob:
							dependents++
							of := map[string]string{"": "nobody", row.UID.Text('j'): "j"}[owner]
							line = fmt.Sprintf("%s dependents of %s by %s", e.Type, of, e.Cause())
						case uid != row.UID.Text('j'):
							t.Errorf("another job, %s", uid)
						case e.Deletes():
							line += ", deleting"
						}
						got = append(got, line)
					}
				}
			}
			if got = slices.Compact(got); !slices.Equal(got, want) || dependents != len(all) {
				t.Errorf("of %d dependents of %d it was told: %q; wanted is %q", dependents, len(all), got, want)
			}
		})
	}
}

// Whatever a user or a collector does to a stream job, its events say why.
func TestCausesOfResources(t *testing.T) {
	j := flowJob(t)
	store, log := statetest.New(t)
	seen := store.Commit()
	k, tag, seed := j.Key(), "first", state.EvalSeed{ID: statetest.ID[berth.Eval](1), TriggeredBy: berth.TriggerJobScaling}
	log.Must(t,
		&state.RegisterJob{Job: j, Now: 1}, &state.TagVersion{Key: k, Name: tag, Now: 2}, &state.SetJobStability{Key: k, Stable: true},
		&state.ScaleJob{Key: k, Group: "work", Change: true, Count: 2, Eval: seed, Now: 3}, &state.RevertJob{Key: k, Version: 0, Eval: seed, Now: 4},
		&state.StopJob{Key: k, Now: 5},
		&state.DeleteRows{Jobs: []state.JobRef{{Key: k, UID: berth.UID{Index: log.Tip().Index + 1}}}},
	)
	var causes []string
	for next := seen.TryNext(); next != nil; next = next.TryNext() {
		for _, s := range sets(next) {
			for i := range s.Events {
				if e := &s.Events[i]; e.Topic == Resource {
					causes = append(causes, e.Cause())
				}
			}
		}
	}
	if want := []string{"register", "tag", "stability", "scale", "revert", "stop", "gc"}; !slices.Equal(slices.Compact(causes), want) {
		t.Errorf("the causes are %q; wanted are %q", causes, want)
	}
}

package leader_test

import (
	"maps"
	"testing"

	"berth"
	"berth/internal/leader"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// What leaders and workers decided too late is counted by its code, however it
// came to the log; what users want and do not get is not.
func TestRefusalsAreCounted(t *testing.T) {
	_, base := statetest.New(t, &state.BeginTerm{Term: 3})
	var r leader.Refusals
	log := r.Counting(base)
	if len(r.Count()) != 0 {
		t.Errorf("nothing was refused, and counted are %v", r.Count())
	}
	late := &state.FinalizeDeletions{Jobs: []state.JobRef{{Key: berth.JobKey{Namespace: berth.DefaultNamespace, ID: "web"}}}}
	late.Stamp(2)
	now := *late
	now.Stamp(3)
	launch := &state.LaunchPE{PE: berth.UID{Index: 1}}
	if _, err := log.Propose(t.Context(), late, launch, &now); berth.CodeOf(err) != berth.CodeStaleEpoch {
		t.Errorf("refused as %v", err)
	}
	p, err := log.Stage(launch, &state.AddNodeEvents{}, &state.DeleteJob{UID: berth.UID{Index: 1}, Policy: berth.Background, Intent: berth.IntentUser})
	if err != nil || len(p.Results) != 3 || p.Results[2].Err == nil {
		t.Errorf("%+v, %v", p, err)
	}
	if got, want := r.Count(), map[berth.Code]uint64{berth.CodeStaleEpoch: 1, berth.CodeOwnerMissing: 2, berth.CodeAlreadyDone: 1}; !maps.Equal(got, want) {
		t.Errorf("counted are %v; wanted are %v", got, want)
	}
	if log.Tip() != base.Tip() {
		t.Error("it has another tip")
	}
}

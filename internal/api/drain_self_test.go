package api_test

import (
	"testing"
	"time"

	"berth"
	"berth/internal/api"
	"berth/internal/state"
	"berth/internal/state/statetest"
	"berth/op"
)

// An agent that proves to be its node's may have that drained, and used again when it
// is back. It changes nothing of what an operator has decided.
func TestAnAgentDrainsItsNode(t *testing.T) {
	node := statetest.ID[berth.Node]
	s, log := withKeys(t, func(*api.Config) {}, statetest.AddNode(1, 4000, 4000, func(n *berth.Node) { n.SecretID = "one" }),
		statetest.AddNode(2, 4000, 4000, func(n *berth.Node) { n.SecretID = "two" }))
	ask := func(n int, secret string, spec *berth.DrainSpec) error {
		_, err := call(t, s, op.NodeDrainSelf, op.DrainSelf{NodeID: node(n), Spec: spec, Write: op.Write{AuthToken: secret}})
		return err
	}
	is := func(what, eligibility string, draining bool) {
		t.Helper()
		n := log.Store.Snapshot().Node(node(1))
		if n.SchedulingEligibility != eligibility || n.Draining() != draining {
			t.Errorf("%s: %s, draining %t; want %s, %t", what, n.SchedulingEligibility, n.Draining(), eligibility, draining)
		}
	}
	spec := &berth.DrainSpec{Deadline: time.Hour}
	for _, secret := range []string{"", "two", "three"} {
		if err := ask(1, secret, spec); berth.KindOf(err) != berth.Denied {
			t.Errorf("with the secret %q: %v", secret, err)
		}
	}
	is("before", berth.NodeEligible, false)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(ask(1, "one", nil))
	is("it was not drained", berth.NodeEligible, false)
	must(ask(1, "one", spec))
	is("it is drained", berth.NodeIneligible, true)
	must(ask(1, "one", nil))
	is("the agent is back", berth.NodeEligible, false)
	// An operator's drain stays, and an order to the agent is no other.
	log.Must(t, &state.UpdateDrain{ID: node(1), Spec: &berth.DrainSpec{Deadline: time.Minute}, Now: 9})
	must(ask(1, "one", spec))
	if d := log.Store.Snapshot().Node(node(1)).DrainStrategy; d == nil || d.Deadline != time.Minute {
		t.Errorf("the operator's drain is now %+v", d)
	}
	must(ask(1, "one", nil))
	is("the operator's drain", berth.NodeIneligible, true)
}

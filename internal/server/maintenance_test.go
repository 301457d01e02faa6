package server_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"berth"
	"berth/op"

	nomad "github.com/hashicorp/nomad/api"
)

// Operators count evaluations, have a node's jobs looked at, and forget a node that
// is down once nothing on it is needed.
func TestMaintenance(t *testing.T) {
	r := start(t, t.TempDir())
	n := r.node(1)
	reg := must[*nomad.JobRegisterResponse, *nomad.WriteMeta](t)
	r.settled(reg(r.api.Jobs().Register(sleeper("web", 1), nil)).EvalID)

	count, _, err := r.api.Evaluations().Count(&nomad.QueryOptions{Filter: `JobID == "web" and Status == "complete"`})
	if err != nil || count.Count != 1 {
		t.Errorf("%+v %v", count, err)
	}
	_, _, err = r.api.Evaluations().Count(&nomad.QueryOptions{Filter: `Nothing == 1`})
	refused(t, "a filter of what is not there", err, http.StatusBadRequest, "Nothing")

	id, _, err := r.api.Nodes().ForceEvaluate(n.ID.String(), nil)
	if err != nil || id == "" {
		t.Fatalf("%q %v", id, err)
	}
	if e := r.settled(id); e.JobID != "web" || e.TriggeredBy != "node-update" {
		t.Errorf("%+v", e)
	}
	_, _, err = r.api.Nodes().ForceEvaluate("6c2a1b34-0000-4000-8000-000000000000", nil)
	refused(t, "an unknown node", err, http.StatusNotFound, "node not found")

	_, _, err = r.api.Nodes().Purge(n.ID.String(), nil)
	refused(t, "a node that is there", err, http.StatusConflict, "only a node that is down can be purged")
	if err := r.api.System().ReconcileSummaries(); err != nil {
		t.Error(err)
	}
	check, _, err := r.api.Operator().UpgradeCheckVaultWorkloadIdentity(nil)
	if err != nil || !check.Ready() {
		t.Errorf("%+v %v", check, err)
	}
	if _, _, err = r.api.Operator().LicenseGet(nil); err == nil || !strings.Contains(err.Error(), "Nomad Enterprise only endpoint") {
		t.Error(err)
	}
	_, _, err = r.api.Operator().Utilization(&nomad.OperatorUtilizationOptions{}, nil)
	refused(t, "utilization", err, http.StatusNotImplemented, "Nomad Enterprise only endpoint")

	// A payload comes as it is.
	parent := sleeper("batch", 1)
	parent.Type, parent.ParameterizedJob = new("batch"), &nomad.ParameterizedJobConfig{}
	reg(r.api.Jobs().Register(parent, nil))
	code, _, text := r.send("PUT", "/v1/job/batch/dispatch/payload", strings.NewReader("plain \x00 text"))
	i := strings.Index(text, "batch/dispatch-")
	if code != http.StatusOK || i < 0 {
		t.Fatalf("%d %s", code, text)
	}
	child := must[*nomad.Job, *nomad.QueryMeta](t)(r.api.Jobs().Info(text[i:i+strings.Index(text[i:], `"`)], nil))
	if string(child.Payload) != "plain \x00 text" {
		t.Errorf("the payload is %q", child.Payload)
	}
}

// A node that is down is purged with what ended on it.
func TestPurgeOfANode(t *testing.T) {
	r := start(t, t.TempDir())
	n, reg := r.node(1), must[*nomad.JobRegisterResponse, *nomad.WriteMeta](t)
	r.settled(reg(r.api.Jobs().Register(atOnce(sleeper("web", 1)), nil)).EvalID)
	other := r.node(2)
	n.call("Node.UpdateStatus", &op.BeatNode{NodeID: n.ID, Status: berth.NodeDown, Write: op.Write{AuthToken: n.SecretID}}, &op.NodeAnswer{})
	r.until("the job moved", func() bool {
		list, _, err := r.api.Jobs().Allocations("web", false, nil)
		return err == nil && slices.ContainsFunc(list, func(a *nomad.AllocationListStub) bool { return a.NodeID == other.ID.String() })
	})
	if _, _, err := r.api.Nodes().Purge(n.ID.String(), nil); err != nil {
		t.Fatal(err)
	}
	_, _, err := r.api.Nodes().Info(n.ID.String(), nil)
	refused(t, "a purged node", err, http.StatusNotFound, "node not found")
	list := must[[]*nomad.AllocationListStub, *nomad.QueryMeta](t)(r.api.Jobs().Allocations("web", false, nil))
	if len(list) != 1 || list[0].NodeID != other.ID.String() {
		t.Errorf("%+v", list)
	}
}

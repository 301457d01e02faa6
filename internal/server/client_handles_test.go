package server_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"berth"
	"berth/op"

	nomad "github.com/hashicorp/nomad/api"
)

// The handle that Nomad's Go client has for a lock: of two holders one gets it, and
// what the other does is a conflict.
func TestTheHandleOfALock(t *testing.T) {
	r := start(t, t.TempDir())
	v := nomad.Variable{Path: "leader", Lock: &nomad.VariableLock{TTL: "20s", LockDelay: "1s"}}
	once := nomad.LocksOptionWithMaxRetries(1)
	mine, err := r.api.Locks(nomad.WriteOptions{}, v, once)
	if err != nil {
		t.Fatal(err)
	}
	v.Lock = &nomad.VariableLock{TTL: "20s", LockDelay: "1s"}
	other, err := r.api.Locks(nomad.WriteOptions{}, v, once)
	if err != nil {
		t.Fatal(err)
	}
	if mine.LockTTL() != 20*time.Second {
		t.Errorf("the time is %v", mine.LockTTL())
	}
	if path, err := mine.Acquire(t.Context()); err != nil || path != "leader" {
		t.Fatalf("%q, %v", path, err)
	}
	if _, err := other.Acquire(t.Context()); !errors.Is(err, nomad.ErrLockConflict) {
		t.Errorf("taken while it is held: %v", err)
	}
	if err := mine.Renew(t.Context()); err != nil {
		t.Errorf("renewed: %v", err)
	}
	if err := other.Renew(t.Context()); err == nil {
		t.Error("renewed by another, who never had the lock")
	}
	if err := other.Release(t.Context()); !errors.Is(err, nomad.ErrLockConflict) {
		t.Errorf("released by another: %v", err)
	}
	if err := mine.Release(t.Context()); err != nil {
		t.Errorf("released: %v", err)
	}
	if _, err := r.api.Locks(nomad.WriteOptions{}, nomad.Variable{}); !errors.Is(err, nomad.LockNoPathErr) {
		t.Errorf("without a path: %v", err)
	}

	// A leaser holds the lock while the function runs, and gives it back.
	leaser := r.api.NewLockLeaser(other, nomad.LockLeaserOptionWithEarlyReturn(true))
	fault := errors.New("the function's own")
	err = leaser.Start(t.Context(), func(context.Context) error {
		v, _, err := r.api.Variables().Read("leader", nil)
		if err != nil || v.LockID() == "" {
			return fmt.Errorf("the lock is not held: %+v, %w", v, err)
		}
		return fault
	})
	if !errors.Is(err, fault) {
		t.Errorf("the leaser ended with %v", err)
	}
	if v, _, err := r.api.Variables().Read("leader", nil); err != nil || v.LockID() != "" {
		t.Errorf("the lock is still held: %+v, %v", v, err)
	}
}

// What the Go client documents of errors: their texts and values are those that
// callers compare.
func TestDocumentedErrorsOfTheGoClient(t *testing.T) {
	r := start(t, t.TempDir())
	_, _, err := r.api.Jobs().List(&nomad.QueryOptions{Filter: "Name =="})
	refused(t, "a filter that cannot be read", err, 400, nomad.ResultPaginatorErrorContent+": failed to read filter expression")
	_, _, err = r.api.Nodes().List(&nomad.QueryOptions{Filter: `Colour == "red"`})
	refused(t, "a filter of an unknown field", err, 400, nomad.ResultPaginatorErrorContent+`: filter: unknown field "Colour"`)
	if e := new(nomad.UnexpectedResponseError); !errors.As(err, e) || !e.HasStatusCode() || !e.HasBody() || e.StatusText() != "Bad Request" || !strings.Contains(e.Error(), "Unexpected response code: 400") {
		t.Errorf("%+v", err)
	}
	//lint:ignore SA1019 clients still compare it
	if _, _, err := r.api.Variables().Read("none", nil); !errors.Is(err, nomad.ErrVariablePathNotFound) || err.Error() != nomad.ErrVariableNotFound {
		t.Errorf("a variable that is not there: %v", err)
	}
	must[*nomad.JobRegisterResponse, *nomad.WriteMeta](t)(r.api.Jobs().Register(sleeper("web", 1), nil))
	_, _, err = r.api.Jobs().EnforceRegister(sleeper("web", 2), 7, nil)
	if err == nil || !strings.Contains(err.Error(), nomad.RegisterEnforceIndexErrPrefix) {
		t.Errorf("an index that has passed: %v", err)
	}

	// An agent that is called directly: its node must be up, and have an address.
	n := r.node(1)
	if _, err := r.api.GetNodeClient(n.ID.String(), nil); err == nil || !strings.Contains(err.Error(), "is not advertised") {
		t.Errorf("a node without an address: %v", err)
	}
	status := func(s string) {
		t.Helper()
		n.HTTPAddr = strings.TrimPrefix(r.http, "http://")
		n.call("Node.Register", &op.RegisterNode{Node: n.Node}, new(op.NodeAnswer))
		n.call("Node.UpdateStatus", &op.BeatNode{NodeID: n.ID, SecretID: n.SecretID, Status: s}, new(op.NodeAnswer))
	}
	status(berth.NodeReady)
	direct, err := r.api.GetNodeClientWithTimeout(n.ID.String(), time.Minute, nil)
	if err != nil || direct.Address() != r.http {
		t.Fatalf("%+v, %v", direct, err)
	}
	defer direct.Close()
	if _, err := direct.Status().Leader(); err != nil {
		t.Error(err)
	}
	status(berth.NodeDown)
	if _, err := r.api.GetNodeClient(n.ID.String(), nil); !errors.Is(err, nomad.NodeDownErr) {
		t.Errorf("a node that is down: %v", err)
	}
}

// The client's own settings: the region and the namespace of its requests, and its
// token.
func TestSettingsOfTheGoClient(t *testing.T) {
	r, secret := guarded(t)
	job := sleeper("web", 1)
	must[*nomad.JobRegisterResponse, *nomad.WriteMeta](t)(r.api.Jobs().Register(job, nil))
	if list, _, err := r.api.Jobs().List(nil); err != nil || len(list) != 1 {
		t.Errorf("%+v, %v", list, err)
	}
	r.api.SetNamespace("other")
	if list, _, err := r.api.Jobs().List(nil); err != nil || len(list) != 0 {
		t.Errorf("in another namespace: %+v, %v", list, err)
	}
	r.api.SetNamespace("")
	r.api.SetRegion("moon")
	_, _, err := r.api.Jobs().List(nil)
	refused(t, "another region", err, 400, `No path to region: "moon"`)
	r.api.SetRegion("global")
	r.api.SetSecretID("")
	_, _, err = r.api.Nodes().List(nil)
	refused(t, "no token", err, 403, nomad.PermissionDeniedErrorContent)
	r.api.SetSecretID(secret)
	if _, _, err := r.api.Nodes().List(nil); err != nil {
		t.Error(err)
	}
}

// A job and its deployment, as the Go client decodes them from events.
func TestEventsOfAJobAndItsDeployment(t *testing.T) {
	r := start(t, t.TempDir())
	r.node(1)
	ch := r.subscribe(map[nomad.Topic][]string{nomad.TopicJob: {"web"}, nomad.TopicDeployment: {"web"}}, 0, "*")
	job := sleeper("web", 1)
	job.Update = &nomad.UpdateStrategy{MaxParallel: new(1)}
	must[*nomad.JobRegisterResponse, *nomad.WriteMeta](t)(r.api.Jobs().Register(job, nil))
	for _, e := range r.wait(ch, "the deployment", func(e nomad.Event) bool { return e.Topic == nomad.TopicDeployment }) {
		switch e.Topic {
		case nomad.TopicJob:
			if j, err := e.Job(); err != nil || *j.ID != "web" || *j.Version != 0 {
				t.Errorf("%+v, %v", j, err)
			}
		case nomad.TopicDeployment:
			if d, err := e.Deployment(); err != nil || d.JobID != "web" || d.TaskGroups["g"].DesiredTotal != 1 {
				t.Errorf("%+v, %v", d, err)
			}
		}
	}
}

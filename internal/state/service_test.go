package state_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"berth"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// registered is a cluster of two nodes with two instances on the first and one
// on the second.
type registered struct {
	t      *testing.T
	store  *state.Store
	log    *statetest.Log
	allocs []*berth.Alloc
}

func newRegistered(t *testing.T) *registered {
	r := &registered{t: t}
	r.store, r.log = statetest.New(t, statetest.AddNode(1, 4000, 4000), statetest.AddNode(2, 4000, 4000))
	j := statetest.Register(statetest.Job(t, `{"ID":"web","TaskGroups":[{"Name":"g","Count":3,"Resources":{"CPU":100,"MemoryMB":100}}]}`), 1)
	r.log.Must(t, j)
	plan := &state.ApplyPlan{Eval: j.Eval.ID, Now: 5}
	for i, node := range []int{1, 1, 2} {
		plan.Place = append(plan.Place, berth.Placement{Index: uint32(i), NodeID: statetest.ID[berth.Node](node)})
	}
	r.log.Must(t, plan)
	r.allocs = make([]*berth.Alloc, 3)
	for a := range r.store.Snapshot().AllocsOf(j.Job.Key()) {
		r.allocs[a.Index] = a
	}
	return r
}

// reg is a registration of an instance.
func (r *registered) reg(id, name string, alloc int, tags ...string) *berth.ServiceRegistration {
	a := r.allocs[alloc]
	return &berth.ServiceRegistration{ID: id, ServiceName: name, Namespace: "default", NodeID: a.NodeID, JobID: "web", AllocID: a.ID, Address: "10.0.0.1", Port: 80 + alloc, Tags: tags}
}

func (r *registered) put(regs ...*berth.ServiceRegistration) error {
	_, err := r.log.Propose(r.t.Context(), &state.UpsertServices{Node: regs[0].NodeID, Services: regs})
	return err
}

func (r *registered) must(regs ...*berth.ServiceRegistration) {
	r.t.Helper()
	if err := r.put(regs...); err != nil {
		r.t.Fatal(err)
	}
}

// there lists the registrations, and checks that every index has the same.
func (r *registered) there() string {
	r.t.Helper()
	return listed(r.t, r.store.Snapshot())
}

func listed(t *testing.T, s *state.Snapshot) string {
	t.Helper()
	var out []string
	found := map[string]int{}
	for reg := range s.Services() {
		out = append(out, fmt.Sprintf("%s/%s", reg.ServiceName, reg.ID))
		for x := range s.ServicesNamed(reg.Key()) {
			found[x.ID+" by name"] = 1
		}
		for x := range s.ServicesOf(reg.AllocID) {
			found[x.ID+" by alloc"] = 1
		}
		for x := range s.ServicesOn(reg.NodeID) {
			found[x.ID+" by node"] = 1
		}
		if s.Service(reg.ID) != reg {
			t.Errorf("%s is not found by its ID", reg.ID)
		}
	}
	if len(found) != 3*len(out) || s.Count(state.Services) != len(out) {
		t.Errorf("%d rows, %d counted, %v", len(out), s.Count(state.Services), found)
	}
	return strings.Join(out, " ")
}

func TestServicesAreFoundAndSaved(t *testing.T) {
	r := newRegistered(t)
	r.must(r.reg("b", "web", 0, "v1"), r.reg("a", "web", 1), r.reg("c", "db", 0))
	r.must(r.reg("d", "web", 2))
	if got := r.there(); got != "db/c web/a web/b web/d" {
		t.Fatal(got)
	}
	before := r.store.Snapshot()
	first := before.Service("b")
	r.must(r.reg("b", "web", 0, "v1")) // nothing new
	if now := r.store.Snapshot(); now.Service("b") != first || now.LastChange(state.Services) != before.LastChange(state.Services) {
		t.Error("what says nothing new changed something")
	}
	r.must(r.reg("b", "web2", 0, "v2"))
	if got := r.there(); got != "db/c web/a web/d web2/b" {
		t.Error(got)
	}
	if b := r.store.Snapshot().Service("b"); b.CreateIndex != first.CreateIndex || b.ModifyIndex <= first.ModifyIndex || b.Datacenter != "dc1" {
		t.Errorf("changed: %+v", b)
	}
	if got := listed(t, before); got != "db/c web/a web/b web/d" {
		t.Errorf("the older snapshot has %s", got)
	}
	var saved bytes.Buffer
	if err := r.store.Snapshot().Save(&saved); err != nil {
		t.Fatal(err)
	}
	loaded, err := state.Load(&saved)
	if err != nil {
		t.Fatal(err)
	}
	if listed(t, loaded) != r.there() || loaded.Hash() != r.store.Snapshot().Hash() || loaded.LastChange(state.Services) != r.store.Snapshot().LastChange(state.Services) {
		t.Errorf("loaded: %s", listed(t, loaded))
	}
}

// What an allocation registered goes in the command that ends it, and what a
// node did in the one that takes it for down.
func TestServicesEndWithWhatTheyBelongTo(t *testing.T) {
	r := newRegistered(t)
	r.must(r.reg("a", "web", 0), r.reg("b", "web", 1))
	r.must(r.reg("c", "web", 2))
	r.log.Must(t, &state.ReportAllocs{Node: r.allocs[0].NodeID, Updates: []state.AllocUpdate{{ID: r.allocs[0].ID, Client: berth.ClientRunning}}, Now: 6})
	if got := r.there(); got != "web/a web/b web/c" {
		t.Errorf("running: %s", got)
	}
	r.log.Must(t, &state.ReportAllocs{Node: r.allocs[0].NodeID, Updates: []state.AllocUpdate{{ID: r.allocs[0].ID, Client: berth.ClientFailed}}, Now: 7})
	if got := r.there(); got != "web/b web/c" {
		t.Errorf("one failed: %s", got)
	}
	r.must(r.reg("a", "web", 0)) // said too late
	if got := r.there(); got != "web/b web/c" {
		t.Errorf("said too late: %s", got)
	}
	r.log.Must(t, &state.SetNodeStatus{ID: r.allocs[1].NodeID, Status: berth.NodeDown, Now: 8})
	if got := r.there(); got != "web/c" {
		t.Errorf("a node is down: %s", got)
	}
	r.must(r.reg("b", "web", 1))
	if got := r.there(); got != "web/c" {
		t.Errorf("of a node that is down: %s", got)
	}
	r.log.Must(t, &state.SetNodeStatus{ID: r.allocs[1].NodeID, Status: berth.NodeReady, Now: 9})
	r.must(r.reg("b", "web", 1))
	if got := r.there(); got != "web/b web/c" {
		t.Errorf("it is back: %s", got)
	}
}

func TestServicesThatAreRefused(t *testing.T) {
	r := newRegistered(t)
	r.must(r.reg("a", "web", 0))
	r.must(r.reg("c", "web", 2))
	for _, c := range []struct {
		name string
		f    func(*berth.ServiceRegistration)
		kind berth.Kind
	}{
		{"of another node's allocation", func(x *berth.ServiceRegistration) { x.AllocID = r.allocs[2].ID }, berth.Denied},
		{"that another node has", func(x *berth.ServiceRegistration) { x.ID = "c" }, berth.Denied},
		{"of another job", func(x *berth.ServiceRegistration) { x.JobID = "db" }, berth.Denied},
		{"in another namespace", func(x *berth.ServiceRegistration) { x.Namespace = "other" }, berth.Denied},
		{"that says another node", func(x *berth.ServiceRegistration) { x.NodeID = statetest.ID[berth.Node](2) }, berth.Denied},
		{"without an ID", func(x *berth.ServiceRegistration) { x.ID = "" }, berth.Invalid},
		{"without a name", func(x *berth.ServiceRegistration) { x.ServiceName = "" }, berth.Invalid},
		{"with a bad name", func(x *berth.ServiceRegistration) { x.ServiceName = "web/../x" }, berth.Invalid},
		{"with a bad port", func(x *berth.ServiceRegistration) { x.Port = 70_000 }, berth.Invalid},
		{"with a bad address", func(x *berth.ServiceRegistration) { x.Address = "a b" }, berth.Invalid},
		{"with too many tags", func(x *berth.ServiceRegistration) { x.Tags = make([]string, 101) }, berth.Invalid},
	} {
		x := r.reg("x", "web", 1)
		c.f(x)
		_, err := r.log.Propose(t.Context(), &state.UpsertServices{Node: r.allocs[0].NodeID, Services: []*berth.ServiceRegistration{r.reg("y", "web", 0), x}})
		if berth.KindOf(err) != c.kind {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	for _, c := range []struct {
		d    state.DeleteServices
		kind berth.Kind
	}{
		{state.DeleteServices{Namespace: "default", Name: "web", IDs: []string{"x"}}, berth.NotFound},
		{state.DeleteServices{Namespace: "default", Name: "db", IDs: []string{"a"}}, berth.NotFound},
		{state.DeleteServices{Namespace: "other", Name: "web", IDs: []string{"a"}}, berth.NotFound},
		{state.DeleteServices{Node: r.allocs[0].NodeID, IDs: []string{"c"}}, berth.Denied},
		{state.DeleteServices{Namespace: "default", Name: "web"}, berth.Invalid},
	} {
		if _, err := r.log.Propose(t.Context(), &c.d); berth.KindOf(err) != c.kind {
			t.Errorf("%+v: %v", c.d, err)
		}
	}
	if got := r.there(); got != "web/a web/c" {
		t.Errorf("what was refused left %s", got)
	}
	r.log.Must(t, &state.DeleteServices{Node: r.allocs[0].NodeID, IDs: []string{"a", "gone"}}, &state.DeleteServices{Namespace: "default", Name: "web", IDs: []string{"c"}})
	if got := r.there(); got != "" {
		t.Errorf("at the end there is %s", got)
	}
}

package server_test

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"berth"
	"berth/op"

	nomad "github.com/hashicorp/nomad/api"
)

// registers has a node register instances of a service for its allocations,
// as an agent does, and returns their IDs.
func (n *node) registers(service string, ids ...berth.AllocID) (out []string) {
	n.t.Helper()
	in := &op.UpsertServices{Write: op.Write{AuthToken: n.SecretID}}
	for i, id := range ids {
		reg := fmt.Sprintf("_nomad-task-%s-app-%s-http", id, service)
		out = append(out, reg)
		in.Services = append(in.Services, &berth.ServiceRegistration{
			ID: reg, ServiceName: service, Namespace: "default", NodeID: n.ID, JobID: "web", AllocID: id, Address: "10.0.0.1", Port: 8000 + i, Tags: []string{"b", "a"},
		})
	}
	n.call("ServiceRegistration.Upsert", in, new(op.WriteAnswer))
	return out
}

// Services as Nomad's Go client sees them.
func TestServicesThroughTheGoClient(t *testing.T) {
	r := start(t, t.TempDir())
	n := r.node(1)
	services := r.api.Services()
	events := r.subscribe(map[nomad.Topic][]string{nomad.TopicService: {"db"}}, 0, "default")
	if all, _, err := services.List(nil); err != nil || len(all) != 0 {
		t.Fatalf("at first there are %v (%v)", all, err)
	}
	reg := must[*nomad.JobRegisterResponse, *nomad.WriteMeta](t)(r.api.Jobs().Register(sleeper("web", 4), nil))
	r.settled(reg.EvalID)
	allocs := n.pulled()
	slices.SortFunc(allocs, func(a, b berth.AllocID) int { return bytes.Compare(a[:], b[:]) })
	ids := n.registers("shop", allocs...)
	n.registers("db", allocs[0])
	sent := r.wait(events, "the service db", func(nomad.Event) bool { return true })
	if s, err := sent[0].Service(); err != nil || s.ServiceName != "db" || s.AllocID != allocs[0].String() || s.Port != 8000 {
		t.Errorf("the event has %+v (%v)", s, err)
	}

	all, meta, err := services.List(nil)
	if err != nil || len(all) != 1 || all[0].Namespace != "default" || len(all[0].Services) != 2 || all[0].Services[0].ServiceName != "db" ||
		all[0].Services[1].ServiceName != "shop" || strings.Join(all[0].Services[1].Tags, ",") != "a,b" || meta.LastIndex == 0 {
		t.Errorf("there are %+v, %+v (%v)", all, meta, err)
	}
	list, meta, err := services.Get("shop", nil)
	if err != nil || len(list) != 4 || meta.LastIndex == 0 {
		t.Fatalf("the service is %+v (%v)", list, err)
	}
	for i, s := range list {
		if s.ID != ids[i] || s.ServiceName != "shop" || s.Namespace != "default" || s.NodeID != n.ID.String() || s.Datacenter != "dc1" || s.JobID != "web" ||
			s.AllocID != allocs[i].String() || strings.Join(s.Tags, ",") != "b,a" || s.Address != "10.0.0.1" || s.Port != 8000+i || s.CreateIndex == 0 {
			t.Errorf("instance %d is %+v", i, s)
		}
	}
	if none, _, err := services.Get("gone", nil); err != nil || len(none) != 0 {
		t.Errorf("what is not there is %v (%v)", none, err)
	}

	// Paging and filters.
	page, meta, err := services.Get("shop", &nomad.QueryOptions{PerPage: 3})
	if err != nil || len(page) != 3 || meta.NextToken == "" {
		t.Fatalf("the first page is %v, then %q (%v)", page, meta.NextToken, err)
	}
	if page, _, err = services.Get("shop", &nomad.QueryOptions{PerPage: 3, NextToken: meta.NextToken}); err != nil || len(page) != 1 || page[0].ID != ids[3] {
		t.Errorf("the second page is %v (%v)", page, err)
	}
	if some, _, err := services.Get("shop", &nomad.QueryOptions{Filter: `Port == 8002 and "a" in Tags`}); err != nil || len(some) != 1 || some[0].ID != ids[2] {
		t.Errorf("the filter leaves %v (%v)", some, err)
	}
	if some, _, err := services.List(&nomad.QueryOptions{PerPage: 1, NextToken: "default.shop", Namespace: "*"}); err != nil || len(some) != 1 || some[0].Services[0].ServiceName != "shop" {
		t.Errorf("a page of the list is %v (%v)", some, err)
	}

	// The same key gets the same instances, and one that goes takes no other
	// key's along.
	chosen := func(key string) []string {
		some, _, err := services.Get("shop", &nomad.QueryOptions{Params: map[string]string{"choose": "2|" + key}})
		if err != nil || len(some) != 2 {
			t.Fatalf("for %s there are %v (%v)", key, some, err)
		}
		return []string{some[0].ID, some[1].ID}
	}
	before := map[string][]string{}
	first := map[string]int{}
	for i := range 100 {
		key := fmt.Sprint("key", i)
		before[key] = chosen(key)
		first[before[key][0]]++
		if again := chosen(key); !slices.Equal(again, before[key]) {
			t.Fatalf("%s: %v, then %v", key, before[key], again)
		}
	}
	for id, n := range first {
		if n < 10 || n > 45 {
			t.Errorf("%s is the first choice of %d keys in 100", id, n)
		}
	}
	if _, err := services.Delete("shop", ids[0], nil); err != nil {
		t.Fatal(err)
	}
	for key, was := range before {
		now := chosen(key)
		for _, id := range was {
			if id != ids[0] && !slices.Contains(now, id) {
				t.Errorf("%s: %v, then %v without %s", key, was, now, ids[0])
			}
		}
	}
	for _, bad := range []string{"2", "x|key", "0|key", "2|"} {
		_, _, err = services.Get("shop", &nomad.QueryOptions{Params: map[string]string{"choose": bad}})
		refused(t, "choose="+bad, err, http.StatusBadRequest, "must be <number>|<key>")
	}
	_, err = services.Delete("shop", ids[0], nil)
	refused(t, "deleting twice", err, http.StatusNotFound, "service registration not found")
	_, err = services.Delete("db", ids[1], nil)
	refused(t, "deleting another's", err, http.StatusNotFound, "service registration not found")

	// Of an allocation and of a job.
	for path, want := range map[string]int{"/v1/allocation/" + allocs[0].String() + "/services": 1, "/v1/job/web/services": 4} {
		var some []*nomad.ServiceRegistration
		if _, err := r.api.Raw().Query(path, &some, nil); err != nil || len(some) != want {
			t.Errorf("%s: %v (%v)", path, some, err)
		}
	}
	// A blocking read sees the next change, and the end of an allocation is one.
	_, meta, _ = services.Get("shop", nil)
	woken := make(chan int, 1)
	go func() {
		list, _, _ := services.Get("shop", &nomad.QueryOptions{WaitIndex: meta.LastIndex, WaitTime: op.MaxWait})
		woken <- len(list)
	}()
	n.call("Node.UpdateAlloc", &op.ReportAllocs{Write: op.Write{AuthToken: n.SecretID}, Alloc: []*op.AllocReport{{ID: allocs[1], NodeID: n.ID, ClientStatus: berth.ClientFailed}}}, new(op.WriteAnswer))
	if got := <-woken; got != 2 {
		t.Errorf("after the end of one there are %d", got)
	}

	// Any node may ask for the instances, whatever the case of the name; nobody else.
	other := r.node(2)
	var found op.ServiceInstances
	for _, name := range []string{"shop", "SHOP"} {
		other.call("ServiceRegistration.Resolve", &op.ServiceLookup{NodeID: other.ID, Space: "Default", ServiceName: name, Query: op.Query{AuthToken: other.SecretID}}, &found)
		if len(found.Services) != 2 || found.Services[0].ServiceName != "shop" {
			t.Errorf("found as %s: %+v", name, found.Services)
		}
	}
	if err := other.session.Call(t.Context(), "ServiceRegistration.Resolve", &op.ServiceLookup{NodeID: n.ID, Space: "default", ServiceName: "shop", Query: op.Query{AuthToken: other.SecretID}}, &found); berth.KindOf(err) != berth.Denied {
		t.Errorf("another node asked in its name: %v", err)
	}

	// Taken back by the agent, twice; not by another's.
	if err := other.session.Call(t.Context(), "ServiceRegistration.DeleteByID", &op.DeleteServiceByID{ID: ids[2], Write: op.Write{AuthToken: other.SecretID}}, new(op.WriteAnswer)); berth.KindOf(err) != berth.Denied {
		t.Errorf("another node took it back: %v", err)
	}
	if err := other.session.Call(t.Context(), "ServiceRegistration.Upsert", &op.UpsertServices{Write: op.Write{AuthToken: other.SecretID}, Services: []*berth.ServiceRegistration{
		{ID: "x", ServiceName: "shop", Namespace: "default", NodeID: n.ID, JobID: "web", AllocID: allocs[2]}}}, new(op.WriteAnswer)); berth.KindOf(err) != berth.Denied {
		t.Errorf("another node spoke for it: %v", err)
	}
	for range 2 {
		n.call("ServiceRegistration.DeleteByID", &op.DeleteServiceByID{ID: ids[2], Write: op.Write{AuthToken: n.SecretID}}, new(op.WriteAnswer))
	}
	if list, _, err := services.Get("shop", nil); err != nil || len(list) != 1 || list[0].ID != ids[3] {
		t.Errorf("at the end there are %v (%v)", list, err)
	}

	// The events of all that.
	stream, err := r.api.EventStream().Stream(t.Context(), map[nomad.Topic][]string{nomad.TopicService: {"shop"}}, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for events := range stream {
		for _, e := range events.Events {
			s, err := e.Service()
			if err != nil || s.ServiceName != "shop" || e.Key != s.ID {
				t.Errorf("%+v: %+v (%v)", e, s, err)
			}
			told = append(told, strings.TrimPrefix(e.Type, "Service"))
		}
		if len(told) >= 7 {
			break
		}
	}
	if got := strings.Join(told, " "); got != "Registration Registration Registration Registration Deregistration Deregistration Deregistration" {
		t.Errorf("told was %s", got)
	}
}

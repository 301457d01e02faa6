package server_test

import (
	"strings"
	"testing"
	"time"

	"berth"
	"berth/internal/state"
	"berth/internal/wire"
	"berth/op"
)

// placed runs a job of one task and returns the allocation, which is on n.
func (r *running) placed(id string, n *node) berth.AllocID {
	r.t.Helper()
	reg, _, err := r.api.Jobs().Register(sleeper(id, 1), nil)
	if err != nil {
		r.t.Fatal(err)
	}
	r.settled(reg.EvalID)
	allocs, _, err := r.api.Jobs().Allocations(id, false, nil)
	if err != nil || len(allocs) != 1 || allocs[0].NodeID != n.ID.String() {
		r.t.Fatal(allocs, err)
	}
	full, err := berth.ParseID[berth.Alloc](allocs[0].ID)
	if err != nil {
		r.t.Fatal(err)
	}
	return full
}

// Whoever has not a node's secret can do nothing in its name, whatever the
// call, whatever the connection, and changes nothing by trying.
func TestNodesProveWhoTheyAre(t *testing.T) {
	r := start(t, t.TempDir())
	victim := r.node(1)
	alloc := r.placed("web", victim)
	thief := r.node(2)
	stranger, err := wire.Dial(t.Context(), r.rpc, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	report := func(n berth.NodeID) []*op.AllocReport {
		return []*op.AllocReport{{ID: alloc, NodeID: n, ClientStatus: berth.ClientFailed}}
	}
	event := &berth.NodeEvent{Message: "mine now", Subsystem: "x", Timestamp: time.Now()}
	before := r.server.Store().Snapshot().Hash()
	for _, secret := range []string{"", "guess", thief.SecretID, victim.SecretID + "x", strings.ToUpper(victim.SecretID)} {
		auth := op.Query{AuthToken: secret}
		as := op.Write{AuthToken: secret}
		other := *victim.Node
		other.SecretID, other.HTTPAddr = secret, "10.0.0.1:4646"
		for _, c := range []struct {
			method string
			in     any
		}{
			{"Node.Register", &op.RegisterNode{Node: &other, Write: as}},
			{"Node.Register", &op.RegisterNode{Node: &other, NodeEvent: event, Write: as}},
			{"Node.UpdateStatus", &op.BeatNode{NodeID: victim.ID, SecretID: secret, Status: berth.NodeDown}},
			{"Node.UpdateStatus", &op.BeatNode{NodeID: victim.ID, Status: berth.NodeReady, NodeEvent: event, Write: as}},
			{"Node.UpdateStatus", &op.BeatNode{NodeID: victim.ID, SecretID: secret, Write: as}},
			{"Node.GetClientAllocs", &op.NodeAllocIndexes{NodeID: victim.ID, SecretID: secret}},
			{"Node.GetClientAllocs", &op.NodeAllocIndexes{NodeID: victim.ID, Query: op.Query{AuthToken: secret, MinQueryIndex: 1 << 40, MaxQueryTime: time.Minute}}},
			{"Alloc.GetAllocs", &op.GetAllocs{AllocIDs: []string{alloc.String()}, SecretID: secret}},
			{"Alloc.GetAllocs", &op.GetAllocs{AllocIDs: []string{alloc.String()}, Query: auth}},
			{"Node.UpdateAlloc", &op.ReportAllocs{Alloc: report(victim.ID), Write: as}},
			{"Node.EmitEvents", &op.EmitEvents{NodeEvents: map[string][]*berth.NodeEvent{victim.ID.String(): {event}}, Write: as}},
			{"Stream.Connectivity", &op.ConnectivityQuery{NodeID: victim.ID, SecretID: secret, AllocID: alloc}},
			{"Stream.ReportConnectivity", &op.ReportConnectivity{NodeID: victim.ID, SecretID: secret, AllocID: alloc, State: berth.ConnectivityFull, Write: as}},
		} {
			for name, session := range map[string]*wire.Session{"the thief": thief.session, "the victim": victim.session, "a stranger": stranger} {
				err := session.Call(t.Context(), c.method, c.in, &struct{}{})
				if secret == "" && c.method == "Node.Register" {
					if berth.KindOf(err) != berth.Invalid || !strings.Contains(err.Error(), "Node.SecretID") {
						t.Errorf("%s without a secret, of %s: %v", c.method, name, err)
					}
					continue
				}
				if berth.KindOf(err) != berth.Denied || !strings.HasPrefix(err.Error(), "Permission denied") {
					t.Errorf("%s with the secret %q, of %s: %v", c.method, secret, name, err)
				}
			}
		}
	}

	// With its own secret a node speaks for itself alone.
	own := op.Write{AuthToken: thief.SecretID}
	for what, c := range map[string]struct {
		method string
		in     any
	}{
		"a report on another's allocation":     {"Node.UpdateAlloc", &op.ReportAllocs{Alloc: report(thief.ID), Write: own}},
		"a report in the name of two":          {"Node.UpdateAlloc", &op.ReportAllocs{Alloc: append([]*op.AllocReport{{ID: berth.AllocID{9}, NodeID: thief.ID}}, report(victim.ID)...), Write: own}},
		"events of two nodes":                  {"Node.EmitEvents", &op.EmitEvents{NodeEvents: map[string][]*berth.NodeEvent{victim.ID.String(): {event}, thief.ID.String(): {event}}, Write: own}},
		"another's allocation among those own": {"Alloc.GetAllocs", &op.GetAllocs{AllocIDs: []string{berth.AllocID{9}.String(), alloc.String()}, SecretID: thief.SecretID}},
	} {
		if err := thief.session.Call(t.Context(), c.method, c.in, &struct{}{}); berth.KindOf(err) != berth.Denied {
			t.Errorf("%s: %v", what, err)
		}
	}
	if r.server.Store().Snapshot().Hash() != before {
		t.Error("a call that was refused has changed the state")
	}
	// Nor did trying make the thief's session that of the victim.
	thief.session.Close()
	stranger.Close()
	path := "/v1/client/fs/logs/" + alloc.String() + "?task=app&type=stdout"
	if code, _, text := r.send("GET", path, nil); strings.Contains(text, "not connected") {
		t.Errorf("the victim is cut off: %d %s", code, text)
	}
	var out op.NodeAnswer
	victim.call("Node.UpdateStatus", &op.BeatNode{NodeID: victim.ID, SecretID: victim.SecretID, Status: berth.NodeReady}, &out)
}

// What an agent says wrongly of its node is told to it, all at once.
func TestBadRegistrations(t *testing.T) {
	r := start(t, t.TempDir())
	good := r.node(1)
	call := func(n *berth.Node) error {
		return good.session.Call(t.Context(), "Node.Register", &op.RegisterNode{Node: n}, &op.NodeAnswer{})
	}
	change := func(f func(*berth.Node)) *berth.Node {
		n := *good.Node
		n.ID = berth.NodeID{7}
		f(&n)
		return &n
	}
	before := r.server.Store().Snapshot().Hash()
	for want, n := range map[string]*berth.Node{
		"Node: is missing":                  nil,
		"Node.ID: is missing":               change(func(n *berth.Node) { n.ID = berth.NodeID{} }),
		"Node.SecretID":                     change(func(n *berth.Node) { n.SecretID = "" }),
		"Node.Name":                         change(func(n *berth.Node) { n.Name = strings.Repeat("x", 10_000) }),
		"Node.Datacenter":                   change(func(n *berth.Node) { n.Datacenter = "" }),
		"Node.HTTPAddr":                     change(func(n *berth.Node) { n.HTTPAddr = "nowhere" }),
		`Node.Status: must be initializing`: change(func(n *berth.Node) { n.Status = "party" }),
		"Node.NodeResources: is":            change(func(n *berth.Node) { n.NodeResources = nil }),
		"Memory.MemoryMB: must be from 0 to": change(func(n *berth.Node) {
			n.NodeResources = &berth.NodeResources{Memory: berth.NodeMemoryResources{MemoryMB: -1}}
		}),
		"2 problems": &berth.Node{ID: berth.NodeID{7}, SecretID: "s", NodeResources: &berth.NodeResources{}},
	} {
		if err := call(n); berth.KindOf(err) != berth.Invalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	err := good.session.Call(t.Context(), "Node.UpdateStatus", &op.BeatNode{NodeID: good.ID, SecretID: good.SecretID, Status: "party"}, &op.NodeAnswer{})
	if berth.KindOf(err) != berth.Invalid || !strings.Contains(err.Error(), `"party"`) {
		t.Errorf("a status that is none: %v", err)
	}
	err = good.session.Call(t.Context(), "Node.UpdateStatus", &op.BeatNode{NodeID: berth.NodeID{9}, SecretID: "x", Status: berth.NodeReady}, &op.NodeAnswer{})
	if berth.KindOf(err) != berth.NotFound || !strings.Contains(err.Error(), "node not found") {
		t.Errorf("a node that nobody knows: %v", err)
	}
	err = good.session.Call(t.Context(), "Alloc.GetAllocs", &op.GetAllocs{AllocIDs: make([]string, 10_001), SecretID: good.SecretID}, &op.GetAllocsAnswer{})
	if berth.KindOf(err) != berth.Invalid || !strings.Contains(err.Error(), "10001 IDs is too many: the limit is 10000") {
		t.Errorf("too many allocations at once: %v", err)
	}
	if r.server.Store().Snapshot().Hash() != before {
		t.Error("a call that was refused has changed the state")
	}
}

// What a node says at length is kept in part: a megabyte of it would be a
// megabyte in every server's memory.
func TestLongReportsAreCut(t *testing.T) {
	r := start(t, t.TempDir())
	n := r.node(1)
	id := r.placed("web", n)
	long := strings.Repeat("ä", 100_000) + "\xff"
	states := map[string]*berth.TaskState{
		"app":   {State: berth.TaskRunning, Events: []berth.TaskEvent{{Type: berth.EventStarted, Message: long, DisplayMessage: long, Details: map[string]string{"a": long}}}},
		"ghost": {State: berth.TaskRunning, Events: []berth.TaskEvent{{Type: long}}},
		"nil":   nil,
	}
	n.call("Node.UpdateAlloc", &op.ReportAllocs{Write: op.Write{AuthToken: n.SecretID}, Alloc: []*op.AllocReport{{
		ID: id, NodeID: n.ID, ClientStatus: berth.ClientRunning, ClientDescription: long, TaskStates: states,
		NetworkStatus: &berth.AllocNetworkStatus{Address: long, DNS: &berth.DNSConfig{Servers: []string{long}}},
	}}}, &op.WriteAnswer{})
	n.call("Node.EmitEvents", &op.EmitEvents{Write: op.Write{AuthToken: n.SecretID}, NodeEvents: map[string][]*berth.NodeEvent{n.ID.String(): {nil, {Message: long, Subsystem: long, Details: map[string]string{"a": long}}}}}, &op.WriteAnswer{})
	a := r.server.Store().Snapshot().Alloc(id)
	got := state.TaskStates(a)
	if a.Client != berth.ClientRunning || len(got) != 1 || got["app"] == nil || len(got["app"].Events) != 1 || len(got["app"].Events[0].Message) > 1024 {
		t.Errorf("the allocation is %v with states %.500v", a.Client, got)
	}
	if d := a.Rest().ClientDescription; len(d) != 1024 || strings.Trim(d, "ä") != "" {
		t.Errorf("%d bytes are kept of the description", len(d))
	}
	kept := len(a.Tasks) + len(a.Rest().Network.Address) + len(a.Rest().Network.DNS.Servers[0])
	for _, e := range r.server.Store().Snapshot().Node(n.ID).Events {
		kept += len(e.Message) + len(e.Subsystem) + len(e.Details["a"])
	}
	if kept > 10_000 {
		t.Errorf("%d bytes are kept of it all", kept)
	}
	if code, _, text := r.send("GET", "/v1/allocation/"+id.String(), nil); code != 200 || !strings.Contains(text, `"app"`) {
		t.Errorf("%d %.300s", code, text)
	}
}

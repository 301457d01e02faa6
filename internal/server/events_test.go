package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"berth"
	"berth/internal/events"
	"berth/internal/eventually"
	"berth/internal/server"
	"berth/internal/state"
	"berth/op"

	nomad "github.com/hashicorp/nomad/api"
)

// subscribe subscribes with the Go client, until the test ends.
func (r *running) subscribe(topics map[nomad.Topic][]string, index uint64, namespace string) <-chan *nomad.Events {
	r.t.Helper()
	ch, err := r.api.EventStream().Stream(r.t.Context(), topics, index, &nomad.QueryOptions{Namespace: namespace})
	if err != nil {
		r.t.Fatal(err)
	}
	return ch
}

// wait returns the next objects of a stream, until one satisfies enough.
func (r *running) wait(ch <-chan *nomad.Events, what string, enough func(nomad.Event) bool) (out []nomad.Event) {
	r.t.Helper()
	late := time.After(eventually.Limit)
	for {
		select {
		case v, ok := <-ch:
			if !ok || v.Err != nil {
				r.t.Fatalf("waiting for %s, the stream ended: %+v", what, v)
			}
			out = append(out, v.Events...)
			if slices.ContainsFunc(v.Events, enough) {
				return out
			}
		case <-late:
			r.t.Fatalf("waited in vain for %s; there were %d events", what, len(out))
		}
	}
}

// pulled returns the allocations that the node should run.
func (n *node) pulled() (out []berth.AllocID) {
	n.t.Helper()
	var answer op.NodeAllocIndexesAnswer
	n.call("Node.GetClientAllocs", &op.NodeAllocIndexes{NodeID: n.ID, SecretID: n.SecretID}, &answer)
	for id := range answer.Allocs {
		full, err := berth.ParseID[berth.Alloc](id)
		if err != nil {
			n.t.Fatal(err)
		}
		out = append(out, full)
	}
	return out
}

// reports that its allocations fare so.
func (n *node) reports(status berth.ClientStatus) {
	n.t.Helper()
	report := &op.ReportAllocs{Write: op.Write{AuthToken: n.SecretID}}
	for _, id := range n.pulled() {
		report.Alloc = append(report.Alloc, &op.AllocReport{ID: id, NodeID: n.ID, ClientStatus: status})
	}
	n.call("Node.UpdateAlloc", report, &op.WriteAnswer{})
}

// The life of a job, as events that the Go client understands.
func TestTheLifeOfAJobAsEvents(t *testing.T) {
	r := start(t, t.TempDir())
	all := r.subscribe(nil, 0, "*")
	n := r.node(1)
	reg := must[*nomad.JobRegisterResponse, *nomad.WriteMeta](t)(r.api.Jobs().Register(sleeper("web", 2), nil))
	running := func(e nomad.Event) bool {
		a, err := e.Allocation()
		return e.Type == "AllocationUpdated" && err == nil && a.ClientStatus == "running"
	}
	r.settled(reg.EvalID)
	n.reports(berth.ClientRunning)
	seen := r.wait(all, "running allocations", running)
	if _, _, err := r.api.Jobs().Deregister("web", true, nil); err != nil {
		t.Fatal(err)
	}
	seen = append(seen, r.wait(all, "the purge", func(e nomad.Event) bool { return e.Type == "JobDeregistered" })...)

	kinds := map[string]int{}
	last := uint64(0)
	for _, e := range seen {
		kinds[string(e.Topic)+" "+e.Type]++
		if e.Index < last || e.Index == 0 {
			t.Errorf("index %d after %d", e.Index, last)
		}
		last = e.Index
		switch e.Topic {
		case nomad.TopicJob:
			j, deleted, err := e.DeregisteredJob()
			if err != nil || *j.ID != "web" || e.Key != "web" || *j.ModifyIndex > e.Index || deleted != (e.Type == "JobDeregistered") {
				t.Errorf("%+v: %v %v", e, deleted, err)
			}
			if e.Type == "JobRegistered" && (e.Index != reg.JobModifyIndex || *j.Status != "pending" || *j.TaskGroups[0].Count != 2) {
				t.Errorf("%+v", e)
			}
		case nomad.TopicEvaluation:
			v, err := e.Evaluation()
			if err != nil || v.ID != e.Key || v.ModifyIndex != e.Index || v.JobID != "web" || e.FilterKeys[0] != "web" || v.CreateTime == 0 {
				t.Errorf("%+v: %v", e, err)
			}
		case nomad.TopicAllocation:
			a, err := e.Allocation()
			if err != nil || a.ID != e.Key || a.ModifyIndex != e.Index || a.Job != nil || a.NodeID != n.ID.String() || a.NodeName != "n1" ||
				a.JobID != "web" || e.FilterKeys[0] != "web" || a.AllocatedResources.Tasks["app"].Cpu.CpuShares == 0 || a.Metrics == nil {
				t.Errorf("%+v: %v", e, err)
			}
		case nomad.TopicNode:
			v, err := e.Node()
			if err != nil || v.ID != n.ID.String() || v.Name != "n1" || e.Payload["Node"].(map[string]any)["SecretID"] != nil || v.NodeResources.Cpu.CpuShares != 4000 {
				t.Errorf("%+v: %v", e, err)
			}
		}
	}
	for kind, least := range map[string]int{
		"Node NodeRegistration": 1, "Job JobRegistered": 1, "Job JobDeregistered": 1, "Evaluation EvaluationUpdated": 3,
		"Allocation PlanResult": 2, "Allocation AllocationUpdated": 2,
	} {
		if kinds[kind] < least {
			t.Errorf("%d of %s; wanted are %d; there are %v", kinds[kind], kind, least, kinds)
		}
	}

	// The same again by filters.
	other := must[*nomad.JobRegisterResponse, *nomad.WriteMeta](t)(r.api.Jobs().Register(sleeper("other", 1), nil))
	for _, c := range []struct {
		topics map[nomad.Topic][]string
		ns     string
		fits   func(nomad.Event) bool
	}{
		{map[nomad.Topic][]string{nomad.TopicJob: {"other"}}, "", func(e nomad.Event) bool { return e.Key == "other" }},
		{map[nomad.Topic][]string{nomad.TopicEvaluation: {other.EvalID}}, "default", func(e nomad.Event) bool { return e.Key == other.EvalID }},
		{map[nomad.Topic][]string{nomad.TopicAllocation: {other.EvalID}}, "*", func(e nomad.Event) bool { return e.Topic == nomad.TopicAllocation }},
		{map[nomad.Topic][]string{nomad.TopicNode: {}}, "", func(e nomad.Event) bool { return e.Topic == nomad.TopicNode }},
		{map[nomad.Topic][]string{nomad.TopicAll: {"other"}}, "*", func(e nomad.Event) bool { return e.Key == "other" || slices.Contains(e.FilterKeys, "other") }},
	} {
		for _, e := range r.wait(r.subscribe(c.topics, 1, c.ns), fmt.Sprint(c.topics), func(nomad.Event) bool { return true }) {
			if !c.fits(e) {
				t.Errorf("%v brings %s %s %s", c.topics, e.Topic, e.Type, e.Key)
			}
		}
	}
}

// copied makes of a copy of the tables, by ModifyIndex, what events say.
func copied(rows map[string]uint64, list []nomad.Event) {
	for _, e := range list {
		key := string(e.Topic) + " " + e.Key
		if deleted, _ := e.Payload["Deleted"].(bool); deleted {
			delete(rows, key)
		} else {
			rows[key] = e.Index
		}
	}
}

func tables(s *state.Snapshot) map[string]uint64 {
	rows := map[string]uint64{}
	for j := range s.Jobs(berth.AllNamespaces, "") {
		rows["Job "+string(j.ID)] = j.ModifyIndex
	}
	for e := range s.Evals() {
		rows["Evaluation "+e.ID.String()] = e.ModifyIndex
	}
	for a := range s.Allocs() {
		rows["Allocation "+a.ID.String()] = a.ModifyIndex
	}
	for d := range s.Deployments() {
		rows["Deployment "+d.ID.String()] = d.ModifyIndex
	}
	for n := range s.Nodes() {
		rows["Node "+n.ID.String()] = n.ModifyIndex
	}
	return rows
}

// Over the wire, with all that a server does at the same time: who has read
// every event has a copy of the tables.
func TestTheStreamIsTheState(t *testing.T) {
	r := start(t, t.TempDir())
	ch := r.subscribe(nil, 0, "*")
	n := r.node(1)
	for i := range 30 {
		reg := must[*nomad.JobRegisterResponse, *nomad.WriteMeta](t)(r.api.Jobs().Register(sleeper(fmt.Sprint("job", i%7), 1+i%3), nil))
		if i%5 == 4 {
			r.settled(reg.EvalID)
			n.reports(berth.ClientRunning)
		}
		if i%6 == 5 {
			if _, _, err := r.api.Jobs().Deregister(fmt.Sprint("job", i%7), i%4 == 1, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	rows := map[string]uint64{}
	r.until("the copy is the state", func() bool {
		for {
			select {
			case v, ok := <-ch:
				if !ok || v.Err != nil {
					t.Fatalf("the stream ended: %+v", v)
				}
				copied(rows, v.Events)
				continue
			default:
			}
			return fmt.Sprint(rows) == fmt.Sprint(tables(r.server.Store().Snapshot()))
		}
	})
	if len(rows) < 30 {
		t.Errorf("only %d rows", len(rows))
	}
}

// gone subscribes to what is gone, and says what an ordinary reader of lines
// and the Go client are told.
func (r *running) gone(index uint64) {
	r.t.Helper()
	answer, err := http.Get(fmt.Sprint(r.http, "/v1/event/stream?index=", index))
	if err != nil {
		r.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body) // to the end, which comes at once
	var v op.Events
	if err != nil || json.Unmarshal(text, &v) != nil || !strings.Contains(v.Error, "are gone") || v.Oldest <= index {
		r.t.Errorf("what is gone: %s %v", text, err)
	}
	got := <-r.subscribe(nil, index, "*")
	if got == nil || got.Err == nil || errors.Is(got.Err, io.EOF) {
		r.t.Errorf("the Go client is told %+v", got)
	}
}

// What is gone from the buffer is a gap, told as an error and never passed
// over; from the oldest that is there on, everything is.
func TestAGapIsTold(t *testing.T) {
	r := startWith(t, t.TempDir(), func(c *server.Config) { c.Events = events.Limits{Sets: 5} })
	n := r.node(1)
	last := uint64(0)
	for range 12 {
		n.call("Node.EmitEvents", &op.EmitEvents{NodeEvents: map[string][]*berth.NodeEvent{n.ID.String(): {{Message: "x", Timestamp: time.Now()}}}, Write: op.Write{AuthToken: n.SecretID}}, &op.WriteAnswer{})
		last = r.server.Store().Snapshot().Index
	}
	r.wait(r.subscribe(nil, last, "*"), "the newest", func(e nomad.Event) bool { return e.Index == last })
	r.gone(2)
	r.gone(last - 5)
	got := r.wait(r.subscribe(nil, last-4, "*"), "the last five", func(e nomad.Event) bool { return e.Index == last })
	if len(got) != 5 || got[0].Index != last-4 {
		t.Errorf("%d events from %d on", len(got), last-4)
	}
}

// A restart: streams end with the server, and what happened before the state
// that it begins with is a gap; what is in the log after that is there.
func TestEventsAfterARestart(t *testing.T) {
	dir := t.TempDir()
	r := start(t, dir)
	n := r.node(1)
	ch := r.subscribe(nil, 0, "*")
	r.wait(ch, "the node", func(e nomad.Event) bool { return e.Topic == nomad.TopicNode })
	n.session.Close()
	last := r.server.Store().Snapshot().Index
	r.stop()
	for v := range ch {
		if v.Err != nil && !errors.Is(v.Err, io.EOF) {
			t.Errorf("the stream of a server that stops: %v", v.Err)
		}
	}
	again := start(t, dir)
	defer again.stop()
	reg := must[*nomad.JobRegisterResponse, *nomad.WriteMeta](t)(again.api.Jobs().Register(sleeper("web", 1), nil))
	got := again.wait(again.subscribe(nil, last+1, "*"), "the job", func(e nomad.Event) bool { return e.Key == "web" })
	if got[0].Index <= last || reg.JobModifyIndex <= last {
		t.Errorf("%+v", got[0])
	}
	// Nothing was saved yet, so the log has all from the beginning.
	again.wait(again.subscribe(nil, 1, "*"), "the node of before", func(e nomad.Event) bool { return e.Topic == nomad.TopicNode })
}

// A caller who does not read is dropped, and commits do not wait for him.
func TestASubscriberThatDoesNotRead(t *testing.T) {
	r := startWith(t, t.TempDir(), func(c *server.Config) { c.Events = events.Limits{Sets: 50} })
	n := r.node(1)
	answer, err := http.Get(r.http + "/v1/event/stream?topic=Node")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	// More than the buffers of the connection take.
	long := strings.Repeat("x", 1000)
	for range 600 {
		list := []*berth.NodeEvent{}
		for range 10 {
			list = append(list, &berth.NodeEvent{Message: long, Timestamp: time.Now()})
		}
		n.call("Node.EmitEvents", &op.EmitEvents{NodeEvents: map[string][]*berth.NodeEvent{n.ID.String(): list}, Write: op.Write{AuthToken: n.SecretID}}, &op.WriteAnswer{})
	}
	lines := bufio.NewReader(answer.Body)
	last := uint64(0)
	for {
		text, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("after index %d: %v", last, err)
		}
		var v op.Events
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		if v.Error != "" {
			if !strings.Contains(v.Error, "fell behind") || v.Oldest <= last+1 {
				t.Errorf("after index %d: %+v", last, v)
			}
			break
		}
		last = v.Index
	}
	if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 {
		t.Errorf("after the error: %q %v", rest, err)
	}
}

// An agent that is no server hands events on as they come, and ends what its
// caller leaves.
func TestEventsThroughAnAgent(t *testing.T) {
	r := start(t, t.TempDir())
	f := r.follow()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ch, err := f.api.EventStream().Stream(ctx, map[nomad.Topic][]string{nomad.TopicJob: {}}, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		id := fmt.Sprint("job", i)
		job := sleeper(id, 1)
		job.Datacenters = []string{"elsewhere"} // nothing is to run
		must[*nomad.JobRegisterResponse, *nomad.WriteMeta](t)(r.api.Jobs().Register(job, nil))
		f.wait(ch, id, func(e nomad.Event) bool { return e.Key == id }) // before the next is registered
	}
	cancel()
	for range ch { // ends
	}
}

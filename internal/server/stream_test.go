package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"berth"
	"berth/internal/eventually"
	"berth/internal/streams"
	"berth/op"

	nomad "github.com/hashicorp/nomad/api"
)

// sends makes a request with a body, and reads a good answer into into.
func (r *running) sends(method, path string, body any, into any) (code int, text string) {
	r.t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		r.t.Fatal(err)
	}
	code, _, text = r.send(method, path, bytes.NewReader(b))
	if code == http.StatusOK && into != nil {
		if err := eventually.Decode([]byte(text), into); err != nil {
			r.t.Fatalf("%s: %v: %s", path, err, text)
		}
	}
	return code, text
}

// put sends what must be taken.
func (r *running) put(path string, body, into any) {
	r.t.Helper()
	if code, text := r.sends("PUT", path, body, into); code != http.StatusOK {
		r.t.Fatalf("PUT %s: %d %s", path, code, text)
	}
}

// refuses sends what must be refused.
func (r *running) refuses(path string, body any, code int, part string) {
	r.t.Helper()
	if got, text := r.sends("PUT", path, body, nil); got != code || !strings.Contains(text, part) {
		r.t.Errorf("PUT %s: %d %s; wanted are %d and %q", path, got, text, code, part)
	}
}

// example registers a job of examples/stream.
func (r *running) example(name string) {
	r.t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "examples", "stream", name+".berth.hcl"))
	if err != nil {
		r.t.Fatal(err)
	}
	var job map[string]any
	r.put("/v1/jobs/parse", map[string]any{"JobHCL": string(text)}, &job)
	var out op.JobRegistered
	r.put("/v1/jobs", map[string]any{"Job": job}, &out)
	if !out.EvalID.IsZero() || out.JobModifyIndex == 0 {
		r.t.Errorf("the answer to the registration of a stream job is %+v", out)
	}
}

// standing follows a job by blocking queries until it is as wanted.
func (r *running) standing(id, what string, ok func(*op.StreamStanding) bool) (v op.StreamStanding) {
	r.t.Helper()
	index := uint64(0)
	r.until(id+" is "+what, func() bool {
		v = op.StreamStanding{}
		code, h, text := r.call("GET", fmt.Sprintf("/v1/stream/job/%s?index=%d&wait=2s", id, index), &v)
		if code != http.StatusOK {
			r.t.Fatalf("%s: %d %s", id, code, text)
		}
		fmt.Sscan(h.Get(op.HeaderIndex), &index)
		return ok(&v)
	})
	return v
}

func (r *running) submitted(id string, generation uint64) op.StreamStanding {
	r.t.Helper()
	return r.standing(id, fmt.Sprint("submitted at generation ", generation), func(v *op.StreamStanding) bool {
		return v.Phase == berth.PhaseSubmitted && v.Generation == generation
	})
}

func (r *running) pes(job string) (out []op.PE) {
	r.t.Helper()
	r.good("GET", "/v1/stream/pes?job="+job, &out)
	return out
}

func (r *running) routes(query string) (out []string) {
	r.t.Helper()
	var list []op.StreamRoute
	r.good("GET", "/v1/stream/routes?"+query, &list)
	for _, v := range list {
		out = append(out, fmt.Sprintf("%s.%s to %s.%s by %s", v.From.PE, v.From.Port, v.To.PE, v.To.Port, v.By))
	}
	return out
}

// S1 and S13 by what can be read: a stream job is planned, made, and shown with
// all it owns; what is of another type is shown as ever.
func TestAStreamJobIsShown(t *testing.T) {
	r := start(t, t.TempDir())
	x := r.puppet(1)
	r.up("web", 1)
	for _, path := range []string{"/v1/job/web", "/v1/job/web/allocations"} {
		if _, _, text := r.call("GET", path, nil); strings.Contains(text, `"Phase"`) || strings.Contains(text, `"Generation"`) || strings.Contains(text, `"PE"`) || strings.Contains(text, "Stream") {
			t.Errorf("an ordinary job shows what stream jobs have: %s", text)
		}
	}
	r.bad("GET", "/v1/stream/job/web", 404, "is of type service")
	r.bad("GET", "/v1/stream/job/none", 404, "job not found")

	r.example("telemetry")
	v := r.submitted("telemetry", 0)
	want := map[string]int{
		berth.KindConfig: 5, berth.KindEndpoint: 5, berth.KindExport: 4, berth.KindRegion: 1, berth.KindPE: 5, berth.KindAlloc: 5,
	}
	for kind, n := range want {
		if v.Expected[kind] != n || v.Observed[kind] != n {
			t.Errorf("of kind %s there are %d of %d; wanted are %d", kind, v.Observed[kind], v.Expected[kind], n)
		}
	}
	if v.State != "submitted" || v.StreamID != 1 || len(v.Missing)+len(v.Stale) > 0 || v.Recovery.Count != 0 || v.LastError != "" || v.Deadline != 0 || v.Ready {
		t.Errorf("the job stands at %+v", v)
	}
	var j op.Job
	r.good("GET", "/v1/job/telemetry", &j)
	if j.UID != v.UID || j.Phase != v.Phase || j.StreamID != 1 || j.Generation == nil || *j.Generation != 0 || j.Recovery == nil || j.Deletion != nil {
		t.Errorf("the job is %+v", j)
	}
	pes := r.pes("telemetry")
	if len(pes) != 5 || pes[0].Name != "telemetry.sink[0]" || pes[0].ID != 4 {
		t.Fatalf("the processing elements are %+v", pes)
	}
	for _, pe := range pes {
		if pe.LaunchCount != 1 || pe.OwnerRefs[0].UID != v.UID || pe.Allocation == nil || pe.Connectivity != berth.ConnectivityNone || pe.ContentID != pe.Planned {
			t.Errorf("it has %+v", pe)
			continue
		}
		var a op.Alloc
		r.good("GET", "/v1/allocation/"+pe.Allocation.ID.String(), &a)
		if a.PE == nil || *a.PE != (op.PERef{Name: pe.Name, UID: pe.UID, LaunchCount: 1}) || a.OwnerRefs[0].UID != pe.UID || a.OwnerRefs[0].Kind != berth.KindPE || a.OwnerUID != v.UID {
			t.Errorf("its allocation is %+v %+v", a.PE, a.OwnerRefs)
		}
		var one, other op.PE
		r.good("GET", "/v1/stream/pe/"+pe.Name, &one)
		r.good("GET", "/v1/stream/pe/"+pe.UID, &other)
		if one.UID != pe.UID || other.UID != pe.UID {
			t.Errorf("%s is found as %+v and %+v", pe.Name, one, other)
		}
	}
	r.bad("GET", "/v1/stream/pe/telemetry.sink[1]", 404, "ProcessingElement not found")
	r.bad("GET", "/v1/stream/pe/telemetry.sink[0]?namespace=other", 404, "not found")
	if got := r.pes("telemetry&namespace=other"); len(got) > 0 {
		t.Errorf("another namespace has %+v", got)
	}
	if got := r.pes("telemetry&prefix=telemetry.tr"); len(got) != 3 {
		t.Errorf("by prefix there are %+v", got)
	}
	var page []op.PE
	_, h, _ := r.call("GET", "/v1/stream/pes?per_page=2", &page)
	token := h.Get(op.HeaderNextToken)
	r.good("GET", "/v1/stream/pes?per_page=2&next_token="+strings.NewReplacer("[", "%5B", "]", "%5D").Replace(token), &page)
	if len(page) != 2 || page[0].UID != pes[2].UID {
		t.Errorf("the page from %q on is %+v", token, page)
	}

	var file op.ConnectivityFile
	r.until("the source knows where its targets listen", func() bool {
		r.good("GET", "/v1/stream/pe/telemetry.source[0]/connectivity-file", &file)
		return len(file.Outputs) == 1 && !slices.ContainsFunc(file.Outputs[0].To, func(to streams.DocumentTarget) bool { return to.Addr == "" })
	})
	if len(file.Outputs[0].To) != 3 || file.Job.UID != v.UID || file.PE.LaunchCount != 1 {
		t.Errorf("the file of the source is %+v", file)
	}

	var tree op.ResourceTree
	r.good("GET", "/v1/stream/job/telemetry/tree", &tree)
	kinds, allocs := map[string]int{}, 0
	for _, o := range tree.Owns {
		kinds[o.Kind]++
		allocs += len(o.Owns)
	}
	if tree.UID != v.UID || tree.Deleting || kinds[berth.KindPE] != 5 || kinds[berth.KindConfig] != 5 || allocs != 5 || tree.Phase != berth.PhaseSubmitted {
		t.Errorf("the tree is %+v", tree)
	}
	if list := r.owned("owner=" + v.UID); len(list) != 20 {
		t.Errorf("it owns %d objects: %+v", len(list), list)
	}
	if list := r.owned("owner=" + v.UID + "&recursive"); len(list) != 25 {
		t.Errorf("with what those own it has %d objects", len(list))
	}
	if list := r.owned("owner=" + pes[0].UID); len(list) != 1 || list[0].Kind != berth.KindAlloc || list[0].LaunchCount != 1 {
		t.Errorf("a processing element owns %+v", list)
	}
	endpoints := r.owned("kind=Endpoint&job=telemetry")
	if len(endpoints) != 5 {
		t.Errorf("there are endpoints %+v", endpoints)
	}
	for _, e := range endpoints { // each tells where its processing element listens, as its peers are told
		at := slices.IndexFunc(file.Outputs[0].To, func(to streams.DocumentTarget) bool { return to.PE == e.Name })
		if listens := e.Name != "telemetry.source[0]"; listens != (e.Addresses["in"] != "") || at >= 0 && file.Outputs[0].To[at].Addr != e.Addresses["in"] {
			t.Errorf("the endpoint %s is at %v; its peer is told %+v", e.Name, e.Addresses, file.Outputs[0].To)
		}
	}
	var stubs []op.AllocStub
	r.good("GET", "/v1/job/telemetry/allocations", &stubs)
	if len(stubs) != 5 || stubs[0].PE == nil || stubs[0].PE.Name != stubs[0].Name || stubs[0].PE.LaunchCount != 1 || stubs[0].OwnerRefs[0].UID != stubs[0].PE.UID {
		t.Errorf("its allocations are listed as %+v", stubs)
	}
	r.bad("GET", "/v1/resources?kind=Pod", 400, "want one of Job, Config")
	r.bad("GET", "/v1/resources?recursive", 400, "set owner as well")

	x.stubborn(true)
	var out op.JobStopped
	r.good("DELETE", "/v1/job/telemetry?purge=true&propagation=foreground", &out)
	if out.Deletion == nil || out.Deletion.Blocking < 5 {
		t.Errorf("the deletion is %+v", out.Deletion)
	}
	r.good("GET", "/v1/stream/job/telemetry/tree", &tree)
	if !tree.Deleting || tree.Deletion == nil || tree.Deletion.Intent != berth.IntentUser {
		t.Errorf("the tree of what is deleted is %+v", tree)
	}
	r.refuses("/v1/stream/job/telemetry/region/score", map[string]any{"Width": 4}, 409, "deleting")
	x.stubborn(false)
	r.until("the job has gone", func() bool { code, _, _ := r.call("GET", "/v1/job/telemetry", nil); return code == 404 })
	if list := r.owned("owner=" + v.UID + "&recursive"); len(list) != 0 {
		t.Errorf("it left %+v", list)
	}
	r.sound()
}

// S21 and the changes of records: routes follow from what jobs export and
// import, and from what users make of it while they run.
func TestRoutesAreChanged(t *testing.T) {
	r := start(t, t.TempDir())
	r.puppet(1)
	r.example("alerts")
	r.submitted("alerts", 0)
	if got := r.routes(""); len(got) > 0 {
		t.Errorf("without an exporter there is %v", got)
	}
	r.example("telemetry")
	v := r.submitted("telemetry", 0)
	byName := []string{
		"telemetry.transform[0].scored to alerts.ingest[0].in by name", "telemetry.transform[1].scored to alerts.ingest[0].in by name",
		"telemetry.transform[2].scored to alerts.ingest[0].in by name",
	}
	byProperty := "telemetry.source[0].raw to alerts.ingest[0].raw by property"
	is := func(when string, want ...string) {
		t.Helper()
		got := r.routes("job=alerts")
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s the routes are\n%s\nand should be\n%s", when, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	is("at first", append(slices.Clone(byName), byProperty)...)
	if got := r.routes("pe=telemetry.transform[1]"); len(got) != 1 {
		t.Errorf("of a processing element there is %v", got)
	}

	export := "/v1/stream/export/telemetry.source[0]/raw-by-property/properties"
	var done op.Changed
	r.put(export, map[string]any{"Properties": map[string]any{"kind": "raw", "priority": 2, "regions": []string{"eu"}}}, &done)
	is("of another priority", byName...)
	r.refuses(export, map[string]any{"Properties": map[string]any{}}, 400, "must not be empty")
	r.refuses(export, map[string]any{"Properties": map[string]any{"no name": 1}}, 400, "the name must be 1 to 64 letters, digits or _")
	r.refuses("/v1/stream/export/telemetry.transform[0]/scores-by-name/properties", map[string]any{"Properties": map[string]any{"a": 1}}, 400, "is exported by name")
	r.refuses("/v1/stream/export/telemetry.source[0]/none/properties", map[string]any{}, 404, "Export not found")

	filter, subscription := "/v1/stream/import/alerts.ingest[0]/by-name/filter", "/v1/stream/import/alerts.ingest[0]/by-property/subscription"
	r.put(subscription, map[string]any{"Subscription": `kind == "raw" && priority >= 2`}, &done)
	is("with another subscription", append(slices.Clone(byName), byProperty)...)
	r.refuses(subscription, map[string]any{"Subscription": "kind =="}, 400, "Subscription")
	r.refuses(subscription, map[string]any{}, 400, "is missing")
	r.put(filter, map[string]any{"Filter": "score > 0.5"}, &done)
	r.refuses(filter, map[string]any{"Filter": "score >"}, 400, "Filter")
	r.refuses(filter, map[string]any{}, 400, "Filter: is missing")
	var imports []op.StreamImport
	r.good("GET", "/v1/stream/imports?job=alerts", &imports)
	if len(imports) != 2 || imports[0].Filter != "score > 0.5" || !imports[0].Changed || !imports[1].Changed {
		t.Errorf("the imports are %+v", imports)
	}

	// Another generation that says nothing else of them leaves them so.
	r.put("/v1/stream/job/telemetry/region/score", map[string]any{"Width": 4}, nil)
	r.submitted("telemetry", 1)
	wide := append(slices.Clone(byName), "telemetry.transform[3].scored to alerts.ingest[0].in by name")
	is("of another width", append(wide, byProperty)...)
	var exports []op.StreamExport
	r.good("GET", "/v1/stream/exports?job=telemetry&prefix=telemetry.source", &exports)
	if len(exports) != 1 || !exports[0].Changed || exports[0].Generation != 1 || fmt.Sprint(exports[0].Properties["priority"]) != "2" {
		t.Errorf("the exports are %+v", exports)
	}

	// What a user deletes is made again, as the job has it.
	r.good("DELETE", "/v1/resource/"+exports[0].UID, nil)
	was := exports[0].UID
	r.until("the export is back", func() bool {
		r.good("GET", "/v1/stream/exports?job=telemetry&prefix=telemetry.source", &exports)
		return len(exports) == 1 && exports[0].UID != was
	})
	if exports[0].Changed || fmt.Sprint(exports[0].Properties["priority"]) != "3" {
		t.Errorf("it is back as %+v", exports[0])
	}
	r.bad("DELETE", "/v1/resource/"+was, 404, "not found")
	if now := r.submitted("telemetry", 1); now.UID != v.UID {
		t.Errorf("the job is %+v", now)
	}

	// A job that is stopped has no routes.
	r.good("DELETE", "/v1/job/telemetry", nil)
	is("of a stopped job")
	r.refuses("/v1/stream/job/telemetry/region/score", map[string]any{"Width": 2}, 400, "run it before")
	r.sound()
}

// S14: what a stream job leaves to itself runs on, is listed, and is deleted one
// by one. S16: an allocation that is stopped is launched anew.
func TestStreamJobLeftToItself(t *testing.T) {
	r := start(t, t.TempDir())
	r.puppet(1)
	r.example("telemetry")
	v := r.submitted("telemetry", 0)
	pes := r.pes("telemetry")
	var stopped op.AllocStopped
	r.good("DELETE", "/v1/resource/"+r.owned("owner=" + pes[0].UID)[0].UID, &stopped)
	r.until("the sink is launched anew", func() bool {
		pe := r.pes("telemetry&prefix=telemetry.sink")[0]
		return pe.LaunchCount == 2 && pe.UID == pes[0].UID && pe.Allocation != nil && pe.Allocation.ID != pes[0].Allocation.ID
	})
	r.submitted("telemetry", 0)
	r.refuses("/v1/client/allocation/"+pes[1].Allocation.ID.String()+"/restart", map[string]any{}, 400, "would not count as a launch")

	r.good("DELETE", "/v1/resource/"+v.UID+"?propagation=orphan", nil)
	r.bad("GET", "/v1/job/telemetry", 404, "job not found")
	r.bad("DELETE", "/v1/resource/"+v.UID, 404, "not found")
	left := r.owned("orphaned=true")
	kinds := map[string]int{}
	for _, o := range left {
		kinds[o.Kind]++
		if o.Kind != berth.KindAlloc && len(o.OwnerRefs) > 0 || o.Kind == berth.KindAlloc && (len(o.OwnerRefs) != 1 || o.OwnerRefs[0].Kind != berth.KindPE) {
			t.Errorf("what is left is %+v", o)
		}
	}
	if kinds[berth.KindPE] != 5 || kinds[berth.KindAlloc] != 5 || kinds[berth.KindConfig] != 5 || len(r.owned("owner="+v.UID)) != 0 {
		t.Errorf("what is left to itself is %v", kinds)
	}
	r.example("telemetry")
	if again := r.submitted("telemetry", 0); again.UID == v.UID || again.StreamID != 2 {
		t.Errorf("the next is %+v", again)
	}
	if all := r.pes("telemetry"); len(all) != 10 {
		t.Errorf("there are %d processing elements", len(all))
	}
	var one op.PE
	r.good("GET", "/v1/stream/pe/telemetry.sink[0]", &one)
	if one.UID == pes[0].UID || one.Orphaned {
		t.Errorf("by name it is %+v", one)
	}
	r.good("DELETE", "/v1/resource/"+pes[0].UID, nil)
	r.until("the allocation of the orphan has ended", func() bool {
		return len(slices.DeleteFunc(r.owned("orphaned=true&kind=Allocation"), func(o op.Resource) bool { return o.OwnerRefs[0].UID != pes[0].UID })) == 0
	})
	r.sound()
}

// Of stream jobs and what they own the event stream tells under a topic of its
// own: in order, from the making of a job to its end.
func TestResourceEvents(t *testing.T) {
	r := start(t, t.TempDir())
	seen := r.subscribe(map[nomad.Topic][]string{"Resource": {"telemetry"}}, 0, "*")
	r.puppet(1)
	r.up("web", 1)
	r.example("telemetry")
	v := r.submitted("telemetry", 0)
	r.good("DELETE", "/v1/job/telemetry?purge=true&propagation=foreground", nil)
	list := r.wait(seen, "the end of the job", func(e nomad.Event) bool {
		o := resourceOf(t, e)
		return e.Type == "Deleted" && o.Kind == berth.KindJob
	})
	added, deleted := map[string]uint64{}, map[string]uint64{}
	var causes []string
	deleting := uint64(0)
	for _, e := range list {
		o := resourceOf(t, e)
		if e.Topic != "Resource" || e.Key != o.UID || o.JobID != "telemetry" || (o.Kind == berth.KindJob) == (o.OwnerUID == v.UID) {
			t.Errorf("an event is %+v %+v", e, o)
		}
		switch e.Type {
		case "Added":
			added[o.UID] = e.Index
		case "Deleted":
			deleted[o.UID] = e.Index
		}
		if o.Deleting {
			deleting = e.Index
		}
		if !slices.Contains(causes, o.Cause) {
			causes = append(causes, o.Cause)
		}
	}
	if len(added) != 21 || len(deleted) != 21 || deleting == 0 {
		t.Errorf("added were %d, deleted %d, marked at %d", len(added), len(deleted), deleting)
	}
	for uid, index := range deleted {
		if uid != v.UID && (index >= deleted[v.UID] || index <= deleting || added[uid] <= added[v.UID]) {
			t.Errorf("%s was added at %d and deleted at %d; the job at %d and %d, marked at %d", uid, added[uid], index, added[v.UID], deleted[v.UID], deleting)
		}
	}
	for _, c := range []string{"register", "plan", "submission", "launch", "complete", "delete", "gc", "finalize"} {
		if !slices.Contains(causes, c) {
			t.Errorf("nothing came of %q; of %q it did", c, causes)
		}
	}
}

func resourceOf(t testing.TB, e nomad.Event) (o op.ResourceEvent) {
	t.Helper()
	b, err := json.Marshal(e.Payload["Resource"])
	if err == nil {
		err = json.Unmarshal(b, &o)
	}
	if err != nil {
		t.Fatal(err)
	}
	return o
}

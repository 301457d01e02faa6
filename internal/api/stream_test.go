package api_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth"
	"berth/internal/api"
	"berth/internal/eventually"
	"berth/internal/state"
	"berth/internal/state/statetest"
	"berth/internal/streams"
	"berth/op"
)

// flows is the API over a state in which a stream job is being submitted.
type flows struct {
	t *testing.T
	*api.Server
	log *statetest.Log
	key berth.JobKey
}

func submitting(t *testing.T) *flows {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "examples", "stream", "telemetry.berth.hcl"))
	if err != nil {
		t.Fatal(err)
	}
	s, log := serve(t, nil)
	f := &flows{t, s, log, berth.JobKey{Namespace: berth.DefaultNamespace, ID: "telemetry"}}
	body, _ := json.Marshal(map[string]string{"JobHCL": string(text)})
	var parsed json.RawMessage
	f.good("PUT", "/v1/jobs/parse", string(body), &parsed)
	f.good("PUT", "/v1/jobs", `{"Job": `+string(parsed)+`}`, nil)
	f.plan()
	return f
}

// plan makes the job's next plan.
func (f *flows) plan() {
	f.t.Helper()
	s := f.log.Tip()
	row := s.StreamOf(f.key)
	p, err := streams.Expand(s.Job(f.key), row.Plan)
	if err != nil {
		f.t.Fatal(err)
	}
	f.leads(&state.PlanSubmission{Key: f.key, UID: row.UID, Plan: p, Now: 1})
}

// leads proposes what a leader does.
func (f *flows) leads(c interface {
	state.Command
	Stamp(uint64)
}) {
	f.t.Helper()
	c.Stamp(f.log.Tip().Term)
	f.log.Must(f.t, c)
}

func (f *flows) good(method, path, body string, into any) {
	f.t.Helper()
	w := ask(f, method, path, body)
	if w.Code != http.StatusOK {
		f.t.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
	}
	if into != nil {
		if err := eventually.Decode(w.Body.Bytes(), into); err != nil {
			f.t.Fatal(err)
		}
	}
}

func (f *flows) bad(method, path, body string, code int, part string) {
	f.t.Helper()
	if w := ask(f, method, path, body); w.Code != code || !strings.Contains(w.Body.String(), part) {
		f.t.Errorf("%s %s: %d %s; wanted are %d and %q", method, path, w.Code, w.Body, code, part)
	}
}

func (f *flows) job() (j op.Job) {
	f.t.Helper()
	f.good("GET", "/v1/job/telemetry", "", &j)
	return j
}

// interrupt marks the job to begin anew, and finish lets it go.
func (f *flows) interrupt() {
	f.t.Helper()
	f.leads(&state.RecoverJobs{Jobs: []state.JobRef{{Key: f.key, UID: f.log.Tip().Job(f.key).UID}}, Cause: state.RecoverInterrupted, Now: 2})
}

func (f *flows) finish() {
	f.t.Helper()
	f.leads(&state.FinalizeDeletions{Jobs: []state.JobRef{{Key: f.key, UID: f.log.Tip().Job(f.key).UID}}})
}

// S2, S10 and R11 by what can be read: a submission that was interrupted is
// shown as being deleted to begin anew, takes what a user wants of it meanwhile,
// and is followed by an incarnation that names the one before it.
func TestARecoveryIsShown(t *testing.T) {
	f := submitting(t)
	first := f.job()
	if first.Phase != berth.PhaseSubmission || first.StreamID != 1 || first.Recovery.Count != 0 || first.Deletion != nil {
		t.Errorf("at first the job is %+v", first)
	}
	var v op.StreamStanding
	f.good("GET", "/v1/stream/job/telemetry", "", &v)
	if v.State != "wait-configs" || v.Expected[berth.KindPE] != 5 || len(v.Missing) == 0 || v.Ready {
		t.Errorf("at first it stands at %+v", v)
	}
	f.bad("PUT", "/v1/stream/job/telemetry/region/score", `{"Width": 4, "UID": "j-0000000000000001-00"}`, 409, "uid-mismatch")
	f.bad("PUT", "/v1/stream/job/telemetry/region/score", `{"Width": 1001}`, 400, "must be from 1 to 1000")
	f.bad("PUT", "/v1/stream/job/telemetry/region/none", `{"Width": 4}`, 404, "it has: score")

	f.interrupt()
	j := f.job()
	if d := j.Deletion; j.UID != first.UID || d == nil || d.Policy != berth.Foreground || d.Intent != berth.IntentRecover {
		t.Errorf("interrupted it is %+v, %+v", j, j.Deletion)
	}
	var set op.RegionSet
	f.good("PUT", "/v1/stream/job/telemetry/region/score", `{"Width": 2}`, &set)
	f.good("PUT", "/v1/stream/job/telemetry/region/score", `{"Width": 4}`, &set)
	var region op.StreamRegion
	f.good("GET", "/v1/stream/job/telemetry/region/score", "", &region)
	if region.Width != 4 || region.Planned != 3 || set.Width != 4 {
		t.Errorf("the region is %+v after %+v", region, set)
	}
	f.good("GET", "/v1/stream/job/telemetry", "", &v)
	if v.Newest != set.JobVersion || v.Deletion == nil {
		t.Errorf("it stands at %+v", v)
	}

	f.finish()
	again := f.job()
	if again.UID == first.UID || again.Deletion != nil || again.Recovery.Count != 1 || again.Recovery.Predecessors[0] != first.UID || again.StreamID != 0 ||
		again.Recovery.LastCause != state.RecoverInterrupted || *again.Generation != 0 || again.Stream.Regions[0].Width != 4 {
		t.Errorf("what follows is %+v %+v", again, again.Recovery)
	}
	f.bad("DELETE", "/v1/job/telemetry?purge=true&uid="+first.UID, "", 409, "uid-mismatch: ")
	f.bad("DELETE", "/v1/job/telemetry?purge=true&uid="+first.UID, "", 409, again.UID)
	f.bad("DELETE", "/v1/resource/"+first.UID, "", 404, "not found")
	f.plan()
	f.good("GET", "/v1/stream/job/telemetry", "", &v)
	if v.StreamID != 2 || v.Expected[berth.KindPE] != 6 || v.Recovery.Count != 1 {
		t.Errorf("planned again it stands at %+v", v)
	}
}

// S8: a user who deletes a job that is about to begin anew has it gone for good.
func TestARecoveryIsEndedByAUser(t *testing.T) {
	f := submitting(t)
	f.interrupt()
	var marked, out op.JobStopped
	first := f.job()
	f.bad("DELETE", "/v1/job/telemetry?purge=true&propagation=orphan", "", 409, "deleting: ")
	f.good("DELETE", "/v1/job/telemetry?purge=true&propagation=foreground&uid="+first.UID, "", &marked)
	if d := f.job().Deletion; d == nil || d.Intent != berth.IntentUser || d.RequestIndex != first.Deletion.RequestIndex {
		t.Errorf("the deletion is %+v, and was %+v", d, first.Deletion)
	}
	f.good("DELETE", "/v1/job/telemetry?purge=true&propagation=foreground", "", &out)
	f.bad("PUT", "/v1/stream/job/telemetry/region/score", `{"Width": 4}`, 409, "deleting: ")
	f.finish()
	f.bad("GET", "/v1/job/telemetry", "", 404, "job not found")
	f.bad("GET", "/v1/stream/job/telemetry", "", 404, "job not found")
	var list []op.Resource
	f.good("GET", "/v1/resources?owner="+first.UID+"&recursive", "", &list)
	if len(list) > 0 {
		t.Errorf("it left %+v", list)
	}
}

// What has no owner, or one that ended, is changed no more.
func TestRecordsThatCannotChange(t *testing.T) {
	f := submitting(t)
	row := f.log.Tip().StreamOf(f.key)
	var names []string
	for _, o := range row.Plan.Of(berth.KindExport) {
		names = append(names, o.Name)
	}
	f.leads(&state.EnsureResources{Key: f.key, UID: row.UID, Kind: berth.KindExport, Names: names, Now: 3})
	var exports []op.StreamExport
	f.good("GET", "/v1/stream/exports?prefix=telemetry.source", "", &exports)
	if len(exports) != 1 || exports[0].OwnerRefs[0].UID != row.UID.Text('j') || exports[0].Congestion != berth.CongestionDrop {
		t.Fatalf("the exports are %+v", exports)
	}
	path := "/v1/stream/export/" + exports[0].UID + "/properties"
	f.good("PUT", path, `{"Properties": {"kind": "raw"}}`, nil)
	before := f.log.Tip().Resource(f.log.Tip().ResourceNamed(row.UID, berth.KindExport, exports[0].Name).UID)
	f.good("PUT", path, `{"Properties": {"kind": "raw"}}`, nil)
	if now := f.log.Tip().Resource(before.UID); now != before {
		t.Errorf("to ask for the same again changes %+v to %+v", before, now)
	}
	f.bad("PUT", path, `{"Properties": {"kind": {}}}`, 400, "must be a bool, a number")
	f.bad("PUT", "/v1/stream/import/"+exports[0].UID+"/filter", `{"Filter": "a > 1"}`, 404, "Import not found")
	f.good("DELETE", "/v1/job/telemetry", "", nil)
	f.bad("PUT", path, `{"Properties": {"kind": "cooked"}}`, 409, "owner-deleting: ")

	f = submitting(t)
	row = f.log.Tip().StreamOf(f.key)
	f.leads(&state.EnsureResources{Key: f.key, UID: row.UID, Kind: berth.KindExport, Names: names, Now: 3})
	f.good("GET", "/v1/stream/exports?prefix=telemetry.source", "", &exports)
	f.good("DELETE", "/v1/job/telemetry?purge=true&propagation=orphan", "", nil)
	f.bad("PUT", "/v1/stream/export/"+exports[0].UID+"/properties", `{"Properties": {"kind": "cooked"}}`, 409, "owner-missing: ")
	f.bad("PUT", "/v1/stream/export/"+exports[0].Name+"/properties", `{"Properties": {"kind": "cooked"}}`, 404, "not found")
	f.good("GET", "/v1/stream/exports", "", &exports)
	if len(exports) != 4 || !exports[0].Orphaned || len(exports[0].OwnerRefs) > 0 {
		t.Errorf("left to themselves they are %+v", exports)
	}
}

// Refusals say for programs why, in a header; bodies are as Nomad's clients read
// them. What has no code has no header.
func TestRefusalsHaveACode(t *testing.T) {
	f := submitting(t)
	row := f.log.Tip().StreamOf(f.key)
	exports := row.Plan.Of(berth.KindExport)
	f.leads(&state.EnsureResources{Key: f.key, UID: row.UID, Kind: berth.KindExport, Names: []string{exports[0].Name}, Now: 3})
	uid := f.log.Tip().ResourceNamed(row.UID, berth.KindExport, exports[0].Name).UID.Text('x')
	properties := "/v1/stream/export/" + uid + "/properties"
	refused := func(method, path, body string, status int, code berth.Code) {
		t.Helper()
		w := ask(f, method, path, body)
		if w.Code != status || w.Header().Get(op.HeaderCode) != string(code) || code != "" && !strings.HasPrefix(w.Body.String(), string(code)+": ") {
			t.Errorf("%s %s: %d %q %s; wanted are %d and %q", method, path, w.Code, w.Header().Get(op.HeaderCode), w.Body, status, code)
		}
		if again := w.Header().Get("Retry-After") != ""; again != (code == berth.CodeDeleting) {
			t.Errorf("%s %s: to be asked again: %v", method, path, again)
		}
	}
	const width, stale = `{"Width": 4}`, "j-0000000000000001-00"
	region := "/v1/stream/job/telemetry/region/score"
	refused("PUT", region, `{"Width": 4, "UID": "`+stale+`"}`, 409, berth.CodeUIDMismatch)
	refused("DELETE", "/v1/job/telemetry?purge=true&uid="+stale, "", 409, berth.CodeUIDMismatch)
	refused("PUT", region, `{"Width": 4, "JobModifyIndex": 1}`, 409, "")
	refused("PUT", region, `{"Width": 0}`, 400, "")
	refused("GET", "/v1/stream/job/nothing", "", 404, "")
	if w := ask(f, "GET", "/v1/stream/job/telemetry", ""); w.Code != 200 || w.Header().Get(op.HeaderCode) != "" {
		t.Errorf("a good answer has the code %q", w.Header().Get(op.HeaderCode))
	}
	f.interrupt()
	refused("DELETE", "/v1/job/telemetry?purge=true&propagation=orphan", "", 409, berth.CodeDeleting)
	refused("PUT", properties, `{"Properties": {"kind": "raw"}}`, 409, berth.CodeOwnerDeleting)
	f.good("DELETE", "/v1/job/telemetry?purge=true&propagation=foreground", "", nil)
	refused("PUT", region, width, 409, berth.CodeDeleting)

	f = submitting(t)
	row = f.log.Tip().StreamOf(f.key)
	f.leads(&state.EnsureResources{Key: f.key, UID: row.UID, Kind: berth.KindExport, Names: []string{exports[0].Name}, Now: 3})
	uid = f.log.Tip().ResourceNamed(row.UID, berth.KindExport, exports[0].Name).UID.Text('x')
	f.good("DELETE", "/v1/job/telemetry?purge=true&propagation=orphan", "", nil)
	refused("PUT", "/v1/stream/export/"+uid+"/properties", `{"Properties": {"kind": "raw"}}`, 409, berth.CodeOwnerMissing)
}

// made makes all that is planned of the job, but for allocations.
func (f *flows) made() {
	f.t.Helper()
	row := f.log.Tip().StreamOf(f.key)
	for _, kind := range berth.StreamKinds {
		var names []string
		for _, o := range row.Plan.Of(kind) {
			names = append(names, o.Name)
		}
		if names != nil {
			f.leads(&state.EnsureResources{Key: f.key, UID: row.UID, Generation: row.Generation, Kind: kind, Names: names, Now: 3})
		}
	}
}

// What callers are promised of each answer is there under its name, also when
// there is nothing of it.
func TestDocumentedShapes(t *testing.T) {
	f := submitting(t)
	f.made()
	uid := f.log.Tip().StreamOf(f.key).UID.Text('j')
	const pe = "/v1/stream/pe/telemetry.transform[1]"
	for path, names := range map[string]string{
		"/v1/job/telemetry":             "UID StreamID Phase Generation Recovery Recovery.Count Recovery.Predecessors Recovery.LastCause",
		"/v1/stream/job/telemetry":      "UID Phase State Generation Expected Observed Missing Stale Deadline Ready LastError",
		"/v1/stream/job/telemetry/tree": "Kind Name UID Generation Deleting Owns Owns.Kind Owns.Name Owns.UID Owns.OwnerRefs Owns.Generation Owns.Deleting",
		"/v1/resources?owner=" + uid:    "Kind Name UID OwnerRefs OwnerRefs.Kind OwnerRefs.Name OwnerRefs.UID OwnerRefs.Controller OwnerRefs.Block Generation",
		"/v1/stream/pes?job=telemetry":  "Name UID ID LaunchCount Connectivity ContentID Generation OwnerRefs Placement Policy",
		pe:                              "Name UID ID LaunchCount Connectivity ContentID Generation OwnerRefs Placement Policy Inputs Outputs",
		pe + "/connectivity-file": "Version Job.Name Job.ID Job.UID Job.Generation PE.ID PE.Name PE.UID PE.LaunchCount PE.ContentID PE.Region PE.Channel PE.MaxChannels " +
			"Inputs.Name Inputs.Bind Inputs.From Inputs.From.Job Inputs.From.PE Inputs.From.Output Inputs.From.Kind " +
			"Outputs.Name Outputs.Distribution Outputs.To Outputs.To.Kind Outputs.To.Job Outputs.To.PE Outputs.To.Input Outputs.To.Addr Outputs.To.LaunchCount",
		"/v1/stream/exports":                    "Name UID PE Output OwnerRefs Application Scope StreamID AllowFilter Congestion Generation",
		"/v1/stream/job/telemetry/region/score": "Name UID Groups Width Planned Generation",
	} {
		w := ask(f, "GET", path, "")
		var v any
		if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil || w.Code != http.StatusOK || w.Header().Get(op.HeaderIndex) == "" {
			t.Errorf("%s: %d %v %s", path, w.Code, err, w.Body)
			continue
		}
		for name := range strings.FieldsSeq(names) {
			if !has(v, strings.Split(name, ".")) {
				t.Errorf("%s has no %s: %s", path, name, w.Body)
			}
		}
	}
	for path, want := range map[string]string{"/v1/stream/imports": "[]", "/v1/stream/routes": "[]", "/v1/stream/pes?job=none": "[]", "/v1/resources?orphaned": "[]"} {
		if w := ask(f, "GET", path, ""); w.Code != http.StatusOK || strings.TrimSpace(w.Body.String()) != want {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	f.interrupt()
	var j map[string]any
	f.good("GET", "/v1/job/telemetry", "", &j)
	for _, name := range []string{"Policy", "Intent", "RequestIndex"} {
		if !has(j, []string{"Deletion", name}) {
			t.Errorf("a job that is being deleted has no Deletion.%s: %v", name, j["Deletion"])
		}
	}
}

// has says whether a value has a field, or something in a list has. What is
// null is not there.
func has(v any, path []string) bool {
	switch x := v.(type) {
	case []any:
		if len(path) == 0 {
			return true
		}
		found := false
		for _, v := range x {
			found = found || has(v, path)
		}
		return found
	case map[string]any:
		return len(path) == 0 || has(x[path[0]], path[1:])
	}
	return len(path) == 0 && v != nil
}

// Who waits for a stream job is not woken by another, nor by what runs beside
// them.
func TestOtherJobsWakeNobody(t *testing.T) {
	for _, path := range []string{
		"/v1/job/telemetry", "/v1/stream/job/telemetry", "/v1/stream/job/telemetry/tree", "/v1/stream/job/telemetry/region/score",
		"/v1/stream/pe/telemetry.sink[0]", "/v1/stream/pe/telemetry.sink[0]/connectivity-file", "/v1/stream/pes?job=telemetry", "/v1/stream/exports?job=telemetry",
		"/v1/resources?job=telemetry", "/v1/stream/imports?job=telemetry",
		"/v1/stream/routes?job=telemetry", "/v1/stream/routes", "/v1/stream/pe/telemetry.source[0]/connectivity-file",
	} {
		t.Run(path, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := submitting(t)
				f.made()
				j := statetest.Job(t, statetest.StreamText("other", 2, 100, ""))
				if strings.Contains(path, "routes") || strings.Contains(path, "source") { // what others export and import is their business
					j.Stream.Exports, j.Stream.Imports = nil, nil
				}
				first := ask(f, "GET", path, "")
				and := "?"
				if strings.Contains(path, "?") {
					and = "&"
				}
				done := make(chan *httptest.ResponseRecorder, 1)
				go func() {
					done <- ask(f, "GET", path+and+"wait=60s&index="+first.Header().Get(op.HeaderIndex), "")
				}()
				synctest.Wait()
				mine := f.key
				f.key.ID = "other"
				f.log.Must(t, &state.RegisterJob{Job: j, Now: 4})
				f.plan()
				f.made()
				f.key = mine
				f.log.Must(t, small(t, "web", 1), statetest.AddNode(7, 1, 1))
				synctest.Wait()
				if len(done) != 0 {
					t.Fatalf("it was woken by another job: %s", (<-done).Body)
				}
				if again := ask(f, "GET", path, "").Header().Get(op.HeaderIndex); again != first.Header().Get(op.HeaderIndex) {
					t.Errorf("after changes of another job the index is %s, and was %s", again, first.Header().Get(op.HeaderIndex))
				}
				row := f.log.Tip().StreamOf(f.key)
				pe := f.log.Tip().ResourceNamed(row.UID, berth.KindPE, "telemetry.sink[0]")
				start := time.Now()
				f.leads(&state.LaunchPE{PE: pe.UID, Expect: 0, Why: "drawn", Now: 5})
				if strings.Contains(path, "exports") || strings.Contains(path, "imports") || strings.Contains(path, "region") || strings.Contains(path, "source") || strings.Contains(path, "routes") {
					f.good("PUT", "/v1/stream/export/telemetry.source[0]/raw-by-property/properties", `{"Properties": {"a": 1}}`, nil)
				}
				got := <-done
				if time.Since(start) != 0 || got.Code != http.StatusOK {
					t.Errorf("after %v: %d %s", time.Since(start), got.Code, got.Body)
				}
			})
		})
	}
}

// A host pool shows the nodes that were chosen for it, in the order in which they
// are counted.
func TestAPoolShowsItsNodes(t *testing.T) {
	f := submitting(t)
	f.key.ID = "pooled"
	f.good("PUT", "/v1/jobs", `{"Job": `+statetest.StreamText("pooled", 1, 100, `{"Name": "p", "Hosts": ["n1", "n2"]}`)+`}`, nil)
	f.plan()
	nodes := []berth.NodeID{statetest.ID[berth.Node](2), statetest.ID[berth.Node](1)}
	f.log.Must(t, statetest.AddNode(1, 4000, 4000), statetest.AddNode(2, 4000, 4000))
	f.leads(&state.EnsureResources{Key: f.key, UID: f.log.Tip().StreamOf(f.key).UID, Kind: berth.KindHostPool, Names: []string{"p"}, Nodes: [][]berth.NodeID{nodes}, Now: 3})
	var list []op.Resource
	f.good("GET", "/v1/resources?kind=HostPool", "", &list)
	if len(list) != 1 || list[0].Name != "p" || !slices.Equal(list[0].Nodes, nodes) {
		t.Errorf("the pools are %+v", list)
	}
}

// What a user made of an export lasts as long as the incarnation: what begins
// anew begins as the job says.
func TestAChangeEndsWithTheIncarnation(t *testing.T) {
	f := submitting(t)
	f.made()
	priority := func() (any, bool) {
		t.Helper()
		var list []op.StreamExport
		f.good("GET", "/v1/stream/exports?prefix=telemetry.source", "", &list)
		if len(list) != 1 {
			t.Fatalf("the exports are %+v", list)
		}
		return list[0].Properties["priority"], list[0].Changed
	}
	f.good("PUT", "/v1/stream/export/telemetry.source[0]/raw-by-property/properties", `{"Properties": {"kind": "raw", "priority": 9}}`, nil)
	if is, changed := priority(); is != float64(9) || !changed {
		t.Errorf("changed it is %v, %v", is, changed)
	}
	f.interrupt()
	var uids []berth.UID
	for o := range f.log.Tip().ResourcesOf(f.log.Tip().Job(f.key).UID, "") {
		uids = append(uids, o.UID)
	}
	f.leads(&state.CollectResources{UIDs: uids})
	f.finish()
	f.plan()
	f.made()
	if is, changed := priority(); is != float64(3) || changed {
		t.Errorf("begun anew it is %v, %v", is, changed)
	}
}

package api_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth"
	"berth/api"
	"berth/op"
	"berth/state"
	"berth/state/statetest"
	streams "berth/stream"
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
	text, err := os.ReadFile(filepath.Join("..", "examples", "stream", "telemetry.berth.hcl"))
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
		if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
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
	f.bad("PUT", "/v1/stream/job/telemetry/region/score", `{"Width": 1001}`, 400, "allowed are 1 to 1000")
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
	f.bad("PUT", path, `{"Properties": {"kind": {}}}`, 400, "is no property")
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

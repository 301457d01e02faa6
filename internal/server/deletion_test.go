package server_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"berth"
	"berth/internal/acl"
	"berth/internal/api"
	"berth/internal/eventually"
	"berth/internal/server"
	"berth/op"

	nomad "github.com/hashicorp/nomad/api"
)

// call asks the API for what the Go client has no words for. It returns the
// status, the headers and, in into, the answer of a good one, else its text.
func (r *running) call(method, path string, into any) (code int, header http.Header, text string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.http+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	if resp.StatusCode == http.StatusOK && into != nil {
		if err := eventually.Decode(body, into); err != nil {
			r.t.Fatalf("%s: %v: %s", path, err, body)
		}
	}
	return resp.StatusCode, resp.Header, string(body)
}

// good is call of what must go well.
func (r *running) good(method, path string, into any) {
	r.t.Helper()
	if code, _, text := r.call(method, path, into); code != http.StatusOK {
		r.t.Fatalf("%s %s: %d %s", method, path, code, text)
	}
}

// bad is call of what must be refused.
func (r *running) bad(method, path string, code int, part string) http.Header {
	r.t.Helper()
	got, header, text := r.call(method, path, nil)
	if got != code || !strings.Contains(text, part) {
		r.t.Errorf("%s %s: %d %s; wanted are %d and %q", method, path, got, text, code, part)
	}
	return header
}

// owned lists what a query for resources brings.
func (r *running) owned(query string) (out []op.Resource) {
	r.t.Helper()
	r.good("GET", "/v1/resources?"+query, &out)
	return out
}

// up registers a service and waits until it runs.
func (r *running) up(id string, count int) (uid string) {
	r.t.Helper()
	must[*nomad.JobRegisterResponse, *nomad.WriteMeta](r.t)(r.api.Jobs().Register(sleeper(id, count), nil))
	r.until(id+" runs", func() bool { return r.running(id, nil) == count })
	var j op.Job
	r.good("GET", "/v1/job/"+id, &j)
	return j.UID
}

// S13, of a job without dependents of its own kind: foreground and background
// differ in what can be seen in the meantime, and in what can be registered.
func TestForegroundAndBackground(t *testing.T) {
	r := start(t, t.TempDir())
	x := r.puppet(1)
	seen := r.subscribe(map[nomad.Topic][]string{nomad.TopicJob: {"web"}, nomad.TopicAllocation: {"web"}}, 0, "*")
	uid := r.up("web", 3)
	x.stubborn(true)

	r.bad("DELETE", "/v1/job/web?propagation=foreground", 400, "set purge=true as well")
	r.bad("DELETE", "/v1/job/web?purge=true&propagation=upwards", 400, `unknown propagation "upwards": want background, foreground or orphan`)
	r.bad("DELETE", "/v1/job/web?purge=true&wait=5s", 400, "the job is gone at once")
	r.bad("DELETE", "/v1/job/web?purge=true&propagation=foreground&wait=soon", 400, "not a duration")
	r.bad("DELETE", "/v1/job/web?purge=true&uid=a-0000000000000001-00", 400, "must begin with j-")
	var out, again op.JobStopped
	r.good("DELETE", "/v1/job/web?purge=true&propagation=foreground&wait=20ms&uid="+uid, &out)
	if d := out.Deletion; out.EvalID.IsZero() || d == nil || d.Blocking != 3 || d.Policy != berth.Foreground || d.Intent != berth.IntentUser || d.RequestIndex != out.JobModifyIndex {
		t.Errorf("the answer is %+v, %+v", out, out.Deletion)
	}
	r.good("DELETE", "/v1/job/web?purge=true&propagation=foreground", &again)
	if !again.EvalID.IsZero() || again.JobModifyIndex != out.JobModifyIndex || again.Deletion.RequestIndex != out.JobModifyIndex {
		t.Errorf("the answer to the same again is %+v", again)
	}
	r.settled(out.EvalID.String())
	var j op.Job
	r.good("GET", "/v1/job/web", &j)
	if j.UID != uid || j.Deletion == nil || j.Deletion.Blocking != 3 || !j.Stop {
		t.Errorf("the job is %+v", j)
	}
	list := r.owned("owner=" + uid + "&recursive")
	for _, o := range list {
		if o.Kind != berth.KindAlloc || len(o.OwnerRefs) != 1 || o.OwnerRefs[0] != (berth.OwnerRef{Kind: "Job", Name: "web", UID: uid, Controller: true, Block: true}) {
			t.Errorf("it owns %+v", o)
		}
	}
	if whole := r.owned("job=web"); len(list) != 3 || len(whole) != 4 || whole[0].Deletion == nil || whole[0].UID != uid {
		t.Errorf("it owns %+v of %+v", list, whole)
	}
	_, _, err := r.api.Jobs().Register(sleeper("web", 1), nil)
	refused(t, "a registration", err, 409, "deleting: job \"web\"")
	if after := r.bad("DELETE", "/v1/job/web?purge=true&uid=j-0000000000000001-00", 409, "uid-mismatch: ").Get("Retry-After"); after != "" {
		t.Errorf("another refusal says to try again after %q s", after)
	}
	r.bad("DELETE", "/v1/job/web?purge=true&propagation=orphan", 409, "deleting: ")
	if after := r.bad("DELETE", "/v1/job/web?purge=true&propagation=orphan", 409, "deleting: ").Get("Retry-After"); after != "1" {
		t.Errorf("Retry-After is %q", after)
	}

	gone := make(chan op.JobStopped)
	go func() {
		var out op.JobStopped
		code, _, text := r.call("DELETE", "/v1/job/web?purge=true&propagation=foreground&wait=5m", &out)
		if code != http.StatusOK && code != http.StatusNotFound { // it may be gone before it is asked for
			t.Errorf("who waits is told %d %s", code, text)
		}
		gone <- out
	}()
	x.stubborn(false)
	if out := <-gone; out.Deletion != nil {
		t.Errorf("whoever waits gets %+v", out.Deletion)
	}
	r.bad("GET", "/v1/job/web", 404, "job not found")
	if list := r.owned("owner=" + uid); len(list) != 0 {
		t.Errorf("there is still %+v", list)
	}
	r.inOrder(r.wait(seen, "the end of the job", func(e nomad.Event) bool { return e.Payload["Deleted"] == true && e.Topic == nomad.TopicJob }))

	x.stubborn(true)
	second := r.up("web", 2)
	r.good("DELETE", "/v1/job/web?purge=true", nil)
	r.bad("GET", "/v1/job/web", 404, "job not found")
	r.bad("DELETE", "/v1/job/web?purge=true&uid="+second, 404, "owner-missing")
	if list := r.owned("owner=" + second); len(list) != 2 || second == uid {
		t.Errorf("it left %+v", list)
	}
	third := r.up("web", 2)
	if list := r.owned("owner=" + third); third == second || len(list) != 2 || slices.ContainsFunc(list, func(o op.Resource) bool { return o.OwnerRefs[0].UID != third }) {
		t.Errorf("the one that follows owns %+v", list)
	}
	x.stubborn(false)
	r.until("what was left has ended", func() bool { return len(r.owned("owner="+second)) == 0 })
	r.sound()
}

// R18: by force a job in the foreground waits for nothing that it runs. What its
// agent says later changes nothing. Who may not manage may not do that.
func TestDeletionByForce(t *testing.T) {
	manages := true
	r := startWith(t, t.TempDir(), func(c *server.Config) {
		c.Authorize = func(_ api.Caller, need acl.Capability, _ string) error {
			if need == acl.Management && !manages {
				return berth.Errorf(berth.Denied, "Permission denied")
			}
			return nil
		}
	})
	x := r.puppet(1)
	uid := r.up("web", 2)
	x.stubborn(true)
	r.bad("DELETE", "/v1/job/web?force=true", 400, "set purge=true and propagation=foreground as well")
	r.bad("DELETE", "/v1/job/web?purge=true&force=true", 400, "with propagation background the job is gone at once")
	manages = false
	r.bad("DELETE", "/v1/job/web?purge=true&propagation=foreground&force=true", 403, "Permission denied")
	manages = true
	var first, out op.JobStopped
	r.good("DELETE", "/v1/job/web?purge=true&propagation=foreground", &first)
	if first.Deletion == nil || first.Deletion.Blocking != 2 {
		t.Errorf("the answer is %+v", first.Deletion)
	}
	r.good("DELETE", "/v1/job/web?purge=true&propagation=foreground&force=true&wait=5m&uid="+uid, &out)
	if out.Deletion != nil || out.JobModifyIndex <= first.JobModifyIndex {
		t.Errorf("the answer is %+v, %+v", out, out.Deletion)
	}
	r.bad("GET", "/v1/job/web", 404, "job not found")
	lost := func() {
		t.Helper()
		list := r.owned("kind=Allocation")
		list = slices.DeleteFunc(list, func(o op.Resource) bool { return o.OwnerRefs[0].UID != uid })
		for _, o := range list {
			if o.Status != "lost" || o.OwnerRefs[0].Block {
				t.Errorf("what it ran is %+v", o)
			}
		}
		if len(list) != 2 {
			t.Errorf("it ran %+v", list)
		}
	}
	lost()
	x.stubborn(false) // now it says that they ended
	var again op.JobStopped
	second := r.up("api", 1) // which it takes with the same breath
	lost()
	r.good("DELETE", "/v1/job/api?purge=true&propagation=foreground&force=true&wait=5m&uid="+second, &again)
	r.bad("GET", "/v1/job/api", 404, "job not found")
	r.sound()
}

// inOrder checks that a job was marked, then its allocations ended, and then it
// went.
func (r *running) inOrder(list []nomad.Event) {
	r.t.Helper()
	marked, went, last := uint64(0), uint64(0), uint64(0)
	for _, e := range list {
		a, _ := e.Allocation()
		switch {
		case e.Type == "JobDeleting":
			marked = e.Index
		case e.Type == "JobDeregistered":
			went = e.Index
		case e.Topic == nomad.TopicAllocation && a.ClientStatus == "complete":
			last = e.Index
		}
	}
	if marked == 0 || last <= marked || went <= last {
		r.t.Errorf("it was marked at %d, the last allocation ended at %d, it went at %d", marked, last, went)
	}
}

// S14: what is left to itself runs on, beside a job that follows; it is stopped
// by its UID, and nothing replaces it.
func TestLeftToItself(t *testing.T) {
	dir := t.TempDir()
	r := start(t, dir)
	x := r.puppet(1)
	uid := r.up("web", 2)
	var out op.JobStopped
	r.good("DELETE", "/v1/job/web?purge=true&propagation=orphan&uid="+uid, &out)
	if !out.EvalID.IsZero() || out.JobModifyIndex == 0 {
		t.Errorf("the answer is %+v", out)
	}
	r.bad("GET", "/v1/job/web", 404, "job not found")
	left := r.owned("orphaned=true")
	if len(left) != 2 || len(r.owned("owner="+uid)) != 0 {
		t.Fatalf("left to themselves are %+v", left)
	}
	for _, o := range left {
		var a op.Alloc
		r.good("GET", "/v1/allocation/"+o.ID, &a)
		if len(o.OwnerRefs) != 0 || !o.Orphaned || a.OwnerRefs == nil || len(a.OwnerRefs) != 0 || a.UID != o.UID || a.DesiredStatus != berth.DesiredRun {
			t.Errorf("%+v, %+v", o, a)
		}
	}
	next := r.up("web", 2)
	if others := r.owned("owner=" + next); len(others) != 2 || next == uid {
		t.Errorf("the job that follows owns %+v", others)
	}
	x.stop()
	r.stop()

	r = start(t, dir) // nothing is forgotten
	x = r.puppet(1)
	if again := r.owned("orphaned=true"); !slices.EqualFunc(again, left, func(a, b op.Resource) bool { return a.UID == b.UID }) {
		t.Errorf("after a restart left are %+v", again)
	}
	evals := len(must[[]*nomad.Evaluation, *nomad.QueryMeta](t)(r.api.Evaluations().List(nil)))
	owned := r.owned("owner=" + next)[0]
	r.bad("DELETE", "/v1/resource/"+owned.UID, 409, "is owned by job")
	r.bad("DELETE", "/v1/resource/a-00000000ffffffff-00", 404, "resource not found")
	r.bad("DELETE", "/v1/resource/nonsense", 400, "is not a UID")
	var stopped op.AllocStopped
	r.good("DELETE", "/v1/resource/"+left[0].UID, &stopped)
	if !stopped.EvalID.IsZero() {
		t.Errorf("an evaluation was raised: %+v", stopped)
	}
	r.good("PUT", "/v1/allocation/"+left[1].ID+"/stop", &stopped)
	r.until("both have ended", func() bool { return len(r.owned("orphaned=true")) == 0 })
	r.runs("web", x, 2)
	if n := len(must[[]*nomad.Evaluation, *nomad.QueryMeta](t)(r.api.Evaluations().List(nil))); n != evals {
		t.Errorf("there were %d evaluations, and there are %d", evals, n)
	}
	r.good("DELETE", "/v1/resource/"+next, &stopped) // a job, as if by its ID
	r.until("the job is gone", func() bool { _, _, err := r.api.Jobs().Info("web", nil); return err != nil })
	r.sound()
}

// S10: a deletion that names an incarnation leaves those that follow alone.
func TestDeletionOfAnOlderJob(t *testing.T) {
	r := start(t, t.TempDir())
	r.puppet(1)
	first := r.up("web", 1)
	r.good("DELETE", "/v1/job/web?purge=true&propagation=foreground&wait=5m", nil)
	second := r.up("web", 1)
	for _, p := range berth.Propagations {
		r.bad("DELETE", fmt.Sprintf("/v1/job/web?purge=true&propagation=%s&uid=%s", p, first), 409, "uid-mismatch: job \"web\" is "+second+" now")
	}
	r.until("it runs on", func() bool { return r.running("web", nil) == 1 })
	if list := r.owned("kind=Job"); len(list) != 1 || list[0].UID != second || list[0].Deletion != nil {
		t.Errorf("the jobs are %+v", list)
	}
}

// S9 and S28, of a job without phases: a deletion goes on after the server was
// started anew, and the job stays gone.
func TestDeletionOverARestart(t *testing.T) {
	dir := t.TempDir()
	r := start(t, dir)
	x := r.puppet(1)
	uid := r.up("web", 2)
	x.stubborn(true)
	r.good("DELETE", "/v1/job/web?purge=true&propagation=foreground", nil)
	x.stop()
	r.stop()

	r = start(t, dir)
	var j op.Job
	r.good("GET", "/v1/job/web", &j)
	if j.UID != uid || j.Deletion == nil || j.Deletion.Blocking != 2 {
		t.Errorf("after a restart the job is %+v", j)
	}
	r.puppet(1)
	r.until("it has gone", func() bool { code, _, _ := r.call("GET", "/v1/job/web", nil); return code == 404 })
	r.stop()

	r = start(t, dir)
	r.bad("GET", "/v1/job/web", 404, "job not found")
	r.sound()
}

// A job in the foreground can be deleted in the background then: whoever waits
// does not wait any more. The list of resources waits for changes, and comes in
// pages.
func TestDeletionEscalates(t *testing.T) {
	r := start(t, t.TempDir())
	x := r.puppet(1)
	r.up("web", 2)
	x.stubborn(true)
	r.good("DELETE", "/v1/job/web?purge=true&propagation=foreground", nil)
	_, header, _ := r.call("GET", "/v1/resources?kind=Job", nil)
	empty := make(chan bool)
	go func() {
		for list := make([]op.Resource, 1); len(list) > 0; {
			_, header, _ = r.call("GET", "/v1/resources?kind=Job&wait=5m&index="+header.Get("X-Nomad-Index"), &list)
		}
		close(empty)
	}()
	r.good("DELETE", "/v1/job/web?purge=true&propagation=background", nil)
	select {
	case <-empty:
	case <-time.After(eventually.Limit):
		t.Fatal("who watches the list does not learn that the job has gone")
	}
	var whole []op.Resource
	for path := "/v1/resources?per_page=1"; ; {
		var page []op.Resource
		_, header, text := r.call("GET", path, &page)
		whole = append(whole, page...)
		token := header.Get("X-Nomad-NextToken")
		if len(whole) > 10 || page == nil {
			t.Fatalf("%s: %s", path, text)
		}
		if token == "" {
			break
		}
		path = "/v1/resources?per_page=1&next_token=" + token
	}
	if len(whole) != 2 || whole[0].UID == whole[1].UID {
		t.Errorf("page by page there are %+v", whole)
	}
	r.bad("GET", "/v1/resources?kind=Pod", 400, "want one of Job, Config,")
	r.bad("GET", "/v1/resources?owner=web", 400, "is not a UID")
}

// S9, of a job without phases: a deletion asked of one server goes on when the
// leader is lost; the job goes once, everywhere, and stays gone.
func TestDeletionOutlivesTheLeader(t *testing.T) {
	c := startSeveral(t, 3)
	lead := c.leader()
	f := c.list[c.follower()]
	x := f.puppet(1)
	if _, _, err := f.api.Jobs().Register(napper("web", 2), nil); err != nil {
		t.Fatal(err)
	}
	f.until("it runs", func() bool { return f.running("web", nil) == 2 })
	x.stubborn(true)
	var out op.JobStopped
	f.good("DELETE", "/v1/job/web?purge=true&propagation=foreground", &out)
	if after := f.bad("DELETE", "/v1/job/web?purge=true&propagation=orphan", 409, "deleting: ").Get("Retry-After"); after != "1" {
		t.Errorf("through another server Retry-After is %q", after)
	}
	c.stop(lead)
	c.leader()
	var j op.Job
	f.until("the next leader answers", func() bool { code, _, _ := f.call("GET", "/v1/job/web", &j); return code == 200 })
	if j.Deletion == nil || j.Deletion.RequestIndex != out.JobModifyIndex || j.Deletion.Blocking != 2 {
		t.Errorf("the next leader says %+v", j.Deletion)
	}
	x.stubborn(false)
	for i, r := range c.list {
		if i == lead {
			continue
		}
		r.until("it has gone", func() bool { code, _, _ := r.call("GET", "/v1/job/web", nil); return code == 404 })
		r.sound()
	}
	f.until("the servers agree", func() bool {
		other := c.list[3-lead-slices.Index(c.list, f)].server.Store().Snapshot()
		mine := f.server.Store().Snapshot()
		return other.Index == mine.Index && other.Hash() == mine.Hash()
	})
}

// A drain ends what was left to itself: a service at once, for nothing could
// take its place first.
func TestADrainEndsOrphans(t *testing.T) {
	r := start(t, t.TempDir())
	x := r.puppet(1)
	r.up("web", 2)
	r.good("DELETE", "/v1/job/web?purge=true&propagation=orphan", nil)
	if left := r.owned("orphaned=true"); len(left) != 2 {
		t.Fatalf("left to themselves are %+v", left)
	}
	r.drain(x, &nomad.DrainSpec{Deadline: time.Hour})
	r.drained(x)
	if left := r.owned("orphaned=true"); len(left) != 0 {
		t.Errorf("left to themselves are %+v", left)
	}
}

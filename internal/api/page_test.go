package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth"
	"berth/internal/api"
	"berth/internal/cputime"
	"berth/internal/state"
	"berth/internal/state/statetest"
	"berth/op"
)

// small is a job that is registered with an evaluation of that number.
func small(t testing.TB, id string, eval int) *state.RegisterJob {
	j := statetest.Job(t, `{"ID": "`+id+`", "Meta": {"owner": "`+id+`"}, "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "app", "Driver": "raw_exec", "Config": {"command": "/bin/true"}}]}]}`)
	return statetest.Register(j, eval)
}

// walk reads a list page by page and returns the IDs, calling between before
// the second page.
func walk(t *testing.T, h http.Handler, path string, between func()) (ids []string) {
	t.Helper()
	for token, n := "", 0; ; n++ {
		if n == 1 && between != nil {
			between()
		}
		w := ask(h, "GET", path+"&per_page=2&next_token="+url.QueryEscape(token), "")
		var rows []struct{ ID string }
		if err := json.Unmarshal(w.Body.Bytes(), &rows); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%s: %d %s", path, w.Code, w.Body)
		}
		for _, r := range rows {
			ids = append(ids, r.ID)
		}
		token = w.Header().Get(op.HeaderNextToken)
		if len(rows) > 2 || len(rows) < 2 && token != "" || n > 20 {
			t.Fatalf("%s: page %d has %d rows, and the next begins at %q", path, n, len(rows), token)
		}
		if token == "" {
			return ids
		}
	}
}

// Lists come whole in pages, forwards and backwards, whatever they are sorted
// by.
func TestPages(t *testing.T) {
	cmds := []state.Command{}
	for n := range 5 {
		cmds = append(cmds, statetest.AddNode(n+1, 4000, 4000), small(t, fmt.Sprint("j", n), n+1))
	}
	s, _ := serve(t, nil, cmds...)
	for _, path := range []string{"/v1/jobs?", "/v1/jobs?prefix=j", "/v1/jobs?namespace=*", "/v1/nodes?", "/v1/nodes?prefix=00", "/v1/evaluations?", "/v1/evaluations?prefix=00", "/v1/evaluations?namespace=*"} {
		w := ask(s, "GET", path, "")
		var rows []struct{ ID string }
		if err := json.Unmarshal(w.Body.Bytes(), &rows); err != nil || len(rows) != 5 {
			t.Fatalf("%s: %v %s", path, err, w.Body)
		}
		var want []string
		for _, r := range rows {
			want = append(want, r.ID)
		}
		if got := walk(t, s, path, nil); !slices.Equal(got, want) {
			t.Errorf("%s in pages is %v, at once %v", path, got, want)
		}
		slices.Reverse(want)
		if got := walk(t, s, path+"&reverse=true", nil); !slices.Equal(got, want) {
			t.Errorf("%s backwards is %v, not %v", path, got, want)
		}
	}
}

// A page begins where the last one ended though the row it would have begun
// with is gone.
func TestAPageThatBeginsWithWhatIsGone(t *testing.T) {
	for _, back := range []bool{false, true} {
		cmds := []state.Command{}
		for n := range 5 {
			cmds = append(cmds, small(t, fmt.Sprint("j", n), n+1))
		}
		s, log := serve(t, nil, cmds...)
		got := walk(t, s, fmt.Sprint("/v1/jobs?reverse=", back), func() {
			log.Must(t, &state.StopJob{Key: berth.JobKey{Namespace: "default", ID: "j2"}, Purge: true})
		})
		want := []string{"j0", "j1", "j3", "j4"}
		if back {
			slices.Reverse(want)
		}
		if !slices.Equal(got, want) {
			t.Errorf("reverse=%v: %v", back, got)
		}
	}
}

// Filters see rows as the API shows them, and a row without a block is one that
// does not match.
func TestFilters(t *testing.T) {
	s, _ := serve(t, nil, statetest.AddNode(1, 4000, 4000, func(n *berth.Node) { n.Attributes["kernel.name"] = "linux" }), small(t, "a", 1), small(t, "b", 2),
		&state.CancelEvals{IDs: []berth.EvalID{statetest.ID[berth.Eval](2)}})
	for _, c := range []struct {
		path, filter string
		want         int
	}{
		{"/v1/jobs", `ID == "a"`, 1},
		{"/v1/jobs", `ID != "a" and Priority == 50`, 1},
		{"/v1/jobs", `ID matches "^[ab]$"`, 2},
		{"/v1/jobs", `JobSummary.Summary.g.Queued == 0`, 2},
		{"/v1/jobs?meta=true", `Meta.owner == "b"`, 1},
		{"/v1/jobs?meta=true", `Meta.nobody == "b"`, 0},
		{"/v1/jobs", `not (Stop)`, -1}, // no operator: not the language
		{"/v1/evaluations", `Status == "canceled"`, 1},
		{"/v1/evaluations?status=pending", `JobID == "b"`, 0},
		{"/v1/evaluations?job=b", `Status == "canceled"`, 1},
		{"/v1/evaluations?job=a", `Status == "canceled"`, 0},
		{"/v1/evaluations?job=a&status=canceled", ``, 0},
		{"/v1/evaluations?job=b&status=canceled", ``, 1},
		{"/v1/evaluations", `FailedTGAllocs.g.NodesEvaluated == 1`, 0},
		{"/v1/evaluations", `FailedTGAllocs is empty`, 2},
		{"/v1/jobs", `Meta.owner == "b"`, 1},
		{"/v1/jobs", `Meta["owner"] is nil`, 0},
		{"/v1/jobs", `ParameterizedJob is nil and Periodic is nil`, 2},
		{"/v1/jobs", `ParameterizedJob is not nil`, 0},
		{"/v1/jobs", `Periodic.Enabled == true`, 0},
		{"/v1/jobs", `Status == "pending"`, 1},
		{"/v1/jobs", `any TaskGroups as g { any g.Tasks as t { t.Driver == "raw_exec" and "command" in t.Config } }`, 2},
		{"/v1/node/pool/default/jobs", `TaskGroups.0.Tasks.0.Name == "app" and Meta.owner == "a"`, 1},
		{"/v1/nodes", `Attributes["kernel.name"] == "linux"`, 1},
		{"/v1/nodes", `Attributes["kernel.name"] != "linux"`, 0},
		{"/v1/nodes", `NodeResources.Cpu.CpuShares == 4000 and Drain == false`, 1},
		{"/v1/nodes", `SecretID != ""`, -1},
		{"/v1/nodes", `Drivers.raw_exec.Healthy == true`, 1},
		{"/v1/nodes", `Drivers.docker.Healthy == true`, 0},
		{"/v1/nodes", `Status == "ready"`, 1},
	} {
		and := "?"
		if strings.Contains(c.path, "?") {
			and = "&"
		}
		w := ask(s, "GET", c.path+and+"filter="+url.QueryEscape(c.filter), "")
		if old := w; c.want >= 0 { // asked for again, a page is found from the list of before
			if w = ask(s, "GET", c.path+and+"filter="+url.QueryEscape(c.filter), ""); w.Body.String() != old.Body.String() {
				t.Errorf("%s with %s: %s, then %s", c.path, c.filter, old.Body, w.Body)
			}
		}
		var rows []any
		if c.want < 0 {
			if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "filter") {
				t.Errorf("%s with %s: %d %s", c.path, c.filter, w.Code, w.Body)
			}
			continue
		}
		if err := json.Unmarshal(w.Body.Bytes(), &rows); err != nil || len(rows) != c.want {
			t.Errorf("%s with %s: %d %s", c.path, c.filter, w.Code, w.Body)
		}
	}
}

// What a query says wrongly is refused with its name, and costs little.
func TestBadQueries(t *testing.T) {
	s, _ := serve(t, nil, small(t, "a", 1))
	deep := strings.Repeat("(", 500) + `ID == "a"` + strings.Repeat(")", 500)
	for query, want := range map[string]string{
		"filter=" + url.QueryEscape(`ID ==`):                      "failed to read filter expression",
		"filter=" + url.QueryEscape(`Owner == "a"`):               "filter: ",
		"filter=" + url.QueryEscape(`Priority == "high"`):         "filter: ",
		"filter=" + url.QueryEscape(`ID matches "(("`):            "filter: ",
		"filter=" + url.QueryEscape(deep):                         "failed to read filter expression",
		"filter=" + url.QueryEscape(strings.Repeat("not ", 1000)): "filter: 4000 bytes is too long: the limit is 2048",
		"filter=" + url.QueryEscape(`Periodic == true`):           `filter: Periodic: is a block and cannot be compared with "true"`,
		"filter=%ff%fe":                 "failed to read filter expression",
		"per_page=-1":                   `per_page: must be an integer from 0 to 1000, got "-1"`,
		"per_page=x":                    `per_page: must be an integer from 0 to 1000, got "x"`,
		"per_page=99999999999999999999": "per_page: ",
		"index=-1":                      `index: "-1" is not an index`,
		"index=x&wait=y&stale=perhaps":  "3 problems",
		"wait=-5s":                      `wait: "-5s" is not a duration`,
		"reverse=maybe":                 `reverse: must be true or false, got "maybe"`,
		"meta=maybe":                    `meta: must be true or false, got "maybe"`,
		"region=moon":                   `No path to region: "moon"`,
	} {
		var w *httptest.ResponseRecorder
		took := cputime.Of(func() { w = ask(s, "GET", "/v1/jobs?"+query, "") })
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%.60s: %d %s", query, w.Code, w.Body)
		}
		if took > 2*time.Second {
			t.Errorf("%.60s took %v of CPU time", query, took)
		}
	}
	for _, path := range []string{"/v1/nodes", "/v1/evaluations", "/v1/allocations", "/v1/deployments"} {
		if w := ask(s, "GET", path+"?next_token=xyz", ""); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), `next_token: "xyz" is not a token of this list`) {
			t.Errorf("%s: an invalid token: %d %s", path, w.Code, w.Body)
		}
		if w := ask(s, "GET", path+"?prefix=xyz", ""); w.Code != http.StatusBadRequest {
			t.Errorf("%s: a prefix that is none: %d %s", path, w.Code, w.Body)
		}
	}
}

// A page holds at most a thousand rows, however many are asked for.
func TestPageSize(t *testing.T) {
	cmds := []state.Command{}
	for n := range 1005 {
		cmds = append(cmds, small(t, fmt.Sprintf("j%04d", n), n+1))
	}
	s, _ := serve(t, nil, cmds...)
	w := ask(s, "GET", "/v1/jobs?per_page=2000000000", "")
	var rows []struct{ ID string }
	if err := json.Unmarshal(w.Body.Bytes(), &rows); err != nil || len(rows) != op.MaxPage || w.Header().Get(op.HeaderNextToken) != "default.j1000" {
		t.Errorf("%d rows, %v, next %q", len(rows), err, w.Header().Get(op.HeaderNextToken))
	}
}

// A list of what never was has index 0, after a restart as well; otherwise its index
// is that of the last change of its table, whatever else has changed.
func TestTheIndexOfAnEmptyList(t *testing.T) {
	s, log := serve(t, nil, statetest.AddNode(1, 4000, 4000))
	same := func(s *api.Server) {
		t.Helper()
		for path, want := range map[string]string{
			"/v1/jobs": "0", "/v1/evaluations": "0", "/v1/evaluations?prefix=00": "0", "/v1/allocations": "0", "/v1/deployments": "0", "/v1/services": "0",
			"/v1/scaling/policies": "0", "/v1/stream/pes": "", "/v1/job/x/allocations": "0", "/v1/job/x/evaluations": "0", "/v1/job/x/deployments": "0",
			"/v1/nodes": "2", "/v1/node/pools": "1", "/v1/node/pool/default/jobs": "1", "/v1/node/pool/default/nodes": "2",
		} {
			w := ask(s, "GET", path, "")
			if got := w.Header().Get(op.HeaderIndex); want != "" && (w.Code != http.StatusOK || got != want) {
				t.Errorf("%s: %d, index %q, not %s", path, w.Code, got, want)
			}
		}
	}
	same(s)
	var saved bytes.Buffer
	if err := log.Tip().Save(&saved); err != nil {
		t.Fatal(err)
	}
	loaded, err := state.Load(&saved)
	if err != nil {
		t.Fatal(err)
	}
	store := state.New()
	store.Reset(loaded)
	again, _ := serve(t, func(c *api.Config) { c.Store = store })
	same(again)
	log.Must(t, small(t, "a", 1), &state.StopJob{Key: berth.JobKey{Namespace: "default", ID: "a"}, Purge: true}, statetest.AddNode(2, 1, 1))
	if w := ask(s, "GET", "/v1/jobs", ""); strings.TrimSpace(w.Body.String()) != "[]" || w.Header().Get(op.HeaderIndex) != "4" {
		t.Errorf("after the only job was purged: %v %s", w.Header(), w.Body)
	}
	for _, path := range []string{"/v1/evaluation/" + statetest.ID[berth.Eval](99).String() + "/allocations", "/v1/evaluation/x/allocations", "/v1/node/" + statetest.ID[berth.Node](99).String() + "/allocations", "/v1/node/x/allocations"} {
		if w := ask(s, "GET", path, ""); w.Code != http.StatusOK || strings.TrimSpace(w.Body.String()) != "[]" {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

// Who waits for the allocations of a node that is not there yet gets them once it is;
// reports of other nodes are nothing to them.
func TestWaitingForTheAllocationsOfANode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, log := serve(t, nil, statetest.AddNode(1, 4000, 4000), small(t, "a", 1))
		path := "/v1/node/" + statetest.ID[berth.Node](2).String() + "/allocations?wait=60s&index="
		done := make(chan *httptest.ResponseRecorder, 1)
		next := func(index string) { go func() { done <- ask(s, "GET", path+index, "") }() }
		next(ask(s, "GET", path, "").Header().Get(op.HeaderIndex))
		synctest.Wait()
		log.Must(t, statetest.AddNode(2, 4000, 4000))
		w := <-done
		next(w.Header().Get(op.HeaderIndex))
		synctest.Wait()
		place := func(node int) {
			e := 10 + node
			log.Must(t, small(t, fmt.Sprint("on", node), e), &state.ApplyPlan{
				Eval: statetest.ID[berth.Eval](e), End: &state.EvalEnd{Status: berth.EvalComplete},
				Place: []berth.Placement{{NodeID: statetest.ID[berth.Node](node)}},
			})
			synctest.Wait()
		}
		before := s.ListStats().Encodings
		if place(1); len(done) != 0 || s.ListStats().Encodings != before {
			t.Fatal("an allocation of another node woke it")
		}
		place(2)
		if w = <-done; !strings.Contains(w.Body.String(), `"on2.g[0]"`) {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}

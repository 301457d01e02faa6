package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"berth"
	"berth/internal/cputime"
	"berth/internal/state"
	"berth/internal/state/statetest"
	"berth/op"
)

// small is a job that is registered with an evaluation of that number.
func small(t *testing.T, id string, eval int) *state.RegisterJob {
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
	s, _ := serve(t, nil, statetest.AddNode(1, 4000, 4000), small(t, "a", 1), small(t, "b", 2),
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
		{"/v1/nodes", `Drivers.raw_exec.Healthy == true`, 1},
		{"/v1/nodes", `Drivers.docker.Healthy == true`, 0},
		{"/v1/nodes", `Status == "ready"`, 1},
	} {
		and := "?"
		if strings.Contains(c.path, "?") {
			and = "&"
		}
		w := ask(s, "GET", c.path+and+"filter="+url.QueryEscape(c.filter), "")
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
		"filter=%ff%fe":                 "failed to read filter expression",
		"per_page=-1":                   `per_page: must be an integer from 0 to 1000, got "-1"`,
		"per_page=x":                    `per_page: must be an integer from 0 to 1000, got "x"`,
		"per_page=99999999999999999999": "per_page: ",
		"index=-1":                      `index: "-1" is not an index`,
		"index=x&wait=y&stale=perhaps":  "3 problems",
		"wait=-5s":                      `wait: "-5s" is not a duration`,
		"reverse=maybe":                 `reverse: must be true or false, got "maybe"`,
		"meta=maybe":                    `meta: "maybe" is not a bool`,
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
	for _, path := range []string{"/v1/nodes", "/v1/evaluations", "/v1/allocations"} {
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

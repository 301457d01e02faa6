package api_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"berth/internal/cputime"
	"berth/internal/state"
	"berth/internal/state/statetest"
	"berth/op"
)

// FuzzRequests: whatever is asked, in whatever way, is answered with a code
// that is the caller's or a success, soon, and what is refused changes nothing.
func FuzzRequests(f *testing.F) {
	job := `{"Job": {"ID": "web", "TaskGroups": [{"Name": "g", "Count": 2, "Tasks": [{"Name": "app", "Driver": "raw_exec", "Config": {"command": "/bin/true"}}]}]}}`
	for _, i := range op.All() {
		if i.Path != "" {
			f.Add(i.Method, i.Path, "namespace=*&task=app&type=stdout&per_page=1", job)
		}
	}
	f.Add("GET", "/v1/job/a%2Fb/allocations", "all=true&reverse&stale", "")
	f.Add("GET", "/v1/jobs", "filter="+url.QueryEscape(`Meta.a == "b" and not (Priority == 1)`)+"&next_token=default.web", "")
	f.Add("GET", "/v1/evaluations", "prefix=0a&next_token=3.x&reverse=true&status=blocked&job=web", "")
	f.Add("POST", "/v1/jobs", "region=global&pretty", `{"ID": "web", "taskgroups": []}`)
	f.Add("DELETE", "/v1/job/web", "purge=true&eval_priority=7&uid=j-1-0", "")
	f.Add("DELETE", "/v1/evaluations", "namespace=*", `{"EvalIDs": ["x"], "Filter": "Status == complete"}`)
	f.Add("PUT", "/v1/system/gc", "", "")
	f.Add("PUT", "/v1/jobs/parse", "", `{"JobHCL": "job \"web\" { group \"g\" { count = 1 + 1 } }", "Variables": "a = 1"}`)
	f.Fuzz(func(t *testing.T, method, path, query, body string) {
		u := &url.URL{Path: path, RawQuery: query}
		r, err := http.NewRequest(method, u.String(), strings.NewReader(body))
		if err != nil || strings.Contains(query, "index") {
			return // not HTTP, or a query that waits
		}
		r.RemoteAddr = "127.0.0.1:1"
		s, log := serve(t, nil, statetest.AddNode(1, 4000, 4000), small(t, "web", 1), &state.SetNodeStatus{ID: statetest.Node(1, 1, 1).ID, Status: "ready"})
		before := log.Tip().Hash()
		w := httptest.NewRecorder()
		took := cputime.Of(func() { s.ServeHTTP(w, r) })
		// What needs an agent is not to be had here, and says so.
		if w.Code < 200 || w.Code >= 500 && w.Code != http.StatusServiceUnavailable && !strings.HasPrefix(r.URL.Path, "/v1/agent/health") {
			t.Fatalf("%s %s: %d %s", method, u, w.Code, w.Body)
		}
		if w.Code >= 400 && (log.Tip().Hash() != before || w.Body.Len() == 0 || w.Body.Len() > 64<<10) {
			t.Fatalf("%s %s: refused with %d and %d bytes, and the state may have changed", method, u, w.Code, w.Body.Len())
		}
		if took > 5*time.Second {
			t.Fatalf("%s %s took %v of CPU time", method, u, took)
		}
	})
}

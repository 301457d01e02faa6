package api_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"berth"
	"berth/internal/api"
	"berth/internal/schedule"
	"berth/internal/state"
	"berth/internal/state/statetest"
	"berth/op"
	"time"
)

// populated returns a server that has several of most things, and what paths may
// name.
func populated(t *testing.T) (*api.Server, map[string]string) {
	cmds := []state.Command{
		&state.UpsertNamespaces{Namespaces: []*berth.Namespace{{Name: "one"}, {Name: "two"}}},
		&state.UpsertACLPolicies{Policies: []*berth.ACLPolicy{policyNamed("p1"), policyNamed("p2"), policyNamed("p3")}},
		statetest.AddNode(1, 40000, 40000), statetest.AddNode(2, 40000, 40000), statetest.AddNode(3, 40000, 40000),
	}
	for i, name := range []string{"web", "web-2", "api", "db"} {
		j := statetest.Job(t, fmt.Sprintf(`{"ID":%q,"TaskGroups":[{"Name":"g","Count":2,"Scaling":{"Min":1,"Max":3,"Type":"horizontal","Enabled":true},
			"Update":{"MaxParallel":1,"HealthCheck":"task_states","HealthyDeadline":300000000000,"ProgressDeadline":600000000000},
			"Tasks":[{"Name":"app","Driver":"mock_driver","Resources":{"CPU":100,"MemoryMB":100}}]}]}`, name))
		cmds = append(cmds, statetest.Register(j, i+1))
	}
	s, log := serve(t, nil, cmds...)
	for e := range log.Store.Snapshot().OpenEvals(berth.EvalPending) {
		log.Must(t, schedule.Decide(log.Store.Snapshot(), e, 0, time.Unix(1000, 0)).Plan)
	}
	there := map[string]string{"JobID": "web", "PoolName": "default", "NodeID": statetest.Node(1, 1, 1).ID.String()}
	snap := log.Store.Snapshot()
	k := berth.JobKey{Namespace: "default", ID: "web"}
	for a := range snap.AllocsOf(k) {
		there["AllocID"] = a.ID.String()
		log.Must(t, &state.UpsertServices{Node: a.NodeID, Services: []*berth.ServiceRegistration{{
			ID: "reg-" + a.ID.String(), ServiceName: "svc", Namespace: "default", NodeID: a.NodeID, Datacenter: "dc1", JobID: "web", AllocID: a.ID, Address: "10.0.0.1", Port: 80,
		}}})
	}
	there["ServiceName"] = "svc"
	for e := range snap.EvalsOf(k) {
		there["EvalID"] = e.ID.String()
	}
	for d := range snap.DeploymentsOf(k) {
		there["DeploymentID"] = d.ID.String()
	}
	return s, there
}

func policyNamed(name string) *berth.ACLPolicy {
	return &berth.ACLPolicy{Name: name, Rules: `node { policy = "read" }`}
}

// lists are the operations over HTTP that return a list and take the options of a
// query.
func lists() (out []*op.Info) {
	for _, i := range op.All() {
		q, ok := i.In.FieldByName("Query")
		if i.Path != "" && i.IsRead() && !i.Posted && !i.Bytes && i.Out.Kind() == reflect.Slice && (i.In == reflect.TypeFor[op.Query]() || ok && q.Anonymous) {
			out = append(out, i)
		}
	}
	return out
}

// pathOf fills in the fields of a path; ok is false if something is not known.
func pathOf(i *op.Info, there map[string]string) (path string, ok bool) {
	ok = true
	return field.ReplaceAllStringFunc(i.Path, func(f string) string {
		v, known := there[strings.Trim(f, "{}")]
		ok = ok && known
		return url.PathEscape(v)
	}), ok
}

// form is one answer to a request for a list.
type form struct {
	code   int
	header http.Header
	body   []byte
	rows   []json.RawMessage
}

func formOf(t *testing.T, s *api.Server, path, query string, gz bool) (f form) {
	t.Helper()
	r := httptest.NewRequest("GET", path+"?"+query, nil)
	if gz {
		r.Header.Set("Accept-Encoding", "gzip")
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	f = form{code: w.Code, header: w.Header(), body: w.Body.Bytes()}
	if w.Header().Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(w.Body)
		if err != nil {
			t.Fatal(err)
		}
		if f.body, err = io.ReadAll(z); err != nil {
			t.Fatal(err)
		}
	}
	if f.code == http.StatusOK {
		if err := json.Unmarshal(f.body, &f.rows); err != nil {
			t.Fatalf("%s?%s: %v: %s", path, query, err, f.body)
		}
	}
	return f
}

// others are the lists that are not of the state, and whose they are.
var others = map[string]string{
	"agent.members": "gossip's", "agent.servers": "the node's", "region.list": "gossip's", "status.peers": "the cluster's", "alloc.files": "the agent's",
	"keyring.jwks": "a form of the outside", "volume.list": "of one type, which it must name", "agent.audit": "a file's",
}

// Every list is blocking, stale, pretty, compressed, filtered, reversed and read in
// pages in the same way.
func TestFormsOfEveryList(t *testing.T) {
	s, there := populated(t)
	tried, long := 0, 0
	for _, i := range lists() {
		path, ok := pathOf(i, there)
		if !ok || others[i.Name] != "" || !s.Served()[i.Name] {
			continue
		}
		// The lists of one object are whole: most take no filter and no pages.
		ofOne := path != i.Path || i.Name == "acl_policy.self"
		space := "namespace=*"
		if ofOne {
			space = "namespace=default"
		}
		all := formOf(t, s, path, space, false)
		if all.code != http.StatusOK {
			t.Errorf("%s: %d %s", i.Name, all.code, all.body)
			continue
		}
		tried++
		index := all.header.Get(op.HeaderIndex)
		if n, err := strconv.ParseUint(index, 10, 64); err != nil || n == 0 && len(all.rows) > 0 {
			t.Errorf("%s: the index is %q", i.Name, index)
		}
		if all.header.Get(op.HeaderKnownLeader) != "true" || all.header.Get(op.HeaderLastContact) == "" || all.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: the headers are %v", i.Name, all.header)
		}
		for name, query := range map[string]string{"stale": "&stale=true", "consistent": "&consistent", "waiting": "&wait=1ms&index=" + index, "a page of all": "&per_page=1000"} {
			if got := formOf(t, s, path, space+query, false); got.code != all.code || !bytes.Equal(got.body, all.body) {
				t.Errorf("%s, %s: %d %s; wanted is %s", i.Name, name, got.code, got.body, all.body)
			}
		}
		if got := formOf(t, s, path, space, true); !bytes.Equal(got.body, all.body) {
			t.Errorf("%s, compressed: %s", i.Name, got.body)
		}
		var plain bytes.Buffer
		if got := formOf(t, s, path, space+"&pretty", false); json.Compact(&plain, got.body) != nil || !bytes.Equal(bytes.TrimSpace(plain.Bytes()), bytes.TrimSpace(all.body)) {
			t.Errorf("%s, pretty: %s", i.Name, got.body)
		}
		got := formOf(t, s, path, space+"&filter="+url.QueryEscape(`Name ==`), false)
		filters := got.code == http.StatusBadRequest && bytes.Contains(got.body, []byte("filter"))
		if !filters && !(ofOne && bytes.Equal(got.body, all.body)) {
			t.Errorf("%s, an invalid filter: %d %s", i.Name, got.code, got.body)
		}
		if got := formOf(t, s, path, space+"&per_page=-1", false); got.code != http.StatusBadRequest || !bytes.Contains(got.body, []byte("per_page")) {
			t.Errorf("%s, a page of -1: %d %s", i.Name, got.code, got.body)
		}
		if got := formOf(t, s, path, space+"&next_token=%00", false); got.code >= 500 {
			t.Errorf("%s, an invalid token: %d %s", i.Name, got.code, got.body)
		}
		if len(all.rows) > 1 && filters {
			long++
			pagesOf(t, s, i.Name, path, space, all)
		}
	}
	if tried < 25 || long < 8 {
		t.Errorf("%d lists were tried, %d of them with several rows", tried, long)
	}
}

// pagesOf reads a list in pages of one row, in both orders.
func pagesOf(t *testing.T, s *api.Server, name, path, space string, all form) {
	t.Helper()
	for _, order := range []string{"", "&reverse=true"} {
		var got []json.RawMessage
		for token, n := "", 0; n <= len(all.rows); n++ {
			f := formOf(t, s, path, space+"&per_page=1"+order+"&next_token="+url.QueryEscape(token), false)
			if f.code != http.StatusOK || len(f.rows) != 1 {
				t.Errorf("%s%s, page %d: %d, %d rows: %s", name, order, n, f.code, len(f.rows), f.body)
				return
			}
			got = append(got, f.rows...)
			if token = f.header.Get(op.HeaderNextToken); token == "" {
				break
			}
		}
		if order != "" {
			slices.Reverse(got)
		}
		if !slices.EqualFunc(got, all.rows, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
			t.Errorf("%s%s: pages of one row are %s; wanted are %s", name, order, got, all.rows)
		}
	}
}

// Whatever a job is called, each operation that takes its name answers as for a plain
// name.
func TestNamesOfJobs(t *testing.T) {
	server := func(name string) *api.Server {
		j, err := json.Marshal(map[string]any{"ID": name, "Type": "batch", "TaskGroups": []any{map[string]any{"Name": "g", "Tasks": []any{map[string]any{"Name": "app", "Driver": "mock_driver"}}}}})
		if err != nil {
			t.Fatal(err)
		}
		s, _ := serve(t, nil, statetest.AddNode(1, 4000, 4000), statetest.Register(statetest.Job(t, string(j)), 1))
		return s
	}
	bodies := map[string]string{
		"job.scale": `{"Count":2,"Target":{"Group":"g"}}`, "job.register": `{"Job":%s}`, "job.plan": `{"Job":%s}`, "job.validate": `{"Job":%s}`, "job.revert": `{"JobID":%q,"JobVersion":0}`,
		"job.stability": `{"JobID":%q,"JobVersion":0,"Stable":true}`, "job.evaluate": `{"JobID":%q}`, "job.dispatch": `{}`,
	}
	ask := func(i *op.Info, name string) int {
		job := fmt.Sprintf(`{"ID":%q,"TaskGroups":[{"Name":"g","Tasks":[{"Name":"app","Driver":"mock_driver"}]}]}`, name)
		body := strings.NewReplacer("%s", job, "%q", strconv.Quote(name)).Replace(bodies[i.Name])
		path, _ := pathOf(i, map[string]string{"JobID": name, "TagName": "t"})
		r := httptest.NewRequest(i.Verb(), path+"?wait=1ms", strings.NewReader(body))
		w := httptest.NewRecorder()
		server(name).ServeHTTP(w, r)
		if i.IsRead() && w.Code >= 400 && strings.Contains(w.Body.String(), "no such path") {
			t.Errorf("%s of %q: %s", i.Name, name, w.Body)
		}
		return w.Code
	}
	n := 0
	for _, i := range op.All() {
		if !strings.Contains(i.Path, "{JobID}") || strings.HasPrefix(i.Path, "/v1/stream/") {
			continue
		}
		n++
		want := ask(i, "web")
		for _, name := range []string{"a/b", "a/b/allocations", "a\nb", "a?b=c", "a&b", "日本語", "100%", "a%2Fb", "a#b", "../x", "a b.c", "+"} {
			if name == "a b.c" {
				name = "a\tb"
			}
			if got := ask(i, name); got != want {
				t.Errorf("%s of %q: %d; of a plain name: %d", i.Name, name, got, want)
			}
		}
	}
	if n < 20 {
		t.Errorf("%d operations take a job's name", n)
	}
}

// FuzzPagingTokens: whatever stands where a token of a page can, each list answers
// with a page, or says that the token is invalid.
func FuzzPagingTokens(f *testing.F) {
	for _, tok := range []string{"", "default.web", "7.x", "1.6c2a1b34-0000-4000-8000-000000000000", "\x00", "%", "9999999999999999999", "-1", ".", "default."} {
		f.Add(tok, false)
		f.Add(tok, true)
	}
	var s *api.Server
	var there map[string]string
	f.Fuzz(func(t *testing.T, tok string, reverse bool) {
		if s == nil {
			s, there = populated(t)
		}
		for _, i := range lists() {
			path, ok := pathOf(i, there)
			if !ok || others[i.Name] != "" || !s.Served()[i.Name] {
				continue
			}
			got := formOf(t, s, path, fmt.Sprintf("per_page=2&reverse=%v&next_token=%s", reverse, url.QueryEscape(tok)), false)
			if got.code != http.StatusOK && got.code != http.StatusBadRequest {
				t.Errorf("%s: %q: %d %s", i.Name, tok, got.code, got.body)
			}
		}
	})
}

// FuzzQueries: whatever the query of a list is, the answer has rows, or refuses it and
// says why.
func FuzzQueries(f *testing.F) {
	for _, q := range []string{
		"", "per_page=1", "per_page=-1&reverse=maybe", "prefix=0a&stale&pretty", "namespace=*&filter=ID+is+not+empty", "filter=%ff", "region=global&meta=true",
		"namespace=%00", "next_token=7.x&per_page=2", "consistent=&stale=1", "resources=true&os=1", "all=1&task_states=false", "%zz", "a=b;c=d", "per_page=1&per_page=2",
	} {
		f.Add(q)
	}
	var s *api.Server
	var there map[string]string
	f.Fuzz(func(t *testing.T, query string) {
		if v, _ := url.ParseQuery(query); v.Has("index") {
			return // it may wait
		}
		if s == nil {
			s, there = populated(t)
		}
		for _, i := range lists() {
			path, ok := pathOf(i, there)
			if !ok || others[i.Name] != "" || !s.Served()[i.Name] {
				continue
			}
			r := httptest.NewRequest("GET", path, nil)
			r.URL.RawQuery = query
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			if w.Code != http.StatusOK && (w.Code < 400 || w.Code >= 500) || w.Code >= 400 && w.Body.Len() == 0 {
				t.Errorf("%s: %q: %d %s", i.Name, query, w.Code, w.Body)
			}
		}
	})
}

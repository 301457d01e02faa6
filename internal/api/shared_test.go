package api_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth"
	"berth/internal/acl"
	"berth/internal/api"
	"berth/internal/state"
	"berth/internal/state/statetest"
	"berth/op"

	"pgregory.net/rapid"
)

// many returns n small jobs.
func many(t testing.TB, n int) (cmds []state.Command) {
	for i := range n {
		cmds = append(cmds, small(t, fmt.Sprintf("j%05d", i), i+1))
	}
	return cmds
}

// A change is encoded once, however many wait for the list, and only the row that
// changed is.
func TestAListIsMadeOnceForAllWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, log := serve(t, nil, many(t, 20)...)
		index := ask(s, "GET", "/v1/jobs", "").Header().Get(op.HeaderIndex)
		answers := make(chan *httptest.ResponseRecorder, 50)
		for range cap(answers) {
			go func() { answers <- ask(s, "GET", "/v1/jobs?index="+index, "") }()
		}
		synctest.Wait()
		before := s.ListStats()
		log.Must(t, &state.StopJob{Key: berth.JobKey{Namespace: "default", ID: "j00007"}})
		first := <-answers
		for range cap(answers) - 1 {
			if w := <-answers; w.Code != http.StatusOK || w.Body.String() != first.Body.String() || w.Header().Get(op.HeaderIndex) == index {
				t.Fatalf("%d %v", w.Code, w.Header())
			}
		}
		after := s.ListStats()
		if n := after.Encodings - before.Encodings; n != 1 {
			t.Errorf("the list was made %d times", n)
		}
		if n := after.Answers - before.Answers; n != 50 {
			t.Errorf("%d answers were given", n)
		}
		if n := after.RowsEncoded - before.RowsEncoded; n != 1 {
			t.Errorf("%d rows were encoded", n)
		}
	})
}

// Asking again encodes nothing while nothing has changed, whatever else changes.
func TestAnUnchangedListIsNotMadeAgain(t *testing.T) {
	s, log := serve(t, nil, many(t, 5)...)
	for range 10 {
		ask(s, "GET", "/v1/jobs", "")
		ask(s, "GET", "/v1/jobs?stale=true&wait=5s", "")
		log.Must(t, statetest.AddNode(1, 4000, 4000))
	}
	if n := s.ListStats().Encodings; n != 1 {
		t.Errorf("the list was made %d times", n)
	}
}

// What differs in the query is another list; what does not decide about the
// content is not.
func TestListsDifferByQuery(t *testing.T) {
	s, _ := serve(t, nil, many(t, 5)...)
	seen := map[string]string{}
	for _, query := range []string{"", "prefix=j00001", "meta=true", "reverse=true", "per_page=2", "per_page=2&next_token=default.j00003", "filter=" + url.QueryEscape(`ID == "j00004"`), "namespace=other"} {
		w := ask(s, "GET", "/v1/jobs?"+query, "")
		if other, ok := seen[w.Body.String()]; ok || w.Code != http.StatusOK {
			t.Errorf("%q is answered as %q: %d %s", query, other, w.Code, w.Body)
		}
		seen[w.Body.String()] = query
	}
}

// Lists that take long rest in between, so that those who wait for them leave the
// processors to others: fifty watchers of 2,000 jobs that change every
// millisecond get a few lists a second. The first after a quiet time comes at
// once, and the last change is never missed.
func TestALongListRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const watchers = 50
		s, log := serve(t, nil, many(t, 2000)...)
		index := ask(s, "GET", "/v1/jobs", "").Header().Get(op.HeaderIndex)
		time.Sleep(time.Minute)
		last := make(chan string, watchers)
		first := make(chan time.Time, watchers)
		for range watchers {
			go func() {
				at, body := index, ""
				for n := 0; ; n++ {
					w := ask(s, "GET", "/v1/jobs?wait=20s&index="+at, "")
					if n == 0 {
						first <- time.Now()
					}
					if w.Header().Get(op.HeaderIndex) == at {
						last <- body
						return
					}
					at, body = w.Header().Get(op.HeaderIndex), w.Body.String()
				}
			}()
		}
		synctest.Wait()
		before, start := s.ListStats().Encodings, time.Now()
		for i := range 2000 {
			log.Must(t, &state.StopJob{Key: berth.JobKey{Namespace: "default", ID: berth.JobID(fmt.Sprintf("j%05d", i))}})
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		made := s.ListStats().Encodings - before
		for range watchers {
			if d := (<-first).Sub(start); d != 0 {
				t.Fatalf("the first answer came after %v", d)
			}
		}
		want := ask(s, "GET", "/v1/jobs", "").Body.String()
		for range watchers {
			if <-last != want {
				t.Fatal("a watcher missed the last change")
			}
		}
		// Sending 50 times 1 MB counts as 50 ms, of which a tenth of the time is
		// given: two a second.
		if made < 2 || made > 10 {
			t.Errorf("the list was made %d times in two seconds", made)
		}
	})
}

// Callers with other rights get lists of their own; those with the same share.
func TestListsAreSharedByRights(t *testing.T) {
	authorize := func(c api.Caller, _ acl.Capability, ns string) error {
		if c.Token == "all" || ns == c.Token || ns == "" {
			return nil
		}
		return berth.Errorf(berth.Denied, "Permission denied")
	}
	for name, rights := range map[string]func(api.Caller) string{"named": func(c api.Caller) string { return c.Token }, "by token": nil} {
		t.Run(name, func(t *testing.T) {
			s, _ := serve(t, func(c *api.Config) { c.Authorize, c.Rights = authorize, rights }, many(t, 3)...)
			list := func(token string) string {
				r := httptest.NewRequest("GET", "/v1/jobs?namespace=*", nil)
				r.Header.Set(op.HeaderToken, token)
				w := httptest.NewRecorder()
				s.ServeHTTP(w, r)
				return strings.TrimSpace(w.Body.String())
			}
			for range 2 {
				if got := list("none"); got != "[]" {
					t.Errorf("without rights: %s", got)
				}
				if got := list("all"); strings.Count(got, `"ParentID"`) != 3 || got != list("default") {
					t.Errorf("with rights: %s", got)
				}
			}
			if n := s.ListStats().Encodings; n != 3 {
				t.Errorf("the list was made %d times for three sets of rights", n)
			}
		})
	}
}

// A shared list that takes over rows from the one before is, byte by byte, what is
// made without one, whatever has changed: every list, on the same state.
func TestReusedRowsAreTheSame(t *testing.T) {
	node := statetest.ID[berth.Node](1).String()
	paths := []string{
		"/v1/jobs", "/v1/jobs?meta=true&prefix=a", "/v1/jobs?namespace=*&reverse=true", "/v1/jobs?per_page=2", "/v1/jobs?filter=" + url.QueryEscape("Stop == true"),
		"/v1/allocations", "/v1/allocations?resources=true&reverse=true", "/v1/allocations?prefix=0", "/v1/allocations?per_page=3", "/v1/node/" + node + "/allocations",
		"/v1/evaluations", "/v1/evaluations?prefix=00", "/v1/evaluations?reverse=true&per_page=5", "/v1/nodes", "/v1/nodes?resources=true&os=true", "/v1/nodes?reverse=true",
		"/v1/deployments", "/v1/node/pools", "/v1/node/pool/default/nodes", "/v1/node/pool/default/jobs", "/v1/services", "/v1/scaling/policies",
	}
	for _, job := range []string{"a", "b", "c", "d"} {
		for _, of := range []string{"/allocations", "/allocations?all=true", "/evaluations", "/deployments"} {
			paths = append(paths, "/v1/job/"+job+of)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		var store *state.Store
		s, log := serve(t, func(c *api.Config) { store = c.Store })
		r := &statetest.Random{}
		for range rapid.IntRange(1, 30).Draw(rt, "rounds") {
			for range rapid.IntRange(0, 6).Draw(rt, "commands") {
				log.Propose(t.Context(), r.Command(rt, log.Tip())) // some are refused
			}
			plain, _ := serve(t, func(c *api.Config) { c.Store, c.Cluster = store, leader{log} })
			for _, path := range paths {
				got, want := ask(s, "GET", path, ""), ask(plain, "GET", path, "")
				if got.Code != want.Code || got.Body.String() != want.Body.String() {
					rt.Fatalf("%s is\n%d %s\nnot\n%d %s", path, got.Code, got.Body, want.Code, want.Body)
				}
				if got.Header().Get(op.HeaderNextToken) != want.Header().Get(op.HeaderNextToken) {
					rt.Fatalf("%s: the next token is %q, not %q", path, got.Header().Get(op.HeaderNextToken), want.Header().Get(op.HeaderNextToken))
				}
			}
		}
	})
}

// Nobody who waits for a list misses a change of it, however the changes, the
// answers and the waits fall together.
func TestWaitingForAListMissesNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		pauses := rapid.SliceOfN(rapid.IntRange(0, 40), 1, 40).Draw(rt, "ms between changes")
		slow := rapid.SliceOfN(rapid.IntRange(0, 60), 1, 8).Draw(rt, "ms between questions")
		synctest.Test(t, func(t *testing.T) {
			s, log := serve(t, nil, many(t, 3)...)
			ends := make(chan string, len(slow))
			for _, ms := range slow {
				go func() {
					index, body := uint64(0), ""
					for {
						w := ask(s, "GET", fmt.Sprintf("/v1/jobs?wait=5s&index=%d", index), "")
						now, _ := strconv.ParseUint(w.Header().Get(op.HeaderIndex), 10, 64)
						if w.Code != http.StatusOK || now < index {
							t.Errorf("%d: index %d after %d", w.Code, now, index)
						}
						if body = w.Body.String(); now == index {
							ends <- body
							return
						}
						index = now
						time.Sleep(time.Duration(ms) * time.Millisecond)
					}
				}()
			}
			for i, ms := range pauses {
				time.Sleep(time.Duration(ms) * time.Millisecond)
				log.Must(t, small(t, fmt.Sprint("new", i), 100+i))
			}
			want := ""
			for range slow {
				got := <-ends
				if want == "" {
					want = ask(s, "GET", "/v1/jobs", "").Body.String()
				}
				if got != want {
					t.Errorf("a waiter ended with another list than there is")
				}
			}
		})
	})
}

// Who gives up waiting leaves the others waiting, and the last one leaves nothing
// behind: synctest fails if a goroutine stays.
func TestTheLastWaiterEndsTheWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, log := serve(t, nil, many(t, 3)...)
		done := make(chan int, 3)
		for i := range 3 {
			go func() { done <- ask(s, "GET", fmt.Sprintf("/v1/jobs?index=9999&wait=%ds", 1+i), "").Code }()
		}
		time.Sleep(2500 * time.Millisecond)
		log.Must(t, small(t, "x", 9))
		for range 3 {
			if code := <-done; code != http.StatusOK {
				t.Error(code)
			}
		}
		if w := ask(s, "GET", "/v1/jobs", ""); !strings.Contains(w.Body.String(), `"x"`) {
			t.Errorf("%s", w.Body)
		}
	})
}

// A list that fails while others wait for it answers each with the error.
func TestAListThatFailsTellsAllWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := &state.UpsertNodePools{Pools: []*berth.NodePool{{Name: "p"}}}
		s, log := serve(t, nil, pool)
		index := ask(s, "GET", "/v1/node/pool/p/nodes", "").Header().Get(op.HeaderIndex)
		done := make(chan int, 2)
		for range 2 {
			go func() { done <- ask(s, "GET", "/v1/node/pool/p/nodes?index="+index, "").Code }()
		}
		synctest.Wait()
		log.Must(t, &state.DeleteNodePools{Names: []string{"p"}})
		for range 2 {
			if code := <-done; code != http.StatusNotFound {
				t.Error(code)
			}
		}
	})
}

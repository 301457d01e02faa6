package api_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth"
	"berth/internal/acl"
	"berth/internal/api"
	"berth/internal/msgpack"
	"berth/op"
)

// held is a server whose large writes stop where rights are checked, which is
// after their body was decoded, until they are let go.
type held struct {
	*api.Server
	arrived chan string // the address of a request that stopped
	letGo   chan struct{}
}

func newHeld(t *testing.T) *held {
	h := &held{arrived: make(chan string, 100), letGo: make(chan struct{})}
	h.Server, _ = serve(t, func(c *api.Config) {
		c.Authorize = func(who api.Caller, _ acl.Capability, _ string) error {
			if strings.HasPrefix(who.Token, "hold") {
				h.arrived <- who.Remote
				<-h.letGo
			}
			return nil
		}
	})
	return h
}

// send registers a job from an address, with that many bytes of white space in
// the body.
func (h *held) send(from, token string, size int, ctx context.Context) *httptest.ResponseRecorder {
	body := fmt.Sprintf(aSmallJob, strings.ReplaceAll(from, ".", "-")) + strings.Repeat(" ", size)
	r := httptest.NewRequestWithContext(ctx, "PUT", "/v1/jobs", strings.NewReader(body))
	r.RemoteAddr = from + ":1000"
	r.Header.Set(op.HeaderToken, token)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

const aSmallJob = `{"Job": {"ID": "j%s", "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "t", "Driver": "raw_exec", "Config": {"command": "/bin/true"}}]}]}}`

const large = op.MaxJobBody - 1000

// Large requests of one address wait for each other, and in the end are told to
// come again. Small requests, reads, and other addresses do not wait for them.
func TestLargeRequestsTakeTurns(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8)) // four slots, two for each address
	synctest.Test(t, func(t *testing.T) {
		h := newHeld(t)
		answers := make(chan *httptest.ResponseRecorder, 10)
		for range 5 {
			go func() { answers <- h.send("10.0.0.1", "hold", large, t.Context()) }()
		}
		synctest.Wait()
		if n := len(h.arrived); n != 2 {
			t.Fatalf("%d large requests of one address are decoded at once, want 2", n)
		}
		start := time.Now()
		for what, w := range map[string]*httptest.ResponseRecorder{
			"a small one of the same address": h.send("10.0.0.1", "", 0, t.Context()),
			"a large one of another":          h.send("10.0.0.2", "", large, t.Context()),
			"a read":                          ask(h, "GET", "/v1/jobs", ""),
		} {
			if w.Code != 200 || time.Since(start) != 0 {
				t.Errorf("%s: %d after %v: %s", what, w.Code, time.Since(start), w.Body)
			}
		}
		for range 3 { // the ones that waited
			if w := <-answers; w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1" || time.Since(start) != 10*time.Second {
				t.Errorf("%d %v after %v: %s", w.Code, w.Header(), time.Since(start), w.Body)
			}
		}
		close(h.letGo)
		for range 2 {
			if w := <-answers; w.Code != 200 {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		}
		if w := h.send("10.0.0.1", "", large, t.Context()); w.Code != 200 {
			t.Errorf("afterwards: %d %s", w.Code, w.Body)
		}
	})
}

// All addresses together have a limit as well, and an IPv6 network of 64 bits is
// one address.
func TestLargeRequestsOfAllAddresses(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
	for name, c := range map[string]struct {
		address string
		want    int
	}{"IPv4": {"10.0.0.%d", 4}, "one IPv6 network": {"[2001:db8::%d]", 2}, "IPv6 networks": {"[2001:db8:0:%d::1]", 4}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHeld(t)
				for i := range 8 {
					go h.send(fmt.Sprintf(c.address, i), "hold", large, t.Context())
				}
				synctest.Wait()
				if n := len(h.arrived); n != c.want {
					t.Errorf("%d are decoded at once, want %d", n, c.want)
				}
				close(h.letGo)
			})
		})
	}
}

// A caller who leaves while waiting makes room for the next.
func TestWhoLeavesDoesNotWait(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2)) // one slot
	synctest.Test(t, func(t *testing.T) {
		h := newHeld(t)
		go h.send("10.0.0.1", "hold", large, t.Context())
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		go h.send("10.0.0.2", "hold first", large, ctx)
		synctest.Wait()
		go h.send("10.0.0.3", "hold second", large, t.Context())
		synctest.Wait()
		cancel()
		synctest.Wait()
		<-h.arrived
		h.letGo <- struct{}{}
		if who := <-h.arrived; who != "10.0.0.3:1000" {
			t.Errorf("the next is %s", who)
		}
		close(h.letGo)
	})
}

// Job files are parsed one at a time for each slot, however short they are.
func TestJobFilesTakeTurns(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	synctest.Test(t, func(t *testing.T) {
		h := newHeld(t)
		parse := func(from string) *httptest.ResponseRecorder {
			r := httptest.NewRequest("PUT", "/v1/jobs/parse", strings.NewReader(`{"JobHCL": "job \"a\" { group \"g\" { task \"t\" { driver = \"mock_driver\" } } }"}`))
			r.RemoteAddr = from
			r.Header.Set(op.HeaderToken, "hold")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w
		}
		for i := range 20 {
			go parse(fmt.Sprintf("10.0.0.%d:1", i))
		}
		synctest.Wait()
		if n := len(h.arrived); n != 1 {
			t.Errorf("%d job files are parsed at once", n)
		}
		// A server or an agent that forwards one waits as well; what an agent
		// calls for itself does not.
		in, err := msgpack.Append(nil, &op.ParseJob{JobHCL: "job"})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		a := h.Forwarded(t.Context(), &op.Forwarded{Name: op.Parse.Name, In: in, Scope: op.ScopeLeader, Remote: "10.0.1.1:1"}, false)
		if a.Failure.Kind != berth.Limited || time.Since(start) != 10*time.Second {
			t.Errorf("%+v after %v", a.Failure, time.Since(start))
		}
		beat, err := msgpack.Append(nil, &op.BeatNode{})
		if err != nil {
			t.Fatal(err)
		}
		start = time.Now()
		a = h.Forwarded(t.Context(), &op.Forwarded{Name: op.NodeBeat.Name, In: beat, Scope: op.ScopeLeader, RPC: true}, false)
		if a.Failure.Kind == berth.Limited || time.Since(start) != 0 {
			t.Errorf("a heartbeat: %+v after %v", a.Failure, time.Since(start))
		}
		close(h.letGo)
	})
}

// A body of unknown size is bounded as well, and one that is too large is
// refused before any of it is read.
func TestBodiesOfUnknownSize(t *testing.T) {
	s, _ := serve(t, nil)
	send := func(size int64, body io.Reader) *httptest.ResponseRecorder {
		r := httptest.NewRequest("PUT", "/v1/jobs", body)
		r.ContentLength = size
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w
	}
	if w := send(-1, strings.NewReader(fmt.Sprintf(aSmallJob, "x"))); w.Code != 200 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	unread := &counted{}
	if w := send(1<<30, unread); w.Code != http.StatusRequestEntityTooLarge || unread.n != 0 {
		t.Errorf("%d after %d bytes: %s", w.Code, unread.n, w.Body)
	}
	if w := send(-1, unread); w.Code != http.StatusRequestEntityTooLarge || unread.n > 2*op.MaxJobBody {
		t.Errorf("%d after %d bytes: %s", w.Code, unread.n, w.Body)
	}
}

// counted is a body without an end.
type counted struct{ n int64 }

func (c *counted) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = ' '
	}
	c.n += int64(len(b))
	return len(b), nil
}

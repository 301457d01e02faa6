package api_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth"
	"berth/internal/api"
	"berth/internal/eventually"
	"berth/internal/state"
	"berth/internal/state/statetest"
	"berth/op"
)

// Whoever says nothing, or says it too slowly, does not keep a connection.
func TestTheSlowAreDropped(t *testing.T) {
	const post = "PUT /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n"
	for _, c := range []struct {
		name, sends string
		wait        time.Duration // until the server has had enough
		want        string        // in its answer
	}{
		{"nothing is said", "", 5 * time.Second, ""},
		{"half a request line", "GET /v1/jo", 5 * time.Second, ""},
		{"headers without an end", "GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\nX-A: b\r\n", 5 * time.Second, ""},
		{"a body that does not come", post, 60 * time.Second, "cannot read the body"},
		{"half a body", post + `{"Job":`, 60 * time.Second, "cannot read the body"},
		{"silence after an answer", "GET /v1/regions HTTP/1.1\r\nHost: localhost\r\n\r\n", 90 * time.Second, `["global"]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, _ := serve(t, nil)
				p, stop := listen(t, s, api.Limits{})
				defer stop()
				conn := p.dial()
				defer conn.Close()
				go io.WriteString(conn, c.sends)
				start := time.Now()
				said, _ := io.ReadAll(conn) // until the server closes
				if took := time.Since(start); took < c.wait || took > c.wait+2*time.Second {
					t.Errorf("the connection was closed after %v", took)
				}
				if !strings.Contains(string(said), c.want) || c.want == "" && strings.Contains(string(said), " 200 ") {
					t.Errorf("the answer is %q", said)
				}
				other := p.dial()
				defer other.Close()
				go io.WriteString(other, "GET /v1/regions HTTP/1.1\r\nHost: localhost\r\n\r\n")
				if code, _, _, err := answer(other); code != http.StatusOK {
					t.Error("the server does not serve afterwards:", code, err)
				}
			})
		})
	}
}

// The time for taking in a request is not the time for waiting on its answer.
func TestABodyInTimeMayWaitLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, log := serve(t, nil)
		p, stop := listen(t, s, api.Limits{})
		defer stop()
		conn := p.dial()
		defer conn.Close()
		start := time.Now()
		go io.WriteString(conn, "GET /v1/nodes?index=1&wait=200s HTTP/1.1\r\nHost: localhost\r\n\r\n")
		go func() {
			time.Sleep(180 * time.Second)
			log.Must(t, statetest.AddNode(1, 4000, 4000))
		}()
		code, h, _, err := answer(conn)
		if err != nil || code != http.StatusOK || h.Get(op.HeaderIndex) == "1" || time.Since(start) != 180*time.Second {
			t.Error(code, h, err, time.Since(start))
		}
	})
}

// A client may have a hundred connections. The next one is told why it may
// not, and may again when one of the others has gone.
func TestAdvisory_C39_TheHundredAndFirstConnection(t *testing.T) {
	s, _ := serve(t, nil)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, stop := listenOn(t, ln, s, api.Limits{MaxConns: api.DefaultMaxConns})
	defer stop()
	get := func() (int, string, error) {
		c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
		r, err := c.Get("http://" + ln.Addr().String() + "/v1/regions")
		if err != nil {
			return 0, "", err
		}
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		return r.StatusCode, string(b), err
	}
	var conns []net.Conn
	for range api.DefaultMaxConns {
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		io.WriteString(c, "GET /v1/regions HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if code, _, _, err := answer(c); code != http.StatusOK {
			t.Fatal(code, err)
		}
		conns = append(conns, c)
	}
	for range 20 {
		code, text, err := get()
		if err != nil || code != http.StatusTooManyRequests || !strings.Contains(text, "too many connections") {
			t.Fatalf("connection 101: %d %q %v", code, text, err)
		}
	}
	conns[7].Close()
	for deadline := time.Now().Add(eventually.Limit); ; {
		code, _, err := get()
		if code == http.StatusOK {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("with a connection gone: %d %v", code, err)
		}
	}
}

// A request may have 32 KiB of headers, and what net/http allows on top.
func TestHeaderBytes(t *testing.T) {
	s, _ := serve(t, nil)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, stop := listenOn(t, ln, s, api.Limits{})
	defer stop()
	for size, want := range map[int]int{30 << 10: http.StatusOK, 40 << 10: http.StatusRequestHeaderFieldsTooLarge, 2 << 20: http.StatusRequestHeaderFieldsTooLarge} {
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		go fmt.Fprintf(c, "GET /v1/regions HTTP/1.1\r\nHost: localhost\r\nX-Long: %s\r\n\r\n", strings.Repeat("x", size))
		if code, _, _, err := answer(c); code != want {
			t.Errorf("%d bytes of headers: %d %v", size, code, err)
		}
		c.Close()
	}
}

// Each route takes as much body as its operation says, and no more.
func TestBodyCaps(t *testing.T) {
	s, _ := serve(t, nil)
	for _, i := range op.All() {
		if i.Path == "" || i.Method != "PUT" || i.MaxBody == 0 { // a stream has none: see TestASnapshotIsOfAnySize
			continue
		}
		for over, size := range map[bool]int64{false: i.MaxBody, true: i.MaxBody + 1} {
			// White space is JSON's to skip: this body is wrong for its size
			// alone.
			text := `{}` + strings.Repeat(" ", int(size)-2)
			for _, sized := range []bool{true, false} {
				r := httptest.NewRequest(i.Method, target(i), struct{ io.Reader }{strings.NewReader(text)})
				if sized {
					r.ContentLength = size
				}
				w := httptest.NewRecorder()
				s.ServeHTTP(w, r)
				want := fmt.Sprintf("the body is larger than %d bytes", i.MaxBody)
				if tooLarge := w.Code == http.StatusRequestEntityTooLarge && w.Body.String() == want; tooLarge != over {
					t.Errorf("%s %s with %d bytes: %d %s", i.Method, i.Path, size, w.Code, w.Body)
				}
			}
		}
	}
}

// A query that waits ends at the latest after 300 s and a sixteenth, and not
// all that began together end together.
func TestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := serve(t, nil)
		took := map[string]map[time.Duration]bool{}
		for wait, bounds := range map[string][2]time.Duration{
			"":       {300 * time.Second, 319 * time.Second},
			"0s":     {300 * time.Second, 319 * time.Second},
			"900h":   {300 * time.Second, 319 * time.Second},
			"1600ms": {1600 * time.Millisecond, 1700 * time.Millisecond},
		} {
			took[wait] = map[time.Duration]bool{}
			results := make(chan time.Duration)
			for range 8 {
				go func() {
					start := time.Now()
					w := ask(s, "GET", "/v1/nodes?index=1&wait="+wait, "")
					if w.Code != http.StatusOK || w.Header().Get(op.HeaderIndex) != "0" || strings.TrimSpace(w.Body.String()) != "[]" {
						t.Errorf("nothing new: %d %v %s", w.Code, w.Header(), w.Body)
					}
					results <- time.Since(start)
				}()
			}
			for range 8 {
				d := <-results
				if d < bounds[0] || d > bounds[1] {
					t.Errorf("wait=%s took %v", wait, d)
				}
				took[wait][d] = true
			}
			if len(took[wait]) < 2 {
				t.Errorf("wait=%s: all ended together, after %v", wait, took[wait])
			}
		}
	})
}

// One caller may have a thousand queries waiting; those of others go on.
func TestManyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, log := serve(t, nil)
		wait := func(token, from string) *httptest.ResponseRecorder {
			r := httptest.NewRequest("GET", "/v1/nodes?index=1", nil)
			r.Header.Set(op.HeaderToken, token)
			r.RemoteAddr = from
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			return w
		}
		results := make(chan int)
		for i := range 1000 {
			go func() { results <- wait("one", fmt.Sprintf("10.0.0.%d:1", i%200)).Code }()
			go func() { results <- wait("", fmt.Sprintf("10.0.1.1:%d", i)).Code }()
		}
		synctest.Wait()
		for _, c := range [][2]string{{"one", "10.9.9.9:1"}, {"", "10.0.1.1:9999"}} {
			if w := wait(c[0], c[1]); w.Code != http.StatusTooManyRequests || !strings.Contains(w.Body.String(), "1000 blocking queries") {
				t.Errorf("the 1001st query of %q is answered %d %s", c, w.Code, w.Body)
			}
		}
		go func() { results <- wait("two", "10.0.0.1:1").Code }()
		go func() { results <- wait("", "10.0.2.1:1").Code }()
		synctest.Wait()
		log.Must(t, statetest.AddNode(1, 4000, 4000))
		for range 2002 {
			if code := <-results; code != http.StatusOK {
				t.Error(code)
			}
		}
		go func() { results <- wait("one", "10.0.0.1:1").Code }()
		if code := <-results; code != http.StatusOK {
			t.Error("after the others had gone:", code)
		}
	})
}

// A caller that goes away leaves nothing waiting.
func TestAWaitEndsWithItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := serve(t, nil)
		p, stop := listen(t, s, api.Limits{})
		conn := p.dial()
		io.WriteString(conn, "GET /v1/nodes?index=1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
		synctest.Wait()
		conn.Close()
		start := time.Now()
		stop() // waits for requests in progress
		if time.Since(start) > time.Second {
			t.Errorf("the query went on for %v", time.Since(start))
		}
	})
}

// What a list changed by wakes those who wait for it, and nothing else does.
func TestOnlyWhatIsRelevantWakes(t *testing.T) {
	job := func(id string) *state.RegisterJob {
		j := statetest.Job(t, `{"ID": "`+id+`", "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "app", "Driver": "raw_exec", "Config": {"command": "/bin/true"}}]}]}`)
		return statetest.Register(j, int(id[0]))
	}
	down := &state.SetNodeStatus{ID: statetest.ID[berth.Node](1), Status: berth.NodeDown}
	for _, c := range []struct {
		path       string
		irrelevant []state.Command
		relevant   state.Command
	}{
		{"/v1/nodes", []state.Command{job("b")}, down},
		{"/v1/node/" + statetest.ID[berth.Node](1).String(), []state.Command{job("b"), statetest.AddNode(2, 1, 1)}, down},
		{"/v1/jobs", []state.Command{down}, job("b")},
		{"/v1/job/a", []state.Command{job("b"), down}, &state.StopJob{Key: berth.JobKey{Namespace: "default", ID: "a"}}},
		{"/v1/job/a/summary", []state.Command{job("b"), down}, nil},
		{"/v1/job/a/evaluations", []state.Command{job("b"), down}, &state.CancelEvals{IDs: []berth.EvalID{statetest.ID[berth.Eval]('a')}}},
		{"/v1/evaluations?job=a", []state.Command{job("b"), down}, &state.CancelEvals{IDs: []berth.EvalID{statetest.ID[berth.Eval]('a')}}},
		{"/v1/evaluations", []state.Command{down}, job("b")},
		{"/v1/job/a/allocations", []state.Command{job("b"), down}, nil},
		{"/v1/allocations", []state.Command{job("b"), down}, nil},
	} {
		t.Run(c.path, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, log := serve(t, nil, statetest.AddNode(1, 4000, 4000), job("a"))
				first := ask(s, "GET", c.path, "")
				index := first.Header().Get(op.HeaderIndex)
				if first.Code != http.StatusOK || index == "" || first.Header().Get(op.HeaderKnownLeader) != "true" || first.Header().Get(op.HeaderLastContact) != "0" {
					t.Fatalf("%d %v %s", first.Code, first.Header(), first.Body)
				}
				if index == "0" {
					index = "1" // with 0 nobody waits
				}
				and := "?"
				if strings.Contains(c.path, "?") {
					and = "&"
				}
				done := make(chan *httptest.ResponseRecorder, 1)
				go func() { done <- ask(s, "GET", c.path+and+"wait=60s&index="+index, "") }()
				for _, cmd := range c.irrelevant {
					synctest.Wait()
					log.Must(t, cmd)
				}
				synctest.Wait()
				if len(done) != 0 {
					t.Fatalf("it was woken by what does not matter")
				}
				start := time.Now()
				if c.relevant != nil {
					log.Must(t, c.relevant)
				}
				got := <-done
				woken := time.Since(start) == 0
				if woken != (c.relevant != nil) || woken == (got.Header().Get(op.HeaderIndex) == first.Header().Get(op.HeaderIndex)) || woken && got.Body.String() == first.Body.String() {
					t.Errorf("after %v: %v\n%s", time.Since(start), got.Header(), got.Body)
				}
			})
		})
	}
}

// A server that ends waits for no one who has asked nothing.
func TestTheEndDoesNotWaitForTheSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := serve(t, nil)
		p, stop := listen(t, s, api.Limits{})
		for _, said := range []string{"", "GET /v1/jo", "GET /v1/regions HTTP/1.1\r\nHost: localhost\r\n\r\n"} {
			c := p.dial()
			defer c.Close()
			go io.WriteString(c, said)
			go io.Copy(io.Discard, c)
		}
		synctest.Wait()
		start := time.Now()
		stop()
		if took := time.Since(start); took > time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// With as many connections as the port may have, from whatever addresses, the
// next client is told so, and is served once another has gone.
func TestThePortIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := serve(t, nil)
		p, stop := listen(t, s, api.Limits{MaxTotal: 3})
		defer stop()
		get := func(conn net.Conn) int {
			go io.WriteString(conn, "GET /v1/regions HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
			code, _, _, err := answer(conn)
			if err != nil {
				t.Fatal(err)
			}
			return code
		}
		var conns []net.Conn
		for i, want := range []int{200, 200, 200, 503} {
			conns = append(conns, p.dial())
			if code := get(conns[i]); code != want {
				t.Errorf("connection %d: %d, want %d", i+1, code, want)
			}
		}
		conns[1].Close()
		synctest.Wait()
		again := p.dial()
		if code := get(again); code != http.StatusOK {
			t.Errorf("with a connection gone: %d", code)
		}
		for _, c := range append(conns, again) {
			c.Close()
		}
	})
}

package check

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth"
	"berth/internal/eventually"
	_ "berth/internal/onethread"
)

// Each letter is one look, a second apart: + works, - does not. Each word of
// the answer is the status then, with ! where the task is to be restarted.
func TestNext(t *testing.T) {
	for _, c := range []struct {
		name  string
		spec  Spec
		looks string
		want  string
	}{
		{"plain", Spec{}, "+-+", "success failure success"},
		{"thresholds", Spec{SuccessesWanted: 2, FailuresWanted: 3}, "++--+---+-++", "pending success success success success success success failure failure failure failure success"},
		{"restarts", Spec{RestartLimit: 2}, "--+----", "failure failure! success failure failure! failure failure!"},
		{"grace", Spec{RestartLimit: 2, RestartGrace: 3 * time.Second}, "------", "failure failure failure failure failure! failure"},
		{"only while it fails", Spec{RestartLimit: 1, FailuresWanted: 3}, "---", "pending pending failure!"},
	} {
		now := time.Unix(1000, 0)
		st := State{Status: Pending, Since: now, Begun: now}
		var got []string
		for _, l := range c.looks {
			var restart bool
			st, restart = st.Next(&c.spec, Outcome{OK: l == '+'}, now)
			word := st.Status
			if restart {
				word += "!"
			}
			got = append(got, word)
			now = now.Add(time.Second)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %s\nwant %s", c.name, strings.Join(got, " "), c.want)
		}
	}
}

func TestLook(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/ok", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(204) })
	mux.HandleFunc("/endless", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(500)
		for r.Context().Err() == nil {
			if _, err := w.Write([]byte(strings.Repeat("ä", 4096))); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("/here", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/ok", http.StatusFound) })
	mux.HandleFunc("/away", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://192.0.2.1/", http.StatusFound)
	})
	mux.HandleFunc("/loop", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/loop", http.StatusFound) })
	s := httptest.NewServer(mux)
	defer s.Close()
	secure := httptest.NewTLSServer(mux)
	defer secure.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	before := runtime.NumGoroutine()
	for _, c := range []struct {
		path string
		f    func(*Spec)
		ok   bool
		want string
	}{
		{"/ok", nil, true, "nomad: http ok"},
		{"/none", nil, false, "404 page not found"},
		{"/endless", nil, false, strings.Repeat("ä", 512)},
		{"/slow", func(s *Spec) { s.Timeout = 50 * time.Millisecond }, false, "deadline exceeded"},
		{"/here", nil, true, "nomad: http ok"},
		{"/away", nil, false, "it redirects to 192.0.2.1"},
		{"/loop", nil, false, "it redirects more than 5 times"},
		{"/ok", func(s *Spec) { s.Address = closed.Addr().String() }, false, "connection refused"},
		{"/ok", func(s *Spec) { s.Protocol, s.Address = "https", secure.Listener.Addr().String() }, false, "certificate"},
		{"/ok", func(s *Spec) {
			s.Protocol, s.Address, s.TLSSkipVerify = "https", secure.Listener.Addr().String(), true
		}, true, "nomad: http ok"},
		{"", func(s *Spec) { s.Type = berth.CheckTCP }, true, "nomad: tcp ok"},
		{"", func(s *Spec) { s.Type, s.Address = berth.CheckTCP, closed.Addr().String() }, false, "connection refused"},
	} {
		spec := Spec{Type: berth.CheckHTTP, Protocol: "http", Method: "GET", Path: c.path, Address: s.Listener.Addr().String(), Timeout: 10 * time.Second}
		if c.f != nil {
			c.f(&spec)
		}
		if o := spec.Look(t.Context(), nil); o.OK != c.ok || !strings.Contains(o.Output, c.want) || len(o.Output) > maxOutput {
			t.Errorf("%s: %+v, want %v %s", c.path, o, c.ok, c.want)
		}
	}
	s.CloseClientConnections()
	eventually.True(t, "their goroutines have ended", func() bool { return runtime.NumGoroutine() <= before })
}

// It looks at once and then in its interval, until it is told to end.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 35*time.Second)
		defer cancel()
		begin := time.Now()
		var got []string
		// An address that names no port fails without the network.
		Run(ctx, &Spec{Type: berth.CheckTCP, Address: "nowhere", Interval: 10 * time.Second, Timeout: time.Second, RestartLimit: 3}, nil, func(st State, restart bool) {
			got = append(got, fmt.Sprint(time.Since(begin), " ", st.Status, " ", restart))
		})
		if want := "0s failure false, 10s failure false, 20s failure true, 30s failure false"; strings.Join(got, ", ") != want {
			t.Errorf("%s, want %s", strings.Join(got, ", "), want)
		}
	})
}

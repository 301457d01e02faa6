package server_test

import (
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
)

// BenchmarkForwarded asks a follower for what only the leader answers: a read of
// what only the leader knows, and a write, both of them small.
func BenchmarkForwarded(b *testing.B) {
	c := &several{t: b, pool: &pool{}, workers: -1}
	c.start(2)
	r := c.list[c.follower()]
	c.list[c.leader()].until("the follower forwards", func() bool { _, err := r.api.Status().Leader(); return err == nil })
	ask := func(b *testing.B, method, path, body string, status int) {
		req, err := http.NewRequest(method, r.http+path, strings.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			b.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != status {
			b.Fatalf("%d %s %v", resp.StatusCode, text, err)
		}
	}
	job := `{"Job":{"ID":"web","TaskGroups":[{"Name":"g","Count":0,"Tasks":[{"Name":"t","Driver":"raw_exec","Config":{"command":"x"}}]}]}}`
	ask(b, "PUT", "/v1/jobs", job, http.StatusOK)
	for _, x := range []struct {
		name, method, path, body string
		status                   int
	}{
		{"read", "GET", "/v1/job/web/evaluations", "", http.StatusOK},
		{"write", "PUT", "/v1/validate/job", job, http.StatusOK}, // goes to the leader as all writes do, and changes nothing
		{"commit", "PUT", "/v1/job/web/stable", `{"JobID":"web","JobVersion":0,"Stable":true}`, http.StatusOK},
		{"refused", "PUT", "/v1/job/web/stable", `{"JobID":"web","JobVersion":7,"Stable":true}`, http.StatusNotFound},
	} {
		b.Run(x.name, func(b *testing.B) {
			for b.Loop() {
				ask(b, x.method, x.path, x.body, x.status)
			}
		})
		b.Run(x.name+"/callers=64", func(b *testing.B) {
			b.SetParallelism(64 / runtime.GOMAXPROCS(0))
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					ask(b, x.method, x.path, x.body, x.status)
				}
			})
		})
	}
}

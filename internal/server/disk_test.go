package server_test

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"berth"
	"berth/internal/server"
	"berth/op"
)

// The disk of a lone server is full, alone for ever or as the first server of a
// cluster. It says so, with a code, at once and to every write; its health names
// the disk; and what it has can be read. With space again all is as before.
func TestALoneServerWhoseDiskIsFull(t *testing.T) {
	for _, clustered := range []bool{false, true} {
		name := map[bool]string{false: "alone for ever", true: "first of a cluster"}[clustered]
		t.Run(name, func(t *testing.T) {
			var free atomic.Uint64
			free.Store(1 << 30)
			change := func(c *server.Config) {
				c.Consensus.DiskSpace = func(string) (uint64, uint64, error) { return free.Load(), 10 << 30, nil }
			}
			var r *running
			if clustered {
				c := &several{t: t, pool: &pool{}, change: change}
				c.start(1)
				r = c.list[0]
			} else {
				r = startWith(t, t.TempDir(), change)
			}
			ask := func(method, path, body string) (*http.Response, string) {
				req, err := http.NewRequest(method, r.http+path, strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				text, _ := io.ReadAll(resp.Body)
				return resp, string(text)
			}
			job := `{"Job":{"ID":"web","TaskGroups":[{"Name":"g","Count":0,"Tasks":[{"Name":"t","Driver":"raw_exec","Config":{"command":"x"}}]}]}}`
			if resp, text := ask("PUT", "/v1/jobs", job); resp.StatusCode != http.StatusOK {
				t.Fatal(resp.StatusCode, text)
			}
			free.Store(1 << 20)
			r.until("it does not lead", func() bool { ask("PUT", "/v1/jobs", job); return !r.server.Leads() })
			r.until("it knows why", func() bool { return r.server.Trouble() != "" })
			for range 3 {
				began := time.Now()
				resp, text := ask("PUT", "/v1/jobs", job)
				if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get(op.HeaderCode) != string(berth.CodeDiskFull) || !strings.Contains(text, "the disk of this server is full") {
					t.Errorf("a write is answered with %d %v %s", resp.StatusCode, resp.Header, text)
				}
				t.Logf("after %v", time.Since(began))
			}
			for _, path := range []string{"/v1/job/web", "/v1/jobs", "/v1/nodes"} {
				if resp, text := ask("GET", path, ""); resp.StatusCode != http.StatusOK {
					t.Errorf("%s is answered with %d %s", path, resp.StatusCode, text)
				}
			}
			if why := r.server.Trouble(); !strings.Contains(why, "the disk of this server is full") {
				t.Errorf("its health says %q", why)
			}
			free.Store(1 << 30)
			r.until("it leads again", func() bool { resp, _ := ask("PUT", "/v1/jobs", job); return resp.StatusCode == http.StatusOK })
			if why := r.server.Trouble(); why != "" {
				t.Errorf("afterwards its health says %q", why)
			}
		})
	}
}

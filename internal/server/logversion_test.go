package server_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/internal/state/codec"

	nomad "github.com/hashicorp/nomad/api"
)

// While one of three servers has an older log version, plain jobs still work.
// Commands that it does not understand are refused with the name of the server to
// upgrade, whichever server leads, while that server is down, and if it was never
// seen. After its upgrade they are accepted.
func TestCommandsOfNewerLogVersionAreRefused(t *testing.T) {
	var told shared
	c := &several{t: t, pool: &pool{}, knows: map[int]int{2: 1}, told: &told}
	c.start(3)
	const old = 2
	some := func() *running { return c.list[c.leaderless()] }
	some().node(1)

	streams, forward := c.refused(some)
	const lacks = `server "s2.global" runs build 0.1.0, which does not support `
	streams(lacks + "jobs of type stream (log version 1, needs 2): upgrade it first")
	forward(lacks + "deletion of jobs with propagation foreground (log version 1, needs 2): upgrade it first")
	for i, r := range c.list {
		if s := r.server.Store().Snapshot(); s.LogVersion != 1 || !s.Cluster.IsZero() {
			t.Errorf("server %d has state of log version %d, cluster %s", i, s.LogVersion, s.Cluster)
		}
	}

	// The older server leads.
	if lead := c.list[c.leader()]; c.leader() != old {
		if err := lead.server.TransferLeadership(t.Context(), c.list[old].server.ID()); err != nil {
			t.Fatal(err)
		}
	}
	some().until("the older server leads", func() bool { return c.list[old].server.Leads() })
	streams(lacks + "jobs of type stream (log version 1, needs 2): upgrade it first")

	// It stops and counts with its last version; then as if it was never seen.
	rpc, id := c.list[old].rpc, c.list[old].server.ID()
	c.stop(old)
	c.leader()
	streams(lacks + "jobs of type stream (log version 1, needs 2): upgrade it first")
	c.pool.mu.Lock()
	c.pool.members[old].ID = ""
	c.pool.mu.Unlock()
	streams("server " + id + " at " + rpc + " has not been seen since this server started, so it may not support jobs of type stream (log version 2): start it, or remove it from the Raft configuration")

	// It is upgraded.
	delete(c.knows, old)
	c.add(old, 3, rpc)
	some().example("telemetry")
	some().good("DELETE", "/v1/job/stays?purge=true&propagation=foreground", nil)
	some().until("all have a state of the newer log version", func() bool {
		for _, r := range c.list {
			if r.server.Store().Snapshot().LogVersion < 2 {
				return false
			}
		}
		return true
	})

	// The next term names the cluster. From here on an older server cannot join.
	c.stop(c.leader())
	c.leader()
	some().until("the cluster has an ID", func() bool { return !some().server.Store().Snapshot().Cluster.IsZero() })
	c.knows[3] = 1
	c.dirs = append(c.dirs, t.TempDir())
	late := c.add(3, 0, "127.0.0.1:0")
	const refused = "a server cannot join: its build is too old for this log"
	some().until("the log says that a server cannot join", func() bool { return told.count(refused) > 0 })
	delete(c.knows, 3)
	rpc = late.rpc
	c.stop(3)
	c.add(3, 0, rpc)
	some().until("it has joined", func() bool { return c.list[3].server.Store().Snapshot().LogVersion == codec.LogVersion })
	if n := told.count(refused); n != 1 {
		t.Errorf("the refusal to join was logged %d times, want once", n)
	}
}

// refused returns functions that register a stream job, and delete with a
// propagation, and expect a refusal with a text. Plain jobs must still work.
func (c *several) refused(some func() *running) (streams, deletions func(want string)) {
	c.t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "examples", "stream", "telemetry.berth.hcl"))
	if err != nil {
		c.t.Fatal(err)
	}
	job := map[string]any{}
	some().put("/v1/jobs/parse", map[string]any{"JobHCL": string(text)}, &job)
	plain := func() {
		for _, name := range []string{"stays", "goes"} {
			must[*nomad.JobRegisterResponse, *nomad.WriteMeta](c.t)(some().api.Jobs().Register(napper(name, 1), nil))
		}
		some().good("DELETE", "/v1/job/goes?purge=true", nil)
		some().until("a plain job was purged, and another is placed", func() bool {
			list, _, err := some().api.Jobs().Allocations("stays", false, nil)
			gone, _, _ := some().call("GET", "/v1/job/goes", nil)
			return err == nil && len(list) == 1 && gone == http.StatusNotFound
		})
	}
	streams = func(want string) {
		c.t.Helper()
		code, text := some().sends("PUT", "/v1/jobs", map[string]any{"Job": job}, nil)
		if code != http.StatusServiceUnavailable || text != want {
			c.t.Errorf("%d %s\nwant: %s", code, text, want)
		}
		if code, _, _ := some().call("GET", "/v1/job/"+job["ID"].(string), nil); code != http.StatusNotFound {
			c.t.Errorf("the refused job answers %d", code)
		}
		plain()
	}
	deletions = func(want string) {
		c.t.Helper()
		for _, how := range []string{"foreground", "orphan"} {
			code, _, text := some().call("DELETE", "/v1/job/stays?purge=true&propagation="+how, nil)
			if code != http.StatusServiceUnavailable || text != strings.Replace(want, "foreground", how, 1) {
				c.t.Errorf("%d %s\nwant: %s", code, text, want)
			}
		}
		plain()
	}
	return streams, deletions
}

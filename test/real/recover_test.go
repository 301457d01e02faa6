//go:build faults

package real

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// voters waits until a server knows so many voters.
func (a *agent) voters(n int) {
	a.w.t.Helper()
	a.w.until(fmt.Sprintf("%s knows %d voters", a.Name, n), func() string {
		var self struct{ Stats map[string]map[string]string }
		if _, err := a.try("GET", "/v1/agent/self", "", &self); err != nil {
			return err.Error()
		}
		if c := self.Stats["raft"]["latest_configuration"]; strings.Count(c, "Suffrage:Voter") != n {
			return c
		}
		return ""
	})
}

// decides runs "operator raft recover" on the data of a server that is stopped.
func (a *agent) decides(flag string) string {
	a.w.t.Helper()
	return a.good("operator", "raft", "recover", "-data-dir", a.dataDir, flag)
}

// has waits until a server has these jobs, by its own state.
func (a *agent) has(ids ...string) {
	a.w.t.Helper()
	slices.Sort(ids)
	a.w.until(fmt.Sprintf("%s has %q", a.Name, ids), func() string {
		var all []struct{ ID string }
		if _, err := a.try("GET", "/v1/jobs?stale", "", &all); err != nil {
			return err.Error()
		}
		var got []string
		for _, j := range all {
			got = append(got, j.ID)
		}
		if slices.Sort(got); !slices.Equal(got, ids) {
			return fmt.Sprint(got)
		}
		return ""
	})
}

// The drill of docs/cluster.md, "Recovery": two of three servers are lost for good
// with their data. The third goes on alone with all that was acknowledged, and the
// others join it with empty directories.
func TestMostServersAreLostForGood(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	servers := w.cluster(3)
	for i, s := range servers {
		s.voters(3)
		s.registers(fmt.Sprint("job", i))
	}
	kept, lost := servers[0], servers[1:]
	kept.has("job0", "job1", "job2")
	if s := kept.berth("operator", "raft", "recover", "-data-dir", kept.dataDir, "-alone"); s.Code == 0 || !strings.Contains(s.Err, "each agent needs its own") {
		t.Errorf("recovery of a server that runs: %v", s)
	}
	for _, s := range lost {
		s.Kill()
		if err := os.RemoveAll(s.dataDir); err != nil {
			t.Fatal(err)
		}
	}
	kept.Kill()
	if said := kept.decides("-alone"); !strings.Contains(said, "the only one of its cluster") {
		t.Errorf("the decision says %q", said)
	}
	kept.start()
	kept.joined()
	kept.voters(1)
	kept.has("job0", "job1", "job2")
	kept.registers("alone")
	for _, s := range lost {
		s.start()
		s.joined()
	}
	for _, s := range servers {
		s.voters(3)
		s.has("job0", "job1", "job2", "alone")
	}
	// They are a cluster again: it loses one of them without a loss.
	kept.Kill()
	w.leader(lost)
	lost[0].registers("after")
	lost[1].has("job0", "job1", "job2", "alone", "after")
}

// A server whose data is taken for wrong is refilled by the leader. What it had is
// set aside.
func TestAServerIsRefilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	servers := w.cluster(3)
	for i, s := range servers {
		s.voters(3)
		s.registers(fmt.Sprint("job", i))
	}
	leader := w.leader(servers)
	victim := servers[(slices.Index(servers, leader)+1)%len(servers)]
	victim.has("job0", "job1", "job2")
	if code := victim.signal(syscall.SIGTERM); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	// The decision can be taken back until the leader has refilled the server.
	victim.decides("-refill")
	victim.decides("-cancel-refill")
	leader.registers("meanwhile")
	aside := filepath.Join(victim.dataDir, "server", "differs")
	for _, refilled := range []bool{false, true} {
		if refilled {
			victim.signal(syscall.SIGTERM)
			victim.decides("-refill")
		}
		victim.start()
		victim.joined()
		victim.has("job0", "job1", "job2", "meanwhile")
		if _, err := os.Stat(aside); (err == nil) != refilled {
			t.Errorf("refilled is %v, and of the data that was set aside: %v", refilled, err)
		}
	}
	if s := victim.berth("operator", "raft", "recover", "-data-dir", victim.dataDir, "-cancel-refill"); s.Code == 0 {
		t.Errorf("what the leader has refilled was taken back: %v", s)
	}
}

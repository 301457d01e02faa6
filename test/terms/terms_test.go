//go:build faults

package terms

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"berth"
	"berth/internal/invariant"
	"berth/internal/state"
)

// job is the text of a service job.
func job(id string, count int) string {
	return fmt.Sprintf(`{"Job":{"ID":%q,"Datacenters":["dc1"],"Update":{"MaxParallel":0},"TaskGroups":[{"Name":"g","Count":%d,"Tasks":[
		{"Name":"t","Driver":"raw_exec","Config":{"command":"x"},"Resources":{"CPU":10,"MemoryMB":10}}]}]}}`, id, count)
}

// history is what was asked of a cluster and acknowledged, and what its servers
// were seen to know.
type history struct {
	*cluster
	wanted     map[string]int // how many times each job runs; what became of the others is not known
	dispatched []string       // jobs
	refused    int
	seen       map[string]*state.Snapshot // by the address of a server that has not been stopped since
	hashes     map[uint64]uint64          // of states, by their index
}

// write registers or stops a job, or dispatches one, at any server. What was
// acknowledged the next server that is asked knows.
func (h *history) write(k int) {
	id, count := fmt.Sprintf("job-%d", k%8), 1+h.rand.IntN(5)
	method, path, body := http.MethodPut, "/v1/jobs", job(id, count)
	switch h.rand.IntN(6) {
	case 0:
		method, path, body, count = http.MethodDelete, "/v1/job/"+id, "", 0
	case 1:
		id, path, body = "", "/v1/job/param/dispatch", "{}"
	}
	x := h.any()
	_, known := h.wanted[id]
	code, text := h.do(x, method, path, body)
	switch {
	case code != http.StatusOK:
		if !strings.Contains(text, "No cluster leader") {
			h.t.Errorf("%s %s was refused: %d %s", method, path, code, text)
		}
		h.refused++
		delete(h.wanted, id)
		return
	case id == "":
		var out struct{ DispatchedJobID string }
		if err := json.Unmarshal([]byte(text), &out); err != nil || out.DispatchedJobID == "" {
			h.t.Fatalf("%s: %v", text, err)
		}
		h.dispatched = append(h.dispatched, out.DispatchedJobID)
		id, count = out.DispatchedJobID, 1
	default:
		h.wanted[id] = count
	}
	y := h.any()
	part := fmt.Sprintf(`"Count":%d`, count)
	if count == 0 {
		part = `"Stop":true`
	}
	code, text = h.do(y, http.MethodGet, "/v1/job/"+id, "")
	if code == http.StatusNotFound && count == 0 && !known { // stopping a job that does not exist succeeds
		delete(h.wanted, id)
		return
	}
	if code != http.StatusInternalServerError && !strings.Contains(text, part) {
		h.t.Errorf("%s %s was acknowledged at %s; %s does not know %s: %d %.300s", method, path, x.addr, y.addr, part, code, text)
	}
}

// look asks what must hold of the state of each server, what changed since the
// last look, and whether states of one index are the same.
func (h *history) look() {
	h.t.Helper()
	leaders := 0
	for _, x := range h.list {
		if x.stop == nil {
			continue
		}
		if x.Leads() {
			leaders++
		}
		now := x.Store().Snapshot()
		for _, v := range invariant.Check(now) {
			h.t.Errorf("%s: %v", x.addr, v)
		}
		if old := h.seen[x.addr]; old != nil {
			if old.Index > now.Index {
				h.t.Errorf("%s went back from index %d to %d", x.addr, old.Index, now.Index)
			} else {
				for _, v := range invariant.Between(old, now) {
					h.t.Errorf("%s: %v", x.addr, v)
				}
			}
		}
		h.seen[x.addr] = now
		hash := now.Hash()
		if old, ok := h.hashes[now.Index]; ok && old != hash {
			h.t.Errorf("%s has another state than others at index %d", x.addr, now.Index)
		}
		h.hashes[now.Index] = hash
	}
	if leaders > 1 {
		h.t.Errorf("%d servers lead", leaders)
	}
}

// settle waits until nothing is left to do, and checks what is there then.
func (h *history) settle() {
	h.t.Helper()
	h.leader()
	time.Sleep(5 * time.Minute)
	h.look()
	first := h.list[0].Store().Snapshot()
	for _, x := range h.list {
		if s := x.Store().Snapshot(); s.Index != first.Index {
			h.t.Errorf("%s is at index %d, %s at %d", x.addr, s.Index, h.list[0].addr, first.Index)
		}
	}
	for e := range first.OpenEvals(berth.EvalPending) {
		h.t.Errorf("evaluation %s of %s is still pending", e.ID, e.Key())
	}
	runs := func(id string) (n int) {
		for a := range first.AllocsOf(berth.JobKey{Namespace: berth.DefaultNamespace, ID: berth.JobID(id)}) {
			if a.Live() && a.Client == berth.ClientRunning {
				n++
			}
		}
		return n
	}
	for id, count := range h.wanted {
		if n := runs(id); n != count {
			h.t.Errorf("%s runs %d times, want %d", id, n, count)
		}
	}
	for _, id := range h.dispatched {
		if n := runs(id); n != 1 {
			h.t.Errorf("%s runs %d times, want 1", id, n)
		}
	}
}

// services counts the goroutines of leaders and workers, by where they began.
func services() map[string]int {
	text := make([]byte, 1<<22)
	text = text[:runtime.Stack(text, true)]
	out := map[string]int{}
	for _, m := range regexp.MustCompile(`created by (berth/internal/(?:leader|worker|consensus)\S*|berth/internal/server\.\(\*Server\)\.lead\S*) in`).FindAllSubmatch(text, -1) {
		out[string(m[1])]++
	}
	return out
}

// The leader changes again and again, in all ways, while jobs are registered,
// stopped and dispatched at any server and agents run them: nothing that was
// acknowledged is lost, nothing runs that should not, states are the same, and
// no goroutine outlives its term.
func TestLeaderChanges(t *testing.T) {
	changes := 25
	if os.Getenv("BERTH_LONG") != "" {
		changes = 2000
	}
	began := time.Now()
	bubbled(t, func(t *testing.T) {
		h := &history{cluster: newCluster(t, 3, 1), wanted: map[string]int{}, seen: map[string]*state.Snapshot{}, hashes: map[uint64]uint64{}}
		ctx, cancel := context.WithCancel(t.Context())
		var agents sync.WaitGroup
		for n := range 4 {
			agents.Go(func() { h.agent(n + 1).run(ctx) })
		}
		h.must(http.MethodPut, "/v1/jobs", `{"Job":{"ID":"param","Type":"batch","Datacenters":["dc1"],"ParameterizedJob":{},"TaskGroups":[{"Name":"g","Count":1,"Tasks":[
			{"Name":"t","Driver":"raw_exec","Config":{"command":"x"},"Resources":{"CPU":1,"MemoryMB":10}}]}]}}`)
		time.Sleep(10 * time.Second)
		first := services()
		for k := range changes {
			h.write(k)
			h.look()
			h.depose(h.rand.IntN(ways), func() {
				for _, x := range h.list {
					if x.stop == nil {
						delete(h.seen, x.addr) // it will read its log again
					}
				}
				h.write(k + 3)
			})
			time.Sleep(time.Duration(h.rand.IntN(3000)) * time.Millisecond)
		}
		h.settle()
		for at, n := range services() {
			if n > first[at] {
				t.Errorf("%d goroutines of %s, %d in the beginning", n, at, first[at])
			}
		}
		cancel()
		agents.Wait()
		h.end()
		t.Logf("%d changes of leader, %d dispatches, %d writes refused", changes, len(h.dispatched), h.refused)
	})
	t.Logf("it took %v", time.Since(began).Round(time.Millisecond))
}

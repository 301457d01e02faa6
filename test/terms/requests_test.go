//go:build faults

package terms

import (
	"berth/op"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"berth"
	"berth/internal/api"
	"berth/internal/consensus"
	"berth/internal/server"
	"berth/internal/state"
	"berth/internal/wire"
)

// follower returns a server that runs and does not lead.
func (c *cluster) follower() *member {
	lead := c.leader()
	for i, x := range c.list {
		if i != lead && x.stop != nil {
			return x
		}
	}
	c.t.Fatal("there is no follower")
	return nil
}

// Two of three servers are gone. The last holds what needs a leader for five
// seconds and then says that there is none; who takes an old answer gets it at
// once, and is told that it is old. One of the others comes back while requests
// are held: they are answered.
func TestRequestsWithoutALeader(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		c := newCluster(t, 3, 1)
		c.must(http.MethodPut, "/v1/jobs", job("web", 0))
		time.Sleep(10 * time.Second)
		x := c.follower()
		var gone []int
		for i, y := range c.list {
			if y != x {
				c.halt(i)
				gone = append(gone, i)
			}
		}
		time.Sleep(10 * time.Second) // it misses its leader
		for _, r := range [][2]string{{http.MethodPut, "/v1/jobs"}, {http.MethodGet, "/v1/job/web"}, {http.MethodGet, "/v1/job/web?consistent"}, {http.MethodGet, "/v1/jobs?index=1"}} {
			began := time.Now()
			code, text := c.do(x, r[0], r[1], job("web", 1))
			if took := time.Since(began); code != http.StatusInternalServerError || !strings.HasPrefix(text, "No cluster leader") || took < 5*time.Second || took > 6*time.Second {
				t.Errorf("%s %s: %d %s after %v", r[0], r[1], code, text, took)
			}
		}
		began := time.Now()
		w := ask(x, http.MethodGet, "/v1/job/web?stale", "")
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"Count":0`) || time.Since(began) > 0 {
			t.Errorf("a stale read: %d %s after %v", w.Code, w.Body, time.Since(began))
		}
		if known, last := w.Header().Get("X-Nomad-KnownLeader"), w.Header().Get("X-Nomad-LastContact"); known != "false" || len(last) < 5 { // ms
			t.Errorf("a stale read without a leader says KnownLeader %s, LastContact %s ms", known, last)
		}
		var held sync.WaitGroup
		for _, r := range [][2]string{{http.MethodPut, "/v1/jobs"}, {http.MethodGet, "/v1/job/web"}} {
			held.Go(func() {
				if code, text := c.do(x, r[0], r[1], job("web", 0)); code != http.StatusOK {
					t.Errorf("%s %s, held until there was a leader: %d %s", r[0], r[1], code, text)
				}
			})
		}
		time.Sleep(100 * time.Millisecond)
		c.start(gone[0])
		held.Wait()
		c.start(gone[1])
		c.leader()
		c.end()
	})
}

// Who waits at a follower for a change is told of one that was made elsewhere,
// at once; nobody is told of it twice.
func TestBlockingQueriesOnFollowers(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		c := newCluster(t, 3, 2)
		c.must(http.MethodPut, "/v1/jobs", job("web", 0))
		for how := range ways {
			time.Sleep(5 * time.Second) // its evaluation is done
			x := c.follower()
			w := ask(x, http.MethodGet, "/v1/job/web", "")
			index := w.Header().Get("X-Nomad-Index")
			var waiting sync.WaitGroup
			asked := time.Now()
			waiting.Go(func() {
				w := ask(x, http.MethodGet, "/v1/job/web?wait=5m&index="+index, "")
				if took := time.Since(asked); w.Code != http.StatusOK || w.Header().Get("X-Nomad-Index") == index || !strings.Contains(w.Body.String(), `"Stop":true`) || took > 90*time.Second {
					t.Errorf("%d, index %s after %s, after %v: %s", w.Code, w.Header().Get("X-Nomad-Index"), index, took, w.Body)
				}
			})
			time.Sleep(20 * time.Second)
			c.depose(how, nothing)
			time.Sleep(20 * time.Second)
			c.must(http.MethodDelete, "/v1/job/web", "")
			waiting.Wait()
			c.must(http.MethodPut, "/v1/jobs", job("web", 0))
		}
		c.end()
	})
}

// A server of the cluster hands in plans: one of a term that is over is
// refused as such, one of this term is judged.
func TestAPlanOfADeposedTermIsRefused(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		c := newCluster(t, 3, 3)
		old := c.now().Term
		c.depose(handed, nothing)
		x := c.list[c.leader()]
		now := c.now().Term
		if now <= old {
			t.Fatalf("term %d after %d", now, old)
		}
		dialer := wire.Dialer{Connect: c.wires.dial, Server: true}
		s, err := dialer.Dial(t.Context(), x.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		submit := func(term uint64) error {
			plan := &state.ApplyPlan{}
			plan.Eval[0] = 1
			plan.Stamp(term)
			in := &op.SubmitPlan{SettleEval: op.SettleEval{Term: term, EvalID: plan.Eval}, Plan: plan.Ship()}
			out := new(op.PlanSubmitted)
			if err := s.Call(t.Context(), op.PlanSubmit.RPC, in, out); err != nil || out.Kind == "" {
				return err
			}
			return berth.Errorf(out.Kind, "%s", out.Error)
		}
		before := c.now().Index
		if err := submit(old); berth.KindOf(err) != berth.NoLeader {
			t.Errorf("a plan of term %d in term %d: %v", old, now, err)
		}
		// Nobody was handed the evaluation, which is another reason.
		if err := submit(now); err == nil || berth.KindOf(err) == berth.NoLeader {
			t.Errorf("a plan that nobody may make: %v", err)
		}
		if after := c.now().Index; after != before {
			t.Errorf("the state went from index %d to %d", before, after)
		}
		s.Close()
		c.end()
	})
}

// Writes at every server go on while one leader after the other is told to hand
// over, or is cut off. None is refused for it: either it was made, or it may
// have been and says so.
func TestWritesWhileTermsEnd(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		c := newCluster(t, 3, 6)
		var writers sync.WaitGroup
		var made, unknown atomic.Int32
		over := make(chan struct{})
		for i, x := range c.list {
			for n := range 3 {
				writers.Go(func() {
					for k := 0; ; k++ {
						select {
						case <-over:
							return
						case <-time.After(time.Duration(10+(i+n+k)%7) * time.Millisecond):
						}
						id := fmt.Sprintf("job-%d-%d", i, n)
						switch code, text := c.do(x, http.MethodPut, "/v1/jobs", job(id, k%2)); {
						case code == http.StatusOK:
							made.Add(1)
						case strings.Contains(text, "unknown") || strings.Contains(text, "not known"):
							unknown.Add(1)
						default:
							t.Errorf("a write at %s: %d %s", x.addr, code, text)
						}
					}
				})
			}
		}
		for k := range 6 {
			how := handed
			if k == 4 {
				how = cutOff
			}
			c.depose(how, nothing)
			time.Sleep(100 * time.Millisecond)
		}
		close(over)
		writers.Wait()
		t.Logf("%d writes were made, of %d it is not known", made.Load(), unknown.Load())
		c.end()
	})
}

// Two regions know of each other. Each has its own state; any server of one
// passes on what is for the other.
func TestTwoRegions(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		w, p := &wires{}, &pool{}
		east := newRegion(t, "east", "10.0.0", 3, 4, w, p)
		west := newRegion(t, "west", "10.0.1", 3, 5, w, p)
		for i, x := range append(append([]*member(nil), east.list...), west.list...) {
			if code, text := east.do(x, http.MethodGet, "/v1/regions", ""); code != http.StatusOK || strings.TrimSpace(text) != `["east","west"]` {
				t.Errorf("server %d: %d %s", i, code, text)
			}
		}
		there := strings.Replace(job("web", 0), `{"ID"`, `{"Region":"west","ID"`, 1)
		for how := range ways {
			for _, x := range east.list {
				if code, text := east.do(x, http.MethodPut, "/v1/jobs?region=west", there); code != http.StatusOK {
					t.Errorf("a write for the other region at %s: %d %s", x.addr, code, text)
				}
				if code, text := east.do(x, http.MethodGet, "/v1/job/web?region=west", ""); code != http.StatusOK || !strings.Contains(text, `"Region":"west"`) {
					t.Errorf("a read for the other region at %s: %d %s", x.addr, code, text)
				}
				if code, text := east.do(x, http.MethodGet, "/v1/job/web", ""); code != http.StatusNotFound {
					t.Errorf("%s of the region itself: %d %s", x.addr, code, text)
				}
				if code, text := east.do(x, http.MethodGet, "/v1/jobs?region=north", ""); code != http.StatusBadRequest && code != http.StatusInternalServerError || !strings.Contains(text, `No path to region: "north"`) {
					t.Errorf("a region that is not known: %d %s", code, text)
				}
			}
			west.depose(how, nothing)
			west.agree() // what becomes of a write that is passed on meanwhile need not be known
		}
		west.must(http.MethodGet, "/v1/job/web", "")
		east.end()
		west.end()
	})
}

// A server that comes back, and is sent the whole state, which takes a minute here,
// answers reads all the time: the leader answers in its place.
func TestAServerThatLagsBehindAnswers(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		c := newRegion(t, "global", "10.0.0", 3, 77, &wires{}, &pool{}, func(_ int, config *server.Config) {
			config.Consensus = consensus.Config{SnapshotEvery: 20, SnapshotInterval: time.Second, TrailingLogs: 20}
		})
		defer c.end()
		away := (c.leader() + 1) % 3
		c.halt(away)
		for n := range 100 {
			c.must(http.MethodPut, "/v1/jobs", job(fmt.Sprint("job-", n), 0))
			time.Sleep(time.Second)
		}
		c.raft.SlowSnapshots(time.Minute)
		c.start(away)
		late, x := 0, c.list[away]
		for began := time.Now(); time.Since(began) < 2*time.Minute; time.Sleep(500 * time.Millisecond) {
			if x.Store().Snapshot().Job(berth.JobKey{Namespace: "default", ID: "job-99"}) == nil {
				late++
			}
			for _, path := range []string{"/v1/job/job-99", "/v1/jobs?prefix=job-99", "/v1/job/job-99/evaluations?index=1&wait=1m"} {
				asked := time.Now()
				w := ask(x, http.MethodGet, path, "")
				if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "job-99") || w.Header().Get(op.HeaderIndex) == "" {
					t.Fatalf("%v after its start, %s: %d %s", time.Since(began), path, w.Code, w.Body)
				}
				if took := time.Since(asked); took > api.Hold {
					t.Errorf("%v after its start, %s took %v", time.Since(began), path, took)
				}
			}
		}
		if late < 5 {
			t.Errorf("it lagged behind at %d looks: that shows nothing", late)
		}
	})
}

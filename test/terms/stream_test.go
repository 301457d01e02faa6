//go:build faults

package terms

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"berth"
	"berth/internal/failpoint"
	"berth/internal/invariant"
	"berth/internal/leader"
	"berth/internal/server"
	"berth/internal/state"
	"berth/test/record"
)

// streams is a cluster in which stream jobs are submitted while servers fail at
// points. A server that ends at one is started again some seconds later, with
// nothing armed. Whenever time passes, every server's state is asked for what
// must hold of it, and of the way to it.
type streams struct {
	*cluster
	sets   []*failpoint.Set
	dying  chan int
	deaths int
	back   map[int]time.Time
	seen   map[string]*state.Snapshot // by the address of a server that has not been stopped since
	always berth.JobKey               // a job that is never to be missed
	agents sync.WaitGroup
	nodes  []*agent
	ends   context.CancelFunc
	ever   map[berth.AllocID]berth.UID // every allocation that was seen, and whose it was
	record *record.Recorder
	heard  map[*server.Server]bool // whose events are recorded
	life   context.Context
	said   said
	// dangling says that what a job left that was deleted in the background may
	// still be there.
	dangling bool
}

// back up after
const restart = 5 * time.Second

// newStreams starts three servers, and agents whose nodes have the tag "ssd".
func newStreams(t *testing.T, seed uint64, nodes int, change ...func(*agent)) *streams {
	s := &streams{
		sets: make([]*failpoint.Set, 3), dying: make(chan int, 3), back: map[int]time.Time{}, seen: map[string]*state.Snapshot{},
		ever: map[berth.AllocID]berth.UID{}, record: record.New(), heard: map[*server.Server]bool{},
	}
	s.cluster = newRegion(t, "global", "10.0.0", 3, seed, &wires{}, &pool{}, func(i int, c *server.Config) {
		s.sets[i] = failpoint.NewSet(leader.FailpointNames)
		c.Faults.Points, c.Faults.Exit, c.Logger = s.sets[i], func() { s.dying <- i }, slog.New(&s.said)
	})
	ctx, cancel := context.WithCancel(context.Background())
	s.ends, s.life = cancel, ctx
	t.Cleanup(s.close)
	for n := range nodes {
		a := s.agent(n + 1)
		a.Meta = map[string]string{"tags": "ssd"}
		for _, f := range change {
			f(a)
		}
		s.nodes = append(s.nodes, a)
		s.agents.Go(func() { a.run(ctx) })
	}
	s.wait("the nodes are ready", func(now *state.Snapshot) bool {
		n := 0
		for x := range now.Nodes() {
			if x.Ready() {
				n++
			}
		}
		return n == nodes
	})
	return s
}

func (s *streams) close() {
	for i := range s.list {
		if s.list[i].stop == nil {
			s.start(i)
		}
	}
	s.ends()
	s.agents.Wait()
	s.end()
}

// tend ends servers that are to end, starts those again whose time has come, and
// looks at what all know.
func (s *streams) tend() {
	s.t.Helper()
	select {
	case i := <-s.dying:
		s.halt(i)
		s.deaths++
		delete(s.seen, s.list[i].addr)
		s.back[i] = time.Now().Add(restart)
	default:
	}
	for i, at := range s.back {
		if !time.Now().Before(at) {
			delete(s.back, i)
			s.start(i)
		}
	}
	for _, x := range s.list {
		if x.stop == nil {
			continue
		}
		s.listen(x)
		now := x.Store().Snapshot()
		old := s.seen[x.addr]
		if old != nil && old.Index == now.Index {
			continue
		}
		for _, v := range invariant.Check(now) {
			s.t.Errorf("%s: %v", x.addr, v)
		}
		if old != nil {
			for _, v := range invariant.Between(old, now) {
				s.t.Errorf("%s: %v", x.addr, v)
			}
		}
		if s.always.ID != "" && x.Leads() && now.Job(s.always) == nil {
			s.t.Errorf("%s leads, and knows no job %s", x.addr, s.always)
		}
		for a := range now.Allocs() {
			s.ever[a.ID] = a.Job.UID
		}
		s.seen[x.addr] = now
	}
}

// lead returns the server that leads, -1 if none does just now.
func (s *streams) lead() int {
	return slices.IndexFunc(s.list, func(x *member) bool { return x.stop != nil && x.Leads() })
}

// wait waits until something holds of the leader's state: 60 s, as scenarios
// "settle".
func (s *streams) wait(what string, cond func(*state.Snapshot) bool) *state.Snapshot {
	s.t.Helper()
	return s.waitFor(what, time.Minute, cond)
}

func (s *streams) waitFor(what string, limit time.Duration, cond func(*state.Snapshot) bool) *state.Snapshot {
	s.t.Helper()
	for end := time.Now().Add(limit); ; time.Sleep(10 * time.Millisecond) {
		s.tend()
		if i := s.lead(); i >= 0 {
			if now := s.list[i].Store().Snapshot(); cond(now) {
				return now
			}
		}
		if time.Now().After(end) {
			s.t.Fatalf("not within %v: %s\n%s", limit, what, s.tell())
		}
	}
}

// pass lets time go by.
func (s *streams) pass(d time.Duration) {
	s.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		s.tend()
	}
}

// died waits until n servers have ended at failpoints.
func (s *streams) died(n int) {
	s.t.Helper()
	for end := time.Now().Add(time.Minute); s.deaths < n; time.Sleep(10 * time.Millisecond) {
		if s.tend(); time.Now().After(end) {
			s.t.Fatalf("%d servers died within a minute, want %d\n%s", s.deaths, n, s.tell())
		}
	}
}

// tell says how stream jobs stand.
func (s *streams) tell() string {
	var b strings.Builder
	now := s.now()
	for row := range now.StreamJobs() {
		fmt.Fprintf(&b, "%s %s %s gen %d v%d plan %t", row.Key, row.UID.Text('j'), row.Phase, row.Generation, row.Version, row.Plan != nil)
		if d := now.Deletion(row.Key); d != nil {
			fmt.Fprintf(&b, " marked %s", d.Deletion.Intent)
		}
		if row.Plan != nil {
			fmt.Fprintf(&b, " lacks %q", now.Incomplete(row))
		}
		fmt.Fprintln(&b, row.LastError)
	}
	for a := range now.Allocs() {
		fmt.Fprintln(&b, a.Name(), a.Desired, a.Client, a.Rest().PE, a.Job.UID)
	}
	for e := range now.Evals() {
		if !e.Terminal() {
			fmt.Fprintln(&b, "eval", e.JobID, e.TriggeredBy, e.Status, e.FailedTGAllocs)
		}
	}
	return b.String()
}

// arm arms a point at the leader, once, as who tests a real cluster does.
func (s *streams) arm(name, when string, nth int, action string) {
	s.t.Helper()
	s.leader()
	s.must(http.MethodPut, "/v1/operator/failpoint", fmt.Sprintf(`{"Name":%q,"When":%q,"Nth":%d,"Action":%q,"Once":true}`, name, when, nth, action))
}

// What cannot be armed is refused by name.
func TestWrongFailpointsAreRefused(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		s := newStreams(t, 1, 0)
		for _, x := range [][3]string{
			{"/v1/operator/failpoint", `{"Name":"planJob","When":"between","Action":"exit"}`, `When: unknown value "between", want one of before, after`},
			{"/v1/agent/failpoint", `{"Name":"eval","When":"before","Action":"exit"}`, `Name: unknown value "eval", want one of `},
			{"/v1/operator/failpoint/entry", `{"Command":"RegisterJob"}`, `unknown Command "RegisterJob": want one of ApplyPlan, `},
			{"/v1/operator/failpoint/entry", `{"Command":"LaunchPE","Fields":{"PE":"x"}}`, "Fields.pe"},
			{"/v1/operator/failpoint/entry", `{"Command":"LaunchPE","Fields":{"Pe":"p-0000000000000001-00","Twice":true}}`, "Twice"},
		} {
			if code, text := s.do(s.any(), http.MethodPut, x[0], x[1]); code != http.StatusBadRequest || !strings.Contains(text, x[2]) {
				t.Errorf("%s %s: %d %s", x[0], x[1], code, text)
			}
		}
	})
}

func (s *streams) armAt(i int, name, when string, nth int, action string) {
	s.t.Helper()
	if err := s.sets[i].Arm(failpoint.Point{Name: name, When: when, Nth: nth, Action: action, Once: true}); err != nil {
		s.t.Fatal(err)
	}
}

// telemetry is the job of the specification's part 2.2; pairs of change replace
// parts of its text.
func telemetry(change ...string) string {
	text := `{"Job":{"ID":"telemetry","Type":"stream","Datacenters":["dc1"],"Stream":{
		"Submission":{"Timeout":300000000000},
		"HostPools":[{"Name":"edge","Tags":["ssd"],"Size":2}],
		"Regions":[{"Name":"score","Groups":["transform"],"Width":3}],
		"Streams":[{"Name":"raw","From":"source.raw","To":["transform.in"]},{"Name":"scored","From":"transform.scored","To":["sink.in"]}],
		"Exports":[{"Name":"by-name","From":"transform.scored","StreamID":"scores"},{"Name":"by-property","From":"source.raw","Properties":{"kind":"raw","priority":3}}]},
	"TaskGroups":[
		{"Name":"source","Stream":{"Placement":{"Pool":"edge","Exlocate":["ingest"]},"Outputs":[{"Name":"raw"}]},"Tasks":[TASK]},
		{"Name":"transform","Networks":[{"DynamicPorts":[{"Label":"in"}]}],
			"Stream":{"Placement":{"Colocate":["hot"]},"Inputs":[{"Name":"in","Port":"in"}],"Outputs":[{"Name":"scored"}]},"Tasks":[TASK]},
		{"Name":"sink","Networks":[{"DynamicPorts":[{"Label":"in"}]}],
			"Stream":{"Placement":{"Isolated":true},"Inputs":[{"Name":"in","Port":"in"}]},"Tasks":[TASK]}]}}`
	text = strings.ReplaceAll(text, "TASK", `{"Name":"t","Driver":"raw_exec","Config":{"command":"x"},"Resources":{"CPU":10,"MemoryMB":10}}`)
	for i := 0; i < len(change); i += 2 {
		if !strings.Contains(text, change[i]) {
			panic(change[i])
		}
		text = strings.ReplaceAll(text, change[i], change[i+1])
	}
	return text
}

// withImport makes it T+, which has one of every kind.
var withImport = []string{`"Exports":[`, `"Imports":[{"Name":"own","Into":"sink.in","StreamID":"scores"}],"Exports":[`}

var telemetryKey = berth.JobKey{Namespace: berth.DefaultNamespace, ID: "telemetry"}

// register registers the job, with patience: leaders are lost meanwhile.
func (s *streams) register(change ...string) berth.UID {
	s.t.Helper()
	s.must(http.MethodPut, "/v1/jobs", telemetry(change...))
	return s.uid(telemetryKey)
}

func (s *streams) uid(k berth.JobKey) berth.UID {
	s.t.Helper()
	j := s.now().Job(k)
	if j == nil {
		s.t.Fatalf("there is no job %s", k)
		return berth.UID{}
	}
	return j.UID
}

// submitted waits until a job is, and checks that it is whole: so many
// processing elements, each launched so often (0: whatever) and running once,
// each object with its owner, and nothing of another incarnation.
func (s *streams) submitted(k berth.JobKey, pes int, launches uint64) *berth.StreamJob {
	s.t.Helper()
	var row *berth.StreamJob
	now := s.wait(string(k.ID)+" is submitted", func(now *state.Snapshot) bool {
		row = now.StreamOf(k)
		if row == nil || row.Phase != berth.PhaseSubmitted || now.Deletion(k) != nil || row.Version != now.Job(k).Version {
			return false
		}
		for a := range now.AllocsOf(k) {
			if a.Live() && a.Client != berth.ClientRunning || !a.Wanted() && !a.Ended() {
				return false
			}
		}
		return now.Incomplete(row) == ""
	})
	n := 0
	for pe := range now.ResourcesOf(row.UID, berth.KindPE) {
		n++
		if launches > 0 && pe.PE.Launch != launches {
			s.t.Errorf("%s was launched %d times, want %d", pe.Name, pe.PE.Launch, launches)
		}
	}
	for r := range now.Resources() {
		if r.Job == k && !r.Owner.IsZero() && r.Owner != row.UID && !s.dangling {
			s.t.Errorf("%s %s is owned by %v", r.Kind, r.Name, r.Owner)
		}
	}
	live := 0
	for a := range now.AllocsOf(k) {
		if !a.Live() || a.Orphaned || s.dangling && a.Job.UID != row.UID {
			continue
		}
		live++
		pe := now.Resource(a.Rest().PE.UID)
		if pe == nil || pe.Owner != row.UID || a.Job.UID != row.UID {
			s.t.Errorf("%s is of %v", a.Name(), a.Job.UID)
		}
	}
	if n != pes || live != pes {
		s.t.Errorf("%d processing elements, %d allocations; want %d", n, live, pes)
	}
	return row
}

// recovered checks that a job began again so often, the first time as first.
func (s *streams) recovered(row *berth.StreamJob, first berth.UID, count int) {
	s.t.Helper()
	r := row.Recovery
	if r.Count != count || len(r.Predecessors) != count || count > 0 && (r.Predecessors[0] != first || row.UID == first) || count == 0 && row.UID != first {
		s.t.Errorf("recovery %+v of %v; want %d, after %v", r, row.UID, count, first)
		return
	}
	all := append(slices.Clone(r.Predecessors), row.UID)
	for i := range count {
		s.follows(all[i], all[i+1])
	}
	for id, owner := range s.ever { // what ended holds nothing
		if a := s.now().Alloc(id); owner != row.UID && a != nil && a.Key() == row.Key && !a.Orphaned && (!a.Ended() || a.Owners()[0].Block) {
			s.t.Errorf("%s of %v is %s, and owned by %+v", a.Name(), owner, a.Client, a.Owners())
		}
	}
}

// quiet checks that nothing of an incarnation is there, or runs.
func (s *streams) quiet(now *state.Snapshot, uid berth.UID) {
	s.t.Helper()
	if n := now.Dependents(uid); n > 0 || now.StreamJob(uid) != nil {
		s.t.Errorf("%v has %d dependents", uid, n)
	}
	for a := range now.Allocs() {
		if a.Job.UID == uid && !a.Ended() {
			s.t.Errorf("%s of %v is %s", a.Name(), uid, a.Client)
		}
	}
}

// slowly lets what is to stop go on for a while.
func slowly(d time.Duration) func(*agent) {
	return func(a *agent) {
		since := map[berth.AllocID]time.Time{}
		a.says = func(_ string, id berth.AllocID, status berth.ClientStatus) (berth.ClientStatus, bool) {
			if status != berth.ClientComplete {
				return status, true
			}
			if since[id].IsZero() {
				since[id] = time.Now()
			}
			return status, time.Since(since[id]) >= d
		}
	}
}

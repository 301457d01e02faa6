package submit_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"berth"
	"berth/internal/leader"
	"berth/internal/leader/fence"
	"berth/internal/leader/finalize"
	"berth/internal/schedule"
	"berth/internal/state"
	"berth/internal/state/statetest"
	"berth/internal/streams/submit"
)

// world is a cluster with a controller, a scheduler and agents that do what they
// are told, one deed after another.
type world struct {
	testing.TB
	store  *state.Store
	log    *statetest.Log
	ctrl   *submit.Controller
	final  *finalize.Controller
	fence  *fence.Controller
	now    time.Time
	ids    int
	did    []string // what the controllers did
	after  func(c state.Command) bool
	silent bool // agents say nothing
}

func newWorld(t testing.TB, nodes int, change ...func(*berth.Node)) *world {
	w := &world{TB: t, now: time.Unix(1000, 0), ids: 100}
	w.store, w.log = statetest.New(t)
	for n := range nodes {
		w.do(statetest.AddNode(n+1, 10_000, 10_000, change...))
	}
	w.term()
	return w
}

// term begins a term: the controllers know nothing.
func (w *world) term() {
	w.do(&state.BeginTerm{Term: w.tip().Term + 1})
	seed, other := [32]byte{byte(w.tip().Term)}, [32]byte{byte(w.tip().Term), 1}
	w.ctrl, w.final, w.fence = submit.New(seed), finalize.New(seed), fence.New(other)
}

func (w *world) tip() *state.Snapshot { return w.log.Tip() }

func (w *world) do(cmds ...state.Command) {
	w.Helper()
	w.log.Must(w.TB, cmds...)
}

func (w *world) seed(trigger string) state.EvalSeed {
	w.ids++
	return state.EvalSeed{ID: statetest.ID[berth.Eval](w.ids), TriggeredBy: trigger, Cause: berth.Cause{Kind: berth.CauseUser}}
}

// job is a stream job of which parts can be said otherwise.
func (w *world) register(text string) berth.JobKey {
	w.Helper()
	j := statetest.Job(w.TB, text)
	w.do(&state.RegisterJob{Job: j, Eval: w.seed(berth.TriggerJobRegister), Now: w.now.UnixNano()})
	return j.Key()
}

// telemetry is the job of the specification's part 2.2, with room for a
// parameter of each kind.
func telemetry(change ...string) string {
	text := `{"ID": "telemetry", "Type": "stream", "Datacenters": ["dc1"],
	"Stream": {
		"Submission": {"Timeout": "5m"},
		"HostPools": [{"Name": "edge", "Tags": ["ssd"], "Size": 2}],
		"Regions": [{"Name": "score", "Groups": ["transform"], "Width": 3}],
		"Streams": [
			{"Name": "raw", "From": "source.raw", "To": ["transform.in"], "Distribution": "round-robin"},
			{"Name": "scored", "From": "transform.scored", "To": ["sink.in"]}],
		"Exports": [
			{"Name": "by-name", "From": "transform.scored", "StreamID": "scores"},
			{"Name": "by-property", "From": "source.raw", "Properties": {"kind": "raw", "priority": 3}}]
	},
	"TaskGroups": [
		{"Name": "source", "Stream": {"Placement": {"Pool": "edge", "Exlocate": ["ingest"]}, "Outputs": [{"Name": "raw"}]}},
		{"Name": "transform", "Networks": [{"DynamicPorts": [{"Label": "in"}]}],
			"Stream": {"Placement": {"Colocate": ["hot"]}, "Inputs": [{"Name": "in", "Port": "in"}], "Outputs": [{"Name": "scored"}]}},
		{"Name": "sink", "Networks": [{"DynamicPorts": [{"Label": "in"}]}],
			"Stream": {"Placement": {"Isolated": true}, "Inputs": [{"Name": "in", "Port": "in"}]}}
	]}`
	for i := 0; i < len(change); i += 2 {
		if !strings.Contains(text, change[i]) {
			panic(change[i])
		}
		text = strings.ReplaceAll(text, change[i], change[i+1])
	}
	return text
}

func ssd(n *berth.Node) { n.Meta = map[string]string{"tags": "ssd, big"} }

// short names a command as stories do.
func short(s *state.Snapshot, c state.Command) string {
	switch c := c.(type) {
	case *state.EnsureResources:
		return fmt.Sprintf("ensure %s %d", c.Kind, len(c.Names))
	case *state.LaunchPE:
		return "launch " + s.Resource(c.PE).Name + " " + c.Why
	case *state.CollectResources:
		kinds := map[string]int{}
		for _, u := range c.UIDs {
			kinds[s.Resource(u).Kind]++
		}
		return fmt.Sprintf("collect %v", kinds)
	case *state.CreateEvals:
		return "evaluate " + c.Evals[0].TriggeredBy
	case *state.RecoverJobs:
		return "recover " + c.Cause
	case *state.FailSubmission:
		return "fail " + c.Error
	}
	return strings.TrimPrefix(fmt.Sprintf("%T", c), "*state.")
}

// step lets the controllers do what they want once. It says whether they did
// anything; what they want is never refused.
func (w *world) step() bool {
	w.Helper()
	any := false
	for _, c := range []leader.Controller{w.ctrl, w.final, w.fence} {
		snap := w.tip()
		do, _ := c.Step(snap, w.now)
		leader.Stamp(snap.Term, do...)
		for _, x := range do {
			name := short(snap, x)
			if _, err := w.log.Propose(w.Context(), x); err != nil {
				w.Fatalf("%s is refused: %v", name, err)
			}
			w.did = append(w.did, name)
			any = true
			if w.after != nil && w.after(x) {
				return true
			}
		}
	}
	return any
}

// schedule decides what is pending, oldest first.
func (w *world) schedule() bool {
	w.Helper()
	var open []*berth.Eval
	for e := range w.tip().OpenEvals(berth.EvalPending) {
		open = append(open, e)
	}
	slices.SortFunc(open, func(a, b *berth.Eval) int { return int(a.CreateIndex) - int(b.CreateIndex) })
	for _, e := range open {
		e = w.tip().Eval(e.ID)
		if e.Status != berth.EvalPending {
			continue
		}
		w.decide(e)
	}
	return len(open) > 0
}

func (w *world) decide(e *berth.Eval) {
	w.Helper()
	plan := schedule.Decide(w.tip(), e, 0, w.now).Plan
	w.do(plan)
	if len(plan.Refused) > 0 {
		w.Fatalf("refused: %+v", plan.Refused)
	}
}

// unblock decides what is blocked, as if there were room.
func (w *world) unblock() {
	w.Helper()
	for _, e := range slices.Collect(w.tip().OpenEvals(berth.EvalBlocked)) {
		if w.tip().Eval(e.ID).Status == berth.EvalBlocked {
			w.decide(e)
		}
	}
}

// agents run what they are given, and stop what they are to stop.
func (w *world) agents() (any bool) {
	w.Helper()
	if w.silent {
		return false
	}
	byNode := map[berth.NodeID]*state.ReportAllocs{}
	for a := range w.tip().Allocs() {
		status := berth.ClientRunning
		if !a.Wanted() {
			status = berth.ClientComplete
		}
		if a.Ended() || a.Client == status || w.tip().Node(a.NodeID).Status == berth.NodeDown {
			continue
		}
		c := byNode[a.NodeID]
		if c == nil {
			c = &state.ReportAllocs{Node: a.NodeID, Now: w.now.UnixNano()}
			byNode[a.NodeID] = c
		}
		c.Updates = append(c.Updates, state.AllocUpdate{ID: a.ID, Client: status})
	}
	for _, c := range byNode {
		w.do(c)
	}
	return len(byNode) > 0
}

// settle lets all go on until nothing is left to do.
func (w *world) settle() {
	w.Helper()
	for n := 0; ; n++ {
		if n == 500 {
			w.Fatalf("there is no end:\n%s", strings.Join(w.did[len(w.did)-20:], "\n"))
		}
		a := w.step()
		b := w.schedule()
		c := w.agents()
		if !a && !b && !c {
			return
		}
	}
}

// history returns what the controllers did since the last call.
func (w *world) history() string {
	s := strings.Join(w.did, "\n") + "\n"
	w.did = nil
	return s
}

// row returns the submission of the job that there is.
func (w *world) row(k berth.JobKey) *berth.StreamJob {
	w.Helper()
	row := w.tip().StreamOf(k)
	if row == nil {
		w.Fatalf("there is no stream job %s", k)
	}
	return row
}

// pes returns "name#id count state" for each processing element of a job.
func (w *world) pes(k berth.JobKey) string {
	var out []string
	for pe := range w.tip().ResourcesOf(w.row(k).UID, berth.KindPE) {
		runs := "-"
		for a := range w.tip().AllocsOfPE(pe) {
			if a.Live() {
				runs = w.tip().Node(a.NodeID).Name
			}
		}
		out = append(out, fmt.Sprintf("%s#%d x%d %s", strings.TrimPrefix(pe.Name, string(k.ID)+"."), pe.Object.PE.ID, pe.PE.Launch, runs))
	}
	return strings.Join(out, ", ")
}

func (w *world) want(what, got, want string) {
	w.Helper()
	if strings.TrimSpace(got) != strings.TrimSpace(want) {
		w.Errorf("%s:\n%s\nwant:\n%s", what, got, want)
	}
}

// dump is what is left, for a failure.
func (w *world) dump() (s string) {
	for r := range w.tip().Resources() {
		s += fmt.Sprintf("%s %s of %v gen %d %+v\n", r.Kind, r.Name, r.Owner, r.Generation, r.PE)
	}
	for a := range w.tip().Allocs() {
		s += fmt.Sprintf("%s desired %s client %s %q pe %v job %v node %s\n", a.Name(), a.Desired, a.Client, a.Rest().DesiredDescription, a.Rest().PE, a.Job.UID, w.tip().Node(a.NodeID).Status)
	}
	for e := range w.tip().Evals() {
		s += fmt.Sprintf("eval %s %s %s %s uid %v at %d..%d\n", e.JobID, e.TriggeredBy, e.Status, e.StatusDescription, e.JobUID, e.CreateIndex, e.ModifyIndex)
	}
	return s
}

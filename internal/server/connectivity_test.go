package server_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"berth"
	"berth/internal/eventually"
	"berth/op"
)

// linked is an agent's view of one allocation of a stream job.
type linked struct {
	*node
	alloc berth.AllocID
	have  op.ConnectivityAnswer
	news  int // answers that said something else than the one before
}

// ask asks once.
func (l *linked) ask(wait time.Duration) (op.ConnectivityAnswer, error) {
	q := &op.ConnectivityQuery{NodeID: l.ID, SecretID: l.SecretID, AllocID: l.alloc, Have: l.have.Mark}
	q.MinQueryIndex, q.MaxQueryTime = l.have.Index, wait
	var out op.ConnectivityAnswer
	err := l.session.Call(l.t.Context(), "Stream.Connectivity", q, &out)
	return out, err
}

// follow asks until what is told is as wanted.
func (l *linked) follow(what string, ok func(*op.ConnectivityFile) bool) {
	l.t.Helper()
	for deadline := time.Now().Add(eventually.Limit); l.have.File == nil || !ok(l.have.File); {
		if time.Now().After(deadline) {
			l.t.Fatalf("waited in vain until %s: %+v", what, l.have.File)
		}
		out, err := l.ask(5 * time.Second)
		if err != nil {
			l.t.Fatal(err)
		}
		if out.Mark != l.have.Mark {
			l.news++
		}
		l.have = out
	}
}

// targets tells where an output leads.
func targets(f *op.ConnectivityFile, output string) (out []string) {
	for _, o := range f.Outputs {
		for _, t := range o.To {
			if o.Name == output {
				addr := "?"
				if t.Addr != "" {
					addr = "up"
				}
				out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s.%s %s %d %s", t.Kind, t.PE, t.Input, addr, t.LaunchCount, t.Filter)))
			}
		}
	}
	return out
}

func are(output string, want ...string) func(*op.ConnectivityFile) bool {
	return func(f *op.ConnectivityFile) bool { return fmt.Sprint(targets(f, output)) == fmt.Sprint(want) }
}

// onto returns the processing element of a name as the agent of its present
// launch sees it.
func (r *running) onto(x *node, job, name string) (*linked, op.PE) {
	r.t.Helper()
	for _, pe := range r.pes(job) {
		if pe.Name == name && pe.Allocation != nil {
			return &linked{node: x, alloc: pe.Allocation.ID}, pe
		}
	}
	r.t.Fatalf("%s has no allocation", name)
	return nil, op.PE{}
}

// What an agent is told of a processing element changes when its peers do, and
// with what other jobs import, and with nothing else.
func TestAgentsAreToldWhatIsConnected(t *testing.T) {
	r := start(t, t.TempDir())
	x := r.puppet(1)
	r.example("telemetry")
	r.submitted("telemetry", 0)
	source, pe := r.onto(x.node, "telemetry", "telemetry.source[0]")
	source.follow("all channels run", are("raw",
		"static telemetry.transform[0].in up 1", "static telemetry.transform[1].in up 1", "static telemetry.transform[2].in up 1"))
	f := source.have.File
	if f.Version != 0 || f.Job.Name != "telemetry" || f.Job.ID != 1 || f.PE.Name != pe.Name || f.PE.UID != pe.UID || f.PE.LaunchCount != 1 || f.PE.ContentID != pe.ContentID ||
		len(f.Inputs) != 0 || f.Outputs[0].Distribution != berth.DistributionRoundRobin {
		t.Errorf("it is told %+v", f)
	}
	channel, _ := r.onto(x.node, "telemetry", "telemetry.transform[1]")
	channel.follow("the sink runs", are("scored", "static telemetry.sink[0].in up 1"))
	if in := channel.have.File.Inputs; len(in) != 1 || !strings.HasPrefix(in[0].Bind, "0.0.0.0:") || len(in[0].From) != 1 || in[0].From[0].PE != pe.Name || in[0].From[0].Output != "raw" {
		t.Errorf("the input is %+v", in)
	}
	// Where one listens is where the other sends to.
	at := strings.TrimPrefix(channel.have.File.Inputs[0].Bind, "0.0.0.0")
	if to := f.Outputs[0].To[1].Addr; !strings.HasSuffix(to, at) {
		t.Errorf("it listens at %s, and is looked for at %s", at, to)
	}

	// What does not concern it is not told.
	news := source.news
	r.up("web", 1)
	r.put("/v1/node/"+x.ID.String()+"/eligibility", map[string]any{"NodeID": x.ID.String(), "Eligibility": berth.NodeIneligible}, nil)
	r.put("/v1/node/"+x.ID.String()+"/eligibility", map[string]any{"NodeID": x.ID.String(), "Eligibility": berth.NodeEligible}, nil)
	if out, err := source.ask(50 * time.Millisecond); err != nil || out.Mark != source.have.Mark || out.Index != source.have.Index {
		t.Errorf("it is told again: %+v, %v", out, err)
	}

	// A peer that is launched anew is told while it is waited for.
	old, _ := r.onto(x.node, "telemetry", "telemetry.transform[0]")
	old.follow("the sink runs", are("scored", "static telemetry.sink[0].in up 1"))
	waits := make(chan error, 1)
	go func() {
		out, err := source.ask(op.MaxWait)
		if err == nil && out.Mark == source.have.Mark {
			err = fmt.Errorf("nothing new came")
		}
		waits <- err
	}()
	r.put("/v1/allocation/"+old.alloc.String()+"/stop", map[string]any{}, nil)
	if err := <-waits; err != nil {
		t.Error(err)
	}
	source.follow("the channel runs again", are("raw",
		"static telemetry.transform[0].in up 2", "static telemetry.transform[1].in up 1", "static telemetry.transform[2].in up 1"))
	if source.news == news {
		t.Error("it was not told")
	}
	if _, err := old.ask(0); berth.KindOf(err) != berth.Conflict || !strings.HasPrefix(err.Error(), "stale-launch: ") {
		t.Errorf("of a launch that is over: %v", err)
	}

	// Another job imports, and does not any more.
	r.example("alerts")
	channel.follow("the scores are imported", are("scored", "static telemetry.sink[0].in up 1", "dynamic alerts.ingest[0].in up 1 score > 0.9"))
	source.follow("what is raw is imported", func(f *op.ConnectivityFile) bool {
		to := targets(f, "raw")
		return len(to) == 4 && to[3] == "dynamic alerts.ingest[0].raw up 1"
	})
	importer, _ := r.onto(x.node, "alerts", "alerts.ingest[0]")
	importer.follow("it knows who feeds it", func(f *op.ConnectivityFile) bool {
		return len(f.Inputs) == 2 && len(f.Inputs[0].From) == 3 && len(f.Inputs[1].From) == 1 && f.Inputs[1].From[0].Kind == "dynamic"
	})
	if code, _, text := r.call("DELETE", "/v1/job/alerts?purge=true", nil); code != http.StatusOK {
		t.Fatalf("%d %s", code, text)
	}
	channel.follow("nobody imports the scores", are("scored", "static telemetry.sink[0].in up 1"))
	source.follow("nobody imports what is raw", func(f *op.ConnectivityFile) bool { return len(targets(f, "raw")) == 3 })
}

// What an agent says of connections counts for the present launch, from the
// agent that has it.
func TestAgentsTellConnectivity(t *testing.T) {
	r := start(t, t.TempDir())
	x, thief := r.puppet(1), r.node(2)
	r.put("/v1/node/"+thief.ID.String()+"/eligibility", map[string]any{"NodeID": thief.ID.String(), "Eligibility": berth.NodeIneligible}, nil)
	r.example("alerts")
	r.submitted("alerts", 0)
	one, pe := r.onto(x.node, "alerts", "alerts.ingest[0]")
	tell := func(n *node, secret string, change func(*op.ReportConnectivity)) error {
		in := &op.ReportConnectivity{NodeID: n.ID, SecretID: secret, AllocID: one.alloc, PE: pe.UID, Launch: 1, State: berth.ConnectivityFull}
		change(in)
		return n.session.Call(t.Context(), "Stream.ReportConnectivity", in, &op.Nothing{})
	}
	as := func(*op.ReportConnectivity) {}
	if err := tell(x.node, x.SecretID, as); err != nil {
		t.Fatal(err)
	}
	if _, now := r.onto(x.node, "alerts", "alerts.ingest[0]"); now.Connectivity != berth.ConnectivityFull || now.LaunchCount != 1 {
		t.Errorf("it is %+v", now)
	}
	r.standing("alerts", "ready", func(v *op.StreamStanding) bool { return v.Ready })
	before := r.server.Store().Snapshot()
	if err := tell(x.node, x.SecretID, as); err != nil {
		t.Error("the same again: ", err)
	}
	r.up("web", 1)
	var ordinary []op.AllocStub
	r.good("GET", "/v1/job/web/allocations", &ordinary)
	for what, c := range map[string]struct {
		err  error
		kind berth.Kind
		text string
	}{
		"a wrong secret":     {tell(x.node, "guess", as), berth.Denied, "Permission denied"},
		"no secret":          {tell(x.node, "", as), berth.Denied, "Permission denied"},
		"another node":       {tell(thief, thief.SecretID, as), berth.Denied, "Permission denied"},
		"another launch":     {tell(x.node, x.SecretID, func(in *op.ReportConnectivity) { in.Launch = 2 }), berth.Conflict, "stale-launch: "},
		"another element":    {tell(x.node, x.SecretID, func(in *op.ReportConnectivity) { in.PE = "p-0000000000000001-00" }), berth.Conflict, "stale-launch: "},
		"what is no element": {tell(x.node, x.SecretID, func(in *op.ReportConnectivity) { in.PE = "j-0000000000000001-00" }), berth.Invalid, "PE: "},
		"no state":           {tell(x.node, x.SecretID, func(in *op.ReportConnectivity) { in.State = "half" }), berth.Invalid, `unknown state "half": want none, partial or full`},
		"another's question": {second((&linked{node: thief, alloc: one.alloc}).ask(0)), berth.NotFound, "has no allocation"},
		"an ordinary job":    {second((&linked{node: x.node, alloc: ordinary[0].ID}).ask(0)), berth.Invalid, "does not belong to a stream job"},
	} {
		if berth.KindOf(c.err) != c.kind || !strings.Contains(fmt.Sprint(c.err), c.text) {
			t.Errorf("%s: %v; wanted are %s and %q", what, c.err, c.kind, c.text)
		}
	}
	if now := r.server.Store().Snapshot().ResourceNamed(before.StreamOf(berth.JobKey{Namespace: "default", ID: "alerts"}).UID, berth.KindPE, pe.Name); now.PE.Connectivity != berth.ConnectivityFull ||
		now.ModifyIndex != before.ResourceNamed(now.Owner, berth.KindPE, pe.Name).ModifyIndex {
		t.Errorf("what was refused, or was known, has changed it: %+v", now)
	}
}

func second[T any](_ T, err error) error { return err }

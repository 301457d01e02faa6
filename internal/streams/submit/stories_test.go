package submit_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"berth"
	"berth/internal/invariant"
	"berth/internal/state"
	"berth/internal/state/statetest"
	"berth/internal/streams/submit"
)

// A story says what users and nodes do, lets all go on until nothing is left to
// do, and shows where each job stands: the nodes that its pool was given, and
// where its processing elements run.
//
//	nodes 3                        n1 to n3, all with the tag ssd
//	job web tags=ssd | hosts=n1,n2 [size=2] [exclusive] [width=2] [timeout=5m] [retries=0]
//	                               one group of so many, placed in that pool; without tags and hosts it has none
//	delete web [foreground | background | orphan]
//	launch web                     a user stops what the job runs, so that it is launched anew
//	n1 down | ready
//	after 10s                      time passes, when nothing is left to do
//	leader                         another leader begins
func TestStories(t *testing.T) {
	statetest.Stories(t, "testdata/*.txt", func(t *testing.T) func(input string) string {
		w := newWorld(t, 0)
		return func(input string) string {
			for _, l := range statetest.Lines(t, input) {
				w.line(l)
			}
			for range 3 { // what waits for room gets it
				w.settle()
				w.unblock()
			}
			for _, v := range invariant.Check(w.tip()) {
				t.Error(v)
			}
			return w.stand()
		}
	})
}

func (w *world) line(l *statetest.Line) {
	w.Helper()
	k := berth.JobKey{Namespace: berth.DefaultNamespace, ID: berth.JobID(l.Word(0))}
	switch {
	case l.Verb == "nodes":
		for n := range statetest.NodeNumber(w.TB, "n"+l.Word(0)) {
			w.do(statetest.AddNode(n+1, 10_000, 10_000, ssd))
		}
	case l.Verb == "job":
		w.register(pooled(w.TB, l))
	case l.Verb == "delete":
		c := &state.DeleteJob{Key: k, Policy: berth.Foreground, Intent: berth.IntentUser, Eval: w.seed(berth.TriggerJobDeregister), Now: w.now.UnixNano()}
		if p := l.Word(1); p != "" {
			c.Policy = berth.Propagation(p)
		}
		if c.Policy == berth.Orphan {
			c.Eval = state.EvalSeed{}
		}
		w.do(c)
	case l.Verb == "launch":
		for a := range w.tip().AllocsOf(k) {
			if a.Live() {
				w.do(&state.StopAlloc{ID: a.ID, Eval: w.seed(berth.TriggerAllocStop), Now: w.now.UnixNano()})
			}
		}
	case l.Verb == "after":
		d, err := time.ParseDuration(l.Word(0))
		if err != nil {
			w.Fatal(err)
		}
		w.settle()
		w.now = w.now.Add(d)
	case l.Verb == "leader":
		w.term()
	case l.Word(0) == berth.NodeDown, l.Word(0) == berth.NodeReady:
		w.ids++
		w.do(&state.SetNodeStatus{ID: statetest.ID[berth.Node](statetest.NodeNumber(w.TB, l.Verb)), Status: l.Word(0), Now: w.now.UnixNano(), Seed: [16]byte{7, byte(w.ids)}})
	default:
		w.Fatalf("%s: there is no such line", l)
	}
	if names := l.Names(); len(names) > 0 {
		w.Fatalf("%s: nobody asked for %v", l, names)
	}
}

// pooled is a job of one group, which is placed in a pool if it has one.
func pooled(t testing.TB, l *statetest.Line) string {
	quoted := func(list []string) string { return `["` + strings.Join(list, `", "`) + `"]` }
	pool, place := "", ""
	if tags, hosts := l.List("tags"), l.List("hosts"); tags != nil || hosts != nil {
		pool = `{"Name": "p", "Size": ` + fmt.Sprint(l.Int(t, "size", 0))
		if tags != nil {
			pool += `, "Tags": ` + quoted(tags)
		}
		if hosts != nil {
			pool += `, "Hosts": ` + quoted(hosts)
		}
		if l.Has("exclusive") {
			pool += `, "Mode": "exclusive"`
		}
		pool, place = `, "HostPools": [`+pool+`}]`, `"Placement": {"Pool": "p"}`
	}
	return fmt.Sprintf(`{"ID": %q, "Type": "stream", "Datacenters": ["dc1"], "Stream": {
		"Submission": {"Timeout": %q, "MaxRetries": %d}, "Regions": [{"Name": "r", "Groups": ["g"], "Width": %d}]%s},
		"TaskGroups": [{"Name": "g", "Stream": {%s}}]}`, l.Word(0), l.Text("timeout", "5m"), l.Int(t, "retries", 0), l.Int(t, "width", 1), pool, place)
}

// stand says where all jobs stand.
func (w *world) stand() string {
	var b strings.Builder
	for row := range w.tip().StreamJobs() {
		fmt.Fprintf(&b, "%s %s", row.Key.ID, submit.Position(w.tip(), row).State)
		if r := w.tip().ResourceNamed(row.UID, berth.KindHostPool, "p"); r != nil {
			b.WriteString(", pool")
			for _, id := range r.Nodes {
				b.WriteString(" " + w.tip().Node(id).Name)
			}
		}
		sep := ", on"
		for pe := range w.tip().ResourcesOf(row.UID, berth.KindPE) {
			for a := range w.tip().AllocsOfPE(pe) {
				if a.Live() {
					b.WriteString(sep + " " + w.tip().Node(a.NodeID).Name)
					sep = ""
				}
			}
		}
		if row.LastError != "" {
			b.WriteString("\n  " + row.LastError)
		}
		b.WriteString("\n")
	}
	for r := range w.tip().OrphanedResources() {
		if r.Kind == berth.KindHostPool {
			fmt.Fprintf(&b, "left to itself: pool of %s\n", r.Job.ID)
		}
	}
	if b.Len() == 0 {
		return "nothing\n"
	}
	return b.String()
}

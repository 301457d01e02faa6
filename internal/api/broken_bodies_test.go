package api_test

import (
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"berth/internal/state/statetest"
)

var updateBroken = flag.Bool("update-broken", false, "write what is said of broken bodies again")

// Broken bodies: each is refused with 400 and a sentence that names the place, the
// value and what is allowed. The sentences are in a file, which a person has read.
func TestBrokenBodies(t *testing.T) {
	s, log := serve(t, nil, statetest.AddNode(1, 4000, 4000), small(t, "web", 1))
	before := log.Tip().Hash()
	node := "/v1/node/" + statetest.Node(1, 1, 1).ID.String()
	const job, update, ns, pool, sched = "/v1/jobs", "/v1/job/web", "/v1/namespace", "/v1/node/pools", "/v1/operator/scheduler/configuration"
	group := func(text string) string {
		return `{"Job":{"ID":"x","TaskGroups":[{"Name":"g",` + text + `"Tasks":[{"Name":"t","Driver":"mock_driver"}]}]}}`
	}
	bodies := map[string]struct{ path, body string }{
		"no body":                 {job, ``},
		"half a body":             {job, `{"Job":`},
		"a list":                  {job, `[]`},
		"two values":              {job, `{} {}`},
		"no job":                  {job, `{}`},
		"a job that is a text":    {job, `{"Job":"web"}`},
		"a typo":                  {job, `{"Job":{"ID":"x","Prioriti":5}}`},
		"a text for a number":     {job, `{"Job":{"ID":"x","Priority":"high"}}`},
		"a number out of range":   {job, `{"Job":{"ID":"x","Priority":40000}}`},
		"a type":                  {job, `{"Job":{"ID":"x","Type":"servise"}}`},
		"no groups":               {job, `{"Job":{"ID":"x"}}`},
		"a negative count":        {job, group(`"Count":-1,`)},
		"half an instance":        {job, group(`"Count":1.5,`)},
		"a port":                  {job, group(`"Networks":[{"ReservedPorts":[{"Label":"p","Value":70000}]}],`)},
		"a mode":                  {job, group(`"Networks":[{"Mode":"brige"}],`)},
		"an operator":             {job, group(`"Constraints":[{"LTarget":"a","RTarget":"b","Operand":"~~"}],`)},
		"a driver":                {job, `{"Job":{"ID":"x","TaskGroups":[{"Name":"g","Tasks":[{"Name":"t"}]}]}}`},
		"a count that is a text":  {update + "/scale", `{"Count":"two","Target":{"Group":"g"}}`},
		"no group to scale":       {update + "/scale", `{"Count":2}`},
		"an unknown target":       {update + "/scale", `{"Count":2,"Target":{"Group":"g","Rack":"r"}}`},
		"a version":               {update + "/revert", `{"JobID":"web","JobVersion":-1}`},
		"a flag":                  {update + "/evaluate", `{"JobID":"web","EvalOptions":{"ForceReschedule":"yes"}}`},
		"an eligibility":          {node + "/eligibility", `{"Eligibility":"maybe"}`},
		"a deadline":              {node + "/drain", `{"DrainSpec":{"Deadline":"soon"}}`},
		"the name of a namespace": {ns, `{"Name":"a b"}`},
		"meta of a namespace":     {ns, `{"Name":"a","Meta":{"k":1}}`},
		"the name of a pool":      {pool, `{"Name":"a/b"}`},
		"an algorithm":            {sched, `{"SchedulerAlgorithm":"spred"}`},
		"rules":                   {"/v1/search", `{"Context":"planets","Prefix":"a"}`},
		"a job file":              {"/v1/jobs/parse", `{"JobHCL":"job \"a\" {"}`},
	}
	var said strings.Builder
	for _, name := range slices.Sorted(maps.Keys(bodies)) {
		w := ask(s, http.MethodPut, bodies[name].path, bodies[name].body)
		if w.Code != http.StatusBadRequest {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
		fmt.Fprintf(&said, "# %s\n%s\n\n", name, strings.TrimSpace(w.Body.String()))
	}
	const file = "testdata/broken_bodies.txt"
	if *updateBroken {
		if err := os.WriteFile(file, []byte(said.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if said.String() != string(want) {
		t.Errorf("%s has:\n%s\ngot:\n%s", file, want, said.String())
	}
	if log.Tip().Hash() != before {
		t.Error("what was refused has changed the state")
	}
}

package api_test

import (
	"net/http"
	"strings"
	"testing"

	"berth/internal/state/statetest"
)

// Broken bodies: each is refused with 400 and a sentence that names the place, the
// value and what is allowed.
func TestBrokenBodies(t *testing.T) {
	s, log := serve(t, nil, statetest.AddNode(1, 4000, 4000), small(t, "web", 1))
	before := log.Tip().Hash()
	node := "/v1/node/" + statetest.Node(1, 1, 1).ID.String()
	const job, update, ns, pool, sched = "/v1/jobs", "/v1/job/web", "/v1/namespace", "/v1/node/pools", "/v1/operator/scheduler/configuration"
	group := func(text string) string {
		return `{"Job":{"ID":"x","TaskGroups":[{"Name":"g",` + text + `"Tasks":[{"Name":"t","Driver":"mock_driver"}]}]}}`
	}
	for name, c := range map[string]struct {
		path, body string
		want       []string
	}{
		"no body":                 {job, ``, []string{"body"}},
		"half a body":             {job, `{"Job":`, []string{"JSON"}},
		"a list":                  {job, `[]`, []string{"object", "list"}},
		"two values":              {job, `{} {}`, []string{"JSON"}},
		"no job":                  {job, `{}`, []string{"Job", "missing"}},
		"a job that is a text":    {job, `{"Job":"web"}`, []string{"job", "object", "web"}},
		"a typo":                  {job, `{"Job":{"ID":"x","Prioriti":5}}`, []string{"job.Prioriti", "unknown field"}},
		"a text for a number":     {job, `{"Job":{"ID":"x","Priority":"high"}}`, []string{"priority", "high", "integer"}},
		"a number out of range":   {job, `{"Job":{"ID":"x","Priority":40000}}`, []string{"priority", "40000", "32766"}},
		"a type":                  {job, `{"Job":{"ID":"x","Type":"servise"}}`, []string{"type", "servise", "batch"}},
		"no groups":               {job, `{"Job":{"ID":"x"}}`, []string{"group"}},
		"a negative count":        {job, group(`"Count":-1,`), []string{"group[g].count", "-1"}},
		"half an instance":        {job, group(`"Count":1.5,`), []string{"group[g].count", "1.5", "integer"}},
		"a port":                  {job, group(`"Networks":[{"ReservedPorts":[{"Label":"p","Value":70000}]}],`), []string{"70000", "65535"}},
		"a mode":                  {job, group(`"Networks":[{"Mode":"brige"}],`), []string{"mode", "brige", "bridge"}},
		"an operator":             {job, group(`"Constraints":[{"LTarget":"a","RTarget":"b","Operand":"~~"}],`), []string{"constraint", "~~"}},
		"a driver":                {job, `{"Job":{"ID":"x","TaskGroups":[{"Name":"g","Tasks":[{"Name":"t"}]}]}}`, []string{"task[t]", "driver"}},
		"a count that is a text":  {update + "/scale", `{"Count":"two","Target":{"Group":"g"}}`, []string{"Count", "integer"}},
		"no group to scale":       {update + "/scale", `{"Count":2}`, []string{"Target.Group", "missing"}},
		"an unknown target":       {update + "/scale", `{"Count":2,"Target":{"Group":"g","Rack":"r"}}`, []string{"Target", "Rack", "Group, Job or Namespace"}},
		"a version":               {update + "/revert", `{"JobID":"web","JobVersion":-1}`, []string{"job_version", "0 to", "-1"}},
		"a flag":                  {update + "/evaluate", `{"JobID":"web","EvalOptions":{"ForceReschedule":"yes"}}`, []string{"force_reschedule", "true or false"}},
		"an eligibility":          {node + "/eligibility", `{"Eligibility":"maybe"}`, []string{"Eligibility", "maybe", "ineligible"}},
		"a deadline":              {node + "/drain", `{"DrainSpec":{"Deadline":"soon"}}`, []string{"Deadline", "soon"}},
		"the name of a namespace": {ns, `{"Name":"a b"}`, []string{"Name", "a b", "letters, digits"}},
		"meta of a namespace":     {ns, `{"Name":"a","Meta":{"k":1}}`, []string{"meta[k]", "string"}},
		"the name of a pool":      {pool, `{"Name":"a/b"}`, []string{"Name", "a/b"}},
		"an algorithm":            {sched, `{"SchedulerAlgorithm":"spred"}`, []string{"SchedulerAlgorithm", "spred", "spread"}},
		"rules":                   {"/v1/search", `{"Context":"planets","Prefix":"a"}`, []string{"Context", "planets", "jobs"}},
		"a job file":              {"/v1/jobs/parse", `{"JobHCL":"job \"a\" {"}`, []string{"job:1,9", "no closing brace"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := ask(s, http.MethodPut, c.path, c.body)
			text := w.Body.String()
			if w.Code != http.StatusBadRequest {
				t.Fatalf("%d %s", w.Code, text)
			}
			for _, part := range c.want {
				if !strings.Contains(strings.ToLower(text), strings.ToLower(part)) {
					t.Errorf("%q is not in: %s", part, text)
				}
			}
		})
	}
	if log.Tip().Hash() != before {
		t.Error("what was refused has changed the state")
	}
}

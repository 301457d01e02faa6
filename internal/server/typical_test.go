package server_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/jobspec"
	"berth/op"
)

// The job files of jobspec/testdata/typical are planned: the server accepts each, and
// says what it would do for each group that has something to do.
func TestTypicalJobFilesArePlanned(t *testing.T) {
	files, err := filepath.Glob("../../jobspec/testdata/typical/*.nomad.hcl")
	if err != nil || len(files) < 40 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	r := start(t, t.TempDir())
	r.node(1)
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		j, err := jobspec.Parse(t.Context(), jobspec.File{Name: name, Text: text}, jobspec.Options{Strict: true})
		if err != nil {
			t.Error(err)
			continue
		}
		body, err := json.Marshal(map[string]any{"Job": j, "Diff": true})
		if err != nil {
			t.Fatal(err)
		}
		code, _, answer := r.send(http.MethodPut, "/v1/job/"+string(j.ID)+"/plan", strings.NewReader(string(body)))
		var plan op.JobPlanned
		if err := json.Unmarshal([]byte(answer), &plan); code != http.StatusOK || err != nil {
			t.Errorf("%s: %d %v %s", name, code, err, answer)
			continue
		}
		if plan.Diff == nil || plan.Diff.Type != "Added" || len(plan.Diff.TaskGroups) != len(j.TaskGroups) {
			t.Errorf("%s: the plan has the difference %+v", name, plan.Diff)
		}
		if j.Periodic != nil || j.ParameterizedJob != nil {
			continue // instances come later
		}
		for _, g := range j.TaskGroups {
			if did := plan.Annotations.DesiredTGUpdates[g.Name]; g.Count > 0 && did == nil {
				t.Errorf("%s: nothing is planned for group %q", name, g.Name)
			}
		}
	}
}

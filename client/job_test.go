package client_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"berth"
	"berth/client"
	"berth/internal/admit"
	"berth/internal/decode"
	"berth/jobspec"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
)

// A job that is sent as a tree is the same job when a server has decoded it.
// The jobs are those of the job file stories that are complete.
func TestJobTree(t *testing.T) {
	stories, err := filepath.Glob("../jobspec/testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	jobs := 0
	for _, name := range stories {
		arc, err := txtar.ParseFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range arc.Files {
			if !strings.HasSuffix(f.Name, ".nomad") && !strings.HasSuffix(f.Name, ".json") {
				continue
			}
			j, err := jobspec.Parse(t.Context(), jobspec.File{Name: f.Name, Text: f.Data}, jobspec.Options{})
			if err != nil {
				continue // such stories are about something else
			}
			jobs++
			j.Stop, j.Version, j.SubmitTime, j.ModifyIndex, j.UID = true, 7, 8, 9, berth.UID{Index: 1}
			tree, err := client.JobTree(j)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			got, err := admit.DecodeJob(decode.Tree(tree), admit.FromJSON)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			j.Stop, j.Version, j.SubmitTime, j.ModifyIndex, j.UID = false, 0, 0, 0, berth.UID{}
			// JSON does not tell an empty list from none; nor does a job.
			if d := cmp.Diff(text(t, j), text(t, got)); d != "" {
				t.Errorf("%s: %s", name, d)
			}
		}
	}
	if jobs < 6 {
		t.Errorf("only %d jobs were sent", jobs)
	}
}

func text(t *testing.T, v any) string {
	t.Helper()
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

package admit_test

import (
	"strings"
	"testing"

	"berth"
	"berth/internal/admit"
	"berth/internal/decode"
)

// What a group waits for is checked when the job is registered, and each refusal
// names the group and what is wrong.
func TestOrderOfGroups(t *testing.T) {
	group := func(name, more string) string {
		return `{"Name":"` + name + `","Tasks":[{"Name":"t","Driver":"mock_driver"}]` + more + `}`
	}
	for _, c := range []struct{ name, kind, groups, want string }{
		{"good", "service", group("a", `,"DependsOn":["group.b"]`) + "," + group("b", ""), ""},
		{"once", "service", group("a", `,"Once":"deployment"`) + "," + group("b", ""), ""},
		{"batch", "batch", group("a", `,"DependsOn":["group.b"]`) + "," + group("b", ""), ""},
		{"no prefix", "service", group("a", `,"DependsOn":["b"]`) + "," + group("b", ""), `job.group[a].depends_on: must name groups as "group.NAME", got "b"`},
		{"unknown", "service", group("a", `,"DependsOn":["group.x"]`), `job.group[a].depends_on: the job has no group "x"`},
		{"itself", "service", group("a", `,"DependsOn":["group.a"]`), `job.group[a].depends_on: a group cannot wait for itself`},
		{"twice", "service", group("a", `,"DependsOn":["group.b","group.b"]`) + "," + group("b", ""), `job.group[a].depends_on: names "group.b" twice`},
		{"system", "system", group("a", `,"DependsOn":["group.b"]`) + "," + group("b", ""), `job.group[a].depends_on: is only for jobs of type service or batch, not system`},
		{"circle", "service", group("a", `,"DependsOn":["group.b"]`) + "," + group("b", `,"DependsOn":["group.c"]`) + "," + group("c", `,"DependsOn":["group.a"]`),
			`job.group: groups wait for each other: "a" waits for "b" waits for "c" waits for "a"`},
		{"circle of once", "service", group("g", "") + "," + group("x", `,"Once":"deployment","DependsOn":["group.h"]`) + "," + group("h", "") + "," + group("y", `,"Once":"deployment","DependsOn":["group.g"]`),
			`job.group: groups wait for each other: "g" waits for "x" waits for "h" waits for "y" waits for "g"`},
		{"unknown once", "service", group("a", `,"Once":"always"`), `job.group[a].once: `},
		{"once with update", "service", group("a", `,"Once":"deployment","Update":{"MaxParallel":1}`), `job.group[a].update: is not for a group with once`},
	} {
		tree, err := decode.ParseJSON([]byte(`{"ID":"web","Type":"` + c.kind + `","TaskGroups":[` + c.groups + `]}`))
		if err != nil {
			t.Fatal(err)
		}
		j, err := admit.DecodeJob(tree, admit.FromJSON)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: got %v, want %s", c.name, err, c.want)
		case c.name == "once" && (j.Group("a").Update != nil || j.Group("b").Update == nil || j.Group("a").ReschedulePolicy.Unlimited || j.Group("a").RestartPolicy.Mode != berth.RestartFail):
			t.Errorf("a group that runs once has the defaults of a service: %+v", j.Group("a"))
		}
	}
}

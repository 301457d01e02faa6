package admit

import (
	"encoding/json"
	"fmt"
	"testing"

	"berth"
	"berth/internal/decode"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// again writes a job as JSON and reads it back; the job must not change.
func again(t interface {
	Helper()
	Fatalf(string, ...any)
}, j *berth.Job) {
	t.Helper()
	text, err := json.Marshal(j)
	if err != nil {
		t.Fatalf("%v", err)
	}
	tree, err := decode.ParseJSON(text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	j2, err := DecodeJob(tree, FromJSON)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if diff := cmp.Diff(j, j2); diff != "" {
		t.Fatalf("-first +second\n%s", diff)
	}
}

// A valid job survives a round trip through JSON: no default is applied twice and
// nothing is lost.
func TestValidJobsSurviveJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := jobTree(t)
		j, err := DecodeJob(tree, FromJSON)
		if err != nil {
			t.Fatalf("the generator made an invalid job: %v", err)
		}
		again(t, j)
	})
}

// maybe sets the field to a value in four cases of six, and to null in one.
func maybe(t *rapid.T, tree decode.Tree, name string, value any) {
	switch rapid.IntRange(0, 5).Draw(t, name+"?") {
	case 0:
		tree[name] = nil
	case 1:
	default:
		tree[name] = value
	}
}

func whole(t *rapid.T, name string, low, high int) decode.Number {
	n := rapid.IntRange(low, high).Draw(t, name)
	switch rapid.IntRange(0, 9).Draw(t, name+" style") {
	case 0:
		return decode.Number(fmt.Sprintf("%d.0", n))
	case 1:
		return decode.Number(fmt.Sprintf("%d0e-1", n))
	}
	return decode.Number(fmt.Sprint(n))
}

func seconds(t *rapid.T, name string, low, high int) any {
	n := rapid.IntRange(low, high).Draw(t, name)
	if rapid.Bool().Draw(t, name+" as text") {
		return fmt.Sprintf("%ds", n)
	}
	return decode.Number(fmt.Sprintf("%d000000000", n))
}

func word(t *rapid.T, name string) string {
	return rapid.StringMatching(`[a-z][a-z0-9_-]{0,6}`).Filter(func(s string) bool { return s != "alloc" }).Draw(t, name)
}

func texts(t *rapid.T, name string) decode.Tree {
	out := decode.Tree{}
	for k, v := range rapid.MapOfN(rapid.StringMatching(`[A-Za-z_.]{1,5}`), rapid.String().Filter(func(s string) bool { return !containsNUL(s) }), 0, 3).Draw(t, name) {
		out[k] = v
	}
	return out
}

func containsNUL(s string) bool {
	for _, r := range s {
		if r == 0 {
			return true
		}
	}
	return false
}

func jobTree(t *rapid.T) decode.Tree {
	typ := rapid.SampledFrom([]string{berth.TypeService, berth.TypeBatch}).Draw(t, "type")
	j := decode.Tree{"ID": word(t, "id"), "Type": typ}
	maybe(t, j, "Name", word(t, "name"))
	maybe(t, j, "Priority", whole(t, "priority", 1, 100))
	maybe(t, j, "Datacenters", []any{"dc1", "eu-*"})
	maybe(t, j, "Namespace", word(t, "namespace"))
	maybe(t, j, "NodePool", word(t, "pool"))
	maybe(t, j, "Meta", texts(t, "meta"))
	maybe(t, j, "Constraints", conditions(t, false))
	maybe(t, j, "Affinities", conditions(t, true))
	maybe(t, j, "Reschedule", rescheduleTree(t))
	maybe(t, j, "UI", decode.Tree{"Description": "x", "Links": []any{decode.Tree{"Label": "l", "URL": "u"}}})
	maybe(t, j, "Update", decode.Tree{"MaxParallel": decode.Number("0"), "Canary": whole(t, "canary", 0, 3)})
	groups := []any{}
	for i := range rapid.IntRange(1, 3).Draw(t, "groups") {
		groups = append(groups, groupTree(t, i))
	}
	j["TaskGroups"] = groups
	return j
}

func rescheduleTree(t *rapid.T) decode.Tree {
	r := decode.Tree{"Delay": seconds(t, "delay", 5, 100), "MaxDelay": seconds(t, "max delay", 100, 1000)}
	if rapid.Bool().Draw(t, "unlimited") {
		r["Unlimited"], r["Attempts"] = true, decode.Number("0")
	} else {
		r["Unlimited"], r["Attempts"], r["Interval"] = false, whole(t, "attempts", 1, 9), seconds(t, "interval", 60, 600)
	}
	r["DelayFunction"] = rapid.SampledFrom([]string{berth.DelayConstant, berth.DelayExponential, berth.DelayFibonacci}).Draw(t, "function")
	return r
}

func conditions(t *rapid.T, weights bool) []any {
	out := []any{}
	for range rapid.IntRange(0, 3).Draw(t, "conditions") {
		c := rapid.SampledFrom([]decode.Tree{
			{"LTarget": "${attr.kernel.name}", "RTarget": "linux"},
			{"LTarget": "${meta.rack}", "Operand": "!=", "RTarget": "r1"},
			{"LTarget": "${attr.cpu.arch}", "Operand": "regexp", "RTarget": "^a.*<&>$"},
			{"LTarget": "${attr.os.version}", "Operand": "version", "RTarget": ">= 1.2, < 2"},
			{"LTarget": "${node.class}", "Operand": "is_set"},
			{"LTarget": "${meta.tags}", "Operand": "set_contains_any", "RTarget": "a,b"},
		}).Draw(t, "condition")
		c2 := decode.Tree{}
		for k, v := range c {
			c2[k] = v
		}
		if weights {
			maybe(t, c2, "Weight", whole(t, "weight", 1, 100))
		}
		out = append(out, c2)
	}
	return out
}

func groupTree(t *rapid.T, i int) decode.Tree {
	g := decode.Tree{"Name": fmt.Sprintf("g%d", i)}
	maybe(t, g, "Count", whole(t, "count", 0, 100))
	maybe(t, g, "Meta", texts(t, "meta"))
	maybe(t, g, "Constraints", conditions(t, false))
	maybe(t, g, "ReschedulePolicy", rescheduleTree(t))
	maybe(t, g, "RestartPolicy", decode.Tree{"Attempts": whole(t, "restarts", 0, 3), "Delay": seconds(t, "restart delay", 0, 5), "Interval": seconds(t, "interval", 60, 600)})
	maybe(t, g, "EphemeralDisk", decode.Tree{"SizeMB": decode.Number("5000")})
	maybe(t, g, "ShutdownDelay", seconds(t, "shutdown", 0, 10))
	maybe(t, g, "Networks", []any{decode.Tree{"DynamicPorts": []any{decode.Tree{"Label": "http"}, decode.Tree{"Label": "admin", "Value": whole(t, "port", 1, 65535), "To": decode.Number("-1")}}}})
	tasks := []any{}
	g["EphemeralDisk"] = decode.Tree{"SizeMB": decode.Number("5000")}
	for k := range rapid.IntRange(1, 3).Draw(t, "tasks") {
		tasks = append(tasks, taskTree(t, k))
	}
	g["Tasks"] = tasks
	return g
}

func taskTree(t *rapid.T, i int) decode.Tree {
	task := decode.Tree{"Name": fmt.Sprintf("t%d", i), "Driver": "raw_exec", "Config": decode.Tree{"command": "/bin/x", "args": []any{"-a", "${NOMAD_PORT_http}"}}}
	if rapid.Bool().Draw(t, "mock") {
		task["Driver"] = "mock_driver"
		task["Config"] = decode.Tree{"run_for": "1s", "exit_code": whole(t, "code", 0, 255), "start_error_recoverable": true}
	}
	maybe(t, task, "Env", texts(t, "env"))
	maybe(t, task, "Meta", texts(t, "meta"))
	maybe(t, task, "User", word(t, "user"))
	maybe(t, task, "KillTimeout", seconds(t, "kill", 0, 60))
	maybe(t, task, "KillSignal", "SIGTERM")
	maybe(t, task, "Resources", decode.Tree{"CPU": whole(t, "cpu", 1, 4000), "MemoryMB": whole(t, "memory", 10, 4000)})
	maybe(t, task, "LogConfig", decode.Tree{"MaxFiles": whole(t, "files", 1, 10), "Enabled": rapid.Bool().Draw(t, "logs")})
	maybe(t, task, "RestartPolicy", decode.Tree{"Mode": rapid.SampledFrom([]string{berth.RestartDelay, berth.RestartFail}).Draw(t, "mode")})
	if i == 0 {
		maybe(t, task, "Leader", true)
	}
	return task
}

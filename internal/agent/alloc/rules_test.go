package alloc

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"berth"
	"berth/internal/agent/task"
)

// states reads "a=running b=dead c=failed d=pending e=waiting".
func states(text string) map[string]*berth.TaskState {
	out := map[string]*berth.TaskState{}
	for _, w := range strings.Fields(text) {
		name, how, _ := strings.Cut(w, "=")
		s := &berth.TaskState{State: how}
		switch how {
		case "failed":
			s.State, s.Failed = berth.TaskDead, true
		case "waiting":
			s.State, s.StartedAt = berth.TaskPending, time.Unix(1, 0)
		}
		out[name] = s
	}
	return out
}

func TestStatus(t *testing.T) {
	for text, want := range map[string]string{
		"a=pending":                   "pending: No tasks have started",
		"a=pending b=pending":         "pending: No tasks have started",
		"a=waiting":                   "pending: Tasks wait to be started again",
		"a=running":                   "running: Tasks are running",
		"a=running b=pending":         "running: Tasks are running",
		"a=running b=dead":            "running: Tasks are running",
		"a=running b=failed":          "running: Tasks are running", // b's siblings still hold its ports
		"a=pending b=dead":            "running: Some tasks have ended",
		"a=dead":                      "complete: All tasks have completed",
		"a=dead b=dead":               "complete: All tasks have completed",
		"a=dead b=failed":             "failed: Failed tasks",
		"a=failed b=failed":           "failed: Failed tasks",
		"a=waiting b=failed c=failed": "running: Some tasks have ended",
	} {
		status, why := Status(states(text))
		if got := fmt.Sprintf("%v: %s", status, why); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func TestOrders(t *testing.T) {
	stop, now := &task.Kill{Reason: "told so"}, &task.Kill{Reason: "told so", NoDelay: true}
	for _, c := range []struct {
		name, tasks, leader string
		stop                *task.Kill
		ordered             string // those told already
		want                string
	}{
		{"all is well", "a=running b=running", "", nil, "", ""},
		{"one completes", "a=dead b=running", "", nil, "", ""},
		{"one fails", "a=failed b=running c=waiting d=dead", "", nil, "", "b:Sibling Task Failed c:Sibling Task Failed"},
		{"the leader ends", "a=dead b=running", "a", nil, "", "b:Leader Task Dead"},
		{"the leader fails", "a=failed b=running", "a", nil, "", "b:Sibling Task Failed"},
		{"a follower ends", "a=running b=dead", "a", nil, "", ""},
		{"a stop", "a=running b=pending c=dead", "", stop, "", "a: b:"},
		{"a stop ends the leader first", "a=running b=running", "b", stop, "", "b:"},
		{"then the others", "a=running b=dead", "b", stop, "b", "a:Leader Task Dead"},
		{"nobody is told twice", "a=running b=running", "", stop, "a b", ""},
		{"unless it shall hurry", "a=running b=running", "", now, "a", "a:! b:!"},
		{"and hurry holds for followers", "a=running b=dead", "b", now, "", "a:Leader Task Dead!"},
	} {
		var ms members
		all := states(c.tasks)
		for _, n := range slices.Sorted(maps.Keys(all)) {
			m := member{name: n, leader: n == c.leader, state: task.State{Task: *all[n], Phase: task.Running}}
			if all[n].State == berth.TaskDead {
				m.state.Phase = task.Dead
			}
			if strings.Contains(c.ordered, n) {
				m.state.Kill = &task.Kill{}
			}
			ms.all = append(ms.all, m)
		}
		got := orders(ms, c.stop)
		var out []string
		for _, n := range slices.Sorted(maps.Keys(got)) {
			s := n + ":" + got[n].Event
			if got[n].NoDelay {
				s += "!"
			}
			if got[n].Reason == "" {
				t.Errorf("%s: %s gets no reason", c.name, n)
			}
			out = append(out, s)
		}
		if s := strings.Join(out, " "); s != c.want {
			t.Errorf("%s: %q, want %q", c.name, s, c.want)
		}
	}
}

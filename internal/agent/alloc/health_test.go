package alloc

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"berth"
	"berth/op"
)

// Each case says how tasks fare (run@5: since second 5; pend; fail@9, done@9),
// since when checks pass (@7, none; absent if they do not count) and what
// follows at which second. It is watched from second 0, min_healthy_time is
// 10s and the deadline 60s.
func TestJudge(t *testing.T) {
	second := func(n int) time.Time { return time.Unix(1000+int64(n), 0) }
	for _, c := range []struct {
		tasks, checks string
		now           int
		want          string
	}{
		{"run@0", "", 9, "again 10"},
		{"run@0", "", 10, "healthy at 10"},
		{"run@0", "", 500, "healthy at 10"}, // the agent was away meanwhile
		{"run@0 run@8", "", 12, "again 18"}, // the last to start counts
		{"run@0 pend", "", 30, "again 60"},
		{"run@0 pend", "", 60, "unhealthy at 60"},
		{"run@49", "", 55, "again 59"},
		{"run@51", "", 55, "again 60"}, // it cannot be in time any more
		{"run@51", "", 61, "unhealthy at 60"},
		{"run@0 fail@4", "", 5, "unhealthy at 4"},
		{"run@0 done@4", "", 5, "unhealthy at 4"}, // it should have gone on
		{"run@0 once-done@4", "", 12, "healthy at 10"},
		{"run@0 once-fail@4", "", 12, "unhealthy at 4"},
		{"run@0 once-pend", "", 12, "healthy at 10"},
		{"run@0 side-pend", "", 12, "again 60"},
		{"run@-50", "", 5, "again 10"}, // updated in place: what came before does not count
		{"run@0", "none", 30, "again 60"},
		{"run@0", "none", 60, "unhealthy at 60"},
		{"run@0", "@7", 12, "again 17"},
		{"run@0", "@7", 17, "healthy at 17"},
		{"run@9", "@7", 18, "again 19"},
		{"run@0", "@55", 62, "unhealthy at 60"},
	} {
		var tasks []vital
		for _, w := range strings.Fields(c.tasks) {
			w, once := strings.CutPrefix(w, "once-")
			w, side := strings.CutPrefix(w, "side-")
			how, n, at := w, 0, time.Time{}
			if k, err := fmt.Sscanf(strings.ReplaceAll(w, "@", " "), "%s %d", &how, &n); k == 2 && err == nil {
				at = second(n)
			}
			s := &berth.TaskState{State: map[string]string{"run": berth.TaskRunning, "pend": berth.TaskPending, "fail": berth.TaskDead, "done": berth.TaskDead}[how]}
			s.Failed = how == "fail"
			if s.State == berth.TaskDead {
				s.FinishedAt = at
			} else {
				s.StartedAt = at
			}
			tasks = append(tasks, vital{task: s, sidecar: side, once: once})
		}
		var passing *time.Time
		if n := 0; c.checks != "" {
			passing = new(time.Time)
			if _, err := fmt.Sscanf(c.checks, "@%d", &n); err == nil {
				*passing = second(n)
			}
		}
		p := healthPolicy{checks: passing != nil, min: 10 * time.Second, deadline: time.Minute}
		healthy, at, again := p.judge(second(0), tasks, passing, second(c.now))
		got := ""
		switch sec := func(t time.Time) int { return int(t.Unix() - 1000) }; {
		case healthy == nil:
			got = fmt.Sprintf("again %d", sec(again))
		case *healthy:
			got = fmt.Sprintf("healthy at %d", sec(at))
		default:
			got = fmt.Sprintf("unhealthy at %d", sec(at))
		}
		if got != c.want {
			t.Errorf("%s %s at %d: %s, want %s", c.tasks, c.checks, c.now, got, c.want)
		}
	}
}

func TestWhoseHealthIsWanted(t *testing.T) {
	yes := true
	some := berth.DeploymentID{1}
	job := func(typ string, g berth.TaskGroup) *berth.Job {
		g.Name = "g"
		return &berth.Job{Type: typ, TaskGroups: []*berth.TaskGroup{&g}}
	}
	update := func(how string) berth.TaskGroup {
		return berth.TaskGroup{Update: &berth.UpdateStrategy{HealthCheck: how, MinHealthyTime: 1, HealthyDeadline: 2}}
	}
	migrate := berth.TaskGroup{Migrate: &berth.MigrateStrategy{HealthCheck: berth.HealthChecks, MinHealthyTime: 3, HealthyDeadline: 4}}
	for name, c := range map[string]struct {
		a    op.Alloc
		want *healthPolicy
	}{
		"in a deployment":       {op.Alloc{DeploymentID: some, Job: job("service", update(berth.HealthTaskStates))}, &healthPolicy{false, 1, 2}},
		"with checks":           {op.Alloc{DeploymentID: some, Job: job("service", update(berth.HealthChecks))}, &healthPolicy{true, 1, 2}},
		"by hand":               {op.Alloc{DeploymentID: some, Job: job("service", update(berth.HealthManual))}, nil},
		"said already":          {op.Alloc{DeploymentID: some, DeploymentStatus: &berth.AllocDeploymentStatus{Healthy: &yes}, Job: job("service", update(berth.HealthChecks))}, nil},
		"in none":               {op.Alloc{Job: job("service", update(berth.HealthChecks))}, nil},
		"moved":                 {op.Alloc{PreviousAllocation: berth.AllocID{1}, Job: job("service", migrate)}, &healthPolicy{true, 3, 4}},
		"moved by default":      {op.Alloc{PreviousAllocation: berth.AllocID{1}, Job: job("service", berth.TaskGroup{})}, &healthPolicy{true, 10 * time.Second, 5 * time.Minute}},
		"the first of its name": {op.Alloc{Job: job("service", migrate)}, nil},
		"batch":                 {op.Alloc{PreviousAllocation: berth.AllocID{1}, Job: job("batch", migrate)}, nil},
	} {
		c.a.TaskGroup = "g"
		got := healthPolicyOf(&c.a)
		if (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

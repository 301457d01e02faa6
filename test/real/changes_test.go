package real

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// placed is an allocation with what its deployment knows of it.
type placed struct {
	alloc
	DeploymentID     string
	DeploymentStatus *struct {
		Healthy *bool
		Canary  bool
	}
}

// healthy reports whether the instance runs and its deployment knows that it is
// well.
func (p *placed) healthy() bool {
	return p.active() && p.DeploymentStatus != nil && p.DeploymentStatus.Healthy != nil && *p.DeploymentStatus.Healthy
}

// active reports whether the instance runs and is to go on.
func (p *placed) active() bool { return p.DesiredStatus == "run" && p.ClientStatus == "running" }

// placed lists the instances of a version of a job.
func (a *agent) placed(job string, version uint64) (out []placed) {
	a.w.t.Helper()
	a.get("/v1/job/"+job+"/allocations?all=true", &out)
	return slices.DeleteFunc(out, func(p placed) bool { return p.JobVersion != version })
}

// deployment is what tests ask of a deployment.
type deployment struct {
	ID, Status, StatusDescription string
	JobVersion                    uint64
	TaskGroups                    map[string]struct {
		Promoted                                                                    bool
		DesiredCanaries, DesiredTotal, PlacedAllocs, HealthyAllocs, UnhealthyAllocs int
		PlacedCanaries                                                              []string
	}
}

// deployments lists what became of a job, by version: each has one deployment.
func (a *agent) deployments(job string) map[uint64]deployment {
	a.w.t.Helper()
	var all []deployment
	a.get("/v1/job/"+job+"/deployments?all=true", &all)
	out := map[uint64]deployment{}
	for _, d := range all {
		if other, ok := out[d.JobVersion]; ok {
			a.w.t.Fatalf("version %d has the deployments %+v and %+v", d.JobVersion, other, d)
		}
		out[d.JobVersion] = d
	}
	return out
}

// deployed waits until the deployment of a version has a status.
func (a *agent) deployed(job string, version uint64, status string) (d deployment) {
	a.w.t.Helper()
	a.w.until(fmt.Sprintf("the deployment of version %d of %s is %s", version, job, status), func() string {
		if d = a.deployments(job)[version]; d.Status == status {
			return ""
		}
		return fmt.Sprintf("%+v", d)
	})
	return d
}

// version returns the number of a job's newest version.
func (a *agent) version(job string) uint64 {
	a.w.t.Helper()
	var j struct{ Version uint64 }
	a.get("/v1/job/"+job, &j)
	return j.Version
}

// Five instances are replaced two at a time. At no time are more than two new
// ones not yet known to be healthy, or fewer than three at work. The server is
// killed in the middle, and goes on where it was. No more than two of the new
// ones get past their first task before that, so the middle is there to be seen.
func TestARollingUpdate(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	w := f.w
	passed := filepath.Join(t.TempDir(), "passed")
	file := func(word, first string) string {
		return w.file("five.nomad", group("service", "five", `
			count = 5
			update {
				max_parallel     = 2
				min_healthy_time = "1s"
				health_check     = "task_states"
			}
			task "first" {
				lifecycle {
					hook = "prestart"
				}
				driver = "raw_exec"
				config {
					command = "/bin/sh"
					args    = ["-c", "`+first+`"]
				}
				resources {
					cpu    = 50
					memory = 32
				}
			}`, sh("echo "+word+"; exec sleep 1000")))
	}
	f.good("job", "run", "-detach", file("one", "true"))
	f.deployed("five", 0, "successful")
	first := f.settled("five", 5)

	// look takes one picture and says how many new ones are healthy.
	look := func() int {
		t.Helper()
		working, unproven, healthy := 0, 0, 0
		var all []placed
		f.get("/v1/job/five/allocations?all=true", &all)
		for _, p := range all {
			switch {
			case p.JobVersion == 0 && p.active():
				working++
			case p.JobVersion == 1 && p.healthy():
				working++
				healthy++
			case p.JobVersion == 1:
				unproven++
			}
		}
		if unproven > 2 || working < 3 {
			t.Fatalf("%d new ones are not healthy yet, and %d are at work: %+v", unproven, working, all)
		}
		return healthy
	}
	f.good("job", "run", "-detach", file("two", fmt.Sprintf("mkdir %[1]s-1 || mkdir %[1]s-2 || until [ -e %[1]s ]; do sleep 0.1; done", passed)))
	w.until("the update is in the middle", func() string {
		if n := look(); n < 2 {
			return fmt.Sprintf("%d are healthy", n)
		}
		return ""
	})
	was := f.deployments("five")[1]
	begun := f.placed("five", 1)
	if was.Status != "running" || len(begun) > 4 {
		t.Fatalf("this is not the middle: %+v, %+v", was, begun)
	}
	f.again()
	if err := os.WriteFile(passed, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w.until("the update is done", func() string {
		look()
		if d := f.deployments("five")[1]; d.Status != "successful" {
			return fmt.Sprintf("%+v", d)
		}
		return ""
	})
	is := f.deployments("five")[1]
	if g := is.TaskGroups["g"]; is.ID != was.ID || g.DesiredTotal != 5 || g.HealthyAllocs != 5 || g.PlacedAllocs != 5 || g.UnhealthyAllocs != 0 {
		t.Errorf("it was %+v and is %+v", was, is)
	}
	if all := f.placed("five", 1); len(all) != 5 {
		t.Errorf("%d were placed", len(all))
	}
	now := f.settled("five", 5)
	for _, p := range begun {
		if now[p.ID] == nil {
			t.Errorf("%s was new when the server was killed, and is gone", p.Name)
		}
	}
	for id := range first {
		if now[id] != nil {
			t.Errorf("%s is of the old version and still runs", id)
		}
	}
	w.holds(f.good("deployment", "status", is.ID), "= successful", "Deployment completed successfully")
	w.holds(f.good("job", "status", "five"), "Status      = successful")
}

// One canary is placed beside three instances, and replaces them when it is
// promoted, not before. A version that fails goes back to it by itself, once.
// The server is killed while it waits, and while it goes back.
func TestACanaryAndABadVersion(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	w := f.w
	run := func(script string) {
		t.Helper()
		f.good("job", "run", "-detach", w.file("bird.nomad", group("service", "bird", once, `
			count = 3
			update {
				canary            = 1
				max_parallel      = 3
				min_healthy_time  = "5s" # a busy machine lets a task that fails at once live for a while
				progress_deadline = "0s" # the first that is unhealthy is one too many
				health_check      = "task_states"
				auto_revert       = true
			}`, sh(script))))
	}
	run("echo zero; exec sleep 1000")
	f.deployed("bird", 0, "successful")
	first := f.settled("bird", 3)

	run("echo one; exec sleep 1000")
	waits := func() string {
		g, all := f.deployments("bird")[1].TaskGroups["g"], f.placed("bird", 1)
		if len(all) == 1 && all[0].healthy() && all[0].DeploymentStatus.Canary && g.HealthyAllocs == 1 && !g.Promoted {
			return ""
		}
		return fmt.Sprintf("%+v, %+v", g, all)
	}
	w.until("the canary is healthy", waits)
	was := f.settled("bird", 4)
	f.again()
	w.until("the canary waits", waits)
	if amiss := same(was, f.settled("bird", 4)); amiss != "" {
		t.Errorf("before the promotion: %s", amiss)
	}
	d := f.deployments("bird")[1]
	w.holds(f.good("deployment", "status", d.ID), "= running", "requires manual promotion")
	w.holds(f.good("deployment", "promote", d.ID), "promoted")
	d = f.deployed("bird", 1, "successful")
	if g := d.TaskGroups["g"]; !g.Promoted || g.HealthyAllocs != 3 || g.PlacedAllocs != 3 {
		t.Errorf("%+v", d)
	}
	stable := f.settled("bird", 3)
	for id := range first {
		if stable[id] != nil {
			t.Errorf("%s is of the old version and still runs", id)
		}
	}

	run("exit 1")
	f.again()
	f.deployed("bird", 3, "successful")
	w.until("nothing is under way", func() string {
		for _, e := range f.evals() {
			if e.Status != "complete" && e.Status != "canceled" {
				return fmt.Sprintf("%+v", e)
			}
		}
		return ""
	})
	if amiss := same(stable, f.settled("bird", 3)); amiss != "" {
		t.Errorf("the job is back at the stable version: %s", amiss)
	}
	bad := f.deployments("bird")[2]
	if bad.Status != "failed" || !strings.Contains(bad.StatusDescription, "rolling back to job version 1") {
		t.Errorf("the bad version: %+v", bad)
	}
	for _, p := range f.placed("bird", 2) {
		if p.ClientStatus != "failed" || !p.DeploymentStatus.Canary {
			t.Errorf("of the bad version: %+v", p)
		}
	}
	if v := f.version("bird"); v != 3 {
		t.Errorf("the job went back more than once: it is at version %d", v)
	}
	w.holds(f.good("job", "inspect", "bird"), "echo one")
	w.holds(f.good("job", "deployments", "bird"), "failed", "successful")
}

// The count of a group is changed within its bounds, and a job is made what it
// was. The server is killed after it has said yes to each.
func TestAJobIsScaledAndReverted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.agent("one", both)
	a.joined()
	file := func(word string) string {
		return w.file("scaled.nomad", group("service", "scaled", `
			count = 2
			scaling {
				min = 1
				max = 4
			}
			update { max_parallel = 0 }`, sh("echo "+word+"; exec sleep 1000")))
	}
	logs := func(word string, ids map[string][]int) {
		t.Helper()
		for id := range ids {
			w.until("it says "+word, func() string { return missing(a.berth("alloc", "logs", id, "main").Out, word+"\n") })
		}
	}
	a.good("job", "run", "-detach", file("one"))
	first := a.settled("scaled", 2)

	a.good("job", "scale", "-detach", "scaled", "4")
	a.again()
	grown := a.settled("scaled", 4)
	for id, pids := range first {
		if !slices.Equal(grown[id], pids) {
			t.Errorf("%s had the processes %v and has %v", id, pids, grown[id])
		}
	}
	w.holds(a.berth("job", "scale", "scaled", "5").String(), "exit code 1", "5", "4")
	a.good("job", "scale", "scaled", "g", "3")
	three := a.settled("scaled", 3)
	for id := range three {
		if grown[id] == nil {
			t.Errorf("%s is new, and one was to go", id)
		}
	}
	w.holds(a.good("job", "scaling-events", "scaled"), "g ", "submitted using the")
	if v := a.version("scaled"); v != 2 {
		t.Errorf("the job was run and scaled twice, and is at version %d", v)
	}

	a.good("job", "run", "-detach", file("two"))
	logs("two", a.settled("scaled", 2))
	a.good("job", "revert", "-detach", "scaled", "0")
	a.again()
	now := a.settled("scaled", 2)
	logs("one", now)
	for _, p := range a.placed("scaled", 4) {
		delete(now, p.ID)
	}
	if len(now) > 0 {
		t.Errorf("these are not of the version that it went back to: %v", now)
	}
	w.holds(a.good("job", "history", "scaled"), "Version     = 4", "Version     = 0")
}

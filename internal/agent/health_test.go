package agent

import (
	"testing"
	"testing/synctest"
	"time"

	"berth"
	"berth/op"
)

// healthOf returns what was told of an allocation's health, each word once:
// "none", or "healthy" or "unhealthy" and how long after its begin.
func (c *cluster) healthOf(id string, begin time.Time) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := ""
	for _, n := range c.news[id] {
		s := n.DeploymentStatus
		if s == nil || s.Healthy == nil {
			continue
		}
		word := "unhealthy"
		if *s.Healthy {
			word = "healthy"
		}
		if s.Canary {
			word = "canary " + word
		}
		word += " " + s.Timestamp.Sub(begin).Round(time.Second).String()
		if out != "" && out != word {
			return out + ", then " + word
		}
		out = word
	}
	if out == "" {
		return "none"
	}
	return out
}

const taskStates = `,"Update":{"MaxParallel":1,"HealthCheck":"task_states","MinHealthyTime":"10s","HealthyDeadline":"1m","ProgressDeadline":"2m"}`

func (w *world) deploy(t *testing.T, tasks string, more ...string) string {
	a := newAlloc(t, "service", tasks, more...)
	a.DeploymentID = berth.DeploymentID{7}
	return w.place(a)
}

func TestHealthOfADeployment(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		_, end := w.agent(t)
		pause(5 * time.Second)
		begin := time.Now()
		const later = `,"RestartPolicy":{"Attempts":9,"Interval":"10m","Delay":"15s","Mode":"fail"}`
		good := w.deploy(t, mockTask("main", `"run_for":"100h"`), taskStates)
		slow := w.deploy(t, mockTask("main", `"run_for":"100h","start_block_for":"20s"`), taskStates)
		never := w.deploy(t, mockTask("main", `"run_for":"100h","start_block_for":"2h"`), taskStates)
		fails := w.deploy(t, mockTask("main", `"run_for":"3s","exit_code":1`, quick), taskStates)
		flaps := w.deploy(t, mockTask("main", `"run_for":"8s","exit_code":1`, later), taskStates)
		manual := w.deploy(t, mockTask("main", `"run_for":"100h"`), `,"Update":{"HealthCheck":"manual"}`)
		plain := w.place(newAlloc(t, "service", mockTask("main", `"run_for":"100h"`)))
		canary := newAlloc(t, "service", mockTask("main", `"run_for":"100h"`), taskStates)
		canary.DeploymentID, canary.DeploymentStatus = berth.DeploymentID{7}, &berth.AllocDeploymentStatus{Canary: true}
		w.place(canary)
		pause(3 * time.Minute)
		for _, c := range []struct{ name, id, want string }{
			{"good", good, "healthy 10s"}, {"slow", slow, "healthy 30s"}, {"never", never, "unhealthy 1m0s"}, {"fails", fails, "unhealthy 3s"},
			{"flaps", flaps, "unhealthy 1m0s"}, {"manual", manual, "none"}, {"plain", plain, "none"}, {"canary", canary.ID.String(), "canary healthy 10s"},
		} {
			if got := w.healthOf(c.id, begin); got != c.want {
				t.Errorf("%s: %s, want %s", c.name, got, c.want)
			}
		}
		end()
	})
}

// What the group's migrate block says counts for one that replaces another
// outside of deployments.
func TestHealthOfAMove(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		_, end := w.agent(t)
		pause(5 * time.Second)
		begin := time.Now()
		a := newAlloc(t, "service", mockTask("main", `"run_for":"100h"`), `,"Migrate":{"MaxParallel":1,"HealthCheck":"task_states","MinHealthyTime":"7s","HealthyDeadline":"1m"}`)
		a.PreviousAllocation = berth.AllocID{9}
		w.place(a)
		pause(time.Minute)
		if got := w.healthOf(a.ID.String(), begin); got != "healthy 7s" {
			t.Error(got)
		}
		end()
	})
}

// An agent that is started again goes on waiting where the last one was, and
// what was decided stays decided, whatever happens to the tasks.
func TestHealthOverARestartOfTheAgent(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		_, end := w.agent(t)
		pause(5 * time.Second)
		begin := time.Now()
		const later = `,"RestartPolicy":{"Attempts":9,"Interval":"10m","Delay":"15s","Mode":"fail"}`
		waits := w.deploy(t, mockTask("main", `"run_for":"100h"`), taskStates)
		decided := w.deploy(t, mockTask("main", `"run_for":"12s","exit_code":1`, later), taskStates)
		pause(6 * time.Second)
		end()
		_, end = w.agent(t)
		pause(5 * time.Second)
		if got := w.healthOf(waits, begin); got != "healthy 10s" {
			t.Error(got)
		}
		if got := w.healthOf(decided, begin); got != "healthy 10s" {
			t.Error(got)
		}
		pause(20 * time.Second)
		end()
		_, end = w.agent(t)
		pause(5 * time.Minute) // past its deadline, and it flaps
		if got := w.healthOf(decided, begin); got != "healthy 10s" {
			t.Errorf("later: %s, %s", got, w.events(decided, "main"))
		}
		end()
	})
}

// A version that came in place belongs to the next deployment, and is watched
// again from when it came.
func TestHealthOfTheNextDeployment(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		_, end := w.agent(t)
		pause(5 * time.Second)
		id := w.deploy(t, mockTask("main", `"run_for":"100h"`), taskStates)
		pause(time.Minute)
		begin := time.Now()
		w.want(id, func(a *op.Alloc) { a.DeploymentID, a.DeploymentStatus = berth.DeploymentID{8}, nil })
		w.mu.Lock()
		delete(w.news, id)
		w.mu.Unlock()
		pause(5 * time.Second)
		if got := w.healthOf(id, begin); got != "none" {
			t.Errorf("at once: %s", got)
		}
		pause(time.Minute)
		if got := w.healthOf(id, begin); got != "healthy 10s" {
			t.Error(got)
		}
		end()
	})
}

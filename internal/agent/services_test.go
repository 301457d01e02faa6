package agent

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth"
	"berth/op"
)

// withPorts gives an allocation ports on the loopback address.
func withPorts(a *op.Alloc, ports ...berth.PortMapping) *op.Alloc {
	a.AllocatedResources = &op.AllocatedResources{Shared: op.AllocatedShared{Ports: ports}}
	return a
}

const webNetwork = `,"Networks":[{"DynamicPorts":[{"Label":"http"}]}]`

func webService(more string) string {
	return `,"Services":[{"Name":"web-${NOMAD_ALLOC_INDEX}","Provider":"nomad","PortLabel":"http","Tags":["v1","${NOMAD_META_colour}"],"CanaryTags":["canary"]` + more + `}]`
}

// A service is registered while its task runs, under its names replaced.
func TestAServiceIsRegisteredWhileItsTaskRuns(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		_, end := w.agent(t)
		pause(5 * time.Second)
		a := withPorts(newAlloc(t, "service", mockTask("main", `"run_for":"100h","start_block_for":"20s"`, `,"Meta":{"colour":"red"}`, webService("")), webNetwork),
			berth.PortMapping{Label: "http", Value: 23456, HostIP: "127.0.0.1"})
		a.Name = "job.g[7]"
		id := w.place(a)
		pause(10 * time.Second)
		if got := w.named("web-7"); got != "" {
			t.Errorf("before it runs: %s", got)
		}
		pause(20 * time.Second)
		if got := w.named("web-7"); got != "127.0.0.1:23456 v1,red" {
			t.Errorf("running: %s", got)
		}
		w.mu.Lock()
		for regID, r := range w.services {
			if want := "_nomad-task-" + id + "-main-web-7-http"; regID != want || r.NodeID != w.node.ID || r.AllocID != a.ID || r.JobID != "job" || r.Namespace != "default" || r.Datacenter != "dc1" {
				t.Errorf("%+v, want %s", r, want)
			}
		}
		w.mu.Unlock()

		// As a canary it has other tags, and when it is promoted its own.
		w.want(id, func(a *op.Alloc) { a.DeploymentStatus = &berth.AllocDeploymentStatus{Canary: true} })
		pause(2 * time.Second)
		if got := w.named("web-7"); got != "127.0.0.1:23456 canary" {
			t.Errorf("canary: %s", got)
		}
		w.want(id, func(a *op.Alloc) { a.DeploymentStatus = &berth.AllocDeploymentStatus{} })
		pause(2 * time.Second)
		if got := w.named("web-7"); got != "127.0.0.1:23456 v1,red" {
			t.Errorf("promoted: %s", got)
		}
		w.stop(id)
		pause(5 * time.Second)
		if got := w.named("web-7"); got != "" || w.status(id) != "complete" {
			t.Errorf("stopped: %q, %s", got, w.status(id))
		}
		end()
	})
}

// While a task waits to be started again nobody is sent to it, and during its
// shutdown delay neither.
func TestAServiceIsAwayWhileItsTaskIs(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		_, end := w.agent(t)
		pause(5 * time.Second)
		id := w.place(newAlloc(t, "service", mockTask("main", `"run_for":"60s","exit_code":1`,
			`,"ShutdownDelay":"20s","RestartPolicy":{"Attempts":5,"Interval":"1h","Delay":"30s","Mode":"fail"},"Services":[{"Name":"db","Provider":"nomad"}]`)))
		for i, want := range []bool{true, false, true} { // it ends after 60 s, and waits for 30 to 38
			pause(40 * time.Second)
			if there := w.named("db") != ""; there != want {
				t.Errorf("after %d × 40 s: %v, %s", i+1, there, w.events(id, "main"))
			}
		}
		w.stop(id)
		pause(2 * time.Second)
		if got := w.named("db"); got != "" || w.status(id) != "running" {
			t.Errorf("in the shutdown delay: %q, %s", got, w.status(id))
		}
		pause(time.Minute)
		end()
	})
}

// A service of the group is up when all of its tasks run, or the one it names.
func TestAServiceOfTheGroup(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		_, end := w.agent(t)
		pause(5 * time.Second)
		w.place(newAlloc(t, "service", mockTask("a", `"run_for":"100h"`)+","+mockTask("b", `"run_for":"100h","start_block_for":"20s"`),
			`,"Services":[{"Name":"all","Provider":"nomad","PortLabel":"8080"},{"Name":"one","Provider":"nomad","TaskName":"a","Address":"${NOMAD_JOB_NAME}.example"}]`))
		pause(5 * time.Second)
		if all, one := w.named("all"), w.named("one"); all != "" || one != "job.example:0 " {
			t.Errorf("one task runs: %q, %q", all, one)
		}
		pause(30 * time.Second)
		if all := w.named("all"); !strings.HasSuffix(all, ":8080 ") {
			t.Errorf("both run: %q", all)
		}
		end()
	})
}

// Servers that fail are told when they are back, those that were not reached
// for long are told all again, and an agent that is started again takes back
// what ended meanwhile.
func TestRegistrationsAreRepeatedUntilTheyAreTaken(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		_, end := w.agent(t)
		pause(5 * time.Second)
		service := `,"Services":[{"Name":"db","Provider":"nomad"}]`
		w.mu.Lock()
		w.fail = func(call string) error {
			if call == "services" {
				return berth.Errorf(berth.Unavailable, "away")
			}
			return nil
		}
		w.mu.Unlock()
		id := w.place(newAlloc(t, "service", mockTask("main", `"run_for":"100h"`, service)))
		pause(time.Minute)
		w.mu.Lock()
		w.fail = nil
		w.mu.Unlock()
		pause(time.Minute)
		if w.named("db") == "" {
			t.Fatal("it was not told when servers were back")
		}
		// As if they had taken the node for down.
		w.mu.Lock()
		clear(w.services)
		w.fail = func(string) error { return berth.Errorf(berth.Unavailable, "away") }
		w.mu.Unlock()
		pause(time.Minute)
		w.mu.Lock()
		w.fail = nil
		w.mu.Unlock()
		pause(time.Minute)
		if w.named("db") == "" {
			t.Fatal("it was not told again")
		}
		end()
		// The task ends while nobody looks, and its siblings go on.
		if w.named("db") == "" {
			t.Fatal("an agent that ends takes nothing back")
		}
		_, end = w.agent(t)
		pause(5 * time.Second)
		w.stop(id)
		pause(10 * time.Second)
		if got := w.named("db"); got != "" {
			t.Errorf("stopped: %s", got)
		}
		end()
	})
}

// Servers that refuse one registration take the others.
func TestARefusedRegistrationHoldsUpNoOther(t *testing.T) {
	r := newRegistry()
	reg := func(id string) *berth.ServiceRegistration { return &berth.ServiceRegistration{ID: id} }
	now := time.Now()
	r.Services("a", []*berth.ServiceRegistration{reg("1"), reg("2")}, nil)
	r.refused("1", now.Add(time.Minute))
	put, _, again := r.next(now)
	if len(put) != 1 || put[0].ID != "2" || again.IsZero() {
		t.Fatalf("%v, %v", put, again)
	}
	r.took(put)
	if put, _, _ := r.next(now.Add(2 * time.Minute)); len(put) != 1 || put[0].ID != "1" {
		t.Errorf("after its rest: %v", put)
	}
	r.Services("a", []*berth.ServiceRegistration{reg("2")}, nil)
	if _, gone, _ := r.next(now); len(gone) != 1 || gone[0] != "1" {
		t.Errorf("taken back: %v", gone)
	}
	r.forgot("1")
	if put, gone, _ := r.next(now); len(put)+len(gone) != 0 {
		t.Errorf("after all: %v, %v", put, gone)
	}
	r.again()
	if put, _, _ := r.next(now); len(put) != 1 {
		t.Errorf("told again: %v", put)
	}
}

// probed is a real server whose answers a test decides.
func probed(t *testing.T) (port int, code *atomic.Int32, asked *atomic.Int32) {
	code, asked = new(atomic.Int32), new(atomic.Int32)
	code.Store(200)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		w.WriteHeader(int(code.Load()))
		fmt.Fprintf(w, "%s %s %s", r.Method, r.URL.Path, r.Header.Get("X-Who"))
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().(*net.TCPAddr).Port, code, asked
}

// Checks are made over real connections: a deployment's health waits for them,
// and one that fails has its task restarted by its policy.
func TestChecks(t *testing.T) {
	w := newWorld(t)
	a, end := w.agent(t)
	until(t, "the node registers", w.isReady)
	port, code, _ := probed(t)
	code.Store(503)
	service := webService(`,"Checks":[
		{"Name":"up","Type":"http","Path":"/up/${NOMAD_ALLOC_INDEX}","Header":{"X-Who":["check"]},"Interval":"1s","Timeout":"5s","CheckRestart":{"Limit":2,"Grace":"1ms"}},
		{"Name":"open","Type":"tcp","Interval":"1s","Timeout":"5s"}]`)
	al := withPorts(newAlloc(t, "service", mockTask("main", `"run_for":"100h"`, service, `,"RestartPolicy":{"Attempts":100000,"Interval":"1h","Delay":"1ms","Mode":"fail"}`), webNetwork,
		`,"Update":{"MaxParallel":1,"HealthCheck":"checks","MinHealthyTime":"1s","HealthyDeadline":"10m","ProgressDeadline":"20m"}`),
		berth.PortMapping{Label: "http", Value: port, HostIP: "127.0.0.1"})
	al.Name, al.DeploymentID = "job.g[7]", berth.DeploymentID{7}
	begin := time.Now()
	id := w.place(al)
	check := func(name string) op.CheckStatus {
		all, err := op.Call(t.Context(), a, op.AgentChecks, &op.AllocRef{AllocID: id})
		if err != nil {
			return op.CheckStatus{}
		}
		for _, s := range all.Results {
			if s.Check == name {
				return s
			}
		}
		return op.CheckStatus{}
	}
	var s op.CheckStatus
	until(t, "the check fails", func() bool { s = check("up"); return s.Status == "failure" && s.StatusCode == 503 })
	if s.Output != "GET /up/7 check" || s.Service != "web-7" || s.Group != "job.g[7]" || s.Task != "main" || s.Mode != "healthiness" || s.Timestamp == 0 {
		t.Errorf("%+v", s)
	}
	until(t, "the task is restarted", func() bool { return strings.Contains(w.events(id, "main"), "Restart Signaled") })
	until(t, "that is counted", func() bool { return strings.Contains(w.events(id, "main"), "Restarting") })
	if got := w.healthOf(id, begin); got != "none" {
		t.Errorf("health while a check fails: %s", got)
	}
	if got := w.sick("web-7"); got != "true" && got != "" { // it is away while its task is restarted
		t.Errorf("while a check fails the service is unhealthy: %s", got)
	}
	code.Store(204)
	until(t, "both checks pass", func() bool { return check("up").Status == "success" && check("open").Status == "success" })
	until(t, "the allocation is healthy", func() bool { return strings.HasPrefix(w.healthOf(id, begin), "healthy") })
	until(t, "the service is healthy", func() bool { return w.sick("web-7") == "false" })
	w.stop(id)
	until(t, "the allocation ends", func() bool { return w.status(id) == "complete" })
	if all, err := op.Call(t.Context(), a, op.AgentChecks, &op.AllocRef{AllocID: id}); err != nil || len(all.Results) != 0 {
		t.Errorf("%v, %v", all, err)
	}
	end()
}

// A check that names no task of its group restarts all of them.
func TestACheckOfTheGroupRestartsAllTasks(t *testing.T) {
	w := newWorld(t)
	_, end := w.agent(t)
	until(t, "the node registers", w.isReady)
	port, code, _ := probed(t)
	code.Store(503)
	forever := func(name string) string { // the check fails again as soon as the task has started again
		return mockTask(name, `"run_for":"100h"`, `,"RestartPolicy":{"Attempts":100000,"Interval":"1h","Delay":"1ms","Mode":"fail"}`)
	}
	service := webService(`,"Checks":[{"Name":"up","Type":"http","Path":"/","Interval":"1s","Timeout":"5s","CheckRestart":{"Limit":1,"Grace":"1ms"}}]`)
	al := withPorts(newAlloc(t, "service", forever("main")+","+forever("beside"), webNetwork, service), berth.PortMapping{Label: "http", Value: port, HostIP: "127.0.0.1"})
	al.Name = "job.g[0]"
	id := w.place(al)
	for _, name := range []string{"main", "beside"} {
		until(t, name+" is restarted", func() bool { return strings.Contains(w.events(id, name), "Restart Signaled") })
	}
	code.Store(200)
	w.stop(id)
	until(t, "the allocation ends", func() bool { return w.status(id) == "complete" })
	end()
}

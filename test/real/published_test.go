package real

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"berth/test/bed"
)

// A job file in the form of the years before groups had networks: ports in the
// resources of each task, services without a provider. Its tasks find their own
// ports by plain labels; its services are in Berth's registry, and a script in
// the task decides about their health.
func TestAJobFileAsItWasPublishedRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.agent("one", both)
	a.joined()
	listen := func(name string) string {
		return `task "` + name + `" {
		driver = "raw_exec"
		config {
		  command = "/bin/sh"
		  args    = ["-c", "env > $NOMAD_ALLOC_DIR/data/` + name + `; touch $NOMAD_TASK_DIR/well; exec sleep 1000"]
		}
		resources {
		  cpu    = 50
		  memory = 32
		  network {
			mbits = 10
			port "http" {}
		  }
		}
		service {
		  name = "` + name + `"
		  port = "http"
		  check {
			type     = "script"
			command  = "/bin/sh"
			args     = ["-c", "test -e $NOMAD_TASK_DIR/well && echo well"]
			interval = "1s"
			timeout  = "30s"
			check_restart {
			  limit = 2
			  grace = "10s"
			}
		  }
		}
	  }`
	}
	file := w.file("old.nomad", group("service", "old", listen("front"), listen("back")))
	warning := `services "front", "back" name no provider, so they are registered with provider = "nomad"`
	w.holds(a.good("job", "validate", file), warning, "resources.network.mbits has no effect")
	ran := a.berth("job", "run", "-detach", file)
	w.holds(ran.Err, warning)
	a.running("old")
	al := a.allocs("old")[0]
	var got struct {
		AllocatedResources struct {
			Tasks map[string]struct {
				Networks []struct {
					IP           string
					DynamicPorts []struct{ Value int }
				}
			}
		}
	}
	a.get("/v1/allocation/"+al.ID, &got)
	port := func(task string) string {
		nw := got.AllocatedResources.Tasks[task].Networks[0]
		return nw.IP + ":" + jsonText(t, nw.DynamicPorts[0].Value)
	}
	front, back := port("front"), port("back")
	if front == back {
		t.Fatalf("both tasks have %s", front)
	}
	w.until("the tasks have told their environment", func() string {
		return missing(a.berth("alloc", "fs", al.ID, "alloc/data/front").Out, "NOMAD_ADDR_http="+front+"\n") +
			missing(a.berth("alloc", "fs", al.ID, "alloc/data/front").Out, "NOMAD_ADDR_back_http="+back+"\n") +
			missing(a.berth("alloc", "fs", al.ID, "alloc/data/back").Out, "NOMAD_ADDR_http="+back+"\n")
	})
	w.holds(a.good("alloc", "status", al.ID), "front/http", front, "back/http")
	w.until("the service is registered", func() string { return missing(a.berth("service", "info", "back").Out, back) })
	w.until("its script passes", func() string {
		out := a.berth("alloc", "checks", al.ID).Out
		return missing(out, "success") + missing(out, "well")
	})
	if code := a.berth("job", "plan", file).Code; code != 0 {
		t.Errorf("the same file again would change something: %d", code)
	}
	// A script that fails has its task started again.
	a.good("alloc", "exec", "-task", "back", al.ID, "/bin/sh", "-c", "rm $NOMAD_TASK_DIR/well")
	w.until("the task was started again", func() string {
		for _, x := range a.allocs("old") {
			if x.ID == al.ID && x.TaskStates["back"].Restarts == 1 && x.TaskStates["front"].Restarts == 0 {
				return ""
			}
		}
		return bed.Got(a.berth("alloc", "status", al.ID).Out)
	})
	a.good("job", "stop", "-detach", "old")
	w.until("the services are gone", func() string {
		var list []json.RawMessage
		if _, err := a.try(http.MethodGet, "/v1/services", "", &list); err != nil {
			return err.Error()
		}
		if len(list) > 0 {
			return "there are some"
		}
		return ""
	})
}

// jsonText is a value as JSON has it.
func jsonText(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

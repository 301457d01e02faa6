package real

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// A collection takes what has ended from the servers and from the node's disk,
// and disturbs nothing that runs, also when the agent was dead while it
// happened or dies in its middle.
func TestACollection(t *testing.T) {
	for how, during := range map[string]func(*agent, func()){
		"undisturbed":                func(_ *agent, collect func()) { collect() },
		"the agent killed afterward": func(a *agent, collect func()) { collect(); a.again() },
		"the agent killed before":    func(a *agent, collect func()) { a.again(); collect() },
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			a := w.agent("one", both)
			a.joined()
			a.good("job", "run", w.file("web.nomad", web1))
			a.good("job", "run", w.file("stays.nomad", `
job "stays" {
  update { max_parallel = 0 }
  group "g" {
    count = 2
    task "main" {
      driver = "raw_exec"
      config {
        command = "/bin/sleep"
        args    = ["1000"]
      }
      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}`))
			gone, stays := a.settled("web", 2), a.settled("stays", 2)
			a.good("job", "stop", "web")
			a.settled("web", 0)
			during(a, func() {
				w.holds(a.good("system", "gc"), "deleted 1 job, 2 allocations")
			})
			w.until("the directories of what went are gone, and of nothing else", func() string {
				left, err := os.ReadDir(filepath.Join(a.dataDir, "alloc"))
				if err != nil {
					return err.Error()
				}
				for _, e := range left {
					if gone[e.Name()] != nil {
						return e.Name() + " is there"
					}
				}
				if len(left) < len(stays) {
					t.Fatalf("of what runs there are the directories %v", left)
				}
				return ""
			})
			if amiss := same(stays, w.tasks()); amiss != "" {
				t.Error(amiss)
			}
			if amiss := same(stays, a.settled("stays", 2)); amiss != "" {
				t.Error(amiss)
			}
			w.holds(a.good("system", "gc"), "found nothing to delete")
			if n := len(a.allocs("web")); n > 0 {
				t.Errorf("%d allocations of the job that went are known", n)
			}
			w.until("their supervisors have ended", func() string {
				for id := range gone {
					if pid := w.supervisors()[id]; pid != 0 {
						return fmt.Sprint(pid)
					}
				}
				return ""
			})
			a.again() // it takes up what it knows
			if amiss := same(stays, a.settled("stays", 2)); amiss != "" {
				t.Error(amiss)
			}
		})
	}
}

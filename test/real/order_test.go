package real

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Groups come up in order: the migration runs once, after the database and
// before the rest, and again in the next version. A task that waits for a
// variable says so in `alloc status`, and `job explain` says who waits for whom.
func TestGroupsComeInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.agent("one", both)
	a.joined()
	ran := filepath.Join(t.TempDir(), "ran")
	read := func() string {
		b, _ := os.ReadFile(ran) // not there yet: nothing ran
		return string(b)
	}
	text := func(version string) string {
		return `
job "shop" {
  update { min_healthy_time = "0s" }
  group "web" {
    ` + sh(`echo web `+version+` >>`+ran+`; while :; do sleep 0.1; done`) + `
  }
  group "migrate" {
    depends_on = ["group.db"]
    once       = "deployment"
    ` + sh(`echo migrate `+version+` >>`+ran) + `
  }
  group "db" {
    task "data" { # the database is healthy after this has ended
      driver = "raw_exec"
      lifecycle {
        hook = "prestart"
      }
      config {
        command = "/bin/sh"
        args    = ["-c", "echo db >>` + ran + `"]
      }
      template {
        data        = "{{ with nomadVar \"nomad/jobs/shop\" }}{{ .password }}{{ end }}"
        destination = "secrets/password"
      }
    }
    ` + sh(`while :; do sleep 0.1; done`) + `
  }
}`
	}
	a.good("job", "run", "-detach", w.file("shop.nomad", text("1")))
	w.until("the database waits for its variable", func() string {
		return missing(a.berth("job", "explain", "shop").Out, `waits for variable nomad/jobs/shop`)
	})
	w.holds(a.berth("job", "explain", "shop").Out, `waits for group "db" (0 of 1 are healthy)`, `waits for group "migrate" (0 of 1 have finished)`)
	all := a.allocs("shop")
	if len(all) != 1 || all[0].Name != "shop.db[0]" {
		t.Fatalf("placed: %+v", all)
	}
	w.holds(a.good("alloc", "status", all[0].ID), "Waiting for variable nomad/jobs/shop")
	a.good("var", "put", "nomad/jobs/shop", "password=p1")
	done := func(want string) {
		t.Helper()
		w.until("it came up in order", func() string {
			if got := read(); got != want {
				return "it ran: " + got
			}
			return missing(a.good("deployment", "list"), "successful")
		})
	}
	done("db\nmigrate 1\nweb 1\n")
	// The database is not touched by the next version.
	a.good("job", "run", "-detach", w.file("shop.nomad", text("2")))
	w.until("the next version runs", func() string { return missing(read(), "web 2") })
	if got := read(); got != "db\nmigrate 1\nweb 1\nmigrate 2\nweb 2\n" {
		t.Errorf("it ran in the order %s", strings.ReplaceAll(got, "\n", ", "))
	}
}

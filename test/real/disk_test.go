package real

import (
	"testing"

	"berth/test/bed"
)

// The replacement of an allocation whose ephemeral_disk is sticky goes to the same
// node and has the data; with migrate it has it also on another node, when its own
// is drained. One whose node is gone starts without, and its history says so.
func TestDataOfTheEphemeralDiskStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.agent("one", both)
	a.joined()
	// Each instance adds a line to its data, and shows all of them.
	job := func(version string) string {
		return w.file("db.nomad", `job "db" {
  group "g" {
    ephemeral_disk {
      sticky  = true
      migrate = true
    }
    task "app" {
      driver = "raw_exec"
      env { VERSION = "`+version+`" }
      config {
        command = "/bin/sh"
        args    = ["-c", "echo $VERSION >> $NOMAD_ALLOC_DIR/data/lines; echo $VERSION >> local/lines; cat $NOMAD_ALLOC_DIR/data/lines local/lines; echo whole; exec sleep 1000"]
      }
    }
  }
}`)
	}
	shows := func(on *agent, want string) {
		t.Helper()
		w.until("the task shows "+want, func() string {
			r := a.berth("alloc", "logs", "-job", "db")
			if r.Out != want {
				return bed.Got(r.Out + r.Err)
			}
			return ""
		})
	}
	a.good("job", "run", "-detach", job("v1"))
	shows(a, "v1\nv1\nwhole\n")
	a.good("job", "run", "-detach", job("v2"))
	shows(a, "v1\nv2\nv1\nv2\nwhole\n")

	b := w.agent("two", "client {\n  enabled = true\n  servers = [\""+a.rpc+"\"]\n}")
	b.joined()
	a.good("node", "drain", "-enable", "-detach", "-yes", a.nodeID)
	shows(b, "v1\nv2\nv2\nv1\nv2\nv2\nwhole\n")
}

// A node that is lost takes the data with it: the replacement starts without, and
// its task's history says why.
func TestDataOfALostNodeIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.agent("one", both, "server {\n  min_heartbeat_ttl = \"1s\"\n  heartbeat_grace   = \"15s\"\n}")
	a.joined()
	b := w.agent("two", "client {\n  enabled = true\n  servers = [\""+a.rpc+"\"]\n}")
	b.joined()
	a.good("node", "eligibility", "-disable", a.nodeID)
	a.good("job", "run", "-detach", w.file("db.nomad", `job "db" {
  group "g" {
    ephemeral_disk {
      sticky  = true
      migrate = true
    }
    task "app" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo x >> $NOMAD_ALLOC_DIR/data/lines; cat $NOMAD_ALLOC_DIR/data/lines; echo whole; exec sleep 1000"]
      }
    }
  }
}`))
	a.running("db")
	old := a.allocs("db")[0].ID
	b.Kill()
	a.good("node", "eligibility", "-enable", a.nodeID)
	w.until("the replacement runs", func() string {
		for _, al := range a.allocs("db") {
			if al.ID != old && al.ClientStatus == "running" {
				return ""
			}
		}
		return "it does not"
	})
	for _, al := range a.allocs("db") {
		if al.ID != old {
			w.holds(a.good("alloc", "status", al.ID), "Starts without the data of allocation "+old+": node two is down")
			w.until("it shows its own data", func() string {
				if r := a.berth("alloc", "logs", al.ID); r.Out != "x\nwhole\n" {
					return bed.Got(r.Out + r.Err)
				}
				return ""
			})
		}
	}
}

package real

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"golang.org/x/sys/unix"

	"berth/test/bed"
)

// busy is a job whose task uses a processor and some memory.
const busy = `job "busy" {
  group "g" {
    task "app" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "while :; do :; done"]
      }
    }
  }
}`

// What a node answers about itself is the same whoever is asked: the node, the
// server, by the command line, by Nomad's Go client, and as metrics.
func TestFiguresOfANode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.agent("server", "server { enabled = true bootstrap_expect = 1 }")
	c := w.agent("client", "client { enabled = true }", fmt.Sprintf("client { servers = [%q] }\ntelemetry { publish_allocation_metrics = true }", s.rpc))
	c.joined()
	s.good("job", "run", "-detach", w.file("busy.nomad", busy))
	s.running("busy")
	id := s.allocs("busy")[0].ID
	for _, a := range []*agent{s, c} {
		w.holds(a.good("node", "status", "-stats", c.nodeID), "Host Resource Utilization", "CPU Stats", "cpu0", "Memory Stats", "Disk Stats", "Inodes Percent")
		w.holds(a.good("alloc", "status", "-stats", id), "/100 MHz", "Memory Stats", "RSS", "CPU Stats", "User Mode")
		host, err := a.nomad().Nodes().Stats(c.nodeID, nil)
		if err != nil || host.Memory.Total == 0 || len(host.CPU) == 0 || host.AllocDirStats.Size == 0 || host.Uptime == 0 {
			t.Errorf("%+v, %v", host, err)
		}
		w.until("the task is busy", func() string {
			u, err := a.nomad().Allocations().Stats(&nomad.Allocation{ID: id}, nil)
			switch {
			case err != nil:
				return err.Error()
			case u.Tasks["app"] == nil || len(u.Tasks["app"].Pids) == 0 || u.ResourceUsage.MemoryStats.RSS == 0:
				return fmt.Sprintf("%+v", u)
			case u.ResourceUsage.CpuStats.Percent == 0 || u.Tasks["app"].ResourceUsage.CpuStats.TotalTicks == 0:
				return fmt.Sprintf("%+v", u.ResourceUsage.CpuStats)
			}
			return ""
		})
	}
	r, err := bed.Call(t.Context(), http.MethodGet, c.addr+"/v1/metrics?format=prometheus", "")
	if err != nil {
		t.Fatal(err)
	}
	w.holds(r.Text, "nomad_client_host_memory_total{", "nomad_client_host_cpu_idle{cpu=\"cpu0\"", "nomad_client_host_disk_used_percent{", "nomad_client_uptime{", "nomad_client_allocations_running{",
		fmt.Sprintf(`nomad_client_allocs_cpu_allocated{alloc_id=%q,job="busy",namespace="default",task="app",task_group="g"} 100`, id), "nomad_client_allocs_memory_rss{alloc_id=")
	if r, err := bed.Call(t.Context(), http.MethodGet, s.addr+"/v1/metrics", ""); err != nil || strings.Contains(r.Text, "nomad.client.allocs.") {
		t.Errorf("a server has metrics of tasks: %v", err)
	}
	// Without a node, there is nothing to tell.
	if r := s.berth("node", "meta", "read"); r.Code == 0 || !strings.Contains(r.Err, "node_id: missing") {
		t.Errorf("%v", r)
	}
	if r := s.berth("node", "status", "-stats"); r.Code == 0 || !strings.Contains(r.Err, "-stats needs a node") {
		t.Errorf("%v", r)
	}
}

// A job waits for metadata that a node gets while its agent runs, and the node
// keeps it when its agent is killed.
func TestMetadataOfANode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.agent("server", "server { enabled = true bootstrap_expect = 1 }")
	c := w.agent("client", "client { enabled = true }", fmt.Sprintf("client {\n servers = [%q]\n meta { zone = \"a\" }\n}", s.rpc))
	c.joined()
	s.good("job", "run", "-detach", w.file("web.nomad", `job "web" {
  constraint {
    attribute = "${meta.rack}"
    value     = "r1"
  }
  group "g" {
    task "app" {
      driver = "raw_exec"
      config {
        command = "/bin/sleep"
        args    = ["1000"]
      }
    }
  }
}`))
	w.until("the job waits", func() string {
		var evals []struct{ Status string }
		s.get("/v1/job/web/evaluations", &evals)
		for _, e := range evals {
			if e.Status == "blocked" {
				return ""
			}
		}
		return fmt.Sprint(evals)
	})
	w.holds(s.good("node", "meta", "apply", "-node-id", c.nodeID, "-unset", "zone", "rack=r1"), "Node metadata updated")
	s.running("web")
	c.again()
	const want = "All Meta\nrack = r1\n\nDynamic Meta\nrack = r1\nzone = <removed>\n\nStatic Meta\nzone = a\n"
	for name, got := range map[string]string{"server": s.good("node", "meta", "read", "-node-id", c.nodeID[:8]), "client": c.good("node", "meta", "read")} {
		if got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
	c.joined()
	n, _, err := s.nomad().Nodes().Info(c.nodeID, nil)
	if err != nil || n.Meta["rack"] != "r1" || n.Meta["zone"] != "" {
		t.Errorf("%v, %v", n.Meta, err)
	}
	m, err := c.nomad().Nodes().Meta().Apply(&nomad.NodeMetaApplyRequest{Meta: map[string]*string{"rack": nil, "zone": new("b")}}, nil)
	if err != nil || len(m.Meta) != 1 || m.Meta["zone"] != "b" || len(m.Dynamic) != 1 || m.Static["zone"] != "a" {
		t.Errorf("%+v, %v", m, err)
	}
	if r := s.berth("node", "meta", "apply", "-node-id", c.nodeID, "a b=c"); r.Code == 0 || !strings.Contains(r.Err, "not a valid key") {
		t.Errorf("%v", r)
	}
}

// Directories of ended allocations go when the disk is too full, and when
// somebody asks.
func TestDirectoriesOnAFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, for a disk of its own")
	}
	t.Parallel()
	w := newWorld(t)
	disk := filepath.Join(w.Dir, "disk")
	if err := os.Mkdir(disk, 0o711); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=32m,mode=0711"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(disk, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	a := w.agent("one", both, fmt.Sprintf("client {\n alloc_dir = \"%s/allocs\"\n gc_interval = \"1s\"\n gc_parallel_destroys = 1\n gc_disk_usage_threshold = 40\n}", disk))
	a.joined()
	job := func(name string, mib int) (id string) {
		a.good("job", "run", "-detach", w.file(name+".nomad", fmt.Sprintf(`job %q {
  type = "batch"
  group "g" {
    task "app" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "head -c %d /dev/zero > $NOMAD_ALLOC_DIR/data/zeros"]
      }
    }
  }
}`, name, mib<<20)))
		w.until(name+" has ended", func() string {
			all := a.allocs(name)
			if len(all) != 1 || all[0].ClientStatus != "complete" {
				return fmt.Sprint(all)
			}
			id = all[0].ID
			return ""
		})
		return id
	}
	there := func(id string) bool { _, err := os.Stat(filepath.Join(disk, "allocs", id)); return err == nil }
	first, second := job("first", 6), job("second", 1)
	if !there(first) || !there(second) {
		t.Error("what has room is gone")
	}
	third := job("third", 10)
	w.until("there is room", func() string {
		if there(first) {
			return "the oldest is there"
		}
		return ""
	})
	w.until("it is enough", func() string {
		var st unix.Statfs_t
		if err := unix.Statfs(disk, &st); err != nil {
			return err.Error()
		}
		if used := 100 * (st.Blocks - st.Bfree) / st.Blocks; used > 40 {
			return fmt.Sprintf("%d %% in use", used)
		}
		return ""
	})
	if !there(second) || !there(third) {
		t.Error("more went than had to")
	}
	c := a.nomad()
	if err := c.Allocations().GC(&nomad.Allocation{ID: second}, nil); err != nil || there(second) || !there(third) {
		t.Errorf("%v", err)
	}
	if err := c.Nodes().GC(a.nodeID, nil); err != nil || there(third) {
		t.Errorf("%v", err)
	}
	if r := a.berth("alloc", "logs", third); r.Code == 0 || !strings.Contains(r.Err, "nothing is kept") {
		t.Errorf("%v", r)
	}
}

package real

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	nomad "github.com/hashicorp/nomad/api"

	"berth/test/bed"
)

// buildPlugins builds the examples of plugins into a directory.
func buildPlugins(t *testing.T, w *world) string {
	t.Helper()
	dir := filepath.Join(w.Dir, "plugins")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"shell", "fakegpu"} {
		if err := bed.Program(dir, "berth/examples/plugins/"+name); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// pluginProcess returns the process of a plugin, 0 while there is none.
func pluginProcess(dir, name string) int {
	for _, p := range bed.AllProcesses() {
		if line, err := os.ReadFile("/proc/" + strconv.Itoa(p.PID) + "/cmdline"); err == nil && string(line) == filepath.Join(dir, name)+"\x00" {
			return p.PID
		}
	}
	return 0
}

// An external driver and a device plugin are used by a job; plugins and agent are
// killed meanwhile, and the task goes on.
func TestPlugins(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := buildPlugins(t, w)
	gpus := filepath.Join(w.Dir, "gpus")
	if err := os.Mkdir(gpus, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"a": "fine", "b": "fine", "c": "broken"} {
		if err := os.WriteFile(filepath.Join(gpus, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	a := w.agent("one", both, `
plugin_dir = "`+dir+`"
plugin "fakegpu" {
  config { directory = "`+gpus+`" }
}
plugin "shell" {
  config { shell = "/bin/sh" }
}
`)
	a.joined()
	c := a.nomad()
	n, _, err := c.Nodes().Info(a.nodeID, nil)
	if err != nil || n.Drivers["shell"] == nil || !n.Drivers["shell"].Healthy || n.Attributes["driver.shell.path"] != "/bin/sh" {
		t.Fatalf("%+v, %v", n.Drivers["shell"], err)
	}
	if d := n.NodeResources.Devices; len(d) != 1 || d[0].Vendor != "example" || len(d[0].Instances) != 3 {
		t.Fatalf("%+v", d)
	}
	a.good("job", "run", "-detach", w.file("gpu.nomad", `job "gpu" {
  group "g" {
    task "app" {
      driver = "shell"
      config {
        script = "trap 'echo hup' HUP; sleep 1000 & echo began with $FAKEGPU_VISIBLE and $EXTRA; while :; do wait; done"
        env { EXTRA = "more" }
      }
      resources {
        cpu    = 50
        memory = 32
        device "example/gpu" {
          count = 2
          constraint {
            attribute = "${device.attr.memory}"
            operator  = ">="
            value     = "16 GiB"
          }
        }
      }
    }
  }
}`))
	a.running("gpu")
	id := a.allocs("gpu")[0].ID
	says := func(text string, times int) {
		t.Helper()
		w.until("the task has said "+text, func() string {
			if out := a.berth("alloc", "logs", id).Out; strings.Count(out, text) != times {
				return bed.Got(out)
			}
			return ""
		})
	}
	says("began with a,b and more", 1)
	if r := a.berth("alloc", "exec", id, "/bin/echo", "beside"); r.Code != 0 || !strings.Contains(r.Out, "beside") {
		t.Errorf("%v", r)
	}
	if s, err := c.Nodes().Stats(a.nodeID, nil); err != nil || len(s.DeviceStats) != 1 || s.DeviceStats[0].InstanceStats["a"].Summary.IntNumeratorVal == nil {
		t.Errorf("%+v, %v", s, err)
	}

	// Both plugins are killed: others come, and the task does not notice.
	tasks := w.tasks()
	for _, name := range []string{"shell", "fakegpu"} {
		pid := pluginProcess(dir, name)
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		w.until("the plugin "+name+" runs again", func() string {
			if now := pluginProcess(dir, name); now == 0 || now == pid {
				return "it does not"
			}
			return ""
		})
	}
	w.until("the task gets signals again", func() string {
		if r := a.berth("alloc", "signal", "-s", "SIGHUP", id); r.Code != 0 {
			return r.String()
		}
		return ""
	})
	w.until("it says so", func() string {
		if out := a.berth("alloc", "logs", id).Out; !strings.Contains(out, "hup") {
			return bed.Got(out)
		}
		return ""
	})
	// A second task that needs more than what is left waits.
	a.good("job", "run", "-detach", w.file("more.nomad", `job "more" {
  type = "batch"
  group "g" {
    task "app" {
      driver = "shell"
      config { script = "true" }
      resources {
        device "gpu" { count = 1 }
      }
    }
  }
}`))
	w.until("it is explained", func() string {
		if out := a.berth("job", "explain", "more").Out; !strings.Contains(out, "devices") {
			return bed.Got(out)
		}
		return ""
	})

	// The agent is killed: its plugins end, and the next one's find the task.
	a.Kill()
	w.until("the plugins end with the agent", func() string {
		if pluginProcess(dir, "shell") != 0 || pluginProcess(dir, "fakegpu") != 0 {
			return "they do not"
		}
		return ""
	})
	a.start()
	a.joined()
	a.running("gpu")
	says("began with", 1)
	if s := same(tasks, w.tasks()); s != "" {
		t.Error(s)
	}
	a.good("job", "stop", "-detach", "gpu")
	c = a.nomad()
	w.until("the other gets the devices", func() string {
		l, _, err := c.Jobs().Allocations("more", false, nil)
		if err != nil || len(l) == 0 || l[0].ClientStatus != nomad.AllocClientStatusComplete {
			return "it does not"
		}
		return ""
	})
	// What the schema does not know is told.
	a.good("job", "run", "-detach", w.file("wrong.nomad", `job "wrong" {
  type = "batch"
  group "g" {
    reschedule { attempts = 0 }
    restart { attempts = 0 }
    task "app" {
      driver = "shell"
      config { skript = "true" }
    }
  }
}`))
	w.until("the task says what is wrong", func() string {
		l := a.allocs("wrong")
		if len(l) == 0 {
			return "there is no allocation"
		}
		if out := a.berth("alloc", "status", l[0].ID).Out; !strings.Contains(out, `"script" is required`) {
			return bed.Got(out)
		}
		return ""
	})
}

// A program that others may write is not run.
func TestPluginsThatOthersMayWrite(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := filepath.Join(w.Dir, "plugins")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "evil")
	if err := os.WriteFile(path, []byte("#!/bin/sh\ntouch "+w.Dir+"/ran\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, mend := range map[string]func() error{
		"file":      func() error { return os.Chmod(path, 0o777) },
		"directory": func() error { return os.Chmod(dir, 0o777) },
	} {
		if err := mend(); err != nil {
			t.Fatal(err)
		}
		a := w.unstarted("refused-"+name, both, "plugin_dir = \""+dir+"\"")
		if err := a.Start(); err != nil {
			t.Fatal(err)
		}
		<-a.Done()
		w.holds(a.AllSaid(), "others may write")
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(w.Dir + "/ran"); err == nil {
		t.Error("it ran")
	}
}

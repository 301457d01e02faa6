package real

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	nomad "github.com/hashicorp/nomad/api"

	"berth/internal/failpoint"
	"berth/test/bed"
)

// csiWorld is a cluster of two nodes with the example plugin on both.
type csiWorld struct {
	*world
	a, b     *agent
	provider string // its directory
	program  string // of the plugin
}

// csiOptions are what a test wants of its cluster.
type csiOptions struct {
	plugin []string // more arguments of the plugin
	env    string   // one variable of the agent "one", which is the server as well
	losing bool     // nodes are soon down, and then soon given up
}

// newCSIWorld makes the cluster.
func newCSIWorld(t *testing.T, o csiOptions) *csiWorld {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	w := &csiWorld{world: newWorld(t)}
	w.provider = filepath.Join(w.Dir, "provider")
	w.program = filepath.Join(w.Dir, "disk")
	if err := bed.Program(w.program, "berth/examples/csi/plugin"); err != nil {
		t.Fatal(err)
	}
	config := []string{both}
	if o.losing {
		config = append(config, "server {\n  min_heartbeat_ttl = \"1s\"\n  heartbeat_grace = \"10s\"\n  csi_volume_claim_gc_threshold = \"1s\"\n}")
	}
	w.a = w.unstarted("one", config...)
	if o.env == "" {
		w.a.start()
	} else {
		w.a.start(o.env)
	}
	w.a.joined()
	w.b = w.agent("two", "client {\n  enabled = true\n  servers = [\""+w.a.rpc+"\"]\n}")
	w.b.joined()
	t.Cleanup(func() {
		b, _ := os.ReadFile("/proc/self/mountinfo")
		for line := range strings.Lines(string(b)) {
			if f := strings.Fields(line); strings.HasPrefix(f[4], w.Dir+"/") && strings.Contains(f[4], "/client/csi/") {
				t.Errorf("%s is left mounted", f[4])
				_ = syscall.Unmount(f[4], syscall.MNT_DETACH)
			}
		}
	})
	w.plugs(o.plugin)
	return w
}

// plugs runs the plugin on both nodes, and waits until it is well. Its job is that of
// the examples, for the place of the program and of the provider.
func (w *csiWorld) plugs(more []string) {
	w.t.Helper()
	text := w.example("plugin.nomad.hcl")
	for old, by := range map[string]string{
		"/usr/local/bin/berth-disk": w.program, "/srv/disk": w.provider, "${node.unique.id}\"": "${node.unique.name}\"" + quoted(more),
		"group \"plugin\" {": "group \"plugin\" {\n    restart {\n      attempts = 100\n      interval = \"1h\"\n      delay    = \"100ms\"\n    }\n",
	} {
		if !strings.Contains(text, old) {
			w.t.Fatalf("the example has no %q", old)
		}
		text = strings.ReplaceAll(text, old, by)
	}
	w.a.good("job", "run", "-detach", w.file("disk.nomad", text))
	c := w.a.nomad()
	w.until("the plugin is well on both nodes", func() string {
		p, _, err := c.CSIPlugins().Info("disk", nil)
		if err != nil || p.NodesHealthy != 2 || p.ControllersHealthy != 2 {
			return "it is not"
		}
		return ""
	})
}

// quoted are more elements of a list of HCL.
func quoted(list []string) (out string) {
	for _, x := range list {
		out += ", \"" + x + "\""
	}
	return out
}

// example is a file of the examples.
func (w *csiWorld) example(name string) string {
	w.t.Helper()
	b, err := os.ReadFile("../../examples/csi/" + name)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(b)
}

// creates creates the volume of the examples.
func (w *csiWorld) creates() {
	w.t.Helper()
	w.holds(w.a.good("volume", "create", w.file("data.hcl", w.example("data.volume.hcl"))), "Created external volume data with ID data")
}

// runs runs the job of the examples that uses the volume, on a node.
func (w *csiWorld) runs(node string) {
	w.t.Helper()
	w.a.good("job", "run", "-detach", w.file("counter.nomad", onNode(w.example("counter.nomad.hcl"), "counter", node)))
}

// onNode adds a constraint to a job, before its group: it runs on one of the nodes.
func onNode(job, group, node string) string {
	return strings.Replace(job, "  group \""+group+"\" {", `  constraint {
    attribute = "${node.unique.name}"
    operator  = "set_contains_any"
    value     = "`+node+`"
  }

  group "`+group+`" {`, 1)
}

// started waits until the job has started so many times with the data of all
// starts before.
func (w *csiWorld) started(n int) {
	w.t.Helper()
	w.until("the job has started with its data", func() string {
		b, err := os.ReadFile(filepath.Join(w.provider, "volumes", "data", "data", "starts"))
		if err != nil || string(b) != strings.Repeat("start\n", n) {
			return string(b) + w.a.berth("job", "status", "counter").Out + w.a.berth("volume", "status", "-type", "csi", "data").Out
		}
		return ""
	})
}

// did waits until what the provider changed is exactly this.
func (w *csiWorld) did(want ...string) {
	w.t.Helper()
	w.until("the provider has done "+strings.Join(want, ", "), func() string {
		b, _ := os.ReadFile(filepath.Join(w.provider, "log"))
		if string(b) != strings.Join(want, "\n")+"\n" {
			return bed.Got(string(b))
		}
		return ""
	})
}

// A CSI volume moves with its allocation: each call is made once and in order,
// whatever is killed with kill -9 on the way, and at the end nothing is left.
func TestACSIVolumeMovesWithItsAllocation(t *testing.T) {
	t.Parallel()
	w := newCSIWorld(t, csiOptions{})
	w.creates()
	w.runs("one")
	w.started(1)
	log := []string{"create data", "attach data one", "stage data one", "mount data one"}
	w.did(log...)
	vol, _, err := w.a.nomad().CSIVolumes().Info("data", nil)
	if err != nil || len(vol.WriteAllocs) != 1 || vol.AccessMode != nomad.CSIVolumeAccessModeSingleNodeWriter || !vol.Schedulable || vol.ExternalID != "data" {
		t.Fatalf("%+v, %v", vol, err)
	}
	if r := w.a.berth("volume", "delete", "-type", "csi", "data"); r.Code == 0 || !strings.Contains(r.Err, "is claimed by allocation") {
		t.Errorf("%v", r)
	}

	w.runs("two")
	w.started(2)
	log = append(log, "unmount data one", "unstage data one", "detach data one", "attach data two", "stage data two", "mount data two")
	w.did(log...)

	// The agents, the leader and the plugins are killed, and the volume goes back.
	for _, al := range w.a.allocs("disk") {
		for _, pid := range w.tasks()[al.ID] {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended: another is a thread of it
		}
	}
	w.b.Kill()
	w.runs("one")
	w.a.again()
	w.b.start()
	w.b.joined()
	w.started(3)
	log = append(log, "unmount data two", "unstage data two", "detach data two", "attach data one", "stage data one", "mount data one")
	w.did(log...)

	w.a.good("job", "stop", "-purge", "counter")
	w.until("the volume is deleted", func() string {
		if r := w.a.berth("volume", "delete", "-type", "csi", "data"); r.Code != 0 {
			return bed.Got(r.Err)
		}
		return ""
	})
	w.did(append(log, "unmount data one", "unstage data one", "detach data one", "delete data")...)
	w.holds(w.a.good("volume", "status", "-type", "csi"), "No CSI volumes")
}

// If an agent or the leader is killed at a step of mounting, unmounting, attaching or detaching, the
// next finishes what it began: nothing is done twice.
func TestACSIVolumeMovesThoughAgentAndLeaderAreKilledAtEachStep(t *testing.T) {
	t.Parallel()
	points := filepath.Join(t.TempDir(), "points")
	if err := os.WriteFile(points, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w := newCSIWorld(t, csiOptions{env: failpoint.Env + "=@" + points})
	w.creates()
	log, on := []string{"create data"}, ""
	for i, point := range []string{
		"csi/recorded", "csi/unpublished", "csi/staged", "csi/unstaged", "csi/published", "csi-claim/taken", "csi-claim/releasing", "csi-claim/node-detached",
	} {
		to := "one"
		if on == to {
			to = "two"
		}
		if err := os.WriteFile(points, []byte(point+"=exit"), 0o600); err != nil {
			t.Fatal(err)
		}
		w.runs(to)
		w.until("the agent is killed at "+point, func() string {
			if w.a.Running() {
				return bed.Got(w.a.berth("volume", "status", "data").Out)
			}
			return ""
		})
		if w.a.ExitCode() != failpoint.ExitCode {
			t.Fatalf("%s: it ended with %d", point, w.a.ExitCode())
		}
		if err := os.WriteFile(points, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		w.a.start(failpoint.Env + "=@" + points)
		w.a.joined()
		w.started(i + 1)
		if on != "" {
			log = append(log, "unmount data "+on, "unstage data "+on, "detach data "+on)
		}
		log = append(log, "attach data "+to, "stage data "+to, "mount data "+to)
		w.did(log...)
		on = to
	}
	w.a.good("job", "stop", "-purge", "counter")
	w.until("the volume is deleted", func() string { return w.a.berth("volume", "delete", "data").Err })
	w.did(append(log, "unmount data "+on, "unstage data "+on, "detach data "+on, "delete data")...)
}

// The plugin does not answer any more, so neither node nor controller gives the
// volume back. An operator gives it up, and when the plugin is there again the node
// unmounts what it still has.
func TestAnOperatorGivesUpACSIVolume(t *testing.T) {
	t.Parallel()
	w := newCSIWorld(t, csiOptions{})
	w.creates()
	w.runs("two")
	w.started(1)
	refused := func(text string, args ...string) {
		t.Helper()
		if r := w.a.berth(args...); r.Code == 0 || !strings.Contains(r.Err, text) {
			t.Errorf("%q: %v; want %q", args, r, text)
		}
	}
	refused("is used by allocation", "volume", "detach", "-force", "data", w.b.nodeID)
	refused("is claimed by allocation", "volume", "deregister", "-force", "data")
	w.a.good("job", "stop", "-purge", "disk")
	c := w.a.nomad()
	w.until("the plugin is gone", func() string {
		list, _, err := c.CSIPlugins().List(nil)
		if err != nil || len(list) > 0 {
			return "there are plugins"
		}
		return ""
	})
	w.a.good("job", "stop", "-purge", "counter")
	w.claimIs("releasing")
	w.a.good("volume", "detach", "data", w.b.nodeID)
	w.claimIs("node-detached")
	refused("is claimed by allocation", "volume", "deregister", "data")
	w.a.good("volume", "detach", "-force", "data", w.b.nodeID)
	w.a.good("volume", "deregister", "data")
	log := []string{"create data", "attach data two", "stage data two", "mount data two"}
	w.did(log...)
	w.plugs(nil)
	w.did(append(log, "unmount data two", "unstage data two")...)
}

// claimIs waits until the only claim on the volume has a state.
func (w *csiWorld) claimIs(state string) {
	w.t.Helper()
	w.until("the claim is "+state, func() string {
		var v struct{ Claims []struct{ State string } }
		w.a.get("/v1/volume/csi/data", &v)
		if len(v.Claims) != 1 || v.Claims[0].State != state {
			return bed.Got(w.a.berth("volume", "status", "data").Out)
		}
		return ""
	})
}

// A lost node gives up its volume after a while, and the replacement has the data.
// When the node is back, it unmounts what it still has.
func TestALostNodeGivesUpItsCSIVolume(t *testing.T) {
	t.Parallel()
	w := newCSIWorld(t, csiOptions{losing: true})
	w.creates()
	w.a.good("node", "eligibility", "-disable", w.a.nodeID)
	w.runs("one,two")
	w.started(1)
	w.b.Kill()
	w.a.good("node", "eligibility", "-enable", w.a.nodeID)
	w.started(2)
	log := []string{"create data", "attach data two", "stage data two", "mount data two", "detach data two", "attach data one", "stage data one", "mount data one"}
	w.did(log...)
	w.b.start()
	w.b.joined()
	w.did(append(log, "unmount data two", "unstage data two")...)
	w.a.good("job", "stop", "-purge", "counter")
	w.until("the volume is free", func() string { return w.a.berth("volume", "delete", "-type", "csi", "data").Err })
}

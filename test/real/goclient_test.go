package real

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
)

// watched is a job whose tasks end only when they are told to, with a service that
// has a check.
const watched = `job "watched" {
  group "g" {
    network {
      port "http" {}
    }
    service {
      name     = "watched"
      port     = "http"
      provider = "nomad"
      check {
        type     = "tcp"
        interval = "1s"
        timeout  = "1s"
      }
    }
    task "app" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "trap 'echo told' USR1; echo ready; while :; do /bin/sleep 0.05; done"]
      }
    }
  }
}`

// What Nomad's Go client asks of an agent about its allocations: checks, signals,
// restarts, collection.
func TestGoClientAllocations(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.agent("one", both)
	a.joined()
	a.good("job", "run", "-detach", w.file("watched.nomad", watched))
	a.running("watched")
	id := a.allocs("watched")[0].ID
	c := a.nomad()
	allocs := c.Allocations()
	one, _, err := allocs.Info(id, nil)
	if err != nil {
		t.Fatal(err)
	}

	w.until("the check was made", func() string {
		got, err := allocs.Checks(id, nil)
		if err != nil {
			return err.Error()
		}
		for _, s := range got {
			if s.Check == "" || s.Service != "watched" || s.Status == "pending" {
				return "it is pending"
			}
			return ""
		}
		return "there is none"
	})

	a.prints("ready\n", id)
	if err := allocs.Signal(one, nil, "app", "SIGUSR1"); err != nil {
		t.Error(err)
	}
	a.prints("ready\ntold\n", id)
	if err := allocs.Signal(one, nil, "app", "SIGNONE"); err == nil || !strings.Contains(err.Error(), "SIGNONE") {
		t.Errorf("a signal that does not exist: %v", err)
	}
	if err := allocs.RestartAllTasks(one, nil); err != nil {
		t.Error(err)
	}
	w.until("the task runs again", func() string {
		got, _, err := allocs.Info(id, nil)
		if err != nil || got.TaskStates["app"].Restarts == 0 || got.TaskStates["app"].State != "running" {
			return "it does not"
		}
		return ""
	})

	// What runs is not collected; what has ended is.
	dead := &nomad.Allocation{ID: id}
	if err := allocs.GC(dead, nil); err == nil {
		t.Error("an allocation that runs was collected")
	}
	a.good("job", "stop", "-detach", "watched")
	w.until("the allocation is collected", func() string {
		// It asks what Allocations.GC asks, but wants no body, so that it cannot
		// read the answer.
		_ = c.Nodes().GcAlloc(id, nil)
		if _, err := os.Stat(filepath.Join(a.dataDir, "alloc", id)); !os.IsNotExist(err) {
			return fmt.Sprintf("the directory is there: %v", err)
		}
		return ""
	})
}

// What Nomad's Go client asks of an agent about itself, and of its node's drain.
func TestGoClientAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.agent("one", both, "enable_debug = true")
	a.joined()
	for name, want := range map[string]string{"name": "one", "datacenter": "dc1", "region": "global"} {
		c := a.nomad().Agent() // a client keeps what it read
		read := map[string]func() (string, error){"name": c.NodeName, "datacenter": c.Datacenter, "region": c.Region}[name]
		if got, err := read(); err != nil || !strings.HasPrefix(got, want) {
			t.Errorf("the %s is %q, %v", name, got, err)
		}
	}
	c := a.nomad()
	if got, err := c.Agent().CPUProfile(nomad.PprofOptions{Seconds: 1}, nil); err != nil || len(got) == 0 {
		t.Errorf("a profile of %d bytes, %v", len(got), err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, a.addr+"/v1/status/leader", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := c.Raw().Do(req); err != nil || got.StatusCode != http.StatusOK {
		t.Errorf("%+v %v", got, err)
	} else {
		got.Body.Close()
	}
	intro, _, err := c.ACLIdentity().CreateClientIntroductionToken(&nomad.ACLIdentityClientIntroductionTokenRequest{NodeName: "next"}, nil)
	if err != nil || strings.Count(intro.JWT, ".") != 2 {
		t.Errorf("%+v %v", intro, err)
	}

	servers, err := c.Status().Peers()
	if err != nil || len(servers) != 1 {
		t.Fatal(servers, err)
	}
	if err := c.Operator().RaftTransferLeadershipByAddress(servers[0], nil); err != nil {
		t.Errorf("it leads already: %v", err)
	}
	if err := c.Operator().RaftTransferLeadershipByAddress("192.0.2.1:4647", nil); err == nil || !strings.Contains(err.Error(), `address "192.0.2.1:4647" was not found in the Raft configuration`) {
		t.Errorf("an address of nobody: %v", err)
	}

	a.good("job", "run", "-detach", w.file("watched.nomad", watched))
	a.running("watched")
	res, err := c.Nodes().UpdateDrainOpts(a.nodeID, &nomad.DrainOptions{DrainSpec: &nomad.DrainSpec{Deadline: -1}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var said []string
	for m := range c.Nodes().MonitorDrain(ctx, a.nodeID, res.EvalCreateIndex, false) {
		if said = append(said, m.Message); m.Level == nomad.MonitorMsgLevelError {
			t.Errorf("an error: %s", m.Message)
		}
	}
	if !slices.ContainsFunc(said, func(s string) bool {
		return strings.Contains(s, "Drain complete for node")
	}) {
		t.Errorf("what was said of the drain: %q", said)
	}
}

// A host volume is created, registered, claimed and deleted by Nomad's Go client.
func TestGoClientHostVolumes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.agent("one", both)
	a.joined()
	c := a.nomad()
	volumes, claims := c.HostVolumes(), c.TaskGroupHostVolumeClaims()
	caps := []*nomad.HostVolumeCapability{{AttachmentMode: nomad.HostVolumeAttachmentModeFilesystem, AccessMode: nomad.HostVolumeAccessModeSingleNodeSingleWriter}}
	made, _, err := volumes.Create(&nomad.HostVolumeCreateRequest{Volume: &nomad.HostVolume{Name: "data", PluginID: "mkdir", NodePool: "default", RequestedCapabilities: caps}}, nil)
	if err != nil || made.Volume.ID == "" || made.Volume.NodeID != a.nodeID {
		t.Fatalf("%+v, %v", made, err)
	}
	dir := filepath.Join(w.Dir, "outside")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	reg, _, err := volumes.Register(&nomad.HostVolumeRegisterRequest{Volume: &nomad.HostVolume{Name: "old", NodeID: a.nodeID, HostPath: dir, RequestedCapabilities: caps}}, nil)
	if err != nil || reg.Volume.HostPath != dir {
		t.Fatalf("%+v, %v", reg, err)
	}
	_, _, err = volumes.Create(&nomad.HostVolumeCreateRequest{Volume: &nomad.HostVolume{Name: "bad/name", PluginID: "mkdir"}}, nil)
	if err == nil || !strings.Contains(err.Error(), "bad/name") {
		t.Errorf("a name with a slash: %v", err)
	}

	a.good("job", "run", "-detach", w.file("db.nomad", `job "db" {
  group "g" {
    volume "v" {
      type            = "host"
      source          = "data"
      sticky          = true
      access_mode     = "single-node-single-writer"
      attachment_mode = "file-system"
    }
    task "app" {
      driver = "raw_exec"
      config {
        command = "/bin/sleep"
        args    = ["1000"]
      }
    }
  }
}`))
	a.running("db")
	a.good("job", "stop", "-purge", "db")
	list, _, err := claims.List(&nomad.TaskGroupHostVolumeClaimsListRequest{JobID: "db"}, nil)
	if err != nil || len(list) > 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	for _, x := range list {
		if _, err := claims.Delete(x.ID, nil); err != nil {
			t.Error(err)
		}
	}
	if list, _, err = claims.List(nil, nil); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
	for _, id := range []string{made.Volume.ID, reg.Volume.ID} {
		w.until("the volume is deleted", func() string {
			if _, _, err := volumes.Delete(&nomad.HostVolumeDeleteRequest{ID: id}, nil); err != nil {
				return err.Error()
			}
			return ""
		})
	}
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("the directory of a volume that was only registered: %v", err)
	}
}

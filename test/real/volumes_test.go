package real

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	nomad "github.com/hashicorp/nomad/api"

	"berth/test/bed"
)

// A dynamic host volume is created, used by a job that keeps it, offered again
// after a restart of the agent, and deleted with its data, through the command line
// and the public Go client.
func TestAHostVolumeFromCreationToDeletion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.agent("one", both)
	a.joined()
	w.holds(a.good("volume", "init", w.Dir+"/data.hcl"), "Example volume specification written")
	out := a.good("volume", "create", w.file("data.volume.hcl", `type = "host"
name = "data"
plugin_id = "mkdir"
capability {
  access_mode     = "single-node-single-writer"
  attachment_mode = "file-system"
}
`))
	w.holds(out, "Created host volume data with ID")
	c := a.nomad()
	var vol *nomad.HostVolumeStub
	ready := func(want string) {
		t.Helper()
		w.until("the volume is "+want, func() string {
			list, _, err := c.HostVolumes().List(&nomad.HostVolumeListRequest{}, nil)
			if err != nil || len(list) != 1 || string(list[0].State) != want {
				return "it is not"
			}
			vol = list[0]
			return ""
		})
	}
	ready("ready")
	one, _, err := c.HostVolumes().Get(vol.ID, nil)
	if err != nil || one.Name != "data" || one.HostPath == "" || one.NodeID != a.nodeID || one.RequestedCapabilities[0].AccessMode != "single-node-single-writer" {
		t.Fatalf("%+v, %v", one, err)
	}
	if r := a.berth("volume", "create", w.file("twice.hcl", "type = \"host\"\nname = \"data\"\n")); r.Code == 0 || !strings.Contains(r.Err, "has a host volume data already") {
		t.Errorf("%v", r)
	}

	// A job keeps the volume. raw_exec mounts nothing, so the task takes it by name only.
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
	claims, _, err := c.TaskGroupHostVolumeClaims().List(&nomad.TaskGroupHostVolumeClaimsListRequest{JobID: "db"}, nil)
	if err != nil || len(claims) != 1 || claims[0].VolumeID != vol.ID || claims[0].AllocID != a.allocs("db")[0].ID {
		t.Errorf("%+v, %v", claims, err)
	}
	w.holds(a.good("volume", "status", "data"), vol.ID, "single-node-single-writer", a.allocs("db")[0].ID[:8])
	w.holds(a.good("volume", "claim", "list"), "db", vol.ID)
	if r := a.berth("volume", "delete", vol.ID); r.Code == 0 || !strings.Contains(r.Err, "is used by allocation") {
		t.Errorf("%v", r)
	}
	file := filepath.Join(one.HostPath, "kept")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}

	a.again() // the next agent offers the same
	a.joined()
	c = a.nomad()
	ready("ready")
	if n, _, err := c.Nodes().Info(a.nodeID, nil); err != nil || n.HostVolumes["data"] == nil || n.HostVolumes["data"].ID != vol.ID {
		t.Errorf("%+v, %v", n.HostVolumes, err)
	}

	a.good("job", "stop", "-purge", "db")
	w.until("the volume is deleted", func() string {
		if r := a.berth("volume", "delete", vol.ID); r.Code != 0 {
			return bed.Got(r.Err)
		}
		return ""
	})
	if _, err := os.Stat(one.HostPath); !os.IsNotExist(err) {
		t.Errorf("the directory is there: %v", err)
	}
	w.holds(a.good("volume", "status"), "No dynamic host volumes")
	w.holds(a.good("volume", "claim", "list"), "No volume claims")
}

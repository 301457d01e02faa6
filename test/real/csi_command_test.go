package real

import (
	"context"
	"fmt"
	"strings"
	"testing"

	nomad "github.com/hashicorp/nomad/api"

	"berth/test/bed"
)

const keyed = `
secrets {
  key = "s3cret"
}
topology_request {
  required {
    topology {
      segments {
        zone = "one"
      }
    }
  }
}
`

// A volume that can be reached from one zone, with a secret, is made, made larger,
// copied, used and deleted, all through the command line.
func TestCSIVolumesThroughTheCommandLine(t *testing.T) {
	t.Parallel()
	w := newCSIWorld(t, csiOptions{plugin: []string{"-zone", "${node.unique.name}", "-key", "s3cret"}})
	refused := func(text string, args ...string) {
		t.Helper()
		if r := w.a.berth(args...); r.Code == 0 || !strings.Contains(r.Err, text) {
			t.Errorf("%q: %v; want %q", args, r, text)
		}
	}
	w.holds(w.a.good("volume", "init", "-type", "csi", w.Dir+"/init.hcl"), "Example volume specification written")
	w.holds(w.a.good("plugin", "status"), "disk  disk.example.berth  2/2", "Nodes Healthy/Expected")
	w.holds(w.a.good("plugin", "status", "-verbose", "dis"), "Controllers Healthy", "= 2", "CREATE_DELETE_SNAPSHOT", "STAGE_UNSTAGE_VOLUME", "VOLUME_ACCESSIBILITY_CONSTRAINTS", "Allocations")

	spec := w.example("data.volume.hcl")
	refused("the secret key is missing or wrong", "volume", "create", w.file("bare.hcl", spec))
	w.holds(w.a.good("volume", "status", "data"), "External ID          = <none>", "Schedulable          = false")
	w.holds(w.a.good("volume", "create", w.file("data.hcl", spec+keyed)), "Created external volume data with ID data")
	w.holds(w.a.good("volume", "status"), "Container Storage Interface\n", "data  data  default    disk       true", "Dynamic Host Volumes\nNo dynamic host volumes")
	w.a.good("volume", "create", w.file("larger.hcl", "capacity_min = \"2MiB\"\n"+spec+keyed))
	w.holds(w.a.good("volume", "status", "data"), "2.0 MiB", "Provider             = disk.example.berth", "Version              = 1.0.0", "zone=one", "No allocations use the volume")
	refused("cannot shrink", "volume", "create", w.file("smaller.hcl", "capacity_max = \"1MiB\"\n"+spec+keyed))

	w.holds(w.a.good("volume", "snapshot", "create", "data", "before"), "Snapshot ID", "before", "true")
	refused("the secret key is missing or wrong", "volume", "snapshot", "list", "-plugin", "disk")
	w.holds(w.a.good("volume", "snapshot", "list", "-plugin", "disk", "-secret", "key=s3cret"), "before       data")
	copied := strings.NewReplacer(`id        = "data"`, `id = "copy"`, `name      = "data"`, "name = \"copy\"\nsnapshot_id = \"before\"").Replace(spec + keyed)
	w.a.good("volume", "create", w.file("copy.hcl", copied))
	w.a.good("volume", "snapshot", "delete", "-secret", "key=s3cret", "disk", "before")
	w.holds(w.a.good("volume", "snapshot", "list", "-plugin", "disk", "-secret", "key=s3cret"), "No snapshots")

	w.a.good("volume", "deregister", "copy")
	w.holds(w.a.good("volume", "status", "-verbose", "-type", "csi"), "External ID", "copy", "OK")
	again := strings.NewReplacer(`id        = "data"`, "id = \"again\"\nexternal_id = \"copy\"").Replace(spec)
	w.a.good("volume", "register", w.file("again.hcl", again))
	refused("the secret key is missing or wrong", "volume", "delete", "again")
	w.a.good("volume", "delete", "-secret", "key=s3cret", "again")
	w.did("create data", "expand data 2097152", "snapshot data before", "create copy", "delete copy")

	w.runs("one,two") // only one of them has the volume's zone
	w.started(1)
	w.until("its status shows who uses it", func() string {
		out := w.a.good("volume", "status", "data")
		if !strings.Contains(out, "write   published") || !strings.Contains(out, "running") {
			return bed.Got(out)
		}
		return ""
	})
	w.holds(w.a.good("volume", "status", "-short", "data"), "single-node-writer")
	w.a.good("volume", "create", w.file("grown.hcl", "capacity_min = \"4MiB\"\n"+spec+keyed))
	refused("is claimed by allocation", "volume", "deregister", "data")
	w.a.good("job", "stop", "-purge", "counter")
	w.until("the volume is deleted", func() string { return w.a.berth("volume", "delete", "data").Err })
	w.did("create data", "expand data 2097152", "snapshot data before", "create copy", "delete copy",
		"attach data one", "stage data one", "mount data one", "expand data 4194304", "grow data one",
		"unmount data one", "unstage data one", "detach data one", "delete data")
}

// The public Go client does the same, and readers on two nodes share a volume that
// none of them can write.
func TestCSIVolumesThroughTheGoClient(t *testing.T) {
	t.Parallel()
	w := newCSIWorld(t, csiOptions{plugin: []string{"-key", "s3cret"}})
	c, secrets := w.a.nomad().CSIVolumes(), nomad.CSISecrets{"key": "s3cret"}
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	v := &nomad.CSIVolume{
		ID: "data", Name: "data", PluginID: "disk", Secrets: secrets,
		RequestedCapabilities: []*nomad.CSIVolumeCapability{{AccessMode: nomad.CSIVolumeAccessModeMultiNodeReader, AttachmentMode: nomad.CSIVolumeAttachmentModeFilesystem}},
	}
	made, _, err := c.Create(v, nil)
	ok(err)
	if len(made) != 1 || made[0].ExternalID != "data" || made[0].Secrets["key"] == "s3cret" {
		t.Fatalf("%+v", made)
	}
	list, _, err := c.List(nil)
	if err != nil || len(list) != 1 || list[0].Provider != "disk.example.berth" || !list[0].Schedulable {
		t.Fatalf("%+v, %v", list, err)
	}
	w.a.good("job", "run", "-detach", w.file("readers.nomad", `job "readers" {
  group "g" {
    count = 2
    constraint {
      operator = "distinct_hosts"
      value    = "true"
    }
    volume "data" {
      type            = "csi"
      source          = "data"
      read_only       = true
      access_mode     = "multi-node-reader-only"
      attachment_mode = "file-system"
    }
    task "app" {
      driver = "exec"
      volume_mount {
        volume      = "data"
        destination = "/data"
        read_only   = true
      }
      config {
        command = "/bin/sh"
        args    = ["-c", "touch /data/x 2>/dev/null && exit 1; exec sleep 1000"]
      }
    }
  }
}`))
	w.until("two readers run", func() string {
		one, _, err := c.Info("data", nil)
		if err != nil || len(one.ReadAllocs) != 2 || len(one.WriteAllocs) != 0 || len(one.Allocations) != 2 {
			return "there are not two readers"
		}
		for _, a := range one.Allocations {
			if a.ClientStatus != "running" {
				return a.ID + " is " + a.ClientStatus
			}
		}
		return ""
	})
	snap, _, err := c.CreateSnapshot(&nomad.CSISnapshot{SourceVolumeID: "data", Name: "s1", Secrets: secrets}, nil)
	if err != nil || len(snap.Snapshots) != 1 || snap.Snapshots[0].ID != "s1" {
		t.Errorf("%+v, %v", snap, err)
	}
	snaps, _, err := c.ListSnapshotsOpts(&nomad.CSISnapshotListRequest{PluginID: "disk", Secrets: secrets})
	if err != nil || len(snaps.Snapshots) != 1 {
		t.Errorf("%+v, %v", snaps, err)
	}
	ok(c.DeleteSnapshot(&nomad.CSISnapshot{ID: "s1", PluginID: "disk", Secrets: secrets}, nil))
	external, _, err := c.ListExternal("disk", &nomad.QueryOptions{})
	if err != nil || len(external.Volumes) != 1 || len(external.Volumes[0].PublishedExternalNodeIDs) != 2 {
		t.Errorf("%+v, %v", external, err)
	}
	plugins, _, err := w.a.nomad().CSIPlugins().List(nil)
	if err != nil || len(plugins) != 1 || plugins[0].NodesHealthy != 2 {
		t.Errorf("%+v, %v", plugins, err)
	}
	if err := c.Detach("data", w.a.nodeID, nil); err == nil || !strings.Contains(err.Error(), "is used by allocation") {
		t.Errorf("%v", err)
	}
	if err := c.Deregister("data", true, nil); err == nil || !strings.Contains(err.Error(), "is claimed by allocation") {
		t.Errorf("%v", err)
	}
	w.events()
	// What was read can be sent back: its secrets stay, and delete it below.
	read, _, err := c.Info("data", nil)
	ok(err)
	_, err = c.Register(read, nil)
	ok(err)
	again, _, err := c.RegisterOpts(&nomad.CSIVolumeRegisterRequest{Volumes: []*nomad.CSIVolume{read}}, nil)
	if err != nil || len(again.Volumes) != 1 {
		t.Errorf("%+v, %v", again, err)
	}
	if here, err := w.a.nomad().Nodes().CSIVolumes(w.a.nodeID, nil); err != nil || len(here) != 1 || here[0].ID != "data" {
		t.Errorf("%+v, %v", here, err)
	}
	more := *v
	more.ID, more.Name = "more", "more"
	created, _, err := c.CreateOpts(&nomad.CSIVolumeCreateRequest{Volumes: []*nomad.CSIVolume{&more}}, nil)
	if err != nil || len(created.Volumes) != 1 {
		t.Errorf("%+v, %v", created, err)
	}
	if mine, _, err := c.PluginList("mo"); err != nil || len(mine) != 1 || mine[0].ID != "more" {
		t.Errorf("%+v, %v", mine, err)
	}
	q := &nomad.QueryOptions{}
	q.SetHeadersFromCSISecrets(secrets)
	//lint:ignore SA1019 programs still call the methods that Nomad 1.4 was to remove
	if snaps, _, err := c.ListSnapshots("disk", "", q); err != nil || len(snaps.Snapshots) != 0 {
		t.Errorf("%+v, %v", snaps, err)
	}
	ok(c.Delete("more", nil)) //lint:ignore SA1019 like above
	w.a.good("job", "stop", "-purge", "readers")
	w.until("the volume is deleted", func() string {
		if err := c.DeleteOpts(&nomad.CSIVolumeDeleteRequest{ExternalVolumeID: "data"}, nil); err != nil {
			return err.Error()
		}
		return ""
	})
}

// events waits until the stream of events has told what became of the plugin and the
// volume, without its secrets.
func (w *csiWorld) events() {
	w.t.Helper()
	ctx, end := context.WithCancel(w.t.Context())
	defer end()
	stream, err := w.a.nomad().EventStream().Stream(ctx, map[nomad.Topic][]string{"CSIVolume": {"*"}, "CSIPlugin": {"*"}}, 1, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	missing := map[string]bool{"CSIPluginUpdated": true, "CSIVolumeRegistered": true, "CSIVolumeClaim": true}
	for batch := range stream {
		if batch.Err != nil {
			w.t.Fatal(batch.Err)
		}
		for _, e := range batch.Events {
			if strings.Contains(fmt.Sprint(e.Payload), "s3cret") {
				w.t.Errorf("an event has a secret: %v", e.Payload)
			}
			delete(missing, e.Type)
		}
		if len(missing) == 0 {
			return
		}
	}
	w.t.Errorf("the stream ended without %v", missing)
}

package real

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/test/bed"
)

// A system job has a CSI volume on each node that runs the plugin, if its access mode
// allows many. One for a single writer is had by one node; the others wait and say for
// what, and one of them has it when it is given back.
func TestASystemJobHasACSIVolumeOnEachNode(t *testing.T) {
	t.Parallel()
	w := newCSIWorld(t, csiOptions{})
	shared := strings.Replace(w.example("data.volume.hcl"), "capability {", `capability {
  access_mode     = "multi-node-multi-writer"
  attachment_mode = "file-system"
}

capability {`, 1)
	w.a.good("volume", "create", w.file("data.hcl", shared))
	job := func(mode string) {
		t.Helper()
		text := strings.NewReplacer(`job "counter" {`, "job \"counter\" {\n  type = \"system\"", "single-node-writer", mode,
			"echo start >> /data/starts; wc -l < /data/starts", "echo started > /data/$NOMAD_ALLOC_ID").Replace(w.example("counter.nomad.hcl"))
		w.a.good("job", "run", "-detach", w.file("counter.nomad", text))
	}
	// wrote returns the nodes on which allocations run that have written to the volume.
	wrote := func() (nodes []string) {
		for _, al := range w.a.allocs("counter") {
			_, err := os.Stat(filepath.Join(w.provider, "volumes", "data", "data", al.ID))
			if err == nil && al.DesiredStatus == "run" && al.ClientStatus == "running" {
				nodes = append(nodes, al.NodeID)
			}
		}
		return nodes
	}
	job("multi-node-multi-writer")
	w.until("it runs on both nodes", func() string {
		if len(wrote()) != 2 {
			return bed.Got(w.a.berth("job", "status", "counter").Out)
		}
		return ""
	})
	w.a.good("job", "stop", "-purge", "counter")
	w.until("no node has the volume", func() string {
		if r := w.a.berth("volume", "status", "-type", "csi", "data"); !strings.Contains(r.Out, "No allocations use the volume") {
			return bed.Got(r.Out)
		}
		return ""
	})

	job("single-node-writer")
	var on string
	w.until("it runs on one node", func() string {
		list := wrote()
		if len(list) != 1 {
			return bed.Got(w.a.berth("job", "status", "counter").Out)
		}
		on = list[0]
		return ""
	})
	w.until("it says what the other waits for", func() string {
		r := w.a.berth("job", "status", "counter")
		if !strings.Contains(r.Out, "CSI volume data is in use on another node, and access mode single-node-writer") {
			return bed.Got(r.Out)
		}
		return ""
	})
	w.a.good("node", "eligibility", "-disable", on)
	for _, al := range w.a.allocs("counter") {
		if al.ClientStatus == "running" {
			w.a.good("alloc", "stop", "-detach", al.ID)
		}
	}
	w.until("it runs on the other node", func() string {
		if list := wrote(); len(list) != 1 || list[0] == on {
			return bed.Got(w.a.berth("job", "status", "counter").Out + w.a.berth("volume", "status", "-type", "csi", "data").Out)
		}
		return ""
	})
	w.a.good("job", "stop", "-purge", "counter")
	w.until("the volume is deleted", func() string { return w.a.berth("volume", "delete", "-type", "csi", "data").Err })
}

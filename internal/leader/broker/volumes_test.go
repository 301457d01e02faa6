package broker_test

import (
	"fmt"
	"testing"

	"berth"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// A job that waits for a host volume is looked at again when its claim is deleted,
// and when the volume changes or is deleted.
func TestVolumesWakeThoseThatWait(t *testing.T) {
	volume := &berth.HostVolume{ID: "v1", Name: "data", Namespace: "default", PluginID: "mkdir", NodeID: statetest.ID[berth.Node](1)}
	offers := func(n *berth.Node) { n.HostVolumes = map[string]berth.HostVolumeInfo{"data": {ID: "v1", Path: "/v1"}} }
	sticky := statetest.Job(t, `{"ID":"db","TaskGroups":[{"Name":"g","Resources":{"CPU":3000,"MemoryMB":100},"Volumes":{"v":{"Name":"v","Type":"host","Source":"data","Sticky":true}}}]}`)
	for name, change := range map[string]func(s *state.Snapshot) state.Command{
		"claim": func(s *state.Snapshot) state.Command {
			for c := range s.HostVolumeClaims() {
				return &state.DeleteHostVolumeClaim{Namespace: "default", ID: c.ID}
			}
			t.Fatal("there is no claim")
			return nil
		},
		"changed": func(*state.Snapshot) state.Command {
			more := *volume
			more.RequestedCapabilities = []berth.VolumeCapability{{AccessMode: berth.AccessWriter, AttachmentMode: berth.AttachFilesystem}}
			return &state.PutHostVolume{Volume: &more, Now: 2}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inTerm(t, func(b *term) {
				b.do(node(1), &state.PutHostVolume{Volume: volume, Create: true, Now: 1}, statetest.AddNode(1, 4000, 4000, offers), statetest.Register(sticky, 1))
				a := b.runs(1, 1)
				if a == nil {
					t.Fatal("nothing runs")
				}
				b.do(statetest.Register(sticky, 2))
				if d := b.next(); number(d.Eval) != 2 {
					t.Fatalf("handed out %+v", d.Eval)
				}
				b.do(ends(2, blocks(3, "none", b.store.Snapshot().Index), func(c *state.ApplyPlan) { c.End.Missed.Escaped = true }))
				b.nothing()
				b.do(change(b.store.Snapshot()))
				if d := b.next(); number(d.Eval) != 3 {
					t.Errorf("handed out %+v", d.Eval)
				}
			})
		})
	}
}

// A job that waits for a CSI volume is looked at again when the volume comes or
// changes, when a claim on it is gone, and when its plugin has a controller again.
func TestCSIVolumesWakeThoseThatWait(t *testing.T) {
	runs := func(n int, healthy bool) state.Command {
		return statetest.AddNode(n, 4000, 4000, func(x *berth.Node) {
			controller := &berth.CSIInfo{PluginID: "disk", Healthy: healthy, RequiresControllerPlugin: true, ControllerInfo: &berth.CSIControllerInfo{}}
			x.CSIControllerPlugins = map[string]*berth.CSIInfo{"disk": controller}
			x.CSINodePlugins = map[string]*berth.CSIInfo{"disk": {PluginID: "disk", Healthy: true, RequiresControllerPlugin: true, NodeInfo: &berth.CSINodeInfo{ID: fmt.Sprint(n)}}}
		})
	}
	volume := func(capacity int64) state.Command {
		return &state.PutCSIVolume{Now: 1, Volume: &berth.CSIVolume{
			Namespace: "default", ID: "data", Name: "data", ExternalID: "x", PluginID: "disk", RequestedCapacityMin: capacity,
			RequestedCapabilities: []berth.VolumeCapability{{AccessMode: berth.AccessWriter, AttachmentMode: berth.AttachFilesystem}},
		}}
	}
	job := statetest.Job(t, `{"ID":"db","TaskGroups":[{"Name":"g","Resources":{"CPU":3000,"MemoryMB":100},
		"Volumes":{"v":{"Name":"v","Type":"csi","Source":"data","AccessMode":"single-node-writer","AttachmentMode":"file-system"}}}]}`)
	for name, change := range map[string]func(c *state.CSIClaim) state.Command{
		"changed": func(*state.CSIClaim) state.Command { return volume(5) },
		"claim": func(c *state.CSIClaim) state.Command {
			return &state.StepCSIClaim{Namespace: "default", VolumeID: "data", AllocID: c.AllocID, From: state.ClaimDetached}
		},
		"controller": func(*state.CSIClaim) state.Command { return runs(2, true) },
	} {
		t.Run(name, func(t *testing.T) {
			inTerm(t, func(b *term) {
				b.do(runs(1, true), runs(2, false), volume(1), statetest.Register(job, 1))
				if b.runs(1, 1) == nil {
					t.Fatal("nothing runs")
				}
				var claim *state.CSIClaim
				for claim = range b.store.Snapshot().CSIClaims() {
				}
				step := &state.StepCSIClaim{Namespace: "default", VolumeID: "data", AllocID: claim.AllocID}
				b.do(&state.ReportAllocs{Node: claim.NodeID, Updates: []state.AllocUpdate{{ID: claim.AllocID, Client: berth.ClientComplete}}, Now: 2})
				step.From = state.ClaimReleasing
				b.do(step, runs(1, false), statetest.Register(job, 2))
				if d := b.next(); number(d.Eval) != 2 {
					t.Fatalf("handed out %+v", d.Eval)
				}
				b.do(ends(2, blocks(3, "none", b.store.Snapshot().Index)))
				b.nothing()
				b.do(change(claim))
				if d := b.next(); number(d.Eval) != 3 {
					t.Errorf("handed out %+v", d.Eval)
				}
			})
		})
	}
}

package broker_test

import (
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

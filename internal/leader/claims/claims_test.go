package claims_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth"
	"berth/internal/leader/claims"
	_ "berth/internal/onethread"
	"berth/internal/state"
	"berth/internal/state/statetest"
	"berth/op"
)

// provider attaches volumes as a plugin does: to one node at a time, and again to
// the same without harm.
type provider struct {
	mu   sync.Mutex
	on   string // the node that has the volume
	log  []string
	fail map[string]int // calls that fail, by what they do
}

func (p *provider) call(_ context.Context, node berth.NodeID, in *op.AgentCSI) (*op.CSIDone, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fail[in.Do] > 0 {
		p.fail[in.Do]--
		return nil, berth.Errorf(berth.Unavailable, "the agent was killed")
	}
	switch {
	case in.Do == op.CSIPublish && p.on != "" && p.on != in.ExternalNodeID:
		return nil, berth.Errorf(berth.Conflict, "attached to %s", p.on)
	case in.Do == op.CSIPublish && p.on == "", in.Do == op.CSIUnpublish && p.on == in.ExternalNodeID:
		p.log = append(p.log, in.Do+" "+in.ExternalNodeID)
		if p.on = ""; in.Do == op.CSIPublish {
			p.on = in.ExternalNodeID
		}
	case in.Do == op.CSINodeDetach:
		p.log = append(p.log, in.Do)
	}
	return &op.CSIDone{Context: map[string]string{"on": in.ExternalNodeID}}, nil
}

// node registers a node with the plugin.
func node(n int) *state.RegisterNode {
	return statetest.AddNode(n, 4000, 4000, func(x *berth.Node) {
		info := &berth.CSIInfo{
			PluginID: "disk", Healthy: true, RequiresControllerPlugin: true, ControllerInfo: &berth.CSIControllerInfo{SupportsAttachDetach: true},
			NodeInfo: &berth.CSINodeInfo{ID: fmt.Sprint("n", n)},
		}
		x.CSIControllerPlugins, x.CSINodePlugins = map[string]*berth.CSIInfo{"disk": info}, map[string]*berth.CSIInfo{"disk": info}
	})
}

// world is a cluster in which an allocation on node 1 uses a volume.
type world struct {
	t     *testing.T
	store *state.Store
	log   *statetest.Log
	p     *provider
	calls func(context.Context, berth.NodeID, *op.AgentCSI) (*op.CSIDone, error) // nil: p's
	end   func()
}

func newWorld(t *testing.T) *world {
	v := &berth.CSIVolume{
		Namespace: "default", ID: "data", Name: "data", ExternalID: "x", PluginID: "disk",
		RequestedCapabilities: []berth.VolumeCapability{{AccessMode: berth.AccessWriter, AttachmentMode: berth.AttachFilesystem}},
	}
	j := statetest.Job(t, `{"ID": "db", "TaskGroups": [{"Name": "g",
		"Volumes": {"v": {"Name": "v", "Type": "csi", "Source": "data", "AccessMode": "single-node-writer", "AttachmentMode": "file-system"}}}]}`)
	store, log := statetest.New(t, node(1), node(2), &state.PutCSIVolume{Volume: v, Now: 5}, statetest.Register(j, 1),
		&state.ApplyPlan{Eval: statetest.ID[berth.Eval](1), Now: 7, Place: []berth.Placement{{NodeID: statetest.ID[berth.Node](1)}}})
	return &world{t: t, store: store, log: log, p: &provider{fail: map[string]int{}}}
}

// leads begins a term, in place of the one before.
func (w *world) leads() {
	if w.end != nil {
		w.end()
	}
	ctx, cancel := context.WithCancel(context.Background())
	call := w.calls
	if call == nil {
		call = w.p.call
	}
	s := &claims.Service{Store: w.store, Log: w.log, Call: call, Lost: time.Minute, Logger: slog.New(slog.DiscardHandler)}
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = s.Run(ctx)
	}()
	w.end = func() { cancel(); <-over }
}

// states are the states of all claims, and what the provider did.
func (w *world) states() (out []string) {
	for c := range w.store.Snapshot().CSIClaims() {
		out = append(out, c.State+" "+fmt.Sprint(c.NodeID == statetest.ID[berth.Node](1)))
	}
	slices.Sort(out)
	return out
}

func (w *world) is(states, did []string) {
	w.t.Helper()
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	if got := w.states(); !slices.Equal(got, states) || !slices.Equal(w.p.log, did) {
		w.t.Errorf("claims are %q after %q; want %q after %q", got, w.p.log, states, did)
	}
}

// first is the allocation on node 1.
func (w *world) first() berth.AllocID {
	for c := range w.store.Snapshot().CSIClaims() {
		if c.NodeID == statetest.ID[berth.Node](1) {
			return c.AllocID
		}
	}
	w.t.Fatal("there is no claim")
	return berth.AllocID{}
}

// A claim goes through its life: calls that fail are made again, and what was done
// is not done twice.
func TestAClaimIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.p.fail = map[string]int{op.CSIPublish: 2, op.CSINodeDetach: 2, op.CSIUnpublish: 2}
		w.leads()
		time.Sleep(10 * time.Second)
		w.is([]string{"published true"}, []string{"publish n1"})
		w.log.Must(t, &state.ReportAllocs{Node: statetest.ID[berth.Node](1), Updates: []state.AllocUpdate{{ID: w.first(), Client: berth.ClientComplete}}, Now: 9})
		time.Sleep(10 * time.Second)
		w.is(nil, []string{"publish n1", "node-detach", "unpublish n1"})
		w.end()
	})
}

// A leader that is killed after a call and before it is recorded leaves it to the
// next, which does no harm.
func TestALeaderIsKilledBetweenCallAndRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.p.on, w.p.log = "n1", []string{"publish n1"} // attached, and nobody was told
		w.leads()
		synctest.Wait()
		w.is([]string{"published true"}, []string{"publish n1"})
		w.log.Must(t, &state.ReportAllocs{Node: statetest.ID[berth.Node](1), Updates: []state.AllocUpdate{{ID: w.first(), Client: berth.ClientComplete}}, Now: 9})
		synctest.Wait()
		w.is(nil, []string{"publish n1", "node-detach", "unpublish n1"})
		w.end()
	})
}

// A lost node is waited for, also by the next leader; then its claim is given up,
// and the replacement has the volume. An operator need not wait.
func TestALostNodeGivesUpItsVolume(t *testing.T) {
	for _, operator := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.leads()
			synctest.Wait()
			now := time.Now()
			w.log.Must(t, &state.SetNodeStatus{ID: statetest.ID[berth.Node](1), Status: berth.NodeDown, Now: now.UnixNano()},
				&state.ApplyPlan{
					Eval: statetest.ID[berth.Eval](1), Now: now.UnixNano(), Stop: []berth.AllocStop{{ID: w.first(), Client: berth.ClientLost}},
					Place: []berth.Placement{{NodeID: statetest.ID[berth.Node](2), Previous: w.first()}},
				})
			time.Sleep(30 * time.Second)
			w.leads()
			synctest.Wait()
			w.is([]string{"lost true", "taken false"}, []string{"publish n1"})
			if operator {
				w.log.Must(t, &state.DetachCSIVolume{Namespace: "default", ID: "data", NodeID: statetest.ID[berth.Node](1)})
				synctest.Wait()
			} else {
				time.Sleep(31 * time.Second)
				synctest.Wait()
			}
			w.is([]string{"published false"}, []string{"publish n1", "unpublish n1", "publish n2"})
			w.end()
		})
	}
}

// Package claims does what the claims on CSI volumes ask for: it has controllers
// attach volumes to nodes and detach them, has nodes unmount what ended
// allocations leave, and gives up what lost nodes hold.
//
// What is to be done follows from the state of each claim, so a new leader
// continues. A call that was made is made again if nobody knows what became of it:
// the interface promises that this does no harm. Only claims that are not just in
// use are looked at.
package claims

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"berth"
	"berth/internal/failpoint"
	"berth/internal/leader/since"
	"berth/internal/state"
	"berth/op"
)

// DefaultLost is how long the leader waits for a node that is down before it gives
// up the claims there.
const DefaultLost = 5 * time.Minute

// How long a claim rests after a call that failed, and how many calls are made at
// once.
const (
	firstRest   = time.Second
	longestRest = time.Minute
	parallel    = 16
	audit       = 10 * time.Minute // how often claims are looked at without a reason
)

// Service works on claims during a term.
type Service struct {
	Term  uint64
	Store *state.Store
	Log   state.Log
	// Call has the plugin of a node do something.
	Call   func(ctx context.Context, node berth.NodeID, in *op.AgentCSI) (*op.CSIDone, error)
	Lost   time.Duration // see DefaultLost
	Logger *slog.Logger

	mu    sync.Mutex
	busy  map[string]bool // volumes that a call is made for
	rests map[string]rest // claims whose call failed
	lost  since.Memory[berth.NodeID]
	wake  chan struct{}
}

// rest is how long a claim rests.
type rest struct {
	until time.Time
	next  time.Duration
}

// Run works until ctx ends or the log is lost.
func (s *Service) Run(ctx context.Context) error {
	s.busy, s.rests, s.wake = map[string]bool{}, map[string]rest{}, make(chan struct{}, 1)
	watch := s.Store.Watch(state.OnTable(state.CSIClaims), state.OnTable(state.CSIPlugins))
	defer watch.Stop()
	var calls sync.WaitGroup
	defer calls.Wait()
	for {
		again := s.begin(ctx, &calls)
		wait := audit
		if !again.IsZero() {
			wait = min(wait, max(0, time.Until(again)))
		}
		timer := time.NewTimer(wait)
		woken, stop := context.WithCancel(ctx)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			defer stop()
			select {
			case <-s.wake:
			case <-timer.C:
			case <-woken.Done():
			}
		}()
		_ = watch.Wait(woken) // an error is that of woken
		stop()
		<-ended // or it could take a wake-up that comes after the next look
		timer.Stop()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// begin begins what open claims ask for, one call for a volume at a time, and
// returns when to look again.
func (s *Service) begin(ctx context.Context, calls *sync.WaitGroup) (again time.Time) {
	snap, now := s.Store.Snapshot(), time.Now()
	look := func(at time.Time) {
		if again.IsZero() || at.Before(again) {
			again = at
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := map[string]rest{}
	for c := range snap.OpenCSIClaims() {
		volume := c.Namespace + "\x00" + c.VolumeID
		key := volume + "\x00" + c.AllocID.String() + c.State
		if r, ok := s.rests[key]; ok {
			seen[key] = r
			if now.Before(r.until) {
				look(r.until)
				continue
			}
		}
		if at := s.due(snap, c, now); now.Before(at) {
			look(at)
			continue
		}
		if s.busy[volume] || len(s.busy) >= parallel || c.State == state.ClaimTaken && snap.ClaimWaitsFor(c) != nil {
			continue // the end of the call, or of the other claim, is a reason to look again
		}
		s.busy[volume] = true
		calls.Go(func() { s.work(ctx, snap, c, volume, key) })
	}
	s.rests = seen
	return again
}

// due returns from when something is to be done for a claim: at once, or when a
// lost node was waited for long enough.
func (s *Service) due(snap *state.Snapshot, c *state.CSIClaim, now time.Time) time.Time {
	n := snap.Node(c.NodeID)
	if c.State != state.ClaimLost || n == nil {
		return time.Time{}
	}
	return s.lost.Of(n.ID, time.Unix(n.StatusUpdatedAt, 0), now).Add(s.Lost)
}

// work does what a claim asks for, and proposes that it is done.
func (s *Service) work(ctx context.Context, snap *state.Snapshot, c *state.CSIClaim, volume, key string) {
	step, err := s.do(ctx, snap, c)
	if err == nil {
		if failpoint.On() {
			_ = failpoint.Hit("csi-claim/" + c.State)
		}
		step.Stamp(s.Term)
		if _, err = s.Log.Propose(ctx, step); berth.KindOf(err) == berth.Conflict || berth.KindOf(err) == berth.NotFound {
			err = nil // it changed meanwhile, which is a reason to look again
		}
	}
	s.mu.Lock()
	delete(s.busy, volume)
	if err != nil && ctx.Err() == nil {
		r := s.rests[key]
		r.next = min(max(firstRest, 2*r.next), longestRest)
		r.until = time.Now().Add(r.next)
		s.rests = maps.Clone(s.rests)
		s.rests[key] = r
		s.Logger.Warn("a claim on a CSI volume waits", "volume", c.VolumeID, "alloc", c.AllocID, "state", c.State, "error", err)
	}
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// do makes the call that a claim asks for, if any, and returns what is done then.
func (s *Service) do(ctx context.Context, snap *state.Snapshot, c *state.CSIClaim) (*state.StepCSIClaim, error) {
	step := &state.StepCSIClaim{Namespace: c.Namespace, VolumeID: c.VolumeID, AllocID: c.AllocID, From: c.State}
	v := snap.CSIVolume(c.Namespace, c.VolumeID)
	if v == nil {
		return nil, berth.Errorf(berth.NotFound, "CSI volume not found: %s", c.VolumeID)
	}
	in := &op.AgentCSI{Volume: *v, AllocID: c.AllocID.String(), AccessMode: c.AccessMode, AttachmentMode: c.AttachmentMode, ReadOnly: c.ReadOnly}
	switch c.State {
	case state.ClaimTaken:
		return step, s.attach(ctx, snap, c, in, step)
	case state.ClaimReleasing:
		in.Do = op.CSINodeDetach
		_, err := s.ask(ctx, c.NodeID, in)
		return step, err
	case state.ClaimDetached:
		return step, s.detach(ctx, snap, c, in)
	}
	return step, nil // a lost node is not asked
}

// attach has the controller attach a volume to the node of a claim.
func (s *Service) attach(ctx context.Context, snap *state.Snapshot, c *state.CSIClaim, in *op.AgentCSI, step *state.StepCSIClaim) error {
	if c.ExternalNodeID == "" {
		return nil
	}
	in.Do, in.ExternalNodeID = op.CSIPublish, c.ExternalNodeID
	done, err := s.controller(ctx, snap, c.PluginID, in)
	if err == nil && done != nil {
		step.Context = done.Context
	}
	return err
}

// detach has the controller detach a volume from the node of a claim, unless
// another allocation of the node goes on with it. It may be attached even if the
// claim does not say so: by a leader that told nobody.
func (s *Service) detach(ctx context.Context, snap *state.Snapshot, c *state.CSIClaim, in *op.AgentCSI) error {
	if c.ExternalNodeID == "" {
		return nil
	}
	for x := range snap.ClaimsOfCSI(c.Namespace, c.VolumeID) {
		if x.AllocID != c.AllocID && x.NodeID == c.NodeID && x.State != state.ClaimDetached && snap.ClaimWaitsFor(x) == nil {
			return nil
		}
	}
	in.Do, in.ExternalNodeID = op.CSIUnpublish, c.ExternalNodeID
	_, err := s.controller(ctx, snap, c.PluginID, in)
	return err
}

// ask has the plugin of a node do something. Unmounting is two calls.
func (s *Service) ask(ctx context.Context, node berth.NodeID, in *op.AgentCSI) (*op.CSIDone, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*op.CSITime+10*time.Second)
	defer cancel()
	in.NodeID = node.String()
	return s.Call(ctx, node, in)
}

// controller calls a controller of a plugin, the first that can be reached. A
// plugin whose controllers attach nothing has nothing to do.
func (s *Service) controller(ctx context.Context, snap *state.Snapshot, plugin string, in *op.AgentCSI) (out *op.CSIDone, err error) {
	err = berth.Errorf(berth.Unavailable, "CSI plugin %s has no healthy controller", plugin)
	for n := range snap.NodesOfPlugin(plugin) {
		x := n.CSIControllerPlugins[plugin]
		if x == nil || !x.Healthy || x.ControllerInfo == nil || n.Status != berth.NodeReady {
			continue
		}
		if !x.ControllerInfo.SupportsAttachDetach {
			return nil, nil
		}
		if out, err = s.ask(ctx, n.ID, in); err == nil || berth.KindOf(err) != berth.Unavailable {
			return out, err
		}
	}
	return nil, err
}

package state

import (
	"math"

	"berth"
)

// The two commands of which there is one per allocation or nearly so are
// written field by field: a placement takes some ten bytes, a report some
// fifty. Nodes go by number; the IDs of new allocations follow from the
// evaluation's and are not written at all.

// scoreUnit is the step in which the log keeps scores: they lie between -1 and
// 1, and four digits are shown.
const scoreUnit = 1 << 14

// loggedScore returns a score as the log holds it. One that is none lies where
// the nearest does: an entry that cannot be read again would be worse.
func loggedScore(s float32) int64 {
	if s != s {
		return 0
	}
	return int64(math.Round(max(-1, min(1, float64(s))) * scoreUnit))
}

// keptScore rounds a score to what the log can hold, so that the server that
// wrote the log keeps what those do that read it.
func keptScore(s float32) float32 { return float32(loggedScore(s)) / scoreUnit }

// score reads a score.
func (r *reader) score() float32 {
	s := r.int()
	if s < -scoreUnit || s > scoreUnit {
		r.fail("score")
		return 0
	}
	return float32(s) / scoreUnit
}

// Flags of a placement.
const (
	placePorts    = 1 << 0
	placePrevious = 1 << 1
	placeResched  = 1 << 2
	placeGroup    = 1 << 3 // another group than the one before
	placeSkip     = 1 << 4 // the index is not the one before plus one
	placeNamed    = 1 << 5 // cores or devices
	placeRare     = 1 << 6 // another byte of flags follows
	placeEvict    = 1 << 7
)

// The other flags of a placement.
const (
	rareCanary = 1 << 0
	rareBefore = 1 << 1
)

func (c *ApplyPlan) pack(w *writer) {
	w.id(c.Eval)
	w.uint(c.Term)
	w.int(c.Now)
	w.uint(c.JobVersion)
	w.uint(uint64(len(c.Place)))
	group, index := 0, uint32(math.MaxUint32)
	for i := range c.Place {
		p := &c.Place[i]
		w.byte(flag(placePorts, len(p.Ports) > 0) | flag(placePrevious, !p.Previous.IsZero()) | flag(placeResched, p.Resched) |
			flag(placeNamed, len(p.Cores)+len(p.Devices) > 0) |
			flag(placeRare, p.Canary || p.Before) | flag(placeEvict, len(p.Evict) > 0) | flag(placeGroup, p.Group != group) | flag(placeSkip, p.Index != index+1))
		if p.Group != group {
			w.uint(uint64(p.Group))
		}
		if p.Index != index+1 {
			w.uint(uint64(p.Index))
		}
		group, index = p.Group, p.Index
		w.uint(uint64(c.nodes[i]))
		w.int(loggedScore(p.Score))
		if len(p.Ports) > 0 {
			w.ports(p.Ports)
		}
		if len(p.Cores)+len(p.Devices) > 0 {
			w.ports(p.Cores)
			w.value(p.Devices)
		}
		if !p.Previous.IsZero() {
			w.id(p.Previous)
		}
		if p.Canary || p.Before {
			w.byte(flag(rareCanary, p.Canary) | flag(rareBefore, p.Before))
		}
		if len(p.Evict) > 0 {
			w.uint(uint64(len(p.Evict)))
			for _, id := range p.Evict {
				w.id(id)
			}
		}
	}
	w.uint(uint64(len(c.Stop)))
	for _, s := range c.Stop {
		w.id(s.ID)
		w.byte(byte(s.Client))
		w.optional(s.FollowupEval)
		w.reason(s.Description)
	}
	w.uint(uint64(len(c.Update)))
	for _, id := range c.Update {
		w.id(id)
	}
	w.bool(len(c.Explain) > 0)
	if len(c.Explain) > 0 {
		w.value(c.Explain)
	}
	w.bool(c.Deploy != nil || c.Deployed != nil)
	if c.Deploy != nil || c.Deployed != nil {
		w.value(&planDeployment{c.Deploy, c.Deployed})
	}
	w.bool(c.End != nil)
	if c.End != nil {
		c.End.pack(w, c.Now)
	}
}

// planDeployment is what few plans say of deployments.
type planDeployment struct {
	Deploy   *berth.Deployment
	Deployed *DeploymentChange
}

func (c *ApplyPlan) unpack(r *reader) {
	c.fromLog = true
	c.Eval = r.id()
	c.Term = r.uint()
	c.Now = r.int()
	c.JobVersion = r.uint()
	n := r.length(3)
	group, index := 0, uint32(math.MaxUint32)
	c.Place, c.nodes = make([]berth.Placement, n), make([]uint32, n)
	for i := range c.Place {
		p := &c.Place[i]
		flags := r.byte()
		index++
		if flags&placeGroup != 0 {
			group = int(r.small(berth.MaxGroups, "group"))
		}
		if flags&placeSkip != 0 {
			index = uint32(r.small(math.MaxUint32, "index"))
		}
		p.Group, p.Index = group, index
		c.nodes[i] = uint32(r.small(math.MaxUint32+1, "node"))
		p.Score = r.score()
		if flags&placePorts != 0 {
			p.Ports = r.ports()
		}
		if flags&placeNamed != 0 {
			p.Cores = r.ports()
			r.value(&p.Devices)
		}
		if flags&placePrevious != 0 {
			p.Previous = r.id()
		}
		if flags&placeRare != 0 {
			rare := r.byte()
			p.Canary, p.Before = rare&rareCanary != 0, rare&rareBefore != 0
		}
		if flags&placeEvict != 0 {
			p.Evict = make([]berth.AllocID, r.length(16))
			for i := range p.Evict {
				p.Evict[i] = r.id()
			}
		}
		p.Resched = flags&placeResched != 0
	}
	c.Stop = make([]berth.AllocStop, r.length(19))
	for i := range c.Stop {
		s := &c.Stop[i]
		s.ID = r.id()
		s.Client = berth.ClientStatus(r.small(uint64(berth.ClientUnknown)+1, "client status"))
		s.FollowupEval = r.optional()
		s.Description = r.reason()
	}
	c.Update = make([]berth.AllocID, r.length(16))
	for i := range c.Update {
		c.Update[i] = r.id()
	}
	if r.bool() {
		r.value(&c.Explain)
	}
	if r.bool() {
		var d planDeployment
		r.value(&d)
		c.Deploy, c.Deployed = d.Deploy, d.Deployed
	}
	if r.bool() {
		c.End = &EvalEnd{}
		c.End.unpack(r, c.Now)
	}
}

// ports writes numbers of ports, or of cores.
func (w *writer) ports(list []uint16) {
	w.uint(uint64(len(list)))
	for _, p := range list {
		w.byte(byte(p >> 8))
		w.byte(byte(p))
	}
}

func (r *reader) ports() []uint16 {
	list := make([]uint16, r.length(2))
	for i := range list {
		list[i] = uint16(r.byte())<<8 | uint16(r.byte())
	}
	return list
}

// reasons are the descriptions that the log writes as a number: append, never
// reorder.
var reasons = []string{
	"", berth.StopSurplus, berth.StopReplaced, berth.StopNodeLost, berth.StopFailed, berth.StopGroupGone,
	berth.StopJobEnded, berth.StopOldJob, berth.StopUnfit, berth.StopNotMet,
	berth.StopMigrated, berth.StopAway, berth.StopRejoined, berth.StopCanary, berth.StopDone, berth.UnknownAway,
}

func (w *writer) reason(s string) {
	for i, known := range reasons {
		if s == known {
			w.byte(byte(i))
			return
		}
	}
	w.byte(math.MaxUint8)
	w.text(s)
}

func (r *reader) reason() string {
	switch i := r.byte(); {
	case i == math.MaxUint8:
		return r.text()
	case int(i) < len(reasons):
		return reasons[i]
	default:
		r.fail("description")
		return ""
	}
}

var evalStatuses = []string{berth.EvalPending, berth.EvalBlocked, berth.EvalComplete, berth.EvalFailed, berth.EvalCanceled}

// An end is its status, its times as differences to now, and all that few
// evaluations have as msgpack.
func (e *EvalEnd) pack(w *writer, now int64) {
	for i, s := range evalStatuses {
		if s == e.Status {
			w.byte(byte(i))
		}
	}
	w.uint(e.SnapshotIndex)
	w.timeline(e.Timeline, now)
	rest := endRest{e.Description, e.Failed, e.Queued, e.Missed, e.Blocked, e.Later, e.Nodes}
	plain := e.Description == "" && len(e.Failed) == 0 && len(e.Queued) == 0 && e.Missed == nil && e.Blocked == nil && len(e.Later) == 0 && len(e.Nodes) == 0
	w.bool(!plain)
	if !plain {
		w.value(&rest)
	}
}

type endRest struct {
	Description string
	Failed      map[string]*berth.AllocMetric
	Queued      map[string]int
	Missed      *berth.Missed
	Blocked     *NewEval
	Later       []NewEval
	Nodes       []NodeWait `msgpack:",omitempty"`
}

func (e *EvalEnd) unpack(r *reader, now int64) {
	e.Status = evalStatuses[r.small(uint64(len(evalStatuses)), "status")]
	e.SnapshotIndex = r.uint()
	e.Timeline = r.timeline(now)
	if r.bool() {
		var rest endRest
		r.value(&rest)
		e.Description, e.Failed, e.Queued = rest.Description, rest.Failed, rest.Queued
		e.Missed, e.Blocked, e.Later, e.Nodes = rest.Missed, rest.Blocked, rest.Later, rest.Nodes
	}
}

func (w *writer) timeline(t berth.Timeline, now int64) {
	for _, at := range []int64{t.Enqueued, t.Dequeued, t.Planned, t.Applied} {
		if at == 0 {
			w.uint(0)
		} else {
			w.uint(1 + zigzag(now-at))
		}
	}
	w.uint(uint64(t.Deliveries))
	w.uint(uint64(t.Refused))
}

func (r *reader) timeline(now int64) (t berth.Timeline) {
	for _, at := range []*int64{&t.Enqueued, &t.Dequeued, &t.Planned, &t.Applied} {
		if z := r.uint(); z != 0 {
			*at = now - unzigzag(z-1)
		}
	}
	t.Deliveries = int(r.small(math.MaxInt32, "deliveries"))
	t.Refused = int(r.small(math.MaxInt32, "refused plans"))
	return t
}

func zigzag(v int64) uint64   { return uint64(v<<1) ^ uint64(v>>63) }
func unzigzag(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }

// Flags of an update.
const (
	updateText = 1 << 4 // the lower bits are the client status
	updateMore = 1 << 5
)

func (c *ReportAllocs) pack(w *writer) {
	w.uint(uint64(c.number))
	if c.number == 0 {
		w.id(c.Node)
	}
	w.int(c.Now)
	w.uint(uint64(len(c.Updates)))
	for i := range c.Updates {
		u := &c.Updates[i]
		more := updateRest{u.Deployment, u.Network}
		w.byte(byte(u.Client) | flag(updateText, u.Description != "") | flag(updateMore, more != updateRest{}))
		w.id(u.ID)
		w.text(string(u.Tasks))
		if u.Description != "" {
			w.text(u.Description)
		}
		if more != (updateRest{}) {
			w.value(&more)
		}
	}
}

type updateRest struct {
	Deployment *berth.AllocDeploymentStatus
	Network    *berth.AllocNetworkStatus
}

func (c *ReportAllocs) unpack(r *reader) {
	c.number = uint32(r.small(math.MaxUint32, "node"))
	c.fromLog = c.number != 0
	if !c.fromLog {
		c.Node = r.id()
	}
	c.Now = r.int()
	c.Updates = make([]AllocUpdate, r.length(18))
	for i := range c.Updates {
		u := &c.Updates[i]
		flags := r.byte()
		u.Client = berth.ClientStatus(flags & 0xf)
		if u.Client > berth.ClientUnknown {
			r.fail("client status")
		}
		u.ID = r.id()
		u.Tasks = berth.TaskStatesPack(r.text())
		if flags&updateText != 0 {
			u.Description = r.text()
		}
		if flags&updateMore != 0 {
			var more updateRest
			r.value(&more)
			u.Deployment, u.Network = more.Deployment, more.Network
		}
	}
}

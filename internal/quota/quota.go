// Package quota is the arithmetic of quotas: which limits one has, what an
// allocation or a job counts against them, and what they lack. The scheduler
// decides with it, and the state checks with it what it commits.
//
// A quota is a list of lines, each with its limit, and its usage is one number
// for each line. What an allocation counts follows from its job and its group
// alone. If these leave open what it will be given, it counts wherever it could:
// a job of the node pool "all" in every pool with limits, and a device asked for
// by type with every limit of that type.
package quota

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"berth"
)

// Kind is what a line counts.
type Kind uint8

// The kinds of lines.
const (
	CPU Kind = iota
	Cores
	Memory
	MemoryMax
	Allocations
	Jobs
	Variables // bytes
	Device
)

// kinds has the name and the unit of each kind.
var kinds = [...][2]string{
	CPU: {"cpu", " MHz"}, Cores: {"cores", ""}, Memory: {"memory", " MiB"}, MemoryMax: {"memory_max", " MiB"},
	Allocations: {"allocations", ""}, Jobs: {"jobs", ""}, Variables: {"variables", " bytes"}, Device: {"device", ""},
}

// Line is one limit.
type Line struct {
	Pool   string // "": all of the region
	Kind   Kind
	Device string // of kind Device: its name
	Limit  int64  // 0: none; negative: nothing is allowed
}

// String returns what the line counts, as people read it.
func (l Line) String() string {
	s := kinds[l.Kind][0]
	if l.Kind == Device {
		s += fmt.Sprintf(" %q", l.Device)
	}
	if l.Pool != "" {
		s += fmt.Sprintf(" in node pool %q", l.Pool)
	}
	return s
}

// Usage is what is used of a quota. A stored one never changes.
type Usage struct {
	Quota string
	Lines []Line
	Used  []int64 // of each line
	Index uint64  // of the last change
}

// Lines returns the lines of a quota. Besides its limits they have what is only
// counted.
func Lines(q *berth.Quota) (out []Line) {
	here := q.Here()
	if here == nil {
		here = &berth.QuotaLimit{}
	}
	r := here.RegionLimit
	if r == nil {
		r = &berth.QuotaResources{}
	}
	out = appendLines(nil, "", r)
	variables := int64(0)
	if here.VariablesLimit != nil {
		variables = int64(*here.VariablesLimit)
	}
	if r.Storage != nil && r.Storage.VariablesMB != 0 {
		variables = int64(r.Storage.VariablesMB)
	}
	out = append(out, Line{Kind: Variables, Limit: clamp(variables) << 20})
	for _, p := range r.NodePools {
		out = appendLines(out, p.NodePool, p)
	}
	return out
}

// clamp returns a limit that can be added to without overflow.
func clamp(n int64) int64 { return max(min(n, math.MaxInt64>>22), -1) }

// appendLines appends the lines of a region or of a node pool.
func appendLines(out []Line, pool string, r *berth.QuotaResources) []Line {
	for _, x := range []struct {
		kind  Kind
		limit *int
	}{{CPU, r.CPU}, {Cores, r.Cores}, {Memory, r.MemoryMB}, {MemoryMax, r.MemoryMaxMB}, {Allocations, r.Allocations}, {Jobs, r.Jobs}} {
		l := Line{Pool: pool, Kind: x.kind}
		if x.limit != nil {
			l.Limit = clamp(int64(*x.limit))
		}
		out = append(out, l)
	}
	for _, d := range r.Devices {
		l := Line{Pool: pool, Kind: Device, Device: d.Name, Limit: int64(d.Count)}
		if d.Count == 0 { // as for devices that are asked for, 0 is a number
			l.Limit = -1
		}
		out = append(out, l)
	}
	return out
}

// Empty returns the usage of a quota that nothing uses.
func Empty(q *berth.Quota, index uint64) *Usage {
	lines := Lines(q)
	return &Usage{Quota: q.Name, Lines: lines, Used: make([]int64, len(lines)), Index: index}
}

// Clone returns a usage that may be changed.
func (u *Usage) Clone() *Usage {
	c := *u
	c.Used = slices.Clone(u.Used)
	return &c
}

// unbounded is what an allocation counts whose tasks may use any amount of
// memory, and is more than any limit. It is not added up.
const unbounded = math.MaxInt64 >> 8

// Of returns what one allocation of a job's group counts on each line.
func (u *Usage) Of(j *berth.Job, g *berth.TaskGroup) []int64 {
	sum := [...]int64{CPU: 0, Cores: 0, Memory: 0, MemoryMax: 0, Allocations: 1, Jobs: 0, Variables: 0, Device: 0}
	anyAmount := false
	for _, t := range g.Tasks {
		r := t.Resources
		sum[CPU] += int64(r.CPU)
		sum[Cores] += int64(r.Cores)
		sum[Memory] += int64(r.MemoryMB + r.SecretsMB)
		sum[MemoryMax] += int64(max(r.MemoryMB, r.MemoryMaxMB) + r.SecretsMB)
		anyAmount = anyAmount || r.MemoryMaxMB < 0
	}
	if anyAmount {
		sum[MemoryMax] += unbounded
	}
	out := make([]int64, len(u.Lines))
	for i, l := range u.Lines {
		switch {
		case !l.covers(j):
		case l.Kind == Device:
			out[i] = devices(l.Device, g)
		default:
			out[i] = sum[l.Kind]
		}
	}
	return out
}

// OfJob returns what a job itself counts on each line.
func (u *Usage) OfJob(j *berth.Job) []int64 {
	out := make([]int64, len(u.Lines))
	for i, l := range u.Lines {
		if l.Kind == Jobs && l.covers(j) {
			out[i] = 1
		}
	}
	return out
}

// OfVariable returns what encrypted variables of that size count on each line.
func (u *Usage) OfVariable(bytes int) []int64 {
	out := make([]int64, len(u.Lines))
	for i, l := range u.Lines {
		if l.Kind == Variables {
			out[i] = int64(bytes)
		}
	}
	return out
}

// covers reports whether a job's allocations could be on the line's nodes.
func (l Line) covers(j *berth.Job) bool {
	return l.Pool == "" || l.Pool == j.NodePool || j.NodePool == berth.AllNodePool
}

// devices returns how many devices that the limit counts a group could be given.
func devices(limit string, g *berth.TaskGroup) (n int64) {
	for _, t := range g.Tasks {
		for i := range t.Resources.Devices {
			if d := &t.Resources.Devices[i]; sameDevice(limit, d.Name) {
				n += int64(d.Count)
			}
		}
	}
	return n
}

// sameDevice reports whether a device can have both names: type, vendor/type or
// vendor/type/name.
func sameDevice(a, b string) bool {
	x, y := strings.SplitN(a, "/", 3), strings.SplitN(b, "/", 3)
	if len(x) == 1 {
		x = []string{"", x[0]}
	}
	if len(y) == 1 {
		y = []string{"", y[0]}
	}
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] && x[i] != "" && y[i] != "" {
			return false
		}
	}
	return true
}

// Add counts what Of and its siblings returned, n times.
func (u *Usage) Add(ask []int64, n int64) {
	for i, x := range ask {
		if x >= unbounded { // what is used at least
			x -= unbounded
		}
		u.Used[i] += n * x
	}
}

// Room returns how often the ask can be added within the limits, up to most.
func (u *Usage) Room(ask []int64, most int) int {
	n := int64(most)
	for i, x := range ask {
		switch l := u.Lines[i].Limit; {
		case x <= 0 || l == 0:
		case l < 0:
			return 0
		default:
			n = min(n, max(l-u.Used[i], 0)/x)
		}
	}
	return int(n)
}

// Lacks says in numbers, line by line, why an ask cannot be added; nothing if it
// can.
func (u *Usage) Lacks(ask []int64) (out []string) {
	for i, x := range ask {
		l := u.Lines[i]
		if x <= 0 || l.Limit == 0 || x <= l.Limit-u.Used[i] {
			continue
		}
		unit := kinds[l.Kind][1]
		switch {
		case l.Limit < 0:
			out = append(out, fmt.Sprintf("%s: not allowed", l))
		case x >= unbounded:
			out = append(out, fmt.Sprintf("%s: any amount asked, limited to %d%s", l, l.Limit, unit))
		default:
			out = append(out, fmt.Sprintf("%s: %d%s asked, %d of %d%s left", l, x, unit, max(l.Limit-u.Used[i], 0), l.Limit, unit))
		}
	}
	return out
}

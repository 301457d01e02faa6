package explain

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"berth"
	"berth/internal/condition"
	"berth/internal/fit"
	"berth/internal/schedule/place"
	"berth/internal/state"
	"berth/op"
)

// nodes looks for how many nodes would have to join, and of what kind: like an
// existing one that meets all constraints or, failing that, like the
// nearest one with the missing properties added.
func (f *finder) nodes(x *op.GroupExplanation, all []place.Verdict) {
	if f.tryNodes(x, all, nil) {
		return
	}
	// No node can meet everything: drop the constraints that none meets.
	var drop []string
	for _, c := range f.constraints() {
		if text := c.String(); x.Conditions[text] == x.Nodes {
			drop = append(drop, text)
		}
	}
	if len(drop) == 0 || !f.tryNodes(x, all, drop) {
		drop = drop[:0]
		for _, c := range f.constraints() {
			drop = append(drop, c.String())
		}
		f.tryNodes(x, all, drop)
	}
}

// tryNodes looks for nodes to add if the constraints in drop are removed from
// the job, and reports whether it found some.
func (f *finder) tryNodes(x *op.GroupExplanation, all []place.Verdict, drop []string) bool {
	var first []state.Command
	if len(drop) > 0 {
		first = append(first, f.register(f.without(drop...)))
	}
	for _, v := range f.templates(all) {
		shape := f.nodeShape(v, drop)
		// As large as the instances that one node is to hold.
		per := f.instancesPerNode(v, x.Missing)
		ask := fit.RequestOf(f.group).Ask
		shape.Room = berth.Ask{CPU: ask.CPU * int64(per), MemoryMB: ask.MemoryMB * int64(per), DiskMB: ask.DiskMB * int64(per)}
		if v.Node != nil {
			room := v.Node.Room()
			shape.Larger = shape.Room.CPU > room.CPU || shape.Room.MemoryMB > room.MemoryMB || shape.Room.DiskMB > room.DiskMB
		}
		n := (x.Missing+per-1)/per + f.missingElsewhere()
		if n > nodesTried { // too many to try; how much one of them holds is known
			shape.Count = n
			f.add(costNode*float64(n)+costDrop*float64(len(drop)), op.Change{Drop: drop, Nodes: &shape})
			return true
		}
		// More than computed may be needed, for spread or distinct constraints.
		for ; n <= min(nodesTried, 4*(x.Missing+f.missingElsewhere())); n *= 2 {
			shape.Count = n
			cmds := slices.Clone(first)
			for i := range n {
				cmds = append(cmds, &state.RegisterNode{Node: Build(f.snap, &shape, i), Now: f.now.UnixNano()})
			}
			if f.works(cmds...) {
				f.add(costNode*float64(n)+costDrop*float64(len(drop)), op.Change{Drop: drop, Nodes: &shape})
				return true
			}
		}
	}
	return false
}

// missingElsewhere returns how many instances of other groups also lack a
// place: each may use up one of the new nodes.
func (f *finder) missingElsewhere() (sum int) {
	for g, n := range f.queued {
		if g != f.group.Name {
			sum += n
		}
	}
	return sum
}

// templates returns the nodes to model new ones on: the nearest of each class
// that meets all constraints, otherwise the nearest of all.
func (f *finder) templates(all []place.Verdict) (out []place.Verdict) {
	seen := map[string]bool{}
	for _, v := range all {
		if len(v.Unmet) == 0 && !seen[v.Node.Class] && len(out) < nearestKept {
			seen[v.Node.Class] = true
			out = append(out, v)
		}
	}
	switch {
	case len(out) > 0:
		return out
	case len(all) > 0:
		return all[:1]
	}
	return []place.Verdict{{}} // no nodes: model it on the ask alone
}

// instancesPerNode returns how many instances fit on one such node when it is
// empty.
func (f *finder) instancesPerNode(v place.Verdict, missing int) int {
	w := fit.RequestOf(f.group)
	if v.Node == nil || len(w.Static) > 0 {
		return 1
	}
	for _, c := range f.constraints() {
		if c.Operand == berth.OpDistinctHosts || c.Operand == berth.OpDistinctProperty {
			return 1
		}
	}
	room, n := v.Node.Room(), int64(missing)
	for _, d := range [][2]int64{{room.CPU, w.CPU}, {room.MemoryMB, w.MemoryMB}, {room.DiskMB, w.DiskMB}} {
		if d[1] > 0 {
			n = min(n, d[0]/d[1])
		}
	}
	return int(max(n, 1))
}

// nodeShape returns the properties of new nodes, copied from the template where
// possible.
func (f *finder) nodeShape(v place.Verdict, drop []string) op.MoreNodes {
	s := op.MoreNodes{NodePool: f.job.NodePool, Set: map[string]string{}}
	s.Datacenter, s.Datacenters = f.datacenter()
	if s.NodePool == berth.AllNodePool {
		s.NodePool = berth.DefaultNodePool
	}
	// Without a node to be like, the shape is made of what the job asks for
	// alone.
	n := v.Node
	if n == nil {
		n = &berth.Node{}
	} else {
		s.Like, s.LikeName, s.NodeClass = n.ID, n.Name, n.NodeClass
		if !v.OtherDatacenter {
			s.Datacenter, s.Datacenters = n.Datacenter, ""
		}
		if f.job.NodePool == berth.AllNodePool {
			s.NodePool = n.NodePool
		}
		s.Elsewhere, s.OtherPool = s.Datacenter != n.Datacenter, s.NodePool != n.NodePool
	}
	// What the similar node lacks is added to the shape, one kind after the
	// other.
	for _, port := range fit.RequestOf(f.group).Static {
		if n.NodeResources != nil && f.snap.Usage(n.Number).Reserved.Has(port) {
			s.Ports = append(s.Ports, int(port))
		}
	}
	for _, t := range f.group.Tasks {
		if d := n.Drivers[t.Driver]; (d == nil || !d.Detected || !d.Healthy) && !slices.Contains(s.Drivers, t.Driver) {
			s.Drivers = append(s.Drivers, t.Driver)
		}
	}
	for _, c := range f.constraints() {
		switch {
		case slices.Contains(drop, c.String()):
		case c.Operand == berth.OpDistinctHosts:
		case c.Operand == berth.OpDistinctProperty:
			s.Distinct = append(s.Distinct, c.LTarget)
		case !place.Meets(c, n, f.job.Region):
			meet(&s, c, f.job.Region)
		case strings.Contains(c.LTarget, "unique."): // a similar node does not have it
			s.Set[c.LTarget], _ = condition.Resolve(c.LTarget, n, f.job.Region)
		}
	}
	return s
}

// anyDatacenter is the pattern that allows every datacenter.
const anyDatacenter = "*"

// datacenter returns a datacenter that the job allows, and the pattern of the
// job that allows it, "" if the job names it.
func (f *finder) datacenter() (name, pattern string) {
	const anywhere = "dc1" // a name that "*" allows
	if len(f.job.Datacenters) == 0 || slices.Contains(f.job.Datacenters, anyDatacenter) {
		return anywhere, anyDatacenter
	}
	for _, dc := range f.job.Datacenters {
		if !strings.ContainsAny(dc, "*?[") {
			return dc, ""
		}
	}
	pattern = f.job.Datacenters[0]
	name = strings.NewReplacer("*", "", "?", "1", "[", "", "]", "").Replace(pattern)
	return cmp.Or(name, anywhere), pattern
}

// meet adds what a node needs to meet a constraint, if something simple does.
func meet(s *op.MoreNodes, c berth.Constraint, region string) {
	if c.Operand == berth.OpIsNotSet {
		s.Unset = append(s.Unset, c.LTarget)
		return
	}
	if strings.HasPrefix(c.RTarget, "${") {
		return
	}
	for _, value := range values(c) {
		n := &berth.Node{Attributes: map[string]string{}, Meta: map[string]string{}}
		set(n, c.LTarget, value)
		if place.Meets(c, n, region) {
			s.Set[c.LTarget] = value
			return
		}
	}
}

// values returns guesses of values that meet a constraint.
func values(c berth.Constraint) []string {
	out := []string{c.RTarget, "any", c.RTarget + "-other"}
	if c.Operand == berth.OpRegexp {
		if re, err := syntax.Parse(c.RTarget, syntax.Perl); err == nil {
			out = append(out, matching(re.Simplify()))
		}
	}
	for field := range strings.FieldsFuncSeq(c.RTarget, func(r rune) bool { return strings.ContainsRune("<>=!~, ", r) }) {
		out = append(out, field, field+".1", strings.TrimSuffix(field, ".0"))
		if n, err := strconv.ParseInt(strings.SplitN(field, ".", 2)[0], 10, 64); err == nil {
			out = append(out, strconv.FormatInt(n+1, 10), strconv.FormatInt(n-1, 10), fmt.Sprintf("%d.0.0", n+1), fmt.Sprintf("%d.0.0", max(n-1, 0)))
		}
	}
	return out
}

// matching returns a short text that matches a regular expression, in most
// cases.
func matching(re *syntax.Regexp) string {
	switch re.Op {
	case syntax.OpLiteral:
		return string(re.Rune)
	case syntax.OpCharClass:
		if len(re.Rune) > 0 {
			return string(re.Rune[0])
		}
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return "x"
	case syntax.OpCapture, syntax.OpPlus:
		return matching(re.Sub[0])
	case syntax.OpRepeat:
		return strings.Repeat(matching(re.Sub[0]), min(re.Min, 100))
	case syntax.OpAlternate:
		return matching(re.Sub[0])
	case syntax.OpConcat:
		var b strings.Builder
		for _, s := range re.Sub {
			b.WriteString(matching(s))
		}
		return b.String()
	}
	return ""
}

// set sets on a node the value of a constraint's target.
func set(n *berth.Node, target, value string) {
	inner := strings.TrimSuffix(strings.TrimPrefix(target, "${"), "}")
	kind, key, _ := strings.Cut(inner, ".")
	switch {
	case kind == "attr":
		n.Attributes[key] = value
	case kind == "meta":
		n.Meta[key] = value
	case inner == "node.class":
		n.NodeClass = value
	case inner == "node.datacenter":
		n.Datacenter = value
	case inner == "node.pool":
		n.NodePool = value
	case inner == "node.unique.name":
		n.Name = value
	}
}

// unset removes from a node the value of a constraint's target.
func unset(n *berth.Node, target string) {
	inner := strings.TrimSuffix(strings.TrimPrefix(target, "${"), "}")
	kind, key, _ := strings.Cut(inner, ".")
	switch kind {
	case "attr":
		delete(n.Attributes, key)
	case "meta":
		delete(n.Meta, key)
	}
}

// Build returns the i-th of the nodes that a change proposes, as it would be if
// it joined.
func Build(snap *state.Snapshot, m *op.MoreNodes, i int) *berth.Node {
	n := &berth.Node{NodeResources: &berth.NodeResources{}}
	if like := snap.Node(m.Like); like != nil {
		own := *like
		n = &own
		r := *like.NodeResources
		n.NodeResources = &r
	}
	// IDs are equal in each search, so that it finds the same again.
	n.ID = berth.NodeID{}
	copy(n.ID[:], "explain")
	binary.BigEndian.PutUint64(n.ID[8:], uint64(i+1))
	n.SecretID, n.Name, n.Events = "explain", "new-"+strconv.Itoa(i+1), nil
	// The similar node may be down or drained; this one has just joined.
	n.Status, n.SchedulingEligibility, n.StatusDescription = berth.NodeReady, berth.NodeEligible, ""
	n.Datacenter, n.NodePool, n.NodeClass = m.Datacenter, m.NodePool, m.NodeClass
	n.Attributes, n.Meta, n.Drivers = cloned(n.Attributes), cloned(n.Meta), maps.Clone(n.Drivers)
	if n.Drivers == nil {
		n.Drivers = map[string]*berth.DriverInfo{}
	}
	for _, d := range m.Drivers {
		n.Drivers[d] = &berth.DriverInfo{Detected: true, Healthy: true}
	}
	for target, value := range m.Set {
		set(n, target, value)
	}
	for _, target := range m.Unset {
		unset(n, target)
	}
	for _, target := range m.Distinct {
		set(n, target, "new-"+strconv.Itoa(i+1))
	}
	if len(m.Ports) > 0 && n.ReservedResources != nil {
		n.ReservedResources = freed(n.ReservedResources, m.Ports)
	}
	// Enlarged where the similar node is too small for the ask.
	lacks := m.Room.Sub(n.Room())
	n.NodeResources.Cpu.CpuShares += max(0, lacks.CPU)
	n.NodeResources.Memory.MemoryMB += max(0, lacks.MemoryMB)
	n.NodeResources.Disk.DiskMB += max(0, lacks.DiskMB)
	return n
}

// freed returns a node's reserved resources without the given ports.
func freed(r *berth.NodeReservedResources, ports []int) *berth.NodeReservedResources {
	own := *r
	var keep []string
	all, _ := fit.ReservedPorts(own.Networks.ReservedHostPorts) // it was checked when the node joined
	for _, p := range all {
		if !slices.Contains(ports, int(p)) {
			keep = append(keep, strconv.Itoa(int(p)))
		}
	}
	own.Networks.ReservedHostPorts = strings.Join(keep, ",")
	return &own
}

// cloned returns a copy that can be written to, also of nil.
func cloned(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return maps.Clone(m)
}

// nodesText describes the nodes that would have to join.
func nodesText(m *op.MoreNodes) string {
	var b strings.Builder
	if m.Count == 1 {
		b.WriteString("one more node")
	} else {
		fmt.Fprintf(&b, "%d more nodes", m.Count)
	}
	switch {
	case m.Larger && m.NodeClass != "":
		fmt.Fprintf(&b, ", larger than those of class %s", m.NodeClass)
	case m.Larger:
		fmt.Fprintf(&b, ", larger than %s", m.LikeName)
	case m.NodeClass != "":
		fmt.Fprintf(&b, " of class %s", m.NodeClass)
	case m.LikeName != "":
		fmt.Fprintf(&b, " like %s", m.LikeName)
	default:
		b.WriteString(whereText(m))
	}
	if m.LikeName != "" && m.Elsewhere {
		b.WriteString(whereText(m))
	}
	if m.LikeName != "" && m.OtherPool {
		fmt.Fprintf(&b, " in node pool %s", m.NodePool)
	}
	for _, d := range m.Drivers {
		fmt.Fprintf(&b, ", with the driver %s", d)
	}
	for _, t := range slices.Sorted(maps.Keys(m.Set)) {
		fmt.Fprintf(&b, ", with %s = %s", t, m.Set[t])
	}
	for _, t := range m.Unset {
		fmt.Fprintf(&b, ", without %s", t)
	}
	for _, p := range m.Ports {
		fmt.Fprintf(&b, ", that does not reserve port %d", p)
	}
	for _, t := range m.Distinct {
		fmt.Fprintf(&b, ", with a %s of its own", t)
	}
	fmt.Fprintf(&b, ", with at least %d MHz, %d MiB of memory and %d MiB of disk free", m.Room.CPU, m.Room.MemoryMB, m.Room.DiskMB)
	return b.String()
}

// whereText describes where the nodes must be; "" if any datacenter will do.
func whereText(m *op.MoreNodes) string {
	switch m.Datacenters {
	case "":
		return " in datacenter " + m.Datacenter
	case anyDatacenter:
		return ""
	}
	return " in a datacenter that matches " + m.Datacenters
}

package statetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"berth"
)

// Stories of several packages name nodes and jobs by lines of text:
//
//	node n1 cpu=4000 mem=8000 dc=dc2 pool=gpu class=big attr.os=linux meta.rack=r1
//	nodes 4 cpu=4000 meta.rack=r1|r2
//	job web type=batch count=3 cpu=500 mem=100 port.http=dynamic port.admin=8080
//	job web groups=a,b count=1 a.count=2 constraint="${meta.rack} = r1" task.Env={"A":"1"}

// NodesOf returns the nodes of a line: one of "node n7 …", several of
// "nodes 3 …" or of "nodes 3 from=4 …", where values parted by | take turns.
func NodesOf(t testing.TB, l *Line) (out []*berth.Node) {
	t.Helper()
	if l.Verb == "node" {
		return []*berth.Node{nodeOf(t, l, NodeNumber(t, l.Word(0)), 0)}
	}
	n, err := strconv.Atoi(l.Word(0))
	if err != nil {
		t.Fatalf("%s: how many nodes?", l)
	}
	first := l.Int(t, "from", 1)
	for i := range n {
		out = append(out, nodeOf(t, l, first+i, i))
	}
	return out
}

// NodeNumber returns the 7 of n7.
func NodeNumber(t testing.TB, name string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimPrefix(name, "n"))
	if err != nil {
		t.Fatalf("%q does not name a node; n7 would", name)
	}
	return n
}

// nodeOf returns the node that a line describes. Of values with | the node with
// this turn takes its own part, so that one line makes different nodes.
func nodeOf(t testing.TB, l *Line, number, turn int) *berth.Node {
	t.Helper()
	pick := func(v string) string {
		parts := strings.Split(v, "|")
		return parts[turn%len(parts)]
	}
	size := func(name string, def int64) int64 {
		n, err := strconv.ParseInt(pick(l.Text(name, strconv.FormatInt(def, 10))), 10, 64)
		if err != nil {
			t.Fatalf("%s: %s: %v", l, name, err)
		}
		return n
	}
	n := Node(number, size("cpu", 4000), size("mem", 4000))
	n.NodeResources.Disk.DiskMB = size("disk", 1<<20)
	n.Datacenter, n.NodePool = pick(l.Text("dc", "dc1")), pick(l.Text("pool", berth.DefaultNodePool))
	n.NodeClass, n.Status = pick(l.Text("class", "")), pick(l.Text("status", berth.NodeReady))
	n.Name = pick(l.Text("name", n.Name))
	n.ReservedResources.Networks.ReservedHostPorts = l.Text("reserved", "")
	n.ReservedResources.Cpu.CpuShares = uint64(size("keep.cpu", 0))
	n.ReservedResources.Memory.MemoryMB = uint64(size("keep.mem", 0))
	if r := l.Text("ports", ""); r != "" {
		if _, err := fmt.Sscanf(r, "%d-%d", &n.NodeResources.MinDynamicPort, &n.NodeResources.MaxDynamicPort); err != nil {
			t.Fatalf("%s: ports: %v", l, err)
		}
	}
	// Attributes, metadata and drivers are added to those of Node; - adds none.
	things(t, l, n, pick)
	attrs, _ := l.Under("attr")
	for k, v := range attrs {
		if v = pick(v); v != "-" { // absent
			n.Attributes[k] = v
		}
	}
	n.Meta = map[string]string{}
	metas, _ := l.Under("meta")
	for k, v := range metas {
		if v = pick(v); v != "-" {
			n.Meta[k] = v
		}
	}
	drivers, _ := l.Under("driver")
	for k, v := range drivers {
		switch pick(v) {
		case "unhealthy":
			n.Drivers[k] = &berth.DriverInfo{Detected: true}
		case "missing":
			delete(n.Drivers, k)
		case "healthy":
			n.Drivers[k] = &berth.DriverInfo{Detected: true, Healthy: true}
		default:
			t.Fatalf("%s: a driver is healthy, unhealthy or missing", l)
		}
	}
	return n
}

// JobOf returns the job of a line. A group's values can be said for all groups
// or, with its name and a dot before, for one. The job's own values are
//
//	type priority ns dc pool groups jobconstraint jobaffinity jobspread job.FIELD
//
// and a group's
//
//	count cpu mem disk driver port.LABEL constraint affinity spread reschedule
//	cores numa numa.devices memmax mode volume.NAME device device.constraint device.affinity
//	group.FIELD task.FIELD
//
// where FIELD is a field's name and its value JSON or plain text. A second
// constraint or affinity is called constraint.2 and so on.
func JobOf(t testing.TB, l *Line) *berth.Job {
	t.Helper()
	return Job(t, JobText(t, l))
}

// JobText returns the job of a line as JSON.
func JobText(t testing.TB, l *Line) string {
	t.Helper()
	job := map[string]any{"ID": l.Word(0)}
	for field, name := range map[string]string{"Type": "type", "Namespace": "ns", "NodePool": "pool"} {
		if v := l.Text(name, ""); v != "" {
			job[field] = v
		}
	}
	if dcs := l.List("dc"); dcs != nil {
		job["Datacenters"] = dcs
	}
	if p := l.Int(t, "priority", 0); p != 0 {
		job["Priority"] = p
	}
	conditions(t, l, job, "", "jobconstraint", "jobaffinity")
	fields(l, job, "job")
	names := l.List("groups")
	if names == nil {
		names = []string{"g"}
	}
	var groups []any
	for _, name := range names {
		groups = append(groups, groupOf(t, l, name))
	}
	job["TaskGroups"] = groups
	l.Done(t)
	text, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// groupOf returns the tree of a job's group. A value for NAME.KEY counts before
// one for KEY, which is for all groups.
func groupOf(t testing.TB, l *Line, name string) map[string]any {
	t.Helper()
	text := func(key, def string) string { return l.Text(name+"."+key, l.Text(key, def)) }
	number := func(key string, def int) int { return l.Int(t, name+"."+key, l.Int(t, key, def)) }
	resources := resourcesOf(t, l, name)
	task := map[string]any{"Name": "task", "Driver": text("driver", "mock_driver"), "Resources": resources}
	group := map[string]any{"Name": name, "Count": number("count", 1)}
	if volumes := volumesOf(l, name); volumes != nil {
		group["Volumes"] = volumes
	}
	if disk := number("disk", 0); disk != 0 {
		group["EphemeralDisk"] = map[string]any{"SizeMB": disk}
		task["LogConfig"] = map[string]any{"MaxFiles": 1, "MaxFileSizeMB": 1}
	}
	if ports := portsOf(t, l, name); len(ports) > 0 {
		group["Networks"] = []any{map[string]any{"Mode": text("mode", berth.NetworkHost), "DynamicPorts": ports}}
	} else if mode := text("mode", ""); mode != "" {
		group["Networks"] = []any{map[string]any{"Mode": mode}}
	}
	if p := text("reschedule", ""); p != "" {
		group["ReschedulePolicy"] = policyOf(t, p)
	}
	conditions(t, l, group, name, "constraint", "affinity")
	for _, prefix := range []string{"", name + "."} {
		fields(l, group, prefix+"group")
		fields(l, task, prefix+"task")
	}
	if group["Tasks"] == nil {
		group["Tasks"] = []any{task}
	}
	return group
}

// fields sets what the line says under prefix.
func fields(l *Line, tree map[string]any, prefix string) {
	values, _ := l.Under(prefix)
	for k, v := range values {
		var x any
		if err := json.Unmarshal([]byte(v), &x); err != nil {
			x = v
		}
		tree[k] = x
	}
}

// portsOf returns the ports of a group: those of all groups, then its own.
func portsOf(t testing.TB, l *Line, group string) (out []any) {
	t.Helper()
	for _, prefix := range []string{"port", group + ".port"} {
		values, names := l.Under(prefix)
		for _, label := range names {
			p := map[string]any{"Label": label}
			v, network, _ := strings.Cut(values[label], "@")
			if network != "" {
				p["HostNetwork"] = network
			}
			if v, p["IgnoreCollision"] = strings.CutSuffix(v, "!"); v != "dynamic" {
				n, err := strconv.Atoi(v)
				if err != nil {
					t.Fatalf("%s: a port is dynamic or a number, with @ and a host network, and a number with ! if others may have it", l)
				}
				p["Value"] = n
			}
			out = append(out, p)
		}
	}
	return out
}

// policyOf reads "attempts=1 interval=1h delay=30s function=constant max=1h",
// "unlimited delay=…" or "never".
func policyOf(t testing.TB, text string) map[string]any {
	t.Helper()
	l := Lines(t, "policy "+text)[0]
	if l.Has("never") {
		return map[string]any{"Attempts": 0, "Unlimited": false}
	}
	p := map[string]any{
		"Attempts": l.Int(t, "attempts", 0), "Unlimited": l.Has("unlimited"), "Delay": l.Text("delay", "30s"),
		"Interval": l.Text("interval", "0s"), "DelayFunction": l.Text("function", berth.DelayConstant), "MaxDelay": l.Text("max", "1h"),
	}
	l.Done(t)
	return p
}

// conditions adds the constraints, affinities and spreads of a line to tree, a
// job, group or task. They are numbered from 1 without gaps: a gap ends them.
func conditions(t testing.TB, l *Line, tree map[string]any, group, constraint, affinity string) {
	t.Helper()
	var cons, affs []any
	for _, prefix := range slices.Compact([]string{"", group}) {
		for i := 1; ; i++ {
			c, a := named(l, prefix, constraint, i), named(l, prefix, affinity, i)
			if c == "" && a == "" {
				break
			}
			if c != "" {
				cons = append(cons, conditionOf(strings.Fields(c)))
			}
			if a != "" {
				words := strings.Fields(a)
				weight, err := strconv.Atoi(words[len(words)-1])
				if err != nil {
					t.Fatalf("%s: an affinity ends with its weight", l)
				}
				tree := conditionOf(words[:len(words)-1])
				tree["Weight"] = weight
				affs = append(affs, tree)
			}
		}
	}
	if cons != nil {
		tree["Constraints"] = cons
	}
	if affs != nil {
		tree["Affinities"] = affs
	}
	spreads(t, l, tree, group, strings.Replace(affinity, "affinity", "spread", 1))
}

// named returns the text of the i-th condition with a name, or "". The first
// has no number.
func named(l *Line, prefix, name string, i int) string {
	if prefix != "" {
		name = prefix + "." + name
	}
	if i > 1 {
		name += "." + strconv.Itoa(i)
	}
	return l.Text(name, "")
}

// conditionOf returns a constraint's tree from its words: an operand that
// stands alone, or left, operand and right.
func conditionOf(words []string) map[string]any {
	word := func(i int) string {
		if i < len(words) {
			return words[i]
		}
		return ""
	}
	switch words[0] {
	case berth.OpDistinctHosts:
		return map[string]any{"Operand": words[0], "RTarget": word(1)}
	case berth.OpDistinctProperty:
		return map[string]any{"Operand": words[0], "LTarget": word(1), "RTarget": word(2)}
	}
	return map[string]any{"LTarget": words[0], "Operand": word(1), "RTarget": strings.Join(words[min(2, len(words)):], " ")}
}

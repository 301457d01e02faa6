package berth

import (
	"fmt"
	"maps"
	"reflect"
	"strings"
	"time"
)

// Source is the syntax a tree came from.
type Source int

// The sources of trees.
const (
	FromJSON Source = iota // types are taken as written
	FromHCL                // numbers, bools and strings convert, as HCL users expect
)

// DecodeJob turns a tree into a job with every default filled in, and returns
// all problems at once, those of [Job.Validate] included. This is the one door
// for jobs.
//
// It goes parents first: the type and the job's own blocks, then each group
// starting from the job's resolved blocks (or the defaults of the type), then
// each task starting from its group. A block that says only attempts = 5 thus
// keeps what its parent says of the rest.
func DecodeJob(tree Tree, from Source) (*Job, error) {
	d := &decoder{loose: from == FromHCL}
	j := d.job(tree)
	d.problems = append(d.problems, j.Validate()...)
	if err := d.problems.Err(); err != nil {
		return nil, err
	}
	return j, nil
}

func (d *decoder) job(tree Tree) *Job {
	j := &Job{
		Region:      DefaultRegion,
		Namespace:   DefaultNamespace,
		Type:        TypeService,
		Priority:    DefaultPriority,
		Datacenters: []string{"*"},
		NodePool:    DefaultNodePool,
	}
	if s, ok := lookup(tree, "Type").(string); ok && s != "" {
		j.Type = s // the defaults of blocks depend on it
	}
	if (j.Type == TypeService || j.Type == TypeSystem) && lookup(tree, "Update") == nil {
		u := defaultUpdate() // nothing said is not all at once: that is max_parallel = 0
		j.Update = &u
	}
	const name = "job"
	if lookup(tree, "Reschedule") != nil {
		j.Reschedule = defaultReschedule(j.Type)
	}
	if j.Type == TypeStream {
		s := defaultStream()
		j.Stream = &s
	}
	d.structure(reflect.ValueOf(j).Elem(), tree, name, "TaskGroups")
	j.complete()
	d.children(lookup(tree, "TaskGroups"), name+".group", func(src Tree, at string) {
		j.TaskGroups = append(j.TaskGroups, d.group(j, src, at))
	})
	return j
}

// Whole returns an error unless every block is there that DecodeJob always
// fills in: what reads jobs relies on it, and a job can come from a log that
// something else wrote.
func (j *Job) Whole() error {
	if (j.Type == TypeStream) != (j.Stream != nil) {
		return Errorf(Invalid, "job %q: a job has the blocks of stream jobs if it is one, of type stream; this one is of type %s", clip(string(j.ID), 64), clip(j.Type, 64))
	}
	for _, g := range j.TaskGroups {
		if g == nil || g.RestartPolicy == nil || g.EphemeralDisk == nil || (g.Stream != nil) != (j.Stream != nil) {
			return Errorf(Invalid, "job %q: a group lacks a block", clip(string(j.ID), 64))
		}
		for _, t := range g.Tasks {
			if t == nil || t.Resources == nil || t.RestartPolicy == nil || t.LogConfig == nil {
				return Errorf(Invalid, "job %q: a task lacks a block", clip(string(j.ID), 64))
			}
		}
	}
	return nil
}

// complete mends what an empty text stands for.
func (j *Job) complete() {
	orDefault(&j.Region, DefaultRegion)
	orDefault(&j.Namespace, DefaultNamespace)
	orDefault(&j.Type, TypeService)
	orDefault(&j.NodePool, DefaultNodePool)
	orDefault(&j.Name, string(j.ID))
	if len(j.Datacenters) == 0 {
		j.Datacenters = []string{"*"}
	}
	if j.Stream != nil {
		j.Stream.complete(j.ID)
	}
}

func (d *decoder) group(j *Job, tree Tree, at string) *TaskGroup {
	restart := defaultRestart(j.Type)
	g := &TaskGroup{
		Count:            1,
		RestartPolicy:    &restart,
		ReschedulePolicy: j.Reschedule,
		EphemeralDisk:    &EphemeralDisk{SizeMB: 300},
		Update:           j.Update,
		Migrate:          j.Migrate,
	}
	if g.ReschedulePolicy == nil {
		g.ReschedulePolicy = defaultReschedule(j.Type)
	}
	if s, ok := lookup(tree, "Scaling").(Tree); ok && lookup(tree, "Count") == nil {
		if n, ok := d.quiet(lookup(s, "Min")); ok {
			g.Count = int(n)
		}
	}
	if j.Type == TypeStream {
		d.streamGroup(j, g, tree, at)
	} else {
		d.structure(reflect.ValueOf(g).Elem(), tree, at, "Tasks")
	}
	if g.Scaling != nil {
		p := g.Scaling.Plain()
		if !writes(tree, "Scaling", "Min") {
			p.Min = int64(g.Count)
		}
		orDefault(&p.Type, ScalingHorizontal)
		g.Scaling = p
	}
	for i := range g.Networks {
		g.Networks[i].sortPorts()
	}
	g.Meta = normalMap(g.Meta)
	d.children(lookup(tree, "Tasks"), at+".task", func(src Tree, at string) {
		g.Tasks = append(g.Tasks, d.task(g, src, at))
	})
	j.services(g, nil, g.Services)
	for _, t := range g.Tasks {
		j.services(g, t, t.Services)
	}
	return g
}

func (d *decoder) task(g *TaskGroup, tree Tree, at string) *Task {
	t := &Task{
		KillTimeout:   5 * time.Second,
		RestartPolicy: g.RestartPolicy,
		Resources:     &Resources{CPU: 100, MemoryMB: 300},
		LogConfig:     &LogConfig{MaxFiles: 10, MaxFileSizeMB: 10},
	}
	d.structure(reflect.ValueOf(t).Elem(), tree, at)
	for i := range t.ScalingPolicies {
		t.ScalingPolicies[i] = *t.ScalingPolicies[i].Plain()
	}
	if e := t.LogConfig.Enabled; e != nil {
		logs := *t.LogConfig
		logs.Disabled, logs.Enabled = !*e, nil
		t.LogConfig = &logs
	}
	if t.Resources.Cores > 0 && !writes(tree, "Resources", "CPU") {
		r := *t.Resources
		r.CPU = 0 // cores stand instead of shares
		t.Resources = &r
	}
	return t
}

// quiet reads a whole number, noting no problem.
func (d *decoder) quiet(src any) (int64, bool) {
	return (&decoder{loose: d.loose}).integer(src, "")
}

// writes says whether the tree gives the field of the block a value.
func writes(tree Tree, block, field string) bool {
	b, ok := lookup(tree, block).(Tree)
	return ok && lookup(b, field) != nil
}

// children calls each for every object of a list.
func (d *decoder) children(src any, path string, each func(Tree, string)) {
	if src == nil {
		return
	}
	items, ok := src.([]any)
	if !ok {
		d.mismatch(path, "a list", src)
		return
	}
	for i, item := range items {
		at := fmt.Sprintf("%s[%s]", path, itemName(item, i))
		tree, ok := item.(Tree)
		if !ok {
			d.mismatch(at, "an object", item)
			continue
		}
		each(tree, at)
	}
}

// lookup finds a field without regard to case.
func lookup(tree Tree, name string) any {
	if v, ok := tree[name]; ok {
		return v
	}
	for k, v := range tree {
		if strings.EqualFold(k, name) {
			return v
		}
	}
	return nil
}

// sortPorts puts ports with a number among the reserved ones, and the others
// among the dynamic ones, however they were written.
func (n *NetworkResource) sortPorts() {
	all := append(n.ReservedPorts[:len(n.ReservedPorts):len(n.ReservedPorts)], n.DynamicPorts...)
	n.ReservedPorts, n.DynamicPorts = nil, nil
	for _, p := range all {
		if p.Value != 0 {
			n.ReservedPorts = append(n.ReservedPorts, p)
		} else {
			n.DynamicPorts = append(n.DynamicPorts, p)
		}
	}
	orDefault(&n.Mode, NetworkHost)
}

func orDefault(s *string, def string) {
	if *s == "" {
		*s = def
	}
}

// normalMap makes an empty map nil, so that equal jobs compare equal.
func normalMap(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	return maps.Clone(m)
}

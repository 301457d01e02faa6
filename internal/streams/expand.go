package streams

import (
	"cmp"
	"slices"
	"strings"

	"berth"
)

// Expand returns the objects of a valid stream job: its processing elements
// with their configs and endpoints, its host pools, exports, imports and
// parallel regions, ordered by kind as in [berth.StreamKinds] and then by name.
// before is the plan of the previous generation, nil for the first one.
//
// A processing element keeps its ID from plan to plan. IDs are never reused;
// new ones are assigned in the order of groups and indexes. Apart from that,
// the order of blocks in a job file does not matter.
//
// Streams connect every channel of a group with every channel of another; two
// groups of the same parallel region are connected channel by channel.
//
// Errors have the kind Invalid; package admit refuses such jobs.
func Expand(job *berth.Job, before *berth.StreamPlan) (*berth.StreamPlan, error) {
	if job.Stream == nil {
		return nil, berth.Errorf(berth.Invalid, "job %q is not a stream job", job.ID)
	}
	x := expansion{job: job, spec: job.Stream, groups: map[string][]*element{}}
	x.plan = &berth.StreamPlan{Version: job.Version}
	// Numbers of elements are not used twice in an incarnation.
	if before != nil {
		x.plan.Generation, x.plan.NextPE = before.Generation+1, before.NextPE
	}
	x.elements(before)
	if err := x.connect(); err != nil {
		return nil, err
	}
	// Content IDs need the connections, and objects need the content IDs.
	for _, g := range job.TaskGroups {
		if err := x.contents(g); err != nil {
			return nil, err
		}
	}
	if err := x.objects(); err != nil {
		return nil, err
	}
	return x.plan, nil
}

// expansion is a plan under construction.
type expansion struct {
	job    *berth.Job
	spec   *berth.StreamSpec     // the job's stream block
	plan   *berth.StreamPlan     // the result
	all    []*element            // in the order in which they get their numbers
	groups map[string][]*element // by group, in order of index
}

// element is a processing element under construction.
type element struct {
	name   string // the allocation's name
	group  *berth.TaskGroup
	spec   berth.PESpec
	config berth.PEConfig
}

// input returns the input of that name, nil if there is none.
func (e *element) input(name string) *berth.PEInput {
	i := slices.IndexFunc(e.config.Inputs, func(in berth.PEInput) bool { return in.Name == name })
	if i < 0 {
		return nil
	}
	return &e.config.Inputs[i]
}

// output returns the output of that name, nil if there is none.
func (e *element) output(name string) *berth.PEOutput {
	i := slices.IndexFunc(e.config.Outputs, func(out berth.PEOutput) bool { return out.Name == name })
	if i < 0 {
		return nil
	}
	return &e.config.Outputs[i]
}

// elements creates the processing elements of all groups. Those of the previous
// plan keep their IDs.
func (x *expansion) elements(before *berth.StreamPlan) {
	type place struct {
		group string
		index uint32
	}
	// An element keeps its number over versions: by it its connections are
	// known.
	had := map[place]int{}
	if before != nil {
		for _, o := range before.Of(berth.KindPE) {
			had[place{o.PE.Group, o.PE.Index}] = o.PE.ID
		}
	}
	for _, g := range x.job.TaskGroups {
		region, width := x.spec.Region(g.Name), 1
		if region != nil {
			width = region.Width
		}
		// A group in a parallel region has one element for each channel.
		for i := range uint32(max(width, 0)) {
			e := &element{name: berth.AllocName(x.job.ID, g.Name, i), group: g}
			e.spec = berth.PESpec{Group: g.Name, Index: i}
			if region != nil {
				e.spec.Region, e.spec.Channel, e.spec.MaxChannels = region.Name, int(i), width
			}
			id, ok := had[place{g.Name, i}]
			if !ok {
				id = x.plan.NextPE
				x.plan.NextPE++
			}
			e.spec.ID = id
			e.ports()
			x.all = append(x.all, e)
			x.groups[g.Name] = append(x.groups[g.Name], e)
		}
	}
}

// ports gives a processing element the inputs and outputs of its group, in
// order of name.
func (e *element) ports() {
	if e.group.Stream == nil {
		return
	}
	for _, in := range e.group.Stream.Inputs {
		e.config.Inputs = append(e.config.Inputs, berth.PEInput{Name: in.Name, Port: in.Port})
	}
	for _, out := range e.group.Stream.Outputs {
		e.config.Outputs = append(e.config.Outputs, berth.PEOutput{Name: out.Name, Distribution: berth.DistributionBroadcast})
	}
	slices.SortFunc(e.config.Inputs, func(a, b berth.PEInput) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(e.config.Outputs, func(a, b berth.PEOutput) int { return strings.Compare(a.Name, b.Name) })
}

// connect resolves the streams of the job.
func (x *expansion) connect() error {
	for i := range x.spec.Streams {
		s := &x.spec.Streams[i]
		from, output := berth.SplitPort(s.From)
		for _, target := range s.To {
			to, input := berth.SplitPort(target)
			for _, a := range x.groups[from] {
				for _, b := range x.groups[to] {
					// Within one region, a channel is connected with itself
					// alone.
					if a.spec.Region != "" && a.spec.Region == b.spec.Region && a.spec.Channel != b.spec.Channel {
						continue
					}
					out, in := a.output(output), b.input(input)
					if out == nil || in == nil {
						return berth.Errorf(berth.Invalid, "stream %q connects %s with %s, but one of them does not exist", s.Name, s.From, target)
					}
					out.Distribution = cmp.Or(s.Distribution, berth.DistributionBroadcast)
					out.To = append(out.To, berth.PEPeer{PE: b.name, ID: b.spec.ID, Port: input})
					in.From = append(in.From, berth.PEPeer{PE: a.name, ID: a.spec.ID, Port: output})
				}
			}
		}
	}
	// Two streams may have connected the same pair.
	for _, e := range x.all {
		for i := range e.config.Inputs {
			e.config.Inputs[i].From = peers(e.config.Inputs[i].From)
		}
		for i := range e.config.Outputs {
			e.config.Outputs[i].To = peers(e.config.Outputs[i].To)
		}
	}
	return nil
}

// peers sorts peers and removes duplicates.
func peers(all []berth.PEPeer) []berth.PEPeer {
	slices.SortFunc(all, func(a, b berth.PEPeer) int { return cmp.Or(cmp.Compare(a.ID, b.ID), strings.Compare(a.Port, b.Port)) })
	return slices.Compact(all)
}

// objects adds everything that the job owns.
func (x *expansion) objects() error {
	for _, kind := range berth.StreamKinds {
		start := len(x.plan.Objects)
		x.list(kind)
		these := x.plan.Objects[start:]
		// Sorted by name, so that a plan and the objects can be compared side
		// by side.
		slices.SortFunc(these, func(a, b berth.StreamObject) int { return strings.Compare(a.Name, b.Name) })
		for i := range these {
			if i > 0 && these[i].Name == these[i-1].Name {
				return berth.Errorf(berth.Invalid, "job %q: duplicate %s %q", x.job.ID, kind, these[i].Name)
			}
			hash, err := hashOf(&these[i])
			if err != nil {
				return err
			}
			these[i].Hash = hash
		}
	}
	return nil
}

// list adds the objects of one kind.
func (x *expansion) list(kind string) {
	add := func(o berth.StreamObject) {
		o.Kind = kind
		x.plan.Objects = append(x.plan.Objects, o)
	}
	switch kind {
	case berth.KindConfig:
		for _, e := range x.all {
			add(berth.StreamObject{Name: e.name, Config: &e.config})
		}
	case berth.KindEndpoint:
		for _, e := range x.all {
			add(berth.StreamObject{Name: e.name})
		}
	case berth.KindPE:
		for _, e := range x.all {
			add(berth.StreamObject{Name: e.name, PE: &e.spec})
		}
	case berth.KindHostPool:
		for _, p := range x.spec.HostPools {
			add(berth.StreamObject{Name: p.Name, Pool: poolOf(p)})
		}
	case berth.KindRegion:
		for _, r := range x.spec.Regions {
			r.Groups = sorted(r.Groups)
			add(berth.StreamObject{Name: r.Name, Region: &r})
		}
	case berth.KindExport:
		x.exports(add)
	case berth.KindImport:
		x.imports(add)
	}
}

// exports adds one object for each exporting port of a processing element.
func (x *expansion) exports(add func(berth.StreamObject)) {
	app := x.spec.Application
	app.Name, app.Scope = cmp.Or(app.Name, string(x.job.ID)), cmp.Or(app.Scope, berth.DefaultScope)
	for i := range x.spec.Exports {
		s := &x.spec.Exports[i]
		group, output := berth.SplitPort(s.From)
		for _, e := range x.groups[group] {
			add(berth.StreamObject{Name: e.name + "/" + s.Name, Export: &berth.ExportObject{PE: e.name, Output: output, Spec: *s, App: app}})
		}
	}
}

// imports adds one import for each processing element of the group that the
// job's import goes into.
func (x *expansion) imports(add func(berth.StreamObject)) {
	for i := range x.spec.Imports {
		s := &x.spec.Imports[i]
		group, input := berth.SplitPort(s.Into)
		for _, e := range x.groups[group] {
			add(berth.StreamObject{Name: e.name + "/" + s.Name, Import: &berth.ImportObject{PE: e.name, Input: input, Spec: *s}})
		}
	}
}

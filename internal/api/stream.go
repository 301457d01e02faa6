package api

import (
	"cmp"
	"iter"
	"reflect"
	"slices"
	"strings"

	"berth"
	"berth/internal/state"
	"berth/op"
)

// streams registers the operations on stream jobs and on what they own.
func (s *Server) streams() {
	read(s, op.ReadStreamJob, readStreamJob)
	read(s, op.ReadTree, readTree)
	read(s, op.ListPEs, listPEs)
	read(s, op.ReadPE, readPE)
	read(s, op.ListExports, listExports)
	read(s, op.ListImports, listImports)
	read(s, op.ListRoutes, listRoutes)
	read(s, op.ReadRegion, readRegion)
	read(s, op.ReadConnectivity, readConnectivity)
	write(s, op.WriteRegion, writeRegion)
	write(s, op.WriteProperties, writeProperties)
	write(s, op.WriteFilter, writeFilter)
	write(s, op.WriteSubscribed, writeSubscription)
}

// streamJob returns the stream job that a request names, with its submission.
func (r *Read) streamJob(id string) (*berth.Job, *berth.StreamJob, error) {
	j, _, err := r.job(id)
	if err != nil {
		return nil, nil, err
	}
	row := r.StreamOf(j.Key())
	if row == nil {
		return nil, nil, berth.Errorf(berth.NotFound, "job %s is of type %s: want a job of type %s", j.Key(), j.Type, berth.TypeStream)
	}
	return j, row, nil
}

// ofStreams makes the answer change with anything that belongs to stream jobs.
func (r *Read) ofStreams(more ...state.Table) {
	tables := append([]state.Table{state.Streams, state.Resources}, more...)
	var index uint64
	var keys []state.WatchKey
	for _, t := range tables {
		index, keys = max(index, r.LastChange(t)), append(keys, state.OnTable(t))
	}
	r.At(index, keys...)
}

// lastOf returns the index of the newest change to anything shown of the jobs
// with a name. For jobs of other types it is the index of the tables, because
// their deleted rows leave no other trace.
func (r *Read) lastOf(k berth.JobKey) uint64 {
	others := false
	if j := r.Job(k); j != nil && j.Type != berth.TypeStream {
		others = true
	} else {
		for a := range r.AllocsOf(k) {
			others = others || a.Rest().PE == nil
		}
	}
	if !others {
		return r.LastOfStreams(k)
	}
	return max(r.LastChange(state.Streams), r.LastChange(state.Resources), r.LastChange(state.Jobs), r.LastChange(state.Summaries), r.LastChange(state.Allocs))
}

// onStream returns the watch keys of the stream jobs with a name, whatever their
// UIDs, and of what they own or left behind.
func onStream(k berth.JobKey) []state.WatchKey {
	return []state.WatchKey{state.OnJob(k), state.OnStreamOf(k), state.OnResourcesOf(k), state.OnAllocsOf(k)}
}

// ofStream makes the answer change with one incarnation of a stream job. While
// that incarnation exists, every change to what it owns is recorded with the
// job.
func (r *Read) ofStream(k berth.JobKey, uid berth.UID) {
	j, sum, row := r.Job(k), r.Summary(k), r.StreamJob(uid)
	if j == nil || j.UID != uid || row == nil {
		r.ofStreamsNamed(k)
		return
	}
	r.At(max(j.ModifyIndex, sum.Changed, sum.Allocs, row.ModifyIndex), onStream(k)...)
}

// ofStreamsNamed makes the answer change with all jobs of a name, deleted ones
// included.
func (r *Read) ofStreamsNamed(k berth.JobKey) { r.At(r.lastOf(k), onStream(k)...) }

// ofStreamsOf makes the answer change with the job that a list is restricted
// to, or with all jobs if job is "".
func (r *Read) ofStreamsOf(job string) {
	if job == "" || r.Space() == berth.AllNamespaces {
		r.ofStreams(state.Jobs, state.Summaries, state.Allocs)
		return
	}
	r.ofStreamsNamed(berth.JobKey{Namespace: r.Space(), ID: berth.JobID(job)})
}

// streamView adds the fields that only stream jobs have.
func streamView(s *state.Snapshot, v *op.Job) {
	if v.Type != berth.TypeStream {
		return
	}
	row := s.StreamJob(v.Job.UID)
	if row == nil {
		return
	}
	v.StreamID, v.Phase, v.Generation, v.Recovery = row.StreamID, row.Phase, &row.Generation, recoveryView(row)
}

// recoveryView shows the incarnations of a stream job that were given up before
// this one, as UIDs, and why the last of them was.
func recoveryView(row *berth.StreamJob) *op.Recovery {
	v := &op.Recovery{Count: row.Recovery.Count, Predecessors: []string{}, LastCause: row.Recovery.LastCause}
	for _, uid := range row.Recovery.Predecessors {
		v.Predecessors = append(v.Predecessors, uid.Text('j'))
	}
	return v
}

// ownerOf names the owner of a resource, none if it was left to itself.
func ownerOf(o *berth.Object) []berth.OwnerRef {
	if o.Owner.IsZero() {
		return []berth.OwnerRef{}
	}
	return []berth.OwnerRef{{Kind: berth.KindJob, Name: string(o.Job.ID), UID: o.Owner.Text('j'), Controller: true, Block: true}}
}

// textOf returns the UID of an object with the letter of its kind, such as p-….
func textOf(o *berth.Object) string { return o.UID.Text(berth.KindLetter(o.Kind)) }

// resourcesIn returns the resources of a kind that the request's namespace has:
// of one job, if it names one, or of all whose IDs begin as it says. Those that
// jobs of the name left behind are among them.
func (r *Read) resourcesIn(kind, job string) iter.Seq[*berth.Object] {
	return func(yield func(*berth.Object) bool) {
		for o := range r.Resources() {
			switch {
			case o.Kind != kind, job != "" && string(o.Job.ID) != job, r.Space() != berth.AllNamespaces && o.Job.Namespace != r.Space():
			case !strings.HasPrefix(o.Name, r.Query.Prefix):
			case !yield(o):
				return
			}
		}
	}
}

// byName is the order of lists of resources: by namespace and name, the older of
// two incarnations first.
var byName = byID(nameOf)

// nameOf returns an object's place in the order of lists. The UID sets
// incarnations of the same name apart.
func nameOf(o *berth.Object) string { return o.Job.Namespace + "." + o.Name + "/" + textOf(o) }

// listOf lists the resources of a kind.
func listOf[View any](r *Read, info *op.Info, kind, job string, view func(*berth.Object) View) ([]View, error) {
	all := slices.SortedFunc(r.resourcesIn(kind, job), func(a, b *berth.Object) int { return strings.Compare(nameOf(a), nameOf(b)) })
	return page(r, scanned(r.Query, slices.Values(all), byName), func(o *berth.Object) bool { return r.visible(info.Need, o.Job.Namespace) }, view)
}

// listPEs returns the processing elements that the caller may see, in order of
// name.
func listPEs(r *Read, in *op.PEsQuery) ([]op.PE, error) {
	r.ofStreamsOf(in.Job)
	of := r.allocsOfPEs(in.Job)
	return listOf(r, op.ListPEs.Info, berth.KindPE, in.Job, func(o *berth.Object) op.PE { return peView(r.Snapshot, o, of[o.UID]) })
}

// peAllocs are the allocations of a processing element that are shown with it:
// the newest of the last launch that has one, and its zombies.
type peAllocs struct {
	newest  *berth.Alloc   // nil: no launch has one
	zombies []*berth.Alloc // in no order
}

// with returns p with one more allocation of the processing element.
func (p peAllocs) with(s *state.Snapshot, a *berth.Alloc) peAllocs {
	p.newest = newer(p.newest, a)
	if s.Zombie(a) {
		p.zombies = append(p.zombies, a)
	}
	return p
}

// allocsOfPEs returns the allocations of each processing element of a job, or of
// all, by the UID of that.
func (r *Read) allocsOfPEs(job string) map[berth.UID]peAllocs {
	out := map[berth.UID]peAllocs{}
	seen := map[berth.JobKey]bool{}
	for pe := range r.resourcesIn(berth.KindPE, job) {
		if seen[pe.Job] {
			continue
		}
		seen[pe.Job] = true
		for a := range r.AllocsOf(pe.Job) {
			if ref := a.Rest().PE; ref != nil {
				out[ref.UID] = out[ref.UID].with(r.Snapshot, a)
			}
		}
	}
	return out
}

// newer returns the allocation of the later launch.
func newer(a, b *berth.Alloc) *berth.Alloc {
	if a == nil {
		return b
	}
	x, y := a.Rest().PE, b.Rest().PE
	if cmp.Or(cmp.Compare(x.Launch, y.Launch), cmp.Compare(a.CreateIndex, b.CreateIndex), cmp.Compare(a.Ordinal, b.Ordinal)) < 0 {
		return b
	}
	return a
}

// object returns the resource of a kind that a request names, to those who may
// see it: by UID, or by name, which begins with the ID of its job.
func (r *Read) object(kind, text string) (*berth.Object, error) {
	need := op.ReadPE.Need
	o := r.byUID(kind, text)
	// A job's ID may contain dots, so each of them may be the one that ends it.
	for i := 0; o == nil && i < len(text); i++ {
		if text[i] == '.' {
			if row := r.StreamOf(berth.JobKey{Namespace: r.Space(), ID: berth.JobID(text[:i])}); row != nil {
				o = r.ResourceNamed(row.UID, kind, text)
			}
		}
	}
	absent := r.absent(need, "%s not found: %s", kind, berth.Clip(text, 64))
	if o == nil {
		return nil, absent()
	}
	return o, mayOf(r.may, need, o.Job.Namespace, absent)
}

// byUID returns the object of a kind that a text such as p-… names, nil if it
// is not a UID of that kind or the object is gone.
func (r *Read) byUID(kind, text string) *berth.Object {
	var uid berth.UID
	if len(text) < 3 || text[1] != '-' || text[0] != berth.KindLetter(kind) || uid.UnmarshalText([]byte(text)) != nil {
		return nil
	}
	if o := r.Resource(uid); o != nil && o.Kind == kind {
		return o
	}
	return nil
}

// readPE returns one processing element, by name or UID.
func readPE(r *Read, in *op.PEQuery) (out op.PE, err error) {
	o, err := r.object(berth.KindPE, in.PE)
	if err != nil {
		return out, err
	}
	r.ofStream(o.Job, o.Owner)
	var of peAllocs
	for a := range r.AllocsOfPE(o) {
		of = of.with(r.Snapshot, a)
	}
	return peView(r.Snapshot, o, of), nil
}

// peView shows a processing element with its allocations.
func peView(s *state.Snapshot, o *berth.Object, of peAllocs) op.PE {
	p := o.Object.PE
	v := op.PE{
		Namespace: o.Job.Namespace, JobID: o.Job.ID, Name: o.Name, UID: textOf(o), OwnerRefs: ownerOf(o), ID: p.ID, Group: p.Group, Index: p.Index,
		Region: p.Region, Channel: p.Channel, MaxChannels: p.MaxChannels, Generation: o.Generation, ContentID: o.PE.ContentID, Planned: p.ContentID,
		LaunchCount: o.PE.Launch, LaunchIndex: o.PE.LaunchIndex, Connectivity: o.PE.Connectivity, Orphaned: o.Owner.IsZero(),
		CreateIndex: o.CreateIndex, ModifyIndex: o.ModifyIndex,
	}
	if !o.PE.Before.IsZero() {
		v.Before = o.PE.Before.Text('p')
	}
	// Placement and policy are those of the version that is being submitted,
	// which may be older than the newest.
	if row := s.StreamJob(o.Owner); row != nil {
		if j := s.PlannedJob(row); j != nil && j.Group(p.Group) != nil {
			g := j.Group(p.Group).Stream
			v.Placement, v.Policy = &g.Placement, &g.Policy
		}
	}
	// The ports are in the config of the same name, which may not be there yet.
	v.Inputs, v.Outputs = []op.PEPort{}, []op.PEPort{}
	if c := s.ResourceNamed(o.Owner, berth.KindConfig, o.Name); c != nil {
		for _, in := range c.Object.Config.Inputs {
			v.Inputs = append(v.Inputs, op.PEPort{Name: in.Name, Port: in.Port, Peers: peersView(in.From)})
		}
		for _, out := range c.Object.Config.Outputs {
			v.Outputs = append(v.Outputs, op.PEPort{Name: out.Name, Peers: peersView(out.To)})
		}
	}
	// An allocation of an earlier launch is not the element's any more.
	if a := of.newest; a != nil && a.Rest().PE.Launch == o.PE.Launch {
		shown := peAllocView(s, a)
		v.Allocation = &shown
	}
	// The newest zombie comes first.
	slices.SortFunc(of.zombies, func(a, b *berth.Alloc) int { return cmp.Compare(b.Rest().PE.Launch, a.Rest().PE.Launch) })
	for _, a := range of.zombies {
		v.Zombies = append(v.Zombies, peAllocView(s, a))
	}
	return v
}

// peAllocView shows a launch of a processing element. The name of its node is
// missing if the node was forgotten.
func peAllocView(s *state.Snapshot, a *berth.Alloc) op.PEAlloc {
	v := op.PEAlloc{ID: a.ID, NodeID: a.NodeID, DesiredStatus: a.Desired, ClientStatus: a.Client, LaunchCount: a.Rest().PE.Launch}
	if n := s.Node(a.NodeID); n != nil {
		v.NodeName = n.Name
	}
	return v
}

// peersView names ports of processing elements as element.port.
func peersView(peers []berth.PEPeer) []string {
	out := []string{}
	for _, p := range peers {
		out = append(out, p.PE+"."+p.Port)
	}
	return out
}

// peRef names the launch that an allocation is of, nil if it is of none.
func peRef(s *state.Snapshot, a *berth.Alloc) *op.PERef {
	ref := a.Rest().PE
	if ref == nil {
		return nil
	}
	return &op.PERef{Name: a.Name(), UID: ref.UID.Text('p'), LaunchCount: ref.Launch, Zombie: s.Zombie(a)}
}

// listExports returns the exports that the caller may see, in order of name.
func listExports(r *Read, in *op.PEsQuery) ([]op.StreamExport, error) {
	r.ofStreamsOf(in.Job)
	return listOf(r, op.ListExports.Info, berth.KindExport, in.Job, func(o *berth.Object) op.StreamExport { return exportView(r.Snapshot, o) })
}

// exportView shows an export with its present properties.
func exportView(s *state.Snapshot, o *berth.Object) op.StreamExport {
	x := o.Object.Export
	v := op.StreamExport{
		Namespace: o.Job.Namespace, JobID: o.Job.ID, Name: o.Name, UID: textOf(o), OwnerRefs: ownerOf(o), PE: x.PE, Output: x.Output,
		Application: x.App.Name, Scope: x.App.Scope, StreamID: x.Spec.StreamID, Properties: x.Spec.Properties, AllowFilter: x.Spec.AllowFilter,
		Congestion: x.Spec.Congestion, Generation: o.Generation, Changed: changed(s, o), Orphaned: o.Owner.IsZero(),
		CreateIndex: o.CreateIndex, ModifyIndex: o.ModifyIndex,
	}
	return v
}

// listImports returns the imports that the caller may see, in order of name.
func listImports(r *Read, in *op.PEsQuery) ([]op.StreamImport, error) {
	r.ofStreamsOf(in.Job)
	return listOf(r, op.ListImports.Info, berth.KindImport, in.Job, func(o *berth.Object) op.StreamImport { return importView(r.Snapshot, o) })
}

// importView shows an import with its present subscription and filter.
func importView(s *state.Snapshot, o *berth.Object) op.StreamImport {
	x := o.Object.Import
	return op.StreamImport{
		Namespace: o.Job.Namespace, JobID: o.Job.ID, Name: o.Name, UID: textOf(o), OwnerRefs: ownerOf(o), PE: x.PE, Input: x.Input,
		Application: x.Spec.Application, Scope: x.Spec.Scope, StreamID: x.Spec.StreamID, Subscription: x.Spec.Subscription, Filter: x.Spec.Filter,
		Generation: o.Generation, Changed: changed(s, o), Orphaned: o.Owner.IsZero(), CreateIndex: o.CreateIndex, ModifyIndex: o.ModifyIndex,
	}
}

// changed reports whether a user has changed an object since it was created: then
// it no longer matches its hash.
func changed(s *state.Snapshot, o *berth.Object) bool {
	row := s.StreamJob(o.Owner)
	if row == nil {
		return false
	}
	p := row.Plan.Object(o.Kind, o.Name)
	return p != nil && p.Hash == o.Hash && !reflect.DeepEqual(p, &o.Object)
}

// readRegion returns a parallel region of a job: the width that its user wants,
// and the one that its submission has planned.
func readRegion(r *Read, in *op.RegionRef) (out op.StreamRegion, err error) {
	j, row, err := r.streamJob(in.JobID)
	if err != nil {
		return out, err
	}
	r.ofStream(j.Key(), j.UID)
	wanted := wantedJob(r.Snapshot, j)
	spec := regionOf(wanted, in.Region)
	if spec == nil {
		return out, noRegion(wanted, in.Region)
	}
	out = op.StreamRegion{
		Namespace: j.Namespace, JobID: j.ID, Name: spec.Name, Groups: spec.Groups, Width: spec.Width, Generation: row.Generation,
	}
	if p := row.Plan.Object(berth.KindRegion, spec.Name); p != nil {
		out.Planned = p.Region.Width
	}
	if o := r.ResourceNamed(row.UID, berth.KindRegion, spec.Name); o != nil {
		out.UID = textOf(o)
	}
	return out, nil
}

// wantedJob returns the version of a job that its user wants in the end: for a
// job that is deleted and created again, its successor.
func wantedJob(s *state.Snapshot, j *berth.Job) *berth.Job {
	if d := s.Deletion(j.Key()); d != nil && d.Successor != nil {
		return d.Successor.Job
	}
	return j
}

// regionOf returns the parallel region of that name in a stream job, nil if it
// has none.
func regionOf(j *berth.Job, name string) *berth.RegionSpec {
	for i := range j.Stream.Regions {
		if j.Stream.Regions[i].Name == name {
			return &j.Stream.Regions[i]
		}
	}
	return nil
}

// noRegion is the error for an unknown parallel region; it names those that the
// job has.
func noRegion(j *berth.Job, name string) error {
	var names []string
	for i := range j.Stream.Regions {
		names = append(names, j.Stream.Regions[i].Name)
	}
	return berth.Errorf(berth.NotFound, "job %q has no parallel region %q; it has: %s", j.ID, berth.Clip(name, 64), cmp.Or(strings.Join(names, ", "), "none"))
}

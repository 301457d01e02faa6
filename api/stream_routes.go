package api

import (
	"slices"
	"strings"

	"berth"
	"berth/op"
	"berth/state"
	"berth/stream"
)

// routesIn returns the routes of a namespace, or of all: those between exports
// and imports whose jobs are there and stay.
func routesIn(s *state.Snapshot, namespace string) []stream.Route {
	var exports, imports []*berth.Resource
	for row := range s.StreamJobs() {
		if namespace != berth.AllNamespaces && row.Key.Namespace != namespace || !s.AliveStream(row) {
			continue
		}
		for o := range s.ResourcesOf(row.UID, berth.KindExport) {
			exports = append(exports, o)
		}
		for o := range s.ResourcesOf(row.UID, berth.KindImport) {
			imports = append(imports, o)
		}
	}
	return stream.Routes(exports, imports)
}

// endsOf is what routes are listed by: the exporter, and then the importer.
func endsOf(v *op.StreamRoute) string {
	return strings.Join([]string{v.Namespace, v.From.Name, v.From.UID, v.To.Name, v.To.UID, v.By}, "/")
}

// endsAt says whether an end of a route is at a processing element, which is
// named or given by its UID.
func endsAt(e *op.RouteEnd, pe string) bool { return e.PE == pe || e.PEUID == pe }

func listRoutes(r *Read, in *op.RoutesQuery) ([]op.StreamRoute, error) {
	r.ofStreams(state.Jobs)
	all := []*op.StreamRoute{}
	for _, route := range routesIn(r.Snapshot, r.Space()) {
		v := routeView(r.Snapshot, &route)
		job := in.Job == "" || string(v.From.JobID) == in.Job || string(v.To.JobID) == in.Job
		if pe := in.PE == "" || endsAt(&v.From, in.PE) || endsAt(&v.To, in.PE); job && pe {
			all = append(all, &v)
		}
	}
	slices.SortFunc(all, func(a, b *op.StreamRoute) int { return strings.Compare(endsOf(a), endsOf(b)) })
	rows, sorted := turned(r.Query, slices.Values(all), byID(endsOf))
	return page(r, rows, sorted, func(v *op.StreamRoute) bool { return r.visible(op.ListRoutes.Need, v.Namespace) },
		func(v *op.StreamRoute) op.StreamRoute { return *v })
}

func routeView(s *state.Snapshot, route *stream.Route) op.StreamRoute {
	x, m := route.Export, route.Import
	end := func(o *berth.Resource, pe, port string) op.RouteEnd {
		e := op.RouteEnd{JobID: o.Job.ID, JobUID: o.Owner.Text('j'), PE: pe, Port: port, Name: o.Name, UID: textOf(o)}
		if p := s.ResourceNamed(o.Owner, berth.KindPE, pe); p != nil {
			e.PEUID = textOf(p)
		}
		return e
	}
	return op.StreamRoute{
		Namespace: x.Job.Namespace, By: route.By, Filter: route.Filter(),
		From: end(x, x.Object.Export.PE, x.Object.Export.Output), To: end(m, m.Object.Import.PE, m.Object.Import.Input),
	}
}

// readConnectivity shows what the file holds that the agent of a processing
// element writes for its tasks, but for the version, which is the agent's.
func readConnectivity(r *Read, in *op.PEQuery) (out op.ConnectivityFile, err error) {
	pe, err := r.object(berth.KindPE, in.PE)
	if err != nil {
		return out, err
	}
	var own *berth.Alloc
	for a := range r.AllocsOfPE(pe) {
		own = newer(own, a)
	}
	if own != nil && own.Rest().PE.Launch != pe.PE.Launch {
		own = nil
	}
	v := newConnections(r.Snapshot, pe, own)
	d, err := v.document()
	if err != nil {
		return out, err
	}
	if r.ofStream(pe.Job, pe.Owner); v.wide {
		r.index = max(r.index, r.streamTables())
	}
	r.At(max(r.index, v.nodes), append(v.keys, r.keys...)...)
	return *d, nil
}

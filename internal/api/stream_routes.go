package api

import (
	"slices"
	"strings"

	"berth"
	"berth/internal/state"
	"berth/internal/streams"
	"berth/op"
)

// routesIn returns the routes of a namespace, or of all: those between exports
// and imports whose jobs are there and stay.
func routesIn(s *state.Snapshot, namespace string) []streams.Route {
	var exports, imports []*berth.Object
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
	return streams.Routes(exports, imports)
}

// endsOf is the sort key of routes: the exporter, then the importer.
func endsOf(v *op.StreamRoute) string {
	return strings.Join([]string{v.Namespace, v.From.Name, v.From.UID, v.To.Name, v.To.UID, v.By}, "/")
}

// endsAt reports whether an end of a route is at a processing element, given by
// name or UID.
func endsAt(e *op.RouteEnd, pe string) bool { return e.PE == pe || e.PEUID == pe }

// listRoutes returns the routes between stream jobs, on request those of one
// job or one processing element only.
func listRoutes(r *Read, in *op.RoutesQuery) ([]op.StreamRoute, error) {
	seen := r.ofRoutes()
	all := []*op.StreamRoute{}
	for _, route := range routesIn(r.Snapshot, r.Space()) {
		if job := berth.JobID(in.Job); job != "" && route.Export.Job.ID != job && route.Import.Job.ID != job {
			continue
		}
		seen(&route)
		v := routeView(r.Snapshot, &route)
		if in.PE == "" || endsAt(&v.From, in.PE) || endsAt(&v.To, in.PE) {
			all = append(all, &v)
		}
	}
	slices.SortFunc(all, func(a, b *op.StreamRoute) int { return strings.Compare(endsOf(a), endsOf(b)) })
	return page(r, scanned(r.Query, slices.Values(all), byID(endsOf)), func(v *op.StreamRoute) bool { return r.visible(op.ListRoutes.Need, v.Namespace) },
		func(v *op.StreamRoute) op.StreamRoute { return *v })
}

// ofRoutes makes the answer change with the routes of the namespace, and with
// the processing elements at the ends of the routes passed to seen. For all
// namespaces it changes with any stream job.
func (r *Read) ofRoutes() (seen func(*streams.Route)) {
	if r.Space() == berth.AllNamespaces {
		r.ofStreams(state.Jobs)
		return func(*streams.Route) {}
	}
	known := map[string]bool{}
	end := func(o *berth.Object, pe string) {
		if name := textOf(o) + pe; !known[name] {
			known[name] = true
			key := state.OnResourcesOf(o.Job) // it may yet be made
			if p := r.ResourceNamed(o.Owner, berth.KindPE, pe); p != nil {
				key = state.OnResource(p.UID)
			}
			r.At(max(r.index, r.LastOfStreams(o.Job)), append(r.keys, key)...)
		}
	}
	r.At(r.LastOfRoutes(r.Space()), state.OnRoutes(r.Space()))
	return func(route *streams.Route) {
		end(route.Export, route.Export.Object.Export.PE)
		end(route.Import, route.Import.Object.Import.PE)
	}
}

// routeView shows a route with both of its ends. An end has no PEUID while its
// processing element does not exist.
func routeView(s *state.Snapshot, route *streams.Route) op.StreamRoute {
	x, m := route.Export, route.Import
	end := func(o *berth.Object, pe, port string) op.RouteEnd {
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
	r.ofStream(pe.Job, pe.Owner)
	r.At(max(r.index, v.nodes, v.others), append(v.keys, r.keys...)...)
	return *d, nil
}

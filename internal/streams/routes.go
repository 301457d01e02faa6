package streams

import (
	"cmp"
	"slices"
	"strings"

	"berth"
	"berth/internal/expr"
)

// Route connects an export with an import that it feeds. Both are resources of
// those kinds.
type Route struct {
	Export, Import *berth.Object
	By             string // ByName or ByProperty
}

// How an import found an export.
const (
	ByName     = "name"
	ByProperty = "property"
)

// Filter returns the expression by which the exporter selects the tuples it
// sends, "" for all.
func (r *Route) Filter() string { return r.Import.Object.Import.Spec.Filter }

// Congestion returns what the exporter does when the importer does not keep up.
func (r *Route) Congestion() string { return r.Export.Object.Export.Spec.Congestion }

// Routes returns every matching pair of an export and an import, ordered by
// exporter and then by importer: by namespace, job, UID of the owner, name. The
// caller chooses which resources take part; those of jobs being deleted, and
// orphans, must not.
//
// Only resources in one namespace match. By name: the stream ID and the scope
// are equal, and the application too if the import gives one. By property: the
// scopes are equal, and the subscription is true for the export's properties; a
// subscription that cannot be evaluated matches nothing. In both cases an
// import with a filter needs an export that allows filters. A job may match
// itself.
//
// Equal exports, and equal imports, are compared once. A subscription is only
// evaluated for the exports in its scope and, if it requires a property to have
// a value, for those that have it.
func Routes(exports, imports []*berth.Object) []Route {
	t := newExportIndex(exports)
	var out []Route
	for _, m := range groupByKey(imports, importKey) {
		spec := &m.of[0].Object.Import.Spec
		t.match(m.of[0].Job.Namespace, spec, func(exports []*berth.Object, by string) {
			for _, x := range exports {
				for _, i := range m.of {
					out = append(out, Route{x, i, by})
				}
			}
		})
	}
	slices.SortFunc(out, func(a, b Route) int { return cmp.Or(order(a.Export, b.Export), order(a.Import, b.Import)) })
	return out
}

// order compares resources of one kind.
func order(a, b *berth.Object) int {
	return cmp.Or(strings.Compare(a.Job.Namespace, b.Job.Namespace), strings.Compare(string(a.Job.ID), string(b.Job.ID)),
		cmp.Compare(a.Owner.Index, b.Owner.Index), cmp.Compare(a.Owner.Ordinal, b.Owner.Ordinal), strings.Compare(a.Name, b.Name),
		cmp.Compare(a.UID.Index, b.UID.Index), cmp.Compare(a.UID.Ordinal, b.UID.Ordinal))
}

// exportIndex finds exports by what imports ask for.
type exportIndex struct {
	named      map[streamKey][]*resourceSet
	propertied map[scopeKey]*propertyIndex
}

// propertyIndex holds the exports by property of one scope.
type propertyIndex struct {
	all     []*resourceSet
	byValue map[string]map[any][]*resourceSet // by property and value, filled as properties are asked for
}

// candidates returns exports that include all for which the condition is true.
func (s *propertyIndex) candidates(e *expr.Expr) []*resourceSet {
	best := s.all
	for _, r := range e.Requires() {
		if found := s.with(r.Name)[valueKey(r.Value)]; len(found) < len(best) {
			best = found
		}
	}
	return best
}

// with returns the exports by their values of a property.
func (s *propertyIndex) with(name string) map[any][]*resourceSet {
	if values, ok := s.byValue[name]; ok {
		return values
	}
	values := map[any][]*resourceSet{}
	for _, x := range s.all {
		if k := valueKey(x.of[0].Object.Export.Spec.Properties[name]); k != nil {
			values[k] = append(values[k], x)
		}
	}
	s.byValue[name] = values
	return values
}

// valueKey returns the same key for equal values, nil for lists and other
// types. Integers and floating point numbers are comparable.
func valueKey(v any) any {
	switch v := v.(type) {
	case int64:
		return float64(v)
	case bool, float64, string:
		return v
	}
	return nil
}

// scopeKey is where a subscription looks for exports.
type scopeKey struct{ namespace, scope string }

// streamKey is what an import by name must match.
type streamKey struct {
	scopeKey
	streamID string
}

// resourceSet holds resources that match in the same way.
type resourceSet struct{ of []*berth.Object }

// groupByKey groups resources with equal keys, in order of the first.
func groupByKey[K comparable](all []*berth.Object, key func(*berth.Object) K) []*resourceSet {
	var out []*resourceSet
	at := map[K]*resourceSet{}
	for _, r := range all {
		k := key(r)
		s := at[k]
		if s == nil {
			s = &resourceSet{}
			at[k] = s
			out = append(out, s)
		}
		s.of = append(s.of, r)
	}
	return out
}

// importID is what makes imports equal, so that one match serves them all.
type importID struct {
	namespace                                        string
	application, scope, stream, subscription, filter string
}

// importKey returns what is the same for equal imports.
func importKey(r *berth.Object) importID {
	s := &r.Object.Import.Spec
	return importID{r.Job.Namespace, s.Application, s.Scope, s.StreamID, s.Subscription, s.Filter}
}

// exportID is the part of an export that imports look at.
type exportID struct {
	namespace  string
	app        berth.StreamApplication
	stream     string
	filtered   bool
	properties string // their hash
}

// exportKey returns what is the same for equal exports.
func exportKey(r *berth.Object) exportID {
	x := r.Object.Export
	k := exportID{r.Job.Namespace, x.App, x.Spec.StreamID, x.Spec.AllowFilter, ""}
	if len(x.Spec.Properties) > 0 {
		k.properties, _ = hashOf(x.Spec.Properties) // validated, so this cannot fail
	}
	return k
}

// newExportIndex returns an index of the exports. Equal ones share an entry.
func newExportIndex(exports []*berth.Object) *exportIndex {
	t := &exportIndex{named: map[streamKey][]*resourceSet{}, propertied: map[scopeKey]*propertyIndex{}}
	for _, s := range groupByKey(exports, exportKey) {
		x := s.of[0].Object.Export
		in := scopeKey{s.of[0].Job.Namespace, x.App.Scope}
		if id := x.Spec.StreamID; id != "" {
			k := streamKey{in, id}
			t.named[k] = append(t.named[k], s)
		} else {
			if t.propertied[in] == nil {
				t.propertied[in] = &propertyIndex{byValue: map[string]map[any][]*resourceSet{}}
			}
			t.propertied[in].all = append(t.propertied[in].all, s)
		}
	}
	return t
}

// match calls found with the exports that an import asks for.
func (t *exportIndex) match(namespace string, m *berth.ImportSpec, found func(exports []*berth.Object, by string)) {
	in := scopeKey{namespace, cmp.Or(m.Scope, berth.DefaultScope)}
	if m.StreamID != "" {
		for _, s := range t.named[streamKey{in, m.StreamID}] {
			x := s.of[0].Object.Export
			if (m.Application == "" || m.Application == x.App.Name) && (m.Filter == "" || x.Spec.AllowFilter) {
				found(s.of, ByName)
			}
		}
	}
	shelf := t.propertied[in]
	if m.Subscription == "" || shelf == nil {
		return
	}
	e, err := expr.Parse(m.Subscription)
	if err != nil {
		return // validation refuses this, so it matches nothing
	}
	for _, s := range shelf.candidates(e) {
		x := s.of[0].Object.Export
		if (m.Filter == "" || x.Spec.AllowFilter) && subscriptionMatches(e, x.Spec.Properties) {
			found(s.of, ByProperty)
		}
	}
}

// subscriptionMatches reports whether a subscription is true for an export's
// properties.
func subscriptionMatches(e *expr.Expr, properties map[string]any) bool {
	truth, err := e.Eval(func(name string) (any, bool) {
		v, ok := properties[name]
		return v, ok
	})
	return err == nil && truth == expr.True
}

package api

import (
	"iter"
	"slices"
	"strings"

	"berth"
	"berth/internal/acl"
	"berth/internal/state"
	"berth/op"
)

// SearchLimits bound the fuzzy search, as the search block of the configuration
// has them. The zero value allows it with Nomad's limits.
type SearchLimits struct {
	FuzzyOff      bool // refuse fuzzy searches
	LimitQuery    int  // objects of one context that match; 0: 20
	LimitResults  int  // matches of one context; 0: 100
	MinTermLength int  // characters of the text; 0: 2
}

// searches registers the searches and the overview of jobs.
func (s *Server) searches() {
	read(s, op.Search, searchPrefix)
	read(s, op.FuzzySearch, s.searchFuzzy)
	read(s, op.JobStatuses, jobStatuses)
}

// place is one kind of object that a search looks at.
type place struct {
	context string
	need    acl.Capability
	spaced  bool // the objects are in namespaces
	// rows yields namespace and ID of the objects whose IDs begin with a prefix,
	// in order; some that do not, if the caller filters. Objects that have no
	// namespace yield "".
	rows func(r *Read, prefix string) iter.Seq2[string, string]
}

// places are all kinds of object, in the order of their names.
var places = []place{
	{op.SearchAllocs, acl.ReadJob, true, func(r *Read, prefix string) iter.Seq2[string, string] {
		return rowsByID(prefix, r.AllocRange, func(a *berth.Alloc) (string, string) { return a.Job.Namespace, a.ID.String() })
	}},
	{op.SearchDeployments, acl.ReadJob, true, func(r *Read, prefix string) iter.Seq2[string, string] {
		return rowsByID(prefix, r.DeploymentRange, func(d *berth.Deployment) (string, string) { return d.Namespace, d.ID.String() })
	}},
	{op.SearchEvals, acl.ReadJob, true, func(r *Read, prefix string) iter.Seq2[string, string] {
		return rowsByID(prefix, r.EvalRange, func(e *berth.Eval) (string, string) { return e.Namespace, e.ID.String() })
	}},
	{op.SearchHostVolumes, acl.AnyToken, false, nothing},
	{op.SearchJobs, acl.ListJobs, true, func(r *Read, prefix string) iter.Seq2[string, string] {
		return func(yield func(string, string) bool) {
			for row := range r.JobRows(state.JobRange{Namespace: r.Space(), Prefix: prefix}) {
				if !yield(row.Job.Namespace, string(row.Job.ID)) {
					return
				}
			}
		}
	}},
	{op.SearchNamespaces, acl.AnyToken, false, func(r *Read, _ string) iter.Seq2[string, string] {
		return named2(r.Namespaces(), func(n *berth.Namespace) (string, bool) { return n.Name, r.may(acl.AnyToken, n.Name) == nil })
	}},
	{op.SearchPools, acl.NodePoolRead, false, func(r *Read, _ string) iter.Seq2[string, string] {
		return named2(r.NodePools(), func(p *berth.NodePool) (string, bool) { return p.Name, r.may(acl.NodePoolRead, p.Name) == nil })
	}},
	{op.SearchNodes, acl.NodeRead, false, func(r *Read, prefix string) iter.Seq2[string, string] {
		return rowsByID(prefix, r.NodeRange, func(n *berth.Node) (string, string) { return "", n.ID.String() })
	}},
	{op.SearchPlugins, acl.PluginList, false, func(r *Read, _ string) iter.Seq2[string, string] {
		return named2(r.CSIPlugins(), func(p *state.CSIPlugin) (string, bool) { return p.ID, true })
	}},
	{op.SearchQuotas, acl.QuotaRead, false, func(r *Read, _ string) iter.Seq2[string, string] {
		return named2(r.Quotas(), func(q *berth.Quota) (string, bool) { return q.Name, true })
	}},
	{op.SearchPolicies, acl.ListScalingPolicies, true, policyRows},
	{op.SearchVariables, acl.VariablesList, true, variableRows},
	{op.SearchVolumes, acl.CSIListVolume, true, func(r *Read, _ string) iter.Seq2[string, string] {
		return func(yield func(string, string) bool) {
			for v := range r.CSIVolumes() {
				if !yield(v.Namespace, v.ID) {
					return
				}
			}
		}
	}},
}

// nothing is the rows of a kind of object that no cluster has.
func nothing(*Read, string) iter.Seq2[string, string] { return func(func(string, string) bool) {} }

// rowsByID yields the rows of a table whose IDs begin with a prefix; none if
// no ID can.
func rowsByID[T any](prefix string, rows func(state.Range[T]) iter.Seq[*T], of func(*T) (namespace, id string)) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		in := state.Range[T]{}
		if prefix != "" {
			var err error
			if in.Prefix, err = berth.ParseIDPrefix(prefix); err != nil {
				return
			}
		}
		for row := range rows(in) {
			if !yield(of(row)) {
				return
			}
		}
	}
}

// named2 yields the names of the rows that are to be shown.
func named2[T any](rows iter.Seq[T], of func(T) (name string, show bool)) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for row := range rows {
			if name, show := of(row); show && !yield("", name) {
				return
			}
		}
	}
}

// policyRows yields the scaling policies, which are parts of jobs.
func policyRows(r *Read, _ string) iter.Seq2[string, string] {
	type policy struct{ namespace, id string }
	var all []policy
	for j := range r.ScaledJobs() {
		for _, p := range j.Policies {
			all = append(all, policy{j.Namespace, p.ID})
		}
	}
	slices.SortFunc(all, func(a, b policy) int { return strings.Compare(a.id, b.id) })
	return func(yield func(string, string) bool) {
		for _, p := range all {
			if !yield(p.namespace, p.id) {
				return
			}
		}
	}
}

// variableRows yields the paths of variables that the caller may list.
func variableRows(r *Read, prefix string) iter.Seq2[string, string] {
	rows := r.VariablesWith(r.Space(), prefix)
	if r.Space() == berth.AllNamespaces {
		rows = r.Variables()
	}
	return func(yield func(string, string) bool) {
		for v := range rows {
			if v.Namespace != "" && r.mayPath(acl.VariablesList, v.Namespace, v.Path) == nil && !yield(v.Namespace, v.Path) {
				return
			}
		}
	}
}

// chosen returns the places that a context stands for and that the caller may
// look at. It refuses an unknown context, and one of which the caller may see
// nothing.
func (r *Read) chosen(context string, known []string) ([]place, error) {
	if context == "" {
		context = op.SearchAll
	}
	if context != op.SearchAll && !slices.Contains(known, context) {
		return nil, berth.Errorf(berth.Invalid, "Context: unknown context %q: want %s or %s", berth.Clip(context, 64), strings.Join(known, ", "), op.SearchAll)
	}
	var out []place
	refusal := error(berth.Errorf(berth.Denied, "Permission denied"))
	for _, p := range places {
		if context != op.SearchAll && context != p.context && partOf[context] != p.context {
			continue
		}
		if err := r.mayLook(p); err != nil {
			refusal = err
			continue
		}
		out = append(out, p)
	}
	if len(out) == 0 {
		return nil, refusal
	}
	return out, nil
}

// mayLook asks for the right to see any object of a place that the request is
// about.
func (r *Read) mayLook(p place) error {
	switch {
	case !p.spaced:
		return r.may(p.need, "")
	case r.Space() == berth.AllNamespaces:
		return r.may(p.need, acl.Any)
	}
	return r.may(p.need, r.Space())
}

// spaces returns what reports whether the objects of a place in a namespace are
// part of the answer. It asks for each right once.
func (r *Read) spaces(p place) func(namespace string) bool {
	known := map[string]bool{}
	return func(namespace string) bool {
		if !p.spaced {
			return true
		}
		ok, asked := known[namespace]
		if !asked {
			ok = (r.Space() == berth.AllNamespaces || r.Space() == namespace) && r.may(p.need, namespace) == nil
			known[namespace] = ok
		}
		return ok
	}
}

// topContexts are the contexts of a prefix search.
func topContexts() (out []string) {
	for _, p := range places {
		out = append(out, p.context)
	}
	return out
}

// searchPrefix finds the objects whose IDs, names or paths begin with a prefix, a
// few of each kind.
func searchPrefix(r *Read, in *op.SearchQuery) (out op.SearchAnswer, err error) {
	out.Matches, out.Truncations = map[string][]string{}, map[string]bool{}
	r.At(r.Index)
	chosen, err := r.chosen(in.Context, topContexts())
	if err != nil {
		return out, err
	}
	for _, p := range chosen {
		found, visible, truncated := []string{}, r.spaces(p), false
		for namespace, id := range p.rows(r, in.Prefix) {
			if !strings.HasPrefix(id, in.Prefix) && p.named() || !visible(namespace) {
				continue
			}
			if len(found) == op.MostMatches {
				truncated = true
				break
			}
			found = append(found, id)
		}
		out.Matches[p.context], out.Truncations[p.context] = found, truncated
	}
	return out, nil
}

// named reports whether the objects of a place have names or paths, which are
// compared letter by letter, instead of IDs that are found by their beginning.
func (p *place) named() bool {
	switch p.context {
	case op.SearchAllocs, op.SearchDeployments, op.SearchEvals, op.SearchNodes:
		return false
	}
	return true
}

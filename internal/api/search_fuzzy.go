package api

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"berth"
	"berth/internal/acl"
	"berth/op"
)

// partOf says of which kind of object the contexts are that only a fuzzy search
// has.
var partOf = map[string]string{
	op.SearchGroups: op.SearchJobs, op.SearchTasks: op.SearchJobs, op.SearchServices: op.SearchJobs,
	op.SearchImages: op.SearchJobs, op.SearchCommands: op.SearchJobs, op.SearchClasses: op.SearchNodes,
}

// searchFuzzy finds the objects whose names hold a text, in any case, the closest
// first. Evaluations, deployments and scaling policies, which have no names, are
// found by the beginning of their IDs.
func (s *Server) searchFuzzy(r *Read, in *op.FuzzyQuery) (out op.FuzzyAnswer, err error) {
	r.At(r.Index)
	known := topContexts()
	for part := range partOf {
		known = append(known, part)
	}
	slices.Sort(known)
	chosen, err := r.chosen(in.Context, known)
	if err != nil {
		return out, err
	}
	least := cmp.Or(s.Search.MinTermLength, 2)
	switch n := utf8.RuneCountInString(in.Text); {
	case s.Search.FuzzyOff:
		return out, berth.Errorf(berth.Invalid, "fuzzy search is not enabled: see server.search.fuzzy_enabled in the configuration of the servers")
	case n < least:
		return out, berth.Errorf(berth.Invalid, "fuzzy search query must be at least %d characters, got %d", least, n)
	}
	f := &fuzzy{
		text: strings.ToLower(in.Text), only: in.Context, objects: cmp.Or(s.Search.LimitQuery, 20), results: cmp.Or(s.Search.LimitResults, 100),
		found: map[string][]op.FuzzyMatch{}, many: map[string]int{}, cut: map[string]bool{},
	}
	for _, p := range chosen {
		f.look(r, p)
	}
	out.Matches, out.Truncations = f.found, f.cut
	for context := range f.found {
		f.sort(context)
	}
	return out, nil
}

// fuzzy is a fuzzy search in progress.
type fuzzy struct {
	text             string // in lower case
	only             string // the context that is asked for; "" and all: every
	objects, results int    // limits of each context
	found            map[string][]op.FuzzyMatch
	many             map[string]int // objects that match, by context
	cut              map[string]bool
}

// look searches one kind of object.
func (f *fuzzy) look(r *Read, p place) {
	visible := r.spaces(p)
	switch p.context {
	case op.SearchJobs:
		f.begin(op.SearchJobs, op.SearchGroups, op.SearchTasks, op.SearchServices, op.SearchImages, op.SearchCommands)
		for j := range r.Jobs(r.Space(), "") {
			if visible(j.Namespace) {
				f.job(j, r.may(acl.ReadJob, j.Namespace) == nil)
			}
		}
	case op.SearchAllocs:
		f.begin(p.context)
		for a := range r.Allocs() {
			if visible(a.Job.Namespace) && !f.full(p.context) {
				f.add(p.context, a.Name(), a.Job.Namespace, a.ID.String())
			}
		}
	case op.SearchNodes:
		f.begin(op.SearchNodes, op.SearchClasses)
		for n := range r.Nodes() {
			f.add(op.SearchNodes, n.Name, n.ID.String())
			f.add(op.SearchClasses, n.NodeClass, n.ID.String())
		}
	case op.SearchEvals, op.SearchDeployments, op.SearchPolicies:
		f.begin(p.context)
		for namespace, id := range p.rows(r, f.text) {
			if visible(namespace) && strings.HasPrefix(id, f.text) {
				f.append(p.context, id)
			}
		}
	default:
		f.begin(p.context)
		for namespace, id := range p.rows(r, "") {
			switch {
			case !visible(namespace):
			case p.spaced:
				f.add(p.context, id, namespace, id)
			default:
				f.add(p.context, id)
			}
		}
	}
}

// job searches a job, and, if the caller may read it whole, its parts.
func (f *fuzzy) job(j *berth.Job, whole bool) {
	f.add(op.SearchJobs, j.Name, j.Namespace, string(j.ID))
	if !whole {
		return
	}
	for _, g := range j.TaskGroups {
		f.add(op.SearchGroups, g.Name, j.Namespace, string(j.ID))
		for _, s := range g.Services {
			f.add(op.SearchServices, s.Name, j.Namespace, string(j.ID), g.Name)
		}
		for _, t := range g.Tasks {
			f.add(op.SearchTasks, t.Name, j.Namespace, string(j.ID), g.Name)
			for _, s := range t.Services {
				f.add(op.SearchServices, s.Name, j.Namespace, string(j.ID), g.Name, t.Name)
			}
			if image, ok := t.Config["image"].(string); ok {
				f.add(op.SearchImages, image, j.Namespace, string(j.ID), g.Name, t.Name)
			}
			if command, ok := t.Config["command"].(string); ok {
				f.add(op.SearchCommands, command, j.Namespace, string(j.ID), g.Name, t.Name)
			}
		}
	}
}

// begin makes contexts part of the answer that are asked for.
func (f *fuzzy) begin(contexts ...string) {
	for _, c := range contexts {
		if f.only == "" || f.only == op.SearchAll || f.only == c {
			f.found[c], f.cut[c] = []op.FuzzyMatch{}, false
		}
	}
}

// full reports whether a context has all matches that it may have, and more.
func (f *fuzzy) full(context string) bool { return f.cut[context] }

// add adds a name to a context if it holds the text.
func (f *fuzzy) add(context, name string, scope ...string) {
	if f.found[context] != nil && strings.Contains(strings.ToLower(name), f.text) {
		f.append(context, name, scope...)
	}
}

// append adds a match to a context, unless that is full.
func (f *fuzzy) append(context, id string, scope ...string) {
	list := f.found[context]
	last := len(list) - 1
	fresh := last < 0 || !slices.Equal(object(list[last].Scope), object(scope)) || len(scope) == 0
	if len(list) == f.results || fresh && f.many[context] == f.objects {
		f.cut[context] = true
		return
	}
	if fresh {
		f.many[context]++
	}
	f.found[context] = append(list, op.FuzzyMatch{ID: id, Scope: scope})
}

// object is the part of a scope that names an object: its namespace and ID.
func object(scope []string) []string { return scope[:min(len(scope), 2)] }

// sort puts the matches first that begin with the text or have it near their
// beginning, then the short ones.
func (f *fuzzy) sort(context string) {
	slices.SortStableFunc(f.found[context], func(a, b op.FuzzyMatch) int {
		return cmp.Or(
			cmp.Compare(strings.Index(strings.ToLower(a.ID), f.text), strings.Index(strings.ToLower(b.ID), f.text)),
			cmp.Compare(len(a.ID), len(b.ID)), strings.Compare(a.ID, b.ID), slices.Compare(a.Scope, b.Scope))
	})
}

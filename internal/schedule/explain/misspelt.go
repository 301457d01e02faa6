package explain

import (
	"maps"
	"slices"

	"github.com/agext/levenshtein"

	"berth"
	"berth/internal/condition"
	"berth/internal/schedule/place"
	"berth/op"
)

// misspelt names the attributes that constraints need and no node has, and tries
// the most similar ones that nodes have.
func (f *finder) misspelt(x *op.GroupExplanation, all []place.Verdict) {
	var known map[string]bool
	done := map[string]bool{}
	for _, c := range f.constraints() {
		name := c.LTarget
		if len(x.Unknown) == unknownKept {
			break
		}
		if name == "" || done[name] || x.Conditions[c.String()] == 0 || slices.ContainsFunc(all, func(v place.Verdict) bool { _, ok := condition.Resolve(name, v.Node, f.job.Region); return ok }) {
			continue
		}
		done[name] = true
		if known == nil {
			known = targets(all)
		}
		instead := similar(name, known)
		x.Unknown = append(x.Unknown, op.Unknown{Attribute: name, Similar: instead})
		if instead != "" && f.works(f.register(f.renamed(name, instead))) {
			f.add(costSpell, op.Change{Misspelt: &op.Misspelt{Attribute: name, Instead: instead}})
		}
	}
}

// unknownKept is the limit of attributes that no node has for one group.
const unknownKept = 16

// targets returns how constraints name the attributes and metadata of nodes.
func targets(all []place.Verdict) map[string]bool {
	out := map[string]bool{}
	for _, v := range all[:min(len(all), nodesTried)] {
		for name := range v.Node.Attributes {
			out["${attr."+name+"}"] = true
		}
		for name := range v.Node.Meta {
			out["${meta."+name+"}"] = true
		}
	}
	return out
}

// similar returns the name that is most like another one, "" if none is like it.
func similar(name string, known map[string]bool) (best string) {
	least := max(2, len(name)/6) + 1
	for _, k := range slices.Sorted(maps.Keys(known)) {
		if n := levenshtein.Distance(name, k, nil); n < least {
			best, least = k, n
		}
	}
	return best
}

// renamed returns the job with another attribute in its constraints.
func (f *finder) renamed(from, to string) *berth.Job {
	j, g := f.edited()
	lists := [][]berth.Constraint{j.Constraints, g.Constraints}
	for _, t := range g.Tasks {
		lists = append(lists, t.Constraints)
	}
	for _, list := range lists { // copies of this try
		for i := range list {
			if list[i].LTarget == from {
				list[i].LTarget = to
			}
		}
	}
	return j
}

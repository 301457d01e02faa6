package validate

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"berth"
)

// Limits of extra claims. All of an identity together fit into a variable of a
// task's environment.
const (
	maxClaims     = 32          // of a namespace
	maxClaimText  = 1 << 10     // bytes of the text that a namespace defines one with
	maxClaimValue = 2 << 10     // bytes of what it says in an identity
	metaName      = "job.meta." // begins a name that a key of the job's metadata follows
)

// claimNames are what ${…} in an extra claim can stand for, beside keys of the
// job's metadata.
var claimNames = []string{
	"job.region", "job.namespace", "job.id", "job.node_pool", "group.name", "task.name", "alloc.id", "node.id", "node.datacenter", "node.pool", "node.class",
}

// extraClaims notes what is wrong with the extra claims that a namespace defines.
func extraClaims(ps *berth.Problems, n *berth.Namespace) {
	if all := len(n.RequiredExtraClaims) + len(n.OptionalExtraClaims); all > maxClaims {
		ps.Addf("RequiredExtraClaims", "must be at most %d together with OptionalExtraClaims, got %d", maxClaims, all)
		return
	}
	check := func(path string, claims map[string]string) {
		for _, name := range slices.Sorted(maps.Keys(claims)) {
			text, here := claims[name], path+"["+berth.Clip(name, 64)+"]"
			switch {
			case name == "" || len(name) > berth.MaxNameLen || !utf8.ValidString(name):
				ps.Addf(path, "%q is not a name of 1 to %d bytes", berth.Clip(name, 64), berth.MaxNameLen)
				continue
			case len(text) > maxClaimText || !utf8.ValidString(text):
				ps.Addf(here, "must be text of at most %d bytes", maxClaimText)
				continue
			}
			unknown := func(name string) bool {
				return !slices.Contains(claimNames, name) && (!strings.HasPrefix(name, metaName) || name == metaName)
			}
			if _, err := ExpandClaim(text, func(string) string { return "" }); err != nil {
				ps.Addf(here, "%v", err)
			} else if i := slices.IndexFunc(references(text), unknown); i >= 0 {
				ps.Addf(here, "${%s} stands for nothing: want ${%s} or ${job.meta.KEY}", berth.Clip(references(text)[i], 64), strings.Join(claimNames, "}, ${"))
			}
		}
	}
	check("RequiredExtraClaims", n.RequiredExtraClaims)
	check("OptionalExtraClaims", n.OptionalExtraClaims)
	for _, name := range slices.Sorted(maps.Keys(n.OptionalExtraClaims)) {
		if _, ok := n.RequiredExtraClaims[name]; ok {
			ps.Addf("OptionalExtraClaims["+berth.Clip(name, 64)+"]", "is in RequiredExtraClaims as well")
		}
	}
}

// ClaimsOf returns the extra claims of an identity in a namespace: those that
// every identity has, and those that it asks for. What it asks for and the
// namespace does not define any more is left out.
func ClaimsOf(n *berth.Namespace, w *berth.WorkloadIdentity) map[string]string {
	out := map[string]string{}
	maps.Copy(out, n.RequiredExtraClaims)
	for _, name := range w.ExtraClaims {
		if text, ok := n.OptionalExtraClaims[name]; ok {
			out[name] = text
		}
	}
	return out
}

// ExpandClaim returns the text of an extra claim with values in place of its
// references. A value is not looked at again. It fails if a reference has no
// end, or if the claim becomes too long.
func ExpandClaim(text string, value func(name string) string) (string, error) {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(text, "${")
		b.WriteString(before)
		if ok {
			name, after, ended := strings.Cut(rest, "}")
			if !ended {
				return "", fmt.Errorf("${%s has no end: want }", berth.Clip(rest, 64))
			}
			b.WriteString(value(name))
			text = after
		}
		if b.Len() > maxClaimValue {
			return "", fmt.Errorf("must be at most %d bytes with values in place of its references", maxClaimValue)
		}
		if !ok {
			return b.String(), nil
		}
	}
}

// references returns what the references of a claim name.
func references(text string) (names []string) {
	_, _ = ExpandClaim(text, func(name string) string {
		names = append(names, name)
		return ""
	})
	return names
}

// JobValue returns what a name stands for in the extra claims of a job's
// identities. Of a child, the ID is that of its parent. What is not known of a
// job alone is "".
func JobValue(j *berth.Job, name string) string {
	switch name {
	case "job.namespace":
		return j.Namespace
	case "job.id":
		if j.ParentID != "" {
			return string(j.ParentID)
		}
		return string(j.ID)
	case "job.node_pool":
		return j.NodePool
	}
	if key, ok := strings.CutPrefix(name, metaName); ok {
		return j.Meta[key]
	}
	return ""
}

// jobClaims notes extra claims that identities of a job ask for and its namespace
// does not define, and what makes claims too long.
func jobClaims(ps *berth.Problems, n *berth.Namespace, j *berth.Job) {
	all, long := map[string]string{}, map[string]bool{}
	maps.Copy(all, n.RequiredExtraClaims)
	maps.Copy(all, n.OptionalExtraClaims)
	value := func(name string) string { return JobValue(j, name) }
	use := func(name string) {
		if _, err := ExpandClaim(all[name], value); err != nil {
			long[name] = true
		}
	}
	for name := range n.RequiredExtraClaims {
		use(name)
	}
	for _, g := range j.TaskGroups {
		for _, t := range g.Tasks {
			for _, w := range t.AllIdentities() {
				for _, name := range w.ExtraClaims {
					if _, ok := all[name]; ok {
						use(name)
						continue
					}
					allowed := "it defines none"
					if len(all) > 0 {
						allowed = "it defines " + strings.Join(slices.Sorted(maps.Keys(all)), ", ")
					}
					ps.Addf(fmt.Sprintf("job.group[%s].task[%s].identity[%s].extra_claims", g.Name, t.Name, w.Name),
						"namespace %q does not define extra claim %q: %s", n.Name, berth.Clip(name, 64), allowed)
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(long)) {
		ps.Addf("job.meta", "makes extra claim %q of namespace %q longer than %d bytes", berth.Clip(name, 64), n.Name, maxClaimValue)
	}
}

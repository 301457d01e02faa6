// Package acl answers one question: may this token do that? It has the language
// of policies ([Parse]), and what several policies together allow ([New]).
// Every operation names the capability it needs and where its namespace comes
// from (package op); package api asks.
//
// What no rule grants is refused: the zero ACL and a nil one allow nothing.
package acl

import (
	"slices"
	"strings"
)

// ACL is what a token may do. It never changes.
type ACL struct {
	management bool
	spaces     rules // by namespace
	pools      rules // by node pool
	volumes    rules // by host volume
	areas      map[string]grant
	own        *own // what an identity of a task has besides; nil: nothing
}

// Everything returns the ACL that allows everything.
func Everything() *ACL { return &ACL{management: true} }

// New returns what policies allow together. The rules of one label are joined.
// Of several labels that match a name, only the closest counts, and in it deny
// wins over everything else.
func New(policies ...*Policy) *ACL {
	a := &ACL{areas: map[string]grant{}}
	for _, p := range policies {
		for _, r := range p.Namespaces {
			a.spaces.add(r)
		}
		for _, r := range p.NodePools {
			a.pools.add(r)
		}
		for _, r := range p.HostVolumes {
			a.volumes.add(r)
		}
		for area, capabilities := range p.Areas {
			a.areas[area] = a.areas[area].with(capabilities)
		}
	}
	for _, r := range []*rules{&a.spaces, &a.pools, &a.volumes} {
		r.order()
	}
	return a
}

// IsManagement reports whether everything is allowed.
func (a *ACL) IsManagement() bool { return a != nil && a.management }

// Any is the name that stands for some namespace, node pool or volume: a right to
// Any is a right to one of them at least.
const Any = "*"

// Place is the name, for [ACL.Allows], of a path of variables in a namespace.
func Place(namespace, path string) string { return namespace + "\x00" + path }

// place takes apart what Place returns. A namespace alone stands for any path.
func place(name string) (namespace, path string) {
	namespace, path, ok := strings.Cut(name, "\x00")
	if !ok {
		path = Any
	}
	return namespace, path
}

// Allows reports whether a capability is granted: in the namespace, if it is one
// of namespaces, in the node pool of that name, if it is one of node pools. A
// name of [Any], or none for a pool or volume, asks if it is granted for some. AnyToken in a namespace is a
// right to anything there. Names are ignored for other capabilities.
func (a *ACL) Allows(c Capability, name string) bool {
	switch {
	case c == Open:
		return true
	case a == nil || c == Node || c == Server: // no token is a node or a server
		return false
	case a.management || a.own.allows(&a.spaces, c, name):
		return true
	case c.Namespaced():
		return a.spaces.allow(name, c)
	case c.variables():
		namespace, path := place(name)
		return a.spaces.allowVariable(namespace, path, c)
	}
	switch area := c.area(); area {
	case "node_pool", "host_volume":
		if name == "" {
			name = Any
		}
	}
	switch area := c.area(); area {
	case "node_pool":
		return a.pools.allow(name, c)
	case "host_volume":
		return a.volumes.allow(name, c)
	case "":
		return c == AnyToken && (name == "" || a.spaces.something(name))
	default:
		return a.areas[area].allows(c)
	}
}

// Variable reports whether a capability for variables is granted for a path of a
// namespace: "read", "list", "write" or "destroy".
func (a *ACL) Variable(namespace, path, capability string) bool {
	return a != nil && (a.management || a.spaces.allowVariable(namespace, path, Capability("variables:"+capability)))
}

// SomethingIn reports whether anything is granted in the namespace, so that its
// name is no secret to the holder.
func (a *ACL) SomethingIn(namespace string) bool {
	return a != nil && (a.management || a.spaces.something(namespace) || a.own.allows(&a.spaces, AnyToken, namespace))
}

// grant is what the rules of one label grant together.
type grant struct {
	denied bool
	can    []Capability // sorted, with what they include
}

// with returns the grant with more capabilities.
func (g grant) with(more []Capability) grant {
	g.denied = g.denied || slices.Contains(more, Deny)
	g.can = slices.Concat(g.can, closure(more))
	slices.Sort(g.can)
	g.can = slices.Compact(g.can)
	return g
}

// allows reports whether the grant has a capability.
func (g grant) allows(c Capability) bool {
	if g.denied {
		return false
	}
	_, ok := slices.BinarySearch(g.can, c)
	return ok
}

// rules are the grants of one kind of rule by label.
type rules struct {
	exact map[string]*labeled
	globs []*labeled // the closest first: by descending number of letters
}

// labeled is the grant of one label.
type labeled struct {
	label string
	grant
	paths rules // of variables, by path
}

// add joins a rule with those that have the same label.
func (r *rules) add(rule Rule) {
	l := r.get(rule.Label)
	l.grant = l.with(rule.Capabilities)
	for _, v := range rule.Variables {
		l.paths.add(v)
	}
	l.paths.order()
}

// get returns the grant of a label; it makes one unless there is one.
func (r *rules) get(label string) *labeled {
	if !isGlob(label) {
		if r.exact == nil {
			r.exact = map[string]*labeled{}
		}
		if r.exact[label] == nil {
			r.exact[label] = &labeled{label: label}
		}
		return r.exact[label]
	}
	for _, l := range r.globs {
		if l.label == label {
			return l
		}
	}
	l := &labeled{label: label}
	r.globs = append(r.globs, l)
	return l
}

// order sorts the globs.
func (r *rules) order() {
	slices.SortStableFunc(r.globs, func(a, b *labeled) int { return letters(b.label) - letters(a.label) })
}

// closest calls f with the grants that decide about a name: the exact one, or
// the matching globs with the most letters, which may be several.
func (r *rules) closest(name string, f func(*labeled)) {
	if l := r.exact[name]; l != nil {
		f(l)
		return
	}
	most := -1
	for _, l := range r.globs {
		n := letters(l.label)
		if n < most {
			return
		}
		if match(l.label, name) {
			most = n
			f(l)
		}
	}
}

// all calls f with every grant.
func (r *rules) all(f func(*labeled)) {
	for _, l := range r.exact {
		f(l)
	}
	for _, l := range r.globs {
		f(l)
	}
}

// allow reports whether a capability is granted for a name, or, if it is Any, for
// some name.
func (r *rules) allow(name string, c Capability) bool {
	if name == Any {
		some := false
		r.all(func(l *labeled) { some = some || l.allows(c) })
		return some
	}
	granted, denied := false, false
	r.closest(name, func(l *labeled) {
		granted = granted || l.allows(c)
		denied = denied || l.denied
	})
	return granted && !denied
}

// allowVariable reports whether a capability is granted for a path; namespace and
// path may be Any. A namespace whose rule denies has no variables.
func (r *rules) allowVariable(namespace, path string, c Capability) bool {
	granted, denied := false, false
	look := func(l *labeled) {
		denied = denied || l.denied && namespace != Any
		granted = granted || !l.denied && l.paths.allow(path, c)
	}
	if namespace == Any {
		r.all(look)
		return granted
	}
	if r.closest(namespace, look); path == Any || denied {
		return granted && !denied
	}
	// Several labels may be equally close. Their paths count together.
	var paths rules
	r.closest(namespace, func(l *labeled) {
		l.paths.all(func(p *labeled) {
			to := paths.get(p.label)
			to.denied = to.denied || p.denied
			to.can = to.with(p.can).can
		})
	})
	paths.order()
	return paths.allow(path, c)
}

// something reports whether anything is granted for a name.
func (r *rules) something(name string) bool {
	granted, denied := false, false
	r.closest(name, func(l *labeled) {
		denied = denied || l.denied
		granted = granted || !l.denied && len(l.can) > 0
		l.paths.all(func(p *labeled) { granted = granted || !l.denied && !p.denied && len(p.can) > 0 })
	})
	return granted && !denied
}

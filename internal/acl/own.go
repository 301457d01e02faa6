package acl

// own is what the identity of a task has without any policy: reading the
// variables that are its own, and the services of its namespace. What a policy
// denies there stays denied.
type own struct {
	namespace string
	paths     []string
}

// WithOwn returns the ACL of a task: with the rights that it has by being one, to
// some paths of variables of its namespace.
func (a *ACL) WithOwn(namespace string, paths ...string) *ACL {
	n := *a
	n.own = &own{namespace, paths}
	return &n
}

// allows reports whether a task has a capability by being one; spaces are the
// rules of its policies.
func (o *own) allows(spaces *rules, c Capability, name string) bool {
	if o == nil {
		return false
	}
	switch {
	case c == ReadServices, c == AnyToken:
		return name == Any || name == o.namespace && !o.denied(spaces, "")
	case c == VariablesRead, c == VariablesList:
		namespace, path := place(name)
		if namespace != o.namespace && namespace != Any {
			return false
		}
		for _, p := range o.paths {
			if (path == p || path == Any) && !o.denied(spaces, p) {
				return true
			}
		}
	}
	return false
}

// denied reports whether the policies deny the namespace of the task, or a path in
// it; "" is no path.
func (o *own) denied(spaces *rules, path string) (yes bool) {
	spaces.closest(o.namespace, func(l *labeled) {
		yes = yes || l.denied
		if path != "" {
			l.paths.closest(path, func(p *labeled) { yes = yes || p.denied })
		}
	})
	return yes
}

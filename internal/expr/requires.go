package expr

// Requirement is a property that must have a value.
type Requirement struct {
	Name  string
	Value any // a bool, int64, float64 or string
}

// Requires returns properties that must equal a value, as == compares, for the
// condition to be true. It finds only those compared with a literal and joined
// by &&, which is enough to narrow a search.
func (e *Expr) Requires() []Requirement { return requires(e.root, nil) }

// requires adds what must hold for n to be true: the equalities that && joins.
// Any other node adds nothing, so the result is necessary but not sufficient.
func requires(n node, out []Requirement) []Requirement {
	b, ok := n.(*binary)
	if !ok {
		return out
	}
	switch b.op {
	case "&&":
		return requires(b.right, requires(b.left, out))
	case "==":
		if r, ok := requirement(b.left, b.right); ok {
			return append(out, r)
		}
		if r, ok := requirement(b.right, b.left); ok {
			return append(out, r)
		}
	}
	return out
}

// requirement returns p == v as a requirement, if p is a property and v a
// literal.
func requirement(p, v node) (Requirement, bool) {
	name, first := p.(*property)
	value, second := v.(*constant)
	if !first || !second {
		return Requirement{}, false
	}
	return Requirement{name.name, value.value}, true
}

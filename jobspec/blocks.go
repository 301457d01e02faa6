package jobspec

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"berth/internal/decode"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"berth"
)

// Nomad's job specification has these blocks, whose syntax differs from the
// fields of their structs.

// job reads the job block.
func (w *walker) job(b *hclsyntax.Block, ctx *hcl.EvalContext) (decode.Tree, *place) {
	tree, at := decode.Tree{}, newPlace(b.DefRange())
	w.m.block(b.DefRange())
	if len(b.Labels) == 1 {
		tree["ID"] = b.Labels[0]
		at.field("id", b.LabelRanges[0])
	} else {
		at.fault("id", b.DefRange()) // the label is what is wrong
	}
	in := instance{b.Type, b.Labels, b.Body, ctx, b.DefRange()}
	w.fill(in, reflect.TypeFor[berth.Job](), tree, at, "job")
	if len(b.Labels) == 1 && tree["Name"] == nil {
		tree["Name"] = b.Labels[0] // even if id = "…" sets another ID
	}
	return tree, at
}

// fill reads a block of the given type into tree.
func (w *walker) fill(in instance, t reflect.Type, tree decode.Tree, at *place, path string) {
	b, s := in.body, shapeOf(t)
	switch t {
	case reflect.TypeFor[berth.Job]():
		w.levels(in, s, tree, at, path, true)
		return
	case reflect.TypeFor[berth.TaskGroup]():
		w.levels(in, s, tree, at, path, false)
		return
	case reflect.TypeFor[berth.Constraint](), reflect.TypeFor[berth.Affinity]():
		b = w.condition(in, s, tree, at, path, t == reflect.TypeFor[berth.Constraint]())
	}
	w.body(b, s, in.ctx, tree, at, path)
}

// levels reads a job or a group. Both may hold vault and consul blocks for all
// their tasks, and a job may hold tasks, each of which becomes a group.
func (w *walker) levels(in instance, s *shape, tree decode.Tree, at *place, path string, isJob bool) {
	extra := &shape{fields: maps.Clone(s.fields), names: s.names, label: s.label}
	vault := &slot{key: "Vault", form: oneBlock, elem: reflect.TypeFor[berth.Vault]()}
	extra.fields["vault"] = vault
	names := []string{"vault"}
	if isJob {
		extra.fields["consul"] = &slot{key: "Consul", form: oneBlock, elem: reflect.TypeFor[berth.Consul]()}
		extra.fields["task"] = &slot{key: "Tasks", form: manyBlocks, elem: reflect.TypeFor[berth.Task]()}
		names = append(names, "consul", "task")
	}
	extra.names = slices.Sorted(slices.Values(append(names, s.names...)))
	w.body(in.body, extra, in.ctx, tree, at, path)
	if isJob {
		tasksAsGroups(tree, at)
		inherit(tree, at, "Consul", "consul", "TaskGroups", "group")
		inherit(tree, at, "Vault", "vault", "TaskGroups", "group")
		for i, g := range items(tree["TaskGroups"]) {
			inherit(g, at.field("group", at.rng).items[i].at, "Vault", "vault", "Tasks", "task")
		}
	}
}

// tasksAsGroups turns each task directly in the job into a group of the same
// name.
func tasksAsGroups(tree decode.Tree, at *place) {
	groups, _ := tree["TaskGroups"].([]any)
	for i, task := range items(tree["Tasks"]) {
		it := at.fields["task"].items[i]
		name, _ := task["Name"].(string)
		groups = append(groups, decode.Tree{"Name": name, "Tasks": []any{task}})
		g := newPlace(it.at.rng)
		g.field("task", it.at.rng).items = []item{it}
		all := at.field("group", it.at.rng)
		all.items = append(all.items, item{name, g})
	}
	if groups != nil {
		tree["TaskGroups"] = groups
	}
	delete(tree, "Tasks")
}

// inherit moves a block of the parent to the children that do not have one.
func inherit(tree decode.Tree, at *place, key, name, children, childName string) {
	block := tree[key]
	if block == nil {
		return
	}
	delete(tree, key)
	for i, child := range items(tree[children]) {
		if child[key] != nil {
			continue
		}
		child[key] = block
		p := at.fields[childName].items[i].at
		if p.fields == nil {
			p.fields = map[string]*place{}
		}
		p.fields[name] = at.fields[name]
	}
}

// items returns the objects of a list.
func items(v any) []decode.Tree {
	list, _ := v.([]any)
	out := make([]decode.Tree, 0, len(list))
	for _, x := range list {
		out = append(out, x.(decode.Tree))
	}
	return out
}

// shorthands are operators that a constraint or affinity may use as the name of
// an attribute, with the value to compare with.
var shorthands = []string{
	berth.OpRegexp, berth.OpVersion, berth.OpSemver, berth.OpSetContains, berth.OpSetContainsAll, berth.OpSetContainsAny,
	berth.OpDistinctHosts, berth.OpDistinctProperty,
}

// condition reads the shorthands of a constraint or affinity, regexp = "…" for
// operator = "regexp" and value = "…", and returns the body without them.
func (w *walker) condition(in instance, s *shape, tree decode.Tree, at *place, path string, isConstraint bool) *hclsyntax.Body {
	// The shorthands are taken out of a copy; what remains is read like any
	// block.
	rest := *in.body
	rest.Attributes = maps.Clone(in.body.Attributes)
	first := ""
	for _, a := range inOrder(in.body.Attributes) {
		distinct := a.Name == berth.OpDistinctHosts || a.Name == berth.OpDistinctProperty
		if !slices.Contains(shorthands, a.Name) || distinct && !isConstraint {
			continue
		}
		delete(rest.Attributes, a.Name)
		here := decode.Join(path, a.Name)
		switch {
		case first != "":
			w.problems.add(a.NameRange, here, "cannot be combined with "+first)
			continue
		case in.body.Attributes["operator"] != nil:
			w.problems.add(a.NameRange, here, "cannot be combined with operator")
			continue
		case in.body.Attributes["value"] != nil && a.Name != berth.OpDistinctProperty:
			w.problems.add(a.NameRange, here, "cannot be combined with value")
			continue
		}
		// The operator has its place here, so a later problem with it
		// is reported at the shorthand.
		first = a.Name
		at.field("operator", a.NameRange)
		v, ok := w.value(a.Expr, in.ctx, here)
		if !ok || v == nil {
			at.fault("operator", a.NameRange)
			at.fault("value", a.NameRange)
			at.fault("attribute", a.NameRange)
			continue
		}
		tree["Operand"] = a.Name
		w.shorthand(a, v, tree, at, here)
	}
	return &rest
}

// shorthand stores the value of a shorthand in the field that its operator uses.
func (w *walker) shorthand(a *hclsyntax.Attribute, v any, tree decode.Tree, at *place, path string) {
	switch a.Name {
	case berth.OpDistinctProperty:
		tree["LTarget"] = v // value = "3" may be set too
		at.field("attribute", a.NameRange)
	case berth.OpDistinctHosts:
		if v != true && v != false && v != "true" && v != "false" {
			w.problems.add(a.Expr.Range(), path, "must be true or false")
			return
		}
		tree["RTarget"] = fmt.Sprint(v)
		at.field("value", a.NameRange)
	default:
		tree["RTarget"] = v
		at.field("value", a.NameRange)
	}
}

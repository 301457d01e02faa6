package api

import (
	"strings"

	"berth"
	"berth/internal/acl"
	"berth/internal/decode"
	"berth/internal/state"
	"berth/internal/validate"
	"berth/op"
)

// namespaces registers the operations on namespaces.
func (s *Server) namespaces() {
	readList(s, op.ListNamespaces, listNamespaces)
	read(s, op.ReadNamespace, readNamespace)
	write(s, op.CreateNamespace, writeNamespace)
	write(s, op.UpdateNamespace, writeNamespace)
	write(s, op.RemoveNamespace, removeNamespace)
}

// listNamespaces returns the namespaces in which the caller may do anything, in
// order of name.
func listNamespaces(r *Read, _ *op.Query) ([]*berth.Namespace, error) {
	r.Table(state.Namespaces)
	l := scanned(r.Query, r.Namespaces(), byID(func(n *berth.Namespace) string { return n.Name }))
	return page(r, l, func(n *berth.Namespace) bool {
		return strings.HasPrefix(n.Name, r.Query.Prefix) && r.may(acl.AnyToken, n.Name) == nil
	}, func(n *berth.Namespace) *berth.Namespace { return n })
}

// readNamespace returns one namespace.
func readNamespace(r *Read, in *op.NamespaceRef) (*berth.Namespace, error) {
	if err := r.may(acl.AnyToken, in.Name); err != nil {
		return nil, err
	}
	n := r.Namespace(in.Name)
	if n == nil {
		return nil, berth.Errorf(berth.NotFound, "namespace not found: %s", berth.Clip(in.Name, 64))
	}
	r.At(n.ModifyIndex, state.OnNamespace(n.Name))
	return n, nil
}

// writeNamespace decides that a namespace is created or changed. Path and body
// must name the same.
func writeNamespace(_ *Write, in *op.WriteNamespace) (ch Change[op.WriteAnswer], err error) {
	n := in.Namespace
	switch {
	case n.Name == "":
		n.Name = in.NamespaceName
	case in.NamespaceName != "" && in.NamespaceName != n.Name:
		return ch, berth.Errorf(berth.Invalid, "Name: %q in the body differs from %q in the path", berth.Clip(n.Name, 64), berth.Clip(in.NamespaceName, 64))
	}
	if err := validate.Namespace(&n); err != nil { // Apply checks it as well; this keeps it out of the log
		return ch, err
	}
	return propose[op.WriteAnswer](&state.UpsertNamespaces{Namespaces: []*berth.Namespace{&n}}, nil), nil
}

// removeNamespace decides that a namespace is deleted. Apply refuses it while it
// has jobs, and for the default one.
func removeNamespace(_ *Write, in *op.DeleteNamespace) (Change[op.WriteAnswer], error) {
	return propose[op.WriteAnswer](&state.DeleteNamespaces{Names: []string{in.Name}}, nil), nil
}

// withPool returns a job that names its node pool: the default one of its
// namespace, unless it names another.
func withPool(s *state.Snapshot, namespace string, tree decode.RawTree) decode.RawTree {
	name := spelling(tree, "NodePool")
	if v := tree[name]; v != nil && v != "" {
		return tree
	}
	pool := s.Namespace(namespace).DefaultPool()
	if pool == berth.DefaultNodePool {
		return tree
	}
	out := make(decode.RawTree, len(tree)+1)
	for k, v := range tree {
		out[k] = v
	}
	out[name] = pool
	return out
}

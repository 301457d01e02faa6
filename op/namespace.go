package op

import (
	"berth"
	"berth/internal/acl"
)

// NamespaceRef names a namespace.
type NamespaceRef struct {
	Name string
	Query
}

// WriteNamespace asks for a namespace to be created or replaced. Fields that are
// left out are reset.
type WriteNamespace struct {
	NamespaceName string // over HTTP: from the path, "" on /v1/namespace
	berth.Namespace
	Write
}

// DeleteNamespace asks for a namespace to be deleted.
type DeleteNamespace struct {
	Name string
	Write
}

// The operations on namespaces. A caller sees those in which a right was granted
// to it.
var (
	ListNamespaces  = define[Query, []*berth.Namespace]("namespace.list", "GET /v1/namespaces", "", acl.AnyToken, acl.NamedSpace)
	ReadNamespace   = define[NamespaceRef, *berth.Namespace]("namespace.read", "GET /v1/namespace/{Name}", "", acl.AnyToken, acl.NamedSpace)
	CreateNamespace = define[WriteNamespace, WriteAnswer]("namespace.create", "PUT /v1/namespace", "", acl.Management, acl.NoSpace)
	UpdateNamespace = define[WriteNamespace, WriteAnswer]("namespace.update", "PUT /v1/namespace/{NamespaceName}", "", acl.Management, acl.NoSpace)
	RemoveNamespace = define[DeleteNamespace, WriteAnswer]("namespace.delete", "DELETE /v1/namespace/{Name}", "", acl.Management, acl.NoSpace)
)

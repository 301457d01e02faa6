package state

import (
	"iter"

	"berth"
)

// DumpTable is a table as Tables shows it.
type DumpTable struct {
	Name string
	Rows iter.Seq[any] // pointers to rows; do not change them
}

// Tables returns all tables for people to read. What is secret about a row is left
// out, even where it is encrypted.
func (s *Snapshot) Tables() []DumpTable {
	table := func(name string, rows iter.Seq[any]) DumpTable { return DumpTable{name, rows} }
	return []DumpTable{
		table("Namespaces", anyRows(s.Namespaces())),
		table("NodePools", anyRows(s.NodePools())),
		table("Quotas", anyRows(s.Quotas())),
		table("Nodes", anyRows(s.Nodes())),
		table("Jobs", anyRows(s.Jobs(berth.AllNamespaces, ""))),
		table("JobVersions", anyRows(s.AllVersions())),
		table("JobSubmissions", anyRows(s.AllSubmissions())),
		table("Evals", anyRows(s.Evals())),
		table("Allocs", anyRows(s.Allocs())),
		table("Deployments", anyRows(s.Deployments())),
		table("Reschedules", anyRows(s.AllReschedules())),
		table("Services", anyRows(s.Services())),
		table("Deletions", anyRows(s.Deletions())),
		table("Streams", anyRows(s.StreamJobs())),
		table("Resources", anyRows(s.Resources())),
		table("HostVolumes", anyRows(s.HostVolumes())),
		table("HostVolumeClaims", anyRows(s.HostVolumeClaims())),
		table("CSIVolumes", without(s.CSIVolumes(), func(v *berth.CSIVolume) { v.Secrets = nil })),
		table("CSIClaims", anyRows(s.CSIClaims())),
		table("CSIPlugins", anyRows(s.CSIPlugins())),
		table("RootKeys", without(s.RootKeys(), func(k *berth.RootKey) { k.Wrapped.Data, k.Wrapped.Salt = nil, nil })),
		table("Variables", without(s.Variables(), func(v *berth.SealedVariable) { v.Data, v.Lock = nil, nil })),
		table("ACLPolicies", anyRows(s.ACLPolicies())),
		table("ACLRoles", anyRows(s.ACLRoles())),
		table("ACLTokens", anyRows(s.ACLTokens())),
		table("ACLAuthMethods", anyRows(s.AuthMethods())),
		table("ACLBindingRules", anyRows(s.BindingRules())),
		table("ACLOneTimeTokens", without(s.OneTimeTokens(), func(t *berth.OneTimeToken) { t.Sealed, t.SecretHash = nil, [32]byte{} })),
	}
}

// anyRows returns rows of any type.
func anyRows[T any](rows iter.Seq[*T]) iter.Seq[any] {
	return func(yield func(any) bool) {
		for r := range rows {
			if !yield(r) {
				return
			}
		}
	}
}

// without returns copies of rows from which drop has removed something.
func without[T any](rows iter.Seq[*T], drop func(*T)) iter.Seq[any] {
	return func(yield func(any) bool) {
		for r := range rows {
			clean := *r
			drop(&clean)
			if !yield(&clean) {
				return
			}
		}
	}
}

// WithoutSecrets returns the state without the secret part of the root keys and
// without the secrets of nodes and of CSI volumes. It is for people who look for a
// defect: a cluster restored from it can read none of its variables.
func (s *Snapshot) WithoutSecrets() *Snapshot {
	tx := Begin(s)
	for k := range s.RootKeys() {
		bare := *k
		bare.Wrapped.Data, bare.Wrapped.Salt = nil, nil
		tx.putRootKey(k, &bare)
	}
	for n := range s.Nodes() {
		bare := *n
		bare.SecretID = ""
		tx.putNode(n, &bare)
	}
	for v := range s.CSIVolumes() {
		bare := *v
		bare.Secrets = nil
		tx.csi.put(tx, CSIVolumes, csiKey(v.Namespace, v.ID), &bare)
	}
	return tx.End().Snapshot
}

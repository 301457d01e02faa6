package state

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"iter"
	"maps"
	"slices"
	"strings"

	"berth"
	"berth/internal/cow"
)

// hash spreads text over 64 bits: FNV-1a.
func hash(parts ...string) uint64 {
	h := uint64(14695981039346656037)
	for _, p := range parts {
		for i := range len(p) {
			h = (h ^ uint64(p[i])) * 1099511628211
		}
		h = (h ^ 0xff) * 1099511628211 // so that ("ab","c") differs from ("a","bc")
	}
	return h
}

// keyHash returns the key of a job in indexes by hash. Two jobs may share it,
// so readers compare the rows.
func keyHash(k berth.JobKey) uint64 { return hash(k.Namespace, string(k.ID)) }

// jobKey returns the key of a job in indexes that are in order of namespace and
// ID. IDs hold no zero byte, so no two jobs share it.
func jobKey(k berth.JobKey) string { return k.Namespace + "\x00" + string(k.ID) }

// versionKey orders the versions of a job by number.
func versionKey(k berth.JobKey, v uint64) string {
	return string(binary.BigEndian.AppendUint64([]byte(jobKey(k)+"\x00"), v))
}

// parentOf returns the key of a child's parent, which may be gone.
func parentOf(j *berth.Job) berth.JobKey { return berth.JobKey{Namespace: j.Namespace, ID: j.ParentID} }

// tokenHash returns the index key of a dispatch with an idempotency token.
// Tokens count per parent.
func tokenHash(parent berth.JobKey, token string) uint64 {
	return hash(parent.Namespace, string(parent.ID), token)
}

// JobRef names one incarnation of a job.
type JobRef struct {
	Key berth.JobKey
	UID berth.UID
}

// sortedIDs returns the keys of m in order: all servers must change rows in the
// same order.
func sortedIDs[V any](m map[berth.DeploymentID]V) []berth.DeploymentID {
	return slices.SortedFunc(maps.Keys(m), func(a, b berth.DeploymentID) int { return bytes.Compare(a[:], b[:]) })
}

// sign returns 1 for true and 0 for false, to count by.
func sign(b bool) int {
	if b {
		return 1
	}
	return 0
}

// compareKeys orders jobs by namespace, then ID.
func compareKeys(a, b berth.JobKey) int {
	if c := strings.Compare(a.Namespace, b.Namespace); c != 0 {
		return c
	}
	return strings.Compare(string(a.ID), string(b.ID))
}

// startingWith yields the rows whose key in ix begins with prefix, in order of
// their keys.
func startingWith[T any](r *rows[T], ix *cow.Tree[string], prefix string) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for k, slot := range ix.From(prefix, 0) {
			if !strings.HasPrefix(k, prefix) || !yield(r.vec.Get(slot)) {
				return
			}
		}
	}
}

// anyOrNil keeps a nil pointer from becoming an interface that is not nil.
func anyOrNil[T any](p *T) any {
	if p == nil {
		return nil
	}
	return p
}

// UniqueKey reports whether an attribute or meta key is unique to each node.
func UniqueKey(k string) bool { return strings.HasPrefix(k, "unique.") }

// compareIncarnations orders jobs by key, then by age, the oldest first.
func compareIncarnations(a, b *berth.Job) int {
	if c := compareKeys(a.Key(), b.Key()); c != 0 {
		return c
	}
	switch {
	case a.UID.Index < b.UID.Index:
		return -1
	case a.UID.Index > b.UID.Index:
		return 1
	}
	return 0
}

// rescheduleKey returns the index key of one instance. It begins with the 12
// bytes of the job's UID, so the instances of a job follow each other.
func rescheduleKey(uid berth.UID, group string, index uint32) string {
	b := make([]byte, 0, 16+len(group)+5)
	b = binary.BigEndian.AppendUint64(b, uid.Index)
	b = binary.BigEndian.AppendUint32(b, uid.Ordinal)
	b = append(append(b, group...), 0)
	return string(binary.BigEndian.AppendUint32(b, index))
}

// ownerKey orders resources by owner, kind and name.
func ownerKey(owner berth.UID, kind, name string) string {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 13+len(kind)+len(name)), owner.Index)
	b = append(binary.BigEndian.AppendUint32(b, owner.Ordinal), kind...)
	return string(append(append(b, 0), name...))
}

// keyOf returns the key of a resource. Orphans may have equal names.
func keyOf(r *berth.Object) string {
	if r.Owner.IsZero() {
		return ownerKey(berth.UID{}, r.Kind, string(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(nil, r.UID.Index), r.UID.Ordinal)))
	}
	return ownerKey(r.Owner, r.Kind, r.Name)
}

// hasNode reports whether a host pool holds a node.
func hasNode(r *berth.Object, id berth.NodeID) bool {
	for _, n := range r.Nodes {
		if n == id {
			return true
		}
	}
	return false
}

// serviceKey returns the prefix that the index keys of a service's
// registrations share.
func serviceKey(k berth.ServiceKey) string { return k.Namespace + "\x00" + k.Name + "\x00" }

// compareUIDs orders objects by age, the oldest first.
func compareUIDs(a, b berth.UID) int {
	return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.Ordinal, b.Ordinal))
}

// routesHash returns where the changes of a namespace's routes are traced.
func routesHash(namespace string) uint64 { return hash("routes", namespace) }

// halfOf returns the first half of an ID, its key in indexes and watches.
func halfOf[T any](id berth.ID[T]) uint64 {
	hi, _ := id.Words()
	return hi
}

// uidHash also distinguishes UIDs that one command made.
func uidHash(uid berth.UID) uint64 { return uid.Index<<16 ^ uint64(uid.Ordinal) }

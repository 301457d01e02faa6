package api

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"berth"
	"berth/internal/state"
	"berth/op"
)

// resources registers the operations on objects of all kinds.
func (s *Server) resources() {
	read(s, op.ListResources, listResources)
	write(s, op.RemoveResource, removeResource)
}

// uidOf parses a UID of a request; "" is no UID. It may begin with the letter of
// its kind, and with no other.
func uidOf(name, s string, kind byte) (uid berth.UID, err error) {
	if len(s) > 2 && s[1] == '-' && s[0] != kind {
		return uid, berth.Errorf(berth.Invalid, "%s: %q must begin with %c-", name, berth.Clip(s, 64), kind)
	}
	if err := uid.UnmarshalText([]byte(s)); err != nil {
		return uid, berth.Errorf(berth.Invalid, "%s: %w", name, err)
	}
	return uid, nil
}

// resource is a row of the list: one of the three.
type resource struct {
	job   *berth.Job
	owned *berth.Object
	alloc *berth.Alloc
}

// namespace returns the namespace of the row's job.
func (o *resource) namespace() string {
	switch {
	case o.job != nil:
		return o.job.Namespace
	case o.owned != nil:
		return o.owned.Job.Namespace
	}
	return o.alloc.Job.Namespace
}

// resourceKinds are all kinds of objects, in the order of the list.
var resourceKinds = slices.Concat([]string{berth.KindJob}, berth.StreamKinds, []string{berth.KindAlloc})

// place is where a row stands in the list: by kind, the older ones first.
func (o *resource) place() (kind int, index uint64, uid string) {
	switch {
	case o.job != nil:
		return 0, o.job.UID.Index, o.job.UID.Text('j')
	case o.owned != nil:
		return slices.Index(resourceKinds, o.owned.Kind), o.owned.UID.Index, textOf(o.owned)
	}
	return len(resourceKinds) - 1, o.alloc.CreateIndex, o.alloc.UID().Text('a')
}

// resourceOrder is the order of that list, by place.
var resourceOrder = order[*resource]{
	func(o *resource) string {
		kind, index, uid := o.place()
		return fmt.Sprintf("%d.%d.%s", kind, index, uid)
	},
	func(o *resource, token string) bool {
		first, rest, _ := strings.Cut(token, ".")
		second, _, _ := strings.Cut(rest, ".")
		of, _ := strconv.Atoi(first)
		at, _ := strconv.ParseUint(second, 10, 64)
		kind, index, _ := o.place()
		return cmp.Or(cmp.Compare(kind, of), cmp.Compare(index, at)) >= 0
	},
}

// listResources returns jobs, what they own and allocations, as one list. A
// query narrows it to a kind, a job, an owner or what is orphaned.
func listResources(r *Read, in *op.ResourcesQuery) ([]op.Resource, error) {
	r.ofStreamsOf(in.Job)
	if in.Kind != "" && !slices.Contains(resourceKinds, in.Kind) {
		return nil, berth.Errorf(berth.Invalid, "kind: unknown kind %q: want one of %s", berth.Clip(in.Kind, 64), strings.Join(resourceKinds, ", "))
	}
	if in.Recursive && in.Owner == "" {
		return nil, berth.Errorf(berth.Invalid, "recursive: applies together with owner only; set owner as well")
	}
	// The letter of an owner is free here: any kind may own something.
	var owner berth.UID
	if in.Owner != "" {
		var err error
		if owner, err = uidOf("owner", in.Owner, in.Owner[0]); err != nil {
			return nil, err
		}
		if k, known := r.keyOfOwner(owner); known { // what it owns is of the same job
			r.ofStreamsNamed(k)
		}
	}
	return page(r, scanned(r.Query, r.resources(in, owner), resourceOrder), func(o *resource) bool { return r.visible(op.ListResources.Need, o.namespace()) },
		r.resourceView)
}

// resources returns what a query asks for. What an owner that is gone left is
// found by looking at every allocation.
func (r *Read) resources(in *op.ResourcesQuery, owner berth.UID) iter.Seq[*resource] {
	of := func(kind string) bool { return in.Kind == "" || in.Kind == kind }
	return func(yield func(*resource) bool) {
		if of(berth.KindJob) && in.Owner == "" && !in.Orphaned {
			for _, j := range r.jobsByAge(in.Job) {
				if !yield(&resource{job: j}) {
					return
				}
			}
		}
		for _, o := range r.owned(in, owner) {
			if !yield(&resource{owned: o}) {
				return
			}
		}
		if !of(berth.KindAlloc) || owns(in.Owner) == 0 {
			return
		}
		// Ended allocations are shown only to those who ask for allocations
		// alone.
		ended := in.Kind == berth.KindAlloc && in.Job == "" && in.Owner == "" && !in.Orphaned
		for a := range r.allocsFor(in.Job, owner) {
			if a.Ended() && !ended && !r.Zombie(a) || in.Orphaned && !a.Orphaned || in.Owner != "" && !owned(a, owner, in.Recursive) {
				continue
			}
			if !yield(&resource{alloc: a}) {
				return
			}
		}
	}
}

// owns returns the kind of an owner that can have allocations, by the letter of
// its UID: j or p, * if that is not said, and 0 if it can have none.
func owns(owner string) byte {
	switch {
	case len(owner) < 2 || owner[1] != '-':
		return '*'
	case owner[0] == 'j' || owner[0] == 'p':
		return owner[0]
	}
	return 0
}

// owned reports whether the owner of an allocation has that UID or, if recursive,
// whether the allocation belongs to something that the owner owns.
func owned(a *berth.Alloc, owner berth.UID, recursive bool) bool {
	pe := a.Rest().PE
	switch {
	case pe != nil && pe.UID == owner:
		return true
	case a.Orphaned || a.Job.UID != owner:
		return false
	}
	return pe == nil || recursive
}

// owned returns the resources of stream jobs that a query asks for, kind by
// kind, the older ones first.
func (r *Read) owned(in *op.ResourcesQuery, owner berth.UID) (out []*berth.Object) {
	all := r.Resources()
	switch {
	case in.Kind == berth.KindJob || in.Kind == berth.KindAlloc || in.Owner != "" && owns(in.Owner) != 'j' && owns(in.Owner) != '*':
		return nil
	case in.Owner != "":
		all = r.ResourcesOf(owner, in.Kind)
	case in.Orphaned:
		all = r.OrphanedResources()
	}
	for o := range all {
		switch {
		case in.Kind != "" && o.Kind != in.Kind, in.Job != "" && string(o.Job.ID) != in.Job, in.Orphaned && !o.Owner.IsZero():
		case r.Space() != berth.AllNamespaces && o.Job.Namespace != r.Space():
		default:
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, b *berth.Object) int {
		return cmp.Or(cmp.Compare(slices.Index(resourceKinds, a.Kind), slices.Index(resourceKinds, b.Kind)),
			cmp.Compare(a.UID.Index, b.UID.Index), cmp.Compare(a.UID.Ordinal, b.UID.Ordinal))
	})
	return out
}

// jobsByAge returns the jobs of the space, or the one that is named with those
// that it launched.
func (r *Read) jobsByAge(id string) (out []*berth.Job) {
	for j := range r.Jobs(r.Space(), id) {
		if id == "" || string(j.ID) == id || string(j.ParentID) == id {
			out = append(out, j)
		}
	}
	slices.SortFunc(out, func(a, b *berth.Job) int { return cmp.Compare(a.UID.Index, b.UID.Index) })
	return out
}

// allocsFor returns the allocations to search, oldest first: those of the job
// that is named or that has the UID, or else all.
func (r *Read) allocsFor(id string, owner berth.UID) iter.Seq[*berth.Alloc] {
	key, known := r.keyOfOwner(owner)
	if id != "" && r.Space() != berth.AllNamespaces {
		key, known = berth.JobKey{Namespace: r.Space(), ID: berth.JobID(id)}, true
	}
	if !known {
		return func(yield func(*berth.Alloc) bool) {
			for a := range r.Allocs() {
				if (id == "" || string(a.Job.ID) == id) && !yield(a) {
					return
				}
			}
		}
	}
	return slices.Values(byAge(r.AllocsOf(key)))
}

// byAge returns allocations in the order in which they were made.
func byAge(all iter.Seq[*berth.Alloc]) []*berth.Alloc {
	return slices.SortedFunc(all, func(a, b *berth.Alloc) int {
		return cmp.Or(cmp.Compare(a.CreateIndex, b.CreateIndex), cmp.Compare(a.Ordinal, b.Ordinal))
	})
}

// keyOfOwner returns the job that an owner is, or is of, if that is there.
func (r *Read) keyOfOwner(owner berth.UID) (k berth.JobKey, known bool) {
	if owner.IsZero() {
		return k, false
	}
	if row := r.StreamJob(owner); row != nil {
		return row.Key, true
	}
	if o := r.Resource(owner); o != nil {
		return o.Job, true
	}
	if j := jobByUID(r.Snapshot, owner); j != nil {
		return j.Key(), true
	}
	return k, false
}

// jobByUID returns the job of a UID, nil if it is gone.
func jobByUID(s *state.Snapshot, uid berth.UID) *berth.Job {
	for j := range s.Jobs(berth.AllNamespaces, "") {
		if j.UID == uid {
			return j
		}
	}
	return nil
}

// removeResource deletes an object: a job as if by its ID; what a stream job
// owns, which the job may create again; or an allocation, which is stopped.
// Allocations of other jobs can be deleted only if they are orphaned.
func removeResource(w *Write, in *op.DeleteResource) (ch Change[op.AllocStopped], err error) {
	letter := byte('?')
	if len(in.UID) > 2 && in.UID[1] == '-' {
		letter = in.UID[0]
	}
	policy, err := berth.ParsePropagation("propagation", in.Propagation)
	if err != nil {
		return ch, err
	}
	uid, err := uidOf("UID", in.UID, letter)
	switch {
	case err != nil:
		return ch, err
	case letter == 'j':
		return w.removeJob(in, uid)
	}
	// A UID without a letter is looked up in all tables.
	if a := w.AllocByUID(uid); a != nil && (letter == 'a' || letter == '?') {
		return w.removeAlloc(a, in)
	}
	o, absent := w.Resource(uid), noResource(in)
	if o == nil || letter != '?' && letter != berth.KindLetter(o.Kind) {
		return ch, absent()
	}
	if err := mayOf(w.may, op.RemoveResource.Need, o.Job.Namespace, absent); err != nil {
		return ch, err
	}
	c := &state.DeleteResource{UID: uid, Propagation: policy, Now: w.Now.UnixNano()}
	return propose(c, func(o *Outcome) op.AllocStopped { return op.AllocStopped{Index: o.Index, Meta: o.Meta()} }), nil
}

// noResource returns the answer for a UID that nothing has.
func noResource(in *op.DeleteResource) func() error {
	return func() error { return berth.Errorf(berth.NotFound, "resource not found: %s", berth.Clip(in.UID, 64)) }
}

// removeJob deletes the job of a UID.
func (w *Write) removeJob(in *op.DeleteResource, uid berth.UID) (ch Change[op.AllocStopped], err error) {
	j := jobByUID(w.Snapshot, uid)
	if j == nil {
		return ch, noResource(in)()
	}
	if err := mayOf(w.may, op.Stop.Need, j.Namespace, noResource(in)); err != nil {
		return ch, err
	}
	// The job may be in another namespace than the request names. Its own
	// counts.
	of := *w
	of.Options.Namespace = j.Namespace
	c, err := deleteJob(&of, &op.StopJob{JobID: string(j.ID), Purge: true, UID: in.UID, Propagation: in.Propagation})
	if err != nil {
		return ch, err
	}
	// One operation deletes objects of all kinds, so its answer has one form.
	as := func(gone op.JobStopped) op.AllocStopped {
		return op.AllocStopped{EvalID: gone.EvalID, Index: gone.JobModifyIndex, Meta: gone.Meta}
	}
	return Change[op.AllocStopped]{
		Commands: c.Commands, Older: c.Older,
		Answer: func(o *Outcome) op.AllocStopped { return as(c.Answer(o)) },
		Refused: func(o *Outcome, err error) (op.AllocStopped, error) {
			gone, err := c.Refused(o, err)
			return as(gone), err
		},
	}, nil
}

// removeAlloc stops an allocation.
func (w *Write) removeAlloc(a *berth.Alloc, in *op.DeleteResource) (ch Change[op.AllocStopped], err error) {
	if err := mayOf(w.may, op.RemoveResource.Need, a.Job.Namespace, noResource(in)); err != nil {
		return ch, err
	}
	if !a.Orphaned && a.Rest().PE == nil {
		return ch, berth.Errorf(berth.Conflict, "allocation %s is owned by job %q, %s, and cannot be deleted by itself: stop the allocation, or delete the job",
			a.ID, a.Key(), a.Job.UID.Text('j'))
	}
	return haltAlloc(w, a, false), nil
}

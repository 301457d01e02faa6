package api

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth"
	"berth/op"
	"berth/state"
)

func (s *Server) resources() {
	read(s, op.ListResources, listResources)
	write(s, op.RemoveResource, removeResource)
}

func deletionView(s *state.Snapshot, d *state.JobDeletion) *op.Deletion {
	if d == nil {
		return nil
	}
	return &op.Deletion{Deletion: d.Deletion, Blocking: s.Blocking(d.Key, d.UID)}
}

// deleteJob deletes a job with what it owns, or leaves that to itself.
func deleteJob(w *Write, in *op.StopJob) (out op.JobStopped, err error) {
	c := &state.DeleteJob{
		Key: berth.JobKey{Namespace: w.Space(), ID: berth.JobID(in.JobID)}, Intent: berth.IntentUser, NoShutdownDelay: in.NoShutdownDelay, Now: w.Now.UnixNano(),
	}
	if c.Policy, err = berth.ParsePropagation("propagation", in.Propagation); err != nil {
		return out, err
	}
	if c.UID, err = uidOf("uid", in.UID, 'j'); err != nil {
		return out, err
	}
	wait, err := waitFor(in.Wait, c.Policy)
	if err != nil {
		return out, err
	}
	if j := w.Job(c.Key); c.Policy != berth.Orphan && (j == nil || j.Schedulable()) {
		c.Eval = seed(w, berth.TriggerJobDeregister, in.EvalPriority)
	}
	index, err := w.Do(c)
	switch {
	case err == nil:
		out = op.JobStopped{EvalID: c.Eval.ID, JobModifyIndex: index}
		if !out.EvalID.IsZero() {
			out.EvalCreateIndex = index
		}
	case berth.KindOf(err) != berth.Conflict:
		return out, err
	default: // to ask again for what is under way changes nothing
		d := w.server.Store.Snapshot().Deletion(c.Key)
		if d == nil || d.Deletion.Policy != c.Policy || !c.UID.IsZero() && c.UID != d.UID {
			return out, err
		}
		index = d.Deletion.RequestIndex
		out = op.JobStopped{JobModifyIndex: index}
	}
	if c.Policy == berth.Foreground {
		if out.Deletion, err = w.whileDeleting(c.Key, index, wait); err != nil {
			return out, err
		}
	}
	out.Meta = op.Meta{Index: index, KnownLeader: true}
	return out, nil
}

// waitFor reads how long a caller wants to wait for a job to go.
func waitFor(s string, policy berth.Propagation) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(s)
	switch {
	case err != nil || d < 0:
		return 0, berth.Errorf(berth.Invalid, "wait: %q is not a duration such as 30s", clip(s))
	case policy != berth.Foreground:
		return 0, berth.Errorf(berth.Invalid, "wait: a job that is deleted with propagation %s is gone at once; there is nothing to wait for", policy)
	}
	return min(d, op.MaxWait), nil
}

// whileDeleting waits until a job that was marked at an index has gone, and
// returns how far it is, nil if it has.
func (w *Write) whileDeleting(k berth.JobKey, marked uint64, wait time.Duration) (*op.Deletion, error) {
	store := w.server.Store
	now := func() *op.Deletion {
		s := store.Snapshot()
		if d := s.Deletion(k); d != nil && d.Deletion.RequestIndex == marked {
			return deletionView(s, d)
		}
		return nil
	}
	if wait == 0 {
		return now(), nil
	}
	if err := w.server.waiting.enter(w.Caller); err != nil {
		return nil, err
	}
	defer w.server.waiting.exit(w.Caller)
	ctx, cancel := context.WithTimeout(w.ctx, wait)
	defer cancel()
	watch := store.Watch(state.OnJob(k))
	defer watch.Stop()
	for {
		if d := now(); d == nil || watch.Wait(ctx) != nil {
			return d, nil
		}
	}
}

// uidOf reads a UID that a request says; "" is none. It may have the letter of
// its kind, and no other.
func uidOf(name, s string, kind byte) (uid berth.UID, err error) {
	if len(s) > 2 && s[1] == '-' && s[0] != kind {
		return uid, berth.Errorf(berth.Invalid, "%s: %q does not begin with %c-, as it should", name, clip(s), kind)
	}
	if err := uid.UnmarshalText([]byte(s)); err != nil {
		return uid, berth.Errorf(berth.Invalid, "%s: %w", name, err)
	}
	return uid, nil
}

// resource is a row of the list: one of the two.
type resource struct {
	job   *berth.Job
	alloc *berth.Alloc
}

func (o *resource) namespace() string {
	if o.job != nil {
		return o.job.Namespace
	}
	return o.alloc.Job.Namespace
}

// place is where a row stands in the list: jobs before allocations, the older
// ones first.
func (o *resource) place() (kind int, index uint64, uid string) {
	if o.job != nil {
		return 0, o.job.UID.Index, o.job.UID.Text('j')
	}
	return 1, o.alloc.CreateIndex, o.alloc.UID().Text('a')
}

var resourceOrder = order[resource]{
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

func listResources(r *Read, in *op.ResourcesQuery) ([]op.Resource, error) {
	r.At(max(r.LastChange(state.Jobs), r.LastChange(state.Allocs)), state.OnTable(state.Jobs), state.OnTable(state.Allocs))
	if in.Kind != "" && in.Kind != berth.KindJob && in.Kind != berth.KindAlloc {
		return nil, berth.Errorf(berth.Invalid, "kind: there is no %q; allowed are %s and %s", clip(in.Kind), berth.KindJob, berth.KindAlloc)
	}
	var owner berth.UID
	if in.Owner != "" {
		var err error
		if owner, err = uidOf("owner", in.Owner, in.Owner[0]); err != nil {
			return nil, err
		}
	}
	rows, sorted := turned(r.Query, r.resources(in, owner), resourceOrder)
	return page(r, rows, sorted, func(o *resource) bool { return r.visible(op.ListResources.Need, o.namespace()) },
		func(o *resource) op.Resource { return resourceView(r.Snapshot, o) })
}

// resources returns what a query asks for. What an owner that is gone left is
// found by looking at every allocation.
func (r *Read) resources(in *op.ResourcesQuery, owner berth.UID) iter.Seq[*resource] {
	return func(yield func(*resource) bool) {
		if in.Kind != berth.KindAlloc && in.Owner == "" && !in.Orphaned {
			for _, j := range r.jobsByAge(in.Job) {
				if !yield(&resource{job: j}) {
					return
				}
			}
		}
		if in.Kind == berth.KindJob || strings.HasPrefix(in.Owner, "a-") {
			return
		}
		ended := in.Kind == berth.KindAlloc && in.Job == "" && in.Owner == "" && !in.Orphaned
		for a := range r.allocsFor(in.Job, owner) {
			if a.Ended() && !ended || in.Orphaned && !a.Orphaned || in.Owner != "" && (a.Job.UID != owner || a.Orphaned) {
				continue
			}
			if !yield(&resource{alloc: a}) {
				return
			}
		}
	}
}

// jobsByAge returns the jobs of the space, or the one that is named.
func (r *Read) jobsByAge(id string) (out []*berth.Job) {
	for j := range r.Jobs(r.Space(), id) {
		if id == "" || string(j.ID) == id {
			out = append(out, j)
		}
	}
	slices.SortFunc(out, func(a, b *berth.Job) int { return cmp.Compare(a.UID.Index, b.UID.Index) })
	return out
}

// allocsFor returns the allocations among which those are that are wanted: of a
// job that is named, or that is there and has the UID, or else all. The older
// ones come first.
func (r *Read) allocsFor(id string, owner berth.UID) iter.Seq[*berth.Alloc] {
	var named []berth.JobKey
	for j := range r.Jobs(berth.AllNamespaces, "") {
		if owner.IsZero() {
			break
		}
		if j.UID == owner {
			named = []berth.JobKey{j.Key()}
			break
		}
	}
	if id != "" && r.Space() != berth.AllNamespaces {
		named = []berth.JobKey{{Namespace: r.Space(), ID: berth.JobID(id)}}
	}
	if named == nil {
		return func(yield func(*berth.Alloc) bool) {
			for a := range r.Allocs() {
				if (id == "" || string(a.Job.ID) == id) && !yield(a) {
					return
				}
			}
		}
	}
	out := slices.SortedFunc(r.AllocsOf(named[0]), func(a, b *berth.Alloc) int {
		return cmp.Or(cmp.Compare(a.CreateIndex, b.CreateIndex), cmp.Compare(a.Ordinal, b.Ordinal))
	})
	return slices.Values(out)
}

func resourceView(s *state.Snapshot, o *resource) op.Resource {
	if j := o.job; j != nil {
		v := op.Resource{
			Kind: berth.KindJob, Namespace: j.Namespace, Name: string(j.ID), UID: j.UID.Text('j'), OwnerRefs: []berth.OwnerRef{},
			Generation: j.Version, CreateIndex: j.CreateIndex, ModifyIndex: j.ModifyIndex, Deletion: deletionView(s, s.Deletion(j.Key())),
		}
		v.Status, _ = s.Summary(j.Key()).Status(j)
		return v
	}
	a := o.alloc
	return op.Resource{
		Kind: berth.KindAlloc, Namespace: a.Job.Namespace, Name: a.Name(), ID: a.ID.String(), UID: a.UID().Text('a'), OwnerRefs: a.Owners(),
		Generation: a.Job.Version, Status: a.Client.String(), Orphaned: a.Orphaned, CreateIndex: a.CreateIndex, ModifyIndex: a.ModifyIndex,
	}
}

// removeResource stops an allocation that was left to itself, which is what
// deletes it. What has an owner is that one's business.
func removeResource(w *Write, in *op.DeleteResource) (out op.AllocStopped, err error) {
	if strings.HasPrefix(in.UID, "j-") {
		return out, berth.Errorf(berth.Invalid, "UID: %q is a job's; a job is deleted by DELETE /v1/job/:id?purge=true&uid=%s", clip(in.UID), clip(in.UID))
	}
	uid, err := uidOf("UID", in.UID, 'a')
	if err != nil {
		return out, err
	}
	a := w.AllocByUID(uid)
	if a == nil {
		return out, berth.Errorf(berth.NotFound, "resource not found: %s", clip(in.UID))
	}
	if _, err := w.alloc(a.ID.String(), op.RemoveResource.Need); err != nil {
		return out, err
	}
	if !a.Orphaned {
		return out, berth.Errorf(berth.Conflict, "allocation %s is owned by job %q, %s, which decides about it; stop the allocation, or delete the job",
			a.ID, a.Key(), a.Job.UID.Text('j'))
	}
	return haltAlloc(w, a, false)
}

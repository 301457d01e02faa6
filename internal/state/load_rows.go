package state

import (
	"errors"
	"fmt"
	"slices"

	"berth"
	"berth/internal/fit"
	"berth/internal/state/codec"
	"berth/internal/validate"
)

// loader reads records into a transaction.
type loader struct {
	tx     *Tx
	format int // the version of the snapshot
	// preemptors are nodes on which allocations share capacity with those they
	// preempted, which is only known when all are loaded.
	preemptors []*berth.Node

	versions []*berth.Job
	prev     *berth.Alloc
	changed  [tableCount]uint64
}

// version reads the number of a job version and returns that version, or nil if
// the number is damaged.
func (l *loader) version(r *codec.Reader) *berth.Job {
	n := r.Below(uint64(len(l.versions)), "version of a job")
	if r.Err() != nil {
		return nil
	}
	return l.versions[n]
}

// duplicate is the error for a row that occurs twice or has no name: indexes rely
// on unique names.
func duplicate(what string, name any) error {
	return fmt.Errorf("%s %v occurs twice or has no ID", what, name)
}

// read reads a row that is written as msgpack.
func read[T any](r *codec.Reader) *T {
	v := new(T)
	r.Value(v)
	return v
}

// mostNodes bounds the numbers of nodes, far above what a cluster can have.
const mostNodes = 1 << 24

// loadNamespace adds a namespace.
func loadNamespace(l *loader, r *codec.Reader) error {
	n, tx := read[berth.Namespace](r), l.tx
	if tx.Namespace(n.Name) != nil {
		return duplicate("namespace", n.Name)
	}
	t := &tx.namespaces
	t.byName.Add(tx.edit, n.Name, t.insert(tx, n))
	return nil
}

// loadJobVersion numbers a job version. Later records refer to it by that
// number, so that all that have it share one row.
func loadJobVersion(l *loader, r *codec.Reader) error {
	j := read[berth.Job](r)
	if r.Err() == nil {
		r.Fail(validate.WholeJob(j))
	}
	l.versions = append(l.versions, j)
	return nil
}

// loadScaling adds the scaling events of a job, whose record came before.
func loadScaling(l *loader, r *codec.Reader) error {
	j, tx := l.version(r), l.tx
	if j == nil {
		return nil
	}
	slot, ok := tx.jobs.byKey.First(jobKey(j.Key()))
	if !ok || tx.jobs.vec.Get(slot) != j {
		return fmt.Errorf("scaling events of job %q, which does not exist", j.Key())
	}
	tx.jobs.scalings.Set(tx.edit, slot, read[ScalingEvents](r))
	return nil
}

// loadHistory makes a numbered version part of its job's history.
func loadHistory(l *loader, r *codec.Reader) error {
	j, tx := l.version(r), l.tx
	if j == nil {
		return nil
	}
	if tx.JobVersion(j.Key(), j.Version) != nil {
		return duplicate("version of the job", j.Key())
	}
	t := &tx.jobs
	t.byVersion.Add(tx.edit, versionKey(j.Key(), j.Version), t.versions.insert(tx, j))
	return nil
}

// loadSubmission adds the job source of a version.
func loadSubmission(l *loader, r *codec.Reader) error {
	l.tx.putSubmission(read[Submission](r))
	return nil
}

// loadEval adds an evaluation, to the indexes of open ones too if it is open.
func loadEval(l *loader, r *codec.Reader) error {
	e, tx := read[berth.Eval](r), l.tx
	if e.ID.IsZero() || tx.Eval(e.ID) != nil {
		return duplicate("evaluation", e.ID)
	}
	slot := tx.evals.link(tx, e)
	if ix := tx.evals.openIn(e.Status); ix != nil {
		ix.Add(tx.edit, keyHash(e.Key()), slot)
	}
	return nil
}

// loadDeployment adds a deployment.
func loadDeployment(l *loader, r *codec.Reader) error {
	d := read[berth.Deployment](r)
	if d.ID.IsZero() || l.tx.Deployment(d.ID) != nil {
		return duplicate("deployment", d.ID)
	}
	l.tx.deployments.link(l.tx, d)
	return nil
}

// loadReschedules adds the reschedule record of an instance.
func loadReschedules(l *loader, r *codec.Reader) error {
	l.tx.putReschedules(read[Reschedules](r))
	return nil
}

// loadExplanation adds the explanation of an evaluation.
func loadExplanation(l *loader, r *codec.Reader) error {
	l.tx.putExplanation(read[Explanation](r))
	return nil
}

// loadScheduler sets the scheduler configuration, which occurs at most once.
func loadScheduler(l *loader, r *codec.Reader) error {
	if l.tx.scheduler != nil {
		return duplicate("scheduler configuration", "")
	}
	l.tx.putSchedulerConfig(read[berth.SchedulerConfig](r))
	return nil
}

// loadAutopilot sets the autopilot configuration, which occurs at most once.
func loadAutopilot(l *loader, r *codec.Reader) error {
	if l.tx.autopilot != nil {
		return duplicate("autopilot configuration", "")
	}
	l.tx.putAutopilotConfig(read[berth.AutopilotConfig](r))
	return nil
}

// loadTrackedVersions sets how many versions of a job are kept, within the
// limits that the command for it has.
func loadTrackedVersions(l *loader, r *codec.Reader) error {
	v := read[versionLimit](r)
	if l.tx.limit != nil {
		return duplicate("number of tracked versions", "")
	}
	if r.Err() == nil && (v.Kept < 1 || v.Most < max(v.Kept, TrackedVersions) || v.Most > MaxTrackedVersions) {
		return fmt.Errorf("%d versions of each job are kept, more than the maximum %d", v.Kept, v.Most)
	}
	l.tx.limit = v
	return nil
}

// loadStreamIDs sets the counter of stream IDs, so that none is used twice.
func loadStreamIDs(l *loader, r *codec.Reader) error {
	l.tx.streamIDs = r.Uint()
	return nil
}

// loadRestored sets the index at which an operator restored this state.
func loadRestored(l *loader, r *codec.Reader) error {
	tx := l.tx
	if tx.Restored = r.Uint(); r.Err() == nil && (tx.Restored == 0 || tx.Restored > tx.Index) {
		return fmt.Errorf("it was restored at index %d, but is at index %d", tx.Restored, tx.Index)
	}
	return nil
}

// loadCluster sets the ID of the cluster, which occurs at most once.
func loadCluster(l *loader, r *codec.Reader) error {
	tx := l.tx
	if !tx.Cluster.IsZero() || r.Left() != len(tx.Cluster) {
		return duplicate("ID of the cluster", tx.Cluster)
	}
	if tx.Cluster = ClusterID(r.ID()); tx.Cluster.IsZero() {
		return errors.New("the ID of the cluster is empty")
	}
	return nil
}

// loadService adds a service registration.
func loadService(l *loader, r *codec.Reader) error {
	v := read[berth.ServiceRegistration](r)
	if r.Err() != nil {
		return nil
	}
	if v.ID == "" || l.tx.Service(v.ID) != nil {
		return duplicate("service registration", v.ID)
	}
	l.tx.putService(v)
	return nil
}

// loadNodePool adds a node pool.
func loadNodePool(l *loader, r *codec.Reader) error {
	p := read[berth.NodePool](r)
	if r.Err() != nil {
		return nil
	}
	if p.Name == "" || l.tx.NodePool(p.Name) != nil {
		return duplicate("node pool", p.Name)
	}
	l.tx.putNodePool(nil, p)
	return nil
}

// loadNode adds a node under its number. Nodes come in order of numbers, and
// the gaps between them are free numbers. Its usage is counted again when its
// allocations are loaded.
func loadNode(l *loader, r *codec.Reader) error {
	changed := r.Uint()
	n := read[berth.Node](r)
	if r.Err() != nil {
		return nil
	}
	t, tx := &l.tx.nodes, l.tx
	if err := checkNode(n); err != nil {
		return err
	}
	if n.Number < t.numbers || n.Number > mostNodes || tx.Node(n.ID) != nil {
		return fmt.Errorf("node %s, number %d, does not follow number %d", n.ID, n.Number, t.numbers)
	}
	if gap := n.Number - t.numbers; gap > 0 {
		t.gaps.Add(tx.edit, t.numbers, gap-1)
	}
	t.numbers = n.Number + 1
	t.count++
	hi, _ := n.ID.Words()
	t.byID.Add(tx.edit, hi, n.Number)
	// The usage begins empty: loadAlloc claims what runs here.
	u := t.usage.Edit(tx.edit, n.Number)
	*u = fit.Usage{Changed: changed, Touched: tx.Index}
	tx.recount(u, n)
	u.Describe(n)
	if n.Draining() {
		t.listDrain(tx, n.Number, true)
	}
	n.Class = nodeClass(n) // an older build may have hashed fewer fields
	u.Class = tx.joinClass(n)
	freeze(n)
	t.rows.Set(tx.edit, n.Number, n)
	return nil
}

// loadJob adds the newest version of a job with its summary, and joins it with
// its parent and its children.
func loadJob(l *loader, r *codec.Reader) error {
	j := l.version(r)
	s := read[Summary](r)
	if r.Err() != nil {
		return nil
	}
	t := &l.tx.jobs
	if _, ok := t.byKey.First(jobKey(j.Key())); ok {
		return duplicate("job", j.Key())
	}
	slot := t.insert(l.tx, j)
	t.byKey.Add(l.tx.edit, jobKey(j.Key()), slot)
	if j.PerNode() {
		t.perNode.Add(l.tx.edit, jobKey(j.Key()), slot)
	}
	l.tx.listScaled(nil, j, slot)
	l.tx.relate(j, slot, s)
	t.summaries.Set(l.tx.edit, slot, s)
	return nil
}

// loadAlloc adds an allocation and claims its capacity. Nodes come before
// allocations, or the claim would be lost. What equals the previous allocation
// of the same evaluation is not in the record.
func loadAlloc(l *loader, r *codec.Reader) error {
	flags, status := r.Byte(), r.Byte()
	a := &berth.Alloc{
		Orphaned: flags&allocOrphaned != 0,
		Desired:  berth.DesiredStatus(status >> 4), Client: berth.ClientStatus(status & 0xf),
		ID: r.ID(), NodeID: r.ID(),
	}
	if a.Desired > berth.DesiredEvict || a.Client > berth.ClientUnknown {
		return errors.New("status")
	}
	// A plan's allocations follow each other and share these fields.
	if p := l.prev; flags&allocSameEval != 0 {
		if p == nil {
			return errors.New("the first allocation refers to the one before it")
		}
		a.EvalID, a.Job, a.Group, a.CreateIndex, a.CreateTime = p.EvalID, p.Job, p.Group, p.CreateIndex, p.CreateTime
	} else {
		a.EvalID = r.ID()
		a.Job = l.version(r)
		group := r.Text()
		a.CreateIndex, a.CreateTime = r.Uint(), r.Int()
		if r.Err() != nil {
			return nil
		}
		if a.Group = a.Job.Group(group); a.Group == nil {
			return fmt.Errorf("job %q has no group %q", a.Job.ID, group)
		}
	}
	// Indexes and times are differences, as saver.alloc writes them.
	a.Index, a.Ordinal = uint32(r.Uint()), uint32(r.Uint())
	a.Score = r.Score()
	a.ModifyIndex = a.CreateIndex + uint64(r.Int())
	a.AllocModifyIndex = a.CreateIndex + uint64(r.Int())
	a.ModifyTime = a.CreateTime + r.Int()
	if flags&allocPorts != 0 {
		a.Ports = r.Ports()
	}
	if flags&allocTasks != 0 {
		a.Tasks = berth.TaskStatesPack(r.Text())
	}
	if flags&allocMore != 0 {
		if a.More = read[berth.AllocMore](r); a.More != nil {
			a.More.StopReason = codec.StopReason(a.More.DesiredDescription)
		}
	}
	if r.Err() != nil {
		return nil
	}
	if a.ID.IsZero() || l.tx.Alloc(a.ID) != nil {
		return duplicate("allocation", a.ID)
	}
	l.prev = a
	l.tx.allocs.link(l.tx, a)
	// An allocation that occupies its node counts in the node's usage.
	if n := l.tx.Node(a.NodeID); n != nil && a.Occupies() {
		r := fit.RequestOf(a.Group)
		l.tx.fit.Claim(l.tx.nodes.usage.Edit(l.tx.edit, n.Number), &r, a.Grant())
		if len(a.Rest().Evicted) > 0 {
			l.preemptors = append(l.preemptors, n)
		}
	}
	return nil
}

// loadDeletion marks a job that is being deleted. Only a stream job may have a
// successor, a job of the same name that is registered when it is gone.
func loadDeletion(l *loader, r *codec.Reader) error {
	d := read[JobDeletion](r)
	if r.Err() != nil {
		return nil
	}
	switch j := l.tx.Job(d.Key); {
	case l.tx.Deletion(d.Key) != nil:
		return duplicate("deletion of job", d.Key)
	case j == nil || j.UID != d.UID || !j.Stop:
		return fmt.Errorf("job %q, %s, is marked for deletion, but does not exist or is not stopped", d.Key, d.UID.Text('j'))
	case d.hasSuccessor() && j.Type != berth.TypeStream || d.Successor != nil && !d.hasSuccessor():
		return fmt.Errorf("job %q, %s, must not have a successor", d.Key, d.UID.Text('j'))
	}
	// The successor is registered without further checks, so check it now.
	if d.Successor != nil {
		if d.Successor.Job == nil {
			return fmt.Errorf("job %q, %s, has an empty successor", d.Key, d.UID.Text('j'))
		}
		if err := validate.WholeJob(d.Successor.Job); err != nil {
			return err
		}
		if d.Successor.Job.Key() != d.Key || d.Successor.Job.Type != berth.TypeStream {
			return fmt.Errorf("job %q, %s, has a successor with another name, %q", d.Key, d.UID.Text('j'), d.Successor.Job.Key())
		}
	}
	l.tx.mark(d)
	return nil
}

// loadStream adds the submission of a stream job.
func loadStream(l *loader, r *codec.Reader) error {
	v := read[berth.StreamJob](r)
	if r.Err() != nil {
		return nil
	}
	phases := []string{berth.PhaseSubmission, berth.PhaseSubmitted, berth.PhaseFailed, berth.PhaseStopped}
	switch {
	case v.UID.IsZero() || l.tx.StreamJob(v.UID) != nil:
		return duplicate("submission of job", v.Key)
	case !slices.Contains(phases, v.Phase):
		return fmt.Errorf("the submission of job %q is in unknown phase %q", v.Key, v.Phase)
	}
	// Readers rely on the order and the IDs of a plan.
	if v.Plan != nil {
		if err := checkPlan(v.Plan); err != nil {
			return err
		}
	}
	t := &l.tx.streams
	t.byUID.Add(l.tx.edit, v.UID.Index, t.insert(l.tx, v))
	return nil
}

// loadResource adds an object of a stream job, or an orphan. Its owner, if it
// has one, must be loaded before.
func loadResource(l *loader, r *codec.Reader) error {
	v := read[berth.Object](r)
	if r.Err() != nil {
		return nil
	}
	switch {
	case v.UID.IsZero() || v.Name == "" || l.tx.Resource(v.UID) != nil || l.tx.ResourceNamed(v.Owner, v.Kind, v.Name) != nil:
		return duplicate("resource", v.Name)
	case v.Kind != v.Object.Kind || v.Name != v.Object.Name || (v.PE != nil) != (v.Kind == berth.KindPE):
		return fmt.Errorf("resource %q does not have the fields of its kind, %q", v.Name, v.Kind)
	case !v.Owner.IsZero() && l.tx.StreamJob(v.Owner) == nil:
		return fmt.Errorf("resource %q is owned by job %s, which does not exist", v.Name, v.Owner.Text('j'))
	}
	l.tx.resources.link(l.tx, v)
	return checkObject(&v.Object)
}

// loadACLToken adds a token.
func loadACLToken(l *loader, r *codec.Reader) error {
	t, tx := read[berth.ACLToken](r), l.tx
	if r.Err() != nil {
		return nil
	}
	if t.AccessorID == "" || tx.ACLToken(t.AccessorID) != nil || tx.ACLTokenOf(t.SecretHash) != nil {
		return duplicate("token", t.AccessorID)
	}
	slot := tx.acl.tokens.insert(tx, t)
	tx.acl.byAccessor.Add(tx.edit, t.AccessorID, slot)
	tx.acl.bySecret.Add(tx.edit, string(t.SecretHash[:]), slot)
	return nil
}

// loadACLPolicy adds a policy.
func loadACLPolicy(l *loader, r *codec.Reader) error {
	p, tx := read[berth.ACLPolicy](r), l.tx
	if p.Name == "" || tx.ACLPolicy(p.Name) != nil {
		return duplicate("policy", p.Name)
	}
	tx.acl.byPolicy.Add(tx.edit, p.Name, tx.acl.policies.insert(tx, p))
	return nil
}

// loadACLRole adds a role.
func loadACLRole(l *loader, r *codec.Reader) error {
	role, tx := read[berth.ACLRole](r), l.tx
	if role.ID == "" || tx.ACLRole(role.ID) != nil || tx.ACLRoleNamed(role.Name) != nil {
		return duplicate("role", role.ID)
	}
	slot := tx.acl.roles.insert(tx, role)
	tx.acl.byRole.Add(tx.edit, role.ID, slot)
	tx.acl.byRoleName.Add(tx.edit, role.Name, slot)
	return nil
}

// loadACLBootstrap sets when the first token was last made.
func loadACLBootstrap(l *loader, r *codec.Reader) error {
	l.tx.acl.bootstrapped = r.Uint()
	return nil
}

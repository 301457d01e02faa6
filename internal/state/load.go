package state

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"berth"
	"berth/internal/fit"

	"github.com/klauspost/compress/zstd"
)

// maxRecord bounds a record of a saved snapshot: a job, or an explanation.
const maxRecord = MaxCommand * 2

// mostNodes bounds the numbers of nodes, far above what a cluster can have.
const mostNodes = 1 << 24

// maxWindow bounds how far back a saved snapshot may refer, and so what a few
// damaged bytes can make the decoder set aside. Save needs 8 MiB.
const maxWindow = 32 << 20

// Load reads what Save wrote. A snapshot that is damaged, or of a newer
// version, is an error that says so; nothing of it is used.
func Load(from io.Reader) (*Snapshot, error) {
	l := &loader{tx: Begin(&Snapshot{})}
	if err := l.load(from); err != nil {
		return nil, err
	}
	return l.finish(), nil
}

// Verify reads what Save wrote and checks that it is all there, bit for bit. It
// does not look at what the rows say, so it takes a tenth of Load's time.
func Verify(from io.Reader) error {
	l := &loader{verifies: true}
	return l.load(from)
}

var errNoSnapshot = errors.New("this is not a saved snapshot")

// ReadableVersion returns the version of a saved snapshot that begins with a
// line. One that this build cannot read is an error that says so.
func ReadableVersion(line string) (version int, err error) {
	if len(line) > 64 {
		return 0, errNoSnapshot
	}
	if _, err := fmt.Sscanf(line, snapshotMagic+"%d\n", &version); err != nil {
		return 0, errNoSnapshot
	}
	if version < 1 || version > SnapshotVersion {
		return 0, berth.Errorf(berth.Unavailable, "the snapshot has version %d; this build reads 1 to %d", version, SnapshotVersion)
	}
	return version, nil
}

func (l *loader) load(from io.Reader) error {
	in := bufio.NewReader(from)
	line, err := in.ReadString('\n')
	if err != nil {
		return errNoSnapshot
	}
	version, err := ReadableVersion(line)
	if err != nil {
		return err
	}
	z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return err
	}
	defer z.Close()
	l.in, l.format = bufio.NewReader(z), version
	for !l.ended {
		if err := l.next(); err != nil {
			return fmt.Errorf("snapshot: record %d: %w", l.records, err)
		}
	}
	if _, err := l.in.ReadByte(); err != io.EOF {
		return errors.New("snapshot: more follows its end")
	}
	return nil
}

// loader reads records into a transaction.
type loader struct {
	in     *bufio.Reader
	tx     *Tx
	sum    uint32
	format int
	// evictors are nodes on which allocations share room with those they
	// evicted, which is known when all are there.
	evictors []*berth.Node
	records  int
	ended    bool
	verifies bool // rows are not looked at

	versions []*berth.Job
	prev     *berth.Alloc
	changed  [tableCount]uint64
	buf      []byte
}

func (l *loader) next() error {
	kind, err := l.in.ReadByte()
	if err != nil {
		return fmt.Errorf("it ends in the middle: %w", err)
	}
	n, err := binary.ReadUvarint(l.in)
	if err != nil {
		return err
	}
	if n > maxRecord {
		return fmt.Errorf("%d bytes are too long", n)
	}
	if uint64(cap(l.buf)) < n {
		l.buf = make([]byte, n, n+n/2)
	}
	l.buf = l.buf[:n]
	if _, err := io.ReadFull(l.in, l.buf); err != nil {
		return err
	}
	r := &reader{buf: l.buf}
	if kind == recEnd {
		if sum := r.uint(); r.err != nil || sum != uint64(l.sum) {
			return fmt.Errorf("the checksum is %08x, not %08x", l.sum, sum)
		}
		l.ended = true
		return nil
	}
	l.records++
	head := append([]byte{kind}, binary.AppendUvarint(nil, n)...)
	l.sum = crc32.Update(crc32.Update(l.sum, castagnoli, head), castagnoli, l.buf)
	if (kind == recHead) != (l.records == 1) {
		return errors.New("the head is not where it should be")
	}
	switch {
	case kind == recHead:
		return l.head(r)
	case l.verifies:
		return nil
	}
	if err := l.row(kind, r); r.err == nil {
		return err
	}
	return r.err // what was read after the damage says nothing
}

// head reads what is there once. It is as long as its version has it, so that
// the version is what was saved: the checksum does not have that.
func (l *loader) head(r *reader) error {
	s := &Snapshot{}
	if !l.verifies {
		s = l.tx.Snapshot
	}
	s.Index, s.Term, s.TermIndex = r.uint(), r.uint(), r.uint()
	s.Dialect = dialectOfSaved(l.format)
	for t := range tablesOf(l.format) {
		l.changed[t] = r.uint()
	}
	if r.err == nil && len(r.buf) > 0 {
		return fmt.Errorf("the head is longer than that of version %d", l.format)
	}
	return r.err
}

func (l *loader) row(kind byte, r *reader) error {
	tx := l.tx
	switch kind {
	case recNamespace:
		n := load[berth.Namespace](r)
		if tx.Namespace(n.Name) != nil {
			return again("namespace", n.Name)
		}
		t := &tx.namespaces
		t.byName.Add(tx.edit, n.Name, t.insert(tx, n))
	case recNode:
		return l.node(r)
	case recJobVersion:
		j := load[berth.Job](r)
		if r.err == nil {
			r.err = j.Whole()
		}
		l.versions = append(l.versions, j)
	case recJob:
		return l.jobRow(r)
	case recScaling:
		if j := l.version(r); j != nil {
			slot, ok := tx.jobs.byKey.First(jobKey(j.Key()))
			if !ok || tx.jobs.vec.Get(slot) != j {
				return fmt.Errorf("there are scaling events of %q, which is no job", j.Key())
			}
			tx.jobs.scalings.Set(tx.edit, slot, load[ScalingEvents](r))
		}
	case recHistory:
		if j := l.version(r); j != nil {
			if tx.JobVersion(j.Key(), j.Version) != nil {
				return again("version of the job", j.Key())
			}
			t := &tx.jobs
			t.byVersion.Add(tx.edit, versionKey(j.Key(), j.Version), t.versions.insert(tx, j))
		}
	case recSubmission:
		tx.putSubmission(load[Submission](r))
	case recEval:
		e := load[berth.Eval](r)
		if e.ID.IsZero() || tx.Eval(e.ID) != nil {
			return again("evaluation", e.ID)
		}
		slot := tx.evals.link(tx, e)
		if ix := tx.evals.openIn(e.Status); ix != nil {
			ix.Add(tx.edit, keyHash(e.Key()), slot)
		}
	case recAlloc:
		return l.alloc(r)
	case recDeployment:
		d := load[berth.Deployment](r)
		if d.ID.IsZero() || tx.Deployment(d.ID) != nil {
			return again("deployment", d.ID)
		}
		tx.deployments.link(tx, d)
	case recReschedules:
		tx.putReschedules(load[Reschedules](r))
	case recExplanation:
		tx.putExplanation(load[Explanation](r))
	case recScheduler:
		if tx.scheduler != nil {
			return again("scheduler configuration", "")
		}
		tx.putSchedulerConfig(load[berth.SchedulerConfig](r))
	case recAutopilot:
		if tx.autopilot != nil {
			return again("autopilot configuration", "")
		}
		tx.putAutopilotConfig(load[berth.AutopilotConfig](r))
	case recTrackedVersions:
		v := load[versionLimit](r)
		if tx.limit != nil {
			return again("number of tracked versions", "")
		}
		if r.err == nil && (v.Kept < 1 || v.Most < max(v.Kept, TrackedVersions) || v.Most > MaxTrackedVersions) {
			return fmt.Errorf("of each job %d versions are kept, %d at most", v.Kept, v.Most)
		}
		tx.limit = v
	case recDeletion:
		d := load[JobDeletion](r)
		if r.err == nil {
			return l.deletion(d)
		}
	case recStream:
		v := load[berth.StreamJob](r)
		if r.err == nil {
			return l.stream(v)
		}
	case recResource:
		v := load[berth.Resource](r)
		if r.err == nil {
			return l.resource(v)
		}
	case recStreamIDs:
		tx.streamIDs = r.uint()
	case recRestored:
		if tx.Restored = r.uint(); r.err == nil && (tx.Restored == 0 || tx.Restored > tx.Index) {
			return fmt.Errorf("it is said to be restored at index %d, and is at index %d", tx.Restored, tx.Index)
		}
	case recCluster:
		if !tx.Cluster.IsZero() || len(r.buf) != len(tx.Cluster) {
			return again("ID of the cluster", tx.Cluster)
		}
		if tx.Cluster = ClusterID(r.buf); tx.Cluster.IsZero() {
			return errors.New("the ID of the cluster is empty")
		}
	case recService:
		v := load[berth.ServiceRegistration](r)
		if r.err != nil {
			return nil
		}
		if v.ID == "" || tx.Service(v.ID) != nil {
			return again("service registration", v.ID)
		}
		tx.putService(v)
	case recNodePool:
		p := load[berth.NodePool](r)
		if r.err != nil {
			return nil
		}
		if p.Name == "" || tx.NodePool(p.Name) != nil {
			return again("node pool", p.Name)
		}
		tx.putNodePool(nil, p)
	default:
		return fmt.Errorf("kind %d is not known", kind)
	}
	return nil
}

// again says that a row is there a second time, or has no name: indexes rely
// on it that neither can be.
func again(what string, name any) error {
	return fmt.Errorf("%s %v is there twice, or has no ID", what, name)
}

func load[T any](r *reader) *T {
	v := new(T)
	r.value(v)
	return v
}

func (l *loader) version(r *reader) *berth.Job {
	n := r.small(uint64(len(l.versions)), "version of a job")
	if r.err != nil {
		return nil
	}
	return l.versions[n]
}

func (l *loader) node(r *reader) error {
	changed := r.uint()
	n := load[berth.Node](r)
	if r.err != nil {
		return nil
	}
	t, tx := &l.tx.nodes, l.tx
	if err := whole(n); err != nil {
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
	u := t.usage.Edit(tx.edit, n.Number)
	*u = fit.Usage{Changed: changed, Touched: tx.Index}
	tx.recount(u, n)
	u.Describe(n)
	if n.Draining() {
		t.listDrain(tx, n.Number, true)
	}
	n.Class = nodeClass(n) // an older build can have looked at less of it
	u.Class = tx.joinClass(n)
	freeze(n)
	t.rows.Set(tx.edit, n.Number, n)
	return nil
}

func (l *loader) jobRow(r *reader) error {
	j := l.version(r)
	s := load[Summary](r)
	if r.err != nil {
		return nil
	}
	t := &l.tx.jobs
	if _, ok := t.byKey.First(jobKey(j.Key())); ok {
		return again("job", j.Key())
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

func (l *loader) alloc(r *reader) error {
	flags, status := r.byte(), r.byte()
	a := &berth.Alloc{
		Orphaned: flags&allocOrphaned != 0,
		Desired:  berth.DesiredStatus(status >> 4), Client: berth.ClientStatus(status & 0xf),
		ID: r.id(), NodeID: r.id(),
	}
	if a.Desired > berth.DesiredEvict || a.Client > berth.ClientUnknown {
		return errors.New("status")
	}
	if p := l.prev; flags&allocSameEval != 0 {
		if p == nil {
			return errors.New("the first allocation refers to one before")
		}
		a.EvalID, a.Job, a.Group, a.CreateIndex, a.CreateTime = p.EvalID, p.Job, p.Group, p.CreateIndex, p.CreateTime
	} else {
		a.EvalID = r.id()
		a.Job = l.version(r)
		group := r.text()
		a.CreateIndex, a.CreateTime = r.uint(), r.int()
		if r.err != nil {
			return nil
		}
		if a.Group = a.Job.Group(group); a.Group == nil {
			return fmt.Errorf("job %q has no group %q", a.Job.ID, group)
		}
	}
	a.Index, a.Ordinal = uint32(r.uint()), uint32(r.uint())
	a.Score = r.score()
	a.ModifyIndex = a.CreateIndex + uint64(r.int())
	a.AllocModifyIndex = a.CreateIndex + uint64(r.int())
	a.ModifyTime = a.CreateTime + r.int()
	if flags&allocPorts != 0 {
		a.Ports = r.ports()
	}
	if flags&allocTasks != 0 {
		a.Tasks = berth.TaskStatesPack(r.text())
	}
	if flags&allocMore != 0 {
		a.More = load[berth.AllocMore](r)
	}
	if r.err != nil {
		return nil
	}
	if a.ID.IsZero() || l.tx.Alloc(a.ID) != nil {
		return again("allocation", a.ID)
	}
	l.prev = a
	l.tx.allocs.link(l.tx, a)
	if n := l.tx.Node(a.NodeID); n != nil && a.Occupies() {
		r := fit.RequestOf(a.Group)
		l.tx.fit.Claim(l.tx.nodes.usage.Edit(l.tx.edit, n.Number), &r, a.Grant())
		if len(a.Rest().Evicted) > 0 {
			l.evictors = append(l.evictors, n)
		}
	}
	return nil
}

// finish sets what inserting rows did not.
func (l *loader) finish() *Snapshot {
	s := l.tx.Snapshot
	for t := range l.changed { // also of tables that its version does not tell of
		l.changed[t] = max(l.changed[t], s.Restored)
	}
	l.oldPools()
	for _, slot := range s.streams.byUID.All() {
		row, at := s.streams.vec.Get(slot), s.Index
		if j := s.Job(row.Key); j == nil || j.UID != row.UID {
			at = gone
		}
		l.tx.streams.touch(l.tx, slot, at)
	}
	for _, n := range l.evictors {
		l.tx.recount(l.tx.nodes.usage.Edit(l.tx.edit, n.Number), n)
	}
	s.pools.changed, s.services.changed = l.changed[NodePools], l.changed[Services]
	s.namespaces.changed, s.nodes.changed, s.jobs.changed = l.changed[Namespaces], l.changed[Nodes], l.changed[Jobs]
	s.evals.changed, s.allocs.changed = l.changed[Evals], l.changed[Allocs]
	s.deployments.changed, s.jobs.summaryChanged = l.changed[Deployments], l.changed[Summaries]
	s.streams.changed, s.resources.changed = l.changed[Streams], l.changed[Resources]
	s.traces = traces{since: s.Index}
	return l.tx.Seal()
}

// oldPools makes the node pools that a snapshot of an older version only
// implies: what its nodes and jobs name.
func (l *loader) oldPools() {
	if l.format >= poolsSince {
		return
	}
	l.tx.builtInPools()
	for n := range l.tx.Nodes() {
		l.tx.wantNodePool(n.NodePool)
	}
	for j := range l.tx.Jobs(berth.AllNamespaces, "") {
		l.tx.wantNodePool(j.NodePool)
	}
	l.changed[NodePools] = l.tx.Index
}

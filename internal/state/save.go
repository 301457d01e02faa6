package state

import (
	"bytes"
	"cmp"
	"fmt"
	"io"

	"berth"
	"berth/internal/state/codec"
)

// tablesOf returns how many tables the saved snapshots of a version have.
func tablesOf(version int) int {
	switch {
	case version < codec.PoolsSince:
		return int(NodePools)
	case version < codec.ServicesSince:
		return int(Services)
	case version < codec.StreamsSince:
		return int(Streams)
	case version < codec.SecretsSince:
		return int(RootKeys)
	case version < codec.LoginSince:
		return int(ACLAuthMethods)
	case version < codec.InputsSince:
		return int(QuotaUsages) + 1
	case version < codec.RoomSince:
		return int(HostVolumeClaims) + 1
	}
	return int(tableCount)
}

// saver writes the records of a snapshot.
type saver struct {
	*codec.SnapshotWriter
	jobs   map[*berth.Job]uint64 // numbers of the versions that have been written
	prev   *berth.Alloc
	tables int  // how many tables the header has
	hash   bool // write only what is equal on all servers, not what can be read back
}

// SavedVersion is the format version in which Save writes the snapshot.
func (s *Snapshot) SavedVersion() int { return codec.SnapshotOf(s.LogVersion) }

// Save writes the snapshot.
func (s *Snapshot) Save(to io.Writer) error {
	version := s.SavedVersion()
	w, err := codec.NewSnapshotWriter(to, version)
	if err != nil {
		return err
	}
	sv := &saver{SnapshotWriter: w, jobs: map[*berth.Job]uint64{}, tables: tablesOf(version)}
	sv.all(s)
	return w.Close()
}

// Hash returns a hash of the state, equal on all servers that applied the same
// commands.
func (s *Snapshot) Hash() uint64 {
	sv := &saver{SnapshotWriter: codec.NewSnapshotSum(), jobs: map[*berth.Job]uint64{}, tables: int(tableCount), hash: true}
	sv.all(s)
	return uint64(sv.Sum())<<32 | uint64(uint32(s.Index))
}

// all writes every row of a snapshot, in an order in which a row follows what
// it refers to. Rows are in the order of keys, not of slots, so that equal
// states give equal bytes.
func (s *saver) all(snap *Snapshot) {
	s.head(snap)
	for n := range snap.Namespaces() {
		s.row(codec.Namespace, n)
	}
	for p := range snap.NodePools() {
		s.row(codec.NodePool, p)
	}
	// Nodes keep their numbers: log entries refer to them.
	for number := range snap.nodes.numbers {
		if n := snap.nodes.rows.Get(number); n != nil {
			s.Uint(snap.Usage(number).Changed)
			s.row(codec.Node, n)
		}
	}
	for slot := range slotsOf(snap.jobs.byKey.All()) {
		s.job(snap, slot)
	}
	for e := range settled(snap.Evals(), func(e *berth.Eval) uint64 { return e.CreateIndex }, func(a, b *berth.Eval) int { return bytes.Compare(a.ID[:], b.ID[:]) }) {
		s.row(codec.Eval, e)
	}
	for a := range settled(snap.Allocs(), func(a *berth.Alloc) uint64 { return a.CreateIndex }, func(a, b *berth.Alloc) int { return cmp.Compare(a.Ordinal, b.Ordinal) }) {
		s.alloc(a)
	}
	for d := range rowsOf(&snap.deployments.rows, snap.deployments.byID.All()) {
		s.row(codec.Deployment, d)
	}
	for r := range rowsOf(&snap.reschedules.rows, snap.reschedules.byName.All()) {
		s.row(codec.Reschedules, r)
	}
	for x := range rowsOf(&snap.explanations.rows, snap.explanations.byEval.All()) {
		s.row(codec.Explanation, x)
	}
	for r := range snap.Services() {
		s.row(codec.Service, r)
	}
	// What is not set has no record.
	if snap.scheduler != nil {
		s.row(codec.Scheduler, snap.scheduler)
	}
	if snap.autopilot != nil {
		s.row(codec.Autopilot, snap.autopilot)
	}
	if snap.limit != nil {
		s.row(codec.TrackedVersions, snap.limit)
	}
	for d := range snap.Deletions() {
		s.row(codec.Deletion, d)
	}
	for r := range snap.StreamJobs() {
		s.row(codec.Stream, r)
	}
	for r := range snap.Resources() {
		s.row(codec.Resource, r)
	}
	for k := range snap.RootKeys() {
		s.row(codec.RootKey, k)
	}
	for v := range snap.Variables() {
		s.row(codec.Variable, v)
	}
	if snap.streamIDs > 0 {
		s.Uint(snap.streamIDs)
		s.Record(codec.StreamIDs)
	}
	for p := range snap.ACLPolicies() {
		s.row(codec.ACLPolicy, p)
	}
	for r := range snap.ACLRoles() {
		s.row(codec.ACLRole, r)
	}
	for t := range snap.ACLTokens() {
		s.row(codec.ACLToken, t)
	}
	for m := range snap.AuthMethods() {
		s.row(codec.ACLAuthMethod, m)
	}
	for r := range snap.BindingRules() {
		s.row(codec.ACLBindingRule, r)
	}
	for t := range snap.OneTimeTokens() {
		s.row(codec.ACLOneTimeToken, t)
	}
	for q := range snap.Quotas() {
		s.Uint(snap.QuotaUsage(q.Name).Index)
		s.row(codec.Quota, q)
	}
	for v := range snap.HostVolumes() {
		s.row(codec.HostVolume, v)
	}
	for c := range snap.HostVolumeClaims() {
		s.row(codec.HostVolumeClaim, c)
	}
	for v := range snap.CSIVolumes() {
		s.row(codec.CSIVolume, v)
	}
	for c := range snap.CSIClaims() {
		s.row(codec.CSIClaim, c)
	}
	for p := range snap.CSIPlugins() {
		s.row(codec.CSIPlugin, p)
	}
	if snap.acl.bootstrapped > 0 {
		s.Uint(snap.acl.bootstrapped)
		s.Record(codec.ACLBootstrap)
	}
	if snap.Restored > 0 {
		s.Uint(snap.Restored)
		s.Record(codec.Restored)
	}
	if !snap.Cluster.IsZero() {
		s.ID(snap.Cluster)
		s.Record(codec.Cluster)
	}
}

// row writes one row as a record: its canonical form if only a hash is taken,
// else msgpack.
func (s *saver) row(kind codec.Kind, v any) {
	if s.hash {
		s.Bytes(codec.Canonical(v))
	} else {
		s.Value(v)
	}
	s.Record(kind)
}

// head writes the indexes of the snapshot and of its tables, the first record.
func (s *saver) head(snap *Snapshot) {
	s.Uint(snap.Index)
	s.Uint(snap.Term)
	s.Uint(snap.TermIndex)
	for t := range Table(s.tables) {
		s.Uint(max(snap.LastChange(t), 1)) // 1 also stands for never
	}
	s.Record(codec.Head)
}

// version writes a job version if it has not been written, and returns its
// number.
func (s *saver) version(j *berth.Job) uint64 {
	n, ok := s.jobs[j]
	if !ok {
		n = uint64(len(s.jobs))
		s.jobs[j] = n
		s.Before(func() { s.row(codec.JobVersion, j) })
	}
	return n
}

// job writes a job with its summary and its stored versions.
func (s *saver) job(snap *Snapshot, slot uint32) {
	j := snap.jobs.vec.Get(slot)
	newest := s.version(j)
	s.Uint(newest)
	s.row(codec.Job, snap.jobs.summaries.Get(slot))
	if e := snap.jobs.scalings.Get(slot); e != nil {
		s.Uint(newest)
		s.row(codec.Scaling, e)
	}
	for v := range snap.JobVersions(j.Key()) {
		n := s.version(v)
		s.Uint(n)
		s.Record(codec.History)
		if sub := snap.Submission(j.Key(), v.Version); sub != nil {
			s.row(codec.Submission, sub)
		}
	}
}

// Flags of an allocation's record.
const (
	allocOrphaned = 1 << 0 // its job was deleted
	allocPorts    = 1 << 1 // has ports
	allocTasks    = 1 << 2 // has task states
	allocMore     = 1 << 3 // has rare fields
	allocSameEval = 1 << 4 // evaluation, job, group, and time and index of creation equal those of the allocation before
)

// alloc writes an allocation, without the fields that it shares with the
// previous one. Indexes and times are differences from its creation.
func (s *saver) alloc(a *berth.Alloc) {
	prev := s.prev
	s.prev = a
	same := prev != nil && prev.EvalID == a.EvalID && prev.Job == a.Job && prev.Group == a.Group &&
		prev.CreateIndex == a.CreateIndex && prev.CreateTime == a.CreateTime
	// The job version must be written before the record begins.
	job := s.version(a.Job)
	w := &s.Writer
	w.Byte(codec.Flag(allocOrphaned, a.Orphaned) | codec.Flag(allocPorts, len(a.Ports) > 0) | codec.Flag(allocTasks, a.Tasks != "") |
		codec.Flag(allocMore, a.More != nil) | codec.Flag(allocSameEval, same))
	w.Byte(byte(a.Desired)<<4 | byte(a.Client))
	w.ID(a.ID)
	w.ID(a.NodeID)
	if !same {
		w.ID(a.EvalID)
		w.Uint(job)
		w.Text(a.Group.Name)
		w.Uint(a.CreateIndex)
		w.Int(a.CreateTime)
	}
	w.Uint(uint64(a.Index))
	w.Uint(uint64(a.Ordinal))
	w.Score(a.Score)
	w.Int(int64(a.ModifyIndex - a.CreateIndex))
	w.Int(int64(a.AllocModifyIndex - a.CreateIndex))
	w.Int(a.ModifyTime - a.CreateTime)
	if len(a.Ports) > 0 {
		w.Ports(a.Ports)
	}
	if a.Tasks != "" {
		w.Text(string(a.Tasks))
	}
	if a.More != nil {
		s.row(codec.Alloc, a.More)
		return
	}
	s.Record(codec.Alloc)
}

// Dump writes every row as a line of text, for people who compare states.
func (s *Snapshot) Dump(to io.Writer) {
	line := func(kind string, v any) { fmt.Fprintf(to, "%s %+v\n", kind, v) }
	for p := range s.NodePools() {
		line("node pool", *p)
	}
	for n := range s.Nodes() {
		line("node", *n)
	}
	for j := range s.Jobs(berth.AllNamespaces, "") {
		line("job", *j)
		line("counts", *s.Summary(j.Key()))
		if d := s.Deletion(j.Key()); d != nil {
			line("  deletion", *d)
		}
	}
	for r := range s.StreamJobs() {
		line("stream", *r)
	}
	for r := range s.Resources() {
		line("resource", *r)
		if r.PE != nil {
			line("  pe", *r.PE)
		}
	}
	for e := range s.Evals() {
		line("eval", *e)
	}
	for a := range s.Allocs() {
		line("alloc", *a)
		if a.More != nil {
			line("  more", *a.More)
		}
	}
}

package state

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"slices"

	"berth"

	"github.com/klauspost/compress/zstd"
)

// A saved snapshot is a line that says what it is and its version, then one
// zstd stream of records: what kind, how long, the bytes. The last record
// holds the checksum of all before it. Records come in an order in which each
// refers only to those before, and rows of a table in an order that all
// servers agree on.

// SnapshotVersion is the newest version of saved snapshots that this build
// writes and reads. It reads older ones, and writes the oldest that can say what
// there is: see savedSince.
const SnapshotVersion = 4

// poolsSince is the version of saved snapshots since which they have node
// pools.
const poolsSince = 2

// servicesSince is the version of saved snapshots since which they have
// registrations of services.
const servicesSince = 3

// streamsSince is the version of saved snapshots since which they have stream
// jobs and what these own.
const streamsSince = 4

const snapshotMagic = "berth snapshot "

// tablesOf returns how many tables there are in saved snapshots of a version.
func tablesOf(version int) int {
	switch {
	case version < poolsSince:
		return int(NodePools)
	case version < servicesSince:
		return int(Services)
	case version < streamsSince:
		return int(Streams)
	}
	return int(tableCount)
}

// The kinds of record.
const (
	recHead = iota + 1
	recNamespace
	recNode
	recJobVersion // a version of a job, numbered by its place among these
	recJob        // a job that exists: its newest version and its counts
	recHistory    // a version that the history keeps
	recSubmission
	recEval
	recAlloc
	recDeployment
	recReschedules
	recExplanation
	recEnd
	recScheduler
	recNodePool
	recScaling // scaling events of the job before it
	recService
	recAutopilot
	recTrackedVersions
	recRestored
	recDeletion
	recStream
	recResource
	recStreamIDs
	recCluster
)

// saver writes records.
type saver struct {
	out  *bufio.Writer
	sum  uint32
	err  error
	w    writer // of the record in hand
	jobs map[*berth.Job]uint64
	prev *berth.Alloc
	// tables is how many of them the head tells of.
	tables int
	hash   bool // write what equal rows have equal, not what can be read back
	// kinds counts records, and bytes with their heads, if it is not nil.
	kinds map[byte]*Content
}

// SavedVersion is the version in which Save writes the snapshot.
func (s *Snapshot) SavedVersion() int { return savedSince[s.Dialect] }

// Save writes the snapshot.
func (s *Snapshot) Save(to io.Writer) error {
	version := s.SavedVersion()
	if _, err := fmt.Fprintf(to, "%s%d\n", snapshotMagic, version); err != nil {
		return err
	}
	z, err := zstd.NewWriter(to, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	sv := &saver{out: bufio.NewWriter(z), jobs: map[*berth.Job]uint64{}, tables: tablesOf(version)}
	sv.all(s)
	sum := sv.sum
	sv.w.uint(uint64(sum))
	sv.record(recEnd)
	if sv.err == nil {
		sv.err = sv.out.Flush()
	}
	if err := z.Close(); sv.err == nil {
		sv.err = err
	}
	return sv.err
}

// Hash returns a hash of the state, equal on all servers that applied the same
// commands.
func (s *Snapshot) Hash() uint64 {
	sv := &saver{out: bufio.NewWriter(io.Discard), jobs: map[*berth.Job]uint64{}, tables: int(tableCount), hash: true}
	sv.all(s)
	return uint64(sv.sum)<<32 | uint64(uint32(s.Index))
}

// record ends the record in hand.
func (s *saver) record(kind byte) {
	if s.err != nil {
		return
	}
	var head [1 + binary.MaxVarintLen64]byte
	head[0] = kind
	n := 1 + binary.PutUvarint(head[1:], uint64(len(s.w.buf)))
	for _, b := range [][]byte{head[:n], s.w.buf} {
		s.sum = crc32.Update(s.sum, castagnoli, b)
		if _, err := s.out.Write(b); err != nil {
			s.err = err
		}
	}
	if s.kinds != nil {
		c := s.kinds[kind]
		if c == nil {
			c = &Content{}
			s.kinds[kind] = c
		}
		c.Count++
		c.Bytes += int64(n + len(s.w.buf))
	}
	s.w.buf = s.w.buf[:0]
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (s *saver) all(snap *Snapshot) {
	s.head(snap)
	for n := range snap.Namespaces() {
		s.row(recNamespace, n)
	}
	for p := range snap.NodePools() {
		s.row(recNodePool, p)
	}
	for number := range snap.nodes.numbers {
		if n := snap.nodes.rows.Get(number); n != nil {
			s.w.uint(snap.Usage(number).Changed)
			s.row(recNode, n)
		}
	}
	for slot := range slotsOf(snap.jobs.byKey.All()) {
		s.job(snap, slot)
	}
	for e := range settled(snap.Evals(), func(e *berth.Eval) uint64 { return e.CreateIndex }, func(a, b *berth.Eval) int { return bytes.Compare(a.ID[:], b.ID[:]) }) {
		s.row(recEval, e)
	}
	for a := range settled(snap.Allocs(), func(a *berth.Alloc) uint64 { return a.CreateIndex }, func(a, b *berth.Alloc) int { return cmp.Compare(a.Ordinal, b.Ordinal) }) {
		s.alloc(a)
	}
	for d := range rowsOf(&snap.deployments.rows, snap.deployments.byID.All()) {
		s.row(recDeployment, d)
	}
	for r := range rowsOf(&snap.reschedules.rows, snap.reschedules.byName.All()) {
		s.row(recReschedules, r)
	}
	for x := range rowsOf(&snap.explanations.rows, snap.explanations.byEval.All()) {
		s.row(recExplanation, x)
	}
	for r := range snap.Services() {
		s.row(recService, r)
	}
	if snap.scheduler != nil {
		s.row(recScheduler, snap.scheduler)
	}
	if snap.autopilot != nil {
		s.row(recAutopilot, snap.autopilot)
	}
	if snap.limit != nil {
		s.row(recTrackedVersions, snap.limit)
	}
	for d := range snap.Deletions() {
		s.row(recDeletion, d)
	}
	for r := range snap.StreamJobs() {
		s.row(recStream, r)
	}
	for r := range snap.Resources() {
		s.row(recResource, r)
	}
	if snap.streamIDs > 0 {
		s.w.uint(snap.streamIDs)
		s.record(recStreamIDs)
	}
	if snap.Restored > 0 {
		s.w.uint(snap.Restored)
		s.record(recRestored)
	}
	if !snap.Cluster.IsZero() {
		s.w.buf = append(s.w.buf, snap.Cluster[:]...)
		s.record(recCluster)
	}
}

func (s *saver) row(kind byte, v any) {
	if s.hash {
		s.w.bytes(canonical(v))
	} else {
		s.w.value(v)
	}
	s.record(kind)
}

func (s *saver) head(snap *Snapshot) {
	s.w.uint(snap.Index)
	s.w.uint(snap.Term)
	s.w.uint(snap.TermIndex)
	for t := range Table(s.tables) {
		s.w.uint(snap.LastChange(t))
	}
	s.record(recHead)
}

// version writes a version of a job unless it was written, and returns its
// number.
func (s *saver) version(j *berth.Job) uint64 {
	n, ok := s.jobs[j]
	if !ok {
		n = uint64(len(s.jobs))
		s.jobs[j] = n
		keep := s.w.buf
		s.w.buf = nil
		s.row(recJobVersion, j)
		s.w.buf = keep
	}
	return n
}

func (s *saver) job(snap *Snapshot, slot uint32) {
	j := snap.jobs.vec.Get(slot)
	newest := s.version(j)
	s.w.uint(newest)
	s.row(recJob, snap.jobs.summaries.Get(slot))
	if e := snap.jobs.scalings.Get(slot); e != nil {
		s.w.uint(newest)
		s.row(recScaling, e)
	}
	for v := range snap.JobVersions(j.Key()) {
		n := s.version(v)
		s.w.uint(n)
		s.record(recHistory)
		if sub := snap.Submission(j.Key(), v.Version); sub != nil {
			s.row(recSubmission, sub)
		}
	}
}

// Flags of an allocation's record.
const (
	allocOrphaned = 1 << 0
	allocPorts    = 1 << 1
	allocTasks    = 1 << 2
	allocMore     = 1 << 3
	allocSameEval = 1 << 4 // evaluation, job, group, and time and index of creation are those of the one before
)

func (s *saver) alloc(a *berth.Alloc) {
	prev := s.prev
	s.prev = a
	same := prev != nil && prev.EvalID == a.EvalID && prev.Job == a.Job && prev.Group == a.Group &&
		prev.CreateIndex == a.CreateIndex && prev.CreateTime == a.CreateTime
	job := s.version(a.Job)
	w := &s.w
	w.byte(flag(allocOrphaned, a.Orphaned) | flag(allocPorts, len(a.Ports) > 0) | flag(allocTasks, a.Tasks != "") |
		flag(allocMore, a.More != nil) | flag(allocSameEval, same))
	w.byte(byte(a.Desired)<<4 | byte(a.Client))
	w.id(a.ID)
	w.id(a.NodeID)
	if !same {
		w.id(a.EvalID)
		w.uint(job)
		w.text(a.Group.Name)
		w.uint(a.CreateIndex)
		w.int(a.CreateTime)
	}
	w.uint(uint64(a.Index))
	w.uint(uint64(a.Ordinal))
	w.int(loggedScore(a.Score))
	w.int(int64(a.ModifyIndex - a.CreateIndex))
	w.int(int64(a.AllocModifyIndex - a.CreateIndex))
	w.int(a.ModifyTime - a.CreateTime)
	if len(a.Ports) > 0 {
		w.ports(a.Ports)
	}
	if a.Tasks != "" {
		w.text(string(a.Tasks))
	}
	if a.More != nil {
		s.row(recAlloc, a.More)
		return
	}
	s.record(recAlloc)
}

func flag(f byte, on bool) byte {
	if on {
		return f
	}
	return 0
}

func slotsOf[K any](pairs iter.Seq2[K, uint32]) iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for _, s := range pairs {
			if !yield(s) {
				return
			}
		}
	}
}

// settled returns rows that come in order of an index in an order that does
// not depend on slots: those of one index are sorted.
func settled[T any](in iter.Seq[*T], index func(*T) uint64, compare func(a, b *T) int) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		var group []*T
		flush := func() bool {
			slices.SortFunc(group, compare)
			for _, v := range group {
				if !yield(v) {
					return false
				}
			}
			group = group[:0]
			return true
		}
		for v := range in {
			if len(group) > 0 && index(group[0]) != index(v) && !flush() {
				return
			}
			group = append(group, v)
		}
		flush()
	}
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

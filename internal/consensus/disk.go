package consensus

import (
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"berth"
	"berth/internal/consensus/logstore"
	"berth/internal/failpoint"

	"github.com/hashicorp/raft"
)

// Limits of the disk guard.
const (
	reserveLeast = 64 << 20        // the default reserve is a hundredth of the disk, but at least this: a start on a full disk needs about 35 MiB
	reserveMost  = 256 << 20       // and at most this, or servers that share a large disk could not lead with gigabytes free
	floorMost    = 32 << 20        // nothing is written below half the reserve, or below this if that is less
	hangs        = 5 * time.Second // a write that takes longer counts as hung
	watchEvery   = time.Second / 4 // how often the guard checks the disk
	stillAfter   = time.Second     // if the guard wakes up that late, the process stood still
)

// diskSpace asks the operating system for the space that an unprivileged
// process may use.
func diskSpace(dir string) (free, size uint64, err error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, 0, err
	}
	return st.Bavail * uint64(st.Bsize), st.Blocks * uint64(st.Bsize), nil
}

// guard watches the disk; raft trusts it.
type guard struct {
	dir      string
	reserve  uint64 // 0: the default for the disk's size
	statDisk func(dir string) (free, size uint64, err error)

	// ran is how long the process has run. Time in which it stood still, as on a
	// laptop that is closed, says nothing about the disk.
	ran   atomic.Int64
	since atomic.Int64 // when the current write began, in time of ran; 0 if none exists
}

// look returns the free space, the reserve, and the floor below which nothing
// is written. If the disk cannot be asked it counts as free: writes will fail
// on their own.
func (g *guard) look() (free, reserve, floor uint64) {
	free, size, err := g.statDisk(g.dir)
	if err != nil {
		return ^uint64(0), 0, 0
	}
	reserve = g.reserve
	if reserve == 0 {
		reserve = min(max(reserveLeast, size/100), reserveMost)
	}
	return free, reserve, min(reserve/2, floorMost)
}

// admit refuses a write that would leave less space than the log's engine needs
// in the background.
func (g *guard) admit(bytes int64) error {
	free, _, floor := g.look()
	if free < floor+uint64(bytes) {
		return berth.Errorf(berth.Unavailable, "the disk is full: %s has %d MiB free, and the last %d MiB are reserved: %w",
			g.dir, free>>20, floor>>20, syscall.ENOSPC)
	}
	return nil
}

// begin marks the begin of a write. The function that it returns marks the end.
func (g *guard) begin() func() {
	g.since.Store(g.ran.Load() | 1)
	return func() { g.since.Store(0) }
}

// hung returns how long the current write has taken so far, 0 if none exists.
func (g *guard) hung() time.Duration {
	at := g.since.Load()
	if at == 0 {
		return 0
	}
	return time.Duration(g.ran.Load() - at)
}

// passed counts the time between two looks at the disk, and the time that the
// first of them took. Between two looks the process stood still for what is
// more than stillAfter.
func (g *guard) passed(looking, between time.Duration) {
	g.ran.Add(int64(looking + min(between, stillAfter)))
}

// disk is the log store that raft uses. Raft would panic when the store has
// failed, so its calls block until raft is shut down.
type disk struct {
	*logstore.Store
	guard    *guard
	id       string // of this server
	holds    *holds
	trailing uint64        // entries that raft keeps in any case
	closing  chan struct{} // closed once raft is shutting down and the link sends nothing any more
	once     sync.Once
}

var (
	_ raft.LogStore          = (*disk)(nil)
	_ raft.StableStore       = (*disk)(nil)
	_ raft.MonotonicLogStore = (*disk)(nil)
)

// release releases raft's blocked calls.
func (d *disk) release() { d.once.Do(func() { close(d.closing) }) }

// StoreLog implements raft.LogStore.
func (d *disk) StoreLog(l *raft.Log) error { return d.StoreLogs([]*raft.Log{l}) }

// StoreLogs implements raft.LogStore. On an error a leader steps down and a
// follower answers that it does not have the entries.
func (d *disk) StoreLogs(logs []*raft.Log) error {
	if err := d.guard.admit(0); err != nil {
		return err
	}
	defer d.guard.begin()()
	if failpoint.On() {
		if err := failpoint.Hit("consensus/append/" + d.id); err != nil {
			return err
		}
	}
	return d.Store.StoreLogs(logs)
}

// DeleteRange implements raft.LogStore. Of the log's begin it keeps what another
// server needs; raft deletes it the next time.
func (d *disk) DeleteRange(low, high uint64) error {
	if first, err := d.FirstIndex(); err == nil && low <= first {
		if high = d.keep(high); high < low {
			return nil
		}
	}
	defer d.guard.begin()()
	return d.Store.DeleteRange(low, high)
}

// GetLog implements raft.LogStore. From a failed store raft gets an entry
// without effect, once it is shutting down.
func (d *disk) GetLog(index uint64, l *raft.Log) error {
	err := d.Store.GetLog(index, l)
	if err != nil && d.Err() != nil {
		<-d.closing
		*l = raft.Log{Index: index, Type: raft.LogNoop}
		return nil
	}
	return err
}

// Set implements raft.StableStore. Raft does not vote if its vote is not on disk.
func (d *disk) Set(key, val []byte) error {
	defer d.guard.begin()()
	return d.Store.Set(key, val)
}

// SetUint64 implements raft.StableStore. Raft panics if a term is not stored,
// so the call blocks instead. When it is released the link sends nothing, and
// no vote is stored.
func (d *disk) SetUint64(key []byte, val uint64) error {
	err := func() error {
		defer d.guard.begin()()
		return d.Store.SetUint64(key, val)
	}()
	if err != nil && d.Err() != nil && string(key) == "CurrentTerm" {
		<-d.closing
		return nil
	}
	return err
}

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

// The disk guard's figures.
const (
	reserveLeast = 64 << 20        // of the default reserve, a hundredth of the disk; a start on a full disk needs some 35 MiB
	reserveMost  = 256 << 20       // or a large disk on which all servers lie would leave none to lead, with gigabytes free
	floorMost    = 32 << 20        // below half the reserve, at the most this, nothing is written any more
	hangs        = 5 * time.Second // a write that takes longer is taken for one that never ends
	watchEvery   = time.Second / 4 // how often the guard looks
)

// diskRoom asks the operating system what an unprivileged process may use.
func diskRoom(dir string) (free, size uint64, err error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, 0, err
	}
	return st.Bavail * uint64(st.Bsize), st.Blocks * uint64(st.Bsize), nil
}

// guard watches the disk, which the library trusts.
type guard struct {
	dir     string
	reserve uint64 // 0: the default for the disk's size
	ask     func(dir string) (free, size uint64, err error)

	since atomic.Int64 // when the write in hand began, by start; 0: there is none
	start time.Time
}

// look returns how much room there is, how much must stay, and below how much
// nothing is written. A disk that cannot be asked has room: writing will tell.
func (g *guard) look() (free, reserve, floor uint64) {
	free, size, err := g.ask(g.dir)
	if err != nil {
		return ^uint64(0), 0, 0
	}
	reserve = g.reserve
	if reserve == 0 {
		reserve = min(max(reserveLeast, size/100), reserveMost)
	}
	return free, reserve, min(reserve/2, floorMost)
}

// admit refuses a write of some bytes that would leave the disk without the
// room that the log's engine needs in the background.
func (g *guard) admit(bytes int64) error {
	free, _, floor := g.look()
	if free < floor+uint64(bytes) {
		return berth.Errorf(berth.Unavailable, "the disk is full: %s has %d MiB left, of which the last %d MiB are not written to: %w",
			g.dir, free>>20, floor>>20, syscall.ENOSPC)
	}
	return nil
}

// begin notes that a write begins; the function it returns, that it ended.
func (g *guard) begin() func() {
	g.since.Store(int64(time.Since(g.start)) | 1)
	return func() { g.since.Store(0) }
}

// hung says for how long the write in hand takes already.
func (g *guard) hung() time.Duration {
	at := g.since.Load()
	if at == 0 {
		return 0
	}
	return time.Since(g.start) - time.Duration(at)
}

// disk is the log as raft is given it. When the store has failed, raft, which
// would panic, is held up until it is shut down.
type disk struct {
	*logstore.Store
	guard   *guard
	id      string        // of this server
	closing chan struct{} // closed once raft was told to end, and the link says nothing any more
	once    sync.Once
}

var (
	_ raft.LogStore          = (*disk)(nil)
	_ raft.StableStore       = (*disk)(nil)
	_ raft.MonotonicLogStore = (*disk)(nil)
)

// let lets go of raft.
func (d *disk) let() { d.once.Do(func() { close(d.closing) }) }

// StoreLog implements raft.LogStore.
func (d *disk) StoreLog(l *raft.Log) error { return d.StoreLogs([]*raft.Log{l}) }

// StoreLogs implements raft.LogStore. An error makes a leader step down, and a
// follower say that it does not have the entries.
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

// DeleteRange implements raft.LogStore.
func (d *disk) DeleteRange(low, high uint64) error {
	defer d.guard.begin()()
	return d.Store.DeleteRange(low, high)
}

// GetLog implements raft.LogStore. The entry that raft gets from a failed
// store, once it was told to end, is one of no effect.
func (d *disk) GetLog(index uint64, l *raft.Log) error {
	err := d.Store.GetLog(index, l)
	if err != nil && d.Err() != nil {
		<-d.closing
		*l = raft.Log{Index: index, Type: raft.LogNoop}
		return nil
	}
	return err
}

// Set implements raft.StableStore. Without its vote on disk raft does not vote.
func (d *disk) Set(key, val []byte) error {
	defer d.guard.begin()()
	return d.Store.Set(key, val)
}

// SetUint64 implements raft.StableStore. Raft panics if a term is not stored,
// so it waits. When it is let go the link is mute, and no vote is stored.
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

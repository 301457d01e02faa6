package process

import (
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"berth"
	"berth/internal/saferoot"
)

// Numbers are the users that tasks without a user of their own run as: each task has
// a number of the range that no other directory of a task on the node belongs to. The
// owner of its directory is the record of it, so that it stays the same when the task
// or the agent is started again, and is not given away before the directory is gone.
type Numbers struct {
	Range

	mu sync.Mutex
}

// Of returns the number of a task of an allocation, whose directory root is. The
// first time it picks one, and gives the task's directory to it.
func (n *Numbers) Of(root *saferoot.Root, task string) (uint32, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	info, err := root.Lstat(task)
	if err != nil {
		return 0, err
	}
	if uid := owner(info); n.has(uid) {
		return uid, nil
	}
	taken, err := n.taken(filepath.Dir(root.Path()))
	if err != nil {
		return 0, err
	}
	for uid := n.Low; n.has(uid); uid++ {
		if taken[uid] {
			continue
		}
		if _, err := user.LookupId(strconv.FormatUint(uint64(uid), 10)); err == nil {
			continue // somebody else's
		}
		return uid, root.Chown(task, int(uid), int(uid))
	}
	return 0, berth.Errorf(berth.Unavailable, "user: all numbers from %d to %d of client.users are taken: make the range larger, or keep fewer directories (gc_max_allocs)", n.Low, n.High)
}

// has reports whether a number is in the range.
func (n *Numbers) has(uid uint32) bool { return n.Low <= uid && uid <= n.High }

// taken returns the numbers of the range that own directories of tasks, in the
// directory of all allocations.
func (n *Numbers) taken(allocs string) (map[uint32]bool, error) {
	out := map[uint32]bool{}
	dirs, err := os.ReadDir(allocs)
	if err != nil {
		return nil, err
	}
	for _, d := range dirs {
		tasks, err := os.ReadDir(filepath.Join(allocs, d.Name()))
		if err != nil {
			continue // it is being removed
		}
		for _, t := range tasks {
			if info, err := t.Info(); err == nil && n.has(owner(info)) {
				out[owner(info)] = true
			}
		}
	}
	return out, nil
}

// owner returns the number of the user that a file belongs to.
func owner(info fs.FileInfo) uint32 {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0
	}
	return st.Uid
}

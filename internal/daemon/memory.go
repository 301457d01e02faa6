package daemon

import (
	"bufio"
	"bytes"
	"context"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"berth/internal/rest"
)

// limitMemory has the runtime collect garbage more often when the process
// approaches the memory limit of its cgroup, instead of being killed there. It
// leaves a tenth for what the runtime does not count. A GOMEMLIMIT of the
// operator takes precedence.
func limitMemory(log *slog.Logger) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	if most := cgroupMemory(os.DirFS("/")); most > 0 {
		most -= most / 10
		debug.SetMemoryLimit(most)
		log.Info("the cgroup limits memory; garbage is collected more often near the limit", "bytes", most)
	}
}

// giveBackEvery is how often giveBack looks.
const giveBackEvery = 20 * time.Second

// giveBack returns memory to the system after a burst, until ctx ends. The runtime
// does so as it collects garbage, but a process that has become quiet collects
// only every two minutes, and gives back only what that second collection frees.
func giveBack(ctx context.Context) {
	var m runtime.MemStats
	least := uint64(math.MaxUint64) // what stays resident, as far as that is known
	for rest.For(ctx, giveBackEvery) == nil {
		runtime.ReadMemStats(&m)
		least = min(least, resident(&m))
		quiet := time.Since(time.Unix(0, int64(m.LastGC))) >= giveBackEvery
		if quiet && worthGivingBack(resident(&m), least) {
			debug.FreeOSMemory()
			runtime.ReadMemStats(&m)
			least = resident(&m)
		}
	}
}

// resident returns how much memory the heap takes from the system, in bytes.
func resident(m *runtime.MemStats) uint64 { return m.HeapSys - m.HeapReleased }

// worthGivingBack reports whether a heap has grown so much since it was smallest
// that a collection is worth its time. A heap that has grown for good is
// collected once.
func worthGivingBack(now, least uint64) bool { return now > least+least/10+4<<20 }

// limitMemoryOnce is limitMemory for the whole process.
var limitMemoryOnce = func() func(*slog.Logger) {
	var once sync.Once
	return func(log *slog.Logger) { once.Do(func() { limitMemory(log) }) }
}()

// cgroupMemory returns the lowest memory limit of this process's cgroup and those
// above it, in bytes, or 0 if there is no limit. root is the root of the file system.
// It knows versions 1 and 2 of cgroups.
func cgroupMemory(root fs.FS) int64 {
	text, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return 0
	}
	least := int64(math.MaxInt64)
	for s := bufio.NewScanner(bytes.NewReader(text)); s.Scan(); {
		// Number, controllers, and the path in their hierarchy.
		parts := strings.SplitN(s.Text(), ":", 3)
		if len(parts) != 3 {
			continue
		}
		mount, file := "sys/fs/cgroup", "memory.max"
		switch {
		case parts[1] == "":
		case hasController(parts[1], "memory"):
			mount, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		default:
			continue
		}
		// In a container the mount shows only what is below its own cgroup, so
		// the path need not exist there; its root does.
		for dir := path.Clean("/" + parts[2]); ; dir = path.Dir(dir) {
			if n := readBytes(root, path.Join(mount, dir, file)); n > 0 {
				least = min(least, n)
			}
			if dir == "/" {
				break
			}
		}
	}
	// Version 1 says "no limit" with a number near the largest.
	if least >= 1<<60 {
		return 0
	}
	return least
}

// hasController reports whether a list such as "cpu,memory" has a controller.
func hasController(list, name string) bool {
	for c := range strings.SplitSeq(list, ",") {
		if c == name {
			return true
		}
	}
	return false
}

// readBytes returns the number in a file. It returns 0 for a file without a number,
// such as "max", and for a missing file.
func readBytes(root fs.FS, name string) int64 {
	b, err := fs.ReadFile(root, name)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

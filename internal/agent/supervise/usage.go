package supervise

import (
	"os"
	"time"
)

// Usage is what a launch uses of the machine.
type Usage struct {
	Processes int
	Memory    int64         // bytes resident
	CPU       time.Duration // processor time since each of its processes began
	System    time.Duration // that part of CPU which was spent in the kernel

	// Each is the use of each process, by number; nil if that is not known.
	Each map[int]Usage

	// Engine reports whether what follows is known: an engine that keeps
	// containers tells it.
	Engine           bool
	Cache            int64 // bytes of files in memory
	Swap             int64 // bytes
	MaxMemory        int64 // bytes: the most that it used
	ThrottledPeriods uint64
	ThrottledTime    time.Duration
}

// Usage measures a launch that [Dir.Start] or [Dir.Find] returned.
func (d *Dir) Usage(l *Launch) (u Usage) {
	const tick = 10 * time.Millisecond // USER_HZ is 100 on every Linux that Go runs on
	u.Each = map[int]Usage{}
	for _, p := range d.orphans(*l)() {
		one := Usage{Processes: 1, Memory: p.rss * int64(os.Getpagesize()), CPU: time.Duration(p.ticks) * tick, System: time.Duration(p.system) * tick}
		u.Processes++
		u.Memory += one.Memory
		u.CPU += one.CPU
		u.System += one.System
		u.Each[p.pid] = one
	}
	return u
}

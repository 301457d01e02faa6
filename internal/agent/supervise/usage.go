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
}

// Usage measures a launch that [Dir.Start] or [Dir.Find] returned.
func (d *Dir) Usage(l *Launch) (u Usage) {
	const tick = 10 * time.Millisecond // USER_HZ is 100 on every Linux that Go runs on
	for _, p := range d.orphans(*l)() {
		u.Processes++
		u.Memory += p.rss * int64(os.Getpagesize())
		u.CPU += time.Duration(p.ticks) * tick
	}
	return u
}

// Package cputime measures what a function costs in CPU time. Tests bound that
// instead of the time on the clock, which also counts what else the machine
// does.
package cputime

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Of calls f and returns the CPU time that f used on its own goroutine. What
// other goroutines do for f is not counted.
func Of(f func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := thread()
	f()
	return thread() - before
}

// thread returns the CPU time of the calling thread.
func thread() time.Duration {
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &used); err != nil {
		panic(err) // only bad arguments fail
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

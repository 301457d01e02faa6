// Package onethread keeps a test binary that is built with the race detector
// on one processor. Tests that use testing/synctest import it for that effect.
//
// The timers of a bubble share one context of the race detector, and two
// threads that run timers of one bubble at once use it at once: the detector
// then ends the process with a SIGSEGV or a failed CHECK of its own, once in
// some runs of a bubble with hundreds of goroutines (golang/go#78156, seen with
// Go 1.26.8). On one processor they cannot. What the detector finds does not
// depend on that: it judges by what happened before what, not by what ran at
// the same time. Without the detector the package does nothing.
package onethread

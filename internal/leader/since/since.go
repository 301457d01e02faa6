// Package since tells how long ago something happened, on a clock that can be put
// back.
package since

import "time"

// Memory remembers what lies ahead of the clock, because the clock was put back or
// is behind that of another server. Its size grows only then, by one for each key.
// The zero Memory is empty and ready to use.
type Memory[K comparable] struct{ ahead map[K]moment }

// moment is a stored time that was ahead of the clock, and when it was first seen.
type moment struct{ stored, seen time.Time }

// Of returns the time from which a wait counts that began at the stored time: that
// time or, if it lies ahead of the clock, the time at which it was first seen there.
// So no wait is longer than it was meant to be from then on.
func (m *Memory[K]) Of(key K, stored, now time.Time) time.Time {
	if was, ok := m.ahead[key]; ok && was.stored.Equal(stored) && !was.seen.After(now) {
		return was.seen
	}
	if !stored.After(now) {
		return stored
	}
	if m.ahead == nil {
		m.ahead = map[K]moment{}
	}
	m.ahead[key] = moment{stored, now}
	return now
}

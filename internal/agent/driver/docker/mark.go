package docker

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/rest"
)

// mark is how far a stream was copied.
type mark struct {
	point
	Peaks []point   `json:",omitempty"` // see point; the latest time first
	Boot  time.Time // what booted returned when the last message was stamped, or later
	Index int       // of the newest file
	Size  int64     // its length
}

// point is a place in a stream: behind the messages of one time. Of podman,
// messages of one second have the same time.
//
// The times of a stream only grow, until the clock is put back. The last message
// before that is a peak. It is kept until the clock has reached it again: only
// then does a time name one place of the stream.
type point struct {
	At   time.Time // of the last message; zero before the first
	Seen int       // messages of that time since the peak before
}

// maxPeaks bounds the peaks of a stream.
const maxPeaks = 16

// latest returns the latest time of a message that was taken.
func (m *mark) latest() time.Time {
	if len(m.Peaks) > 0 {
		return m.Peaks[0].At
	}
	return m.At
}

// advance moves the mark behind the next message of the stream.
func (m *mark) advance(at time.Time) {
	if at.Equal(m.At) {
		m.Seen++
		return
	}
	if at.Before(m.At) && len(m.Peaks) < maxPeaks {
		m.Peaks = append(m.Peaks, m.point)
	}
	m.point = point{at, 1}
	for n := len(m.Peaks); n > 0 && !m.Peaks[n-1].At.After(at); n-- {
		if m.Peaks[n-1].At.Equal(at) {
			m.Seen += m.Peaks[n-1].Seen
		}
		m.Peaks = m.Peaks[:n-1]
	}
}

// readAgain says that the engine's log is read from an earlier message on.
func (s *stream) readAgain() {
	s.again = nil
	if !s.At.IsZero() {
		s.again = append(slices.Clone(s.Peaks), s.point)
	}
}

// old reports whether the next message of the log was taken before. Messages are
// old up to the mark: the peaks and the last message are passed in their order. A
// message that is later than all of them is new in any case: the engine does not
// have the last one any more.
func (s *stream) old(at time.Time) bool {
	switch {
	case len(s.again) == 0:
		return false
	case at.After(s.latest()):
		s.again = nil
		return false
	case at.Equal(s.again[0].At):
		if s.again[0].Seen--; s.again[0].Seen == 0 {
			s.again = s.again[1:]
		}
	}
	return true
}

// take takes a message of a stream. It reports whether the clock was put back
// before that message.
func (f *follower) take(i int, at time.Time) (back bool) {
	s := f.out[i]
	if back = at.Before(s.At); back {
		s.Boot = s.Boot.Add(at.Sub(s.At))
		f.noteClock(f.booted())
	}
	s.advance(at)
	f.last = i
	return back
}

// outOfStep is how far the streams may be out of step: each message is stamped
// before it is put in line.
const outOfStep = 10 * time.Second

// since returns the time from which the log is to be read, zero for all of it. An
// engine leaves out all messages with an earlier time, also those that follow
// later ones. boot is what booted returns now.
func (f *follower) since(boot time.Time) time.Time {
	last := f.out[f.last]
	if last.At.IsZero() {
		return time.Time{}
	}
	// What follows the last message can be earlier by as much as the clock was put
	// back since.
	at := last.At.Add(boot.Sub(last.Boot) - outOfStep)
	for _, s := range f.out {
		// An engine that sends a peak must send all that follows it.
		if len(s.Peaks) > 0 && !s.latest().Before(at) && s.At.Before(at) {
			at = s.At.Add(-outOfStep)
		}
	}
	return at
}

// booted returns when the machine was started, by its clock. That time gets
// earlier by as much as the clock is put back.
func booted() time.Time {
	var up unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &up) // which every Linux has
	wall := time.Now().Round(0)                     // without the reading of a clock that cannot be set
	return wall.Add(-time.Duration(up.Nano()))
}

// noteClock keeps what booted returned, if the clock was put forward.
func (f *follower) noteClock(boot time.Time) {
	for _, s := range f.out {
		if boot.After(s.Boot) {
			s.Boot = boot
		}
	}
}

// lookAtClock is how often a follower looks at the clock.
const lookAtClock = 5 * time.Second

// whenClockIsSet calls do when booted returns something else than boot. It returns
// then, or when ctx ends.
func (f *follower) whenClockIsSet(ctx context.Context, boot time.Time, do func()) {
	for rest.For(ctx, lookAtClock) == nil {
		if d := f.booted().Sub(boot); d < -time.Second || d > time.Second {
			do()
			return
		}
	}
}

package supervise

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"berth"
)

// How a supervisor stops tasks that may run without servers for a limited time
// only. The agent extends the lease whenever it has reached servers. If it does
// not, because it reaches none, is frozen or dead, the supervisor stops all
// tasks when the lease ends. The lease is a time of the kernel's boot clock:
// agent and supervisor see the same clock, nobody can set it, and it goes on
// while the machine sleeps.

// lease is until when the tasks may run.
type lease struct {
	until int64    // of the boot clock; 0 is without limit
	timer *os.File // a timerfd; nil as long as there was no lease
	fd    int      // of timer
}

// bootClock returns the time of the boot clock, in nanoseconds.
func bootClock() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(err) // Linux has had it since 2.6.39
	}
	return ts.Nano()
}

// BootTime converts a time to the boot clock, in nanoseconds, for [Start.Until].
// The zero time is 0.
func BootTime(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	left, now := time.Until(t), bootClock()
	if int64(left) > math.MaxInt64-now {
		return math.MaxInt64
	}
	return max(1, now+int64(left))
}

// extend sets until when the tasks may run; 0 is without limit. The caller holds
// mu.
func (s *server) extend(until int64) error {
	if until == s.lease.until {
		return nil
	}
	if s.lease.timer == nil && until != 0 {
		if err := s.openLeaseTimer(); err != nil {
			return err
		}
	}
	s.lease.until = until
	if s.lease.timer == nil {
		return nil
	}
	// A zero value disarms the timer; a time in the past fires it at once.
	spec := &unix.ItimerSpec{Value: unix.NsecToTimespec(until)}
	return os.NewSyscallError("timerfd_settime", unix.TimerfdSettime(s.lease.fd, unix.TFD_TIMER_ABSTIME, spec, nil))
}

// openLeaseTimer makes the timer, and a goroutine that stops the tasks when it
// fires. It ends with the process. The caller holds mu.
func (s *server) openLeaseTimer() error {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("timerfd_create", err)
	}
	s.lease.fd, s.lease.timer = fd, os.NewFile(uintptr(fd), "lease")
	timer := s.lease.timer
	go func() {
		var fired [8]byte
		for {
			if _, err := timer.Read(fired[:]); errors.Is(err, fs.ErrClosed) {
				return
			}
			s.mu.Lock()
			s.stopIfLeaseOver()
			s.mu.Unlock()
		}
	}()
	return nil
}

// leaseOver reports whether tasks may not run any more. The caller holds mu.
func (s *server) leaseOver() bool { return s.lease.until != 0 && bootClock() >= s.lease.until }

// stopIfLeaseOver stops all tasks if they may not run any more. The caller holds
// mu.
func (s *server) stopIfLeaseOver() {
	if !s.leaseOver() {
		return
	}
	for _, p := range s.live {
		if p.reaped {
			continue
		}
		// One that was told to stop before ends for that reason.
		if p.kill == nil {
			p.cutOff = true
			s.log.Info("a task is stopped: its agent has not reached servers for too long", "task", p.launch.Task)
		}
		p.stop(p.killSignal, p.killTimeout)
	}
}

// keepStopping remembers how to end a task when the lease is over.
func (p *proc) keepStopping(st *Start) {
	p.killSignal, p.killTimeout = syscall.Signal(st.KillSignal), st.KillTimeout
	if p.killSignal == 0 {
		p.killSignal = syscall.SIGTERM
	}
}

// errLeaseOver is why nothing is started when the lease is over.
func errLeaseOver(task string) error {
	return berth.Errorf(berth.Conflict, "task %q may not run: its agent has not reached servers for too long", task)
}

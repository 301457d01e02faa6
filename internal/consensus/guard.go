package consensus

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"berth"
	"berth/internal/state"
)

// The disk guard. Raft trusts its disk. A leader whose disk is full or hangs
// goes on sending heartbeats, so nobody replaces it, and one that stepped down
// because of it is elected again. Therefore the guard
//
//   - hands leadership over when disk space runs low, and keeps this server from
//     campaigning and from becoming leader until there is space again;
//   - silences a leader whose disk hangs, so that the others elect one of them;
//     raft itself is blocked then and could not be asked;
//   - stops writing while there is still space for the background work of the
//     log's engine; and if the log had to stop all the same, opens it again when
//     there is space.
//
// A server that is its own majority cannot hand over, and nobody waits for its
// place. While its disk hangs it goes on leading: reads are answered, and
// writes are refused in the meantime. It leads until nothing can be written,
// and again as soon as something can; in between its state can be read.

// watchDisk guards the disk until ctx ends.
func (s *Server) watchDisk(ctx context.Context) {
	t := time.NewTicker(watchEvery)
	defer t.Stop()
	var w watch
	for {
		begin := time.Now()
		s.lookAtDisk(ctx, &w)
		end := time.Now()
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
		s.guard.passed(end.Sub(begin), time.Since(end))
	}
}

// watch is the state that the guard saw last.
type watch struct {
	low, hung, waiting bool
	tried              time.Time // the last attempt to hand over leadership
}

// lookAtDisk checks the free space and the writes in progress once, and logs
// what changed since the last check, which w holds. While the disk is low this
// server hands leadership over; while it hangs, it sends nothing.
func (s *Server) lookAtDisk(ctx context.Context, w *watch) {
	log := s.config.Logger
	free, reserve, floor := s.guard.look()
	if w.low {
		reserve += reserve / 8 // hysteresis
	}
	if short := free < reserve; short != w.low {
		w.low = short
		if short {
			log.Error("disk space is low: this server hands leadership over and does not campaign", "dir", s.config.Dir, "free_mib", free>>20, "reserve_mib", reserve>>20)
		} else {
			log.Info("the disk has space again", "dir", s.config.Dir, "free_mib", free>>20)
		}
	}
	if hung := s.guard.hung() > hangs; hung != w.hung {
		w.hung = hung
		if hung {
			log.Error("the disk hangs: a write does not return", "dir", s.config.Dir, "for", s.guard.hung())
		} else {
			log.Info("the disk works again after hanging", "dir", s.config.Dir)
		}
	}
	// A server without others keeps its leadership: nobody else could take it.
	alone := s.alone()
	if !alone && s.leads.Load() == nil { // another server may answer
		s.complete.Store(false)
	}
	s.noteDisk(w.hung, free < floor || w.waiting && free < reserve, free, reserve)
	s.endRefill()
	s.link.noCampaign.Store(w.low && !alone || s.refillUntil.Load() != 0)
	s.link.muted.Store(w.hung && !alone)
	// A leader whose disk hangs would otherwise go on sending heartbeats, and
	// nobody would replace it.
	if w.hung {
		if end := s.end.Load(); end != nil && !alone {
			(*end)(errHung)
		}
		return
	}
	// A transfer can fail, so it is tried again, but not more often than an
	// election takes.
	if alone {
		s.waitForSpace(w, free < floor || w.waiting && free < reserve)
	} else if w.low && s.Leader() && time.Since(w.tried) > 2*s.config.Timing.Election {
		w.tried = time.Now()
		s.handOver(ctx)
	}
}

// diskTrouble is what is wrong with the disk. It counts as state.ErrLost, since
// without the disk this server cannot lead, but says what is the matter.
type diskTrouble struct{ text string }

// Error implements error.
func (d *diskTrouble) Error() string { return d.text }

// Is makes it a state.ErrLost.
func (d *diskTrouble) Is(target error) bool { return target == state.ErrLost }

// DiskError returns why nothing can be written to this server's disk now, nil if
// something can. The error has the kind berth.Unavailable and a code, and wraps
// state.ErrLost.
func (s *Server) DiskError() error {
	if err := s.diskErr.Load(); err != nil {
		return err
	}
	// A full disk ends the term before the guard looks again.
	if s.leads.Load() == nil {
		if free, reserve, floor := s.guard.look(); free < floor {
			return s.diskFull(free, reserve)
		}
	}
	return nil
}

// diskFull returns the error for a disk without enough free space.
func (s *Server) diskFull(free, reserve uint64) *berth.Error {
	return &berth.Error{Kind: berth.Unavailable, Code: berth.CodeDiskFull, Err: &diskTrouble{fmt.Sprintf(
		"the disk of this server is full: %s has %d MiB free, and needs %d; nothing is written until it has", s.config.Dir, free>>20, reserve>>20)}}
}

// noteDisk keeps what DiskError returns.
func (s *Server) noteDisk(slow, full bool, free, reserve uint64) {
	var err *berth.Error
	switch {
	case full:
		err = s.diskFull(free, reserve)
	case slow:
		err = &berth.Error{Kind: berth.Unavailable, Code: berth.CodeDiskSlow, Err: &diskTrouble{fmt.Sprintf(
			"the disk of this server hangs: a write in %s has taken longer than %s; nothing more is written until it is done", s.config.Dir, hangs)}}
	}
	s.diskErr.Store(err)
}

// handOver ends this server's leadership: it hands it to a server that can
// lead, or sends nothing until it has lost contact with the majority.
func (s *Server) handOver(ctx context.Context) {
	limit, cancel := context.WithTimeout(ctx, 3*s.config.Timing.Election)
	defer cancel()
	err := s.Transfer(limit, "")
	if err == nil || !s.Leader() {
		return
	}
	s.config.Logger.Warn("cannot hand leadership over; giving it up", "error", err)
	s.link.muted.Store(true)
	defer s.link.muted.Store(false)
	for s.Leader() && limit.Err() == nil {
		select {
		case <-limit.Done():
		case <-time.After(s.config.Timing.Lease / 10):
		}
	}
}

// waitForSpace keeps a server that is its own majority from campaigning while
// nothing can be written. No other server needs its vote meanwhile.
func (s *Server) waitForSpace(w *watch, waits bool) {
	if waits == w.waiting {
		return
	}
	w.waiting = waits
	r := s.raft()
	c := r.ReloadableConfig()
	c.HeartbeatTimeout, c.ElectionTimeout = s.config.Timing.Heartbeat, s.config.Timing.Election
	if waits {
		c.HeartbeatTimeout, c.ElectionTimeout = 24*time.Hour, 24*time.Hour
	}
	if err := r.ReloadConfig(c); err != nil {
		s.config.Logger.Warn("cannot change raft's timeouts", "error", err)
	}
	if !waits {
		s.electAlone()
	}
}

// full reports whether an error is about a full disk.
func full(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// reopen shuts down a node whose log stopped on a full disk, and opens it again
// when there is space. The state stays in memory meanwhile.
func (s *Server) reopen(ctx context.Context, n *node) error {
	s.config.Logger.Error("the disk is full: this server takes no part until there is space", "dir", s.config.Dir, "error", n.log.Err())
	s.shut(n)
	for {
		select {
		case <-time.After(watchEvery):
		case <-ctx.Done():
			return ctx.Err()
		}
		if free, reserve, _ := s.guard.look(); free < reserve {
			continue
		}
		err := s.open()
		if err == nil {
			break
		}
		if !full(err) {
			return fmt.Errorf("after the disk was full: %w", err)
		}
	}
	s.config.Logger.Info("the disk has space again; this server takes part", "dir", s.config.Dir)
	s.electAlone()
	return nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"berth/internal/consensus/logstore"
	"berth/internal/rest"
)

// Faults of disks: full, slow, or not as they were left.

// full is the name of the file that takes up the free space.
const full = "full"

var fullDisk = &Fault{
	ID: "F-13", Kind: "disk", Name: "the disk of the leader, of a follower, or of all is full, and has room again later",
	Says:   "a healthy server leads within 6 s; none leads below its reserve while another can; nothing crashes, and all is well 30 s after there is room",
	Setup:  Setup{DiskMiB: 300},
	Hold:   8 * time.Second,
	Limits: []Limit{{firstWrite, 0, 6}, {"settled", 0, 30}},
	Start: func(ctx context.Context, r *round) error {
		m, err := r.wait(ctx)
		if err != nil {
			return err
		}
		switch r.number % 3 {
		case 1:
			r.filled = []*machine{m}
		case 2:
			r.filled = r.others(m)[:1]
		default:
			r.filled = r.servers
		}
		r.from = r.history.now()
		for _, m := range r.filled {
			r.history.note("the disk of %s is full", m.name)
			if err := fill(m.dir); err != nil {
				return err
			}
		}
		if r.filled[0] == m && len(r.filled) == 1 {
			r.gone(m)
		}
		return nil
	},
	Stop: func(_ context.Context, r *round) error {
		var errs []error
		for _, m := range r.filled {
			errs = append(errs, os.Remove(filepath.Join(m.dir, full)))
		}
		r.history.note("there is room again")
		return errors.Join(errs...)
	},
	After: func(_ context.Context, r *round) error {
		if len(r.filled) > 1 {
			return nil
		}
		for _, l := range r.looks {
			if l.at < r.from+6*time.Second || l.at > r.from+r.fault.Hold {
				continue
			}
			if at := r.filled[0].addr + ":4647"; l.leader[r.filled[0].name] == at {
				return fmt.Errorf("%s leads at %v, though its disk is full since %v", r.filled[0].name, l.at, r.from)
			}
		}
		return nil
	},
}

// fill leaves one MiB free on a disk.
func fill(dir string) error {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(dir, full))
	if err != nil {
		return err
	}
	return errors.Join(syscall.Fallocate(int(f.Fd()), 0, 0, max(1, int64(st.Bavail)*st.Bsize-1<<20)), f.Close())
}

var slowDisk = &Fault{
	ID: "F-14", Kind: "disk", Name: "writes of the log hang, or take a second or 100 ms each, at the leader or at a follower",
	Says:   "a leader that hangs is followed by another within 12 s; a follower that hung is caught up without being started again",
	Hold:   12 * time.Second,
	Limits: []Limit{{firstWrite, 0, 12}},
	Start: func(ctx context.Context, r *round) error {
		m, err := r.wait(ctx)
		if err != nil {
			return err
		}
		what := []string{"hang*", "hang*", "delay(1s)*", "delay(1s)*", "delay(100ms)*", "delay(100ms)*"}[(r.number-1)%6]
		hangs := r.number%2 == 1 && what == "hang*"
		if r.number%2 == 0 {
			m = r.others(m)[0]
		}
		r.victim = m
		r.history.note("writes of %s: %s", m.name, what)
		if err := errors.Join(m.set("consensus/log-append-before="+what), rest.For(ctx, 100*time.Millisecond)); err != nil {
			return err
		}
		if hangs {
			r.gone(m)
		}
		return nil
	},
	Stop: func(_ context.Context, r *round) error {
		if r.victim == nil {
			return nil
		}
		return r.victim.set("")
	},
}

var harmedLog = &Fault{
	ID: "F-16", Kind: "disk", Name: "a server is killed, and its log is cut short, zeroed or flipped before it is started again",
	Says: "it starts and is filled from the leader, or refuses with a clear reason and is filled once its data is removed; nothing wrong is accepted",
	Hold: time.Second,
	Start: func(_ context.Context, r *round) error {
		m := r.servers[r.rng.IntN(len(r.servers))]
		m.kill()
		r.victim = m
		what, err := r.harm(filepath.Join(m.dir, "server", "log", "db"))
		r.history.note("%s is killed, and %s", m.name, what)
		return err
	},
	Stop: func(ctx context.Context, r *round) error {
		m := r.victim
		from := m.size()
		if err := m.start(); err != nil {
			return err
		}
		// Whatever it makes of it, it does so at once.
		_ = until(ctx, 5*time.Second, "it has started or ended", func() string {
			if m.running() && !strings.Contains(m.said(from), "agent started!") {
				return "neither"
			}
			return ""
		})
		if m.running() {
			r.figures["taken (count)"] = 1
			return nil
		}
		if said := m.said(from); !strings.Contains(said, "damaged") {
			return fmt.Errorf("%s ended, and it does not say that its log is damaged:\n%s", m.name, said)
		}
		r.figures["refused (count)"] = 1
		r.history.note("%s refused, and its data is removed", m.name)
		return errors.Join(os.RemoveAll(filepath.Join(m.dir, "server")), m.start())
	},
}

// harm damages the newest file of a log and returns what it did.
func (r *round) harm(db string) (string, error) {
	files, err := filepath.Glob(filepath.Join(db, "*.log"))
	if err != nil || len(files) == 0 {
		return "", fmt.Errorf("no log file in %s: %w", db, err)
	}
	slices.Sort(files)
	path := files[len(files)-1]
	b, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	// After the last record there is only preallocated space.
	size := len(strings.TrimRight(string(b), "\x00"))
	name := filepath.Base(path)
	// The damage is near the end, where an append may just have been in
	// progress, or anywhere.
	switch r.number % 4 {
	case 1:
		at := max(0, size-r.rng.IntN(4<<10)-1)
		return fmt.Sprintf("%s is cut to %d of %d bytes", name, at, size), os.Truncate(path, int64(at))
	case 2:
		at := max(0, size/512-r.rng.IntN(128)-1) * 512
		return fmt.Sprintf("%s is cut to %d of %d bytes", name, at, size), os.Truncate(path, int64(at))
	case 3:
		at := r.rng.IntN(max(1, size/4096)) * 4096
		clear(b[at:min(at+4096, len(b))])
		return fmt.Sprintf("the page at %d of %s, of %d bytes, is zeroed", at, name, size), os.WriteFile(path, b, 0o600)
	}
	at := r.rng.IntN(max(1, size))
	b[at] ^= 1 << r.rng.IntN(8)
	return fmt.Sprintf("a bit of byte %d of %s, of %d bytes, is flipped", at, name, size), os.WriteFile(path, b, 0o600)
}

var lostData = &Fault{
	ID: "F-17", Kind: "disk", Name: "a server is killed, loses its data, and is started under its name",
	Says: "it is a new member, which has no vote to remember, and is one of three within a minute",
	Hold: time.Second,
	Start: func(ctx context.Context, r *round) error {
		m := r.servers[r.rng.IntN(len(r.servers))]
		if l := r.leader(ctx, r.servers); l == m {
			r.gone(m)
		}
		m.kill()
		r.victim = m
		r.history.note("%s is killed and loses its data", m.name)
		return os.RemoveAll(filepath.Join(m.dir, "server"))
	},
	Stop: func(_ context.Context, r *round) error { return r.startAll() },
}

var installSnapshot = &Fault{
	ID: "F-19", Kind: "disk", Name: "a follower that lags gets a snapshot under load, and it or the leader is killed in the middle",
	Says:  "its state is that of the others within a minute, and it never serves half of one",
	Setup: Setup{Snapshots: true},
	Hold:  time.Second,
	Start: func(ctx context.Context, r *round) error {
		l, err := r.wait(ctx)
		if err != nil {
			return err
		}
		m := r.others(l)[r.rng.IntN(2)]
		r.victim = m
		m.kill()
		r.history.note("%s is killed", m.name)
		r.work.pause.Store(int64(writePause / 3))
		defer r.work.pause.Store(int64(writePause))
		if err := rest.For(ctx, 7*time.Second); err != nil { // the others save their state and drop old entries
			return err
		}
		if err := r.lags(ctx, m, l); err != nil {
			return err
		}
		if err := errors.Join(m.set("consensus/snapshot-middle=delay(700ms)*"), m.start()); err != nil {
			return err
		}
		if err := rest.For(ctx, 500*time.Millisecond+time.Duration(r.rng.IntN(1500))*time.Millisecond); err != nil {
			return err
		}
		switch r.number % 3 {
		case 1:
			r.history.note("%s is killed while it is filled", m.name)
			m.kill()
		case 2:
			if l = r.leader(ctx, r.others(m)); l != nil {
				r.history.note("%s is killed while it fills %s", l.name, m.name)
				r.down(l)
			}
		}
		return nil
	},
	Stop: func(_ context.Context, r *round) error {
		if r.victim != nil {
			if err := r.victim.set(""); err != nil {
				return err
			}
		}
		return errors.Join(r.up(), r.startAll())
	},
}

// lags returns nil if a stopped server can only be filled with a snapshot,
// because the leader has dropped the entries that it needs.
func (r *round) lags(ctx context.Context, m, leader *machine) error {
	s, err := logstore.Open(filepath.Join(m.dir, "server", "log"), logstore.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	last, err := s.LastIndex()
	if err = errors.Join(err, s.Close()); err != nil {
		return err
	}
	return until(ctx, settleLimit, "the leader has dropped what "+m.name+" lacks", func() string {
		if saved := r.raftStat(ctx, leader, "last_snapshot_index"); uint64(saved) <= last+trailingLogs {
			return fmt.Sprintf("%s is at %d, and the leader has saved its state at %d", m.name, last, saved)
		}
		return ""
	})
}

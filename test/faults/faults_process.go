package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"berth/internal/consensus/logstore"
	"berth/internal/rest"
	"berth/internal/state/codec"

	"github.com/hashicorp/raft"
)

// Faults of servers' processes: they are killed, stopped for a while, ended and
// started again.

// firstWrite is the figure for how long no write was possible: from the moment
// that the leader was gone to the end of the first write that began after it.
const firstWrite = "first write"

var killLeader = &Fault{
	ID: "F-01", Kind: "process", Name: "the leader is killed",
	Says:   "the first write after it is done within 3 s as a rule and 6 s at the most; no healthy node is taken for down",
	Hold:   4 * time.Second,
	Limits: []Limit{{firstWrite, 3, 6}},
	Start: func(ctx context.Context, r *round) error {
		m, err := r.wait(ctx)
		if err != nil {
			return err
		}
		if r.number%5 == 0 { // an idle leader: there are no writes until it is gone
			r.work.pause.Store(0)
			defer r.work.pause.Store(int64(writePause))
			if err := rest.For(ctx, time.Second); err != nil {
				return err
			}
		}
		r.down(m)
		return nil
	},
	Stop: func(_ context.Context, r *round) error { return r.up() },
}

var killAllServers = &Fault{
	ID: "F-03", Kind: "process", Name: "all servers are killed at once",
	Says:   "they are started in any order; there are writes again 10 s after the second one is up",
	Hold:   time.Second,
	Falls:  true,
	Limits: []Limit{{firstWrite, 0, 10}},
	Start: func(_ context.Context, r *round) error {
		for _, m := range r.servers {
			m.kill()
		}
		r.history.note("all servers are killed")
		return nil
	},
	Stop: func(ctx context.Context, r *round) error {
		var errs []error
		for i, k := range r.rng.Perm(len(r.servers)) {
			m := r.servers[k]
			errs = append(errs, m.start())
			r.history.note("%s is started", m.name)
			if i == 1 {
				r.killed = r.history.now() // from now on a leader is possible
			}
			_ = rest.For(ctx, time.Duration(r.rng.IntN(1500))*time.Millisecond)
		}
		return errors.Join(errs...)
	},
}

var pauseLeader = &Fault{
	ID: "F-05", Kind: "process", Name: "the leader stands still (SIGSTOP) for 0.3, 3 or 8 s, and goes on",
	Says:   "nobody reads what is old from it, nothing is acknowledged twice or in vain, no node is taken for down",
	Limits: []Limit{{firstWrite, 3, 6}},
	Start:  standStill(3*time.Second, 300*time.Millisecond, 8*time.Second),
	Hold:   time.Second,
	Stop: func(_ context.Context, r *round) error {
		for _, m := range r.servers {
			_ = m.resume() // also after an error
		}
		return nil
	},
}

// standStill pauses the leader, each round for the next of these times.
func standStill(times ...time.Duration) func(context.Context, *round) error {
	return func(ctx context.Context, r *round) error {
		m, err := r.wait(ctx)
		if err != nil {
			return err
		}
		long := times[(r.number-1)%len(times)]
		if err := m.pause(); err != nil {
			return err
		}
		r.history.note("%s stands still for %v", m.name, long)
		if long > time.Second { // a shorter pause does not change the leader
			r.gone(m)
		}
		return errors.Join(rest.For(ctx, long), m.resume())
	}
}

var rollingRestart = &Fault{
	ID: "F-32", Kind: "process", Name: "all servers are ended and started one after the other, under load, with deployments in progress",
	Says: "no request fails after retries elsewhere for 10 s; no deployment is stuck",
	Start: func(ctx context.Context, r *round) error {
		for _, k := range r.rng.Perm(len(r.servers)) {
			if err := r.restart(ctx, r.servers[k]); err != nil {
				return err
			}
		}
		return nil
	},
	Stop: func(_ context.Context, r *round) error { return r.startAll() },
	After: func(ctx context.Context, r *round) error {
		if len(r.work.unserved) > 0 {
			return fmt.Errorf("%d requests failed though they were tried for %v: %s", len(r.work.unserved), retryLimit, r.work.unserved[0])
		}
		return until(ctx, settleLimit, "no deployment is in progress", func() string {
			var list []struct{ ID, Status string }
			if err := r.get(ctx, r.anyone(), "/v1/job/"+serviceJob+"/deployments", &list); err != nil {
				return err.Error()
			}
			for _, d := range list {
				if d.Status == "running" || d.Status == "pending" {
					return d.ID + " is " + d.Status
				}
			}
			return ""
		})
	},
}

// restart ends a server as an operator does, starts it again, and waits until
// it votes again.
func (r *round) restart(ctx context.Context, m *machine) error {
	r.history.note("%s is ended", m.name)
	if err := m.end(endLimit); err != nil {
		return err
	}
	if err := m.start(); err != nil {
		return err
	}
	r.history.note("%s is started", m.name)
	return until(ctx, settleLimit, m.name+" is back", func() string {
		if amiss := r.leaderless(ctx); amiss != "" {
			return amiss
		}
		return r.voteless(ctx)
	})
}

// startAll starts every server that does not run.
func (r *round) startAll() error {
	var errs []error
	for _, m := range r.servers {
		if !m.running() {
			errs = append(errs, m.start())
		}
	}
	return errors.Join(errs...)
}

var oldData = &Fault{
	ID: "F-20", Kind: "process", Name: "servers start with logs and snapshots of earlier lives, and of releases to come",
	Says:  "what an earlier life wrote is read; an unknown entry, or a newer format, refuses to start with the reason, and no server ends in the middle of a run",
	Setup: Setup{Snapshots: true},
	Falls: true,
	Start: func(ctx context.Context, r *round) error {
		for _, m := range r.servers {
			if err := m.end(endLimit); err != nil {
				return err
			}
		}
		r.history.note("all servers are ended")
		m := r.servers[r.rng.IntN(len(r.servers))]
		return errors.Join(
			r.refuses(ctx, m, "unknown-entry", addUnknownEntry, "60000"),
			r.refuses(ctx, m, "newer-format", raiseFormat, "unknown format"))
	},
	Stop: func(_ context.Context, r *round) error { return r.startAll() },
}

// refuses starts a server that is cut off from all others on a damaged copy of
// another's data, and checks that it refuses to start and gives the reason.
func (r *round) refuses(ctx context.Context, of *machine, name string, harm func(dir string) error, reason string) error {
	m, err := r.cluster.machine("copy", true)
	if err != nil {
		return err
	}
	// The copy has the identity of a member, so it must not reach the cluster.
	for _, s := range r.servers {
		if err := r.cut(m.host, s.host); err != nil {
			return err
		}
	}
	m.dir = filepath.Join(r.dir, "copy-"+name)
	m.log = m.dir + ".log"
	defer os.RemoveAll(m.dir)
	if err := os.CopyFS(m.dir, os.DirFS(of.dir)); err != nil {
		return err
	}
	if err := harm(filepath.Join(m.dir, "server")); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := r.configure(m); err != nil {
		return err
	}
	from := m.size()
	if err := m.start(); err != nil {
		return err
	}
	defer m.kill()
	err = until(ctx, 20*time.Second, "it refuses to start on "+name, func() string {
		if m.running() {
			return "it runs"
		}
		return ""
	})
	// The reason must be in what it wrote since its start.
	said := m.said(from)
	if err == nil && m.cmd.ProcessState.ExitCode() == 0 || err == nil && !strings.Contains(said, reason) {
		err = fmt.Errorf("on %s it ended with exit code %d, and said:\n%s", name, m.cmd.ProcessState.ExitCode(), said)
	}
	return err
}

// addUnknownEntry adds an entry to a log with a command that no release knows.
func addUnknownEntry(dir string) error {
	s, err := logstore.Open(filepath.Join(dir, "log"), logstore.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer s.Close()
	last, err := s.LastIndex()
	if err != nil {
		return err
	}
	var l raft.Log
	if err := s.GetLog(last, &l); err != nil {
		return err
	}
	return s.StoreLog(&raft.Log{Index: last + 1, Term: l.Term, Type: raft.LogCommand, Data: codec.EncodeEntryOn(1<<30, 1, []byte{0xe0, 0xd4, 0x03, 0})}) // 60000, no fields
}

// raiseFormat changes a log so that it seems to come from a later release.
func raiseFormat(dir string) error {
	return eachFile(dir, "meta", func(path string, text []byte) error {
		return os.WriteFile(path, []byte(strings.Replace(string(text), "berth raft log 1", "berth raft log 9", 1)), 0o600)
	})
}

// eachFile calls f for every file of that name below a directory. There must be
// at least one.
func eachFile(dir, name string, f func(path string, text []byte) error) error {
	var found []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && d.Name() == name {
			found = append(found, path)
		}
		return err
	})
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("no file %s below %s", name, dir)
	}
	slices.Sort(found)
	for _, path := range found {
		var text []byte
		if text, err = os.ReadFile(path); err == nil {
			err = f(path, text)
		}
		if err != nil {
			return err
		}
	}
	return err
}

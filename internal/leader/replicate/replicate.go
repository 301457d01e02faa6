// Package replicate copies what all regions have in common, such as policies,
// global tokens and namespaces, from the authoritative region. The leader of each
// other region compares its rows with those there, by hash, takes over what
// differs and deletes what is gone. What the state holds is all that it goes by,
// so a new leader continues where the last one stopped.
package replicate

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"berth"
	"berth/internal/state"
	"berth/op"
)

// Source is the authoritative region.
type Source interface {
	List(ctx context.Context, in *op.ReplicaQuery) (*op.ReplicaPage, error)
	Read(ctx context.Context, in *op.ReplicaRef) (*op.ReplicaCopies, error)
}

// Config is what a Loop works with.
type Config struct {
	Source Source
	Store  *state.Store
	Log    state.Log
	Logger *slog.Logger
	Region string // of this server: whose quotas are enforced
	Access bool   // access control is on, so its tables are copied, too
	// Seal encrypts the client secret of an auth method.
	Seal func(snap *state.Snapshot, method, secret string) (*state.SealedSecret, error)
}

// How long a Loop waits.
const (
	Wait       = 30 * time.Second       // for a change in the authoritative region, per call
	pace       = 100 * time.Millisecond // between two rounds, however much changes
	firstPause = time.Second            // after the first failure; it doubles with each
	longPause  = 30 * time.Second
)

// Stats tells how far a Loop is.
type Stats struct {
	Index   uint64    // of the authoritative region's state that was compared last
	Contact time.Time // when the authoritative region last answered; zero: not in this term
	Behind  int       // rows that differed then and could not be taken over
	Failed  uint64    // rounds that failed in this term
}

// Loop copies during one term.
type Loop struct {
	Config
	stats atomic.Pointer[Stats]
	kept  map[string]string // rows that cannot be taken over → why, as logged
}

// New returns the loop of a term.
func New(c Config) *Loop {
	l := &Loop{Config: c, kept: map[string]string{}}
	l.stats.Store(&Stats{})
	return l
}

// Stats returns how far the loop is.
func (l *Loop) Stats() Stats { return *l.stats.Load() }

// Run copies until ctx ends or the log is lost. While the authoritative region
// does not answer, everything stays as it is.
func (l *Loop) Run(ctx context.Context) error {
	pause, down := firstPause, false
	for {
		err := l.round(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && berth.KindOf(err) == "":
			return err // the log is gone, and with it the term
		case err != nil:
			now := l.Stats()
			now.Failed++
			l.stats.Store(&now)
			if !down {
				l.Logger.Warn("the authoritative region cannot be copied from; what is here stays in force", "error", err)
			}
			down = true
		case down:
			l.Logger.Info("the authoritative region is copied from again")
			down = false
		}
		// A fifth at most is added, so that regions do not all ask at once.
		rest := pace
		if err == nil {
			pause = firstPause
		} else {
			rest = pause + rand.N(pause/5)
			pause = min(2*pause, longPause)
		}
		again := time.NewTimer(rest)
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return ctx.Err()
		}
	}
}

// tables returns the tables that are copied.
func (l *Loop) tables() (out []state.Copied) {
	for _, t := range state.CopiedTables {
		if l.Access || !t.Access {
			out = append(out, t)
		}
	}
	return out
}

// gone is a row that the authoritative region does not have.
type gone struct {
	table state.Copied
	key   string
}

// round waits for a change in the authoritative region, compares all tables, and
// makes this region's equal. Rows come before those that refer to them, and are
// deleted after them.
func (l *Loop) round(ctx context.Context) error {
	now := l.Stats()
	behind, first := 0, true
	var index uint64
	var extra []gone
	for _, t := range l.tables() {
		q := op.ReplicaQuery{Table: t.Name}
		if first { // what could not be taken over is tried again at the latest then
			q.MinQueryIndex, q.MaxQueryTime = now.Index, Wait
		}
		there, at, err := l.list(ctx, q)
		if err != nil {
			return err
		}
		if first { // what changes later is seen by the next round
			index, first = max(at, 1), false
			now.Contact = time.Now()
			l.stats.Store(&now)
		}
		n, missing, err := l.take(ctx, t, there)
		if err != nil {
			return err
		}
		behind += n
		extra = append(extra, missing...)
	}
	for _, x := range slices.Backward(extra) {
		n, err := l.drop(ctx, x)
		if err != nil {
			return err
		}
		behind += n
	}
	if behind == 0 {
		clear(l.kept)
	}
	now.Index, now.Contact, now.Behind = index, time.Now(), behind
	l.stats.Store(&now)
	return nil
}

// list returns the hashes of a table in the authoritative region, by key, and the
// index of its state.
func (l *Loop) list(ctx context.Context, q op.ReplicaQuery) (there map[string]string, index uint64, err error) {
	there = map[string]string{}
	for {
		page, err := l.Source.List(ctx, &q)
		if err != nil {
			return nil, 0, err
		}
		if index == 0 {
			index = page.Index
		}
		for _, row := range page.Rows {
			there[row.Key], q.After = string(row.Hash), row.Key
		}
		if !page.More || len(page.Rows) == 0 {
			return there, index, nil
		}
		q.MinQueryIndex = 0
	}
}

// take takes over the rows of a table that differ. It returns how many it could
// not take over, and which rows are here and not there.
func (l *Loop) take(ctx context.Context, t state.Copied, there map[string]string) (behind int, extra []gone, err error) {
	differ := map[string]bool{}
	for key := range there {
		differ[key] = true
	}
	for key, row := range t.All(l.Store.Snapshot()) {
		want, known := there[key]
		hash := t.Hash(row)
		switch {
		case !known:
			extra = append(extra, gone{t, key})
		case want == string(hash[:]):
			delete(differ, key)
		}
	}
	keys := make([]string, 0, len(differ))
	for key := range differ {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for some := range slices.Chunk(keys, op.ReplicaKeys) {
		got, err := l.Source.Read(ctx, &op.ReplicaRef{Table: t.Name, Keys: some})
		if err != nil {
			return behind, nil, err
		}
		n, err := l.put(ctx, t, got.Rows)
		if err != nil {
			return behind, nil, err
		}
		behind += n
	}
	return behind, extra, nil
}

// put stores rows of a table, together if possible. It returns how many were
// refused.
func (l *Loop) put(ctx context.Context, t state.Copied, copies []op.ReplicaCopy) (refused int, err error) {
	var rows []any
	var secrets []string
	for _, c := range copies {
		row, err := t.Decode(c.Data)
		if err != nil {
			return 0, berth.Errorf(berth.Unavailable, "%s of the authoritative region: %w", t.Name, err)
		}
		rows, secrets = append(rows, row), append(secrets, c.Secret)
	}
	if len(rows) == 0 {
		return 0, nil
	}
	snap := l.Store.Snapshot()
	if cmds := l.makeWay(snap, rows); len(cmds) > 0 {
		if _, err := l.Log.Propose(ctx, cmds...); err != nil {
			return len(rows), lost(err)
		}
		snap = l.Store.Snapshot()
	}
	if c := l.together(rows); c != nil {
		_, err := l.Log.Propose(ctx, c)
		if err == nil {
			l.Logger.Info("rows were copied from the authoritative region", "table", t.Name, "rows", len(rows))
			return 0, nil
		}
		if err := lost(err); err != nil {
			return 0, err
		}
	}
	// One of them is refused, and the others are stored.
	for i, row := range rows {
		c, key, err := l.one(snap, row, secrets[i])
		if err == nil {
			_, err = l.Log.Propose(ctx, c)
		}
		if err == nil {
			l.Logger.Info("a row was copied from the authoritative region", "table", t.Name, "key", key)
			continue
		}
		if gone := lost(err); gone != nil {
			return refused, gone
		}
		refused++
		l.keep(t, key, "cannot be stored here", err)
	}
	return refused, nil
}

// lost returns an error that ends the term, nil for a refusal of a command.
func lost(err error) error {
	if berth.KindOf(err) == "" {
		return err
	}
	return nil
}

// keep logs, once for each kind of reason, that a row stays different from the one
// in the authoritative region.
func (l *Loop) keep(t state.Copied, key, what string, err error) {
	id := t.Name + "\x00" + key
	reason := string(berth.KindOf(err)) + " " + string(berth.CodeOf(err))
	if l.kept[id] == reason {
		return
	}
	l.kept[id] = reason
	l.Logger.Warn("a row of the authoritative region "+what, "table", t.Name, "key", key, "error", err)
}

// drop deletes a row that the authoritative region does not have. It returns 1 if
// something here needs the row, so that it stays.
func (l *Loop) drop(ctx context.Context, x gone) (kept int, err error) {
	if x.table.Name == state.CopyNamespaces && x.key == berth.DefaultNamespace {
		return 0, nil
	}
	_, err = l.Log.Propose(ctx, remove(x.table.Name, x.key))
	switch {
	case err == nil:
		l.Logger.Info("a row was deleted, as in the authoritative region", "table", x.table.Name, "key", x.key)
		return 0, nil
	case berth.KindOf(err) == berth.NotFound: // it went with another
		return 0, nil
	}
	if err := lost(err); err != nil {
		return 0, err
	}
	l.keep(x.table, x.key, "was deleted there and stays here", err)
	return 1, nil
}

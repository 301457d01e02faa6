package api

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"berth"
	"berth/internal/msgpack"
	"berth/internal/state"
	"berth/op"
)

// sharedList is one list as callers see it whose queries and rights are equal. It
// is made once for all who want it, from the rows of its last answer that did not
// change, and encodes nothing while nothing changed.
//
// An answer serves everyone who came before its snapshot was taken, and while
// its version is that of the newest state, everyone after.
type sharedList struct {
	server *Server
	key    string
	run    func(*Read) (any, error) // runs the handler
	read   func() *Read             // returns a read of the newest snapshot
	turn   chan struct{}            // holds one while an answer is being made

	mu     sync.Mutex
	last   *listAnswer // the newest; nil: there is none
	next   *making     // has not begun; who comes now joins it
	free   time.Time   // when the next may begin; see rest
	follow *follower   // nil: nobody waits
}

// listAnswer is an answer that callers share.
type listAnswer struct {
	of      *sharedList
	index   uint64 // that blocking queries go by
	version uint64 // see Read.version
	next    string // token of the next page
	body    []byte // JSON
	rows    []encodedRow
	cost    time.Duration // of making it

	zip    sync.Once
	zipped []byte // body, compressed
}

// making is an answer that is being made, or will be.
type making struct {
	done   chan struct{} // closed when answer or err is set
	answer *listAnswer
	err    error
}

// follower waits for changes of a list on behalf of everyone who waits.
type follower struct {
	stop    context.CancelFunc
	waiters int
	seen    uint64 // the index of the list when the follower began, or when it made an answer

	answer  *listAnswer   // the newest that was made for waiters
	err     error         // why there is none
	changed chan struct{} // closed when answer or err is replaced
}

// readList registers a read whose answer is a list. Its handler calls At before it
// looks at rows, and then nothing but the query, the rights of the caller and the
// snapshot decide about the answer.
func readList[In, View any](s *Server, o op.Op[In, []View], f func(*Read, *In) ([]View, error)) {
	x := read(s, o, f)
	x.shared = func(ctx context.Context, who Caller, in any) (*answered, error) {
		return shareList(ctx, s, o.Info, who, in.(*In), f)
	}
}

// shareList answers a request for a list.
func shareList[In, View any](ctx context.Context, s *Server, info *op.Info, who Caller, in *In, f func(*Read, *In) ([]View, error)) (*answered, error) {
	q := queryOf(in)
	if err := s.admit(ctx, info, who, q); err != nil {
		return nil, err
	}
	// What is left of the input names the list.
	of := *in
	plain := queryOf(&of)
	plain.Region, plain.AuthToken, plain.MinQueryIndex, plain.MaxQueryTime, plain.AllowStale = "", "", 0, 0, false
	name, err := msgpack.Append(nil, &of)
	if err != nil {
		return nil, berth.Errorf(berth.Invalid, "%s: %w", info.Name, err)
	}
	l := s.lists.get(fmt.Sprintf("%s\x00%s\x00%s", info.Name, s.Rights(who), name), func(l *sharedList) {
		l.server = s
		l.read = func() *Read { return s.newRead(who, plain) }
		l.run = func(r *Read) (any, error) { return f(r, &of) }
	})
	waiting, lost, stop := ctx, func() error { return nil }, func() {}
	if q.MinQueryIndex > 0 {
		waiting, lost, stop = s.while(ctx, info, func() error { return s.allow(info, who, q.Namespace) })
	}
	defer stop()
	a, err := l.answer(waiting, who, q)
	if refused := lost(); refused != nil {
		return nil, refused
	}
	if err != nil {
		return nil, err
	}
	s.lists.answers.Add(1)
	l.spend(a.sending())
	m := op.Meta{Index: a.index, KnownLeader: true, NextToken: a.next}
	if q.AllowStale {
		s.contact(&m)
	}
	return &answered{Meta: m, encoded: a.body, list: a}, nil
}

// answer returns the list now, or, if the caller has an index, when there is
// something newer or the wait is over.
func (l *sharedList) answer(ctx context.Context, who Caller, q *op.Query) (*listAnswer, error) {
	if q.MinQueryIndex == 0 {
		return l.now(ctx)
	}
	now, err := l.look()
	if err != nil {
		return nil, err
	}
	if now.index > q.MinQueryIndex || len(now.keys) == 0 {
		return l.now(ctx)
	}
	if err := l.server.waiting.enter(who); err != nil {
		return nil, err
	}
	defer l.server.waiting.exit(who)
	timed, cancel := context.WithTimeout(ctx, q.Wait())
	defer cancel()
	a, err := l.newer(timed, q.MinQueryIndex, now)
	if err != nil && timed.Err() != nil {
		return l.now(ctx) // nothing newer: the same answer again
	}
	return a, err
}

// look finds out the index and the version of the list without making it.
func (l *sharedList) look() (r *Read, err error) {
	r = l.read()
	r.look = true
	_, err = l.run(r)
	return r, err
}

// now returns the list as it is, or as it is a little later.
func (l *sharedList) now(ctx context.Context) (*listAnswer, error) {
	now, err := l.look()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	if last := l.last; last != nil && !now.volatile && last.version >= now.version() {
		l.mu.Unlock()
		return last, nil
	}
	l.mu.Unlock()
	return l.fresh(ctx)
}

// fresh returns an answer from a snapshot that is taken after the call.
func (l *sharedList) fresh(ctx context.Context) (*listAnswer, error) {
	l.mu.Lock()
	m := l.next
	if m == nil {
		m = &making{done: make(chan struct{})}
		l.next = m
		go l.make(m)
	}
	l.mu.Unlock()
	select {
	case <-m.done:
		return m.answer, m.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// make makes an answer once the one before is done, the list has rested and there
// is an encoder to spare.
func (l *sharedList) make(m *making) {
	defer close(m.done)
	l.turn <- struct{}{}
	defer func() { <-l.turn }()
	l.mu.Lock()
	rest := time.Until(l.free)
	l.mu.Unlock()
	if rest >= shortestRest {
		listDelay.Use(int64(rest), int64(longestRest))
		time.Sleep(rest)
	}
	defer l.server.lists.encoder()()
	l.mu.Lock()
	l.next = nil // who comes from here on needs a later snapshot
	old := l.last
	l.mu.Unlock()
	m.answer, m.err = l.encode(old)
	if m.err != nil {
		return
	}
	l.server.lists.keep(l, m.answer)
	l.spend(m.answer.cost)
}

// encode makes an answer of the newest snapshot.
func (l *sharedList) encode(old *listAnswer) (a *listAnswer, err error) {
	// Handlers run on their callers' goroutines elsewhere, where a panic ends
	// one request.
	defer func() {
		if p := recover(); p != nil {
			l.server.Logger.Error("a list panicked", "panic", p, "stack", string(debug.Stack()))
			a, err = nil, berth.Errorf("", "internal error: see the log of this agent")
		}
	}()
	start := time.Now()
	r := l.read()
	r.rows = newRowEncoder(old)
	v, err := l.run(r)
	if err != nil {
		return nil, err
	}
	body, err := r.rows.body(v)
	if err != nil {
		return nil, err
	}
	all := &l.server.lists
	all.made.Add(1)
	all.rowsKept.Add(uint64(r.rows.kept))
	all.rowsMade.Add(uint64(len(r.rows.rows) - r.rows.kept))
	return &listAnswer{of: l, index: r.index, version: r.version(), next: r.next, body: body, rows: r.rows.rows, cost: time.Since(start)}, nil
}

// newer returns the first answer after an index, which the list had not passed at
// the look now. Everyone who waits for the list waits for the same follower: one
// watch, however many wait.
func (l *sharedList) newer(ctx context.Context, index uint64, now *Read) (*listAnswer, error) {
	l.mu.Lock()
	f := l.follow
	if f == nil {
		following, stop := context.WithCancel(context.Background())
		f = &follower{stop: stop, seen: now.index, changed: make(chan struct{})}
		l.follow = f
		l.server.lists.followed.Add(1)
		go l.watch(following, f, now.keys)
	}
	f.waiters++
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if f.waiters--; f.waiters == 0 {
			l.leave(f)
		}
	}()
	for {
		l.mu.Lock()
		answer, err, changed := f.answer, f.err, f.changed
		l.mu.Unlock()
		if err != nil || answer != nil && answer.index > index {
			return answer, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// leave ends a follower. The caller holds l.mu.
func (l *sharedList) leave(f *follower) {
	f.stop()
	if l.follow == f {
		l.follow = nil
		l.server.lists.followed.Add(-1)
	}
}

// watch makes an answer whenever the list has changed, as long as anyone waits.
// What is watched was fixed by the look of the first who waits; a change between
// that look and here is seen by the look here.
func (l *sharedList) watch(ctx context.Context, f *follower, keys []state.WatchKey) {
	watch := l.server.Store.Watch(keys...)
	defer watch.Stop()
	for {
		now, err := l.look()
		if err == nil && now.index > f.seen {
			var a *listAnswer
			if a, err = l.fresh(ctx); err == nil {
				f.seen = a.index
				l.publish(f, a, nil)
			}
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			l.publish(f, nil, err)
			return
		}
		if watch.Wait(ctx) != nil {
			return
		}
	}
}

// publish gives an answer to everyone who waits. After an error, those who come
// later begin with a follower of their own.
func (l *sharedList) publish(f *follower, a *listAnswer, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f.answer, f.err = a, err
	close(f.changed)
	f.changed = make(chan struct{})
	if err != nil {
		l.leave(f)
	}
}

// spend counts processor time that the list took: before it is made again, it
// rests, longer the more it took.
func (l *sharedList) spend(cost time.Duration) {
	rest := l.server.lists.rest(cost)
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if l.free.Before(now) {
		l.free = now
	}
	if l.free = l.free.Add(rest); l.free.After(now.Add(longestRest)) {
		l.free = now.Add(longestRest)
	}
}

// sending estimates the processor time of sending the answer to one caller.
func (a *listAnswer) sending() time.Duration { return time.Duration(len(a.body)) * perByte }

// gzip returns the body compressed; it is compressed once.
func (a *listAnswer) gzip() []byte {
	a.zip.Do(func() {
		defer a.of.server.lists.encoder()()
		start := time.Now()
		a.zipped = compressed(a.body)
		a.of.spend(time.Since(start))
	})
	return a.zipped
}

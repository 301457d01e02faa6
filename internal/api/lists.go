package api

import (
	"bytes"
	"container/list"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"berth/internal/limit"

	"github.com/klauspost/compress/gzip"
)

// What lists may take, so that writes and heartbeats go first.
const (
	// listShare is the part of the machine's processor time that the lists of
	// those who wait take together: a tenth.
	listShare = 10
	// shortestRest is what a list must have earned before it rests at all: short
	// lists come at once.
	shortestRest = time.Millisecond
	// longestRest bounds how much later than asked a list can come.
	longestRest = 2 * time.Second
	// perByte is about what it takes to send a byte.
	perByte = time.Nanosecond
	// maxListBytes and maxLists bound what is kept of answers for later callers.
	maxListBytes = 64 << 20
	maxLists     = 512
)

var (
	listDelay = limit.Declare(limit.Info{
		Name: "list_delay", Of: "How much later than asked a long list comes that changes all the time", Unit: limit.Time, Default: int64(longestRest),
		Beyond: "the list is sent more often than a tenth of the processors allows",
	})
	_ = limit.Declare(limit.Info{
		Name: "list_kept_bytes", Of: "Memory of encoded lists that are kept for later requests", Unit: limit.Bytes, Default: maxListBytes,
		Beyond: "the lists that were not asked for the longest are forgotten, and encoded in full when they are asked for again",
	})
)

// lists are the lists that callers share, the most recently made first.
type lists struct {
	encoders chan struct{} // holds one for each list that is being encoded
	followed atomic.Int64  // lists that somebody waits for

	made, answers      atomic.Uint64
	rowsMade, rowsKept atomic.Uint64

	mu     sync.Mutex
	byKey  map[string]*list.Element // of *sharedList
	recent list.List
	bytes  int // of their answers
}

// ListStats counts what was done for lists since the server started.
type ListStats struct {
	Encodings   uint64 // lists that were encoded
	Answers     uint64 // answers that were given out of them
	RowsEncoded uint64 // rows that were encoded
	RowsReused  uint64 // rows taken over from the encoding before
	Bytes       int    // of encodings that are kept
}

// ListStats returns the counts so far.
func (s *Server) ListStats() ListStats {
	l := &s.lists
	l.mu.Lock()
	defer l.mu.Unlock()
	return ListStats{l.made.Load(), l.answers.Load(), l.rowsMade.Load(), l.rowsKept.Load(), l.bytes}
}

// init makes the lists ready for use.
func (ls *lists) init() {
	ls.encoders = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))
	ls.byKey = map[string]*list.Element{}
}

// encoder waits until fewer lists are being encoded than half the processors,
// and counts one more until release is called.
func (ls *lists) encoder() (release func()) {
	ls.encoders <- struct{}{}
	return func() { <-ls.encoders }
}

// rest is how long a list rests after it took some processor time.
func (ls *lists) rest(cost time.Duration) time.Duration {
	return cost * listShare * time.Duration(max(1, ls.followed.Load())) / time.Duration(runtime.GOMAXPROCS(0))
}

// get returns the list of that name; fill completes a new one.
func (ls *lists) get(key string, fill func(*sharedList)) *sharedList {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if e := ls.byKey[key]; e != nil {
		ls.recent.MoveToFront(e)
		return e.Value.(*sharedList)
	}
	l := &sharedList{key: key, turn: make(chan struct{}, 1)}
	fill(l)
	ls.byKey[key] = ls.recent.PushFront(l)
	ls.trim()
	return l
}

// keep keeps an answer as the newest of its list.
func (ls *lists) keep(l *sharedList, a *listAnswer) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l.mu.Lock()
	old := l.last
	l.last = a
	l.mu.Unlock()
	if e := ls.byKey[l.key]; e != nil && e.Value == l {
		ls.bytes += a.size() - old.size()
		ls.trim()
	}
}

// trim forgets the lists that were not asked for the longest time. Who waits for
// one keeps it.
func (ls *lists) trim() {
	for ls.recent.Len() > 1 && (ls.bytes > maxListBytes || ls.recent.Len() > maxLists) {
		e := ls.recent.Back()
		l := ls.recent.Remove(e).(*sharedList)
		delete(ls.byKey, l.key)
		l.mu.Lock()
		ls.bytes -= l.last.size()
		l.mu.Unlock()
	}
}

// size is about how much memory an answer takes, in bytes. It is 0 if there is no answer.
func (a *listAnswer) size() int {
	const perRow = 96
	if a == nil {
		return 0
	}
	return len(a.body) + perRow*len(a.rows)
}

// compressed returns a body as gzip.
func compressed(body []byte) []byte {
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed) // the level is a valid one
	z.Write(body)
	z.Close()
	return b.Bytes()
}

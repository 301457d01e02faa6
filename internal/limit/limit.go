// Package limit lists the limits of an agent: what it takes on at most, and what
// happens beyond that. It decides nothing. The package that enforces a limit
// declares it, next to the constant, and reports how much is used and what it
// refused. This package shows that: as metrics, as a log line at 80 %, and as
// docs/limits.md.
package limit

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Unit is what a limit counts.
type Unit string

// The units of limits.
const (
	Count Unit = "count"
	Bytes Unit = "bytes"
	Time  Unit = "time" // nanoseconds, as time.Duration
)

// Info describes a limit.
type Info struct {
	Name    string // a label of metrics, such as "http_connections_per_address"
	Of      string // what it limits, for people
	Unit    Unit
	Default int64  // 0: it follows from the machine, as Of says
	Key     string // of the configuration; "" if it is fixed
	Beyond  string // what happens beyond it, for people
	Single  bool   // it bounds single values, so that no use of it is measured
}

// Limit is a limit, and how much of it is used in this process. It is safe for
// concurrent use.
type Limit struct {
	Info

	most    atomic.Int64 // the limit in force, as last seen
	peak    atomic.Int64 // highest use since the last Sample
	before  atomic.Int64 // highest use between the two Samples before
	refused atomic.Int64
	near    line
	reached line
}

// Use reports that used of the allowed most are in use, or that one request uses
// so much. From 80 % on it logs a line, at most once a minute for each limit;
// attrs are attributes of that line, as of slog. A most of 0 or less is no limit.
func (l *Limit) Use(used, most int64, attrs ...any) {
	if l.most.Load() != most {
		l.most.Store(most)
	}
	for {
		p := l.peak.Load()
		if used <= p || l.peak.CompareAndSwap(p, used) {
			break
		}
	}
	if most > 0 && used >= most-most/5 && used <= most {
		l.near.log("a limit is nearly reached", l, append([]any{"used", l.show(used), "allowed", l.show(most)}, attrs...))
	}
}

// Refuse counts something that was refused because of the limit, and logs a line,
// at most once a minute for each limit.
func (l *Limit) Refuse(attrs ...any) {
	l.refused.Add(1)
	l.reached.log("a limit is reached", l, append([]any{"allowed", l.show(l.most.Load())}, attrs...))
}

// Sample is how much of a limit is used.
type Sample struct {
	*Limit
	Most    int64 // the limit in force; 0 if nothing was measured yet
	Peak    int64 // highest use since the sample before the last
	Refused int64 // since the process started
}

// Samples returns a sample of every limit, in the order of their names. Those
// who take samples shorten the time that the next peaks are about.
func Samples() []Sample {
	var out []Sample
	for _, l := range All() {
		now := l.peak.Swap(0)
		peak := max(now, l.before.Swap(now))
		out = append(out, Sample{Limit: l, Most: l.most.Load(), Peak: peak, Refused: l.refused.Load()})
	}
	return out
}

// logger is where lines go; nil: nowhere.
var logger atomic.Pointer[slog.Logger]

// LogTo has lines about limits written to a log. A process calls it once.
func LogTo(log *slog.Logger) { logger.Store(log) }

// every is the least time between two lines of one kind about one limit.
const every = time.Minute

// line limits how often something is logged.
type line struct {
	mu      sync.Mutex
	last    time.Time
	skipped int // since last
}

// log writes a line unless one was written in the last minute.
func (n *line) log(msg string, l *Limit, attrs []any) {
	log := logger.Load()
	if log == nil {
		return
	}
	n.mu.Lock()
	now := time.Now()
	if !n.last.IsZero() && now.Sub(n.last) < every {
		n.skipped++
		n.mu.Unlock()
		return
	}
	skipped := n.skipped
	n.last, n.skipped = now, 0
	n.mu.Unlock()
	args := append([]any{"limit", l.Name}, attrs...)
	if l.Key != "" {
		args = append(args, "key", l.Key)
	}
	if skipped > 0 {
		args = append(args, "more_like_it", skipped)
	}
	log.Warn(msg, args...)
}

// show returns a number of the limit's unit as people write it.
func (l *Limit) show(n int64) any {
	if l.Unit == Time {
		return time.Duration(n)
	}
	return n
}

var all []*Limit

// Declare adds a limit to the list. It is for package variables only: the list
// has no lock. It panics if the name is taken or the description incomplete.
func Declare(i Info) *Limit {
	if i.Name == "" || i.Of == "" || i.Beyond == "" || i.Unit == "" {
		panic(fmt.Sprintf("limit %q: the description is incomplete", i.Name))
	}
	for _, l := range all {
		if l.Name == i.Name {
			panic(fmt.Sprintf("limit %q is declared twice", i.Name))
		}
	}
	l := &Limit{Info: i}
	all = append(all, l)
	return l
}

// Bound declares a fixed limit of single values, such as the length of a name. No
// use of it is measured.
func Bound(name, of string, unit Unit, most int64, beyond string) *Limit {
	return Declare(Info{Name: name, Of: of, Unit: unit, Default: most, Beyond: beyond, Single: true})
}

// All returns all limits, in the order of their names.
func All() []*Limit {
	return slices.SortedFunc(slices.Values(all), func(a, b *Limit) int { return strings.Compare(a.Name, b.Name) })
}

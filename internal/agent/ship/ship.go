// Package ship sends the output of tasks to log sinks: files, HTTP, Loki, OTLP,
// syslog. It reads what the supervisors have written to the tasks' log files, so
// a sink that is slow or away never makes a task wait. It remembers how far each
// sink has taken each stream, and goes on there after a restart: every line is
// sent at least once, as long as its file is kept. What is rotated away before a
// sink took it is counted as lost.
package ship

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"berth/op"
)

// Labels say whose a line is. They are the same for all lines of a stream.
type Labels struct {
	Namespace, Job, Group, Task string
	AllocID, NodeID, NodeName   string
	Stream                      string // stdout or stderr
}

// pairs returns the labels as names and values, in a fixed order.
func (l *Labels) pairs() [][2]string {
	return [][2]string{
		{"namespace", l.Namespace}, {"job", l.Job}, {"group", l.Group}, {"task", l.Task}, {"stream", l.Stream},
		{"alloc_id", l.AllocID}, {"node_id", l.NodeID}, {"node_name", l.NodeName},
	}
}

// Line is a line of output, without its end.
type Line struct {
	*Labels
	Time time.Time // when the agent read it
	Text string
}

// Sink takes lines. Send returns nil when they are taken, all of them. It is
// called by one goroutine at a time.
type Sink interface {
	Send(ctx context.Context, lines []Line) error
	Close() error
}

// ErrRefused is an error of a sink that will not take these lines at any later
// time either: they are counted as lost.
var ErrRefused = errors.New("the sink refuses the lines")

// Limits of a sink.
const (
	queueLines = 8192             // that wait for it in memory
	batchLines = 2000             // in one Send
	batchBytes = 1 << 20          // in one Send
	batchWait  = time.Second      // for more lines
	sendTime   = 30 * time.Second // of one Send
	firstPause = 500 * time.Millisecond
	maxPause   = 30 * time.Second
	// MaxLine is the length in bytes beyond which a line is sent in pieces.
	MaxLine = 64 << 10
)

// Counts are figures of a sink.
type Counts struct {
	Lines   atomic.Int64 // that were taken
	Failed  atomic.Int64 // calls of Send that failed
	Refused atomic.Int64 // lines that the sink refused
	Lost    atomic.Int64 // files that were rotated away before the sink took them
	Waiting atomic.Int64 // lines in memory
}

// Shipper sends streams of output to one sink.
type Shipper struct {
	Name string
	Counts

	sink      Sink
	positions *Positions
	queue     chan entry
	log       *slog.Logger
}

// entry is a line on its way, and how far its stream is read with it.
type entry struct {
	Line
	key Key
	at  Position
}

// New returns a shipper to a sink. positions may be shared among shippers.
func New(name string, sink Sink, positions *Positions, log *slog.Logger) *Shipper {
	return &Shipper{Name: name, sink: sink, positions: positions, queue: make(chan entry, queueLines), log: log.With("sink", name)}
}

// Run sends what is queued until ctx ends, and closes the sink.
func (s *Shipper) Run(ctx context.Context) error {
	defer s.sink.Close()
	for {
		batch := s.collect(ctx)
		if len(batch) == 0 {
			return ctx.Err()
		}
		s.deliver(ctx, batch)
		s.Waiting.Add(-int64(len(batch)))
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// collect waits for lines and returns them, nil if ctx ends first.
func (s *Shipper) collect(ctx context.Context) (batch []entry) {
	var more <-chan time.Time
	size := 0
	for len(batch) < batchLines && size < batchBytes {
		select {
		case e := <-s.queue:
			if batch == nil {
				timer := time.NewTimer(batchWait)
				defer timer.Stop()
				more = timer.C
			}
			batch = append(batch, e)
			size += len(e.Text)
		case <-more:
			return batch
		case <-ctx.Done():
			return nil
		}
	}
	return batch
}

// deliver sends lines until they are taken or refused, or ctx ends. Then it
// records how far their streams are.
func (s *Shipper) deliver(ctx context.Context, batch []entry) {
	lines := make([]Line, len(batch))
	for i := range batch {
		lines[i] = batch[i].Line
	}
	pause := firstPause
	for {
		own, cancel := context.WithTimeout(ctx, sendTime)
		err := s.sink.Send(own, lines)
		cancel()
		switch {
		case err == nil:
			s.Lines.Add(int64(len(lines)))
		case errors.Is(err, ErrRefused):
			s.Refused.Add(int64(len(lines)))
			s.log.Warn("a log sink refuses lines", "lines", len(lines), "error", err)
		case ctx.Err() != nil:
			return
		default:
			if s.Failed.Add(1); pause == firstPause {
				s.log.Warn("a log sink does not take lines: they wait in the tasks' files", "error", err)
			}
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return
			}
			pause = min(2*pause, maxPause)
			continue
		}
		break
	}
	for i := range batch {
		s.positions.set(batch[i].key, batch[i].at)
	}
}

// Read reads a stream, as [op.LogsQuery] asks for it, and hands its frames to
// emit until the stream has ended.
type Read func(ctx context.Context, from Position, emit func(*op.StreamFrame) error) error

// Follow sends one stream to the sink, from where the sink is, until all of a
// stream that has ended is queued, or ctx ends. While the queue is full, it reads
// no further.
func (s *Shipper) Follow(ctx context.Context, labels *Labels, read Read) error {
	key := Key{s.Name, labels.AllocID, labels.Task, labels.Stream}
	from := s.positions.Get(key)
	l := liner{at: from}
	put := func(text string, at Position) error {
		s.Waiting.Add(1)
		select {
		case s.queue <- entry{Line{labels, time.Now(), text}, key, at}:
			return nil
		case <-ctx.Done():
			s.Waiting.Add(-1)
			return ctx.Err()
		}
	}
	err := read(ctx, from, func(f *op.StreamFrame) error {
		n, err := l.add(f, put)
		if n > 0 {
			s.Lost.Add(int64(n))
			s.log.Warn("output was rotated away before the log sink took it", "files", n, "alloc", labels.AllocID, "task", labels.Task, "stream", labels.Stream)
		}
		return err
	})
	if err == nil {
		err = l.flush(put)
	}
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("log sink %q: %s of task %q: %w", s.Name, labels.Stream, labels.Task, err)
	}
	return err
}

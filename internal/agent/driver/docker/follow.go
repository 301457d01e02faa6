package docker

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/moby/moby/client"

	"berth/internal/agent/driver"
	"berth/internal/agent/logs"
	"berth/internal/agent/supervise"
	"berth/internal/saferoot"
)

// follower copies a container's output from the engine's log to the task's log
// files, until the container has ended and all of it is copied.
//
// An agent that is killed at any moment leaves the files as they are, and a
// record of a moment before: the time of the last message that was taken, and
// how long the files were then. The next one reads the engine's log from a time
// before that message, passes over what was taken, and leaves out as many bytes
// as the files have grown by since. So no byte is lost and none is there twice,
// also if the clock is put back; see mark.
type follower struct {
	d   *Driver
	id  string
	tty bool

	dir, control *saferoot.Root
	file         string // name of the record, in control
	out          [2]*stream
	recordAs     position // without the marks
	saved        time.Time
	last         int              // index of the stream of the last message that was taken
	booted       func() time.Time // see [booted]

	ctx    context.Context
	cancel context.CancelFunc
	begin  sync.Once
	done   chan struct{}
}

// stream is stdout or stderr.
type stream struct {
	mark
	w     *logs.Writer
	skip  int64   // bytes that the files have already
	again []point // up to which the log is read again; see old
}

// position is the record of a follower.
type position struct {
	Launch  uint64
	MaxSize int64 // of a full file
	Marks   [2]mark
	Last    int // index of the stream of the last message
}

// followers are those of this process, by container: no two of them write the
// same files.
var followers = struct {
	sync.Mutex
	by map[string]*follower
}{by: map[string]*follower{}}

// follow returns the follower of a container. fresh says that the container was
// not started yet.
func (d *Driver) follow(t *driver.Task, id string, tty, fresh bool) (*follower, error) {
	followers.Lock()
	defer followers.Unlock()
	if f := followers.by[id]; f != nil {
		return f, nil
	}
	f := &follower{d: d, id: id, tty: tty, file: "log-" + t.Name + ".json", booted: booted, done: make(chan struct{})}
	if err := f.open(t, fresh); err != nil {
		f.close()
		return nil, driver.Recoverable(err)
	}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	followers.by[id] = f
	return f, nil
}

// open opens the log files and finds out how far they were written.
func (f *follower) open(t *driver.Task, fresh bool) (err error) {
	if f.dir, err = t.AllocDir.Sub(logs.Dir); err != nil {
		return err
	}
	if f.control, err = t.AllocDir.Sub(supervise.ControlDir); err != nil {
		return err
	}
	p := position{}
	if b, err := f.control.ReadFile(f.file, 1<<16); err == nil && !fresh {
		if json.Unmarshal(b, &p) != nil || p.Launch != t.Launch || p.MaxSize <= 0 {
			p = position{}
		}
	}
	for i, name := range []string{logs.Stdout, logs.Stderr} {
		w, err := logs.NewWriter(f.dir, t.Name, name, t.Logs.MaxFiles, t.Logs.MaxSize)
		if err != nil {
			return err
		}
		f.out[i] = &stream{w: w}
		if m := p.Marks[i]; p.MaxSize > 0 {
			index, size := w.Position()
			f.out[i].mark = m
			f.out[i].skip = max(0, int64(index-m.Index)*p.MaxSize+size-m.Size)
		}
	}
	f.last = max(0, min(p.Last, 1))
	f.noteClock(f.booted())
	f.recordAs, f.saved = position{Launch: t.Launch, MaxSize: t.Logs.MaxSize}, time.Now()
	if fresh {
		return f.save()
	}
	return nil
}

// save writes the record. Streams whose files are ahead of what was read are
// recorded later: the older record still holds.
func (f *follower) save() error {
	p := f.recordAs
	p.Last = f.last
	for i, s := range f.out {
		if s.skip > 0 {
			return nil
		}
		s.Index, s.Size = s.w.Position()
		p.Marks[i] = s.mark
	}
	f.saved = time.Now()
	b, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return f.control.Replace(f.file, b, 0o600)
}

// close closes the files.
func (f *follower) close() {
	for _, s := range f.out {
		if s != nil {
			_ = s.w.Close()
		}
	}
	for _, r := range []*saferoot.Root{f.dir, f.control} {
		if r != nil {
			_ = r.Close()
		}
	}
}

// run begins to copy, once. A nil follower copies nothing.
func (f *follower) run() {
	if f == nil {
		return
	}
	f.begin.Do(func() { go f.copy() })
}

// abandon ends the follower of a container that was not started, or that is gone.
// Nothing is written after it returns.
func (f *follower) abandon() {
	if f == nil {
		return
	}
	f.cancel()
	f.run()
	<-f.done
}

// drainTime is how long the rest of a log may take once its container has
// ended.
const drainTime = 2 * time.Minute

// wait waits until all output of a container that has ended is copied.
func (f *follower) wait(ctx context.Context) error {
	if f == nil {
		return nil
	}
	f.run()
	limit := time.NewTimer(drainTime)
	defer limit.Stop()
	select {
	case <-f.done:
	case <-limit.C:
		f.d.log.Warn("the engine does not end the log of a container; what is left of it is lost", "container", f.id)
		f.cancel()
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// copy copies until the container has ended, also over restarts of the engine.
func (f *follower) copy() {
	defer close(f.done)
	defer f.close()
	defer func() {
		followers.Lock()
		defer followers.Unlock()
		delete(followers.by, f.id)
	}()
	defer f.cancel()
	for wait := 100 * time.Millisecond; f.ctx.Err() == nil; wait = min(2*wait, 5*time.Second) {
		err := f.read(true)
		ended, asked := f.ended()
		if asked == nil && ended {
			// The engine may end the stream a moment too early.
			if err := f.read(false); err == nil || gone(err) {
				break
			}
		}
		if gone(asked) || gone(err) {
			break
		}
		select {
		case <-time.After(wait):
		case <-f.ctx.Done():
		}
	}
	for _, s := range f.out {
		s.skip = 0
	}
	if err := f.save(); err != nil {
		f.d.log.Warn("how far a container's output was copied cannot be recorded", "container", f.id, "error", err)
	}
}

// ended reports whether the container runs no more.
func (f *follower) ended() (bool, error) {
	ctx, cancel := context.WithTimeout(f.ctx, askTime)
	defer cancel()
	got, err := f.d.engine.ContainerInspect(ctx, f.id, client.ContainerInspectOptions{})
	if err != nil {
		return false, err
	}
	s := got.Container.State
	return s != nil && !s.Running && !s.Paused && !s.Restarting && s.Status != "created", nil
}

// read reads the engine's log from where it was left.
func (f *follower) read(more bool) error {
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	opts := client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true, Timestamps: true, Follow: more}
	boot := f.booted()
	f.noteClock(boot)
	if at := f.since(boot); !at.IsZero() {
		opts.Since = fmt.Sprintf("%d.%09d", at.Unix(), at.Nanosecond())
	}
	// If the clock is put back, the engine may leave out what is printed then: the
	// next request asks for it.
	go f.whenClockIsSet(ctx, boot, cancel)
	body, err := f.d.engine.ContainerLogs(ctx, f.id, opts)
	if err != nil {
		return err
	}
	defer body.Close()
	r := bufio.NewReaderSize(body, 64<<10)
	for _, s := range f.out {
		s.readAgain()
	}
	for {
		i, at, text, err := f.message(r)
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		s := f.out[i]
		if s.old(at) {
			continue
		}
		back := f.take(i, at)
		n := min(s.skip, int64(len(text)))
		s.skip -= n
		_, _ = s.w.Write(text[n:]) // counts what it cannot write
		if back || time.Since(f.saved) > time.Second {
			_ = f.save() // the older record still holds
		}
	}
}

// longest is the longest message that an engine may send. Its own limit is
// 16 KiB.
const longest = 16 << 20

// message reads the next message of the log: a frame, or of a terminal's output
// a line.
func (f *follower) message(r *bufio.Reader) (i int, at time.Time, text []byte, err error) {
	if f.tty {
		at, text, err = line(r)
		return 0, at, text, err
	}
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, at, nil, err
	}
	n := binary.BigEndian.Uint32(head[4:])
	if n > longest {
		return 0, at, nil, fmt.Errorf("a message of %d bytes in the engine's log", n)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return 0, at, nil, err
	}
	if head[0] == 2 {
		i = 1
	}
	at, text, err = stamp(b)
	return i, at, text, err
}

// stamp splits a message into its time and its text.
func stamp(b []byte) (time.Time, []byte, error) {
	for i, c := range b[:min(len(b), 40)] {
		if c == ' ' {
			at, err := time.Parse(time.RFC3339Nano, string(b[:i]))
			return at, b[i+1:], err
		}
	}
	return time.Time{}, nil, fmt.Errorf("a message without a time in the engine's log: %s", strconv.Quote(string(b[:min(len(b), 40)])))
}

// chunk is how much of a line without an end the engine puts into one message.
const chunk = 16 << 10

// line reads a message of a terminal's output: up to the end of the line, or a
// chunk.
func line(r *bufio.Reader) (time.Time, []byte, error) {
	head, err := r.ReadString(' ')
	if err != nil {
		return time.Time{}, nil, err
	}
	at, err := time.Parse(time.RFC3339Nano, head[:len(head)-1])
	if err != nil {
		return time.Time{}, nil, err
	}
	var text []byte
	for len(text) < chunk {
		c, err := r.ReadByte()
		if err != nil {
			if len(text) > 0 {
				return at, text, nil
			}
			return at, nil, err
		}
		if text = append(text, c); c == '\n' {
			break
		}
	}
	return at, text, nil
}

package docker

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/moby/moby/client"
	"pgregory.net/rapid"

	"berth/internal/agent/driver"
	"berth/internal/agent/driver/drivertest"
	"berth/internal/agent/isolate/isolatetest"
	"berth/internal/agent/logs"
	"berth/internal/agent/supervise"
	_ "berth/internal/onethread"
	"berth/op"
)

// What a container prints after the clock was put back is written like all the
// rest, and once, also by an agent that reads the engine's log again. The
// engine's clock cannot be put back in a test, so its log is written as if it had
// been.
func TestOutputAfterTheClockWasPutBack(t *testing.T) {
	d := New(config(t))
	tk := allocs(t)(1, does("exit", "0"))
	h, err := d.Start(t.Context(), tk)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	id := h.(*handle).id
	made, err := d.engine.ContainerInspect(t.Context(), id, client.ContainerInspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	again := *tk
	again.Name = "again" // has files of its own
	var log, want string
	boot := time.Unix(1e9, 0)
	for i, fresh := range []bool{true, false} {
		f, err := d.follow(&again, id, false, fresh)
		if err != nil {
			t.Fatal(err)
		}
		f.booted = func() time.Time { return boot }
		for _, step := range []struct {
			back   time.Duration // by which the clock is put back before it is read
			prints []string
		}{
			{time.Hour, []string{"10:00", "10:01", "09:30", "09:31"}}, {0, []string{"09:32"}},
			{3 * time.Hour, []string{"10:01", "10:02", "08:00", "09:00"}}, {0, nil}, {0, []string{"10:02", "10:03"}},
		} {
			boot = boot.Add(-step.back)
			for _, at := range step.prints {
				log += fmt.Sprintf(`{"log":"%s %d\n","stream":"stdout","time":"2026-01-01T%s:00.000000001Z"}`+"\n", at, i, at)
				want += fmt.Sprintln(at, i)
			}
			if err := os.WriteFile(made.Container.LogPath, []byte(log), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := f.read(false); err != nil {
				t.Fatal(err)
			}
			if got := printed(t, &again, logs.Stdout); got != want {
				t.Fatalf("got %q, want %q", got, want)
			}
		}
		f.abandon()
	}
}

// logOf is the log of a container, and answers requests for it as engines do. Its
// clock is one that a test can set.
type logOf struct {
	mu        sync.Mutex
	all       []message
	more      chan struct{} // closed when all has grown; nil: requests are answered with what there is
	now       time.Time
	forward   time.Duration // by which the clock was put forward
	precision time.Duration // of the times that it tells
	exclusive bool          // messages of the time since are left out, as by podman
	prefix    bool          // only those before the first that is late enough are left out
	cut       int           // this many messages are sent; 0 for all
}

type message struct {
	stream int
	at     time.Time
	text   string
}

// ServeHTTP answers a request for the log.
func (l *logOf) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Api-Version", "1.44")
	if !strings.HasSuffix(r.URL.Path, "/logs") {
		return // a ping
	}
	var since time.Time
	if s, ns, ok := strings.Cut(r.URL.Query().Get("since"), "."); ok {
		sec, _ := strconv.ParseInt(s, 10, 64)
		nsec, _ := strconv.ParseInt(ns, 10, 64)
		since = time.Unix(sec, nsec)
	}
	follows := r.URL.Query().Get("follow") == "1"
	for next, sent, late := 0, 0, false; ; {
		l.mu.Lock()
		all, more := l.all[next:], l.more
		l.mu.Unlock()
		next += len(all)
		for _, m := range all {
			out := m.at.Before(since) || l.exclusive && m.at.Equal(since)
			if out && !(late && l.prefix) {
				continue
			}
			late = true
			if sent++; l.cut > 0 && sent > l.cut {
				return
			}
			_, _ = w.Write(frame(m, l.precision))
		}
		if !follows {
			return
		}
		_ = http.NewResponseController(w).Flush()
		select {
		case <-more:
		case <-r.Context().Done():
			return
		}
	}
}

// print puts a message in line.
func (l *logOf) print(m message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, m)
	if l.more != nil {
		close(l.more)
		l.more = make(chan struct{})
	}
}

// frame returns a message as engines send it.
func frame(m message, precision time.Duration) []byte {
	b := append(m.at.Truncate(precision).AppendFormat(nil, time.RFC3339Nano+" "), m.text...)
	head := []byte{byte(m.stream + 1), 0, 0, 0, 0, 0, 0, 0}
	binary.BigEndian.PutUint32(head[4:], uint32(len(b)))
	return append(head, b...)
}

// copies returns a driver for an engine that is only a log, and a task to whose
// files it copies.
func copies(t *testing.T, l http.Handler) (*Driver, *driver.Task) {
	server := httptest.NewServer(l)
	t.Cleanup(server.Close)
	c := Defaults()
	c.Endpoint, c.Log = "tcp://"+server.Listener.Addr().String(), slog.New(slog.NewTextHandler(io.Discard, nil))
	s := drivertest.Driver{Supervisor: isolatetest.Command()}
	tk := s.Alloc(t)(1, nil)
	tk.Logs = supervise.Logs{MaxFiles: 1000, MaxSize: 200}
	return New(c), tk
}

// Whatever an engine leaves out of its answers, and whenever the clock is put
// back or forward, the connection breaks and the agent is killed, each message is
// in the files once.
func TestAnyClockAndAnyEngine(t *testing.T) {
	var l *logOf
	d, tk := copies(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { l.ServeHTTP(w, r) }))
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		task := *tk
		task.Name = fmt.Sprint("task", n)
		opened := func(fresh bool) *follower {
			f := &follower{d: d, id: "x", file: "log-" + task.Name + ".json", ctx: context.Background()}
			f.booted = func() time.Time { return time.Unix(1e9, 0).Add(l.forward) }
			if err := f.open(&task, fresh); err != nil {
				t.Fatal(err)
			}
			return f
		}
		read := func(f *follower) {
			if err := f.read(false); err != nil {
				t.Fatal(err)
			}
		}
		save := func(f *follower) {
			if err := f.save(); err != nil {
				t.Fatal(err)
			}
		}
		l = &logOf{now: time.Unix(2e9, 0).UTC(), precision: 1}
		l.exclusive, l.prefix = rapid.Bool().Draw(t, "exclusive"), rapid.Bool().Draw(t, "prefix")
		if rapid.Bool().Draw(t, "seconds") {
			l.precision = time.Second
		}
		var want [2]string
		f := opened(true)
		defer func() { f.close() }()
		t.Repeat(map[string]func(*rapid.T){
			"print": func(t *rapid.T) {
				i := rapid.IntRange(0, 1).Draw(t, "stream")
				text := fmt.Sprintln("message", len(l.all))
				l.print(message{i, l.now, text})
				want[i] += text
			},
			"pass": func(t *rapid.T) {
				l.now = l.now.Add(rapid.SampledFrom([]time.Duration{1, time.Millisecond, 300 * time.Millisecond, time.Second, 7 * time.Second, time.Minute}).Draw(t, "time"))
			},
			"set": func(t *rapid.T) {
				by := time.Duration(rapid.IntRange(-100, 50).Draw(t, "by")) * rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second, time.Minute}).Draw(t, "unit")
				l.cut = 0
				if by > 0 {
					read(f)
				}
				l.now, l.forward = l.now.Add(by), l.forward+by
				if by > 0 { // as whenClockIsSet sees to it
					read(f)
					save(f)
				}
			},
			"read": func(t *rapid.T) {
				l.cut = rapid.IntRange(0, 5).Draw(t, "cut")
				read(f)
			},
			"save": func(t *rapid.T) {
				save(f)
			},
			"kill": func(t *rapid.T) {
				f.close()
				f = opened(false)
			},
		})
		l.cut = 0
		read(f)
		for i, name := range []string{logs.Stdout, logs.Stderr} {
			var got bytes.Buffer
			dir, err := task.AllocDir.Sub(logs.Dir)
			if err != nil {
				t.Fatal(err)
			}
			err = logs.Stream(context.Background(), dir, logs.Request{Task: task.Name, Stream: name}, func(f *op.StreamFrame) error { got.Write(f.Data); return nil })
			_ = dir.Close()
			if err != nil || got.String() != want[i] {
				t.Fatalf("%s: %v: got %q, want %q", name, err, &got, want[i])
			}
		}
	})
}

// pipes is a listener whose connections are pipes.
type pipes struct {
	net.Listener
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	c, s := net.Pipe()
	p.conns <- s
	return c, nil
}

func (p *pipes) Close() error   { close(p.done); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{} }

// A log that is followed from a time on is asked for again when the clock was put
// back before that time: the engine would leave out what is printed until then.
func TestTheClockIsPutBackWhileALogIsFollowed(t *testing.T) {
	_, tk := copies(t, http.NotFoundHandler())
	synctest.Test(t, func(t *testing.T) {
		l := &logOf{more: make(chan struct{}), precision: 1}
		p := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
		server := http.Server{Handler: l}
		go func() { _ = server.Serve(p) }()
		defer server.Close()
		engine, err := client.New(client.WithHost("tcp://engine:1"), client.WithDialContext(p.dial))
		if err != nil {
			t.Fatal(err)
		}
		defer engine.Close()
		d := New(Defaults())
		d.engine = engine
		var back atomic.Int64
		started := time.Now()
		now := func() time.Time { return time.Now().Add(-time.Duration(back.Load())) }
		f := &follower{d: d, id: "x", file: "log.json", booted: func() time.Time { return started.Add(-time.Duration(back.Load())) }, done: make(chan struct{})}
		if err := f.open(tk, true); err != nil {
			t.Fatal(err)
		}
		f.ctx, f.cancel = context.WithCancel(t.Context())
		l.print(message{0, now(), "one\n"})
		if err := f.read(false); err != nil {
			t.Fatal(err)
		}
		f.run()
		for _, text := range []string{"two\n", "three\n"} {
			time.Sleep(time.Minute)
			back.Add(int64(time.Hour))
			l.print(message{0, now(), text})
		}
		time.Sleep(time.Minute)
		f.cancel()
		<-f.done
		if got := printed(t, tk, logs.Stdout); got != "one\ntwo\nthree\n" {
			t.Errorf("%q", got)
		}
	})
}

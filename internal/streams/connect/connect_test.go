package connect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"berth"
	_ "berth/internal/onethread"
	"berth/internal/saferoot"
	"berth/op"
)

// servers say what a test has them say.
type servers struct {
	answer *op.ConnectivityAnswer
	err    error
	leader bool // was asked for last
}

func (s *servers) Connectivity(_ context.Context, _ string, _ uint64, leader bool) (*op.ConnectivityAnswer, error) {
	s.leader = leader
	if s.err != nil {
		return nil, s.err
	}
	a := *s.answer
	return &a, nil
}

func (s *servers) ReportConnectivity(context.Context, string, uint64, string) error { return nil }

// machine is the directory of an allocation, and what an agent recorded of it.
type machine struct {
	*servers
	dir     *saferoot.Root
	record  []byte
	full    bool // nothing can be recorded
	changes int
}

func newMachine(t interface {
	Fatal(...any)
	Cleanup(func())
}, path string) *machine {
	dir, err := saferoot.Open(path)
	if err == nil {
		err = dir.Mkdir(shared, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	return &machine{servers: &servers{}, dir: dir}
}

func (m *machine) open(t interface{ Fatal(...any) }) *Keeper {
	k, err := Open(Config{
		Servers: m, Dir: m.dir, Restored: m.record, Changed: func() { m.changes++ }, Log: slog.New(slog.DiscardHandler),
		Save: func(b []byte) error {
			if m.full {
				return errors.New("no space")
			}
			m.record = b
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func (m *machine) file(t interface{ Fatal(...any) }) *op.ConnectivityFile {
	b, err := os.ReadFile(filepath.Join(m.dir.Path(), shared, name))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	f := new(op.ConnectivityFile)
	if err == nil {
		err = json.Unmarshal(b, f)
	}
	if err != nil {
		t.Fatal(err, string(b))
	}
	return f
}

// says makes an answer; what names its contents.
func says(index uint64, what int) *op.ConnectivityAnswer {
	f := &op.ConnectivityFile{}
	f.PE.UID, f.PE.LaunchCount, f.Job.ID = "p-0000000000000001-00", 1, uint64(what)
	return &op.ConnectivityAnswer{File: f, Mark: fmt.Sprint(what), Meta: op.Meta{Index: index}}
}

// Whatever servers say, whoever of them lags, whatever cannot be written, and
// however often the agent ends: a version stands for one contents for ever, it
// grows whenever those change and at no other time, and the file is what was
// last taken from servers, never what is older.
func TestVersionsGrow(t *testing.T) {
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		path := filepath.Join(dir, fmt.Sprint(n))
		if err := os.Mkdir(path, 0o755); err != nil {
			rt.Fatal(err)
		}
		m := newMachine(rt, path)
		k := m.open(rt)
		of := map[uint64]uint64{} // contents of each version that a task could see
		index, version, contents := uint64(10), uint64(0), uint64(0)
		rt.Repeat(map[string]func(*rapid.T){
			"answer": func(rt *rapid.T) {
				index += uint64(rapid.IntRange(0, 2).Draw(rt, "later"))
				m.answer = says(index, rapid.IntRange(1, 3).Draw(rt, "what"))
				if _, err := k.poll(rt.Context()); err != nil {
					if !m.full {
						rt.Fatal(err)
					}
					return
				}
				contents = m.answer.File.Job.ID
			},
			"lag": func(rt *rapid.T) {
				m.answer = says(index-uint64(rapid.IntRange(1, 5).Draw(rt, "behind")), rapid.IntRange(1, 3).Draw(rt, "what"))
				if k.index <= m.answer.Index {
					rt.Skip("it is news to this agent")
				}
				if _, err := k.poll(rt.Context()); err != nil {
					rt.Fatal(err)
				}
			},
			"fail": func(rt *rapid.T) {
				m.err = berth.Errorf(berth.Unavailable, "nobody")
				if _, err := k.poll(rt.Context()); err == nil {
					rt.Fatal("a failure is taken for an answer")
				}
				m.err = nil
			},
			"restart": func(rt *rapid.T) { k = m.open(rt) },
			"disk":    func(*rapid.T) { m.full = !m.full },
			"tell":    func(*rapid.T) { k.MarkNotified(k.Version()) },
			"spoil": func(rt *rapid.T) { // a task writes over its file, and the agent is restarted
				b := rapid.SampledFrom([]string{"", "nonsense", `{"Version":3}`, `{"Version":18446744073709551615}`}).Draw(rt, "bytes")
				if err := os.WriteFile(filepath.Join(path, shared, name), []byte(b), 0o644); err != nil {
					rt.Fatal(err)
				}
				k = m.open(rt)
				m.full = false
				m.answer = says(index, int(max(1, contents)))
				if _, err := k.poll(rt.Context()); err != nil {
					rt.Fatal(err)
				}
				contents = max(1, contents)
			},
			"": func(rt *rapid.T) {
				f := m.file(rt)
				if f == nil {
					return
				}
				if f.Version < version || f.Version != k.Version() {
					rt.Fatalf("version %d after %d; the keeper says %d", f.Version, version, k.Version())
				}
				if was, ok := of[f.Version]; ok && was != f.Job.ID {
					rt.Fatalf("version %d was %d, and is %d", f.Version, was, f.Job.ID)
				}
				if f.Job.ID != contents {
					rt.Fatalf("the file says %d, and servers said %d", f.Job.ID, contents)
				}
				if k.Notified() > k.Version() {
					rt.Fatalf("told of version %d, and there is %d", k.Notified(), k.Version())
				}
				of[f.Version], version = f.Job.ID, f.Version
			},
		})
	})
}

// What says the same is no version; nobody is told of it.
func TestTheSameIsNoVersion(t *testing.T) {
	m := newMachine(t, t.TempDir())
	k := m.open(t)
	if k.Version() != 0 || k.Env() != nil {
		t.Error("there are connections before servers were heard")
	}
	m.answer = says(10, 1)
	for i := range 3 {
		m.answer.Index = uint64(10 + i)
		if _, err := k.poll(t.Context()); err != nil {
			t.Fatal(err)
		}
		if m.leader != (i == 0) {
			t.Errorf("question %d goes to the leader: %v", i, m.leader)
		}
	}
	if k.Version() != 1 || m.changes != 1 {
		t.Errorf("version %d, %d changes", k.Version(), m.changes)
	}
	if env := k.Env(); env["STREAM_JOB_ID"] != "1" || env["STREAM_LAUNCH_COUNT"] != "1" || len(env) != 14 {
		t.Errorf("%v", env)
	}
}

// The environment is that of the launch, whatever the job comes to while the
// allocation is there, also for another agent.
func TestTheEnvironmentOfTheLaunch(t *testing.T) {
	m := newMachine(t, t.TempDir())
	k := m.open(t)
	for later := range uint64(3) {
		m.answer = says(10+later, 1)
		f := m.answer.File
		f.Job.Generation, f.PE.ContentID, f.PE.MaxChannels = 4+later, fmt.Sprint("sha256:", later), 3+int(later)
		if _, err := k.poll(t.Context()); err != nil {
			t.Fatal(err)
		}
		if now := m.file(t); now.Job.Generation != 4+later || now.PE.MaxChannels != 3+int(later) {
			t.Errorf("the file says %+v", now)
		}
		for range 2 { // this agent, and the next
			if env := k.Env(); env["STREAM_GENERATION"] != "4" || env["STREAM_CONTENT_ID"] != "sha256:0" || env["STREAM_MAX_CHANNELS"] != "3" {
				t.Errorf("the environment is %v", env)
			}
			k = m.open(t)
		}
	}
}

// A state that was restored from a backup is believed after a while, as by the
// agent as a whole; then the leader is asked.
func TestARestoredStateIsBelieved(t *testing.T) {
	path := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t, path)
		k := m.open(t)
		m.answer = says(100, 1)
		if _, err := k.poll(t.Context()); err != nil {
			t.Fatal(err)
		}
		m.answer = says(50, 2)
		began := time.Now()
		for k.Version() == 1 {
			again, err := k.poll(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(again)
		}
		if d := time.Since(began); d < staleGrace || d > staleGrace+2*time.Second || !m.leader || m.file(t).Job.ID != 2 {
			t.Errorf("after %v, of the leader %v: %+v", d, m.leader, m.file(t))
		}
	})
}

// The address at which tasks report is theirs from the moment that it is chosen:
// nobody takes it before they are listened to, neither another allocation nor
// another program.
func TestAnAddressIsHeldFromTheStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), strings.Repeat("d", maxSocketPath))
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	m := newMachine(t, path)
	k := m.open(t)
	u, err := url.Parse(k.api)
	if err != nil || u.Scheme != "http" {
		t.Fatalf("%s, %v", k.api, err)
	}
	if l, err := net.Listen("tcp", u.Host); err == nil {
		l.Close()
		t.Errorf("%s can be taken", u.Host)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); k.serve(ctx) }()
	resp, err := http.Get(k.api + "/nothing")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusNotFound {
		t.Error(resp.Status)
	}
	cancel()
	<-ended
	again := m.open(t) // the next agent listens where tasks were told
	if l, err := again.listen(); err != nil || again.api != k.api {
		t.Errorf("%s, %v", again.api, err)
	} else {
		l.Close()
	}
}

// A web page cannot report for a task, even one that knows the token: only a
// TCP port can be reached from a browser.
func TestWebPagesCannotReport(t *testing.T) {
	for _, c := range []struct {
		port   int
		host   string
		origin string
		code   int
	}{
		{4000, "127.0.0.1:4000", "", 400}, // the report itself is empty
		{4000, "127.0.0.1:4000", "http://evil.example", 403},
		{4000, "evil.example:4000", "", 403},
		{0, "berth", "", 400}, // programs put anything into the requests to a socket
	} {
		k := newMachine(t, t.TempDir()).open(t)
		k.record.Port = c.port
		path := reportPath
		if c.port != 0 {
			path = "/" + k.record.Token + path
		}
		r := httptest.NewRequest("PUT", path, strings.NewReader("{}"))
		r.Host = c.host
		if c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		w := httptest.NewRecorder()
		k.handler().ServeHTTP(w, r)
		if w.Code != c.code {
			t.Errorf("port %d, host %s, origin %q: %d %s", c.port, c.host, c.origin, w.Code, w.Body)
		}
	}
}

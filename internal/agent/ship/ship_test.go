package ship

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	_ "berth/internal/onethread" // virtual time under the race detector
	"berth/op"
)

var silent = slog.New(slog.DiscardHandler)

func testLabels() *Labels {
	return &Labels{Namespace: "team", Job: "web", Group: "g", Task: "t", AllocID: "11112222-aaaa", NodeID: "n1", NodeName: "node", Stream: "stdout"}
}

// Whatever the frames, the lines are those of the text, and a reader that goes on
// at any position gets those that follow.
func TestLinesDoNotDependOnFrames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.SliceOfN(rapid.StringMatching(`[a-z\r ]{1,12}`), 0, 20).Draw(t, "lines")
		whole := strings.Join(texts, "\n")
		if rapid.Bool().Draw(t, "ended") {
			whole += "\n"
		}
		var want []string
		for _, s := range texts {
			if s = strings.TrimSuffix(s, "\r"); s != "" {
				want = append(want, s)
			}
		}
		files := rapid.IntRange(1, 3).Draw(t, "files")
		read := func(from Position) (got []string, at []Position) {
			l := liner{at: from}
			put := func(text string, p Position) error {
				got, at = append(got, text), append(at, p)
				return nil
			}
			size := len(whole)/files + 1
			for i := range files {
				name := fmt.Sprintf("t.stdout.%d", i)
				part := whole[min(len(whole), i*size):min(len(whole), (i+1)*size)]
				offset := 0
				if from.File != "" && indexOf(from.File) > i {
					continue
				} else if from.File == name {
					offset = int(from.Offset)
				}
				for offset < len(part) {
					n := rapid.IntRange(1, len(part)-offset).Draw(t, "frame")
					if _, err := l.add(&op.StreamFrame{File: name, Offset: int64(offset), Data: []byte(part[offset : offset+n])}, put); err != nil {
						t.Fatal(err)
					}
					offset += n
				}
			}
			if err := l.flush(put); err != nil {
				t.Fatal(err)
			}
			return got, at
		}
		got, at := read(Position{})
		if strings.Join(got, "|") != strings.Join(want, "|") {
			t.Fatalf("got %q, want %q", got, want)
		}
		for i, p := range at {
			if rest, _ := read(p); strings.Join(rest, "|") != strings.Join(want[i+1:], "|") {
				t.Fatalf("from %+v: %q, want %q", p, rest, want[i+1:])
			}
		}
	})
}

func TestLongLinesAreSentInPieces(t *testing.T) {
	var got []int
	l := liner{}
	_, err := l.add(&op.StreamFrame{File: "t.stdout.0", Data: []byte(strings.Repeat("x", 2*MaxLine+10) + "\ny\n")}, func(text string, _ Position) error {
		got = append(got, len(text))
		return nil
	})
	if err != nil || fmt.Sprint(got) != fmt.Sprint([]int{MaxLine, MaxLine, 10, 1}) {
		t.Errorf("%v, %v", got, err)
	}
}

// memory is a sink that can be away.
type memory struct {
	mu    sync.Mutex
	lines []string
	err   error
	calls int
}

func (m *memory) Send(_ context.Context, lines []Line) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	if m.err != nil {
		return m.err
	}
	for _, l := range lines {
		m.lines = append(m.lines, l.Text)
	}
	return nil
}

func (m *memory) Close() error { return nil }

func (m *memory) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
}

func (m *memory) text() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Join(m.lines, " ")
}

// frames is a stream that has the frames and goes on until ctx ends.
func frames(data ...string) Read {
	return func(ctx context.Context, from Position, emit func(*op.StreamFrame) error) error {
		offset := int64(0)
		for _, d := range data {
			if offset >= from.Offset {
				if err := emit(&op.StreamFrame{File: "alloc/logs/t.stdout.0", Offset: offset, Data: []byte(d)}); err != nil {
					return err
				}
			}
			offset += int64(len(d))
		}
		<-ctx.Done()
		return ctx.Err()
	}
}

// A sink that is away gets everything when it is back, and a new shipper goes on
// where the sink was.
func TestASinkThatIsAway(t *testing.T) {
	path := filepath.Join(t.TempDir(), "positions")
	synctest.Test(t, func(t *testing.T) {
		positions, err := OpenPositions(path)
		if err != nil {
			t.Fatal(err)
		}
		sink := &memory{err: errors.New("away")}
		s := New("a", sink, positions, silent)
		ctx, cancel := context.WithCancel(t.Context())
		var wait sync.WaitGroup
		wait.Go(func() { _ = s.Run(ctx) })
		wait.Go(func() { _ = s.Follow(ctx, testLabels(), frames("one\n", "two\n")) })
		time.Sleep(10 * time.Minute)
		if got := sink.text(); got != "" || s.Failed.Load() < 10 || s.Waiting.Load() != 2 || s.Lines.Load() != 0 {
			t.Errorf("while it is away: %q, %d failed, %d wait", got, s.Failed.Load(), s.Waiting.Load())
		}
		if n := s.Failed.Load(); n > 40 {
			t.Errorf("it was asked %d times in ten minutes", n)
		}
		sink.fail(nil)
		time.Sleep(time.Minute)
		if got := sink.text(); got != "one two" || s.Waiting.Load() != 0 || s.Lines.Load() != 2 {
			t.Errorf("when it is back: %q", got)
		}
		cancel()
		wait.Wait()
		if err := positions.Save(); err != nil {
			t.Fatal(err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		positions, err := OpenPositions(path)
		if err != nil {
			t.Fatal(err)
		}
		sink := &memory{}
		s := New("a", sink, positions, silent)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go s.Run(ctx)
		go s.Follow(ctx, testLabels(), frames("one\n", "two\n", "three\n"))
		time.Sleep(time.Minute)
		if got := sink.text(); got != "three" {
			t.Errorf("the next shipper sent %q", got)
		}
		positions.Forget(func(string) bool { return false })
		if at := positions.Get(Key{"a", testLabels().AllocID, "t", "stdout"}); at != (Position{}) {
			t.Errorf("forgotten, it is at %+v", at)
		}
		cancel()
		synctest.Wait()
	})
}

// Lines that a sink refuses for good are counted and hold up nothing. Files that
// were rotated away are counted.
func TestWhatIsLostIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		positions, _ := OpenPositions(filepath.Join(t.TempDir(), "positions"))
		sink := &memory{err: fmt.Errorf("%w: too old", ErrRefused)}
		s := New("a", sink, positions, silent)
		ctx, cancel := context.WithCancel(t.Context())
		go s.Run(ctx)
		go s.Follow(ctx, testLabels(), func(_ context.Context, _ Position, emit func(*op.StreamFrame) error) error {
			for i, f := range []int{0, 1, 5} {
				if err := emit(&op.StreamFrame{File: fmt.Sprintf("alloc/logs/t.stdout.%d", f), Data: fmt.Appendf(nil, "line %d\n", i)}); err != nil {
					return err
				}
			}
			return nil
		})
		time.Sleep(time.Minute)
		if s.Refused.Load() != 3 || s.Lost.Load() != 3 || s.Waiting.Load() != 0 {
			t.Errorf("%d lines refused, %d files lost, %d wait", s.Refused.Load(), s.Lost.Load(), s.Waiting.Load())
		}
		cancel()
		synctest.Wait()
	})
}

func TestDamagedPositionsAreAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "positions")
	p, err := OpenPositions(path)
	if err != nil {
		t.Fatal(err)
	}
	p.set(Key{"a", "b", "c", "d"}, Position{"f.0", 7})
	if err := p.Save(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range b {
		bad := append([]byte(nil), b...)
		bad[i] ^= 1
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenPositions(path); err == nil {
			t.Fatalf("byte %d changed: no error", i)
		}
	}
}

// received starts a server that keeps the last request.
func received(t *testing.T, code int) (url string, last func() (path string, header http.Header, body string)) {
	var mu sync.Mutex
	var path, body string
	var header http.Header
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		zip, err := gzip.NewReader(r.Body)
		if err != nil {
			t.Error(err)
			return
		}
		b, _ := io.ReadAll(zip)
		mu.Lock()
		path, header, body = r.URL.Path, r.Header, string(b)
		mu.Unlock()
		w.WriteHeader(code)
		io.WriteString(w, "what the sink says")
	}))
	t.Cleanup(s.Close)
	return s.URL, func() (string, http.Header, string) {
		mu.Lock()
		defer mu.Unlock()
		return path, header, body
	}
}

var when = time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)

func TestWhatSinksSend(t *testing.T) {
	lines := []Line{{testLabels(), when, `hello "you"`}}
	lines = append(lines, Line{lines[0].Labels, when, "<b>"})
	for kind, x := range map[string]struct{ path, body string }{
		HTTP: {"/", `[{"alloc_id":"11112222-aaaa","env":"test","group":"g","job":"web","message":"hello \"you\"","namespace":"team","node_id":"n1","node_name":"node","stream":"stdout","task":"t","time":"2026-01-02T03:04:05.000006Z"},` +
			`{"alloc_id":"11112222-aaaa","env":"test","group":"g","job":"web","message":"<b>","namespace":"team","node_id":"n1","node_name":"node","stream":"stdout","task":"t","time":"2026-01-02T03:04:05.000006Z"}]`},
		Loki: {"/loki/api/v1/push", `{"streams":[{"stream":{"env":"test","group":"g","job":"web","namespace":"team","node_name":"node","stream":"stdout","task":"t"},"values":[` +
			`["1767323045000006000","hello \"you\"",{"alloc_id":"11112222-aaaa","node_id":"n1"}],["1767323045000006000","<b>",{"alloc_id":"11112222-aaaa","node_id":"n1"}]]}]}`},
		OTLP: {"/v1/logs", `{"resourceLogs":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"web.g.t"}},{"key":"service.namespace","value":{"stringValue":"team"}},` +
			`{"key":"service.instance.id","value":{"stringValue":"11112222-aaaa"}},{"key":"host.id","value":{"stringValue":"n1"}},{"key":"host.name","value":{"stringValue":"node"}},` +
			`{"key":"berth.job","value":{"stringValue":"web"}},{"key":"berth.group","value":{"stringValue":"g"}},{"key":"berth.task","value":{"stringValue":"t"}},{"key":"env","value":{"stringValue":"test"}}]},` +
			`"scopeLogs":[{"scope":{"name":"berth"},"logRecords":[` +
			`{"observedTimeUnixNano":"1767323045000006000","body":{"stringValue":"hello \"you\""},"attributes":[{"key":"log.iostream","value":{"stringValue":"stdout"}}]},` +
			`{"observedTimeUnixNano":"1767323045000006000","body":{"stringValue":"<b>"},"attributes":[{"key":"log.iostream","value":{"stringValue":"stdout"}}]}]}]}]}`},
	} {
		url, last := received(t, http.StatusNoContent)
		c := Config{Type: kind, Address: url, Labels: map[string]string{"env": "test"}, Headers: map[string]string{"X-Scope-OrgID": "me"}}
		sink, err := c.Open("host")
		if err != nil {
			t.Fatal(err)
		}
		if err := sink.Send(t.Context(), lines); err != nil {
			t.Fatal(err)
		}
		path, header, body := last()
		var got, want any
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(x.body), &want); err != nil {
			t.Fatal(err)
		}
		g, _ := json.Marshal(got)
		w, _ := json.Marshal(want)
		if path != x.path || string(g) != string(w) || header.Get("X-Scope-OrgID") != "me" {
			t.Errorf("%s: %s\n%s\nwant %s\n%s", kind, path, g, x.path, w)
		}
		sink.Close()
	}
}

func TestAnswersOfSinks(t *testing.T) {
	for code, refused := range map[int]bool{400: true, 413: true, 401: false, 403: false, 404: false, 408: false, 429: false, 500: false, 503: false} {
		url, _ := received(t, code)
		sink, err := (&Config{Type: HTTP, Address: url}).Open("host")
		if err != nil {
			t.Fatal(err)
		}
		err = sink.Send(t.Context(), []Line{{testLabels(), when, "x"}})
		if err == nil || errors.Is(err, ErrRefused) != refused || !strings.Contains(err.Error(), "what the sink says") {
			t.Errorf("%d: %v", code, err)
		}
		sink.Close()
	}
}

func TestSyslog(t *testing.T) {
	labels := testLabels()
	labels.Stream, labels.Group = "stderr", `a]"\`
	lines := []Line{{labels, when, "one\x1b[0m"}, {labels, when, "two"}}
	want := func(text string) string {
		return `<11>1 2026-01-02T03:04:05.000006Z host web/t 11112222 - [berth@32473 namespace="team" job="web" group="a\]\"\\" task="t" stream="stderr" alloc_id="11112222-aaaa" node_id="n1" node_name="node"] ` + text
	}
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	send := func(address string) Sink {
		sink, err := (&Config{Type: Syslog, Address: address}).Open("host")
		if err != nil {
			t.Fatal(err)
		}
		if err := sink.Send(t.Context(), lines); err != nil {
			t.Fatal(err)
		}
		return sink
	}
	defer send("udp://" + udp.LocalAddr().String()).Close()
	buf := make([]byte, 1<<16)
	for _, text := range []string{"one[0m", "two"} {
		n, _, err := udp.ReadFrom(buf)
		if err != nil || string(buf[:n]) != want(text) {
			t.Errorf("%s\nwant %s (%v)", buf[:n], want(text), err)
		}
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	got := make(chan string, 1)
	go func() {
		conn, err := tcp.Accept()
		if err != nil {
			got <- err.Error()
			return
		}
		b, _ := io.ReadAll(conn)
		got <- string(b)
	}()
	send("tcp://" + tcp.Addr().String()).Close()
	if text, whole := <-got, fmt.Sprintf("%d %s%d %s", len(want("one[0m")), want("one[0m"), len(want("two")), want("two")); text != whole {
		t.Errorf("%s\nwant %s", text, whole)
	}
}

func TestFilesAreRotated(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.json")
	sink := &fileSink{path: path, size: 500, keep: 2}
	for i := range 20 {
		if err := sink.Send(t.Context(), []Line{{testLabels(), when, fmt.Sprint("line ", i)}}); err != nil {
			t.Fatal(err)
		}
	}
	sink.Close()
	var got []string
	for _, name := range []string{path + ".2", path + ".1", path} {
		b, err := os.ReadFile(name)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			var o map[string]string
			if err := json.Unmarshal([]byte(line), &o); err != nil {
				t.Fatal(err)
			}
			got = append(got, strings.TrimPrefix(o["message"], "line "))
		}
	}
	if left, _ := filepath.Glob(path + "*"); len(left) > 3 {
		t.Errorf("%q", left)
	}
	if last := got[len(got)-1]; last != "19" || len(got) < 6 {
		t.Errorf("%q", got)
	}
}

func TestConfigurations(t *testing.T) {
	for _, x := range []struct {
		c    Config
		want string
	}{
		{Config{Type: File, Address: "/var/log/x.json"}, ""},
		{Config{Type: Loki, Address: "http://127.0.0.1:3100"}, ""},
		{Config{Type: Syslog, Address: "unix:///dev/log"}, ""},
		{Config{Type: Syslog, Address: "udp://127.0.0.1:514"}, ""},
		{Config{Type: "kafka"}, `type: unknown sink "kafka": want one of file, http, loki, otlp, syslog`},
		{Config{Type: File, Address: "x"}, `address: "x" must be the absolute path of a file`},
		{Config{Type: OTLP, Address: "127.0.0.1:4318"}, `address: "127.0.0.1:4318" must be a URL with one of http, https, such as http://127.0.0.1:3100`},
		{Config{Type: Syslog, Address: "udp://127.0.0.1"}, `address: "udp://127.0.0.1" must name a host and port, or a path, such as udp://127.0.0.1:514`},
		{Config{Type: HTTP, Address: "http://"}, `address: "http://" must name a host and port, or a path, such as http://127.0.0.1:3100`},
	} {
		got := ""
		if err := x.c.Check(); err != nil {
			got = err.Error()
		}
		if got != x.want {
			t.Errorf("%+v: %q, want %q", x.c, got, x.want)
		}
	}
	c := Config{Namespaces: []string{"team-*"}, Jobs: []string{"web*"}}
	optional := Config{Optional: true}
	for i, got := range []bool{
		c.Wants("a", "team-1", "web-2", nil), !c.Wants("a", "prod", "web", nil), !c.Wants("a", "team-1", "db", nil), !c.Wants("a", "team-1", "web", []string{}),
		c.Wants("a", "team-1", "web", []string{"b", "a"}), !optional.Wants("o", "x", "y", nil), optional.Wants("o", "x", "y", []string{"o"}),
	} {
		if !got {
			t.Errorf("case %d is wrong", i)
		}
	}
}

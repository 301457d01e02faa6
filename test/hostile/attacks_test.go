package hostile

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"berth/test/bed"
)

// attack is one kind of hostile traffic. run attacks server number i until ctx
// ends.
type attack struct {
	name string
	run  func(ctx context.Context, x *attempt, s *server, i int)
}

// attacks are all of them, in the order in which they are played.
var attacks = []attack{
	{"requests that a web page can make", webPage},
	{"idle connections", idle},
	{"connections that send a byte now and then", slow},
	{"bodies that are costly to take in", trees},
	{"large valid jobs", largeJobs},
	{"job files that are costly to parse", jobFiles},
	{"a snapshot without an end of line", snapshot},
	{"bodies, headers and addresses that are too large", tooLarge},
	{"requests whose client leaves", leaving},
	{"watchers of lists while jobs change", watchers},
	{"jobs with monstrous constraints", constraints},
	{"more writes than the disk takes", writes},
	{"noise at the RPC port", rpcNoise},
	{"frames that claim to be large", rpcClaims},
	{"noise at the gossip port", gossipNoise},
}

// attempt is one attack on a cluster.
type attempt struct {
	*cluster
	t        *testing.T
	mu       sync.Mutex
	refusals map[string]int // how often the attack got which answer
}

// address returns an address of loopback for an attacker: not the one that users
// have.
func address(server, k int) string { return fmt.Sprintf("127.0.%d.%d", 10+server, 2+k) }

// attacker is a client that calls from an address and keeps no connection.
func attacker(from string) *http.Client {
	d := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	return &http.Client{Transport: &http.Transport{DialContext: d.DialContext, DisableKeepAlives: true}}
}

func read(resp *http.Response) string {
	defer resp.Body.Close()
	b, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return string(b)
}

// note counts an answer.
func (x *attempt) note(what string) {
	x.mu.Lock()
	x.refusals[what]++
	x.mu.Unlock()
}

// send sends a request. A refusal must have one of the statuses and say what is
// wrong, or be one that leaderless allows. No answer at all counts as a refusal if
// the statuses hold 0.
func (x *attempt) send(ctx context.Context, c *http.Client, r *http.Request, allowed ...int) {
	resp, err := c.Do(r.WithContext(ctx))
	if ctx.Err() != nil {
		if err == nil {
			resp.Body.Close()
		}
		return
	}
	status, text := 0, ""
	if err == nil {
		status, text = resp.StatusCode, read(resp)
	}
	x.note(fmt.Sprint(status))
	if err == nil && leaderless(resp.Header) {
		return
	}
	for _, a := range allowed {
		if a == status {
			if status/100 > 2 && (len(strings.Fields(text)) < 2 || !utf8.ValidString(text)) {
				x.t.Errorf("%s %s: the refusal %d says only %q", r.Method, r.URL.Path, status, text)
			}
			return
		}
	}
	x.t.Errorf("%s %.80s: %d %.200s %v; allowed are %v", r.Method, r.URL, status, text, err, allowed)
}

// many runs f again and again, in n goroutines, until ctx ends.
func many(ctx context.Context, n int, f func(k int)) {
	var all sync.WaitGroup
	for k := range n {
		all.Go(func() {
			for ctx.Err() == nil {
				f(k)
			}
		})
	}
	all.Wait()
}

// request makes a request for a server.
func (s *server) request(method, path string, body io.Reader, headers ...string) *http.Request {
	r, err := http.NewRequest(method, "http://"+s.http+path, body)
	if err != nil {
		panic(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
			continue
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

func webPage(ctx context.Context, x *attempt, s *server, i int) {
	evil := strings.Replace(job, `"user"`, `"evil"`, 1)
	c := attacker(address(i, 0))
	many(ctx, 1, func(int) {
		for _, r := range []*http.Request{
			s.request("POST", "/v1/jobs", strings.NewReader(evil), "Content-Type", "text/plain", "Origin", "http://evil.example"),
			s.request("POST", "/v1/jobs", strings.NewReader(evil), "Content-Type", "text/plain", "Sec-Fetch-Site", "cross-site"),
			s.request("POST", "/v1/jobs", strings.NewReader(evil), "Content-Type", "application/json", "Origin", "null"),
			s.request("POST", "/v1/jobs", strings.NewReader(evil), "Host", "evil.example"),
			s.request("GET", "/v1/jobs", nil, "Host", "evil.example:4646"),
			s.request("GET", "/v1/event/stream", nil, "Origin", "http://evil.example"),
			s.request("PUT", "/v1/system/gc", nil, "Origin", "http://evil.example", "Sec-Fetch-Site", "cross-site"),
		} {
			x.send(ctx, c, r, http.StatusForbidden)
		}
	})
	ctx = context.WithoutCancel(ctx)
	var a bed.Answer
	var err error
	waited := bed.Until(ctx, "a server that knows its leader is asked for the job of the web page", func() string {
		if a, err = x.call(ctx, "GET", "/v1/job/evil", ""); err == nil && leaderless(a.Header) {
			return bed.Got(a.Text)
		}
		return ""
	})
	if waited != nil || err != nil || a.Code != http.StatusNotFound {
		x.t.Errorf("the job of the web page is there: %v %v %v", a, err, waited)
	}
}

// held keeps connections open until ctx ends, and dials again those that were
// closed.
func held(ctx context.Context, x *attempt, to, from string, n int, use func(net.Conn)) {
	d := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	many(ctx, n, func(int) {
		conn, err := d.DialContext(ctx, "tcp", to)
		if err != nil {
			x.note("not connected")
			pause(ctx, 50*time.Millisecond)
			return
		}
		defer context.AfterFunc(ctx, func() { conn.Close() })()
		defer conn.Close()
		x.note("connected")
		use(conn)
		pause(ctx, 50*time.Millisecond)
	})
}

// pause waits, but not past ctx.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// idle opens far more connections than are allowed, and says nothing on them.
func idle(ctx context.Context, x *attempt, s *server, i int) {
	var all sync.WaitGroup
	for k, port := range []string{s.http, s.rpc, s.serf} {
		all.Go(func() { held(ctx, x, port, address(i, k), 400, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }) })
	}
	all.Wait()
}

// slow sends a byte now and then of something that could be a request.
func slow(ctx context.Context, x *attempt, s *server, i int) {
	var all sync.WaitGroup
	for k, what := range []struct{ port, text string }{
		{s.http, "PUT /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100000\r\n\r\n{\"Job\""}, {s.rpc, "\x01\x82\xadServiceMethod"}, {s.serf, "\x06\x00\x00"},
	} {
		all.Go(func() {
			held(ctx, x, what.port, address(i, k), 150, func(c net.Conn) {
				for _, b := range []byte(what.text) {
					if _, err := c.Write([]byte{b}); err != nil {
						return
					}
					pause(ctx, 100*time.Millisecond)
				}
				_, _ = io.Copy(io.Discard, c)
			})
		})
	}
	all.Wait()
}

// tree is a body of 4 MB with as many keys as fit.
var tree = sync.OnceValue(func() []byte {
	var b bytes.Buffer
	b.WriteString(`{"Job": {"ID": "tree", "Meta": {`)
	for k := 0; b.Len() < 4_100_000; k++ {
		if k > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"%d":0`, k)
	}
	b.WriteString(`}}}`)
	return b.Bytes()
})

// trees sends such bodies from five addresses at once. They are no valid jobs.
func trees(ctx context.Context, x *attempt, s *server, i int) {
	body := tree()
	many(ctx, 60, func(k int) {
		x.send(ctx, attacker(address(i, k%5)), s.request("PUT", "/v1/jobs", bytes.NewReader(body)), 400, 413, 429)
	})
}

// manyKeys is a job that would be valid, had it fewer environment variables.
var manyKeys = sync.OnceValue(func() []byte {
	var b bytes.Buffer
	b.WriteString(`{"Job": {"ID": "keys", "Type": "batch", "TaskGroups": [{"Name": "g", "Count": 0, "Tasks": [{"Name": "t", "Driver": "raw_exec", "Config": {"command": "/bin/true"}, "Env": {`)
	for k := range 250_000 {
		if k > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"K%d":"v"`, k)
	}
	b.WriteString(`}}]}]}}`)
	return b.Bytes()
})

func largeJobs(ctx context.Context, x *attempt, s *server, i int) {
	body := manyKeys()
	many(ctx, 10, func(k int) {
		x.send(ctx, attacker(address(i, k%5)), s.request("PUT", "/v1/jobs", bytes.NewReader(body)), 400, 413, 429)
	})
}

// jobFiles has job files parsed that are valid HCL and as costly as they may be.
func jobFiles(ctx context.Context, x *attempt, s *server, i int) {
	file := `job "x" { meta { a = "` + strings.Repeat("${1+1}", 20_000) + `" } }`
	body := fmt.Sprintf(`{"JobHCL": %q}`, file)
	many(ctx, 60, func(k int) {
		x.send(ctx, attacker(address(i, k%5)), s.request("PUT", "/v1/jobs/parse", strings.NewReader(body)), 200, 400, 413, 429)
	})
}

// endless is a reader that never comes to an end of line, but ends after n bytes.
func endless(n int64) io.Reader { return io.LimitReader(zeros{}, n) }

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'x'
	}
	return len(b), nil
}

func snapshot(ctx context.Context, x *attempt, s *server, i int) {
	many(ctx, 2, func(k int) {
		x.send(ctx, attacker(address(i, k)), s.request("PUT", "/v1/operator/snapshot", endless(1<<30)), 400, 413, 429)
	})
}

func tooLarge(ctx context.Context, x *attempt, s *server, i int) {
	c := attacker(address(i, 0))
	many(ctx, 1, func(int) {
		x.send(ctx, c, s.request("PUT", "/v1/jobs", endless(20<<20)), 413, 429)
		x.send(ctx, c, s.request("PUT", "/v1/node/00000000-0000-0000-0000-000000000000/drain", endless(20<<20)), 413, 429)
		x.send(ctx, c, s.request("GET", "/v1/jobs?prefix="+strings.Repeat("x", 200<<10), nil), 414, 431)
		x.send(ctx, c, s.request("GET", "/v1/jobs", nil, "X-Large", strings.Repeat("x", 200<<10)), 431)
	})
}

// leaving sends costly requests and closes the connection at once.
func leaving(ctx context.Context, x *attempt, s *server, i int) {
	head := fmt.Sprintf("PUT /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n", len(tree()))
	d := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address(i, 0))}}
	many(ctx, 4, func(int) {
		conn, err := d.DialContext(ctx, "tcp", s.http)
		if err != nil {
			x.note("not connected")
			return
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		if _, err := io.WriteString(conn, head); err == nil {
			_, err = conn.Write(tree())
			x.note(map[bool]string{true: "sent and left", false: "cut off"}[err == nil])
		}
	})
}

// watchers wait for changes of the list of jobs, while jobs change.
func watchers(ctx context.Context, x *attempt, s *server, i int) {
	var all sync.WaitGroup
	c := attacker(address(i, 1))
	all.Go(func() {
		n := 0
		many(ctx, 1, func(int) {
			n++
			body := strings.Replace(job, `"user"`, fmt.Sprintf(`"watched-%d-%d"`, i, n%300), 1)
			x.send(ctx, c, s.request("PUT", "/v1/jobs", strings.NewReader(body)), 200, 429)
		})
	})
	many(ctx, 80, func(k int) {
		r := s.request("GET", "/v1/jobs?index=1&wait=60s", nil).WithContext(ctx)
		resp, err := attacker(address(i, 0)).Do(r)
		for ctx.Err() == nil && err == nil && resp.StatusCode == 200 {
			index := resp.Header.Get("X-Nomad-Index")
			_, _ = io.Copy(io.Discard, bufio.NewReader(resp.Body))
			resp.Body.Close()
			resp, err = attacker(address(i, 0)).Do(s.request("GET", "/v1/jobs?wait=60s&index="+index, nil).WithContext(ctx))
		}
		if err != nil || ctx.Err() != nil {
			return
		}
		if text := read(resp); resp.StatusCode != 429 && !leaderless(resp.Header) {
			x.t.Errorf("a watcher got %d %s", resp.StatusCode, text)
		}
		x.note(resp.Status)
		pause(ctx, 100*time.Millisecond)
	})
	all.Wait()
	for n := range 300 {
		_, _ = x.call(context.WithoutCancel(ctx), "DELETE", fmt.Sprintf("/v1/job/watched-%d-%d?purge=true", i, n), "")
	}
}

// constraints registers jobs whose constraints are as long as they may be, and
// purges them.
func constraints(ctx context.Context, x *attempt, s *server, i int) {
	body := func(id, operand, value string, n int) string {
		one := fmt.Sprintf(`{"LTarget": "${attr.kernel.version}", "Operand": %q, "RTarget": %q}`, operand, value)
		list := strings.Repeat(one+",", n-1) + one
		return fmt.Sprintf(`{"Job": {"ID": %q, "Type": "batch", "Constraints": [%s], "TaskGroups": [{"Name": "g", "Count": 50, "Tasks": [
			{"Name": "t", "Driver": "raw_exec", "Config": {"command": "/bin/true"}}]}]}}`, id, list)
	}
	c := attacker(address(i, 0))
	many(ctx, 1, func(int) {
		for k, b := range []string{
			body(fmt.Sprint("con-", i, "-0"), "version", strings.Repeat(">= 1.0, ", 75_000)+">= 1.0", 1),
			body(fmt.Sprint("con-", i, "-1"), "version", strings.Repeat(">= 1.0, ", 100)+"< 0.1", 200),
			body(fmt.Sprint("con-", i, "-2"), "semver", strings.Repeat(">= 1.0.0, ", 100)+"< 0.1.0", 200),
			body(fmt.Sprint("con-", i, "-3"), "set_contains_any", strings.Repeat("a,", 50_000)+"b", 10),
			body(fmt.Sprint("con-", i, "-4"), "regexp", "("+strings.Repeat("a?", 400)+")+$", 200),
		} {
			x.send(ctx, c, s.request("PUT", "/v1/jobs", strings.NewReader(b)), 200, 400, 413, 429)
			_ = k
		}
	})
	for k := range 5 {
		_, _ = x.call(context.WithoutCancel(ctx), "DELETE", fmt.Sprintf("/v1/job/con-%d-%d?purge=true", i, k), "")
	}
}

// writes registers jobs as fast as it can, from many connections.
func writes(ctx context.Context, x *attempt, s *server, i int) {
	many(ctx, 60, func(k int) {
		body := strings.Replace(job, `"user"`, fmt.Sprintf(`"flood-%d-%d"`, i, k), 1)
		x.send(ctx, attacker(address(i, k%3)), s.request("PUT", "/v1/jobs", strings.NewReader(body)), 200, 429)
	})
	for k := range 60 {
		_, _ = x.call(context.WithoutCancel(ctx), "DELETE", fmt.Sprintf("/v1/job/flood-%d-%d?purge=true", i, k), "")
	}
}

// noise returns random bytes.
func noise(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return b
}

// rpcNoise sends random bytes after each first byte that the port knows.
func rpcNoise(ctx context.Context, x *attempt, s *server, i int) {
	held(ctx, x, s.rpc, address(i, 0), 20, func(c net.Conn) {
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		b := noise(8 << 10)
		b[0] = noise(1)[0] % 10
		if _, err := c.Write(b); err == nil {
			_, _ = io.Copy(io.Discard, io.LimitReader(c, 1<<20))
		}
	})
}

// rpcClaims sends frames that claim to hold 4 GB.
func rpcClaims(ctx context.Context, x *attempt, s *server, i int) {
	const head = "\x01\x82\xa3Seq\x01\xadServiceMethod\xafNode.GetAllocs.."
	var frames [][]byte // made once: the machine's processors are for the servers
	for _, claim := range []string{"\xdd\xff\xff\xff\xff", "\xdf\xff\xff\xff\xff", "\xdb\xff\xff\xff\xff", "\xc6\xff\xff\xff\xff"} {
		frames = append(frames, []byte(head+claim+strings.Repeat("\x91", 1<<20)))
	}
	held(ctx, x, s.rpc, address(i, 0), 60, func(c net.Conn) {
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		for _, frame := range frames {
			if _, err := c.Write(frame); err != nil {
				return
			}
		}
		_, _ = io.Copy(io.Discard, io.LimitReader(c, 1<<20))
	})
}

// gossipNoise sends packets and connections that are no gossip.
func gossipNoise(ctx context.Context, x *attempt, s *server, i int) {
	var all sync.WaitGroup
	before := strings.Count(s.Said(), "\n")
	all.Go(func() {
		conn, err := net.Dial("udp", s.serf)
		if err != nil {
			x.t.Error(err)
			return
		}
		defer conn.Close()
		sent := 0
		for ctx.Err() == nil {
			for range 100 {
				_, _ = conn.Write(noise(200))
			}
			sent += 100
			pause(ctx, 10*time.Millisecond)
		}
		// The log has a bounded number of lines about it: a few each second.
		if lines := strings.Count(s.Said(), "\n") - before; lines > 200+sent/100 {
			x.t.Errorf("%s logged %d lines about %d packets", s.Name, lines, sent)
		}
	})
	all.Go(func() {
		held(ctx, x, s.serf, address(i, 0), 50, func(c net.Conn) {
			_ = c.SetDeadline(time.Now().Add(10 * time.Second))
			if _, err := c.Write(noise(64 << 10)); err == nil {
				_, _ = io.Copy(io.Discard, io.LimitReader(c, 1<<20))
			}
		})
	})
	all.Wait()
}

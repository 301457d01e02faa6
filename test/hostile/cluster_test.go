package hostile

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"berth"
	"berth/internal/eventually"
	"berth/internal/freeport"
	"berth/op"
	"berth/test/bed"
)

// cluster is what is attacked: servers, and a node that runs a service.
type cluster struct {
	*bed.Bed
	servers []*server
	node    *bed.Agent
}

// server is one server, and where it listens.
type server struct {
	*bed.Agent
	http, rpc, serf string // host:port
}

const config = `
name      = "%[1]s"
data_dir  = "%[2]s/%[1]s"
bind_addr = "127.0.0.1"
ports {
  http = %[3]d
  rpc  = %[4]d
  serf = %[5]d
}
client {
  network_interface = "lo"
  cgroup_parent     = "%[6]s"
  memory_total_mb   = 2048
  cpu_total_compute = 10000
  disk_total_mb     = 100000
}
plugin "raw_exec" {
  config { enabled = true }
}
`

// unhurried is what the short form adds for a server: on a busy machine, a server
// or a user that the machine holds up for some seconds is not given up. The long
// form has the times that everybody has.
func unhurried() (raft, limits string) {
	if long > 0 {
		return "", ""
	}
	return "raft_multiplier = 5", `limits { http_handshake_timeout = "1m" }`
}

func newCluster(t *testing.T, n int) *cluster {
	t.Helper()
	c := &cluster{Bed: bed.ForTest(t)}
	port := func() int {
		p, err := freeport.Take()
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	start := func(name, more string, ports ...int) *bed.Agent {
		path, err := c.File(name+".hcl", fmt.Sprintf(config, name, c.Dir, ports[0], ports[1], ports[2], c.CgroupParent())+more)
		if err != nil {
			t.Fatal(err)
		}
		a := c.Agent(name, "-config", path)
		if err := a.Start(); err != nil {
			t.Fatal(err)
		}
		return a
	}
	var peers []string
	ports := make([][]int, n)
	for i := range ports {
		ports[i] = []int{port(), port(), port()}
		peers = append(peers, fmt.Sprintf("%q", loopback(ports[i][2])))
	}
	for i, p := range ports {
		others := strings.Join(slices.Delete(slices.Clone(peers), i, i+1), ", ")
		raft, limits := unhurried()
		a := start(fmt.Sprint("s", i+1), fmt.Sprintf(`
server {
  enabled          = true
  bootstrap_expect = %d
  %s
  server_join {
    retry_join     = [%s]
    retry_interval = "1s"
  }
}
%s
`, n, raft, others, limits), p...)
		c.servers = append(c.servers, &server{a, loopback(p[0]), loopback(p[1]), loopback(p[2])})
	}
	var addrs []string
	for _, s := range c.servers {
		if err := s.Await(t.Context()); err != nil {
			t.Fatal(err)
		}
		addrs = append(addrs, fmt.Sprintf("%q", s.rpc))
	}
	c.node = start("node", fmt.Sprintf("client {\n  enabled = true\n  servers = [%s]\n}\n", strings.Join(addrs, ", ")), port(), port(), port())
	c.until(t, "the service runs", func() string {
		if a, err := c.call(t.Context(), "PUT", "/v1/jobs", service); err != nil || !a.Good() {
			return fmt.Sprint(a, err)
		}
		return ""
	})
	c.until(t, "the service runs", c.serves)
	return c
}

// service is the job that must run on through everything.
const service = `{"Job": {"ID": "service", "TaskGroups": [{"Name": "g", "Count": 2, "Update": {"MaxParallel": 0}, "Tasks": [
	{"Name": "t", "Driver": "raw_exec", "Config": {"command": "/bin/sleep", "args": ["100000"]}, "Resources": {"CPU": 50, "MemoryMB": 20}}]}]}}`

// serves says what is wrong with the service, "" if nothing is.
func (c *cluster) serves() string {
	a, err := c.call(context.Background(), "GET", "/v1/job/service/allocations", "")
	if err != nil || !a.Good() {
		return fmt.Sprint(a, err)
	}
	var allocs []struct{ ID, ClientStatus string }
	if err := json.Unmarshal([]byte(a.Text), &allocs); err != nil {
		return err.Error()
	}
	running := 0
	for _, x := range allocs {
		if x.ClientStatus == "running" {
			running++
		}
	}
	if running != 2 || len(allocs) != 2 {
		return a.Text
	}
	return ""
}

// call asks the first server.
func (c *cluster) call(ctx context.Context, method, path, body string) (bed.Answer, error) {
	return bed.Call(ctx, method, "http://"+c.servers[0].http+path, body)
}

func (c *cluster) until(t *testing.T, what string, amiss func() string) {
	t.Helper()
	if err := bed.Until(t.Context(), what, amiss); err != nil {
		t.Fatal(err)
	}
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// memory returns the resident memory of each server, in MiB.
func (c *cluster) memory() (out []int) {
	for _, s := range c.servers {
		out = append(out, resident(s.PID()))
	}
	return out
}

// resident returns how much memory of a process is resident, in MiB; 0 if the
// process has ended.
func resident(pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, _ := strconv.Atoi(strings.Fields(rest)[0])
			return kb >> 10
		}
	}
	return 0
}

// Bounds that every attack must keep.
const (
	maxMemory    = 600                    // MiB of one server
	maxWait      = 500 * time.Millisecond // of 99 % of users' requests, in the long form
	giveBack     = time.Minute            // until the memory is given back, in the long form
	maxKept      = 120                    // percent of the memory before, in the long form
	maxKeptShort = 200                    // percent, in the short form: what is kept grows with the first writes
)

// play plays one attack, on all servers at once, while users work.
func (c *cluster) play(t *testing.T, a attack, lasts time.Duration) {
	ctx, cancel := context.WithTimeout(t.Context(), lasts)
	defer cancel()
	var attackers, users sync.WaitGroup
	x := &attempt{t: t, cluster: c, refusals: map[string]int{}}
	u := &user{cluster: c}
	peak := 0
	users.Go(func() { u.work(ctx) })
	users.Go(func() {
		for tick := time.NewTicker(20 * time.Millisecond); ; {
			peak = max(peak, slices.Max(c.memory()))
			select {
			case <-tick.C:
			case <-ctx.Done():
				tick.Stop()
				return
			}
		}
	})
	for i, s := range c.servers {
		attackers.Go(func() { a.run(ctx, x, s, i) })
	}
	attackers.Wait()
	cancel()
	users.Wait()
	slices.Sort(u.waits)
	p99 := time.Duration(0)
	if n := len(u.waits); n > 0 {
		p99 = u.waits[n*99/100]
	}
	t.Logf("memory up to %d MiB; %d requests of users, p99 %v; answers to the attack: %v", peak, len(u.waits), p99.Round(time.Millisecond), x.refusals)
	for _, err := range u.failed {
		t.Errorf("a user's request: %s", err)
	}
	if peak > maxMemory {
		t.Errorf("memory reached %d MiB, allowed are %d", peak, maxMemory)
	}
	if long > 0 && p99 > maxWait {
		t.Errorf("99 %% of users' requests took up to %v, allowed are %v", p99, maxWait)
	}
	for _, s := range append([]*bed.Agent{c.node}, agents(c.servers)...) {
		if !s.Running() {
			t.Fatalf("%s has ended:\n%s", s.Name, tail(s.Said()))
		}
	}
	c.until(t, "the service runs", c.serves)
}

func agents(servers []*server) (out []*bed.Agent) {
	for _, s := range servers {
		out = append(out, s.Agent)
	}
	return out
}

func tail(s string) string { return s[max(0, len(s)-3000):] }

// worked has ordinary jobs registered and purged for a while, and returns the
// memory of servers that have worked: with events, ended evaluations and buffers
// that they keep for good reason.
func (c *cluster) worked(t *testing.T) []int {
	t.Helper()
	var all sync.WaitGroup
	for k := range 8 {
		all.Go(func() {
			client := &http.Client{Timeout: eventually.Limit}
			defer client.CloseIdleConnections()
			do := func(method, path, body string) {
				r, err := http.NewRequestWithContext(t.Context(), method, "http://"+c.servers[k%len(c.servers)].http+path, strings.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				resp, err := client.Do(r)
				if err != nil {
					t.Error(err)
					return
				}
				if text := read(resp); resp.StatusCode/100 != 2 && !later(resp) {
					t.Errorf("%s %s: %d %s", method, path, resp.StatusCode, text)
				}
			}
			name := fmt.Sprint("ordinary-", k)
			for range 1000 {
				do("PUT", "/v1/jobs", strings.Replace(job, `"user"`, strconv.Quote(name), 1))
			}
			do("DELETE", "/v1/job/"+name+"?purge=true", "")
		})
	}
	all.Wait()
	c.collect(t)
	return c.memory()
}

// collect has everything collected that has ended.
func (c *cluster) collect(t *testing.T) {
	t.Helper()
	c.until(t, "what has ended is collected", func() string {
		if a, err := c.call(t.Context(), "PUT", "/v1/system/gc", ""); err != nil || !a.Good() {
			return fmt.Sprint(a, err)
		}
		a, err := c.call(t.Context(), "GET", "/v1/evaluations?per_page=1000", "")
		if err != nil || !a.Good() {
			return fmt.Sprint(a, err)
		}
		if n := strings.Count(a.Text, `"ID":`); n > 100 {
			return fmt.Sprintf("there are %d evaluations", n)
		}
		return ""
	})
}

// settles waits until the servers use little more memory than before.
func (c *cluster) settles(t *testing.T, before []int) {
	c.collect(t)
	limit, percent := eventually.Limit, maxKeptShort
	if long > 0 {
		limit, percent = giveBack, maxKept
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	began := time.Now()
	if err := bed.Poll(ctx, "memory is given back", func() string {
		now := c.memory()
		for i := range now {
			if now[i]*100 > before[i]*percent {
				return fmt.Sprintf("it was %v MiB and is %v", before, now)
			}
		}
		return ""
	}); err != nil {
		t.Error(err)
		for _, s := range c.servers {
			a, _ := bed.Call(t.Context(), "GET", "http://"+s.http+"/v1/metrics?format=prometheus", "")
			for line := range strings.Lines(a.Text) {
				if strings.HasPrefix(line, "go_memstats_") || strings.HasPrefix(line, "go_goroutines") || strings.HasPrefix(line, "nomad_state_rows") {
					t.Log(s.Name, strings.TrimSpace(line))
				}
			}
		}
	}
	t.Logf("memory: before %v MiB, %v after the attacks %v", before, time.Since(began).Round(time.Second), c.memory())
}

// user is an ordinary user: reads, registers a job, stops it, and waits for each
// answer.
type user struct {
	*cluster
	waits  []time.Duration
	failed []string
}

// job is what users register: it needs no node.
const job = `{"Job": {"ID": "user", "Type": "batch", "TaskGroups": [{"Name": "g", "Count": 0, "Tasks": [
	{"Name": "t", "Driver": "raw_exec", "Config": {"command": "/bin/true"}}]}]}}`

// later reports whether an answer may ask a user to come back later: a write when
// there are too many, and anything that leaderless allows.
func later(resp *http.Response) bool {
	tooMany := resp.StatusCode == http.StatusTooManyRequests && resp.Header.Get("Retry-After") != ""
	return tooMany && resp.Request.Method != "GET" || leaderless(resp.Header)
}

// leaderless reports whether the header of an answer says that no server leads. The short form
// allows it: a busy machine can hold servers up for longer than they wait for a
// leader.
func leaderless(h http.Header) bool {
	return long == 0 && h.Get(op.HeaderKind) == string(berth.NoLeader)
}

// work works until ctx ends. A user keeps to one connection of one address, as
// a browser or a tool does.
func (u *user) work(ctx context.Context) {
	client := &http.Client{Timeout: eventually.Limit}
	defer client.CloseIdleConnections()
	for n := 0; ctx.Err() == nil; n++ {
		method, path, body := "GET", "/v1/nodes", ""
		switch n % 5 {
		case 1:
			method, path, body = "PUT", "/v1/jobs", job
		case 2:
			path = "/v1/job/service/allocations"
		case 3:
			method, path = "DELETE", "/v1/job/user?purge=true"
		case 4:
			path = "/v1/agent/health"
		}
		began := time.Now()
		s := u.servers[n%len(u.servers)]
		r, err := http.NewRequestWithContext(context.WithoutCancel(ctx), method, "http://"+s.http+path, strings.NewReader(body))
		if err != nil {
			panic(err)
		}
		resp, err := client.Do(r)
		if err != nil {
			u.failed = append(u.failed, fmt.Sprintf("%s %s at %s: %v", method, path, s.Name, err))
			return
		}
		text := read(resp)
		u.waits = append(u.waits, time.Since(began))
		if resp.StatusCode/100 != 2 && !later(resp) {
			u.failed = append(u.failed, fmt.Sprintf("%s %s at %s: %d %s", method, path, s.Name, resp.StatusCode, text))
			return
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

package server_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"berth"
	"berth/internal/acl"
	"berth/internal/agent"
	"berth/internal/agent/driver/raw"
	"berth/internal/api"
	"berth/internal/msgpack"
	"berth/internal/server"
	"berth/internal/wire"
	"berth/op"

	nomad "github.com/hashicorp/nomad/api"
)

// follower is an agent that is no server, with its own HTTP door.
type follower struct {
	*running // as seen through the agent's door
	agent    *agent.Agent
	stop     func()
}

// follow runs an agent of r that answers HTTP, until the test ends.
func (r *running) follow(change ...func(*api.AgentConfig)) *follower {
	r.t.Helper()
	log := slog.New(slog.DiscardHandler)
	cluster := agent.NewCluster([]string{r.rpc}, "", nil, log)
	a, err := agent.New(agent.Config{Servers: cluster, DataDir: r.t.TempDir(), Name: "follower", CgroupParent: "-", LoopbackOnly: true, RawExec: raw.Config{Enabled: true}, Log: log})
	if err != nil {
		r.t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	conf := api.AgentConfig{
		Region: "global", Logger: log, Metrics: server.ProcessMetrics(nil, server.MetricsFilter{}),
		Self:   func() op.AgentSelf { return op.AgentSelf{Member: op.AgentMember{Name: "follower"}} },
		Health: func() op.AgentHealth { return op.AgentHealth{Client: &op.Health{Ok: true, Message: "ok"}} },
		Has:    a.Has, Node: a.NodeID, Agents: a.AsAgents(), Connect: cluster.Connect,
	}
	for _, f := range change {
		f(&conf)
	}
	h := api.NewAgent(conf)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- a.Run(ctx) }()
	go func() { ended <- api.Serve(ctx, ln, h, api.Limits{MaxConns: api.DefaultMaxConns}, log) }()
	stopped := false
	f := &follower{running: &running{t: r.t, server: r.server, http: "http://" + ln.Addr().String(), rpc: r.rpc}, agent: a}
	f.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		for range 2 {
			if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
				r.t.Error(err)
			}
		}
	}
	r.t.Cleanup(f.stop)
	if f.api, err = nomad.NewClient(&nomad.Config{Address: f.http}); err != nil {
		r.t.Fatal(err)
	}
	r.until("the agent's node is ready", func() bool {
		n := r.server.Store().Snapshot().Node(a.NodeID())
		return n != nil && n.Status == berth.NodeReady
	})
	return f
}

// An agent that is no server answers for itself, and for the cluster with what
// a server says: reads, writes, waits, refusals.
func TestAnAgentPassesRequestsOn(t *testing.T) {
	r := start(t, t.TempDir())
	f := r.follow()
	self, err := f.api.Agent().Self()
	if err != nil || self.Member.Name != "follower" {
		t.Errorf("%+v %v", self, err)
	}
	health, err := f.api.Agent().Health()
	if err != nil || health.Client == nil || !health.Client.Ok || health.Server != nil {
		t.Errorf("%+v %v", health, err)
	}
	text, err := f.api.Operator().Metrics(&nomad.QueryOptions{Params: map[string]string{"format": "prometheus"}})
	if err != nil || !strings.Contains(string(text), "go_goroutines") || strings.Contains(string(text), "nomad_raft") {
		t.Errorf("%v %.200s", err, text)
	}
	leader, err := f.api.Status().Leader()
	if err != nil || leader != r.rpc {
		t.Errorf("the leader is %q, %v", leader, err)
	}

	job := sleeper("a/b", 1)
	job.Constraints = []*nomad.Constraint{{LTarget: "${node.unique.name}", RTarget: "elsewhere", Operand: "="}}
	reg, _, err := f.api.Jobs().Register(job, nil)
	if err != nil {
		t.Fatal(err)
	}
	f.settled(reg.EvalID)
	got, meta, err := f.api.Jobs().Info("a/b", nil)
	if err != nil || *got.ID != "a/b" || meta.LastIndex == 0 || !meta.KnownLeader {
		t.Fatalf("%+v %+v %v", got, meta, err)
	}
	_, _, err = f.api.Jobs().Info("none", nil)
	refused(t, "a job that is not there", err, http.StatusNotFound, "job not found")
	for _, c := range []struct {
		line, body, want string
		code             int
	}{
		{"PUT /v1/jobs", strings.Repeat(" ", 10<<20), "the body is larger than 4194304 bytes", 413},
		{"PUT /v1/jobs", `{"Job": {"ID": "x"`, "unexpected end of text", 400},
		{"PATCH /v1/jobs", "", "Invalid method", 405},
		{"GET /v1/nothing", "", "no such path", 404},
		{"GET /v1/jobs?filter=((", "", "filter", 400},
		{"GET /v1/client/fs/logs/11111111-2222-3333-4444-555555555555?task=a&type=stdout", "", "alloc not found", 404},
	} {
		method, path, _ := strings.Cut(c.line, " ")
		if code, _, text := f.send(method, path, strings.NewReader(c.body)); code != c.code || !strings.Contains(text, c.want) {
			t.Errorf("%s: %d %.200s", c.line, code, text)
		}
	}

	// Many wait through the one session at once; all are woken, and others are
	// answered meanwhile.
	const many = 30
	woken := make(chan error, many)
	for range many {
		go func() {
			j, m, err := f.api.Jobs().Info("a/b", &nomad.QueryOptions{WaitIndex: meta.LastIndex, WaitTime: op.MaxWait})
			if err == nil && (!*j.Stop || m.LastIndex <= meta.LastIndex) {
				err = fmt.Errorf("woken with %+v", m)
			}
			woken <- err
		}()
	}
	if _, err := f.api.Status().Leader(); err != nil {
		t.Error(err)
	}
	if _, _, err := f.api.Jobs().Deregister("a/b", false, nil); err != nil {
		t.Fatal(err)
	}
	for range many {
		if err := <-woken; err != nil {
			t.Error(err)
		}
	}

	// Long lists come whole, as they do from the server.
	for i := range 40 {
		j := sleeper(fmt.Sprint("job-", i), 1)
		j.Constraints = job.Constraints
		if _, _, err := f.api.Jobs().Register(j, nil); err != nil {
			t.Fatal(err)
		}
	}
	one, _, err := f.api.Jobs().PrefixList("job-")
	other, _, err2 := r.api.Jobs().PrefixList("job-")
	if err != nil || err2 != nil || len(one) != 40 || len(other) != 40 {
		t.Errorf("%d and %d jobs, %v %v", len(one), len(other), err, err2)
	}

	// Without a server there is no answer, and that is said.
	r.stop()
	r.until("the agent misses the server", func() bool {
		code, _, text := f.send("GET", "/v1/jobs", nil)
		return code == http.StatusServiceUnavailable && strings.Contains(text, "no server is reachable")
	})
	if _, err := f.api.Agent().Self(); err != nil {
		t.Error("the agent does not answer for itself:", err)
	}
}

// A caller that goes away through a tunnel leaves nothing waiting at the
// server, and the tunnel's other callers go on.
func TestACallerGoesAwayThroughATunnel(t *testing.T) {
	r := start(t, t.TempDir())
	f := r.follow()
	for range 200 { // more than the tunnels that an agent may have open
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		req, err := http.NewRequestWithContext(ctx, "GET", f.http+"/v1/jobs?index=1000000&wait=300s", nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp, err := http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
			t.Error("a query was answered that had to wait")
		}
		cancel()
	}
	r.until("others are answered", func() bool { _, err := f.api.Status().Leader(); return err == nil })
}

// The RPC port opens the HTTP API to agents that have proved which node they
// are of, with the caller's own rights, and to nobody else.
func TestTunnelsAreForAgents(t *testing.T) {
	r := start(t, t.TempDir())
	stranger, err := wire.Dial(t.Context(), r.rpc, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	in, err := msgpack.Append(nil, &op.JobsQuery{Query: op.Query{AuthToken: "mine"}})
	if err != nil {
		t.Fatal(err)
	}
	list := func(s *wire.Session) (string, error) {
		// What an agent says of who asks, and of how far it may go, is not
		// believed.
		a, err := op.Call(t.Context(), s, op.AgentForward, &op.Forwarded{Name: op.ListJobs.Name, In: in, Scope: op.ScopeLeader, Remote: "10.9.8.7:1"})
		if err != nil {
			return "", err
		}
		return string(a.Body) + a.Error, nil
	}
	if got, err := list(stranger); berth.KindOf(err) != berth.Denied || got != "" {
		t.Errorf("a stranger is answered %q, %v", got, err)
	}
	if _, err := stranger.Stream(t.Context(), op.AgentForwardStream.RPC, &op.Forwarded{Name: op.StreamEvents.Name}); berth.KindOf(err) != berth.Denied {
		t.Errorf("a stranger's stream ends with %v", err)
	}
	if got, err := list(r.node(1).session); err != nil || strings.TrimSpace(got) != "[]" {
		t.Errorf("a node is answered %q, %v", got, err)
	}
}

// What is asked through an agent is asked with the caller's token and address
// of rights, never with the node's.
func TestATunnelCarriesTheCallersToken(t *testing.T) {
	tokens := make(chan string, 16)
	r := startWith(t, t.TempDir(), func(c *server.Config) {
		c.Authorize = func(who api.Caller, need acl.Capability, ns string) error {
			tokens <- who.Token
			if who.Token != "mine" {
				return berth.Errorf(berth.Denied, "Permission denied")
			}
			return nil
		}
	})
	f := r.follow()
	for token, code := range map[string]int{"": 403, "other": 403, "mine": 200} {
		req, _ := http.NewRequestWithContext(t.Context(), "GET", f.http+"/v1/jobs", nil)
		req.Header.Set(op.HeaderToken, token)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := <-tokens; resp.StatusCode != code || got != token {
			t.Errorf("with the token %q: %d, and the server was asked for %q", token, resp.StatusCode, got)
		}
	}
}

package api_test

import (
	"context"
	"encoding/base64"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"berth"
	"berth/internal/acl"
	"berth/internal/api"
	"berth/internal/eventually"
	"berth/internal/gossip"

	nomad "github.com/hashicorp/nomad/api"
)

// pool is a server's gossip, which runs until the test ends.
func pool(t *testing.T, name string, keys ...[]byte) *gossip.Pool {
	t.Helper()
	p, err := gossip.New(gossip.Config{
		Name: name, Region: "global", Datacenter: "dc1", ID: "id-" + name, RPC: "127.0.0.1:4647", Expect: 3, Voter: true, Build: "2.0.5",
		Bind: "127.0.0.1", Keys: keys, Logger: slog.New(slog.DiscardHandler), Timing: gossip.Fast,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(func() {
		end()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return p
}

func nomadClient(t *testing.T, change func(*api.Config)) *nomad.Client {
	t.Helper()
	s, _ := serve(t, change)
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	c, err := nomad.NewClient(&nomad.Config{Address: h.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func at(p *gossip.Pool) string { return gossipAddr(p.Self()) }

func gossipAddr(m gossip.Member) string {
	addr, _ := gossip.HostPort(m.Addr, int(m.Port))
	return addr
}

// Servers as the Go client sees them join, fail to, and leave.
func TestServersJoinAndLeave(t *testing.T) {
	a, b := pool(t, "a"), pool(t, "b")
	agent := nomadClient(t, func(c *api.Config) { c.Members = a }).Agent()
	list := func() (out []string) {
		members, err := agent.Members()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range members.Members {
			out = append(out, m.Name+" "+m.Status)
		}
		return out
	}
	if got := list(); !slices.Equal(got, []string{"a.global alive"}) {
		t.Errorf("the members are %v", got)
	}
	if n, err := agent.Join(at(b), "127.0.0.1:1"); n != 1 || err != nil {
		t.Fatalf("joined %d: %v", n, err)
	}
	members, err := agent.Members()
	if err != nil || len(members.Members) != 2 || members.ServerName != "s1" || members.ServerRegion != "global" {
		t.Fatalf("%+v: %v", members, err)
	}
	m := members.Members[1]
	self := b.Self()
	if m.Name != "b.global" || m.Addr != self.Addr || m.Port != self.Port || m.Status != "alive" || m.ProtocolCur != 2 || m.DelegateMax < m.DelegateCur {
		t.Errorf("b is %+v", m)
	}
	for k, want := range map[string]string{"role": "nomad", "region": "global", "dc": "dc1", "id": "id-b", "rpc_addr": "127.0.0.1", "port": "4647", "build": "2.0.5", "expect": "3", "raft_vsn": "3"} {
		if m.Tags[k] != want {
			t.Errorf("the tag %s of b is %q, not %q", k, m.Tags[k], want)
		}
	}
	if n, err := agent.Join("127.0.0.1:1"); n != 0 || err == nil || !strings.Contains(err.Error(), "127.0.0.1:1: ") || !strings.Contains(err.Error(), "refused") {
		t.Errorf("nobody is there: joined %d: %v", n, err)
	}
	refused(t, "no address", second(agent.Join()), 400, "address: is missing")
	refused(t, "no address", second(agent.Join("a b")), 400, `invalid address "a b"`)
	if err := agent.ForceLeave("x"); err != nil {
		t.Errorf("a server that nobody knows: %v", err)
	}
	refused(t, "no name", agent.ForceLeave(""), 400, "node: is missing")

	if err := b.Leave(context.Background()); err != nil {
		t.Fatal(err)
	}
	late := time.After(eventually.Limit)
	for !slices.Equal(list(), []string{"a.global alive", "b.global left"}) {
		select {
		case <-a.Changed():
		case <-late:
			t.Fatalf("the members are %v", list())
		}
	}
	if err := agent.ForceLeaveWithOptions("b.global", nomad.ForceLeaveOpts{Prune: true}); err != nil {
		t.Fatal(err)
	}
	for !slices.Equal(list(), []string{"a.global alive"}) {
		select {
		case <-a.Changed():
		case <-late:
			t.Fatalf("the members are %v", list())
		}
	}
}

func second[A any](_ A, err error) error { return err }

// refused says whether an error of the Go client is an answer with that code
// that holds the text.
func refused(t *testing.T, what string, err error, code int, text string) {
	t.Helper()
	// Join hides the kind of an error behind its words.
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("%s: %v; wanted is %q", what, err, text)
	}
	if e, ok := err.(nomad.UnexpectedResponseError); ok && e.StatusCode() != code {
		t.Errorf("%s: the code is %d; wanted is %d", what, e.StatusCode(), code)
	}
}

// Keys are changed through the Go client.
func TestGossipKeys(t *testing.T) {
	old, fresh := gossip.NewKey(), gossip.NewKey()
	first, _ := base64.StdEncoding.DecodeString(old)
	a, b := pool(t, "a", first), pool(t, "b", first)
	if n, err := a.Join(t.Context(), []string{at(b)}); n != 1 || err != nil {
		t.Fatal(err)
	}
	agent := nomadClient(t, func(c *api.Config) { c.Members = a }).Agent()
	good := func(r *nomad.KeyringResponse, err error) *nomad.KeyringResponse {
		t.Helper()
		if err != nil || r.NumNodes != 2 || len(r.Messages) > 0 {
			t.Fatalf("%+v: %v", r, err)
		}
		return r
	}
	if r := good(agent.ListKeys()); r.Keys[old] != 2 || len(r.Keys) != 1 {
		t.Errorf("the keys are %v", r.Keys)
	}
	good(agent.InstallKey(fresh))
	_, err := agent.RemoveKey(old)
	refused(t, "the key in use", err, 500, "2/2 nodes reported failure (a.global: ")
	good(agent.UseKey(fresh))
	good(agent.RemoveKey(old))
	if r := good(agent.ListKeys()); r.Keys[fresh] != 2 || len(r.Keys) != 1 {
		t.Errorf("the keys are %v", r.Keys)
	}
	_, err = agent.InstallKey("short")
	refused(t, "no key", err, 400, "a key must be 16, 24 or 32 bytes in base64")
	_, err = agent.UseKey("")
	refused(t, "none", err, 400, "Key: is missing")
}

// servers is where a node looks for servers.
type servers struct{ list []string }

func (s *servers) Addrs() []string         { return s.list }
func (s *servers) SetAddrs(addrs []string) { s.list = addrs }

func TestServersOfANode(t *testing.T) {
	s := &servers{[]string{"10.0.0.2:4647", "10.0.0.1:4647"}}
	agent := nomadClient(t, func(c *api.Config) { c.Servers = s }).Agent()
	if got, err := agent.Servers(); err != nil || !slices.Equal(got, []string{"10.0.0.1:4647", "10.0.0.2:4647"}) {
		t.Errorf("%v, %v", got, err)
	}
	if err := agent.SetServers([]string{"10.0.0.3", "s.example:5647", "fd00::1"}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(s.list, []string{"10.0.0.3:4647", "s.example:5647", "[fd00::1]:4647"}) {
		t.Errorf("the servers are %v", s.list)
	}
	refused(t, "none", agent.SetServers(nil), 400, "address: is missing")
}

// A server that is alone lists itself, and has nobody to join.
func TestAloneServer(t *testing.T) {
	agent := nomadClient(t, nil).Agent()
	if m, err := agent.Members(); err != nil || len(m.Members) != 1 || m.Members[0].Name != "s1" {
		t.Errorf("%+v, %v", m, err)
	}
	refused(t, "join", second(agent.Join("10.0.0.1")), 400, "this server does not gossip")
	refused(t, "keys", second(agent.ListKeys()), 400, "this server does not gossip")
	refused(t, "servers", second(agent.Servers()), 400, "there is no node in this agent")
}

// Who may do nothing may do none of it.
func TestMembersAskForRights(t *testing.T) {
	a := pool(t, "a")
	want := map[string]acl.Capability{
		"GET /v1/agent/members": acl.NodeRead, "PUT /v1/agent/join?address=10.0.0.1": acl.OperatorWrite, "PUT /v1/agent/force-leave?node=a": acl.AgentWrite,
		"GET /v1/agent/keyring/list": acl.AgentWrite, "PUT /v1/agent/keyring/install": acl.AgentWrite, "PUT /v1/agent/keyring/use": acl.AgentWrite,
		"PUT /v1/agent/keyring/remove": acl.AgentWrite, "GET /v1/agent/servers": acl.AgentRead, "PUT /v1/agent/servers?address=10.0.0.1": acl.AgentWrite,
	}
	var asked acl.Capability
	s, _ := serve(t, func(c *api.Config) {
		c.Members = a
		c.Authorize = func(_ api.Caller, need acl.Capability, _ string) error {
			asked = need
			return berth.Errorf(berth.Denied, "Permission denied")
		}
	})
	for route, need := range want {
		method, path, _ := strings.Cut(route, " ")
		asked = ""
		if w := ask(s, method, path, ""); w.Code != 403 || asked != need {
			t.Errorf("%s: %d, %q was asked for", route, w.Code, asked)
		}
	}
}

package cli

import (
	"context"
	"encoding/base64"
	"log/slog"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"berth/internal/api"
	"berth/internal/eventually"
	"berth/internal/gossip"
	"berth/internal/state"
	"berth/op"
)

// alone is a cluster without a leader.
type alone struct{}

func (alone) Leader() (api.Leader, error)               { return nil, state.ErrLost }
func (alone) Address() string                           { return "" }
func (alone) Sync(context.Context, time.Duration) error { return state.ErrLost }

// listOf is where a node looks for servers.
type listOf struct{ addrs []string }

func (l *listOf) Addrs() []string         { return l.addrs }
func (l *listOf) SetAddrs(addrs []string) { l.addrs = addrs }

func gossips(t *testing.T, name string, key []byte) *gossip.Pool {
	t.Helper()
	p, err := gossip.New(gossip.Config{
		Name: name, Region: "global", Datacenter: "dc1", ID: "id-" + name, RPC: "127.0.0.1:4647", Expect: 3, Voter: true, Build: "2.0.5",
		Bind: "127.0.0.1", Keys: [][]byte{key}, Logger: slog.New(slog.DiscardHandler), Timing: gossip.Fast,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(func() { end(); <-done })
	return p
}

var gossipPort = regexp.MustCompile(`127\.0\.0\.1  \d{4,5} *`)

// Two servers that gossip, by the commands about them.
func TestServersByCommand(t *testing.T) {
	old, fresh := gossip.NewKey(), gossip.NewKey()
	key, _ := base64.StdEncoding.DecodeString(old)
	a, b := gossips(t, "a", key), gossips(t, "b", key)
	list := &listOf{[]string{"10.0.0.1:4647"}}
	h := httptest.NewServer(api.New(api.Config{
		Store: state.New(), Cluster: alone{}, Region: "global", Members: a, Servers: list, Logger: slog.New(slog.DiscardHandler),
		Self: func() op.AgentSelf {
			return op.AgentSelf{Stats: map[string]map[string]string{"runtime": {"pid": "7", "arch": "amd64"}, "nomad": {"leader": "true"}}}
		},
	}))
	t.Cleanup(h.Close)
	run := func(want int, line string) string {
		t.Helper()
		var out strings.Builder
		p := &Program{Name: "berth", Args: strings.Fields(line), Dir: t.TempDir(), In: strings.NewReader(""), Now: time.Now, Out: &out, Err: &out,
			Env: []string{"BERTH_ADDR=" + h.URL}}
		if code := p.Run(context.Background()); code != want {
			t.Errorf("%s ended with %d:\n%s", line, code, out.String())
		}
		return gossipPort.ReplaceAllString(out.String(), "127.0.0.1  PORT  ")
	}
	is := func(got, want string) {
		t.Helper()
		if strings.TrimSpace(got) != strings.TrimSpace(want) {
			t.Errorf("it says\n%s\nand should say\n%s", got, want)
		}
	}
	self := b.Self()
	addr, _ := gossip.HostPort(self.Addr, int(self.Port))
	is(run(0, "server join "+addr), "Joined 1 server successfully")
	is(run(0, "server members"), `
Name      Address    Port   Status  Leader  Raft Version  Build  Datacenter  Region
a.global  127.0.0.1  PORT  alive   false   3             2.0.5  dc1         global
b.global  127.0.0.1  PORT  alive   false   3             2.0.5  dc1         global

The leader of region global is unknown: No cluster leader`)
	if got := run(1, "server join 127.0.0.1:1"); !strings.Contains(got, "no server was joined: 127.0.0.1:1: ") || !strings.Contains(got, "refused") {
		t.Errorf("nobody is there: %s", got)
	}

	is(run(0, "operator gossip keyring list"), `
Gathering installed encryption keys...
Key                                           Servers  Primary
`+old+`  2/2      2/2`)
	run(0, "operator gossip keyring install "+fresh)
	if got := run(1, "operator gossip keyring remove "+old); !strings.Contains(got, "2/2 nodes reported failure") {
		t.Errorf("the key in use: %s", got)
	}
	is(run(0, "operator gossip keyring use "+fresh), "Changing primary gossip encryption key...")
	is(run(0, "operator gossip keyring remove "+old), "Removing gossip encryption key...")
	if got := run(0, "operator gossip keyring list"); strings.Contains(got, old) || !strings.Contains(got, fresh+"  2/2      2/2") {
		t.Errorf("the keys are %s", got)
	}

	if err := b.Leave(context.Background()); err != nil {
		t.Fatal(err)
	}
	run(0, "server force-leave -prune b.global")
	for late := time.Now().Add(eventually.Limit); strings.Contains(run(0, "server members"), "b.global"); {
		if time.Now().After(late) {
			t.Fatal("b is still there")
		}
		<-a.Changed()
	}
	if got := run(0, "server force-leave b"); strings.Contains(got, "b") {
		t.Errorf("who is gone: %s", got)
	}

	is(run(0, "agent-info"), "nomad\n  leader = true\nruntime\n  arch = amd64\n  pid = 7")
	is(run(0, "node config -servers"), "10.0.0.1:4647")
	run(0, "client-config -update-servers 10.0.0.2 s.example:5647")
	is(run(0, "node config -servers"), "10.0.0.2:4647\ns.example:5647")
}

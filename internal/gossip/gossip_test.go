package gossip

import (
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"berth"
	"berth/internal/eventually"
	"berth/internal/freeport"

	"github.com/hashicorp/memberlist"
	"github.com/hashicorp/serf/serf"
)

func TestMain(m *testing.M) { eventually.Main(m) }

// server is a pool that runs until it is stopped or the test ends.
type server struct {
	*Pool
	stop func()
}

// logs keeps what was logged.
type logs struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logs) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *logs) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func conf(name string) Config {
	return Config{
		Name: name, Region: "global", Datacenter: "dc1", ID: "id-" + name, RPC: "127.0.0.1:4647", Expect: 3, Voter: true, Build: "2.0.5", Berth: "0.9.0", LogVersion: 7,
		Bind: "127.0.0.1", Timing: Fast, Logger: slog.New(slog.DiscardHandler),
	}
}

// start starts a server, at a port that stays its own when it stops and starts
// again.
func start(t *testing.T, c Config) *server {
	t.Helper()
	if c.Port == 0 {
		var err error
		if c.Port, err = freeport.Take(); err != nil {
			t.Fatal(err)
		}
	}
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	s := &server{p, sync.OnceFunc(func() {
		end()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})}
	t.Cleanup(s.stop)
	return s
}

func (s *server) addr() string {
	m := s.Self()
	return fmt.Sprintf("%s:%d", m.Addr, m.Port)
}

// view is what a server knows of the others: "a alive, b failed".
func (s *server) view() string {
	var out []string
	for _, m := range s.Members() {
		out = append(out, fmt.Sprintf("%s %s", strings.TrimSuffix(m.Name, ".global"), m.Status))
	}
	return strings.Join(out, ", ")
}

// sees waits until servers have a view, woken by their own changes.
func sees(t *testing.T, want string, servers ...*server) {
	t.Helper()
	for _, s := range servers {
		late := time.After(eventually.Limit)
		for s.view() != want {
			select {
			case <-s.Changed():
			case <-time.After(50 * time.Millisecond): // a member that is leaving has left without a change that is told
			case <-late:
				t.Fatalf("%s sees %s\nand should see %s", s.self, s.view(), want)
			}
		}
	}
}

func join(t *testing.T, s *server, to ...*server) {
	t.Helper()
	for _, o := range to {
		if n, err := s.Join(context.Background(), []string{o.addr()}); n != 1 || err != nil {
			t.Fatalf("joined %d: %v", n, err)
		}
	}
}

func key(b byte) []byte {
	k := make([]byte, 32)
	k[0] = b
	return k
}

func text(k []byte) string { return base64.StdEncoding.EncodeToString(k) }

// Three servers find each other through one of them. A server that dies has
// failed; one that leaves has left; a failed one can be forced to leave or be
// forgotten.
func TestMembersComeAndGo(t *testing.T) {
	a, b, c := start(t, conf("a")), start(t, conf("b")), start(t, conf("c"))
	join(t, b, a)
	join(t, c, a)
	sees(t, "a alive, b alive, c alive", a, b, c)
	want := Member{
		Name: "c.global", ID: "id-c", Region: "global", Datacenter: "dc1", RPC: "127.0.0.1:4647", Addr: "127.0.0.1", Port: c.Self().Port,
		Status: Alive, Expect: 3, Voter: true, Build: "2.0.5", Berth: "0.9.0", LogVersion: 7,
	}
	got := a.Members()[2]
	got.Tags, got.ProtocolMin, got.ProtocolMax, got.ProtocolCur, got.DelegateMin, got.DelegateMax, got.DelegateCur = nil, 0, 0, 0, 0, 0, 0
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("a knows of c\n%+v\nand should know\n%+v", got, want)
	}

	c.stop()
	sees(t, "a alive, b alive, c failed", a, b)
	if err := a.ForceLeave("c", false); err != nil {
		t.Fatal(err)
	}
	sees(t, "a alive, b alive, c left", a, b)
	if err := a.ForceLeave("c.global", true); err != nil {
		t.Fatal(err)
	}
	sees(t, "a alive, b alive", a, b)

	if err := b.Leave(context.Background()); err != nil {
		t.Fatal(err)
	}
	sees(t, "a alive, b left", a)
	if err := a.ForceLeave("nobody", false); berth.KindOf(err) != berth.NotFound {
		t.Errorf("a server that nobody knows: %v", err)
	}
	if err := a.ForceLeave("a", false); berth.KindOf(err) != berth.Invalid {
		t.Errorf("itself: %v", err)
	}
}

// heard waits until the log mentions a server. By then serf has stored it, too.
func heard(t *testing.T, l *logs, name string) {
	t.Helper()
	for late := time.Now().Add(eventually.Limit); !strings.Contains(l.String(), "server="+name+".global"); time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("%s was not heard of:\n%s", name, l)
		}
	}
}

// A server that is started again finds the members that it knew, unless it
// left; with RejoinAfterLeave also then.
func TestRejoin(t *testing.T) {
	for _, test := range []struct {
		name           string
		leaves, rejoin bool
		want           string
	}{
		{"stopped", false, false, "a alive, b alive"},
		{"left", true, false, "b alive"},
		{"left, but rejoins", true, true, "a alive, b alive"},
	} {
		t.Run(test.name, func(t *testing.T) {
			a, c := start(t, conf("a")), conf("b")
			l := &logs{}
			c.Dir, c.RejoinAfterLeave, c.Logger = t.TempDir(), test.rejoin, l.logger()
			b := start(t, c)
			join(t, b, a)
			sees(t, "a alive, b alive", a, b)
			heard(t, l, "a")
			b.stop() // what it knows is on disk now, if it was not before
			b = start(t, c)
			sees(t, "a alive, b alive", a, b)
			if test.leaves {
				if err := b.Leave(context.Background()); err != nil {
					t.Fatal(err)
				}
			}
			b.stop()
			c.Port = int(b.Self().Port)
			b = start(t, c)
			sees(t, test.want, b)
			if test.want != "b alive" {
				sees(t, test.want, a)
			}
		})
	}
}

// Servers with other keys, or without one, do not find each other, and their
// logs say why.
func TestKeysKeepOut(t *testing.T) {
	with := func(name string, keys ...[]byte) Config {
		c := conf(name)
		c.Keys = keys
		return c
	}
	a := start(t, with("a", key(1)))
	for _, c := range []Config{with("b", key(2)), with("c")} {
		b := start(t, c)
		if n, err := b.Join(context.Background(), []string{a.addr()}); n != 0 || berth.KindOf(err) != berth.Unavailable {
			t.Errorf("%s joined %d: %v", c.Name, n, err)
		}
		if n, err := a.Join(context.Background(), []string{b.addr()}); n != 0 || err == nil {
			t.Errorf("a joined %d of %s: %v", n, c.Name, err)
		}
		sees(t, "a alive", a)
		sees(t, c.Name+" alive", b)
	}
	d := start(t, with("d", key(3), key(1)))
	if n, err := a.Join(context.Background(), []string{d.addr()}); n != 0 || err == nil {
		t.Errorf("a, which cannot read what d says, joined %d: %v", n, err)
	}
}

// Keys are rotated while all servers run, and the change survives a restart.
func TestKeyRotation(t *testing.T) {
	var servers []*server
	dirs := map[string]string{}
	for _, name := range []string{"a", "b", "c"} {
		c := conf(name)
		c.Keys, c.Dir = [][]byte{key(1)}, t.TempDir()
		dirs[name] = c.Dir
		servers = append(servers, start(t, c))
	}
	a, b, c := servers[0], servers[1], servers[2]
	join(t, b, a)
	join(t, c, a)
	sees(t, "a alive, b alive, c alive", servers...)

	ok := func(got KeyAnswer, err error) KeyAnswer {
		t.Helper()
		if err != nil || got.Nodes != 3 {
			t.Fatalf("%+v: %v", got, err)
		}
		return got
	}
	if got := ok(a.Keys()); got.Keys[text(key(1))] != 3 || len(got.Keys) != 1 {
		t.Errorf("the keys are %v", got.Keys)
	}
	ok(a.InstallKey(text(key(2))))
	if got := ok(b.Keys()); got.Keys[text(key(1))] != 3 || got.Keys[text(key(2))] != 3 || got.Primary[text(key(1))] != 3 {
		t.Errorf("the keys are %+v", got)
	}
	if _, err := c.RemoveKey(text(key(1))); err == nil {
		t.Error("the key that all send with was removed")
	}
	ok(c.UseKey(text(key(2))))
	ok(a.RemoveKey(text(key(1))))
	if got := ok(b.Keys()); got.Keys[text(key(2))] != 3 || len(got.Keys) != 1 {
		t.Errorf("the keys are %v", got.Keys)
	}
	if _, err := a.UseKey(text(key(9))); err == nil {
		t.Error("a key that nobody holds is used")
	}
	sees(t, "a alive, b alive, c alive", servers...)

	// A server that was down uses its own keyring, not the older configuration.
	c.stop()
	sees(t, "a alive, b alive, c failed", a, b)
	var log logs
	again := conf("c")
	again.Keys, again.Dir, again.Logger = [][]byte{key(1)}, dirs["c"], log.logger()
	c = start(t, again)
	sees(t, "a alive, b alive, c alive", a, b, c)
	if !strings.Contains(log.String(), "ignoring the key in the configuration") {
		t.Errorf("nobody was told of the older key:\n%s", log.String())
	}
	if strings.Contains(log.String(), text(key(1))) || strings.Contains(log.String(), text(key(2))) {
		t.Error("a key was logged")
	}
	if info, err := os.Stat(filepath.Join(dirs["c"], "keyring")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others may read the keyring: %v, %v", info.Mode(), err)
	}
}

func TestKeysOfOpenPool(t *testing.T) {
	a := start(t, conf("a"))
	if _, err := a.Keys(); err == nil || !strings.Contains(err.Error(), "server.encrypt is not set") {
		t.Errorf("keys of a pool without: %v", err)
	}
}

// Of two servers with one name, the second is rejected, and both log it.
func TestSameName(t *testing.T) {
	var first, second logs
	c := conf("a")
	c.Logger = first.logger()
	a, b := start(t, c), start(t, conf("b"))
	join(t, b, a)
	sees(t, "a alive, b alive", a, b)
	twin := conf("a")
	twin.ID, twin.Logger = "id-twin", second.logger()
	for _, through := range []*server{a, b} {
		s := start(t, twin)
		n, err := s.Join(context.Background(), []string{through.addr()})
		if n != 0 || err == nil || !strings.Contains(err.Error(), "two servers have the name a.global") {
			t.Errorf("through %s: joined %d: %v", through.self, n, err)
		}
		sees(t, "a alive", s)
		s.stop()
	}
	sees(t, "a alive, b alive", a, b)
	for _, m := range a.Members() {
		if m.ID == "id-twin" {
			t.Error("the twin has the place")
		}
	}
	for _, l := range []*logs{&first, &second} {
		if !strings.Contains(l.String(), "a server was rejected") {
			t.Errorf("one was not told:\n%s", l.String())
		}
	}
}

// A server that lost its data returns under its name with another ID: at its
// own address at once, at another one when it is known to have failed.
func TestNameIsTakenOver(t *testing.T) {
	for _, elsewhere := range []bool{false, true} {
		a, b := start(t, conf("a")), start(t, conf("b"))
		join(t, b, a)
		sees(t, "a alive, b alive", a, b)
		again := conf("b")
		again.ID = "id-new"
		port := int(b.Self().Port)
		b.stop()
		if !elsewhere {
			again.Port = port
		} else {
			sees(t, "a alive, b failed", a)
		}
		b = start(t, again)
		ctx, end := context.WithTimeout(context.Background(), eventually.Limit)
		if err := b.Retry(ctx, Join{Addrs: []string{a.addr()}, Interval: 50 * time.Millisecond}); err != nil {
			t.Fatal(err)
		}
		end()
		sees(t, "a alive, b alive", a, b)
		for late := time.After(eventually.Limit); a.Members()[1].ID != "id-new"; {
			select {
			case <-a.Changed():
			case <-late:
				t.Fatalf("elsewhere %v: a knows the old b: %+v", elsewhere, a.Members()[1])
			}
		}
	}
}

// Servers of other systems are rejected, and so are those that do not identify
// themselves.
func TestOtherSystems(t *testing.T) {
	a := start(t, conf("a"))
	for tags, want := range map[string]string{
		"role=nomad region=global id=1": `not a server of this system: role "nomad"`,
		"":                              `role ""`,
		"role=berth region=global":      `does not identify itself: id "", region "global"`,
		"role=berth region=west id=1":   `does not identify itself: id "1", region "west"`,
	} {
		m, s, events := memberlist.DefaultLocalConfig(), serf.DefaultConfig(), make(chan serf.Event, 100)
		m.BindAddr, m.BindPort, m.Logger, m.LogOutput = "127.0.0.1", 0, newLogger(a.log, false), nil
		s.NodeName, s.MemberlistConfig, s.EventCh, s.Logger, s.LogOutput, s.LeavePropagateDelay = "x.global", m, events, m.Logger, nil, 0
		s.Tags = map[string]string{}
		for _, pair := range strings.Fields(tags) {
			k, v, _ := strings.Cut(pair, "=")
			s.Tags[k] = v
		}
		x, err := serf.Create(s)
		if err != nil {
			t.Fatal(err)
		}
		member := x.LocalMember()
		n, err := a.Join(context.Background(), []string{address(member.Addr, member.Port)})
		if n != 0 || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: joined %d: %v", tags, n, err)
		}
		if _, err := x.Join([]string{a.addr()}, true); err != nil {
			t.Logf("%s: it is told %v", tags, err)
		}
		if got := a.view(); got != "a alive" {
			t.Errorf("%s: a sees %s", tags, got)
		}
		if err := x.Shutdown(); err != nil {
			t.Error(err)
		}
	}
}

// Two clusters of one region do not merge. A server without a cluster joins
// either, but does not connect them.
func TestOtherCluster(t *testing.T) {
	var told logs
	two := conf("b")
	two.Cluster = "two"
	one := conf("a")
	one.Logger = told.logger()
	a, b, c := start(t, one), start(t, two), start(t, conf("c"))
	if err := a.SetCluster("one"); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		n, err := a.Join(context.Background(), []string{b.addr()})
		if n != 0 || err == nil || !strings.Contains(err.Error(), "belongs to another cluster of region global: two, but this one is one") {
			t.Errorf("joined %d: %v", n, err)
		}
	}
	if n := strings.Count(told.String(), "a server was rejected"); n != 1 {
		t.Errorf("it is told %d times:\n%s", n, told.String())
	}
	join(t, c, a)
	sees(t, "a alive, c alive", a, c)
	if n, err := c.Join(context.Background(), []string{b.addr()}); n != 0 || err == nil {
		t.Errorf("the server that met one cluster joined %d of the other: %v", n, err)
	}
	if err := c.SetCluster("one"); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Join(context.Background(), []string{b.addr()}); n != 0 || err == nil {
		t.Errorf("joined %d: %v", n, err)
	}
	sees(t, "a alive, c alive", a, c)
	sees(t, "b alive", b)
}

// Servers of two regions are one pool.
func TestRegions(t *testing.T) {
	west, east := conf("a"), conf("a")
	west.Region, east.Region, east.ID = "west", "east", "id-east"
	a, b := start(t, west), start(t, east)
	join(t, b, a)
	sees(t, "a.east alive, a.west alive", a, b)
	var regions []string
	for _, m := range a.Members() {
		regions = append(regions, m.Region)
	}
	if !slices.Equal(regions, []string{"east", "west"}) {
		t.Errorf("the regions are %v", regions)
	}
}

// A server waits for another that is not up yet.
func TestRetry(t *testing.T) {
	a := start(t, conf("a"))
	b := start(t, conf("b"))
	late := conf("b")
	late.Port = int(b.Self().Port)
	b.stop()
	joined := make(chan error, 1)
	// Its own address is in the list as well, as in a list for all servers.
	list := []string{a.addr(), b.addr()}
	go func() { joined <- a.Retry(t.Context(), Join{Addrs: list, Interval: 20 * time.Millisecond}) }()
	var tries logs
	other := conf("tried")
	other.Logger = tries.logger()
	err := start(t, other).Retry(t.Context(), Join{Addrs: list[1:], Interval: time.Millisecond, Max: 3})
	if err == nil || !strings.Contains(err.Error(), "in 3 attempts") || !strings.Contains(err.Error(), "refused") {
		t.Errorf("three attempts: %v", err)
	}
	if n := strings.Count(tries.String(), "cannot join any server"); n != 3 {
		t.Errorf("%d attempts were told:\n%s", n, tries.String())
	}
	select {
	case err := <-joined:
		t.Fatalf("joined nobody: %v", err)
	default:
	}
	b = start(t, late)
	if err := <-joined; err != nil {
		t.Fatal(err)
	}
	sees(t, "a alive, b alive", a, b)
}

// An attempt that hangs ends with its context, and with the pool.
func TestJoinEnds(t *testing.T) {
	a := start(t, conf("a"))
	ctx, end := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Retry(ctx, Join{Addrs: []string{"192.0.2.1"}}) }()
	end()
	if err := <-done; err != context.Canceled {
		t.Errorf("it ended with %v", err)
	}
	a.stop()
}

func TestNewRefuses(t *testing.T) {
	taken := start(t, conf("a"))
	damaged := t.TempDir()
	if err := os.WriteFile(filepath.Join(damaged, "keyring"), []byte(`["c2hvcnQ="]`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{"taken", func(c *Config) { c.Port = int(taken.Self().Port) }, "gossip: ports.serf: "},
		{"everywhere", func(c *Config) { c.Bind = "0.0.0.0" }, "the address to advertise is not set"},
		{"advertise", func(c *Config) { c.Advertise = "10.0.0.1" }, `advertise "10.0.0.1"`},
		{"short key", func(c *Config) { c.Keys = [][]byte{{1, 2}} }, "encrypt: "},
		{"damaged keyring", func(c *Config) { c.Dir = damaged }, "keyring is damaged: a key must be 16, 24 or 32 bytes in base64: got 5 bytes; remove it"},
		{"too long", func(c *Config) { c.Region = strings.Repeat("r", 500) }, "limit"},
	} {
		c := conf("b")
		test.change(&c)
		p, err := New(c)
		if err == nil {
			p.Close()
		}
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v\nshould say %s", test.name, err, test.want)
		}
	}
}

func TestClose(t *testing.T) {
	p, err := New(conf("a"))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

func TestParseKey(t *testing.T) {
	for in, want := range map[string]string{
		NewKey(): "", text(make([]byte, 16)): "", text(make([]byte, 24)): "",
		"":          "got 0 bytes",
		"not a key": "not base64",
		"c2hvcnQ=":  "got 5 bytes",
	} {
		_, err := ParseKey(in)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v", in, err)
		}
	}
	if one, other := NewKey(), NewKey(); one == other {
		t.Error("two keys are the same")
	}
}

// A server publishes the log version that it supports. One that publishes none,
// or nonsense, counts as version 1.
func TestLogVersionsArePublished(t *testing.T) {
	if got := start(t, conf("a")).Self(); got.LogVersion != 7 || got.Tags["log_version"] != "7" {
		t.Errorf("it says %d, %v", got.LogVersion, got.Tags)
	}
	for said, want := range map[string]int{"": 1, "0": 1, "-3": 1, "two": 1, "2": 2, "99999999999999999999": math.MaxInt} {
		if got := memberOf(&serf.Member{Tags: map[string]string{"log_version": said}}).LogVersion; got != want {
			t.Errorf("log_version %q is taken for %d, not %d", said, got, want)
		}
	}
	c := Config{}
	if _, said := c.tags()[logVersionTag]; said {
		t.Error("a server without a log version publishes one")
	}
}

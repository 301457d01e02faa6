package network

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"berth"
	"berth/internal/freeport"
)

// TestMain runs the tests in a process with namespaces of its own, so that they
// change nothing of the machine's network.
func TestMain(m *testing.M) {
	const inside = "BERTH_TEST_INSIDE"
	if os.Geteuid() != 0 || os.Getenv(inside) != "" {
		os.Exit(m.Run())
	}
	cmd := exec.Command(os.Args[0], os.Args[1:]...)
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		os.Exit(exit.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// need returns networks in a directory of the test's own. It skips the test if it
// does not run as root.
func need(t *testing.T) *Networks {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, for network namespaces")
	}
	// Mounts of the test are its own.
	must(t, unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""))
	must(t, loopbackUp())
	dir := t.TempDir()
	c := Config{
		Bridge: "berthtest0", Subnet: "10.211.0.0/24", SubnetIPv6: "fd00:b:e:1::/64", Plugins: []string{DebianPlugins, DefaultPlugins},
		ConfigDir: filepath.Join(dir, "config"), StateDir: filepath.Join(dir, "state"), Namespaces: filepath.Join(dir, "netns"),
		Addresses: filepath.Join(dir, "addresses"),
	}
	n, err := New(c)
	must(t, err)
	if o := Find(t.Context(), &c); !o.Bridge {
		t.Fatal("needs Debian's containernetworking-plugins and iptables, which make deps installs: " + o.Why)
	}
	t.Cleanup(func() { // also when the test failed half way
		left, err := n.Left()
		for _, id := range left {
			err = errors.Join(err, n.Remove(context.Background(), id, nil))
		}
		must(t, err)
	})
	return n
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// within runs f on a thread in a network namespace. What f opens stays there.
func within[T any](t *testing.T, path string, f func() (T, error)) T {
	t.Helper()
	type answer struct {
		v   T
		err error
	}
	done := make(chan answer)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends
		var a answer
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if a.err = err; err == nil {
			if a.err = unix.Setns(fd, unix.CLONE_NEWNET); a.err == nil {
				a.v, a.err = f()
			}
			unix.Close(fd)
		}
		done <- a
	}()
	a := <-done
	must(t, a.err)
	return a.v
}

// serve answers each connection to a port in a namespace with a text.
func serve(t *testing.T, path string, port int, text string) {
	t.Helper()
	l := within(t, path, func() (net.Listener, error) { return net.Listen("tcp", fmt.Sprint(":", port)) })
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, text)
			c.Close()
		}
	}()
}

// read returns what a server at an address says.
func read(address string) (string, error) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return "", err
	}
	defer c.Close()
	b, err := io.ReadAll(c)
	return string(b), err
}

// rules returns the rules of the firewall that name an allocation.
func rules(t *testing.T, alloc string) (out []string) {
	t.Helper()
	for _, command := range []string{"iptables-save", "ip6tables-save"} {
		b, err := exec.Command(command).Output()
		must(t, err)
		for line := range strings.Lines(string(b)) {
			if strings.Contains(line, alloc) {
				out = append(out, line)
			}
		}
	}
	return out
}

const (
	first  = "11111111-aaaa-bbbb-cccc-000000000001"
	second = "11111111-aaaa-bbbb-cccc-000000000002"
)

func TestGroupsOnABridge(t *testing.T) {
	n := need(t)
	port, err := freeport.Take()
	must(t, err)
	r := &Request{Alloc: first, Mode: berth.NetworkBridge, Ports: []berth.PortMapping{{Label: "http", Value: port, To: 8080}}}
	a, err := n.Make(t.Context(), r)
	must(t, err)
	b, err := n.Make(t.Context(), &Request{Alloc: second, Mode: berth.NetworkBridge})
	must(t, err)
	if a.Status.Address == b.Status.Address || !strings.HasPrefix(a.Status.Address, "10.211.0.") || !strings.HasPrefix(a.Status.AddressIPv6, "fd00:b:e:1:") || a.Status.InterfaceName != "eth0" {
		t.Fatalf("addresses %+v and %+v", a.Status, b.Status)
	}
	serve(t, a.Namespace, 8080, "one")

	// From the host: by the mapped port, and directly. From the other group: directly.
	for _, address := range []string{net.JoinHostPort("127.0.0.1", fmt.Sprint(port)), net.JoinHostPort("10.211.0.1", fmt.Sprint(port)), net.JoinHostPort(a.Status.Address, "8080")} {
		if got, err := read(address); got != "one" || err != nil {
			t.Errorf("%s says %q, %v", address, got, err)
		}
	}
	if got := within(t, b.Namespace, func() (string, error) { return read(net.JoinHostPort(a.Status.Address, "8080")) }); got != "one" {
		t.Errorf("the other group reads %q", got)
	}

	// An agent that comes back finds the same network, and does not disturb it.
	again, err := New(n.c)
	must(t, err)
	if found := again.Find(r); found == nil || found.Namespace != a.Namespace || found.Status.Address != a.Status.Address || found.Status.AddressIPv6 != a.Status.AddressIPv6 || found.Status.InterfaceName != a.Status.InterfaceName {
		t.Errorf("found %+v, was %+v", found, a)
	}
	same, err := again.Make(t.Context(), r)
	must(t, err)
	if same.Status.Address != a.Status.Address || same.Namespace != a.Namespace {
		t.Errorf("made again: %+v, was %+v", same, a)
	}
	// Rules that somebody flushed do not keep it from being removed.
	must(t, exec.Command("iptables", "-t", "nat", "-F").Run())

	must(t, again.Remove(t.Context(), first, nil))
	must(t, again.Remove(t.Context(), first, nil)) // again
	if left, err := again.Left(); err != nil || len(left) != 1 || left[0] != second {
		t.Errorf("left: %v, %v", left, err)
	}
	if isNamespace(a.Namespace) || len(rules(t, first)) > 0 {
		t.Errorf("after its end: namespace %v, rules %q", isNamespace(a.Namespace), rules(t, first))
	}
	if _, err := os.Stat(filepath.Join(n.c.Addresses, n.c.Bridge, bridgeList, a.Status.Address)); err == nil {
		t.Error("its address is still taken")
	}
}

// Two agents of a machine use the same bridge, and so does an agent whose data
// directory is new while namespaces of the one before are there still: no address
// is given away twice, and neither agent removes what the other made.
func TestAgentsOfAMachineShareABridge(t *testing.T) {
	n := need(t)
	a, err := n.Make(t.Context(), &Request{Alloc: first, Mode: berth.NetworkBridge})
	must(t, err)
	c := n.c
	c.StateDir = t.TempDir()
	other, err := New(c)
	must(t, err)
	b, err := other.Make(t.Context(), &Request{Alloc: second, Mode: berth.NetworkBridge})
	must(t, err)
	if a.Status.Address == b.Status.Address || a.Status.AddressIPv6 == b.Status.AddressIPv6 {
		t.Errorf("both have %+v", b.Status)
	}
	if left, err := other.Left(); err != nil || len(left) != 1 || left[0] != second {
		t.Errorf("left: %v, %v", left, err)
	}
	must(t, other.Remove(t.Context(), second, nil))
	serve(t, a.Namespace, 8080, "one")
	if got, err := read(net.JoinHostPort(a.Status.Address, "8080")); got != "one" || err != nil {
		t.Errorf("the first says %q, %v", got, err)
	}
}

// An agent whose turn does not come, because another one hangs, waits no longer
// than its allocation does.
func TestATurnThatDoesNotCome(t *testing.T) {
	open := func(dir string) *os.File {
		f, err := os.Open(dir)
		must(t, err)
		t.Cleanup(func() { f.Close() })
		return f
	}
	dir := t.TempDir()
	held, turn := open(dir), open(dir)
	must(t, lockFile(t.Context(), held))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := lockFile(ctx, turn); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v; want that of the context", err)
	}
	must(t, held.Close())
	must(t, lockFile(t.Context(), turn))
}

// Networks that are made at the same time on a machine that has none share chains
// of the firewall, which only one of them can make.
func TestNetworksThatAreMadeAtOnce(t *testing.T) {
	n := need(t)
	for _, args := range []string{"-F", "-X"} {
		must(t, exec.Command("iptables", "-t", "nat", args).Run())
	}
	var wg sync.WaitGroup
	for i := range 6 {
		port, err := freeport.Take()
		must(t, err)
		r := &Request{Alloc: fmt.Sprintf("11111111-aaaa-bbbb-cccc-00000000001%d", i), Mode: berth.NetworkBridge, Ports: []berth.PortMapping{{Label: "http", Value: port, To: 8080}}}
		t.Cleanup(func() { must(t, n.Remove(context.Background(), r.Alloc, nil)) })
		wg.Go(func() {
			if _, err := n.Make(t.Context(), r); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// Whatever was made when an agent is killed, Make makes the network whole, and
// Remove removes it.
func TestWhatAKilledAgentLeaves(t *testing.T) {
	n := need(t)
	r := &Request{Alloc: first, Mode: berth.NetworkBridge, Ports: []berth.PortMapping{{Label: "http", Value: 28080}}}
	for name, leave := range map[string]func(){
		"only the record": func() { must(t, os.WriteFile(n.record(first), nil, 0o600)) },
		"a file in place of the namespace": func() {
			must(t, os.WriteFile(n.record(first), nil, 0o600))
			must(t, os.MkdirAll(n.c.Namespaces, 0o755))
			must(t, os.WriteFile(n.path(first), nil, 0o444))
		},
		"an empty namespace": func() {
			must(t, os.WriteFile(n.record(first), nil, 0o600))
			must(t, makeNamespace(n.path(first)))
		},
		"a network whose namespace is gone": func() {
			_, err := n.Make(t.Context(), r)
			must(t, err)
			must(t, removeNamespace(n.path(first)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			leave()
			if found := n.Find(r); found != nil {
				t.Errorf("found %+v", found)
			}
			m, err := n.Make(t.Context(), r)
			must(t, err)
			if m.Status.Address == "" || !isNamespace(m.Namespace) {
				t.Errorf("made %+v", m)
			}
			must(t, n.Remove(t.Context(), first, nil))
			leave()
			must(t, n.Remove(t.Context(), first, nil))
			left, err := n.Left()
			must(t, err)
			if len(left) > 0 || isNamespace(n.path(first)) || len(rules(t, first)) > 0 {
				t.Errorf("left: %q, rules %q", left, rules(t, first))
			}
		})
	}
}

func TestOtherModes(t *testing.T) {
	n := need(t)
	none, err := n.Make(t.Context(), &Request{Alloc: first, Mode: berth.NetworkNone})
	must(t, err)
	names := within(t, none.Namespace, func() (names []string, err error) {
		all, err := net.Interfaces()
		for _, i := range all {
			if i.Flags&net.FlagUp != 0 {
				names = append(names, i.Name)
			}
		}
		return names, err
	})
	if len(names) != 1 || names[0] != "lo" || none.Status.Address != "" {
		t.Errorf("a network of mode none has %q, %+v", names, none.Status)
	}

	must(t, os.MkdirAll(n.c.ConfigDir, 0o755))
	must(t, os.WriteFile(filepath.Join(n.c.ConfigDir, "10-direct.conflist"), []byte(`{
		"cniVersion": "0.4.0", "name": "direct",
		"plugins": [{"type": "ptp", "ipam": {"type": "host-local", "subnet": "10.212.0.0/24", "dataDir": "`+n.c.StateDir+`/direct"}, "dns": {"nameservers": ["10.9.9.9"]}}]
	}`), 0o644))
	if got := Find(t.Context(), &n.c); len(got.CNI) != 1 || got.CNI[0] != "direct" || got.Plugins["ptp"] == "" {
		t.Errorf("found %+v", got)
	}
	m, err := n.Make(t.Context(), &Request{Alloc: second, Mode: "cni/direct", Args: map[string]string{"IgnoreUnknown": "true", "TEAM": "a"}})
	must(t, err)
	if !strings.HasPrefix(m.Status.Address, "10.212.0.") || m.Status.DNS == nil || m.Status.DNS.Servers[0] != "10.9.9.9" {
		t.Errorf("made %+v", m.Status)
	}
	must(t, n.Remove(t.Context(), second, nil))
	if found := n.Find(&Request{Alloc: first, Mode: berth.NetworkNone}); found == nil || found.Namespace != none.Namespace {
		t.Errorf("found %+v", found)
	}

	for mode, kind := range map[string]berth.Kind{"cni/other": berth.NotFound, "host": berth.Invalid, "": berth.Invalid} {
		if _, err := n.Make(t.Context(), &Request{Alloc: second, Mode: mode}); berth.KindOf(err) != kind {
			t.Errorf("mode %q: %v", mode, err)
		}
		if found := n.Find(&Request{Alloc: first, Mode: mode}); found != nil {
			t.Errorf("mode %q: found %+v", mode, found)
		}
	}
	if _, err := n.Make(t.Context(), &Request{Alloc: second, Mode: "cni/direct", Args: map[string]string{"a": "b;c"}}); berth.KindOf(err) != berth.Invalid {
		t.Error("an argument with a semicolon is accepted")
	}
	if _, err := n.Make(t.Context(), &Request{Alloc: "../up", Mode: berth.NetworkNone}); err == nil {
		t.Error("an allocation that is a path is accepted")
	}
}

// engine makes namespaces as the engine of a container driver would.
type engine struct{ path string }

func (e *engine) Name() string { return "engine" }

func (e *engine) MakeNetwork(context.Context, string, string) (string, error) {
	if !isNamespace(e.path) {
		return e.path, makeNamespace(e.path)
	}
	return e.path, nil
}

func (e *engine) RemoveNetwork(context.Context, string) error { return removeNamespace(e.path) }

// A namespace that a driver made is the allocation's. When the driver had to
// make another one, that one is joined instead.
func TestNamespacesOfDrivers(t *testing.T) {
	n := need(t)
	e := &engine{filepath.Join(t.TempDir(), "ns")}
	r := &Request{Alloc: first, Mode: berth.NetworkBridge, Maker: e}
	for range 2 {
		m, err := n.Make(t.Context(), r)
		must(t, err)
		if same, err := sameNamespace(e.path, m.Namespace); !same || err != nil || !m.Fresh {
			t.Errorf("another namespace was joined: %v, fresh %v", err, m.Fresh)
		}
		if again, err := n.Make(t.Context(), r); err != nil || again.Fresh || again.Status.Address != m.Status.Address {
			t.Errorf("made again: %+v, %v; was %+v", again, err, m)
		}
		addrs := within(t, e.path, net.InterfaceAddrs)
		if !strings.Contains(fmt.Sprint(addrs), m.Status.Address) {
			t.Errorf("%s is not one of %v", m.Status.Address, addrs)
		}
		must(t, removeNamespace(e.path)) // the engine was restarted
	}
	// Whoever removes what is left learns which driver must.
	if name, err := n.Maker(first); name != "engine" || err != nil {
		t.Errorf("maker %q, %v", name, err)
	}
	must(t, n.Remove(t.Context(), first, e))
	if name, err := n.Maker(first); name != "" || err != nil {
		t.Errorf("maker of none: %q, %v", name, err)
	}
	if isNamespace(e.path) {
		t.Error("the driver's namespace stays")
	}
}

// Only the rules of the allocation go, and the chains that they lead to.
func TestRulesOfOneAllocation(t *testing.T) {
	const saved = `*nat
:POSTROUTING ACCEPT [0:0]
:CNI-aaa - [0:0]
-A POSTROUTING -s 10.0.0.2/32 -m comment --comment "name: \"berth-bridge\" id: \"one\"" -j CNI-aaa
-A POSTROUTING -s 10.0.0.3/32 -m comment --comment "name: \"berth-bridge\" id: \"two\"" -j CNI-bbb
-A POSTROUTING -s 10.0.0.4/32 -j MASQUERADE
-A CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: \"berth-bridge\" id: \"one\"" -j CNI-DN-ccc
-A CNI-aaa -d 10.0.0.0/24 -m comment --comment "name: \"berth-bridge\" id: \"one\"" -j ACCEPT
-A CNI-DN-ccc -p tcp -m tcp --dport 80 -j DNAT --to-destination 10.0.0.2:80
COMMIT
`
	rules, chains := rulesOf(saved, "one")
	if len(rules) != 2 || !strings.HasPrefix(rules[0], "POSTROUTING -s 10.0.0.2/32") || !strings.HasPrefix(rules[1], "CNI-HOSTPORT-DNAT") || strings.Join(chains, " ") != "CNI-aaa CNI-DN-ccc" {
		t.Errorf("got %q, %q", rules, chains)
	}
	if rules, chains := rulesOf(saved, "three"); len(rules)+len(chains) > 0 {
		t.Errorf("for none: %q, %q", rules, chains)
	}
}

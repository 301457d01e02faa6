package real

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"berth/internal/failpoint"
	"berth/test/bed"
)

// What is unknown, or would protect something and is not built, refuses to
// start, by name.
func TestAnAgentRefusesWhatItCannotDo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.file("plain.hcl", "data_dir = \""+w.Dir+"/never\"\nserver { enabled = true bootstrap_expect = 1 }\nports {\n http = 0\n rpc = 0\n}\n")
	for _, c := range []struct{ config, want string }{
		{`bind_adr = "127.0.0.1"`, "c.hcl:1: bind_adr: unknown key; did you mean bind_addr?"},
		{"server {\n authoritative_region = \"a/b\"\n}", "c.hcl:2: server.authoritative_region: \"a/b\" is not a valid name"},
		{"tls {\n http = true\n rpc = true\n}", "c.hcl:1: tls.ca_file: is missing: want the file with the CA that signs the certificates of other agents"},
		{"tls {\n http = true\n cert_file = \"absent.pem\"\n key_file = \"absent.pem\"\n}", "tls: cert_file: open absent.pem: no such file or directory"},
		{"tls {\n rpc = true\n tls_min_version = \"tls11\"\n}", `c.hcl:3: tls.tls_min_version: unsupported TLS version "tls11": want "tls12" (HTTP API only) or "tls13"`},
		{"server {\n encrypt = \"c2VjcmV0\"\n}", "c.hcl:2: server.encrypt: a key must be 16, 24 or 32 bytes in base64"},
		{"vault {\n enabled = true\n}", "c.hcl:2: vault.enabled: Vault is not supported"},
		{"consul {\n address = \"127.0.0.1:8500\"\n}", "c.hcl:1: consul: Consul is not supported"},
		{`{"server": {"authoritative_region": "a/b"}}`, "c.hcl:1: server.authoritative_region: \"a/b\" is not a valid name"},
		{"server {\n bootstrap_expect = 300\n}", "c.hcl:2: server.bootstrap_expect: must be between 0 and 100, got 300"},
		{"client {\n enabled = \"perhaps\"\n}", "c.hcl:2: client.enabled: must be true or false"},
		{"ports {\n http = 70000\n}", "c.hcl:2: ports.http: must be between 0 and 65535, got 70000"},
		{"plugin \"qemu\" {\n config {\n  image_paths = [{}]\n }\n}", "plugin.qemu.config.image_paths: "},
		{"plugin \"docker\" {\n config {\n  volume {\n   enabled = true\n  }\n }\n}", "plugin.docker.config.volume: unknown key"},
		{"server {", "c.hcl:1"},
	} {
		w.file("c.hcl", c.config)
		s := w.command("berth", nil, "agent", "-config", "plain.hcl", "-config", "c.hcl")
		if s.Code != 1 || !strings.Contains(s.Err, c.want) {
			t.Errorf("%s\ngave %v\nwant %q", c.config, s, c.want)
		}
		if strings.Contains(s.String(), "c2VjcmV0") {
			t.Errorf("a secret is shown: %v", s)
		}
	}
	if s := w.command("berth", nil, "agent", "-config", "plain.hcl", "-encrypt", "c2VjcmV0"); s.Code != 1 || !strings.Contains(s.Err, "-encrypt: server.encrypt: a key must be 16, 24 or 32 bytes") {
		t.Errorf("%v", s)
	}
	if _, err := os.Stat(filepath.Join(w.Dir, "never")); !os.IsNotExist(err) {
		t.Errorf("an agent that refused to start has made its folder: %v", err)
	}
}

// A second agent on the same folder, or on a port that is taken, ends with a
// sentence, and so does one that would have another's allocations. The folder
// is what it looks at first: it says so whatever ports it was told, and nobody
// hears of it.
func TestASecondAgentIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	atOnce := []string{failpoint.Env + "=claim/no-wait=error(x)*"} // instead of waiting for the other to end
	server := w.agent("server", "server { enabled = true bootstrap_expect = 1 }")
	node := w.agent("node", "client {\n  enabled = true\n  servers = [\""+server.rpc+"\"]\n}")
	for a, folder := range map[*agent]string{server: "server", node: "client", w.agent("both", both): "server"} {
		told := fmt.Sprintf("Error: another agent, process %d, uses the directory %s; each agent needs its own\n", a.PID(), filepath.Join(a.dataDir, folder))
		for _, ports := range []string{"", "ports {\n  http = 0\n  rpc = 0\n  serf = 0\n}"} {
			s := w.command("berth", atOnce, a.argv("-config", w.file("other.hcl", ports))...)
			if s.Code != 1 || s.Err != told || s.Out != "" {
				t.Errorf("the same folder as %s, ports %q: %v\nwant %s", a.Name, ports, s, told)
			}
		}
		if a != node {
			s := w.command("berth", atOnce, a.argv("-data-dir", filepath.Join(w.Dir, "second"))...)
			if s.Code != 1 || !strings.HasPrefix(s.Err, "Error: ports.rpc: ") || !strings.Contains(s.Err, "address already in use") {
				t.Errorf("the same port as %s: %v", a.Name, s)
			}
		}
		a.joined()
	}
	s := w.command("berth", atOnce, node.argv("-data-dir", filepath.Join(w.Dir, "third"), "-alloc-dir", filepath.Join(node.dataDir, "alloc"))...)
	if s.Code != 1 || !strings.HasPrefix(s.Err, "Error: another agent uses the directory "+filepath.Join(node.dataDir, "alloc")+";") {
		t.Errorf("the allocations of another: %v", s)
	}
	node.joined()
}

// A server that cannot use its log ends before the others hear of it, though
// its gossip knows where they are.
func TestTheOthersDoNotHearOfADamagedServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	servers := w.cluster(3)
	broken, others := servers[0], servers[1:]
	broken.Kill()
	said := func(s *agent, what string) int {
		return strings.Count(s.Said(), `msg="a server `+what+`" server=`+broken.Name+".")
	}
	joined := map[*agent]int{}
	for _, s := range others {
		w.until(s.Name+" misses it", func() string {
			// A busy machine can have held it up before, so that it was missed and came back.
			if n := said(s, "failed"); n == 0 || n < said(s, "joined") {
				return bed.Got(s.Said())
			}
			return ""
		})
		joined[s] = said(s, "joined")
	}
	logs, err := filepath.Glob(filepath.Join(broken.dataDir, "server", "log", "db", "*.log"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("the log has no file: %v", err)
	}
	for _, name := range logs {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	for range 5 {
		s := w.command("berth", nil, broken.argv()...)
		if s.Code != 1 || !strings.HasPrefix(s.Err, "Error: server: the raft log is damaged: ") || s.Out != "" {
			t.Fatalf("it ended with %v", s)
		}
	}
	for _, s := range others {
		if n := said(s, "joined") - joined[s]; n != 0 {
			t.Errorf("%s heard %d times that it joined again:\n%s", s.Name, n, s.Said())
		}
		s.joined()
	}
}

// Nothing listens beyond this machine unless the configuration says so, and
// then one warning says what is unprotected.
func TestClosedByDefault(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.agent("closed", both)
	a.joined()
	for _, addr := range a.listens() {
		if !strings.HasPrefix(addr, "127.0.0.1:") {
			t.Errorf("without bind_addr it listens at %s", addr)
		}
	}
	if n := len(a.listens()); n != 4 { // HTTP, RPC, and gossip by TCP and UDP
		t.Errorf("it listens at %v", a.listens())
	}
	if out := a.Said(); strings.Contains(out, "level=WARN") {
		t.Errorf("it warns:\n%s", out)
	}

	// The one that listens everywhere does so in a network of its own, which
	// nobody is in.
	open := &agent{w: w, Agent: w.Agent("open", "-config", w.file("open.hcl", `
		data_dir  = "`+w.Dir+`/open"
		bind_addr = "0.0.0.0"
		server {
		  enabled          = true
		  bootstrap_expect = 1
		}
		ports {
		  http = 14646
		  rpc  = 14647
		  serf = 14648
		}
		advertise {
		  http = "127.0.0.1"
		  rpc  = "127.0.0.1"
		}`))}
	open.Prepare = network
	open.start()
	w.until("it has warned", func() string {
		if out := open.Said(); !strings.Contains(out, "level=WARN") {
			return bed.Got(out)
		}
		return ""
	})
	got := open.listens()
	slices.Sort(got)
	if want := []string{"0.0.0.0:14646", "0.0.0.0:14647", "0.0.0.0:14648", "0.0.0.0:14648"}; !slices.Equal(got, want) { // gossip by TCP and UDP
		t.Errorf("with bind_addr it listens at %v", got)
	}
	if code := open.signal(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if n := strings.Count(open.Said(), "level=WARN"); n != 1 {
		t.Errorf("%d warnings:\n%s", n, open.Said())
	}
	w.holds(open.Said(), "open to other machines without protection", "the HTTP API on 0.0.0.0:14646 (no access control, no TLS", "the RPC port on 0.0.0.0:14647 (no TLS", "the gossip port on 0.0.0.0:14648 (no server.encrypt")
}

// network keeps a process in a network of its own, without even a loopback.
func network(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
}

// listens lists the addresses that an agent's process listens at.
func (a *agent) listens() (out []string) {
	a.w.t.Helper()
	proc := fmt.Sprintf("/proc/%d/", a.PID())
	own := map[string]bool{} // inodes of its sockets
	fds, _ := filepath.Glob(proc + "fd/*")
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil && strings.HasPrefix(to, "socket:[") {
			own[strings.Trim(to, "socket:[]")] = true
		}
	}
	for _, table := range []string{"tcp", "tcp6", "udp", "udp6"} {
		text, err := os.ReadFile(proc + "net/" + table)
		if err != nil {
			a.w.t.Error(err)
		}
		for line := range strings.Lines(string(text)) {
			// sl local_address rem_address st … uid timeout inode
			f := strings.Fields(line)
			listening := len(f) > 9 && (f[3] == "0A" || strings.HasPrefix(table, "udp"))
			if !listening || !own[f[9]] {
				continue
			}
			out = append(out, address(f[1]))
		}
	}
	return out
}

// address reads an address as the kernel shows it: hexadecimal, the words of
// the IP address in the machine's order, which is taken to be little-endian.
func address(s string) string {
	text, port, _ := strings.Cut(s, ":")
	b, err := hex.DecodeString(text)
	for i := 0; i+4 <= len(b); i += 4 {
		slices.Reverse(b[i : i+4])
	}
	ip, ok := netip.AddrFromSlice(b)
	n, wrong := strconv.ParseUint(port, 16, 16)
	if err != nil || wrong != nil || !ok {
		return s
	}
	return netip.AddrPortFrom(ip, uint16(n)).String()
}

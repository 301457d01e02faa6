// Package network tests networks of groups with the real binary. All of it runs
// in network and mount namespaces of its own.
package network

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	agent "berth/internal/agent/network"
	"berth/test/bed"
)

func TestMain(m *testing.M) { os.Exit(bed.MainApart(m)) }

const config = `
name      = "one"
data_dir  = "DIR/one"
bind_addr = "127.0.0.1"
ports {
  http = 0
  rpc  = 0
  serf = 0
}
server { enabled = true bootstrap_expect = 1 }
client {
  enabled             = true
  network_interface   = "lo"
  cgroup_parent       = "CGROUP"
  memory_total_mb     = 2048
  cpu_total_compute   = 10000
  disk_total_mb       = 100000
  bridge_network_name = "berthtest0"
  chroot_env {
    "DIR/app" = "/app"
  }
}
plugin "raw_exec" {
  config { enabled = true }
}
dns {
  enabled = true
  port    = 0
  ttl     = "1s"
}
`

const job = `
job "web" {
  group "web" {
    network {
      mode     = "bridge"
      hostname = "webhost"
      port "http" { to = 8080 }
      dns { servers = ["10.1.2.3"] }
    }
    service {
      name         = "web"
      port         = "http"
      provider     = "nomad"
      address_mode = "alloc"
    }
    task "raw" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "cat /proc/net/fib_trie; exec sleep 100000"]
      }
      resources {
        cpu    = 50
        memory = 32
      }
    }
    task "app" {
      driver = "exec"
      config { command = "/app/server" }
      resources {
        cpu    = 100
        memory = 64
      }
    }
  }

  # It finds the other group by name.
  group "caller" {
    network {
      mode = "bridge"
      port "relay" { to = 8081 }
    }
    task "relay" {
      driver = "exec"
      config {
        command = "/app/server"
        args    = ["relay", "8081", "http://web.default.service.berth:8080/"]
      }
      resources {
        cpu    = 50
        memory = 64
      }
    }
  }
}
`

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// bridged reports whether an address is one of the bridge's. The machine gives
// them out one after another, whatever tests use them.
func bridged(address string) bool {
	ip, err := netip.ParseAddr(address)
	return err == nil && netip.MustParsePrefix(agent.DefaultSubnet).Contains(ip)
}

// build builds a static program.
func build(t *testing.T, path, source string) {
	t.Helper()
	must(t, bed.Program(path, source))
}

// leftNothing checks that nothing of the network of an allocation is left on the
// machine.
func leftNothing(t *testing.T, id string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join("/run/netns", id)); err == nil {
		t.Error("its namespace is left")
	}
	rules, err := exec.Command("iptables-save").Output()
	must(t, err)
	if strings.Contains(string(rules), id) {
		t.Errorf("rules are left:\n%s", rules)
	}
	links, err := exec.Command("ip", "-brief", "link").Output()
	must(t, err)
	if strings.Contains(string(links), "veth") {
		t.Errorf("interfaces are left:\n%s", links)
	}
}

// untilNothingIsLeft waits until no allocation of the agents below a directory has a
// network. An agent that ends earlier leaves them, and the agent of the next test,
// which does not know them, would give their addresses away again.
func untilNothingIsLeft(t *testing.T, dir string) {
	t.Helper()
	must(t, bed.Until(t.Context(), "all networks are gone", func() string {
		records, err := filepath.Glob(filepath.Join(dir, "*", "client", "networks", "allocs", "*"))
		if err != nil || len(records) > 0 {
			return fmt.Sprint(records, err)
		}
		links, err := exec.Command("ip", "-brief", "link").Output()
		if err != nil || strings.Contains(string(links), "veth") {
			return fmt.Sprint(string(links), err)
		}
		return ""
	}))
}

// A service on a bridge is reached by its port on the host and by its own
// address, before and after the agent was killed, and nothing of its network is
// left when it has ended.
func TestAServiceOnABridge(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, for network namespaces")
	}
	b := bed.ForTest(t)
	build(t, filepath.Join(b.Dir, "app", "server"), "./server")
	path, err := b.File("one.hcl", strings.NewReplacer("DIR", b.Dir, "CGROUP", b.CgroupParent()).Replace(config))
	must(t, err)
	file, err := b.File("web.nomad.hcl", job)
	must(t, err)
	a := b.Agent("one", "-config", path)
	must(t, a.Start())
	must(t, a.Await(t.Context()))
	berth := func(args ...string) string {
		t.Helper()
		r, err := b.Run(t.Context(), b.Binary, b.Environ("BERTH_ADDR="+a.Banner("HTTP"), "NOMAD_ADDR="+a.Banner("HTTP")), args...)
		must(t, err)
		if r.Code != 0 {
			t.Fatalf("berth %s: %s", strings.Join(args, " "), r)
		}
		return r.Out
	}
	berth("job", "run", "-detach", file) // the node may not be ready yet

	var service []struct {
		Address string
		Port    int
		AllocID string
		ID      string
	}
	registered := func(when string) {
		t.Helper()
		must(t, bed.Until(t.Context(), "the service "+when, func() string {
			service = nil
			if err := json.Unmarshal([]byte(berth("service", "info", "-json", "web")), &service); err != nil {
				return err.Error()
			}
			if len(service) != 1 {
				return fmt.Sprintf("%d registrations", len(service))
			}
			return ""
		}))
	}
	// A registration comes when the task runs.
	registered("at first")
	own := fmt.Sprintf("%s:%d", service[0].Address, service[0].Port)
	if !bridged(service[0].Address) || service[0].Port != 8080 {
		t.Fatalf("the service is at %s", own)
	}
	id := service[0].AllocID
	var alloc struct {
		AllocatedResources struct {
			Shared struct{ Ports []struct{ Value int } }
		}
		NetworkStatus struct{ Address string }
	}
	must(t, bed.Until(t.Context(), "the address of the allocation", func() string {
		must(t, json.Unmarshal([]byte(berth("alloc", "status", "-json", id)), &alloc))
		if alloc.NetworkStatus.Address == "" {
			return "it is not told"
		}
		return ""
	}))
	if alloc.NetworkStatus.Address != service[0].Address || len(alloc.AllocatedResources.Shared.Ports) != 1 {
		t.Fatalf("the allocation is %+v", alloc)
	}
	mapped := fmt.Sprintf("127.0.0.1:%d", alloc.AllocatedResources.Shared.Ports[0].Value)

	answers := func(when string) {
		t.Helper()
		for _, address := range []string{own, mapped} {
			must(t, bed.Until(t.Context(), address+" "+when, func() string {
				answer, err := bed.Call(t.Context(), http.MethodGet, "http://"+address, "")
				if err != nil {
					return err.Error()
				}
				for _, want := range []string{"own address " + own + "\n", "host name webhost\n", service[0].Address + "\twebhost", "nameserver 10.1.2.3"} {
					if !strings.Contains(strings.ReplaceAll(answer.Text, " webhost", "\twebhost"), strings.ReplaceAll(want, " webhost", "\twebhost")) {
						return fmt.Sprintf("%q is missing from %s", want, answer.Text)
					}
				}
				return ""
			}))
		}
	}
	// A raw_exec task is in the network of its group, and so is a command beside it.
	beside := func(when string) {
		t.Helper()
		r := berth("alloc", "exec", "-task", "raw", id, "/bin/cat", "/proc/net/fib_trie")
		if !strings.Contains(r, service[0].Address) {
			t.Errorf("%s: a command beside the raw_exec task does not have the address %s:\n%s", when, service[0].Address, r)
		}
	}
	must(t, bed.Until(t.Context(), "what the raw_exec task says", func() string {
		if said := berth("alloc", "logs", "-task", "raw", id); !strings.Contains(said, service[0].Address) {
			return "it does not have the address of the group: " + said
		}
		return ""
	}))
	beside("at first")
	answers("at first")
	var stubs []struct{ ID, TaskGroup string }
	listed, err := bed.Call(t.Context(), http.MethodGet, a.Banner("HTTP")+"/v1/job/web/allocations", "")
	must(t, err)
	must(t, json.Unmarshal([]byte(listed.Text), &stubs))
	for _, s := range stubs {
		if s.TaskGroup == "caller" {
			must(t, json.Unmarshal([]byte(berth("alloc", "status", "-json", s.ID)), &alloc))
		}
	}
	relayed := fmt.Sprintf("127.0.0.1:%d", alloc.AllocatedResources.Shared.Ports[0].Value)
	byName := func(when string) {
		t.Helper()
		must(t, bed.Until(t.Context(), "the service by its name "+when, func() string {
			answer, err := bed.Call(t.Context(), http.MethodGet, "http://"+relayed, "")
			if err != nil {
				return err.Error()
			}
			if !strings.Contains(answer.Text, "own address "+own+"\n") {
				return bed.Got(answer.Text)
			}
			return ""
		}))
	}
	byName("at first")
	before := bed.Tasks(b.Processes())
	berth("service", "delete", "web", service[0].ID) // so that the next one is that of the next agent
	a.Kill()
	answers("while no agent is there")
	must(t, a.Start())
	must(t, a.Await(t.Context()))
	answers("after the agent came back")
	registered("of the next agent")
	byName("after the agent came back")
	beside("after the agent came back")
	if now := fmt.Sprintf("%s:%d", service[0].Address, service[0].Port); now != own {
		t.Errorf("after the agent came back the service is at %s, was at %s", now, own)
	}
	if after := bed.Tasks(b.Processes()); len(after[id]) == 0 || fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("the processes were %v and are %v", before, after)
	}

	berth("job", "stop", "-purge", "web")
	must(t, bed.Until(t.Context(), "the end of the network", func() string {
		if left, _ := os.ReadDir(filepath.Join(b.Dir, "one", "client", "networks", "allocs")); len(left) > 0 {
			return "its record is there"
		}
		return ""
	}))
	leftNothing(t, id)
	if _, err := a.End(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
}

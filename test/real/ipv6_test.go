package real

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
)

// needIPv6 skips a test on a machine that has no loopback of IPv6.
func needIPv6(t *testing.T) {
	t.Helper()
	ln, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Skipf("this machine has no ::1: %v", err)
	}
	ln.Close()
}

// on6 is how a server is one of three that speak IPv6 alone. Addresses stand as
// people write them: with brackets where a port follows, and where none does.
func on6(ports []int, i int) string {
	var others []string
	for k, p := range ports {
		if k != i {
			others = append(others, fmt.Sprintf(`"[::1]:%d"`, p))
		}
	}
	return fmt.Sprintf(`
bind_addr = "[::1]"
advertise {
  rpc  = "::1"
  serf = "[0:0:0:0:0:0:0:1]:%d"
}
ports { serf = %d }
server {
  enabled          = true
  bootstrap_expect = %d
  server_join {
    retry_join     = [%s]
    retry_interval = "1s"
  }
}
autopilot {
  server_stabilization_time = "1s"
}`, ports[i], ports[i], len(ports), strings.Join(others, ", "))
}

// Three servers and a node that speak IPv6 alone: a job goes from the command
// line to its port at an address of IPv6, its check, its output, and its end;
// and another server takes over.
func TestIPv6(t *testing.T) {
	t.Parallel()
	needIPv6(t)
	w := newWorld(t)
	ports := []int{freePort(t), freePort(t), freePort(t)}
	var servers []*agent
	var rpc []string
	for i := range ports {
		s := w.agent(fmt.Sprint("s", i+1), on6(ports, i))
		servers, rpc = append(servers, s), append(rpc, fmt.Sprintf("%q", s.rpc))
	}
	for _, s := range servers {
		s.joined()
		for _, addr := range append(s.listens(), strings.TrimPrefix(s.addr, "http://"), s.rpc) {
			if !strings.HasPrefix(addr, "[::1]:") {
				t.Errorf("%s is at %s", s.Name, addr)
			}
		}
	}
	node := w.agent("node", `
bind_addr = "::1"
client {
  enabled = true
  servers = [`+strings.Join(rpc, ", ")+`]
  host_network "six" {
    interface = "lo"
    cidr      = "::1/128"
  }
}`)
	node.joined()

	first := servers[0]
	for i, s := range servers {
		w.holds(first.good("server", "members"), s.Name+".global  ::1      "+fmt.Sprint(ports[i]))
		w.holds(first.good("operator", "raft", "list-peers"), s.rpc)
	}
	if out := first.good("server", "join", fmt.Sprintf("[::1]:%d", ports[1])); !strings.Contains(out, "Joined 1 server ") {
		t.Error(out)
	}

	web := answers(t, "[::1]:0")
	out := first.good("job", "run", w.file("six.hcl", fmt.Sprintf(`
job "six" {
  group "g" {
    network {
      port "web" {
        static       = %s
        host_network = "six"
      }
    }
    service {
      name     = "six"
      provider = "nomad"
      port     = "web"
      check {
        type     = "tcp"
        interval = "1s"
        timeout  = "1s"
      }
    }
    update { min_healthy_time = "1s" }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo at $NOMAD_ADDR_web; exec sleep 1000"]
      }
    }
  }
}`, web)))
	w.holds(out, "1 of 1 healthy")
	for _, a := range []*agent{servers[1], node} { // one passes it on, the other has it
		a.prints("at [::1]:"+web+"\n", "-job", "six")
		w.holds(a.good("service", "info", "six"), "[::1]:"+web)
	}
	var allocs []struct{ ID string }
	first.get("/v1/job/six/allocations", &allocs)
	if len(allocs) != 1 {
		t.Fatalf("%d allocations", len(allocs))
	}
	w.holds(first.good("alloc", "status", allocs[0].ID), "[::1]:"+web)

	leader := w.leader(servers)
	leader.Kill()
	w.until("another leads", func() string {
		if now := leads(servers); now == nil || now == leader {
			return "nobody leads"
		}
		return ""
	})
	rest := lived(servers)
	rest[0].good("job", "stop", "six")
	w.until("its task has ended", func() string {
		var list []struct{ ClientStatus string }
		if _, err := rest[1].try("GET", "/v1/job/six/allocations", "", &list); err != nil || len(list) != 1 || list[0].ClientStatus != "complete" {
			return fmt.Sprint(list, err)
		}
		return ""
	})
}

// answers takes connections until the test ends, and returns its port.
func answers(t *testing.T, at string) (port string) {
	t.Helper()
	ln, err := net.Listen("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	done.Go(func() {
		for c, err := ln.Accept(); err == nil; c, err = ln.Accept() {
			c.Close()
		}
	})
	t.Cleanup(func() { ln.Close(); done.Wait() })
	_, port, _ = net.SplitHostPort(ln.Addr().String())
	return port
}

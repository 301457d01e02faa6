package real

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"berth/test/bed"
)

// found is a job with a service that clients look for.
const found = `job "shop" {
  group "g" {
    network {
      port "http" {}
    }
    service {
      name     = "shop"
      port     = "http"
      provider = "nomad"
      tags     = ["traefik.enable=true", "traefik.http.routers.shop.rule=Host(` + "`shop.example`" + `)", "blue"]
    }
    task "app" {
      driver = "raw_exec"
      config {
        command = "/bin/sleep"
        args    = ["1000"]
      }
    }
  }
}`

// shop runs the job and returns the address of its service, as host:port.
func shop(w *world, a *agent) (addr string) {
	w.t.Helper()
	a.joined()
	a.good("job", "run", "-detach", w.file("shop.nomad", found))
	a.running("shop")
	w.until("the service is known", func() string {
		list, _, err := a.nomad().Services().Get("shop", nil)
		if err != nil || len(list) != 1 {
			return fmt.Sprint(list, err)
		}
		addr = net.JoinHostPort(list[0].Address, fmt.Sprint(list[0].Port))
		return ""
	})
	return addr
}

// program starts a client that make clients built, or that is installed, until the
// test ends. It skips the test where there are no clients.
func (w *world) program(name string, args ...string) {
	w.t.Helper()
	dir := os.Getenv("BERTH_CLIENTS")
	if dir == "" {
		w.t.Skip("BERTH_CLIENTS names no directory of clients: make clients builds them")
	}
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err != nil {
		if path, err = exec.LookPath(name); err != nil {
			w.t.Fatal(err)
		}
	}
	log, err := os.Create(filepath.Join(w.Dir, name+".log"))
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	c := exec.CommandContext(ctx, path, args...)
	c.Dir, c.Stdout, c.Stderr = w.Dir, log, log
	if err := c.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		stop()
		c.Wait()
		log.Close()
		if text, err := os.ReadFile(log.Name()); err == nil && w.t.Failed() {
			w.t.Logf("%s said:\n%s", name, text)
		}
	})
}

// client skips a test where there are no clients, before anything is started.
func client(t *testing.T) *world {
	t.Helper()
	if os.Getenv("BERTH_CLIENTS") == "" {
		t.Skip("BERTH_CLIENTS names no directory of clients: make clients builds them")
	}
	t.Parallel()
	return newWorld(t)
}

// Prometheus scrapes an agent, and its discovery finds the service.
func TestClientPrometheus(t *testing.T) {
	w := client(t)
	a := w.agent("one", both, "telemetry { prometheus_metrics = true }")
	addr := shop(w, a)
	port := freePort(t)
	w.program("prometheus", "--config.file="+w.file("prometheus.yml", fmt.Sprintf(`
global: {scrape_interval: 1s}
scrape_configs:
  - job_name: agents
    metrics_path: /v1/metrics
    params: {format: [prometheus]}
    static_configs: [{targets: [%q]}]
`, strings.TrimPrefix(a.addr, "http://"))), "--storage.tsdb.path="+filepath.Join(w.Dir, "tsdb"), fmt.Sprintf("--web.listen-address=127.0.0.1:%d", port))
	w.program("prometheus-sd", a.addr)
	w.until("Prometheus has found the service", func() string {
		text, err := os.ReadFile(filepath.Join(w.Dir, "prometheus-sd.log"))
		if s := string(text); err != nil || !strings.Contains(s, `"__meta_nomad_service":"shop"`) || !strings.Contains(s, `"__address__":"`+addr+`"`) || !strings.Contains(s, `,blue,`) {
			return s
		}
		return ""
	})
	w.until("Prometheus has scraped the agent", func() string {
		r, err := bed.Call(t.Context(), http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/api/v1/targets", port), "")
		if err != nil {
			return err.Error()
		}
		var out struct {
			Data struct {
				ActiveTargets []struct {
					ScrapePool, Health string
				}
			}
		}
		if err := json.Unmarshal([]byte(r.Text), &out); err != nil {
			return err.Error()
		}
		for _, x := range out.Data.ActiveTargets {
			if x.ScrapePool == "agents" && x.Health == "up" {
				return ""
			}
		}
		return bed.Got(r.Text)
	})
	r, err := bed.Call(t.Context(), http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/api/v1/query?query=nomad_client_allocations_running", port), "")
	if err != nil || !strings.Contains(r.Text, `"nomad_client_allocations_running"`) {
		t.Errorf("%s, %v", r.Text, err)
	}
}

// Traefik's provider makes a router and a server of the service.
func TestClientTraefik(t *testing.T) {
	w := client(t)
	a := w.agent("one", both)
	addr := shop(w, a)
	w.program("traefik", a.addr)
	w.until("Traefik routes to the service", func() string {
		text, err := os.ReadFile(filepath.Join(w.Dir, "traefik.log"))
		if err != nil {
			return err.Error()
		}
		if s := string(text); !strings.Contains(s, "Host(`shop.example`)") || !strings.Contains(s, "http://"+addr) {
			return s
		}
		return ""
	})
}

// consul-template writes a file of a service and a variable, and again when they
// change.
func TestClientConsulTemplate(t *testing.T) {
	w := client(t)
	a := w.agent("one", both)
	addr := shop(w, a)
	a.good("var", "put", "shop/prices", "apple=3")
	out := filepath.Join(w.Dir, "out.txt")
	w.program("consul-template", "-config="+w.file("consul-template.hcl", fmt.Sprintf("nomad {\n  address = %q\n}\n", a.addr)), "-template="+w.file("in.tpl", `{{ range nomadService "shop" }}{{ .Address }}:{{ .Port }}{{ end }} {{ with nomadVar "shop/prices" }}{{ .apple }}{{ end }}`)+":"+out)
	written := func(want string) {
		t.Helper()
		w.until("the file is "+want, func() string {
			if text, err := os.ReadFile(out); err != nil || string(text) != want {
				return fmt.Sprintf("it is %q, %v", text, err)
			}
			return ""
		})
	}
	written(addr + " 3")
	a.good("var", "put", "-force", "shop/prices", "apple=4")
	written(addr + " 4")
	a.good("job", "stop", "-detach", "shop")
	written(" 4")
}

// CoreDNS answers for the service.
func TestClientCoreDNS(t *testing.T) {
	w := client(t)
	a := w.agent("one", both)
	addr := shop(w, a)
	port := freePort(t)
	w.program("coredns", "-conf", w.file("Corefile", fmt.Sprintf("service.nomad:%d {\n  bind 127.0.0.1\n  errors\n  nomad service.nomad {\n    address %s\n    ttl 1\n  }\n}\n", port, a.addr)))
	var srv string
	w.until("CoreDNS knows the service", func() string {
		r := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "udp", fmt.Sprintf("127.0.0.1:%d", port))
		}}
		_, list, err := r.LookupSRV(t.Context(), "", "", "shop.default.service.nomad.")
		if err != nil || len(list) != 1 {
			return fmt.Sprint(list, err)
		}
		ips, err := r.LookupHost(t.Context(), "shop.default.service.nomad.")
		if err != nil || len(ips) != 1 {
			return fmt.Sprint(ips, err)
		}
		srv = net.JoinHostPort(ips[0], fmt.Sprint(list[0].Port))
		return ""
	})
	if srv != addr {
		t.Errorf("%s; wanted is %s", srv, addr)
	}
}

// A store of objects, Versity's gateway, gives a task its artifact. It checks how requests
// are signed: those with other keys are refused.
func TestClientStore(t *testing.T) {
	w := client(t)
	const id, secret = "reader", "se/cr+et"
	objects := filepath.Join(w.Dir, "objects")
	if err := errors.Join(os.MkdirAll(filepath.Join(objects, "apps"), 0o755), os.WriteFile(filepath.Join(objects, "apps", "a b+c=ü.sh"), []byte("echo from the store\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	store := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	w.program("versitygw", "--access", id, "--secret", secret, "--region", "eu-west-1", "--port", store, "posix", objects)
	w.until("the store answers", func() string {
		conn, err := net.Dial("tcp", store)
		if err != nil {
			return err.Error()
		}
		conn.Close()
		return ""
	})
	a := w.agent("one", both)
	a.joined()
	job := func(name, secret string) string {
		return w.file(name+".nomad", fmt.Sprintf(`job %q {
  type = "batch"
  group "g" {
    restart {
      attempts = 0
      mode     = "fail"
    }
    reschedule {
      attempts = 0
    }
    task "t" {
      driver = "raw_exec"
      artifact {
        source = "s3::http://%s/apps/a%%20b+c=%%C3%%BC.sh"
        options {
          aws_access_key_id     = %q
          aws_access_key_secret = %q
          region                = "eu-west-1"
        }
      }
      config {
        command = "/bin/sh"
        args    = ["-c", "sh local/a*.sh"]
      }
    }
  }
}`, name, store, id, secret))
	}
	ends := func(name, secret, status string) (id string) {
		t.Helper()
		a.good("job", "run", "-detach", job(name, secret))
		w.until(name+" is "+status, func() string {
			list, _, err := a.nomad().Jobs().Allocations(name, false, nil)
			if err != nil || len(list) != 1 || list[0].ClientStatus != status {
				return fmt.Sprint(list, err)
			}
			id = list[0].ID
			return ""
		})
		return id
	}
	if text := a.good("alloc", "logs", ends("right", secret, "complete")); text != "from the store\n" {
		t.Errorf("the task printed %q", text)
	}
	if text := a.good("alloc", "status", ends("wrong", "other", "failed")); !strings.Contains(text, "403") {
		t.Errorf("refused: %s", text)
	}
}

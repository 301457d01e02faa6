package network

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/moby/moby/client"

	"berth/internal/agent/driver/docker/dockertest"
	"berth/test/bed"
)

const dockerConfig = config + `
plugin "docker" {
  config {
    endpoint = "ENDPOINT"
  }
}
`

// The container answers at its port, and the task beside it asks it there.
const dockerJob = `
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
      check {
        type     = "http"
        path     = "/"
        interval = "1s"
        timeout  = "5s"
      }
    }
    restart {
      delay    = "0s"
      attempts = 10
    }
    task "app" {
      driver = "docker"
      config {
        image = "server:1"
        ports = ["http"]
      }
      resources {
        cpu    = 100
        memory = 64
      }
    }
    task "beside" {
      driver = "exec"
      config {
        command = "/app/server"
        args    = ["relay", "8081", "http://127.0.0.1:8080"]
      }
      resources {
        cpu    = 100
        memory = 64
      }
    }
  }
}
`

// image returns an archive with a program as dockertest wants it.
func image(t *testing.T, program string) []byte {
	t.Helper()
	text, err := os.ReadFile(program)
	must(t, err)
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	must(t, w.WriteHeader(&tar.Header{Name: dockertest.Program[1:], Mode: 0o755, Size: int64(len(text))}))
	_, err = w.Write(text)
	must(t, errors.Join(err, w.Close()))
	return b.Bytes()
}

// dockerBed is an agent with an engine, in namespaces of their own.
type dockerBed struct {
	*bed.Agent
	*bed.Bed
	engine *dockertest.Engine
}

// startDocker starts an engine and an agent with more of a client block. Images
// are made of the program server, which is in the agent's chroot, and of more.
func startDocker(t *testing.T, client string, images map[string]string) *dockerBed {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, for network namespaces")
	}
	b := bed.ForTest(t)
	build(t, filepath.Join(b.Dir, "app", "server"), "./server")
	engine, err := dockertest.Start()
	must(t, err)
	t.Cleanup(func() { must(t, engine.End()) })
	for name, source := range images {
		program := filepath.Join(b.Dir, strings.ReplaceAll(name, ":", "-"))
		build(t, program, source)
		must(t, engine.Import(t.Context(), name, image(t, program)))
	}
	text := strings.Replace(dockerConfig, "client {", "client {\n"+client, 1)
	path, err := b.File("one.hcl", strings.NewReplacer("DIR", b.Dir, "CGROUP", b.CgroupParent(), "ENDPOINT", engine.Host).Replace(text))
	must(t, err)
	a := b.Agent("one", "-config", path)
	must(t, a.Start())
	must(t, a.Await(t.Context()))
	return &dockerBed{a, b, engine}
}

// berth runs a command, which must succeed.
func (d *dockerBed) berth(t *testing.T, args ...string) string {
	t.Helper()
	r, err := d.Run(t.Context(), d.Binary, d.Environ("BERTH_ADDR="+d.Banner("HTTP"), "NOMAD_ADDR="+d.Banner("HTTP")), args...)
	must(t, err)
	if r.Code != 0 {
		t.Fatalf("berth %s: %s", strings.Join(args, " "), r)
	}
	return r.Out
}

// Containers and other tasks of a group share its network. It holds while the
// agent or the engine is away. When the container that holds it has ended, the
// next start makes it again, for all. Nothing is left at the end.
func TestContainersOnABridge(t *testing.T) {
	d := startDocker(t, "", map[string]string{"server:1": "./server"})
	a, b, engine := d.Agent, d.Bed, d.engine
	berth := func(args ...string) string { t.Helper(); return d.berth(t, args...) }
	file, err := b.File("web.nomad.hcl", dockerJob)
	must(t, err)
	berth("job", "run", file) // returns when the service is healthy
	var allocs []struct{ ID string }
	answer, err := bed.Call(t.Context(), http.MethodGet, a.Banner("HTTP")+"/v1/job/web/allocations", "")
	must(t, err)
	must(t, json.Unmarshal([]byte(answer.Text), &allocs))
	if len(allocs) != 1 {
		t.Fatalf("allocations: %+v", allocs)
	}
	id := allocs[0].ID
	containers := func() (ids []string) {
		t.Helper()
		list, err := engine.Client.ContainerList(t.Context(), client.ContainerListOptions{})
		must(t, err)
		for _, c := range list.Items {
			ids = append(ids, c.ID)
		}
		slices.Sort(ids)
		return ids
	}

	// answers waits until the service answers with what it sees of its network, at
	// its own address, at the host's, and through the task beside it.
	answers := func(when string) (address string) {
		t.Helper()
		must(t, bed.Until(t.Context(), "the answers "+when, func() string {
			var alloc struct {
				AllocatedResources struct {
					Shared struct{ Ports []struct{ Value int } }
				}
				NetworkStatus struct{ Address string }
			}
			if err := json.Unmarshal([]byte(berth("alloc", "status", "-json", id)), &alloc); err != nil {
				return err.Error()
			}
			if address = alloc.NetworkStatus.Address; !bridged(address) {
				return fmt.Sprintf("its address is %q", address)
			}
			own := address + ":8080"
			for _, at := range []string{own, fmt.Sprintf("127.0.0.1:%d", alloc.AllocatedResources.Shared.Ports[0].Value), address + ":8081"} {
				answer, err := bed.Call(t.Context(), http.MethodGet, "http://"+at, "")
				if err != nil {
					return at + ": " + err.Error()
				}
				for _, want := range []string{"own address " + own + "\n", "host name webhost\n", address + "\twebhost\n", "nameserver 10.1.2.3\n"} {
					if !strings.Contains(answer.Text, want) {
						return fmt.Sprintf("%s: %q is missing from %s", at, want, answer.Text)
					}
				}
			}
			return ""
		}))
		return address
	}
	answers("at first")
	before := containers()
	if len(before) != 2 {
		t.Fatalf("the engine runs %d containers: want the task's and one that holds the network", len(before))
	}

	a.Kill()
	must(t, engine.Down())
	must(t, engine.Up(""))
	must(t, a.Start())
	must(t, a.Await(t.Context()))
	answers("after the agent and the engine came back")
	if now := containers(); !slices.Equal(now, before) {
		t.Errorf("the containers are %v, and were %v", now, before)
	}
	if out := berth("alloc", "status", id); strings.Contains(out, "Restarting") {
		t.Errorf("a task was started again:\n%s", out)
	}

	infra := "berth-network-" + id
	_, err = engine.Client.ContainerKill(t.Context(), infra, client.ContainerKillOptions{})
	must(t, err)
	berth("alloc", "restart", "-task", "app", id)
	// A restart is asked for, not waited for: until the network is made again, the
	// old one answers.
	must(t, bed.Until(t.Context(), "the restart of the task beside it", func() string {
		if out := berth("alloc", "status", id); !strings.Contains(out, "The network of the allocation was made again") {
			return bed.Got(out)
		}
		return ""
	}))
	answers("after the container that holds the network was killed")

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
	list, err := engine.Client.ContainerList(t.Context(), client.ContainerListOptions{All: true})
	must(t, err)
	if len(list.Items) > 0 {
		t.Errorf("containers are left: %+v", list.Items)
	}
}

// The example of a container is rolled to another version and back. Its volume
// keeps what it wrote.
func TestExampleContainer(t *testing.T) {
	const source = "berth/examples/hello"
	d := startDocker(t, `  host_volume "visits" { path = "DIR/app" }`, map[string]string{"hello:1": source, "hello:2": source})
	text, err := os.ReadFile("../../examples/container.nomad.hcl")
	must(t, err)
	file, err := d.File("container.nomad.hcl", string(text))
	must(t, err)
	last := 0
	greets := func(version string) {
		t.Helper()
		must(t, bed.Until(t.Context(), "version "+version+" greets", func() string {
			var at []struct {
				Address string
				Port    int
			}
			if err := json.Unmarshal([]byte(d.berth(t, "service", "info", "-json", "hello")), &at); err != nil {
				return err.Error()
			}
			if len(at) != 1 {
				return fmt.Sprintf("%d registrations", len(at))
			}
			answer, err := bed.Call(t.Context(), http.MethodGet, fmt.Sprintf("http://%s:%d", at[0].Address, at[0].Port), "")
			if err != nil {
				return err.Error()
			}
			greeting, visit, _ := strings.Cut(answer.Text, "\n")
			n := 0
			if _, err := fmt.Sscanf(visit, "visit %d", &n); err != nil || n <= last || !strings.HasPrefix(greeting, "Hello "+version+" ") {
				return fmt.Sprintf("it says %q after visit %d", answer.Text, last)
			}
			last = n
			return ""
		}))
	}
	for _, version := range []string{"1", "2"} {
		d.berth(t, "job", "run", "-var", "version="+version, file)
		greets(version)
	}
	d.berth(t, "job", "revert", "container", "0")
	greets("1")
	d.berth(t, "job", "stop", "-purge", "container")
	must(t, bed.Until(t.Context(), "the end of the containers", func() string {
		list, err := d.engine.Client.ContainerList(t.Context(), client.ContainerListOptions{All: true})
		if err != nil {
			return err.Error()
		}
		if len(list.Items) > 0 {
			return fmt.Sprintf("%d containers are there", len(list.Items))
		}
		return ""
	}))
	untilNothingIsLeft(t, d.Dir)
	if _, err := d.End(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
}

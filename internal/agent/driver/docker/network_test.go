package docker

import (
	"bytes"
	"debug/elf"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"berth"
	"berth/internal/agent/driver"
	"berth/internal/agent/driver/docker/dockertest"
	"berth/internal/agent/network"
)

// A task joins the namespace of its group, and has its names. What the engine has
// ended is made again, and nothing is left at the end.
func TestNetworkOfAGroup(t *testing.T) {
	d := New(config(t))
	var _ network.Namespacer = d
	tk := allocs(t)(1, with(does("cat", "/etc/hosts", "/etc/resolv.conf", "/etc/hostname"), "extra_hosts", []any{"db:10.1.2.3"}))
	made, err := d.MakeNetwork(t.Context(), tk.AllocID, "webhost")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := New(config(t)).MakeNetwork(t.Context(), tk.AllocID, "webhost"); again != made || err != nil {
		t.Errorf("made again: %s, %v; was %s", again, err, made)
	}
	tk.Network = &driver.Network{
		Mode: "none", Namespace: made, Hostname: "webhost", DNS: &berth.DNSConfig{Servers: []string{"10.9.9.9"}, Searches: []string{"a.example"}},
		Hosts: map[string]string{"webhost": "10.0.0.7"},
	}
	_, out := ends(t, d, tk)
	for _, want := range []string{"10.0.0.7\twebhost\n", "10.1.2.3\tdb", "nameserver 10.9.9.9\nsearch a.example", "/etc/hostname: webhost"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing from %s", want, out)
		}
	}

	running := *tk
	running.Launch, running.Config = 2, does("run")
	h, err := d.Start(t.Context(), &running)
	if err != nil {
		t.Fatal(err)
	}
	got, err := engine.Client.ContainerInspect(t.Context(), h.(*handle).id, client.ContainerInspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if path, err := namespaceOf(&got.Container); err != nil || !sameFile(path, made) {
		t.Errorf("the task is in %s, %v, not in %s", path, err, made)
	}

	if _, err := engine.Client.ContainerKill(t.Context(), infraName(tk.AllocID), client.ContainerKillOptions{}); err != nil {
		t.Fatal(err)
	}
	w := engine.Client.ContainerWait(t.Context(), infraName(tk.AllocID), client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
	select {
	case <-w.Result:
	case err := <-w.Error:
		t.Fatal(err)
	}
	again, err := d.MakeNetwork(t.Context(), tk.AllocID, "webhost")
	if err != nil || again == made {
		t.Errorf("after its end: %s, %v; was %s", again, err, made)
	}
	late := *tk
	late.Launch, late.Network = 3, &driver.Network{Mode: "none", Namespace: "/proc/self/ns/net", Hostname: "webhost"}
	if _, err := d.Start(t.Context(), &late); !driver.IsRecoverable(err) {
		t.Errorf("a task in a network that was replaced: %v", err)
	}
	for range 2 {
		if err := d.RemoveNetwork(t.Context(), tk.AllocID); err != nil {
			t.Error(err)
		}
	}
	if c, err := d.infra(t.Context(), tk.AllocID); c != nil || err != nil {
		t.Errorf("left: %+v, %v", c, err)
	}
}

// What cannot be set for one container of a network is refused by name.
func TestConfigOfATaskInANetwork(t *testing.T) {
	d, tk := New(config(t)), allocs(t)(1, nil)
	tk.Network = &driver.Network{Mode: "bridge", Namespace: "/run/netns/none"}
	tk.Ports = []berth.PortMapping{{Label: "http", Value: 20000}}
	for key, more := range map[string][]any{
		"hostname": {"hostname", "x"}, "dns_servers": {"dns_servers", []any{"10.0.0.1"}}, "dns_options": {"dns_options", []any{"debug"}},
		"mac_address": {"mac_address", "02:42:ac:11:00:02"}, "network_aliases": {"network_aliases", []any{"x"}}, "uts_mode": {"uts_mode", "host"},
		"port_map": {"port_map", map[string]any{"http": 80}}, "extra_hosts": {"extra_hosts", []any{"me:host-gateway"}},
		"ports": {"network_mode", "host", "ports", []any{"http"}},
	} {
		tk.Config = with(does("run"), more...)
		open := d.c
		open.AllowPrivileged = true
		if _, err := New(open).Start(t.Context(), tk); err == nil || driver.IsRecoverable(err) || !strings.Contains(err.Error(), "config."+key) {
			t.Errorf("%s: %v", key, err)
		}
	}
	tk.Config = with(does("run"), "network_mode", "none")
	if h, err := d.Start(t.Context(), tk); err != nil {
		t.Errorf("with a network of its own: %v", err)
	} else if err := h.Release(t.Context()); err != nil {
		t.Error(err)
	} else {
		select {
		case <-h.(*handle).logs.done:
		default:
			t.Error("what follows the output of a container that was removed has not ended")
		}
	}
}

// Infra containers of allocations that the agent does not run are removed, those
// of others are not.
func TestInfraContainersThatAreLeft(t *testing.T) {
	c := config(t)
	mine, lost := "infra-mine", "infra-lost"
	c.Runs = func(id string) bool { return id == mine }
	d := New(c)
	for _, id := range []string{mine, lost} {
		if _, err := d.MakeNetwork(t.Context(), id, ""); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		after time.Duration
		left  bool
	}{{0, true}, {time.Hour, false}} {
		if err := d.removeDangling(t.Context(), time.Now().Add(tt.after)); err != nil {
			t.Error(err)
		}
		for id, want := range map[string]bool{mine: true, lost: tt.left} {
			if c, err := d.infra(t.Context(), id); err != nil || (c != nil) != want {
				t.Errorf("%s after %v: %v, %v", id, tt.after, c != nil, err)
			}
		}
	}
	if err := d.RemoveNetwork(t.Context(), mine); err != nil {
		t.Error(err)
	}
}

// A container of somebody else that has the name of an infra container is left
// alone, and the error says so.
func TestForeignContainerOfTheName(t *testing.T) {
	d := New(config(t))
	made, err := engine.Client.ContainerCreate(t.Context(), client.ContainerCreateOptions{Name: infraName("foreign"), Config: &container.Config{Image: dockertest.Image}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.MakeNetwork(t.Context(), "foreign", ""); berth.KindOf(err) != berth.Conflict {
		t.Errorf("made: %v", err)
	}
	if err := d.RemoveNetwork(t.Context(), "foreign"); berth.KindOf(err) != berth.Conflict {
		t.Errorf("removed: %v", err)
	}
	if err := d.remove(t.Context(), made.ID); err != nil {
		t.Error(err)
	}
}

// The program of infra containers is a static executable of each architecture.
func TestPauseProgram(t *testing.T) {
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		b := pauseProgram(arch)
		f, err := elf.NewFile(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		if f.Machine != machine || f.Type != elf.ET_EXEC || len(f.Progs) != 1 {
			t.Errorf("%s: %+v", arch, f.FileHeader)
			continue
		}
		p := f.Progs[0]
		if p.Type != elf.PT_LOAD || p.Flags != elf.PF_R|elf.PF_X || p.Filesz != uint64(len(b)) || f.Entry != p.Vaddr+p.Filesz-uint64(len(pauseCode[arch])) {
			t.Errorf("%s: %+v, entry %#x", arch, p.ProgHeader, f.Entry)
		}
	}
	if pauseProgram("s390x") != nil {
		t.Error("there is a program for an architecture without code")
	}
}

package podman

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"berth/internal/agent/driver"
	"berth/internal/driverconfig"
)

// A job's words become Docker's.
func TestWords(t *testing.T) {
	type object = map[string]any
	group := &driver.Network{Namespace: "/run/netns/g"}
	for _, tt := range []struct {
		config  object
		network *driver.Network
		want    string // "KEY=VALUE" of Docker's words, or an error
	}{
		{object{"image": "docker://redis:7"}, nil, `image="redis:7"`},
		{object{"image": "registry:5000/a@sha256:b"}, nil, `image="registry:5000/a@sha256:b"`},
		{object{"image": "oci-archive:x.tar"}, nil, `config.image: images of the transport "oci-archive" are not supported`},
		{object{}, nil, `network_mode="default"`},
		{object{}, group, `network_mode=""`},
		{object{"dns": []any{"192.0.2.1"}}, group, `config.dns: is not for tasks in the group's network`},
		{object{"network_mode": "host"}, group, `network_mode="host"`},
		{object{"network_mode": "task:db"}, nil, `network_mode="container:db-ALLOC"`},
		{object{"network_mode": "task:"}, nil, `config.network_mode: must be bridge, host, none`},
		{object{"network_mode": "ns:/proc/1/ns/net"}, nil, `config.network_mode: must be bridge, host, none`},
		{object{"working_dir": "/x"}, nil, `work_dir="/x"`},
		{object{"working_dir": "x"}, nil, `config.working_dir: must be an absolute path, got "x"`},
		{object{"shm_size": "1k"}, nil, `shm_size=1024`},
		{object{"dns": []any{"192.0.2.1"}}, nil, `dns_servers=["192.0.2.1"]`},
		{object{"dns": []any{"one"}}, nil, `config.dns[0]: must be an IP address, got "one"`},
		{object{"security_opt": []any{"no-new-privileges"}, "apparmor_profile": "p", "selinux_opts": []any{"type:t"}}, nil, `security_opt=["no-new-privileges","apparmor=p","label=type:t"]`},
		{object{"auth": object{"username": "u", "password": "p", "tls_verify": false}}, nil, `config.auth.tls_verify: false is not supported`},
		{object{"tmpfs": []any{"x"}}, nil, `config.tmpfs[0]: must be PATH or PATH:OPTIONS`},
		{object{"devices": []any{"/dev/a:b:c"}}, nil, `config.devices[0]: must be HOST`},
		{object{"userns": "ns:/proc/1/ns/user"}, nil, `config.userns: must be auto, host, keep-id or nomap`},
		{object{"init_path": "/x"}, nil, `config.init_path: is not supported: podman takes it from containers.conf`},
		{object{"logging": object{"driver": "syslog"}}, nil, `config.logging.driver: must be one of nomad, k8s-file, journald, none`},
	} {
		config := object{"image": "redis:7"}
		for k, v := range tt.config {
			config[k] = v
		}
		v, err := read(&driver.Task{AllocID: "ALLOC", Config: config, Network: tt.network})
		if err != nil {
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v: %v", tt.config, err)
			}
			continue
		}
		key, want, _ := strings.Cut(tt.want, "=")
		if got := show(t, v, key); got != want {
			t.Errorf("%v: %s is %s, want %s", tt.config, key, got, want)
		}
	}
}

// show returns a value as JSON.
func show(t *testing.T, v driverconfig.Values, key string) string {
	t.Helper()
	var x any
	for _, s := range driverconfig.Docker.Settings {
		if s.Key == key {
			switch s.Kind {
			case driverconfig.String:
				x = v.String(key)
			case driverconfig.Strings:
				x = v.Strings(key)
			case driverconfig.Integer:
				x = v.Integer(key)
			}
		}
	}
	b, err := json.Marshal(x)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// What Docker has no words for is added.
func TestComplete(t *testing.T) {
	config := map[string]any{"image": "redis:7", "tmpfs": []any{"/a", "/b:size=1m"}, "memory_swap": "64m", "memory_reservation": "16m", "memory_swappiness": 10, "userns": "keep-id"}
	opts := &client.ContainerCreateOptions{Config: &container.Config{}, HostConfig: &container.HostConfig{LogConfig: container.LogConfig{Type: "json-file", Config: map[string]string{"max-size": "1", "max-file": "2"}}}}
	opts.HostConfig.Memory = 32 << 20
	if err := complete(opts, &driver.Task{Config: config}); err != nil {
		t.Fatal(err)
	}
	h := opts.HostConfig
	if h.Tmpfs["/b"] != "size=1m" || len(h.Tmpfs) != 2 || h.MemorySwap != 64<<20 || h.MemoryReservation != 16<<20 || *h.MemorySwappiness != 10 || h.UsernsMode != "keep-id" ||
		h.LogConfig.Type != "k8s-file" || len(h.LogConfig.Config) != 1 {
		t.Errorf("%+v", h)
	}
	for key, want := range map[string]string{"memory_swap": "config.memory_swap: must be at least the task's memory", "memory_reservation": "config.memory_reservation: must be at most the task's memory"} {
		config[key] = map[string]string{"memory_swap": "16m", "memory_reservation": "64m"}[key]
		if err := complete(opts, &driver.Task{Config: config}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", key, err)
		}
		config[key] = map[string]string{"memory_swap": "64m", "memory_reservation": "16m"}[key]
	}
}

func TestAttributes(t *testing.T) {
	got := attributes(system.Info{SecurityOptions: []string{"name=seccomp,profile=default", "name=rootless"}, CgroupVersion: "2"})
	if got["driver.podman.rootless"] != "true" || got["driver.podman.cgroupVersion"] != "2" {
		t.Errorf("%v", got)
	}
}

// Documentation writes addresses of sockets in several ways.
func TestEndpoint(t *testing.T) {
	for path, want := range map[string]string{
		"unix://run/podman/podman.sock": "unix:///run/podman/podman.sock", "unix:///run/x": "unix:///run/x", "/run/x": "unix:///run/x", "tcp://127.0.0.1:1": "tcp://127.0.0.1:1",
	} {
		if got := endpoint(path); got != want {
			t.Errorf("%s: %s", path, got)
		}
	}
}

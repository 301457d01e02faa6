package driverconfig

import (
	"fmt"
	"strings"
	"testing"
)

// blocks are what HCL makes of blocks in a config.
func blocks(v ...any) []any { return v }

type object = map[string]any

func TestBlocksAndMaps(t *testing.T) {
	config := object{
		"image":    "redis:7",
		"port_map": object{"db": 6379, "web": "80"},
		"labels":   blocks(object{"a": "b", "n": int64(3), "on": true}, object{"c": "d"}),
		"ulimit":   blocks(object{"nofile": "1024:2048", "nproc": 10}),
		"mount": blocks(
			object{"type": "bind", "target": "/x", "source": "local/x", "bind_options": blocks(object{"propagation": "rshared"})},
			object{"type": "tmpfs", "target": "/y", "tmpfs_options": object{"size": 1000, "mode": "511"}, "readonly": "true"},
		),
		"devices": []any{object{"host_path": "/dev/null"}},
		"logging": blocks(object{"type": "syslog", "config": blocks(object{"syslog-address": "udp://127.0.0.1:514"})}),
		"load":    nil, "isolation": "", "windows_allow_insecure_container_admin": false,
	}
	if ps := Docker.Check("config", config); len(ps) > 0 {
		t.Fatal(ps)
	}
	v, err := Docker.Read(config)
	if err != nil {
		t.Fatal(err)
	}
	m := v.Blocks("mount")
	got := fmt.Sprintln(v.Map("port_map"), v.Map("labels"), v.Map("ulimit"), len(m), m[0].Block("bind_options").String("propagation"),
		m[1].Block("tmpfs_options").Integer("mode"), m[1].Bool("readonly"), m[1].Block("volume_options").Block("driver_config").Map("options"),
		v.Blocks("devices")[0].String("host_path"), v.Block("logging").Map("config"), v.Has("load"), v.Has("mount"), v.Block("auth").String("username") == "")
	want := "map[db:6379 web:80] map[a:b c:d n:3 on:true] map[nofile:1024:2048 nproc:10] 2 rshared 511 true map[] /dev/null map[syslog-address:udp://127.0.0.1:514] false true true\n"
	if got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

func TestDockerRefuses(t *testing.T) {
	for _, tt := range []struct {
		key  string
		v    any
		want string
	}{
		{"image", "", "config.image: is missing; the driver docker requires it"},
		{"images", "x", "config.images: unknown setting of the driver docker"},
		{"mount", blocks(object{"type": "bind"}), "config.mount[0].target: is missing"},
		{"mount", blocks(object{"type": "nfs", "target": "/x"}), `config.mount[0].type: must be one of bind, volume, tmpfs, got "nfs"`},
		{"mount", blocks(object{"target": "x", "colour": 1}), "config.mount[0].colour: unknown setting"},
		{"mount", blocks(object{"target": "/x", "tmpfs_options": object{"mode": 4096}}), "config.mount[0].tmpfs_options.mode: must be 0 to 4095, got 4096"},
		{"mount", "x", "config.mount: must be a list of blocks"},
		{"mount", blocks("x"), `config.mount[0]: must be a block, got "x"`},
		{"auth", blocks(object{}, object{}), "config.auth: must be one block, got 2"},
		{"labels", blocks(object{"a": blocks()}), "config.labels.a: must be a string, got a list"},
		{"labels", "a=b", `config.labels: must be a map of strings, got "a=b"`},
		{"port_map", object{"db": 70000}, `config.port_map.db: must be a port from 1 to 65535, got "70000"`},
		{"volumes", []any{"/etc"}, ""},
		{"volumes", []any{"data:/data:ro", "../x:/y"}, ""},
		{"volumes", []any{"a:b"}, "config.volumes[0]: must be SOURCE:DESTINATION"},
		{"ulimit", object{"nofile": "many"}, "config.ulimit.nofile: must be SOFT or SOFT:HARD"},
		{"ulimit", object{"nofile": "1:"}, "config.ulimit.nofile: must be SOFT or SOFT:HARD"},
		{"extra_hosts", []any{"db:10.0.0.1", "v6:::1", "gw:host-gateway"}, ""},
		{"extra_hosts", []any{"db"}, "config.extra_hosts[0]: must be NAME:ADDRESS"},
		{"ipv4_address", "::1", "config.ipv4_address: must be an IPv4 address"},
		{"ipv6_address", "10.0.0.1", "config.ipv6_address: must be an IPv6 address"},
		{"mac_address", "x", "config.mac_address: must be a hardware address"},
		{"dns_servers", []any{"one"}, "config.dns_servers[0]: must be an IP address"},
		{"pid_mode", "private", "config.pid_mode: must be one of host or container:NAME"},
		{"ipc_mode", "container:db", ""},
		{"isolation", "hyperv", "config.isolation: is not supported: it is for Windows containers"},
		{"work_dir", "${NOMAD_TASK_DIR}", ""},
		{"privileged", "${meta.p}", ""},
	} {
		config := object{"image": "redis:7"}
		config[tt.key] = tt.v
		ps := Docker.Check("config", config)
		got := fmt.Sprint(ps)
		if tt.want == "" && len(ps) > 0 || !strings.Contains(got, tt.want) {
			t.Errorf("%s = %v:\n got %s\nwant %s", tt.key, tt.v, got, tt.want)
		}
	}
}

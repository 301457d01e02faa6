package fingerprint

import (
	"context"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"berth"
	"berth/internal/agent/driver"
	"berth/internal/agent/driver/mock"
	"berth/internal/agent/driver/raw"
	"berth/internal/saferoot"
)

func node(t *testing.T, c *Config) *berth.Node {
	t.Helper()
	dir, err := saferoot.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	drivers := map[string]driver.Driver{raw.Name: raw.New(raw.Config{}), mock.Name: mock.New(true)}
	return Node(context.Background(), c, dir, drivers, slog.New(slog.DiscardHandler))
}

func TestTheMachineIsDescribed(t *testing.T) {
	n := node(t, &Config{Version: "0.1.0", NomadVersion: "2.0.0"})
	host, _ := os.Hostname()
	if n.Name != host || n.Datacenter != "dc1" || n.NodePool != "default" || n.Status != berth.NodeInit {
		t.Errorf("%+v", n)
	}
	for _, name := range []string{
		"cpu.arch", "cpu.numcores", "cpu.totalcompute", "kernel.name", "kernel.version", "memory.totalbytes", "os.name",
		"os.signals", "unique.hostname", "unique.network.ip-address", "unique.storage.volume", "unique.storage.bytestotal",
		"unique.storage.bytesfree", "driver.mock_driver", "nomad.version", "nomad.service_discovery", "berth.version", "cgroups.version",
	} {
		if n.Attributes[name] == "" {
			t.Errorf("there is no attribute %s", name)
		}
	}
	if n.Attributes["driver.raw_exec"] != "" || n.Drivers["raw_exec"].Detected || !n.Drivers["mock_driver"].Healthy {
		t.Errorf("drivers %+v, attributes %v", n.Drivers, n.Attributes)
	}
	r := n.NodeResources
	if r.Cpu.CpuShares < 100 || r.Memory.MemoryMB < 64 || r.Disk.DiskMB < 1 || r.Cpu.TotalCpuCores == 0 ||
		len(r.Processors.Topology.Cores) != int(r.Cpu.TotalCpuCores) || r.MinDynamicPort != 20000 || r.MaxDynamicPort != 32000 {
		t.Errorf("%+v", r)
	}
	bytes, _ := strconv.ParseInt(n.Attributes["memory.totalbytes"], 10, 64)
	if bytes>>20 != r.Memory.MemoryMB {
		t.Errorf("%d bytes of memory, but %d MiB", bytes, r.Memory.MemoryMB)
	}
	for _, sig := range []string{"SIGTERM", "SIGINT", "SIGHUP"} {
		if !slices.Contains(strings.Split(n.Attributes["os.signals"], ","), sig) {
			t.Errorf("%s is missing", sig)
		}
	}
	if n.HostAddress() == "" || n.HostAddress() != n.Attributes["unique.network.ip-address"] {
		t.Errorf("address %q, attribute %q", n.HostAddress(), n.Attributes["unique.network.ip-address"])
	}
}

func TestTheConfigurationHasTheLastWord(t *testing.T) {
	n := node(t, &Config{
		Name: "n7", Datacenter: "dc3", NodeClass: "big", NodePool: "gpu", Meta: map[string]string{"rack": "r1"}, HTTPAddr: "127.0.0.1:4646",
		CPUTotalCompute: 12345, MemoryTotalMB: 777, DiskTotalMB: 888, MinDynamicPort: 30000, MaxDynamicPort: 30100, Loopback: true,
		Reserved: berth.NodeReservedResources{Cpu: berth.NodeReservedCpuResources{CpuShares: 345}, Memory: berth.NodeReservedMemoryResources{MemoryMB: 77}},
	})
	if n.Name != "n7" || n.Datacenter != "dc3" || n.NodeClass != "big" || n.NodePool != "gpu" || n.Meta["rack"] != "r1" || n.HTTPAddr != "127.0.0.1:4646" {
		t.Errorf("%+v", n)
	}
	if want := (berth.Ask{CPU: 12000, MemoryMB: 700, DiskMB: 888}); n.Room() != want {
		t.Errorf("room %+v, want %+v", n.Room(), want)
	}
	if n.NodeResources.MinDynamicPort != 30000 || n.NodeResources.MaxDynamicPort != 30100 || n.HostAddress() != "127.0.0.1" {
		t.Errorf("%+v", n.NodeResources)
	}
	if n.Attributes["cpu.totalcompute"] != "12345" || n.Attributes["cpu.usablecompute"] != "12000" {
		t.Errorf("%v", n.Attributes)
	}
}

func TestAnInterfaceThatIsNotThereLeavesLoopback(t *testing.T) {
	if n := node(t, &Config{Interface: "nosuch0"}); n.HostAddress() != "127.0.0.1" {
		t.Errorf("%q", n.HostAddress())
	}
	if n := node(t, &Config{Interface: "lo"}); n.HostAddress() != "127.0.0.1" {
		t.Errorf("%q", n.HostAddress())
	}
}

func TestDefaultRoute(t *testing.T) {
	const head = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
	for table, want := range map[string]string{
		head: "", "": "", "x\n\n": "",
		head + "eth0\t00000000\t0101A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n":                                                               "eth0",
		head + "eth0\t00000000\t0101A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\nwlan0\t00000000\t0101A8C0\t0003\t0\t0\t50\t00000000\t0\t0\t0\n": "wlan0",
		head + "tun0\t00000000\t00000000\t0001\t0\t0\t0\t00000080\t0\t0\t0\neth1\t0001A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n":     "",
	} {
		if got := defaultRoute(table); got != want {
			t.Errorf("%q, want %q of\n%s", got, want, table)
		}
	}
}

func TestAddressesArePickedByUse(t *testing.T) {
	addr := func(s ...string) (out []berth.NodeNetworkAddress) {
		for _, a := range s {
			out = append(out, berth.NodeNetworkAddress{Address: a})
		}
		return out
	}
	for want, from := range map[string][]berth.NodeNetworkAddress{
		"10.0.0.1": addr("fe80::1", "2001:db8::1", "10.0.0.1"), "2001:db8::1": addr("fe80::1", "2001:db8::1"), "fe80::1": addr("fe80::1"), "": nil,
	} {
		if got := pick(from, false); got != want {
			t.Errorf("%q of %v", got, from)
		}
	}
	for want, from := range map[string][]berth.NodeNetworkAddress{
		"2001:db8::1": addr("fe80::1", "2001:db8::1", "10.0.0.1"), "10.0.0.1": addr("fe80::1", "10.0.0.1"), "fe80::1": addr("fe80::1"), "": nil,
	} {
		if got := pick(from, true); got != want {
			t.Errorf("IPv6 is preferred: %q of %v", got, from)
		}
	}
}

func FuzzDefaultRoute(f *testing.F) {
	f.Add("Iface\neth0\t00000000\t0101A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n")
	f.Fuzz(func(t *testing.T, s string) { defaultRoute(s) })
}

func TestTwoLooksAgree(t *testing.T) {
	a, b := node(t, &Config{DiskTotalMB: 1}), node(t, &Config{DiskTotalMB: 1})
	for _, n := range []*berth.Node{a, b} {
		delete(n.Attributes, "unique.storage.bytesfree")
		delete(n.Attributes, "cpu.frequency")
		delete(n.Attributes, "cpu.frequency.performance")
	}
	if !reflect.DeepEqual(a.Attributes, b.Attributes) {
		t.Errorf("%v\n%v", a.Attributes, b.Attributes)
	}
}

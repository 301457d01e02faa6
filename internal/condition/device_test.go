package condition

import (
	"testing"

	"berth"
)

// What an agent says of a device, and what conditions on it come to.
func TestDeviceMeets(t *testing.T) {
	d := &berth.NodeDeviceResource{
		Vendor: "nvidia", Type: "gpu", Name: "t4",
		Attributes: map[string]any{
			"memory": map[string]any{"Int": int64(4096), "Unit": "MiB"}, "clock": map[string]any{"Float": 1.5, "Unit": "GHz"},
			"power": map[string]any{"Int": uint64(70), "Unit": "W"}, "bandwidth": map[string]any{"Int": int64(900), "Unit": "MB/s"},
			"ecc": map[string]any{"Bool": true, "Unit": ""}, "driver": map[string]any{"String": "535.104"}, "cores": int64(2560),
			"odd": map[string]any{"Unit": "MiB"}, "turns": map[string]any{"Int": int64(3), "Unit": "rpm"}, "lists": []any{"a"},
		},
	}
	for _, c := range []struct {
		left, operand, right string
		want                 bool
	}{
		{"${device.vendor}", "=", "nvidia", true}, {"${device.type}", "!=", "gpu", false}, {"${device.model}", "regexp", "^t", true},
		{"${device.attr.memory}", ">=", "4 GiB", true}, {"${device.attr.memory}", ">", "4 GiB", false}, {"${device.attr.memory}", "=", "4GiB", true},
		{"${device.attr.memory}", "<", "4.3 GB", true}, {"${device.attr.memory}", ">", "4294 MB", true}, {"${device.attr.memory}", "<", "0.5 EB", true},
		{"${device.attr.memory}", ">=", "4096", false}, {"${device.attr.memory}", "!=", "4096", true}, {"${device.attr.memory}", "=", "4096 MHz", false},
		{"${device.attr.memory}", "is_set", "", true}, {"${device.attr.none}", "is_not_set", "", true}, {"${device.attr.none}", "<", "1 GiB", false},
		{"${device.attr.none}", "!=", "1 GiB", true}, {"2 GiB", "<", "${device.attr.memory}", true}, {"${device.attr.odd}", "is_set", "", false},
		{"${device.attr.clock}", "=", "1500 MHz", true}, {"${device.attr.clock}", ">", "1499.9 MHz", true}, {"${device.attr.clock}", "<", "2 GHz", true},
		{"${device.attr.power}", "<=", "0.07 kW", true}, {"${device.attr.power}", ">", "70000 mW", false}, {"${device.attr.bandwidth}", ">=", "0.9 GB/s", true},
		{"${device.attr.bandwidth}", ">=", "0.9 GB", false}, {"${device.attr.ecc}", "=", "true", true}, {"${device.attr.ecc}", "!=", "false", true},
		{"${device.attr.ecc}", ">", "false", false}, {"${device.attr.driver}", "version", ">= 530, < 540", true}, {"${device.attr.driver}", "=", "535.104", true},
		{"${device.attr.cores}", ">", "2000", true}, {"${device.attr.cores}", ">", "1e9", false}, {"${device.attr.cores}", "=", "2560.0", true},
		{"${device.attr.turns}", "=", "3", false}, {"${device.attr.turns}", "regexp", "rpm$", true}, {"${device.attr.lists}", "is_set", "", false},
		{"${device.ids}", "set_contains", "x", true}, {"${device.other}", "is_set", "", false}, {"${attr.kernel.name}", "=", "linux", false},
	} {
		if got := DeviceMeets(d, c.left, c.operand, c.right); got != c.want {
			t.Errorf("%s %s %s is %v", c.left, c.operand, c.right, got)
		}
	}
	for request, want := range map[string]bool{
		"gpu": true, "nvidia/gpu": true, "nvidia/gpu/t4": true, "fpga": false, "amd/gpu": false, "nvidia/gpu/t5": false, "nvidia": false, "nvidia/gpu/t4/x": false,
	} {
		if d.Offers(request) != want {
			t.Errorf("offers %s: %v", request, !want)
		}
	}
}

// Conditions on IDs are about single devices, and set_contains about all of
// them together too.
func TestDeviceIDs(t *testing.T) {
	ids := []string{"a", "b"}
	for _, c := range []struct {
		operand, right string
		a, b, together bool
	}{
		{"set_contains", "a", true, false, true}, {"set_contains_all", "a, b", true, true, true}, {"set_contains", "a,z", true, false, false},
		{"set_contains_any", "b,z", false, true, true}, {"=", "a", true, false, true}, {"!=", "a", false, true, true}, {"regexp", "[ab]", true, true, true},
	} {
		if InstanceMeets("a", deviceIDs, c.operand, c.right) != c.a || InstanceMeets("b", deviceIDs, c.operand, c.right) != c.b || MeetsIDs(ids, deviceIDs, c.operand, c.right) != c.together {
			t.Errorf("%s %s", c.operand, c.right)
		}
	}
	if !InstanceMeets("a", "${device.model}", "=", "none") || !MeetsIDs(ids, "${device.model}", "set_contains", "none") {
		t.Error("other conditions are not about single devices")
	}
}

package fit

import (
	"testing"

	"pgregory.net/rapid"
)

// A dimension is the same after its name was written and read, whatever a network
// or a device request is called.
func TestNamesOfDimensionsAreRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := Dimension{Kind: Kind(rapid.IntRange(int(CPU), int(Devices)).Draw(t, "kind"))}
		text := rapid.OneOf(rapid.SampledFrom([]string{"default", "lan", "a on b", "memory", ""}), rapid.String())
		switch d.Kind {
		case StaticPort:
			d.Port, d.Network = rapid.Uint16().Draw(t, "port"), text.Draw(t, "network")
		case DynamicPorts, HostNetwork:
			d.Network = text.Draw(t, "network")
		case Devices:
			d.Device = text.Draw(t, "device")
		}
		if got := ParseDimension(d.String()); got != d {
			t.Fatalf("%q: %+v became %+v", d.String(), d, got)
		}
	})
	for _, name := range []string{"", "port", "port x", "port 65536", "port -1 on lan", "dynamic", "devices", "gpus", "static ports on lan"} {
		if got := ParseDimension(name); got != (Dimension{}) {
			t.Errorf("%q: %+v", name, got)
		}
	}
}

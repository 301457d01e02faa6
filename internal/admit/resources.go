package admit

import (
	"fmt"
	"slices"
	"strings"

	"berth"
)

// resources checks what a task asks for: cpu in MHz or cores, not both, and
// memory in MiB.
func (c *checker) resources(at string, r *berth.Resources) {
	switch {
	case r.Cores == 0:
		c.between(at+".cpu", int64(r.CPU), 1, berth.MaxCPU)
	case r.CPU != 0:
		c.addf(at+".cpu", "cannot be combined with cores, got cpu = %d and cores = %d", r.CPU, r.Cores)
	default:
		c.between(at+".cores", int64(r.Cores), 1, maxCores)
	}
	c.between(at+".memory", int64(r.MemoryMB), minMemoryMB, maxMemoryMB)
	// -1 lets the task use whatever memory the node has free.
	if r.MemoryMaxMB != 0 && r.MemoryMaxMB != -1 && r.MemoryMB >= minMemoryMB {
		c.between(at+".memory_max", int64(r.MemoryMaxMB), int64(r.MemoryMB), maxMemoryMB)
	}
	if r.SecretsMB != 0 {
		c.between(at+".secrets", int64(r.SecretsMB), 1, maxSecretsMB)
	}
	c.devices(at, r.Devices)
	if r.NUMA != nil {
		c.numa(at+".numa", r)
	}
}

// devices checks the devices that a task requests.
func (c *checker) devices(at string, devices []berth.RequestedDevice) {
	if !c.atMost(at+".device", requestsLimit, len(devices), "device blocks") {
		return
	}
	seen := map[string]bool{}
	for i := range devices {
		d := &devices[i]
		dat := fmt.Sprintf("%s.device[%s]", at, berth.Clip(d.Name, 64))
		parts := strings.Split(d.Name, "/")
		if len(parts) > 3 || slices.Contains(parts, "") || len(d.Name) > berth.MaxJobIDLen {
			c.addf(dat, "the name must be type, vendor/type or vendor/type/name")
		}
		if seen[d.Name] {
			c.addf(dat, "is defined twice; use count to ask for several")
		}
		seen[d.Name] = true
		if d.Count < 1 || d.Count > maxDevices {
			c.addf(dat+".count", "must be 1 to %d, got %d", maxDevices, d.Count)
		}
		c.ofDevice = true
		c.conditions(dat, d.Constraints, d.Affinities)
		c.ofDevice = false
	}
}

// numa checks the NUMA placement that a task requests.
func (c *checker) numa(at string, r *berth.Resources) {
	c.oneOf(at+".affinity", r.NUMA.Affinity, berth.NUMANone, berth.NUMAPrefer, berth.NUMARequire)
	if r.Cores == 0 {
		c.addf(at, "needs resources.cores; it has no effect with cpu")
	}
	for _, name := range r.NUMA.Devices {
		if !slices.ContainsFunc(r.Devices, func(d berth.RequestedDevice) bool { return d.Name == name }) {
			c.addf(at+".devices", "the task requests no device %q", berth.Clip(name, 64))
		}
	}
}

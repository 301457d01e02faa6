package admit

import (
	"fmt"
	"slices"
	"strings"

	"berth"
)

func (c *checker) resources(at string, r *berth.Resources) {
	switch {
	case r.Cores == 0:
		c.between(at+".cpu", int64(r.CPU), 1, berth.MaxCPU)
	case r.CPU != 0:
		c.addf(at+".cpu", "%d is there beside %d cores; a task asks for cpu or for cores", r.CPU, r.Cores)
	default:
		c.between(at+".cores", int64(r.Cores), 1, maxCores)
	}
	c.between(at+".memory", int64(r.MemoryMB), minMemoryMB, maxMemoryMB)
	if r.MemoryMaxMB != 0 {
		c.between(at+".memory_max", int64(r.MemoryMaxMB), int64(r.MemoryMB), maxMemoryMB)
	}
	c.devices(at, r.Devices)
	if r.NUMA != nil {
		c.numa(at+".numa", r)
	}
}

// devices checks what a task asks of its node's devices.
func (c *checker) devices(at string, devices []berth.RequestedDevice) {
	if len(devices) > maxRequests {
		c.addf(at+".device", "%d requests are too many; allowed are %d", len(devices), maxRequests)
		return
	}
	seen := map[string]bool{}
	for i := range devices {
		d := &devices[i]
		dat := fmt.Sprintf("%s.device[%s]", at, berth.Clip(d.Name, 64))
		parts := strings.Split(d.Name, "/")
		if len(parts) > 3 || slices.Contains(parts, "") || len(d.Name) > berth.MaxJobIDLen {
			c.addf(dat, "the name must be a type, a vendor/type or a vendor/type/name")
		}
		if seen[d.Name] {
			c.addf(dat, "is there twice; count says how many")
		}
		seen[d.Name] = true
		if d.Count < 1 || d.Count > maxDevices {
			c.addf(dat+".count", "%d is out of range; allowed are 1 to %d", d.Count, maxDevices)
		}
		c.ofDevice = true
		c.conditions(dat, d.Constraints, d.Affinities)
		c.ofDevice = false
	}
}

// numa checks what a task wants of NUMA nodes.
func (c *checker) numa(at string, r *berth.Resources) {
	c.oneOf(at+".affinity", r.NUMA.Affinity, berth.NUMANone, berth.NUMAPrefer, berth.NUMARequire)
	if r.Cores == 0 {
		c.addf(at, "is about whole cores; ask for cores instead of cpu")
	}
	for _, name := range r.NUMA.Devices {
		if !slices.ContainsFunc(r.Devices, func(d berth.RequestedDevice) bool { return d.Name == name }) {
			c.addf(at+".devices", "%q is not the name of a device that the task asks for", berth.Clip(name, 64))
		}
	}
}

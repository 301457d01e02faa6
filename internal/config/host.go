package config

import (
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"berth"

	"berth/internal/cpuset"
	"berth/internal/decode"
)

// What a machine offers to jobs by name (directories and networks), and which
// of its cores.

// cores reads a set of cores, such as "0-2,5".
func cores(field func(*Config) *[]uint16) setting {
	return func(d *decoder, path string, n *node) {
		s, ok := d.line(path, n)
		if !ok {
			return
		}
		set, err := cpuset.Parse(s)
		if err != nil {
			d.addf(n.pos, path, "%v", err)
			return
		}
		*field(d.to) = set
	}
}

// hostVolumes reads the host_volume blocks, each with its name as label.
func hostVolumes(d *decoder, path string, n *node) {
	d.to.Client.HostVolumes = named[HostVolume](d, path, n, func(v *HostVolume) table {
		return table{
			"path":      textInto(&v.Path),
			"read_only": flagInto(&v.ReadOnly),
		}
	})
}

// hostNetworks reads the host_network blocks, each with its name as label.
func hostNetworks(d *decoder, path string, n *node) {
	d.to.Client.HostNetworks = named[HostNetwork](d, path, n, func(v *HostNetwork) table {
		return table{
			"cidr":           textInto(&v.CIDR),
			"interface":      textInto(&v.Interface),
			"reserved_ports": textInto(&v.ReservedPorts),
		}
	})
}

// named reads blocks with a name each. keys returns the table of one block.
func named[T any](d *decoder, path string, n *node, keys func(v *T) table) map[string]T {
	o, ok := n.value.(object)
	if !ok {
		d.addf(n.pos, path, "must be a block with a name, got %s", kind(n.value))
		return nil
	}
	var out map[string]T
	for _, name := range o.keys() {
		at := decode.Join(path, name)
		d.setAt[at] = o[name].pos
		if _, ok := o[name].value.(object); !ok {
			d.addf(o[name].pos, berth.Clip(at, 100), "must be a block with a name: %s \"name\" { }, got %s", path[strings.LastIndexByte(path, '.')+1:], kind(o[name].value))
			continue
		}
		var v T
		d.block(at, o[name], keys(&v))
		if out == nil {
			out = map[string]T{}
		}
		out[name] = v
	}
	return out
}

// textInto and flagInto return settings for a field outside Config, such as
// that of a named block.
func textInto(to *string) setting { return text(func(*Config) *string { return to }) }
func flagInto(to *bool) setting   { return flag(func(*Config) *bool { return to }) }

// cores drops reservable_cores if the file does not set it, and refuses a
// configuration that reserves all of them for the system.
func (d *decoder) cores() {
	c := &d.to.Client
	if d.setAt["client.reservable_cores"] == "" || len(c.ReservableCores) == 0 {
		c.ReservableCores = nil
		return
	}
	// Cores held back for the system cannot be reserved by tasks.
	if left := cpuset.Minus(c.ReservableCores, c.Reserved.Cores); len(left) == 0 {
		d.fail("client.reservable_cores", "all of %s are in client.reserved.cores, which leaves none for tasks", cpuset.Format(c.ReservableCores))
	}
}

// hostVolumes checks that the directory of each volume exists now; a missing
// one would only show when a task fails.
func (d *decoder) hostVolumes() {
	for _, name := range slices.Sorted(maps.Keys(d.to.Client.HostVolumes)) {
		v, path := d.to.Client.HostVolumes[name], "client.host_volume."+berth.Clip(name, 100)
		d.name(path, name)
		switch info, err := os.Stat(v.Path); {
		case v.Path == "":
			d.fail(path, "path is missing: set the directory of the volume")
		case !filepath.IsAbs(v.Path):
			d.fail(path+".path", "%.200q is not an absolute path", v.Path)
		case err != nil:
			d.fail(path+".path", "%.200q: %s", v.Path, cause(err))
		case !info.IsDir():
			d.fail(path+".path", "%.200q is not a directory", v.Path)
		}
	}
}

// hostNetworks checks each host network: it needs a network, an interface, or
// both.
func (d *decoder) hostNetworks() {
	for _, name := range slices.Sorted(maps.Keys(d.to.Client.HostNetworks)) {
		v, path := d.to.Client.HostNetworks[name], "client.host_network."+berth.Clip(name, 100)
		d.name(path, name)
		switch _, err := netip.ParsePrefix(v.CIDR); {
		case v.CIDR == "" && v.Interface == "":
			d.fail(path, "cidr and interface are both missing: set at least one of them")
		case strings.Contains(v.CIDR, "{{"):
			d.fail(path+".cidr", "templates are not supported: use a network such as 203.0.113.0/24")
		case v.CIDR != "" && err != nil:
			d.fail(path+".cidr", "%.60q is not a network such as 203.0.113.0/24", v.CIDR)
		}
		if strings.Contains(v.Interface, "{{") {
			d.fail(path+".interface", "templates are not supported: use the name of an interface")
		}
		if bad := badPorts(v.ReservedPorts); bad != "" {
			d.fail(path+".reserved_ports", "%.40q is not a port or a range such as 8000-8100", bad)
		}
	}
}

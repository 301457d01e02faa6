package admit

import (
	"maps"
	"slices"

	"berth"
)

// What a job file can say and this build does not support yet is refused here,
// by name. Supporting a block removes its line.

// What a job file can say and this build cannot do yet is refused here, by
// name. Building a block removes its line.

// unsupported notes that the block or value at path has no behaviour yet.
func (c *checker) unsupported(present bool, at, instead string) {
	if present {
		if instead != "" {
			instead = "; " + instead
		}
		c.addf(at, "is not built yet%s", instead)
	}
}

func (c *checker) unsupportedJob(at string, j *berth.Job) {
	c.unsupported(j.Multiregion != nil, at+".multiregion", "")
	c.unsupported(j.ConsulNamespace != "", at+".consul_namespace", "")
	c.unsupported(j.VaultNamespace != "", at+".vault_namespace", "")
}

func (c *checker) unsupportedGroup(at string, j *berth.Job, g *berth.TaskGroup) {
	for _, name := range slices.Sorted(maps.Keys(g.Volumes)) {
		v, vat := g.Volumes[name], at+".volume["+berth.Clip(name, 64)+"]"
		if v.Type == berth.VolumeCSI {
			c.addf(vat+".type", "%q is not built yet; allowed is host", v.Type)
		}
		c.unsupported(v.Sticky, vat+".sticky", "allowed is false")
		c.unsupported(v.AccessMode != "", vat+".access_mode", "")
		c.unsupported(v.AttachmentMode != "", vat+".attachment_mode", "")
	}
	c.unsupported(g.Consul != nil, at+".consul", "")
	if d := g.EphemeralDisk; d != nil {
		c.unsupported(d.Sticky, at+".ephemeral_disk.sticky", "allowed is false")
		c.unsupported(d.Migrate, at+".ephemeral_disk.migrate", "allowed is false")
	}
	for i := range g.Networks {
		n := &g.Networks[i]
		nat := at + ".network"
		if n.Mode == berth.NetworkNone {
			c.addf(nat+".mode", "%q is not built yet; allowed are host, bridge and cni/…", n.Mode)
		}
		c.unsupported(n.DNS != nil, nat+".dns", "")
		c.unsupported(n.Hostname != "", nat+".hostname", "")
		c.unsupported(n.CNI != nil, nat+".cni", "")
		c.unsupported(n.Device != "", nat+".device", "")
		c.unsupported(n.CIDR != "", nat+".cidr", "")
		c.unsupported(n.IP != "", nat+".ip", "")
	}
}

func (c *checker) unsupportedTask(at string, t *berth.Task) {
	c.unsupported(t.Lifecycle != nil, at+".lifecycle", "")
	c.unsupported(len(t.Artifacts) > 0, at+".artifact", "")
	c.unsupported(t.Vault != nil, at+".vault", "")
	c.unsupported(t.Consul != nil, at+".consul", "")
	c.unsupported(len(t.Templates) > 0, at+".template", "")
	c.unsupported(len(t.VolumeMounts) > 0, at+".volume_mount", "")
	c.unsupported(t.CSIPluginConfig != nil, at+".csi_plugin", "")
	c.unsupported(t.Kind != "", at+".kind", "")
	c.unsupported(len(t.Secrets) > 0, at+".secret", "")
	c.unsupported(t.Identity != nil || len(t.Identities) > 0, at+".identity", "")
	c.unsupported(len(t.Actions) > 0, at+".action", "")
	c.unsupported(t.Schedule != nil, at+".schedule", "")
	r, rat := t.Resources, at+".resources"
	c.unsupported(r.SecretsMB != 0, rat+".secrets", "")
	c.unsupported(len(r.Networks) > 0, rat+".network", "the group's network block has ports for all its tasks")
}

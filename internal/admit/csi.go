package admit

import (
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"berth"
	"berth/internal/validate"
)

// csiVolume checks the request of a group for a CSI volume.
func (c *checker) csiVolume(at, name string, g *berth.TaskGroup, v *berth.VolumeRequest) {
	c.oneOf(at+".access_mode", v.AccessMode, validate.CSIAccess()...)
	c.oneOf(at+".attachment_mode", v.AttachmentMode, validate.VolumeAttachments()...)
	reads := v.AccessMode == berth.AccessReader || v.AccessMode == berth.AccessReaders
	if reads && !v.ReadOnly {
		c.addf(at+".read_only", "must be true with access mode %s", v.AccessMode)
	}
	if why := validate.MountOptions(v.MountOptions); why != "" {
		c.addf(at+".mount_options", "%s", why)
	}
	if v.AttachmentMode == berth.AttachBlock && validate.HasMountOptions(v.MountOptions) {
		c.addf(at+".mount_options", "is only for attachment mode %s, got %s", berth.AttachFilesystem, v.AttachmentMode)
	}
	for _, other := range slices.Sorted(maps.Keys(g.Volumes)) { // an allocation has a volume once
		o := g.Volumes[other]
		if o.Type == v.Type && o.Source == v.Source && o.PerAlloc == v.PerAlloc && o.AttachmentMode != v.AttachmentMode && other < name {
			c.addf(at+".attachment_mode", "must be %s, as volume %s of the group has the same source, got %q", berth.Clip(o.AttachmentMode, 64), berth.Clip(other, 64), berth.Clip(v.AttachmentMode, 64))
		}
	}
	if v.Sticky {
		c.addf(at+".sticky", "is only for volumes of type host")
	}
	// A canary runs beside the allocation whose volume it would need.
	alone := v.AccessMode == berth.AccessReader || !v.ReadOnly && (v.AccessMode == berth.AccessWriter || v.AccessMode == berth.AccessSingleWriter)
	if u := g.Update; u != nil && u.Canary > 0 && (alone || v.PerAlloc) {
		c.addf(at+".access_mode", "%s cannot be combined with update.canary, as a canary runs beside what has the volume", v.AccessMode)
	}
}

// csiPlugin checks the block of a task that is a CSI plugin, and fills in what it
// leaves out.
func (c *checker) csiPlugin(at string, p *berth.CSIPluginConfig) {
	if !validate.CSIPlugin(p.ID) {
		c.addf(at+".id", "must be 1 to 128 letters, digits, dots, dashes and underscores, got %q", berth.Clip(p.ID, 64))
	}
	c.oneOf(at+".type", p.Type, "controller", "node", "monolith")
	for _, d := range [2]struct{ key, dir string }{{"mount_dir", p.MountDir}, {"stage_publish_base_dir", p.StagePublishBaseDir}} {
		if !path.IsAbs(d.dir) || path.Clean(d.dir) == "/" || slices.Contains(strings.Split(d.dir, "/"), "..") || strings.ContainsRune(d.dir, 0) {
			c.addf(at+"."+d.key, "must be an absolute path below / without .. and NUL, got %q", berth.Clip(d.dir, 64))
		}
	}
	if p.HealthTimeout < time.Second || p.HealthTimeout > time.Hour {
		c.addf(at+".health_timeout", "must be 1s to 1h, got %s", p.HealthTimeout)
	}
}

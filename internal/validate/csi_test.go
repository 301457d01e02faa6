package validate

import (
	"fmt"
	"strings"
	"testing"

	"berth"
)

// good is a CSI volume that is valid.
func good() *berth.CSIVolume {
	return &berth.CSIVolume{
		ID: "data", Name: "data", PluginID: "disk", ExternalID: "vol-1",
		RequestedCapabilities: []berth.VolumeCapability{{AccessMode: berth.AccessWriter, AttachmentMode: berth.AttachFilesystem}},
	}
}

// hostile are texts that are no name of anything.
var hostile = []string{
	"", ".", "..", "../x", "a/b", "/etc/passwd", "a\\b", "a\x00b", "a\nb", "a b", " a", "-a", "$(id)", "`id`", "a;b", "${node.unique.id}", "%2e%2e", "a\u202eb",
	"\xff\xfe", "ä", "data[", "data[x]", "data[-1]", "data[0][1]", "data[0]/x", strings.Repeat("a", 200),
}

// A name that could be a path, a flag, a command or two lines is refused, wherever
// a CSI volume has a name.
func TestHostileNamesOfCSIVolumes(t *testing.T) {
	if err := CSIVolume(good()); err != nil {
		t.Fatal(err)
	}
	for field, set := range map[string]func(*berth.CSIVolume, string){
		"ID":       func(v *berth.CSIVolume, s string) { v.ID = s },
		"Name":     func(v *berth.CSIVolume, s string) { v.Name = s },
		"PluginID": func(v *berth.CSIVolume, s string) { v.PluginID = s },
	} {
		for _, text := range hostile {
			v := good()
			set(v, text)
			if err := CSIVolume(v); err == nil || !strings.Contains(err.Error(), field) {
				t.Errorf("%s %q: %v", field, text, err)
			}
		}
	}
	for _, id := range hostile {
		if CSIPlugin(id) {
			t.Errorf("%q is taken for the ID of a plugin", id)
		}
	}
}

// What goes to plugins as it is, is one line each and bounded.
func TestHostileTextsOfCSIVolumes(t *testing.T) {
	long := strings.Repeat("x", maxVolumeText+1)
	many := map[string]string{}
	for i := range maxVolumeMap + 1 {
		many[fmt.Sprint(i)] = "x"
	}
	bad := []string{"a\nb", "a\x00b", "\x1b[31m", "a\x7fb", "\xff", long}
	type change func(*berth.CSIVolume)
	all := map[string][]change{}
	for _, text := range bad {
		all["ExternalID"] = append(all["ExternalID"], func(v *berth.CSIVolume) { v.ExternalID = text })
		all["CloneID"] = append(all["CloneID"], func(v *berth.CSIVolume) { v.CloneID = text })
		all["SnapshotID"] = append(all["SnapshotID"], func(v *berth.CSIVolume) { v.SnapshotID = text })
		all["MountOptions"] = append(all["MountOptions"], func(v *berth.CSIVolume) { v.MountOptions = &berth.CSIMountOptions{MountFlags: []string{"ro", text}} })
	}
	for _, text := range append(bad, "ext4 -o x", "../ext4", "ext4,suid", "/bin/sh") {
		all["MountOptions"] = append(all["MountOptions"], func(v *berth.CSIVolume) { v.MountOptions = &berth.CSIMountOptions{FSType: text} })
	}
	all["MountOptions"] = append(all["MountOptions"],
		func(v *berth.CSIVolume) { v.MountOptions = &berth.CSIMountOptions{MountFlags: []string{"--bind"}} },
		func(v *berth.CSIVolume) { v.MountOptions = &berth.CSIMountOptions{MountFlags: []string{""}} },
		func(v *berth.CSIVolume) {
			v.MountOptions = &berth.CSIMountOptions{MountFlags: make([]string, maxVolumeMap+1)}
		})
	for _, m := range []map[string]string{many, {"": "x"}, {"k": long}, {long: "x"}, {"k": "\xff"}} {
		all["Parameters"] = append(all["Parameters"], func(v *berth.CSIVolume) { v.Parameters = m })
		all["Secrets"] = append(all["Secrets"], func(v *berth.CSIVolume) { v.Secrets = m })
		all["Context"] = append(all["Context"], func(v *berth.CSIVolume) { v.Context = m })
		all["Topologies"] = append(all["Topologies"], func(v *berth.CSIVolume) { v.Topologies = []berth.CSITopology{{Segments: m}} })
		all["RequestedTopologies"] = append(all["RequestedTopologies"], func(v *berth.CSIVolume) {
			v.RequestedTopologies = &berth.CSITopologyRequest{Required: []berth.CSITopology{{Segments: m}}}
		})
	}
	all["Topologies"] = append(all["Topologies"], func(v *berth.CSIVolume) { v.Topologies = make([]berth.CSITopology, maxTopologies+1) })
	n := 0
	for field, changes := range all {
		for i, c := range changes {
			v := good()
			c(v)
			if err := CSIVolume(v); err == nil || !strings.Contains(err.Error(), field) {
				t.Errorf("%s, change %d: %v", field, i, err)
			}
			n++
		}
	}
	t.Logf("%d hostile volumes were refused", n+3*len(hostile))
	block := good()
	block.RequestedCapabilities[0].AttachmentMode = berth.AttachBlock
	if err := CSIVolume(block); err != nil {
		t.Errorf("a block device: %v", err)
	}
	block.MountOptions = &berth.CSIMountOptions{FSType: "ext4"}
	if err := CSIVolume(block); err == nil || !strings.Contains(err.Error(), "MountOptions: must be left out: no capability has attachment mode file-system") {
		t.Errorf("mount options of a block device: %v", err)
	}
	block.RequestedCapabilities = append(block.RequestedCapabilities, good().RequestedCapabilities[0])
	if err := CSIVolume(block); err != nil {
		t.Errorf("mount options of a volume that can be mounted as well: %v", err)
	}
	v := good()
	v.MountOptions = &berth.CSIMountOptions{FSType: "fuse.s3fs", MountFlags: []string{"noatime", "uid=1000,gid=1000", "password=a b"}}
	if err := CSIVolume(v); err != nil {
		t.Errorf("usual options: %v", err)
	}
}

package jobspec

import (
	"regexp"

	"berth"
)

// csiType finds the type of a volume's specification in HCL and in JSON.
var csiType = regexp.MustCompile(`(?mi)(?:^|[{,])\s*"?type"?\s*[=:]\s*"csi"`)

// IsCSIVolume reports whether the specification of a volume says that it is a CSI
// volume.
func IsCSIVolume(file File) bool { return csiType.Match(file.Text) }

// ParseCSIVolume parses the specification of a CSI volume, in the forms of
// [ParseHostVolume].
func ParseCSIVolume(file File) (*berth.CSIVolume, error) {
	v, err := parseSettings[csiFile](file, "volume", csiSettings)
	if err != nil {
		return nil, err
	}
	if t := v.TopologyRequest; t != nil {
		v.RequestedTopologies = &berth.CSITopologyRequest{}
		if t.Required != nil {
			v.RequestedTopologies.Required = t.Required.Topology
		}
		if t.Preferred != nil {
			v.RequestedTopologies.Preferred = t.Preferred.Topology
		}
	}
	return &v.CSIVolume, nil
}

// csiFile is what a specification holds.
type csiFile struct {
	Type            string
	TopologyRequest *struct{ Required, Preferred *topologyList }
	berth.CSIVolume
}

// topologyList is a block with topologies.
type topologyList struct{ Topology []berth.CSITopology }

// csiSettings are those of a CSI volume.
var csiSettings = settings{
	texts: map[string]string{
		"type": "Type", "id": "ID", "name": "Name", "namespace": "Namespace", "plugin_id": "PluginID", "external_id": "ExternalID",
		"clone_id": "CloneID", "snapshot_id": "SnapshotID",
	},
	sizes:  map[string]string{"capacity_min": "RequestedCapacityMin", "capacity_max": "RequestedCapacityMax"},
	spells: true,
	blocks: map[string]settings{
		"capability":    {name: "RequestedCapabilities", many: true, texts: map[string]string{"access_mode": "AccessMode", "attachment_mode": "AttachmentMode"}},
		"mount_options": {name: "MountOptions", texts: map[string]string{"fs_type": "FSType"}, lists: map[string]string{"mount_flags": "MountFlags"}},
		"parameters":    {name: "Parameters", free: true},
		"secrets":       {name: "Secrets", free: true},
		"context":       {name: "Context", free: true},
		"topology_request": {name: "TopologyRequest", blocks: map[string]settings{
			"required":  {name: "Required", blocks: topologyBlocks},
			"preferred": {name: "Preferred", blocks: topologyBlocks},
		}},
	},
}

// topologyBlocks are the blocks of a list of topologies.
var topologyBlocks = map[string]settings{"topology": {name: "Topology", many: true, blocks: map[string]settings{"segments": {name: "Segments", free: true}}}}

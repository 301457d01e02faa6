package berth

import "time"

// HostVolume is a directory of one node that was created or registered while the
// cluster runs. Jobs ask for it by name. Requests carry the same struct as rows.
type HostVolume struct {
	Namespace                 string
	ID                        string // a UUID that the server gives
	Name                      string
	PluginID                  string `hcl:"plugin_id"` // of the node: who makes the directory
	NodePool                  string
	NodeID                    NodeID             `hcl:"node_id"`
	Constraints               []Constraint       `json:",omitempty" hcl:"constraint"` // that its node meets
	RequestedCapacityMinBytes int64              `hcl:"capacity_min"`
	RequestedCapacityMaxBytes int64              `hcl:"capacity_max"`
	CapacityBytes             int64              `hcl:"capacity"`
	RequestedCapabilities     []VolumeCapability `hcl:"capability"` // one of them must suit a job
	Parameters                map[string]string  `json:",omitempty" hcl:"parameters"`
	HostPath                  string
	State                     string `hcl:"-"` // one of the HostVolume constants

	CreateIndex uint64 `hcl:"-"`
	CreateTime  int64  `hcl:"-"` // ns since 1970, as below
	ModifyIndex uint64 `hcl:"-"`
	ModifyTime  int64  `hcl:"-"`
}

// The states of a host volume.
const (
	HostVolumePending     = "pending"     // its node does not offer it yet
	HostVolumeReady       = "ready"       // its node offers it
	HostVolumeUnavailable = "unavailable" // its node is down or gone
)

// VolumeCapability is a way to use a volume.
type VolumeCapability struct {
	AttachmentMode string // one of the Attach constants
	AccessMode     string // one of the Access constants
}

// The ways to attach a volume.
const (
	AttachBlock      = "block-device"
	AttachFilesystem = "file-system"
)

// The ways to share a volume. AccessWriter and AccessNodeMultiWriter allow any
// number of allocations of the node to write.
const (
	AccessReader           = "single-node-reader-only"
	AccessWriter           = "single-node-writer"
	AccessNodeSingleWriter = "single-node-single-writer"
	AccessNodeMultiWriter  = "single-node-multi-writer"

	AccessReaders      = "multi-node-reader-only" // of CSI volumes, as below
	AccessSingleWriter = "multi-node-single-writer"
	AccessMultiWriter  = "multi-node-multi-writer"
)

// HostVolumeClaim ties an instance of a group to the host volume that it used
// first, by "sticky" of its volume block.
type HostVolumeClaim struct {
	ID            string
	Namespace     string
	JobID         string
	TaskGroupName string
	AllocID       AllocID // the last one that used it
	AllocName     string  `json:"-"` // of the instance
	VolumeID      string
	VolumeName    string // its name in the cluster
	CreateIndex   uint64
	ModifyIndex   uint64
}

// CSIVolume is a volume of a storage provider, reached by a CSI plugin. Claims on
// it are rows of their own.
type CSIVolume struct {
	Namespace, ID, Name, ExternalID, PluginID            string
	Topologies                                           []CSITopology // where it can be reached; none: everywhere
	RequestedTopologies                                  *CSITopologyRequest
	RequestedCapabilities                                []VolumeCapability
	MountOptions                                         *CSIMountOptions
	Secrets, Parameters, Context                         map[string]string // for the plugin
	Capacity, RequestedCapacityMin, RequestedCapacityMax int64             // bytes
	CloneID, SnapshotID                                  string            // what it was made of
	CreateIndex, ModifyIndex                             uint64
	CreateTime, ModifyTime                               int64 // ns since 1970
}

// CSITopology is a part of the cluster, as a plugin names it.
type CSITopology struct{ Segments map[string]string }

// CSITopologyRequest says where a new volume must and should be reached.
type CSITopologyRequest struct{ Required, Preferred []CSITopology }

// CSIInfo is a CSI plugin that runs on a node.
type CSIInfo struct {
	PluginID, AllocID, Provider, ProviderVersion string
	Healthy                                      bool
	HealthDescription                            string
	UpdateTime                                   time.Time
	RequiresControllerPlugin, RequiresTopologies bool
	ControllerInfo                               *CSIControllerInfo `json:",omitempty"`
	NodeInfo                                     *CSINodeInfo       `json:",omitempty"`
}

// CSIControllerInfo is what a controller plugin can do.
type CSIControllerInfo struct {
	SupportsCreateDelete, SupportsAttachDetach, SupportsListVolumes, SupportsCreateDeleteSnapshot, SupportsListSnapshots, SupportsExpand, SupportsClone bool
}

// CSINodeInfo is what a node plugin knows of its node, and can do.
type CSINodeInfo struct {
	ID                                      string // the provider's
	MaxVolumes                              int64  // 0 is no limit
	AccessibleTopology                      *CSITopology
	RequiresNodeStageVolume, SupportsExpand bool
}

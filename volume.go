package berth

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

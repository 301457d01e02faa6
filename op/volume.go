package op

import (
	"berth"
	"berth/internal/acl"
	"berth/internal/validate"
)

// VolumesQuery asks for the volumes of one type.
type VolumesQuery struct {
	Type     string       `query:"type"` // host or csi; "" is no volume
	PluginID string       `query:"plugin_id"`
	NodeID   berth.NodeID `query:"node_id"`
	NodePool string       `query:"node_pool"`
	Query
}

// HostVolumeStub is a volume in a list. NodePool to State are those of a host
// volume, CSI those of a CSI volume.
type HostVolumeStub struct {
	Namespace     string
	ID            string
	Name          string
	PluginID      string
	NodePool      string       `json:",omitempty"`
	NodeID        berth.NodeID `json:",omitzero"`
	CapacityBytes int64        `json:",omitempty"`
	State         string       `json:",omitempty"`
	CreateIndex   uint64
	CreateTime    int64
	ModifyIndex   uint64
	ModifyTime    int64
	*CSIStub
}

// CSIStub is what a list shows of CSI volumes only.
type CSIStub struct {
	ExternalID                              string
	Topologies                              []berth.CSITopology `json:",omitempty"`
	AccessMode, AttachmentMode              string
	CurrentReaders, CurrentWriters          int
	Schedulable, ControllerRequired         bool
	Provider                                string
	ControllersHealthy, ControllersExpected int
	NodesHealthy, NodesExpected             int
}

// HostVolume is a host volume with the allocations that use it.
type HostVolume struct {
	*berth.HostVolume
	Allocations []AllocStub `json:",omitempty"`
}

// VolumeRef names a volume.
type VolumeRef struct {
	VolumeID string
	Query
}

// WriteHostVolume asks for a host volume to be created or registered. One with an
// ID is changed.
type WriteHostVolume struct {
	Volume         *berth.HostVolume
	PolicyOverride bool // accepted and without effect: there are no policies of this kind
	Write
}

// HostVolumeWritten is the host volume as it is stored.
type HostVolumeWritten struct {
	Volume   *berth.HostVolume
	Warnings string
}

// DeleteHostVolume asks for a host volume to be deleted.
type DeleteHostVolume struct {
	VolumeID string
	Force    bool `query:"force"` // also if its node does not answer
	Write
}

// ClaimsQuery asks for claims on host volumes.
type ClaimsQuery struct {
	JobID      string `query:"job_id"` // "" is any, as below
	TaskGroup  string `query:"task_group"`
	VolumeName string `query:"volume_name"`
	Query
}

// DeleteClaim asks for a claim to be deleted.
type DeleteClaim struct {
	ClaimID string
	Write
}

// The operations on volumes. DELETE
// /v1/volume/host/:id/delete is the older form.
var (
	ListVolumes          = define[VolumesQuery, []HostVolumeStub]("volume.list", "GET /v1/volumes", "", acl.AnyToken, acl.QuerySpace)
	CreateHostVolume     = define[WriteHostVolume, HostVolumeWritten]("host_volume.create", "PUT /v1/volume/host/create", "", acl.HostVolumeCreate, acl.VolumeSpace)
	RegisterHostVolume   = define[WriteHostVolume, HostVolumeWritten]("host_volume.register", "PUT /v1/volume/host/register", "", acl.HostVolumeRegister, acl.VolumeSpace)
	ReadHostVolume       = define[VolumeRef, HostVolume]("host_volume.read", "GET /v1/volume/host/{VolumeID}", "", acl.HostVolumeRead, acl.QuerySpace)
	RemoveHostVolume     = define[DeleteHostVolume, WriteAnswer]("host_volume.delete", "DELETE /v1/volume/host/{VolumeID}", "", acl.HostVolumeDelete, acl.QuerySpace)
	RemoveHostVolumeOld  = define[DeleteHostVolume, WriteAnswer]("host_volume.delete_old", "DELETE /v1/volume/host/{VolumeID}/delete", "", acl.HostVolumeDelete, acl.QuerySpace)
	ListHostVolumeClaims = define[ClaimsQuery, []*berth.HostVolumeClaim]("host_volume.claims", "GET /v1/volumes/claims", "", acl.HostVolumeRead, acl.QuerySpace)
	RemoveClaim          = define[DeleteClaim, WriteAnswer]("host_volume.delete_claim", "DELETE /v1/volumes/claim/{ClaimID}", "", acl.HostVolumeWrite, acl.QuerySpace)
)

// AgentHostVolume tells an agent what to do with a host volume.
type AgentHostVolume struct {
	NodeID string // of the agent
	Volume berth.HostVolume
	Write
}

// HostVolumeMade is what an agent made of a host volume.
type HostVolumeMade struct {
	HostPath      string
	CapacityBytes int64
}

// The operations on host volumes that agents serve.
var (
	AgentCreateVolume   = define[AgentHostVolume, HostVolumeMade]("agent.create_volume", "", "HostVolume.Create", acl.Server, acl.NoSpace, agents, write)
	AgentRegisterVolume = define[AgentHostVolume, HostVolumeMade]("agent.register_volume", "", "HostVolume.Register", acl.Server, acl.NoSpace, agents, write)
	AgentDeleteVolume   = define[AgentHostVolume, Nothing]("agent.delete_volume", "", "HostVolume.Delete", acl.Server, acl.NoSpace, agents, write)
)

// IsHostPlugin reports whether a text can be the ID of a host volume plugin. It
// names a file in the plugin directory of a node.
func IsHostPlugin(id string) bool { return validate.HostPlugin(id) }

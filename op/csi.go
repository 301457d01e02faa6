package op

import (
	"maps"
	"slices"
	"strings"
	"time"

	"berth"
	"berth/internal/acl"
	"berth/internal/decode"
	"berth/internal/validate"
)

// CSIVolume is a CSI volume with its plugin, and the allocations that use it. Its
// secrets are left out.
type CSIVolume struct {
	*berth.CSIVolume
	AccessMode, AttachmentMode              string              // of its claims; "" without any
	ReadAllocs, WriteAllocs                 map[string]*Nothing // by ID; the values are nil
	Allocations                             []AllocStub
	Claims                                  []CSIClaim
	Schedulable, ControllerRequired         bool
	Provider, ProviderVersion               string
	ControllersHealthy, ControllersExpected int
	NodesHealthy, NodesExpected             int
}

// CSIClaim is the claim of an allocation on a CSI volume. The API of Nomad does not
// have it.
type CSIClaim struct {
	AllocID  berth.AllocID
	NodeID   berth.NodeID
	ReadOnly bool
	State    string // taken, published, releasing, lost or node-detached
}

// CSIVolumeRef names a CSI volume.
type CSIVolumeRef struct {
	VolumeID string
	Query
}

// WriteCSIVolumes asks for a CSI volume to be registered or created; exactly one.
type WriteCSIVolumes struct {
	VolumeID       string
	Volumes        []*berth.CSIVolume
	PolicyOverride bool // accepted and without effect: there are no policies of this kind
	Write
}

// csiStatus are the fields of a volume that servers and plugins decide on.
var csiStatus = []string{
	"AccessMode", "AttachmentMode", "ReadAllocs", "WriteAllocs", "Allocations", "Claims", "Schedulable", "Provider", "ProviderVersion", "ControllerRequired",
	"ControllersHealthy", "ControllersExpected", "NodesHealthy", "NodesExpected", "ResourceExhausted", "CreateIndex", "ModifyIndex", "CreateTime", "ModifyTime",
}

// Shape drops what a volume has only when it is read, so that a client may send
// back a volume as it read it. The client of Nomad always sends all fields.
func (*WriteCSIVolumes) Shape(body decode.Tree) decode.Tree {
	for name, list := range body {
		volumes, ok := list.([]any)
		if !ok || !strings.EqualFold(name, "Volumes") {
			continue
		}
		for _, v := range volumes {
			if volume, ok := v.(decode.Tree); ok {
				maps.DeleteFunc(volume, func(field string, _ any) bool {
					return slices.ContainsFunc(csiStatus, func(s string) bool { return strings.EqualFold(s, field) })
				})
			}
		}
	}
	return body
}

// CSIVolumesWritten is the CSI volume as it is stored.
type CSIVolumesWritten struct {
	Volumes  []*berth.CSIVolume
	Warnings string
}

// DropCSIVolume asks for a CSI volume to be forgotten, or deleted at its provider.
type DropCSIVolume struct {
	VolumeID string
	Force    bool   `query:"force"`                // also if ended allocations and lost nodes have claims
	Secrets  string `header:"X-Nomad-CSI-Secrets"` // for the plugin, see ParseSecrets
	Write
}

// DetachCSIVolume asks for the claims on a volume to be given up that a node holds
// and nothing there uses. With Force the controller is not waited for either.
type DetachCSIVolume struct {
	VolumeID string
	Node     berth.NodeID `query:"node"`
	Force    bool         `query:"force"`
	Write
}

// PluginsQuery asks for the plugins of one type.
type PluginsQuery struct {
	Type string `query:"type"` // csi or ""
	Query
}

// PluginStub is a CSI plugin in a list.
type PluginStub struct {
	ID, Provider                            string
	ControllerRequired                      bool
	ControllersHealthy, ControllersExpected int
	NodesHealthy, NodesExpected             int
	CreateIndex, ModifyIndex                uint64
}

// PluginRef names a CSI plugin.
type PluginRef struct {
	PluginID string
	Query
}

// Plugin is a CSI plugin, the nodes that run it, and its allocations.
type Plugin struct {
	PluginStub
	Version            string
	Controllers, Nodes map[string]*berth.CSIInfo // by the node's ID
	Allocations        []AllocStub
}

// ExternalQuery asks a plugin for the volumes or snapshots of its provider.
type ExternalQuery struct {
	PluginID string `query:"plugin_id"`
	Secrets  string `header:"X-Nomad-CSI-Secrets"` // for the plugin, see ParseSecrets
	Query
}

// ExternalVolumes are volumes as the provider knows them.
type ExternalVolumes struct {
	Volumes   []ExternalVolume
	NextToken string
}

// ExternalVolume is a volume as the provider knows it.
type ExternalVolume struct {
	ExternalID               string
	CapacityBytes            int64
	VolumeContext            map[string]string
	CloneID, SnapshotID      string
	PublishedExternalNodeIDs []string
	IsAbnormal               bool   // the provider says that something is wrong with it
	Status                   string // what
}

// CSISnapshot is a snapshot of a volume at the provider.
type CSISnapshot struct {
	ID, ExternalSourceVolumeID string
	SizeBytes, CreateTime      int64
	IsReady                    bool
	SourceVolumeID, PluginID   string
	Name                       string            // to create one, as below
	Secrets, Parameters        map[string]string `json:",omitempty"`
}

// WriteSnapshots asks for a snapshot of a volume; exactly one.
type WriteSnapshots struct {
	Snapshots []*CSISnapshot
	Secrets   string `header:"X-Nomad-CSI-Secrets"` // for the plugin, see ParseSecrets
	Write
}

// Snapshots are snapshots at the provider.
type Snapshots struct {
	Snapshots []*CSISnapshot
	NextToken string
}

// DropSnapshot asks for a snapshot to be deleted.
type DropSnapshot struct {
	SnapshotID string `query:"snapshot_id"`
	PluginID   string `query:"plugin_id"`
	Secrets    string `header:"X-Nomad-CSI-Secrets"` // for the plugin, see ParseSecrets
	Write
}

// ParseSecrets reads the secrets of a request: name=value, with commas between
// them. A value has no comma.
func ParseSecrets(text string) (map[string]string, error) {
	out := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		if pair == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, berth.Errorf(berth.Invalid, "secrets: must be name=value with commas between them") // what was got is secret
		}
		out[name] = value
	}
	return out, nil
}

// The operations on CSI volumes, snapshots and plugins.
var (
	ReadCSIVolume       = define[CSIVolumeRef, CSIVolume]("csi_volume.read", "GET /v1/volume/csi/{VolumeID}", "", acl.CSIReadVolume, acl.QuerySpace)
	RegisterCSIVolume   = define[WriteCSIVolumes, CSIVolumesWritten]("csi_volume.register", "PUT /v1/volume/csi/{VolumeID}", "", acl.CSIWriteVolume, acl.VolumeSpace)
	RegisterCSIVolumes  = define[WriteCSIVolumes, CSIVolumesWritten]("csi_volume.register_old", "PUT /v1/volumes", "", acl.CSIWriteVolume, acl.VolumeSpace)
	CreateCSIVolume     = define[WriteCSIVolumes, CSIVolumesWritten]("csi_volume.create", "PUT /v1/volume/csi/{VolumeID}/create", "", acl.CSIWriteVolume, acl.VolumeSpace)
	DeregisterCSIVolume = define[DropCSIVolume, WriteAnswer]("csi_volume.deregister", "DELETE /v1/volume/csi/{VolumeID}", "", acl.CSIWriteVolume, acl.QuerySpace)
	RemoveCSIVolume     = define[DropCSIVolume, WriteAnswer]("csi_volume.delete", "DELETE /v1/volume/csi/{VolumeID}/delete", "", acl.CSIWriteVolume, acl.QuerySpace)
	DetachVolume        = define[DetachCSIVolume, WriteAnswer]("csi_volume.detach", "DELETE /v1/volume/csi/{VolumeID}/detach", "", acl.CSIWriteVolume, acl.QuerySpace)
	ListExternalVolumes = define[ExternalQuery, ExternalVolumes]("csi_volume.external", "GET /v1/volumes/external", "", acl.CSIListVolume, acl.QuerySpace)
	ListSnapshots       = define[ExternalQuery, Snapshots]("csi_snapshot.list", "GET /v1/volumes/snapshot", "", acl.CSIListVolume, acl.QuerySpace)
	CreateSnapshot      = define[WriteSnapshots, Snapshots]("csi_snapshot.create", "PUT /v1/volumes/snapshot", "", acl.CSIWriteVolume, acl.QuerySpace)
	RemoveSnapshot      = define[DropSnapshot, WriteAnswer]("csi_snapshot.delete", "DELETE /v1/volumes/snapshot", "", acl.CSIWriteVolume, acl.QuerySpace)
	ListPlugins         = define[PluginsQuery, []PluginStub]("plugin.list", "GET /v1/plugins", "", acl.PluginList, acl.NoSpace)
	ReadPlugin          = define[PluginRef, Plugin]("plugin.read", "GET /v1/plugin/csi/{PluginID}", "", acl.PluginRead, acl.NoSpace)
)

// CSITime is how long one call of a plugin may take.
const CSITime = 2 * time.Minute

// What an agent is to have a plugin do. Each can be asked for again.
const (
	CSIPublish        = "publish"
	CSIUnpublish      = "unpublish"
	CSICreate         = "create"
	CSIDelete         = "delete"
	CSIExpand         = "expand"
	CSINodeExpand     = "node-expand"
	CSINodeDetach     = "node-detach"
	CSIList           = "list"
	CSISnapshotCreate = "snapshot-create"
	CSISnapshotDelete = "snapshot-delete"
	CSISnapshotList   = "snapshot-list"
)

// AgentCSI tells an agent what to have a plugin of its node do. Which fields count
// depends on Do.
type AgentCSI struct {
	NodeID         string // of the agent
	Do             string // one of the CSI constants
	Volume         berth.CSIVolume
	AllocID        string // node-detach, node-expand
	ExternalNodeID string // publish, unpublish
	AccessMode     string // publish, expand, node-expand, as below
	AttachmentMode string
	ReadOnly       bool
	SnapshotID     string
	Name           string // of a snapshot
	PerPage        int32
	NextToken      string
	Write
}

// CSIDone is what a plugin did.
type CSIDone struct {
	Context   map[string]string // publish: what the node is told
	Volume    *berth.CSIVolume  // create, expand: external ID, capacity, context and topologies
	OnNode    bool              // expand: each node that uses the volume is to expand it as well
	Volumes   []ExternalVolume  // list
	Snapshots []*CSISnapshot
	NextToken string
}

// ReadClaim asks for the claim of an allocation of the node on a CSI volume.
type ReadClaim struct {
	NodeID   berth.NodeID
	AllocID  berth.AllocID
	VolumeID string
	Query
}

// GrantedClaim is what a node needs to mount a CSI volume.
type GrantedClaim struct {
	Published  bool   // it may be mounted
	Waits      string // for what, while it may not
	Volume     berth.CSIVolume
	Context    map[string]string // of the controller
	ReadOnly   bool
	AccessMode string

	AttachmentMode string
	Meta
}

// The operations by which servers and agents handle CSI volumes.
var (
	CallCSI  = define[AgentCSI, CSIDone]("agent.csi", "", "CSI.Call", acl.Server, acl.NoSpace, agents, write)
	GetClaim = define[ReadClaim, GrantedClaim]("csi_volume.claim", "", "CSIVolume.Claim", acl.Node, acl.NoSpace)
)

// CSIInfoFault returns what is wrong with what a plugin says of itself; "": nothing.
// Servers refuse a node that says so.
func CSIInfoFault(x *berth.CSIInfo) string { return validate.CSIInfo(x) }

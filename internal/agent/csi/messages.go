package csi

// The messages of the interface, csi.proto of container-storage-interface/spec
// 1.13, as far as they are used.

type empty struct{}

type pluginInfo struct {
	Name    string `pb:"1"`
	Version string `pb:"2"`
}

type enum struct {
	Type int32 `pb:"1"`
}

type capability struct {
	Kind *enum `pb:"1"` // a service of a plugin, or a call of a service
}

type capabilities struct {
	List []capability `pb:"1"`
}

// has reports whether a capability is listed.
func (c *capabilities) has(typ int32) bool {
	for _, x := range c.List {
		if x.Kind != nil && x.Kind.Type == typ {
			return true
		}
	}
	return false
}

// The capabilities that are used: of plugins, controllers and nodes.
const (
	pluginController = 1
	pluginTopology   = 2

	controllerCreate    = 1
	controllerPublish   = 2
	controllerList      = 3
	controllerSnapshot  = 5
	controllerSnapshots = 6
	controllerClone     = 7
	controllerExpand    = 9

	nodeStage  = 1
	nodeExpand = 3
)

type probed struct {
	Ready *boolean `pb:"1"` // nil is ready
}

type boolean struct {
	Value bool `pb:"1"`
}

type nodeInfo struct {
	ID       string    `pb:"1"`
	Max      int64     `pb:"2"`
	Topology *topology `pb:"3"`
}

type topology struct {
	Segments map[string]string `pb:"1"`
}

type topologies struct {
	Requisite []topology `pb:"1"`
	Preferred []topology `pb:"2"`
}

type mount struct {
	Type  string   `pb:"1"`
	Flags []string `pb:"2"`
}

type access struct { // a VolumeCapability, with one of Block and Mount
	Block *empty `pb:"1"`
	Mount *mount `pb:"2"`
	Mode  *enum  `pb:"3"`
}

type capacity struct {
	Required int64 `pb:"1"`
	Limit    int64 `pb:"2"`
}

type byID struct {
	ID string `pb:"1"`
}

type source struct {
	Snapshot *byID `pb:"1"`
	Volume   *byID `pb:"2"`
}

type createVolume struct {
	Name         string            `pb:"1"`
	Capacity     *capacity         `pb:"2"`
	Capabilities []access          `pb:"3"`
	Parameters   map[string]string `pb:"4"`
	Secrets      map[string]string `pb:"5"`
	Source       *source           `pb:"6"`
	Topologies   *topologies       `pb:"7"`
}

type volume struct {
	Capacity   int64             `pb:"1"`
	ID         string            `pb:"2"`
	Context    map[string]string `pb:"3"`
	Source     *source           `pb:"4"`
	Topologies []topology        `pb:"5"`
}

type created struct {
	Volume *volume `pb:"1"`
}

type deleteByID struct { // a volume or a snapshot
	ID      string            `pb:"1"`
	Secrets map[string]string `pb:"2"`
}

type controllerPublishVolume struct {
	ID       string            `pb:"1"`
	Node     string            `pb:"2"`
	Access   *access           `pb:"3"`
	ReadOnly bool              `pb:"4"`
	Secrets  map[string]string `pb:"5"`
	Context  map[string]string `pb:"6"`
}

type controllerPublished struct {
	Context map[string]string `pb:"1"`
}

type controllerUnpublishVolume struct {
	ID      string            `pb:"1"`
	Node    string            `pb:"2"`
	Secrets map[string]string `pb:"3"`
}

type listVolumes struct {
	Max   int32  `pb:"1"`
	Token string `pb:"2"`
}

type listedVolumes struct {
	Entries []listedVolume `pb:"1"`
	Next    string         `pb:"2"`
}

type listedVolume struct {
	Volume *volume      `pb:"1"`
	Status *publishedOn `pb:"2"`
}

type publishedOn struct {
	Nodes     []string   `pb:"1"`
	Condition *condition `pb:"2"`
}

type condition struct {
	Abnormal bool   `pb:"1"`
	Message  string `pb:"2"`
}

type createSnapshot struct {
	Volume     string            `pb:"1"`
	Name       string            `pb:"2"`
	Secrets    map[string]string `pb:"3"`
	Parameters map[string]string `pb:"4"`
}

type timestamp struct {
	Seconds int64 `pb:"1"`
}

type snapshot struct {
	Bytes   int64      `pb:"1"`
	ID      string     `pb:"2"`
	Volume  string     `pb:"3"`
	Created *timestamp `pb:"4"`
	Ready   bool       `pb:"5"`
}

type snapshotted struct {
	Snapshot *snapshot `pb:"1"`
}

type listSnapshots struct {
	Max     int32             `pb:"1"`
	Token   string            `pb:"2"`
	Secrets map[string]string `pb:"5"`
}

type listedSnapshots struct {
	Entries []snapshotted `pb:"1"`
	Next    string        `pb:"2"`
}

type expandVolume struct {
	ID       string            `pb:"1"`
	Capacity *capacity         `pb:"2"`
	Secrets  map[string]string `pb:"3"`
	Access   *access           `pb:"4"`
}

type expanded struct {
	Capacity int64 `pb:"1"`
	Node     bool  `pb:"2"`
}

type nodeExpandVolume struct {
	ID       string    `pb:"1"`
	Path     string    `pb:"2"`
	Capacity *capacity `pb:"3"`
	Stage    string    `pb:"4"`
	Access   *access   `pb:"5"`
}

type nodeStageVolume struct {
	ID        string            `pb:"1"`
	Published map[string]string `pb:"2"`
	Stage     string            `pb:"3"`
	Access    *access           `pb:"4"`
	Secrets   map[string]string `pb:"5"`
	Context   map[string]string `pb:"6"`
}

type nodeUnstageVolume struct {
	ID    string `pb:"1"`
	Stage string `pb:"2"`
}

type nodePublishVolume struct {
	ID        string            `pb:"1"`
	Published map[string]string `pb:"2"`
	Stage     string            `pb:"3"`
	Target    string            `pb:"4"`
	Access    *access           `pb:"5"`
	ReadOnly  bool              `pb:"6"`
	Secrets   map[string]string `pb:"7"`
	Context   map[string]string `pb:"8"`
}

type nodeUnpublishVolume struct {
	ID     string `pb:"1"`
	Target string `pb:"2"`
}
